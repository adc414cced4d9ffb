//! PersistentVolumeClaims.

use serde_json::{Value, json};

use super::super::object::{Object, at, child, finalizers, list, set_finalizers};
use super::super::refusal::Cause;

/// Keeps a claim while pods use it.
const PROTECTION: &str = "kubernetes.io/pvc-protection";

pub(super) fn complete(old: Option<&Object>, object: &mut Object) {
    let spec = child(object, "spec");
    spec.entry("volumeMode").or_insert_with(|| "Filesystem".into());
    if old.is_none() {
        object.insert("status".to_owned(), json!({"phase": "Pending"}));
        let names: Vec<String> = finalizers(object).into_iter().map(str::to_owned).collect();
        if !names.iter().any(|name| name == PROTECTION) {
            set_finalizers(object, names.into_iter().chain([PROTECTION.to_owned()]).collect());
        }
    }
}

pub(super) fn check(old: Option<&Object>, object: &Object) -> Vec<Cause> {
    let mut causes = Vec::new();
    if list(object, &["spec", "accessModes"]).is_empty() {
        causes.push(Cause::required("spec.accessModes", "at least 1 access mode is required"));
    }
    if at(object, &["spec", "resources", "requests", "storage"]).is_none() {
        causes.push(Cause::required("spec.resources[storage]", ""));
    }
    if let Some(old) = old
        && fixed(old) != fixed(object)
    {
        causes.push(Cause::forbidden(
            "spec",
            "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims",
        ));
    }
    causes
}

/// The part of the spec that stays.
fn fixed(object: &Object) -> Value {
    let mut spec = object.get("spec").cloned().unwrap_or(Value::Null);
    if let Some(spec) = spec.as_object_mut() {
        spec.remove("resources");
        spec.remove("volumeName");
    }
    spec
}
