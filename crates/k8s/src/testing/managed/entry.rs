//! Entries of `metadata.managedFields`.

use serde_json::{Map, Value, json};

use super::super::object::{Object, drop_meta, list, set_meta};
use super::fields::Set;

/// How a manager wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    Apply,
    Update,
}

/// What one manager manages by one way of writing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) manager: String,
    pub(super) operation: Operation,
    pub(super) api_version: String,
    pub(super) subresource: String,
    pub(super) time: String,
    pub(super) fields: Set,
}

impl Entry {
    /// An entry without fields.
    pub(super) fn new(manager: &str, operation: Operation, api_version: &str, subresource: &str) -> Self {
        Self {
            manager: manager.to_owned(),
            operation,
            api_version: api_version.to_owned(),
            subresource: subresource.to_owned(),
            time: String::new(),
            fields: Set::default(),
        }
    }

    /// Whether both are of the same manager and way of writing.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.manager == other.manager
            && self.operation == other.operation
            && self.api_version == other.api_version
            && self.subresource == other.subresource
    }

    /// The manager as messages name it.
    pub(super) fn shown(&self) -> String {
        let mut out = format!("{:?}", self.manager);
        if !self.subresource.is_empty() {
            out = format!("{out} with subresource {:?}", self.subresource);
        }
        if self.operation == Operation::Update {
            out = format!("{out} using {}", self.api_version);
        }
        out
    }
}

/// The entries of an object.
pub(super) fn read(object: &Object) -> Vec<Entry> {
    let text = |value: &Value, name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    list(object, &["metadata", "managedFields"])
        .iter()
        .filter(|value| value.get("manager").is_some())
        .map(|value| Entry {
            manager: text(value, "manager"),
            operation: if text(value, "operation") == "Apply" { Operation::Apply } else { Operation::Update },
            api_version: text(value, "apiVersion"),
            subresource: text(value, "subresource"),
            time: text(value, "time"),
            fields: value.get("fieldsV1").map(Set::read).unwrap_or_default(),
        })
        .collect()
}

/// Writes the entries that have fields into an object: applies first, then by time and manager.
pub(super) fn write(object: &mut Object, entries: &[Entry]) {
    let mut kept: Vec<&Entry> = entries.iter().filter(|entry| !entry.fields.is_empty()).collect();
    kept.sort_by(|a, b| {
        let rank = |entry: &Entry| (entry.operation == Operation::Update, entry.time.clone(), entry.manager.clone());
        rank(a).cmp(&rank(b))
    });
    if kept.is_empty() {
        drop_meta(object, "managedFields");
        return;
    }
    let values: Vec<Value> = kept.into_iter().map(value).collect();
    set_meta(object, "managedFields", values);
}

fn value(entry: &Entry) -> Value {
    let mut out = Map::new();
    out.insert("manager".to_owned(), entry.manager.clone().into());
    out.insert("operation".to_owned(), if entry.operation == Operation::Apply { "Apply" } else { "Update" }.into());
    out.insert("apiVersion".to_owned(), entry.api_version.clone().into());
    if !entry.time.is_empty() {
        out.insert("time".to_owned(), entry.time.clone().into());
    }
    out.insert("fieldsType".to_owned(), json!("FieldsV1"));
    out.insert("fieldsV1".to_owned(), entry.fields.write());
    if !entry.subresource.is_empty() {
        out.insert("subresource".to_owned(), entry.subresource.clone().into());
    }
    Value::Object(out)
}

/// Adds fields to the entry of a manager, or makes it.
pub(super) fn upsert(entries: &mut Vec<Entry>, own: Entry, fields: &Set, now: &str) {
    let index = entries.iter().position(|entry| entry.is_same(&own)).unwrap_or_else(|| {
        entries.push(own);
        entries.len() - 1
    });
    if let Some(entry) = entries.get_mut(index) {
        let before = entry.fields.clone();
        entry.fields.join(fields);
        if before != entry.fields || !fields.is_empty() {
            now.clone_into(&mut entry.time);
        }
    }
}
