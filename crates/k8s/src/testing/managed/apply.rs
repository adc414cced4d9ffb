//! Server-side apply: what an applied configuration makes of an object, who else manages what it changes, and which fields
//! go because nobody wants them any longer.

use serde_json::{Map, Value};

use super::super::kind::Kind;
use super::super::object::{Object, drop_meta, list, meta};
use super::super::refusal::{Refusal, Result};
use super::super::request::Call;
use super::super::schema::ListType;
use super::entry::{self, Entry, Operation};
use super::fields::{self, Set, element};
use super::shape::Shape;

/// The object after the apply, with its managers; `live` is empty for an object that is not there yet.
pub(crate) fn merge(kind: &Kind, call: &Call, live: &Object, applied: Object) -> Result<Object> {
    let shape = Shape::of(kind);
    let ignored = super::ignored(kind, call);
    let mut entries = entry::read(live);
    if entries.is_empty() && list(live, &["metadata", "managedFields"]).is_empty() && !meta(live, "uid").is_empty() {
        // Nobody was recorded so far: whoever it was shares one entry.
        let mut before = Entry::new("before-first-apply", Operation::Update, &kind.api_version(), "");
        before.fields = super::everything(&shape, live);
        entries.push(before);
    }
    let mut applied = applied;
    drop_meta(&mut applied, "managedFields");
    let wanted = fields::of_object(&shape, &applied, ignored);
    let own = Entry {
        fields: wanted.clone(),
        ..Entry::new(&call.options.manager, Operation::Apply, &kind.api_version(), &call.path.subresource)
    };
    let last = entries.iter().find(|entry| entry.is_same(&own)).map(|entry| entry.fields.clone()).unwrap_or_default();
    let mut merged = live.clone();
    for (name, value) in &applied {
        if ignored.contains(&name.as_str()) {
            continue;
        }
        join(&shape.member(name), merged.entry(name.as_str()).or_insert(Value::Null), value);
    }
    let mut others = Set::default();
    entries.iter().filter(|entry| !entry.is_same(&own)).for_each(|entry| others.join(&entry.fields));
    let mut abandoned = last;
    abandoned.remove(&wanted);
    prune(&shape, &mut merged, &abandoned, &others, &wanted);
    let differences = fields::compare(&shape, live, &merged, ignored);
    let mut touched = differences.added.clone();
    touched.join(&differences.changed);
    let conflicts: Vec<(usize, Set)> = entries
        .iter()
        .enumerate()
        .filter(|(_, entry)| !entry.is_same(&own))
        .map(|(index, entry)| (index, entry.fields.common(&touched).common(&wanted_or_below(&wanted, &touched))))
        .filter(|(_, fields)| !fields.is_empty())
        .collect();
    if !conflicts.is_empty() && !call.options.force {
        return Err(refusal(&entries, &conflicts));
    }
    for (index, fields) in &conflicts {
        if let Some(entry) = entries.get_mut(*index) {
            entry.fields.remove(fields);
        }
    }
    for entry in &mut entries {
        entry.fields.remove(&differences.removed);
    }
    entries.retain(|entry| !entry.is_same(&own));
    entries.push(own);
    entry::write(&mut merged, &entries);
    Ok(merged)
}

/// What changed because of the apply, and not because of what it abandoned.
fn wanted_or_below(wanted: &Set, touched: &Set) -> Set {
    if wanted.has_here() {
        return touched.clone();
    }
    let mut out = Set::default();
    out.join(&wanted.common(touched));
    out
}

fn refusal(entries: &[Entry], conflicts: &[(usize, Set)]) -> Box<Refusal> {
    let mut causes = Vec::new();
    let mut lines = Vec::new();
    for (index, fields) in conflicts {
        let Some(who) = entries.get(*index).map(Entry::shown) else { continue };
        let mut paths = Vec::new();
        fields.paths("", &mut paths);
        let own: Vec<String> = paths.iter().map(|path| format!("- {path}")).collect();
        lines.push(format!("conflicts with {who}:\n{}", own.join("\n")));
        causes.extend(paths.into_iter().map(|path| (who.clone(), path)));
    }
    lines.sort();
    let message = match causes.as_slice() {
        [(who, path)] => format!("Apply failed with 1 conflict: conflict with {who}: {path}"),
        more => format!("Apply failed with {} conflicts: {}", more.len(), lines.join("\n")),
    };
    Refusal::owned_by_others(message, &causes)
}

/// Lays an applied value over a live one.
fn join(shape: &Shape<'_>, live: &mut Value, applied: &Value) {
    match applied {
        Value::Object(members) if !shape.is_atomic() => {
            if !live.is_object() {
                *live = Value::Object(Map::new());
            }
            let Some(live) = live.as_object_mut() else { return };
            for (name, value) in members {
                join(&shape.member(name), live.entry(name.as_str()).or_insert(Value::Null), value);
            }
        }
        Value::Array(items) if shape.list(items) != ListType::Atomic => {
            let list = shape.list(items);
            let mut all = live.as_array().cloned().unwrap_or_default();
            for item in items {
                let key = element(&list, item);
                match all.iter_mut().find(|other| element(&list, other) == key) {
                    Some(_) if list == ListType::Set => {}
                    Some(place) => join(&shape.item(), place, item),
                    None => all.push(item.clone()),
                }
            }
            *live = Value::Array(all);
        }
        other => *live = other.clone(),
    }
}

/// Takes away what this manager no longer wants and nobody else manages.
fn prune(shape: &Shape<'_>, object: &mut Object, abandoned: &Set, others: &Set, wanted: &Set) {
    let empty = Set::default();
    for (name, below) in abandoned.elements() {
        let Some(member) = name.strip_prefix("f:") else { continue };
        let (others, wanted) = (others.below(name).unwrap_or(&empty), wanted.below(name).unwrap_or(&empty));
        let Some(value) = object.get_mut(member) else { continue };
        prune_value(&shape.member(member), value, below, others, wanted);
        let hollow = matches!(value, Value::Object(members) if members.is_empty())
            || matches!(value, Value::Array(items) if items.is_empty());
        let leaf = below.has_here() && below.elements().next().is_none();
        if others.is_empty() && wanted.is_empty() && (leaf || hollow) {
            object.remove(member);
        }
    }
}

fn prune_value(shape: &Shape<'_>, value: &mut Value, abandoned: &Set, others: &Set, wanted: &Set) {
    let empty = Set::default();
    match value {
        Value::Object(members) => prune(shape, members, abandoned, others, wanted),
        Value::Array(items) => {
            let list = shape.list(items);
            items.retain_mut(|item| {
                let Some(key) = element(&list, item) else { return true };
                let Some(below) = abandoned.below(&key) else { return true };
                let (others, wanted) = (others.below(&key).unwrap_or(&empty), wanted.below(&key).unwrap_or(&empty));
                if others.is_empty() && wanted.is_empty() {
                    return false;
                }
                prune_value(&shape.item(), item, below, others, wanted);
                true
            });
        }
        _ => {}
    }
}
