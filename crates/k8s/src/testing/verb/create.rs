//! POST: a new object, named, stamped, completed, checked, admitted and stored.

use std::sync::Arc;

use super::super::answer::Answer;
use super::super::builtin;
use super::super::kind::Kind;
use super::super::managed;
use super::super::object::{Object, deleting, drop_meta, meta, set_meta};
use super::super::quota;
use super::super::rbac;
use super::super::refusal::{Refusal, Result};
use super::super::request::{Call, Options, PatchKind, Path, Verb};
use super::super::rules;
use super::super::state::State;
use super::super::store::{Stored, key_of};
use super::super::webhooks::{self, Write};
use super::{admit, body};

/// POST of an object.
pub(crate) fn create(state: &mut State, table: usize, kind: &Kind, call: &Call) -> Result<Answer> {
    if kind.namespaced && call.path.namespace.is_none() {
        return Err(Refusal::bad_request("an empty namespace may not be set during creation"));
    }
    let decoded = body::decode(kind, call)?;
    let stored = store_new(state, table, kind, call, decoded.object)?;
    Ok(Answer::object(201, &stored, call.metadata_only).warning(decoded.warnings))
}

/// A create past rights, faults and records.
pub(crate) fn create_directly(
    state: &mut State,
    table: usize,
    namespace: &str,
    mut object: Object,
) -> Result<Arc<Stored>> {
    let kind = state.kind(table)?;
    let path = Path {
        group: kind.group.clone(),
        version: kind.version.clone(),
        resource: kind.plural.clone(),
        namespace: kind.namespaced.then(|| namespace.to_owned()),
        name: None,
        subresource: String::new(),
    };
    let call = Call {
        verb: Verb::Create,
        path,
        options: Options::default(),
        patch: None,
        metadata_only: false,
        body: bytes::Bytes::new(),
        client: "admin".to_owned(),
        webhooks_down: false,
        user: None,
        agent: "test".to_owned(),
    };
    if kind.is_custom() {
        object.entry("apiVersion").or_insert_with(|| kind.api_version().into());
        object.entry("kind").or_insert_with(|| kind.kind.clone().into());
    }
    body::check_type(&kind, &mut object)?;
    body::check_place(&call, &mut object)?;
    if kind.is_custom() {
        body::known_fields(&kind, call.options.field_validation, &mut object)?;
    }
    store_new(state, table, &kind, &call, object)
}

/// Stores an object that is not there yet.
pub(crate) fn store_new(
    state: &mut State,
    table: usize,
    kind: &Kind,
    call: &Call,
    mut object: Object,
) -> Result<Arc<Stored>> {
    stamp(state, kind, call, &mut object);
    check_namespace(state, kind, &object)?;
    builtin::complete(kind, None, &mut object);
    if let Some(structure) = kind.structure.as_ref().filter(|_| kind.is_custom()) {
        structure.complete(&mut object);
    }
    admit(state, kind, call, Verb::Create, None, &mut object)?;
    let name = meta(&object, "name").to_owned();
    let mut causes = rules::check_new(kind, &object);
    causes.extend(builtin::check(kind, None, &object));
    if let Some(structure) = kind.structure.as_ref().filter(|_| kind.is_custom()) {
        causes = structure.check(&object, None, causes, rules::check_scale(kind, &object));
    }
    if !causes.is_empty() {
        return Err(Refusal::invalid(kind, &name, &causes));
    }
    let write = Write { kind, call, verb: Verb::Create, old: None };
    webhooks::ask(state, &write, false, &mut object)?;
    rbac::check_owners(state, call, kind, &object)?;
    quota::check(state, kind, &object)?;
    managed::after_write(state, kind, call, None, &mut object);
    rules::check_size(&call.body, &object)?;
    let key = key_of(&object);
    // The store looks at it, which a dry run does not ask.
    if !meta(&object, "resourceVersion").is_empty() && !call.options.dry_run {
        return Err(Refusal::plain("resourceVersion should not be set on objects to be created"));
    }
    if let Some(taken) = state.get(table, &key) {
        return Err(Refusal::already_exists(kind, &name, deleting(&taken.object)));
    }
    if call.options.dry_run {
        return Ok(Arc::new(Stored::new(0, object)));
    }
    let stored = state.put(table, object)?;
    super::super::definition::after_write(state, kind, &stored)?;
    Ok(stored)
}

/// What the server writes into every new object, whatever the caller wrote.
fn stamp(state: &mut State, kind: &Kind, call: &Call, object: &mut Object) {
    if !kind.namespaced {
        drop_meta(object, "namespace");
    }
    let prefix = meta(object, "generateName").to_owned();
    if meta(object, "name").is_empty() && !prefix.is_empty() {
        let cut =
            prefix.char_indices().nth(58).map_or(prefix.as_str(), |(end, _)| prefix.get(..end).unwrap_or_default());
        let name = format!("{cut}{}", state.random.suffix());
        set_meta(object, "name", name);
    }
    if call.patch != Some(PatchKind::Apply) {
        drop_meta(object, "managedFields");
    }
    for name in ["deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "generation"] {
        drop_meta(object, name);
    }
    let uid = state.random.uid();
    set_meta(object, "uid", uid);
    set_meta(object, "creationTimestamp", state.timestamp());
    if kind.is_custom() || kind.habits.generation {
        set_meta(object, "generation", 1);
    }
    if kind.is_custom() && kind.habits.status {
        object.remove("status");
    }
}

/// Objects need a namespace that is there and not going away.
fn check_namespace(state: &State, kind: &Kind, object: &Object) -> Result<()> {
    if !kind.namespaced {
        return Ok(());
    }
    let namespace = meta(object, "namespace");
    let Some(table) = state.table_named("", "namespaces") else { return Ok(()) };
    let namespaces = state.kind(table)?;
    let Some(stored) = state.get(table, namespace) else { return Err(Refusal::not_found(&namespaces, namespace)) };
    if super::super::object::deleting(&stored.object) {
        return Err(Refusal::namespace_terminating(kind, meta(object, "name"), namespace));
    }
    Ok(())
}
