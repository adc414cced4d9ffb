//! Reading and changing JSON objects of Kubernetes: metadata, paths, times. Knows no kind and decides nothing.

use serde_json::{Map, Value};

/// A Kubernetes object as its members.
pub(crate) type Object = Map<String, Value>;

/// The value at a path of member names.
pub(crate) fn at<'a>(object: &'a Object, path: &[&str]) -> Option<&'a Value> {
    let (first, rest) = path.split_first()?;
    let mut value = object.get(*first)?;
    for name in rest {
        value = value.as_object()?.get(*name)?;
    }
    Some(value)
}

/// The text at a path, empty where there is none.
pub(crate) fn text<'a>(object: &'a Object, path: &[&str]) -> &'a str {
    at(object, path).and_then(Value::as_str).unwrap_or_default()
}

/// The integer at a path.
pub(crate) fn integer(object: &Object, path: &[&str]) -> Option<i64> {
    at(object, path).and_then(Value::as_i64)
}

/// The list at a path, empty where there is none.
pub(crate) fn list<'a>(object: &'a Object, path: &[&str]) -> &'a [Value] {
    at(object, path).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// The member of that name as an object; made, or put in the place of anything else, where it is none.
pub(crate) fn child<'a>(object: &'a mut Object, name: &str) -> &'a mut Object {
    let value = object.entry(name).or_insert(Value::Null);
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    match value {
        Value::Object(map) => map,
        _ => unreachable!("it was made an object just above"),
    }
}

/// The metadata, made where it is missing.
pub(crate) fn metadata(object: &mut Object) -> &mut Object {
    child(object, "metadata")
}

/// A text member of the metadata, empty where there is none.
pub(crate) fn meta<'a>(object: &'a Object, name: &str) -> &'a str {
    object.get("metadata").and_then(|metadata| metadata.get(name)).and_then(Value::as_str).unwrap_or_default()
}

/// Sets a member of the metadata.
pub(crate) fn set_meta(object: &mut Object, name: &str, value: impl Into<Value>) {
    metadata(object).insert(name.to_owned(), value.into());
}

/// Takes a member out of the metadata.
pub(crate) fn drop_meta(object: &mut Object, name: &str) -> Option<Value> {
    object.get_mut("metadata").and_then(Value::as_object_mut).and_then(|metadata| metadata.remove(name))
}

/// A label's value.
pub(crate) fn label<'a>(object: &'a Object, key: &str) -> Option<&'a str> {
    at(object, &["metadata", "labels", key]).and_then(Value::as_str)
}

/// Whether deletion has been asked for.
pub(crate) fn deleting(object: &Object) -> bool {
    at(object, &["metadata", "deletionTimestamp"]).is_some_and(|value| !value.is_null())
}

/// The finalizers.
pub(crate) fn finalizers(object: &Object) -> Vec<&str> {
    list(object, &["metadata", "finalizers"]).iter().filter_map(Value::as_str).collect()
}

/// Sets the finalizers; an empty list takes the member away.
pub(crate) fn set_finalizers(object: &mut Object, names: Vec<String>) {
    if names.is_empty() {
        drop_meta(object, "finalizers");
    } else {
        set_meta(object, "finalizers", names);
    }
}

/// Milliseconds since 1970 as the whole seconds in UTC that objects carry.
pub(crate) fn rfc3339(milliseconds: i64) -> String {
    jiff::Timestamp::from_second(milliseconds.div_euclid(1000)).map(|time| time.to_string()).unwrap_or_default()
}

/// Milliseconds since 1970 of a time in RFC 3339.
pub(crate) fn milliseconds(text: &str) -> Option<i64> {
    text.parse::<jiff::Timestamp>().ok().map(jiff::Timestamp::as_millisecond)
}

/// Text between quotation marks, as error texts show it.
pub(crate) fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}
