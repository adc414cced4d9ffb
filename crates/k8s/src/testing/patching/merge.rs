//! JSON merge patch (RFC 7386).

use serde_json::{Map, Value};

/// Applies a patch. Depth is bounded by that of the parser which read the patch.
pub(crate) fn apply(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Some(target) = target.as_object_mut() else { return };
    for (name, value) in patch {
        if value.is_null() {
            target.remove(name);
        } else {
            apply(target.entry(name.as_str()).or_insert(Value::Null), value);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn null_takes_away_and_lists_are_replaced() {
        let mut target = json!({"a": {"b": 1, "c": 2}, "d": [1, 2]});
        apply(&mut target, &json!({"a": {"b": null, "e": {"f": null}}, "d": [3]}));
        assert_eq!(target, json!({"a": {"c": 2, "e": {}}, "d": [3]}));
    }
}
