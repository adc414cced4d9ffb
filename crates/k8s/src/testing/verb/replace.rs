//! PUT, and the part of PATCH that stores: version checks, what an update may not touch, generations, and objects whose
//! last finalizer goes.

use std::sync::Arc;

use serde_json::Value;

use super::super::answer::Answer;
use super::super::builtin;
use super::super::kind::Kind;
use super::super::managed;
use super::super::object::{Object, at, deleting, drop_meta, finalizers, meta, set_meta};
use super::super::refusal::{Cause, Refusal, Result};
use super::super::request::{Call, Verb};
use super::super::rules;
use super::super::state::State;
use super::super::store::{Stored, key, key_of};
use super::super::webhooks::{self, Write};
use super::{admit, body, create};

/// PUT of an object or of its status.
pub(crate) fn update(state: &mut State, table: usize, kind: &Kind, call: &Call) -> Result<Answer> {
    let decoded = body::decode(kind, call)?;
    let old = stored(state, table, call);
    let Some(old) = old else {
        if kind.habits.create_on_update && call.path.subresource.is_empty() {
            let mut object = decoded.object;
            drop_meta(&mut object, "resourceVersion");
            let stored = create::store_new(state, table, kind, call, object)?;
            return Ok(Answer::object(201, &stored, call.metadata_only).warning(decoded.warnings));
        }
        let name = call.path.name.as_deref().unwrap_or_default();
        return Err(Refusal::not_found(kind, name));
    };
    if meta(&decoded.object, "resourceVersion").is_empty() && !kind.habits.unconditional {
        return Err(Refusal::version_missing(kind, meta(&old.object, "name")));
    }
    let stored = replace(state, table, kind, call, &old, decoded.object)?;
    Ok(Answer::object(200, &stored, call.metadata_only).warning(decoded.warnings))
}

/// The object a call names.
pub(crate) fn stored(state: &State, table: usize, call: &Call) -> Option<Arc<Stored>> {
    let name = call.path.name.as_deref().unwrap_or_default();
    state.get(table, &key(call.path.namespace.as_deref().unwrap_or_default(), name)).cloned()
}

/// Stores `new` in the place of `old`; answers with what is stored afterwards, or was last stored of what is gone.
pub(crate) fn replace(
    state: &mut State,
    table: usize,
    kind: &Kind,
    call: &Call,
    old: &Arc<Stored>,
    mut new: Object,
) -> Result<Arc<Stored>> {
    check_preconditions(kind, call, &old.object, &new)?;
    merge(kind, call, &old.object, &mut new);
    builtin::complete(kind, Some(&old.object), &mut new);
    if let Some(structure) = kind.structure.as_ref().filter(|_| kind.is_custom()) {
        structure.complete(&mut new);
    }
    admit(state, kind, call, Verb::Update, Some(&old.object), &mut new)?;
    count_generation(kind, call, &old.object, &mut new);
    let name = meta(&old.object, "name");
    let mut causes = rules::check_update(kind, &old.object, &new);
    causes.extend(builtin::check(kind, Some(&old.object), &new));
    if let Some(structure) = kind.structure.as_ref().filter(|_| kind.is_custom()) {
        causes = structure.check(&new, Some(&old.object), causes, rules::check_scale(kind, &new));
    }
    if !causes.is_empty() {
        return Err(Refusal::invalid(kind, name, &causes));
    }
    let write = Write { kind, call, verb: Verb::Update, old: Some(&old.object) };
    webhooks::ask(state, &write, false, &mut new)?;
    managed::after_write(state, kind, call, Some(&old.object), &mut new);
    set_meta(&mut new, "resourceVersion", meta(&old.object, "resourceVersion"));
    if new == old.object {
        return Ok(Arc::clone(old));
    }
    rules::check_size(&call.body, &new)?;
    if call.options.dry_run {
        return Ok(Arc::new(Stored::new(old.revision, new)));
    }
    if gone_after(&new) {
        let key = key_of(&old.object);
        let gone = state.take(table, &key, Some(new)).ok_or_else(|| Refusal::not_found(kind, name))?;
        super::super::definition::after_delete(state, kind, &gone);
        return Ok(gone);
    }
    let stored = state.put(table, new)?;
    super::super::definition::after_write(state, kind, &stored)?;
    Ok(stored)
}

