//! What may change in a stored flow: no spec of one that has begun, `stop` only to a stronger one, and approvals that name Manual steps and stay. Owns the
//! comparison of two objects; who may write is not asked here.

use orlop_core::name::short63;
use orlop_core::spec::flow::JobFlow;
use serde_json::Value;

use crate::code::Code;
use crate::manifest::path::Path;
use crate::manifest::schema::nearest;
use crate::manifest::violation::{Note, Violations, shown};

/// Prefix of approval annotations.
const APPROVAL: &str = "approved.workflow.kube-zen.io/";
/// Prefix of their documented form, which Kubernetes refuses.
const APPROVAL_DOCUMENTED: &str = "workflow.kube-zen.io/approved/";
/// Fields of the spec that may change at any time.
const MUTABLE: [&str; 3] = ["suspend", "suspendMode", "stop"];
/// Deepest difference that is named; below it the field that holds it is.
const DEPTH: usize = 12;

/// Everything that forbids replacing `old` by `new`. The new object must also keep the rules of every flow
/// ([`validate`](super::validate)).
pub fn validate_update(old: &JobFlow, new: &JobFlow) -> Violations {
    let mut found = Violations::new();
    let status = old.status.as_ref();
    if status.is_some_and(|status| status.phase.is_terminal()) && old.spec == new.spec {
        return found;
    }
    stop(old, new, &mut found);
    approvals(old, new, &mut found);
    if status.is_some_and(|status| status.start_time.is_some()) {
        frozen(old, new, &mut found);
    }
    found
}

fn stop(old: &JobFlow, new: &JobFlow, found: &mut Violations) {
    let Some(given) = old.spec.stop else { return };
    let spec = Path::ROOT.field("spec");
    let path = spec.field("stop");
    match new.spec.stop {
        None => found.error(Code::Value, &path, || {
            (format!("the order to stop ({given:?}) is taken back"), "leave it; repeat the flow with a retry instead")
        }),
        Some(wanted) if wanted < given => found.error(Code::Value, &path, || {
            (format!("stop goes back from {given:?} to {wanted:?}"), "it may only rise from Graceful to Terminate")
        }),
        Some(_) => {}
    }
}

/// Names the first field that differs.
fn frozen(old: &JobFlow, new: &JobFlow, found: &mut Violations) {
    if old.spec == new.spec {
        return;
    }
    let both = serde_json::to_value(&old.spec).and_then(|old| Ok((old, serde_json::to_value(&new.spec)?)));
    let (mut old, mut new) = match both {
        Ok(both) => both,
        Err(error) => {
            return found
                .error(Code::Immutable, &Path::ROOT.field("spec"), || format!("the spec cannot be compared: {error}"));
        }
    };
    for spec in [&mut old, &mut new] {
        if let Value::Object(spec) = spec {
            spec.retain(|field, _| !MUTABLE.contains(&field.as_str()));
        }
    }
    difference(&old, &new, &Path::ROOT.field("spec"), DEPTH, found);
}

/// Reports the first difference of two trees. Recursion ends at `depth`.
fn difference(old: &Value, new: &Value, path: &Path<'_>, depth: usize, found: &mut Violations) {
    if old == new {
        return;
    }
    if depth > 0 {
        match (old, new) {
            (Value::Object(a), Value::Object(b)) => {
                let keys = a.keys().chain(b.keys());
                if let Some(key) = keys.into_iter().find(|key| a.get(*key) != b.get(*key)) {
                    let null = &Value::Null;
                    let pair = (a.get(key).unwrap_or(null), b.get(key).unwrap_or(null));
                    return difference(pair.0, pair.1, &path.field(key), depth - 1, found);
                }
            }
            (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
                if let Some((index, pair)) = a.iter().zip(b).enumerate().find(|(_, (a, b))| a != b) {
                    return difference(pair.0, pair.1, &path.index(index), depth - 1, found);
                }
            }
            _ => {}
        }
    }
    found.error(Code::Immutable, path, || {
        (
            "the flow has started, so its spec does not change",
            "restore the field; only suspend, suspendMode and stop may change",
        )
    });
}

fn approvals(old: &JobFlow, new: &JobFlow, found: &mut Violations) {
    let metadata = Path::ROOT.field("metadata");
    let path = metadata.field("annotations");
    let before = &old.metadata.annotations;
    for (key, value) in before.iter().filter(|(key, value)| approved(key).is_some() && is_decision(value)) {
        if new.metadata.annotations.get(key) != Some(value) {
            found.error(Code::Approval, &path.field(key), || {
                (format!("the decision {} is taken back", shown(value)), "leave it: decisions are final")
            });
        }
    }
    for (key, value) in new.metadata.annotations.iter().filter(|(key, value)| before.get(*key) != Some(value)) {
        let Some(step) = approved(key) else { continue };
        let manual = || new.spec.steps.iter().filter(|step| step.is_manual());
        if !manual().any(|known| known.name == step || short63(&known.name) == step) {
            found.error(Code::Approval, &path.field(key), || {
                let guess = nearest(step, manual().map(|step| step.name.as_str()));
                let help = guess.map_or_else(
                    || "name a step of type Manual".to_owned(),
                    |guess| format!("did you mean `{APPROVAL}{}`?", short63(guess)),
                );
                Note::new(format!("the flow has no Manual step {}", shown(step)), Some(help))
            });
        } else if !is_decision(value) {
            found.warning(Code::Approval, &path.field(key), || {
                (format!("{} decides nothing", shown(value)), "write `true` or `rejected`")
            });
        }
    }
}

/// The step an annotation key approves.
fn approved(key: &str) -> Option<&str> {
    key.strip_prefix(APPROVAL).or_else(|| key.strip_prefix(APPROVAL_DOCUMENTED))
}

fn is_decision(value: &str) -> bool {
    matches!(value, "true" | "rejected")
}
