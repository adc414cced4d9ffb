//! Strategic merge patch: like a merge patch, but lists of objects with a merge key are merged by it.

use serde_json::{Map, Value};

/// The merge key of lists by the name of their member, in the built-in kinds.
pub(crate) fn merge_key(member: &str, item: &Value) -> Option<&'static str> {
    Some(match member {
        "containers"
        | "initContainers"
        | "ephemeralContainers"
        | "volumes"
        | "env"
        | "imagePullSecrets"
        | "secrets" => "name",
        "volumeMounts" => "mountPath",
        "volumeDevices" => "devicePath",
        "ports" if item.get("containerPort").is_some() => "containerPort",
        "ports" => "port",
        "hostAliases" | "podIPs" | "hostIPs" => "ip",
        "conditions" | "addresses" => "type",
        "ownerReferences" => "uid",
        "taints" => "key",
        "topologySpreadConstraints" => "topologyKey",
        "schedulingGates" | "resourceClaims" => "name",
        _ => return None,
    })
}

/// Lists of plain values that are merged as sets.
fn is_set(member: &str) -> bool {
    member == "finalizers"
}

/// Applies a patch. Depth is bounded by that of the parser which read the patch.
pub(crate) fn apply(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if patch.get("$patch").and_then(Value::as_str) == Some("replace") {
        let members =
            patch.iter().filter(|(name, _)| *name != "$patch").map(|(name, value)| (name.clone(), value.clone()));
        *target = Value::Object(members.collect());
        return;
    }
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Some(target) = target.as_object_mut() else { return };
    if let Some(keep) = patch.get("$retainKeys").and_then(Value::as_array) {
        target.retain(|name, _| keep.iter().any(|kept| kept.as_str() == Some(name)));
    }
    for (name, value) in patch {
        if let Some(member) = name.strip_prefix("$deleteFromPrimitiveList/") {
            delete_from(target, member, value);
        } else if name.starts_with('$') {
            // The order of elements is that of the patch already.
        } else if value.is_null() || value.get("$patch").and_then(Value::as_str) == Some("delete") {
            target.remove(name);
        } else {
            merge_member(target.entry(name.as_str()).or_insert(Value::Null), name, value);
        }
    }
}

fn delete_from(target: &mut Map<String, Value>, member: &str, values: &Value) {
    let values = values.as_array().map(Vec::as_slice).unwrap_or_default();
    if let Some(list) = target.get_mut(member).and_then(Value::as_array_mut) {
        list.retain(|value| !values.contains(value));
    }
}

fn merge_member(target: &mut Value, name: &str, patch: &Value) {
    let Value::Array(items) = patch else { return apply(target, patch) };
    if is_set(name) {
        let mut list = items.clone();
        let before = target.as_array().map(Vec::as_slice).unwrap_or_default();
        list.extend(before.iter().filter(|item| !items.contains(item)).cloned());
        *target = Value::Array(list);
        return;
    }
    let Some(key) = items.first().and_then(|item| merge_key(name, item)) else {
        *target = patch.clone();
        return;
    };
    let mut list = target.as_array().cloned().unwrap_or_default();
    if items.iter().any(|item| item.get("$patch").and_then(Value::as_str) == Some("replace")) {
        list.clear();
    }
    for item in items {
        let same = |other: &Value| other.get(key) == item.get(key);
        match item.get("$patch").and_then(Value::as_str) {
            Some("delete") => list.retain(|other| !same(other)),
            Some("replace") => {}
            _ => match list.iter_mut().find(|other| same(other)) {
                Some(place) => apply(place, item),
                None => {
                    let mut fresh = Value::Null;
                    apply(&mut fresh, item);
                    list.push(fresh);
                }
            },
        }
    }
    *target = Value::Array(list);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn lists_merge_by_their_key() {
        let mut target =
            json!({"containers": [{"name": "a", "image": "1"}, {"name": "b"}], "finalizers": ["x"], "args": ["1"]});
        let patch = json!({"containers": [{"name": "a", "image": "2"}, {"name": "b", "$patch": "delete"}, {"name": "c"}],
            "finalizers": ["y", "x"], "args": ["2"]});
        apply(&mut target, &patch);
        assert_eq!(
            target,
            json!({"containers": [{"name": "a", "image": "2"}, {"name": "c"}], "finalizers": ["y", "x"], "args": ["2"]})
        );
    }

    #[test]
    fn directives_replace_and_delete() {
        let mut target = json!({"a": {"b": 1}, "finalizers": ["x", "y"]});
        apply(&mut target, &json!({"a": {"$patch": "replace", "c": 2}, "$deleteFromPrimitiveList/finalizers": ["x"]}));
        assert_eq!(target, json!({"a": {"c": 2}, "finalizers": ["y"]}));
    }
}
