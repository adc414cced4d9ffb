//! From the JSON schema of a Rust type to a structural schema of `apiextensions.k8s.io/v1`: references are put in place,
//! absence is no null, and every list, map and text has a bound, so that rules in CEL stay within their budget.

use serde_json::{Map, Value, json};

/// Types nested deeper than this are left open.
const DEPTH: usize = 32;
/// Most items or members where a type does not say it.
const MANY: u64 = 256;
/// Most characters where a type does not say it.
const LONG: u64 = 4096;
/// Amounts as Kubernetes reads them.
const QUANTITY: &str = r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$";

/// The structural schema of a type.
pub(super) fn structural<T: schemars::JsonSchema>() -> Value {
    let root = schemars::SchemaGenerator::default().root_schema_for::<T>().to_value();
    let definitions = root.get("$defs").cloned().unwrap_or_default();
    Value::Object(node(&root, &definitions, 0))
}

fn node(schema: &Value, definitions: &Value, depth: usize) -> Map<String, Value> {
    let Some(members) = schema.as_object().filter(|_| depth < DEPTH) else { return open() };
    if let Some(name) = members.get("$ref").and_then(Value::as_str) {
        let name = name.trim_start_matches("#/$defs/");
        let base = match name.rsplit('.').next() {
            Some("Quantity") => quantity(),
            _ => definitions.get(name).map_or_else(open, |found| node(found, definitions, depth + 1)),
        };
        return over(base, members, definitions, depth);
    }
    // A field that may be absent is one of its type or null.
    let some = |name: &str| {
        let all = members.get(name)?.as_array()?;
        let mut real = all.iter().filter(|one| one.get("type").and_then(Value::as_str) != Some("null"));
        real.next().filter(|_| real.next().is_none())
    };
    if let Some(one) = some("anyOf").or_else(|| some("allOf")) {
        return over(node(one, definitions, depth + 1), members, definitions, depth);
    }
    if let Some(all) = members.get("oneOf").and_then(Value::as_array) {
        let words: Vec<&Value> = all.iter().flat_map(words).collect();
        let base = json!({"type": "string", "enum": words});
        return over(base.as_object().cloned().unwrap_or_default(), members, definitions, depth);
    }
    over(Map::new(), members, definitions, depth)
}

/// The texts that one of several alternatives stands for.
fn words(alternative: &Value) -> Vec<&Value> {
    let listed = alternative.get("enum").and_then(Value::as_array).into_iter().flatten();
    alternative.get("const").into_iter().chain(listed).collect()
}

/// A schema with what is said beside it.
fn over(
    mut base: Map<String, Value>,
    members: &Map<String, Value>,
    definitions: &Value,
    depth: usize,
) -> Map<String, Value> {
    for (name, value) in members {
        let value = match name.as_str() {
            "$ref" | "$defs" | "$schema" | "title" | "anyOf" | "allOf" | "oneOf" => continue,
            "type" => single(value),
            "format" if !matches!(value.as_str(), Some("int32" | "int64" | "date-time")) => continue,
            "default" if value.is_null() || value.as_array().is_some_and(Vec::is_empty) => continue,
            // Members fill themselves in.
            "default" if value.is_object() => json!({}),
            "properties" => {
                let each = value.as_object().into_iter().flatten();
                each.map(|(name, inner)| (name.clone(), Value::Object(node(inner, definitions, depth + 1)))).collect()
            }
            "items" | "additionalProperties" if value.is_object() => Value::Object(node(value, definitions, depth + 1)),
            "enum" => value.as_array().into_iter().flatten().filter(|one| !one.is_null()).cloned().collect(),
            _ => value.clone(),
        };
        base.insert(name.clone(), value);
    }
    bounded(base)
}

/// A type that may be null is one that may be absent.
fn single(kind: &Value) -> Value {
    let real = |one: &&Value| one.as_str() != Some("null");
    kind.as_array().and_then(|all| all.iter().find(real)).unwrap_or(kind).clone()
}

fn bounded(mut schema: Map<String, Value>) -> Map<String, Value> {
    let kind = schema.get("type").and_then(Value::as_str).unwrap_or_default();
    let closed = schema.contains_key("enum") || schema.get("format").is_some();
    let bound = match kind {
        "array" => Some(("maxItems", MANY)),
        "object" if schema.contains_key("additionalProperties") => Some(("maxProperties", MANY)),
        "string" if !closed => Some(("maxLength", LONG)),
        _ => None,
    };
    if let Some((name, most)) = bound {
        schema.entry(name).or_insert_with(|| json!(most));
    }
    schema
}

fn open() -> Map<String, Value> {
    Map::from_iter([("x-kubernetes-preserve-unknown-fields".to_owned(), json!(true))])
}

fn quantity() -> Map<String, Value> {
    let schema = json!({
        "anyOf": [{"type": "integer"}, {"type": "string"}],
        "pattern": QUANTITY,
        "x-kubernetes-int-or-string": true,
    });
    schema.as_object().cloned().unwrap_or_default()
}
