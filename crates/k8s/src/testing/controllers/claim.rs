//! Claims that go: kept as long as pods use them.

use serde_json::Value;

use super::super::object::{Object, list, meta, text};
use super::super::state::State;
use super::Tables;

/// The finalizer by which a claim stays while pods use it.
pub(super) const PROTECTION: &str = "kubernetes.io/pvc-protection";

/// The names of the claims of a pod.
pub(super) fn claims(pod: &Object) -> impl Iterator<Item = &str> {
    let volumes = list(pod, &["spec", "volumes"]).iter();
    volumes.filter_map(|volume| volume.pointer("/persistentVolumeClaim/claimName").and_then(Value::as_str))
}

/// Whether a pod that has not ended uses a claim.
pub(super) fn is_used(state: &State, tables: Tables, claim: &Object) -> bool {
    let (prefix, name) = (format!("{}/", meta(claim, "namespace")), meta(claim, "name"));
    let uses = |pod: &Object| {
        !matches!(text(pod, &["status", "phase"]), "Succeeded" | "Failed") && claims(pod).any(|used| used == name)
    };
    state.tables.get(tables.pods).is_some_and(|pods| pods.within(&prefix).any(|(_, pod)| uses(&pod.object)))
}
