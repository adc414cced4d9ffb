//! PATCH: reads the stored object, applies the patch, and stores the outcome like an update.

use std::sync::Arc;

use serde_json::Value;

use super::super::answer::Answer;
use super::super::kind::Kind;
use super::super::managed;
use super::super::object::{Object, drop_meta, meta};
use super::super::patching::{json, merge, strategic};
use super::super::refusal::{Cause, Refusal, Result};
use super::super::request::{Call, PatchKind};
use super::super::state::State;
use super::super::store::Stored;
use super::replace::{replace, stored};
use super::{body, create};

/// PATCH of an object or of its status.
pub(crate) fn patch(state: &mut State, table: usize, kind: &Kind, call: &Call) -> Result<Answer> {
    let how = call.patch.ok_or_else(Refusal::unsupported_media)?;
    if how == PatchKind::Strategic && kind.is_custom() {
        return Err(Refusal::unsupported_patch());
    }
    let name = call.path.name.as_deref().unwrap_or_default();
    let patch: Value = serde_json::from_slice(&call.body)
        .map_err(|error| Refusal::bad_request(format!("error decoding patch: {error}")))?;
    let old = stored(state, table, call);
    if how == PatchKind::Apply {
        return apply(state, table, kind, call, old, patch);
    }
    let old = old.ok_or_else(|| Refusal::not_found(kind, name))?;
    let (new, warnings) = patched(kind, call, how, &old.object, &patch)?;
    let stored = replace(state, table, kind, call, &old, new)?;
    Ok(Answer::object(200, &stored, call.metadata_only).warning(warnings))
}

fn patched(kind: &Kind, call: &Call, how: PatchKind, old: &Object, patch: &Value) -> Result<(Object, Vec<String>)> {
    let mut target = Value::Object(old.clone());
    match how {
        PatchKind::Json => json::apply(&mut target, patch).map_err(|failure| match failure {
            json::Failure::Unreadable(why) => Refusal::bad_request(why),
            json::Failure::Unprocessable(why) => Refusal::unprocessable(&why),
        })?,
        PatchKind::Strategic => strategic::apply(&mut target, patch),
        PatchKind::Merge | PatchKind::Apply => merge::apply(&mut target, patch),
    }
    let Value::Object(mut object) = target else {
        return Err(Refusal::bad_request("the patch leaves no object"));
    };
    body::check_place(call, &mut object)?;
    if let Some(structure) = kind.structure.as_ref().filter(|_| !kind.is_custom()) {
        structure.decodes(&object).map_err(|why| Refusal::invalid_patch(&Value::Object(object.clone()), &why))?;
    }
    let warnings = body::known_fields(kind, call.options.field_validation, &mut object)?;
    Ok((object, warnings))
}

/// Server-side apply: creates what is not there.
fn apply(
    state: &mut State,
    table: usize,
    kind: &Kind,
    call: &Call,
    old: Option<Arc<Stored>>,
    patch: Value,
) -> Result<Answer> {
    if call.options.manager.is_empty() {
        let cause = Cause::required("fieldManager", "is required for apply patch");
        return Err(Refusal::invalid_options("PatchOptions", cause));
    }
    let Value::Object(mut applied) = patch else { return Err(Refusal::bad_request("the patch is no object")) };
    body::check_type(kind, &mut applied)?;
    body::check_place(call, &mut applied)?;
    if !super::super::object::list(&applied, &["metadata", "managedFields"]).is_empty() {
        return Err(Refusal::bad_request("metadata.managedFields must be nil"));
    }
    let warnings = body::known_fields(kind, call.options.field_validation, &mut applied)?;
    let Some(old) = old else {
        if !call.path.subresource.is_empty() {
            return Err(Refusal::not_found(kind, call.path.name.as_deref().unwrap_or_default()));
        }
        if !meta(&applied, "uid").is_empty() {
            let why = "uid mismatch: the provided object specified uid, and no existing object was found";
            return Err(Refusal::conflict(kind, meta(&applied, "name"), why));
        }
        drop_meta(&mut applied, "resourceVersion");
        let new = managed::merge(kind, call, &Object::new(), applied)?;
        let stored = create::store_new(state, table, kind, call, new)?;
        return Ok(Answer::object(201, &stored, call.metadata_only).warning(warnings));
    };
    // What is applied to a subresource touches nothing of the metadata, and is held to its version all the same.
    let version = meta(&applied, "resourceVersion").to_owned();
    let new = managed::merge(kind, call, &old.object, applied)?;
    if !version.is_empty() && version != meta(&old.object, "resourceVersion") {
        return Err(Refusal::stale(kind, meta(&old.object, "name")));
    }
    let stored = super::replace::replace(state, table, kind, call, &old, new)?;
    Ok(Answer::object(200, &stored, call.metadata_only).warning(warnings))
}
