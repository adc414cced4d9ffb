//! From the JSON schema of a Rust type to a structural schema of `apiextensions.k8s.io/v1`: references are put in place.

use serde_json::{Map, Value, json};

/// Types nested deeper than this are left open.
const DEPTH: usize = 32;
/// What says that any members are kept.
const OPEN: &str = "x-kubernetes-preserve-unknown-fields";
/// Amounts as Kubernetes reads them.
const QUANTITY: &str = r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$";

/// The structural schema of a type.
pub(super) fn structural<T: schemars::JsonSchema>() -> Value {
    let root = orlop_core::schema::of::<T>();
    let definitions = root.get("$defs").cloned().unwrap_or_default();
    Value::Object(node(&root, &definitions, 0))
}

/// Changes a structural schema and all that are within it.
pub(super) fn each(schema: &mut Value, change: fn(&mut Map<String, Value>)) {
    let Some(members) = schema.as_object_mut() else { return };
    change(members);
    for (name, value) in members {
        match name.as_str() {
            "properties" => value.as_object_mut().into_iter().flatten().for_each(|(_, member)| each(member, change)),
            "items" | "additionalProperties" => each(value, change),
            _ => {}
        }
    }
}

fn node(schema: &Value, definitions: &Value, depth: usize) -> Map<String, Value> {
    let Some(members) = schema.as_object().filter(|_| depth < DEPTH) else { return open() };
    let mut own = Map::new();
    if let Some(name) = members.get("$ref").and_then(Value::as_str) {
        let name = name.trim_start_matches("#/$defs/");
        own = match name.rsplit('.').next() {
            Some("Quantity") => quantity(),
            _ => definitions.get(name).map_or_else(open, |found| node(found, definitions, depth + 1)),
        };
    } else if let Some(all) = members.get("oneOf").and_then(Value::as_array) {
        let words: Vec<&Value> = all.iter().flat_map(words).collect();
        own.extend([("type".to_owned(), json!("string")), ("enum".to_owned(), json!(words))]);
    }
    for (name, value) in members {
        let inner = |value| Value::Object(node(value, definitions, depth + 1));
        let (name, value) = match (name.as_str(), value) {
            ("$ref" | "$defs" | "$schema" | "title" | "anyOf" | "oneOf", _) => continue,
            ("format", kind) => match kind.as_str() {
                Some("int32" | "int64" | "date-time") => (name.as_str(), value.clone()),
                Some("uint8" | "uint16" | "uint32") => ("format", json!("int32")),
                Some("uint64") => ("format", json!("int64")),
                _ => continue,
            },
            // Members fill themselves in.
            ("default", Value::Object(_)) => ("default", json!({})),
            ("default", Value::Array(all)) if all.is_empty() => continue,
            ("properties", Value::Object(each)) => {
                ("properties", each.iter().map(|(name, value)| (name.clone(), inner(value))).collect())
            }
            ("additionalProperties", Value::Bool(true)) => (OPEN, json!(true)),
            ("additionalProperties", Value::Bool(false)) => continue,
            ("items" | "additionalProperties", value) => (name.as_str(), inner(value)),
            (name, value) => (name, value.clone()),
        };
        own.insert(name.to_owned(), value);
    }
    own
}

/// The texts that one of several alternatives stands for.
fn words(alternative: &Value) -> Vec<&Value> {
    let listed = alternative.get("enum").and_then(Value::as_array).into_iter().flatten();
    alternative.get("const").into_iter().chain(listed).collect()
}

fn open() -> Map<String, Value> {
    Map::from_iter([(OPEN.to_owned(), json!(true))])
}

fn quantity() -> Map<String, Value> {
    let schema = json!({
        "anyOf": [{"type": "integer"}, {"type": "string"}],
        "pattern": QUANTITY,
        "x-kubernetes-int-or-string": true,
    });
    schema.as_object().cloned().unwrap_or_default()
}
