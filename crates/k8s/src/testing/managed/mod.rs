//! Who manages which fields: the entries of `metadata.managedFields`, after plain writes and in server-side apply.

mod apply;
mod entry;
mod fields;
mod shape;

use super::kind::Kind;
use super::object::{Object, drop_meta, list, metadata};
use super::request::{Call, PatchKind};
use super::state::State;

pub(crate) use apply::merge;
use entry::{Entry, Operation, write};
use fields::Set;
use shape::Shape;

/// Records what a plain write did to the managers of fields. Applies have recorded theirs already.
pub(crate) fn after_write(state: &State, kind: &Kind, call: &Call, old: Option<&Object>, new: &mut Object) {
    if call.patch == Some(PatchKind::Apply) {
        stamp(state, old, new);
        return;
    }
    let known = old.is_some_and(|old| !list(old, &["metadata", "managedFields"]).is_empty());
    if !state.all_managers && !known {
        drop_meta(new, "managedFields");
        return;
    }
    let source = if list(new, &["metadata", "managedFields"]).is_empty() { old } else { Some(&*new) };
    let mut entries: Vec<Entry> = source.map(entry::read).unwrap_or_default();
    let shape = Shape::of(kind);
    let empty = Object::new();
    let before = old.unwrap_or(&empty);
    let differences = fields::compare(&shape, before, new, ignored(kind, call));
    if differences.is_empty() && old.is_some() {
        // Who says who manages what, and changes nothing else, is believed.
        if list(new, &["metadata", "managedFields"]).is_empty() {
            keep(old, new);
        }
        return;
    }
    let mut touched = differences.added;
    touched.join(&differences.changed);
    for entry in &mut entries {
        entry.fields.remove(&touched);
        entry.fields.remove(&differences.removed);
    }
    let manager = if call.options.manager.is_empty() { &call.agent } else { &call.options.manager };
    let own = Entry::new(manager, Operation::Update, &kind.api_version(), &call.path.subresource);
    entry::upsert(&mut entries, own, &touched, &state.timestamp());
    write(new, &entries);
}

/// Members a write of this kind cannot own.
fn ignored(kind: &Kind, call: &Call) -> &'static [&'static str] {
    match call.path.subresource.as_str() {
        "status" if kind.is_custom() => &["spec", "metadata"],
        "status" => &["spec"],
        _ if kind.habits.status => &["status"],
        _ => &[],
    }
}

/// Leaves the entries as they were.
fn keep(old: Option<&Object>, new: &mut Object) {
    match old.and_then(|old| old.get("metadata")).and_then(|metadata| metadata.get("managedFields")) {
        Some(entries) => {
            let entries = entries.clone();
            metadata(new).insert("managedFields".to_owned(), entries);
        }
        None => {
            drop_meta(new, "managedFields");
        }
    }
}

/// Dates the entries that an apply has changed; an apply that changes nothing leaves the date.
fn stamp(state: &State, old: Option<&Object>, new: &mut Object) {
    let before = old.map(entry::read).unwrap_or_default();
    let mut entries = entry::read(new);
    for entry in &mut entries {
        let same = before.iter().find(|known| known.is_same(entry) && known.fields == entry.fields);
        entry.time = match same {
            Some(known) if unchanged(old, new) => known.time.clone(),
            Some(known) if entry.operation == Operation::Update => known.time.clone(),
            _ => state.timestamp(),
        };
    }
    write(new, &entries);
}

/// Whether two versions are the same but for who manages them.
fn unchanged(old: Option<&Object>, new: &Object) -> bool {
    let bare = |object: &Object| {
        let mut object = object.clone();
        for name in ["managedFields", "resourceVersion", "generation"] {
            drop_meta(&mut object, name);
        }
        object
    };
    old.is_some_and(|old| bare(old) == bare(new))
}

/// The set of all fields of an object that can be managed.
fn everything(shape: &Shape<'_>, object: &Object) -> Set {
    fields::of_object(shape, object, &["status"])
}
