//! Subresources: status, scale, eviction of pods, finalize of namespaces.

use serde_json::Value;

use super::super::answer::{Answer, scale};
use super::super::kind::{Builtin, Kind};
use super::super::object::{self, Object};
use super::super::patching::{json, merge};
use super::super::refusal::{Refusal, Result};
use super::super::request::{Call, PatchKind, Verb};
use super::super::state::State;
use super::delete::{Options, delete_object};
use super::{patch, read, replace};

/// A call on a subresource.
pub(crate) fn handle(state: &mut State, table: usize, kind: &Kind, call: &Call) -> Result<Answer> {
    match (call.path.subresource.as_str(), call.verb, kind.habits.builtin) {
        ("status", Verb::Get, _) if kind.habits.status => read::get(state, table, kind, call),
        ("status", Verb::Update, _) if kind.habits.status => replace::update(state, table, kind, call),
        ("status", Verb::Patch, _) if kind.habits.status => patch::patch(state, table, kind, call),
        ("finalize", Verb::Update, Builtin::Namespace) => replace::update(state, table, kind, call),
        ("scale", _, _) if kind.scale.is_some() => scale_call(state, table, kind, call),
        ("eviction", Verb::Create, Builtin::Pod) => evict(state, table, kind, call),
        ("status" | "finalize" | "scale" | "eviction", _, _) => Err(Refusal::no_such_path()),
        _ => Err(Refusal::no_such_path()),
    }
}

/// Reads or writes the number of replicas.
fn scale_call(state: &mut State, table: usize, kind: &Kind, call: &Call) -> Result<Answer> {
    let name = call.path.name.as_deref().unwrap_or_default();
    let old = replace::stored(state, table, call).ok_or_else(|| Refusal::not_found(kind, name))?;
    let mut view = scale(kind, &old.object).ok_or_else(Refusal::no_such_path)?;
    if call.verb == Verb::Get {
        return Ok(Answer::json(200, &view));
    }
    let body: Value = serde_json::from_slice(&call.body).map_err(|error| Refusal::bad_request(error.to_string()))?;
    match (call.verb, call.patch) {
        (Verb::Update, _) => view = body,
        (Verb::Patch, Some(PatchKind::Json)) => {
            json::apply(&mut view, &body).map_err(|failure| Refusal::bad_request(failure.to_string()))?;
        }
        (Verb::Patch, Some(_)) => merge::apply(&mut view, &body),
        _ => return Err(Refusal::method_not_allowed()),
    }
    let replicas = view.pointer("/spec/replicas").cloned().unwrap_or_else(|| Value::from(0));
    let mut new = old.object.clone();
    if let Some(version) = view.pointer("/metadata/resourceVersion").filter(|version| !version.is_null()) {
        object::set_meta(&mut new, "resourceVersion", version.clone());
    }
    if let Some(scale) = &kind.scale {
        set_path(&mut new, &scale.spec, replicas);
    }
    let stored = replace::replace(state, table, kind, call, &old, new)?;
    let view = scale(kind, &stored.object).ok_or_else(Refusal::no_such_path)?;
    Ok(Answer::json(200, &view))
}

fn set_path(object: &mut Object, path: &[String], value: Value) {
    let Some((last, before)) = path.split_last() else { return };
    let mut place = object;
    for name in before {
        place = object::child(place, name);
    }
    place.insert(last.clone(), value);
}

/// A polite deletion of a pod.
fn evict(state: &mut State, table: usize, kind: &Kind, call: &Call) -> Result<Answer> {
    let name = call.path.name.as_deref().unwrap_or_default();
    let old = replace::stored(state, table, call).ok_or_else(|| Refusal::not_found(kind, name))?;
    let options = Options { dry_run: call.options.dry_run, ..Options::default() };
    delete_object(state, table, kind, &old, &options)?;
    Ok(Answer::json(
        201,
        &serde_json::json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}),
    ))
}
