//! Who has decided about a Manual step: the annotations of a decision and of who took it (rule R20). Owns their names and
//! which of them an update adds or changes; decides nothing.

use orlop_core::spec::flow::GROUP;
use serde_json::{Map, Value};

/// Whether the key of an annotation is that of a decision; gives the short name of its step.
pub(super) fn decided(key: &str) -> Option<&str> {
    key.strip_prefix("approved.")?.strip_prefix(GROUP)?.strip_prefix('/')
}

/// Whether the key of an annotation says who has decided; gives the short name of the step.
pub(super) fn identified(key: &str) -> Option<&str> {
    key.strip_prefix("approval.")?.strip_prefix(GROUP)?.strip_prefix('/')
}

/// The annotation that says who has decided about a step.
pub(super) fn key(step: &str) -> String {
    format!("approval.{GROUP}/{step}")
}

/// A member of the note of who has decided.
pub(super) fn member<'v>(note: &'v Value, name: &str) -> Option<&'v str> {
    note.get(name).and_then(Value::as_str)
}

/// The annotations of an object.
pub(super) fn annotations(object: &Value) -> Option<&Map<String, Value>> {
    object.pointer("/metadata/annotations").and_then(Value::as_object)
}

/// An annotation of an object.
pub(super) fn annotation<'o>(object: &'o Value, key: &str) -> Option<&'o str> {
    annotations(object)?.get(key)?.as_str()
}

/// Annotations that an object has and another has not, or not with this value.
pub(super) fn news<'o>(object: &'o Value, old: &'o Value) -> impl Iterator<Item = (&'o str, &'o str)> {
    let all = annotations(object).into_iter().flatten();
    let all = all.filter_map(|(key, value)| Some((key.as_str(), value.as_str()?)));
    all.filter(move |(key, value)| annotation(old, key) != Some(*value))
}
