//! Looks into objects as they are on the server. Owns the shortest way to a member; an absent one and one of another type
//! are the same.

use std::collections::BTreeMap;

use orlop_core::time::Time;
use serde_json::Value;

/// A text, empty where there is none.
pub(crate) fn text(object: &Value, path: &str) -> String {
    word(object, path).to_owned()
}

/// The same, borrowed.
pub(crate) fn word<'v>(object: &'v Value, path: &str) -> &'v str {
    object.pointer(path).and_then(Value::as_str).unwrap_or_default()
}

/// A time.
pub(crate) fn time(object: &Value, path: &str) -> Option<Time> {
    word(object, path).parse().ok()
}

/// The items of a list.
pub(crate) fn items<'v>(object: &'v Value, path: &str) -> &'v [Value] {
    object.pointer(path).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// A map of texts.
pub(crate) fn texts(object: &Value, path: &str) -> BTreeMap<String, String> {
    let members = object.pointer(path).and_then(Value::as_object).into_iter().flatten();
    members.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
}

/// The item of a list whose member has a value, such as the condition of a type or the container of a name.
pub(crate) fn item<'v>(object: &'v Value, path: &str, member: &str, value: &str) -> Option<&'v Value> {
    items(object, path).iter().find(|item| item.get(member).and_then(Value::as_str) == Some(value))
}

/// Whether an object is newer than the one that is known. Watches may show the past again.
pub(crate) fn is_newer(object: &Value, known: &Value) -> bool {
    let version = |object: &Value| text(object, "/metadata/resourceVersion").parse::<u64>();
    if text(object, "/metadata/uid") != text(known, "/metadata/uid") {
        return true;
    }
    match (version(object), version(known)) {
        (Ok(new), Ok(old)) => new > old,
        _ => text(object, "/metadata/resourceVersion") != text(known, "/metadata/resourceVersion"),
    }
}

/// JSON without blanks, the members of all objects by name: equal values give equal texts.
pub(crate) fn canonical(value: &Value) -> String {
    fn sorted(value: &Value) -> Value {
        match value {
            Value::Object(members) => {
                let members: BTreeMap<&String, Value> =
                    members.iter().map(|(key, value)| (key, sorted(value))).collect();
                members.into_iter().map(|(key, value)| (key.clone(), value)).collect()
            }
            Value::Array(items) => items.iter().map(sorted).collect(),
            other => other.clone(),
        }
    }
    sorted(value).to_string()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn equal_values_have_one_text() {
        let (one, other) =
            (json!({"b": [1, {"d": 1, "c": null}], "a": "x"}), json!({"a": "x", "b": [1, {"c": null, "d": 1}]}));
        assert_eq!(canonical(&one), canonical(&other));
        assert_eq!(canonical(&one), r#"{"a":"x","b":[1,{"c":null,"d":1}]}"#);
    }

    #[test]
    fn what_is_absent_or_of_another_type_is_empty() {
        let object = json!({"a": 5, "l": [{"name": "x", "v": 1}], "t": "2026-01-01T00:00:00Z"});
        assert_eq!((text(&object, "/a"), items(&object, "/a").len(), time(&object, "/a")), (String::new(), 0, None));
        assert_eq!(item(&object, "/l", "name", "x").unwrap()["v"], 1);
        assert_eq!(time(&object, "/t").unwrap().to_string(), "2026-01-01T00:00:00Z");
    }
}
