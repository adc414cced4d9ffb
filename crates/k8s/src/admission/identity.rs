//! Who has decided: the annotations by which people approve Manual steps or confirm that an attempt is gone, and
//! those that say who it was. Owns their names and which of them an update adds or changes; decides nothing.

use orlop_core::spec::flow::GROUP;
use serde_json::{Map, Value};

/// Prefixes of decisions, each with that of the annotation which says who has taken it.
const PAIRS: [(&str, &str); 2] = [("approved.", "approval."), ("gone.", "gone-by.")];

/// What stands after a prefix and the group.
fn after<'k>(key: &'k str, prefix: &str) -> Option<&'k str> {
    key.strip_prefix(prefix)?.strip_prefix(GROUP)?.strip_prefix('/')
}

/// For the key of a decision that of the annotation which says who has taken it.
pub(super) fn identity_of(key: &str) -> Option<String> {
    PAIRS.iter().find_map(|(decision, identity)| Some(format!("{identity}{GROUP}/{}", after(key, decision)?)))
}

/// For the key of an annotation that says who has decided that of the decision.
pub(super) fn decision_of(key: &str) -> Option<String> {
    PAIRS.iter().find_map(|(decision, identity)| Some(format!("{decision}{GROUP}/{}", after(key, identity)?)))
}

/// Whether the key of an annotation confirms that an attempt is gone; gives the short name of its step or instance.
pub(super) fn gone(key: &str) -> Option<&str> {
    after(key, "gone.")
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
