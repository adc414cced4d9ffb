//! Validates flows: all rules of manifests at creation, and at an update also what may change.

use orlop_core::name::short63;
use orlop_dag::engine::left_of;
use orlop_dag::manifest::{Code, FieldPath, Path, Severity, Violation, Violations, validate_update};
use serde_json::Value;

use super::Settings;
use super::identity::{annotation, annotations, decision_of, gone, member, news};
use super::review::{AdmissionRequest, AdmissionResponse};
use crate::convert;

/// Whether a request is allowed.
pub(super) fn respond(request: &AdmissionRequest, settings: &Settings) -> AdmissionResponse {
    if request.is_update() && only_metadata_of_the_past(request) {
        return AdmissionResponse::default();
    }
    let mut found = Violations::new();
    match convert::read(&request.object, &settings.limits) {
        Ok(mut new) => {
            found.append(new.warnings);
            for path in &new.unknown {
                found.add_at(
                    (Severity::Warning, Code::Value),
                    || place(path),
                    || "is unknown and will not be stored".to_owned(),
                );
            }
            if request.is_update() {
                match convert::read(&request.old_object, &settings.limits) {
                    Ok(mut old) => {
                        // What cannot be read of a status says no more than none.
                        old.flow.status = convert::status(&request.old_object).unwrap_or_default();
                        new.flow.status.clone_from(&old.flow.status);
                        found.append(validate_update(&old.flow, &new.flow));
                    }
                    Err(_) => changed(request, &mut found),
                }
            }
        }
        Err(wrong) if request.is_update() => {
            let before = convert::read(&request.old_object, &settings.limits).err().unwrap_or_default();
            found.append(new_only(wrong, &before));
            changed(request, &mut found);
        }
        Err(wrong) => found.append(wrong),
    }
    identities(request, &mut found);
    confirmations(request, &mut found);
    AdmissionResponse::of(&found)
}

/// That an attempt is gone is only confirmed where its cancellation is blocked.
fn confirmations(request: &AdmissionRequest, found: &mut Violations) {
    let status = convert::status(&request.old_object).ok().flatten().unwrap_or_default();
    let metadata = Path::ROOT.field("metadata");
    let path = metadata.field("annotations");
    for (key, value) in news(&request.object, &request.old_object) {
        let Some(short) = gone(key) else { continue };
        let step = status.steps.iter().find(|step| short63(&step.name) == short);
        // A packed status does not show all; the engine takes no confirmation of an attempt that is not blocked.
        if status.steps_packed.is_some() && step.is_none_or(|step| step.message.is_empty()) {
            continue;
        }
        let blocked = step.filter(|step| left_of(step).is_some());
        if blocked.is_none_or(|step| step.attempt.to_string() != value) {
            found.error(Code::Confirmation, &path.field(key), || {
                let help = match blocked {
                    Some(step) => format!("its attempt {} is: write that number", step.attempt),
                    None => "wait for the condition CancelBlocked: until then the cluster reports when it is gone"
                        .to_owned(),
                };
                (format!("attempt {value} of `{short}` is not CancelBlocked"), help)
            });
        }
    }
}

/// Whether nothing but metadata changes of a flow that is over.
fn only_metadata_of_the_past(request: &AdmissionRequest) -> bool {
    let over = convert::status(&request.old_object).ok().flatten().is_some_and(|status| status.phase.is_terminal());
    over && request.object.get("spec") == request.old_object.get("spec")
}

/// An update is not held against what was stored already: control orders and finalizers always work.
fn new_only(mut wrong: Violations, before: &Violations) -> Violations {
    let same = |a: &Violation, b: &Violation| (a.code, &a.path, &a.message) == (b.code, &b.path, &b.message);
    wrong.retain(|violation| !before.iter().any(|known| same(known, violation)));
    wrong
}

/// An update where one of the two objects cannot be read: the spec as it is stored must be the same.
fn changed(request: &AdmissionRequest, found: &mut Violations) {
    let started = request.old_object.pointer("/status/startTime").is_some_and(|time| !time.is_null());
    if started && convert::spec_hash(&request.old_object) != convert::spec_hash(&request.object) {
        found.error(Code::Immutable, &Path::ROOT.field("spec"), || {
            ("the flow has started, so its spec does not change", "only suspend, suspendMode and stop may change")
        });
    }
}

/// The decider is the user of the request, and stays while the decision stands.
fn identities(request: &AdmissionRequest, found: &mut Violations) {
    let metadata = Path::ROOT.field("metadata");
    let path = metadata.field("annotations");
    for (key, value) in news(&request.object, &request.old_object).filter(|(key, _)| decision_of(key).is_some()) {
        let note: Option<Value> = serde_json::from_str(value).ok();
        let by = note.as_ref().and_then(|note| member(note, "by"));
        if by != Some(request.user()) {
            found.error(Code::Approval, &path.field(key), || {
                let user = request.user();
                (
                    format!("`by` is not `{user}`, who sends the request"),
                    "leave the annotation out: it is written for you",
                )
            });
        }
    }
    for (key, _) in annotations(&request.old_object).into_iter().flatten() {
        let Some(decision) = decision_of(key) else { continue };
        let stands = annotation(&request.object, &decision).is_some();
        if stands && annotation(&request.object, key).is_none() {
            found.error(Code::Approval, &path.field(key), || {
                ("the name of the decision maker is removed", "leave it while the decision stands")
            });
        }
    }
}

/// A path as text is read back; one that cannot be is that of the whole object.
fn place(path: &str) -> FieldPath {
    path.parse().unwrap_or_default()
}