/// Stores what a controller made of an object, past rights, checks and generations; an object that nothing keeps any longer
/// goes, and one that did not change is not written.
pub(crate) fn write_back(state: &mut State, table: usize, mut object: Object) {
    let key = key_of(&object);
    let Some(old) = state.get(table, &key) else { return };
    set_meta(&mut object, "resourceVersion", meta(&old.object, "resourceVersion"));
    if object == old.object {
        return;
    }
    if gone_after(&object) {
        state.take(table, &key, Some(object));
    } else {
        // The table is the one the object was found in.
        let _ = state.put(table, object);
    }
}

/// Whether nothing keeps a deleted object any longer.
fn gone_after(object: &Object) -> bool {
    let grace = super::super::object::integer(object, &["metadata", "deletionGracePeriodSeconds"]).unwrap_or_default();
    let held =
        !super::super::object::list(object, &["spec", "finalizers"]).is_empty() && meta(object, "namespace").is_empty();
    deleting(object) && finalizers(object).is_empty() && grace == 0 && !held
}

/// Where the store keeps objects of a kind.
fn registry(kind: &Kind) -> String {
    if kind.is_custom() { format!("{}/{}", kind.group, kind.plural) } else { kind.plural.clone() }
}

fn check_preconditions(kind: &Kind, call: &Call, old: &Object, new: &Object) -> Result<()> {
    let name = meta(old, "name");
    let uid = meta(new, "uid");
    if !uid.is_empty() && uid != meta(old, "uid") {
        if call.verb == Verb::Patch {
            return Err(Refusal::invalid(
                kind,
                name,
                &[Cause::invalid("metadata.uid", &Value::from(uid), "field is immutable")],
            ));
        }
        let place = format!("/registry/{}/{}/{name}", registry(kind), meta(old, "namespace"));
        let why = format!(
            "StorageError: invalid object, Code: 4, Key: {place}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: \
             UID in precondition: {uid}, UID in object meta: {}",
            meta(old, "uid")
        );
        return Err(Refusal::conflict(kind, name, &why));
    }
    let version = meta(new, "resourceVersion");
    if !version.is_empty() && version != meta(old, "resourceVersion") {
        return Err(Refusal::stale(kind, name));
    }
    Ok(())
}

/// Puts back what this kind of update may not change.
fn merge(kind: &Kind, call: &Call, old: &Object, new: &mut Object) {
    if call.path.subresource == "status" {
        let status = new.remove("status");
        if kind.is_custom() {
            let managers = drop_meta(new, "managedFields");
            *new = old.clone();
            if let Some(managers) = managers {
                set_meta(new, "managedFields", managers);
            }
        } else if let Some(spec) = old.get("spec") {
            new.insert("spec".to_owned(), spec.clone());
        }
        put_or_drop(new, "status", status);
    } else if kind.habits.status {
        put_or_drop(new, "status", old.get("status").cloned());
    }
    if kind.habits.builtin == super::super::kind::Builtin::Namespace && call.path.subresource != "finalize" {
        put_or_drop(new, "spec", old.get("spec").cloned());
    }
    if !kind.namespaced {
        drop_meta(new, "namespace");
    }
    for name in [
        "uid",
        "name",
        "namespace",
        "generateName",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "generation",
    ] {
        match at(old, &["metadata", name]) {
            Some(value) => set_meta(new, name, value.clone()),
            None => {
                drop_meta(new, name);
            }
        }
    }
    drop_meta(new, "selfLink");
}

fn put_or_drop(object: &mut Object, name: &str, value: Option<Value>) {
    match value {
        Some(value) => {
            object.insert(name.to_owned(), value);
        }
        None => {
            object.remove(name);
        }
    }
}

/// Counts a change of what the generation stands for.
fn count_generation(kind: &Kind, call: &Call, old: &Object, new: &mut Object) {
    if !(kind.is_custom() || kind.habits.generation) || call.path.subresource == "status" {
        return;
    }
    let counts = |name: &str| {
        name != "metadata" && name != "apiVersion" && name != "kind" && (!kind.habits.status || name != "status")
    };
    let same = new.iter().filter(|(name, _)| counts(name)).all(|(name, value)| old.get(name) == Some(value))
        && old.keys().filter(|name| counts(name)).all(|name| new.contains_key(name));
    if !same {
        let generation = super::super::object::integer(old, &["metadata", "generation"]).unwrap_or_default();
        set_meta(new, "generation", generation + 1);
    }
}
