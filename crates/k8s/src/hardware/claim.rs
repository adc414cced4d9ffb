//! Templates of claims on devices (dynamic resource allocation). Owns their form.

use orlop_core::hardware::merge::Merged;
use serde_json::{Value, json};

/// The template of the claims that a pod makes, in a version of the API that is served; none where it makes none. Owner
/// and labels are the caller's matter.
#[must_use]
pub fn claim_template(merged: &Merged, name: &str, namespace: &str, version: &str) -> Option<Value> {
    let claim = merged.claims.first()?;
    let selectors: Vec<Value> =
        claim.selectors.iter().map(|expression| json!({"cel": {"expression": expression}})).collect();
    let mut exactly = json!({
        "deviceClassName": claim.class,
        "allocationMode": "ExactCount",
        "count": claim.count,
    });
    if !selectors.is_empty() {
        exactly["selectors"] = Value::Array(selectors);
    }
    Some(json!({
        "apiVersion": format!("resource.k8s.io/{version}"),
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}},
    }))
}
