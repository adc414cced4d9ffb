//! What pods may do. Owns the two profiles as security contexts.

use serde_json::{Value, json};

use super::spec::SecurityProfile;

/// The name of the volume that is mounted at `/tmp`.
pub(crate) const SCRATCH: &str = "tmp";

/// The security context of a pod.
#[must_use]
pub fn pod(profile: SecurityProfile) -> Value {
    let seccomp = json!({"type": "RuntimeDefault"});
    match profile {
        SecurityProfile::Restricted => json!({"runAsNonRoot": true, "seccompProfile": seccomp}),
        SecurityProfile::Baseline => json!({"seccompProfile": seccomp}),
    }
}

/// The security context of a container.
#[must_use]
pub fn container(profile: SecurityProfile) -> Value {
    match profile {
        SecurityProfile::Restricted => json!({
            "allowPrivilegeEscalation": false,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": true,
        }),
        SecurityProfile::Baseline => json!({"allowPrivilegeEscalation": false}),
    }
}

/// The volume for `/tmp`, which a read-only root leaves no other place for.
#[must_use]
pub fn scratch() -> (Value, Value) {
    (json!({"name": SCRATCH, "emptyDir": {}}), json!({"name": SCRATCH, "mountPath": "/tmp"}))
}
