//! From `openAPIV3Schema` to a structure. What a real API server refuses to install is refused here too, as far as it
//! would make the rest meaningless.

use serde_json::Value;

use super::{Limits, ListType, Rule, Structure, Type};

/// Schemas nested deeper than this are refused.
const DEPTH: usize = 64;

impl Structure {
    /// Parses a schema; an error names the place.
    pub(crate) fn parse(schema: &Value) -> Result<Self, String> {
        structure(schema, "openAPIV3Schema", 0)
    }
}

fn structure(schema: &Value, path: &str, depth: usize) -> Result<Structure, String> {
    if depth > DEPTH {
        return Err(format!("{path}: nested deeper than {DEPTH}"));
    }
    let flag = |name: &str| schema.get(name).and_then(Value::as_bool).unwrap_or_default();
    let int_or_string = flag("x-kubernetes-int-or-string");
    let preserve = flag("x-kubernetes-preserve-unknown-fields");
    let mut out = Structure {
        kind: kind(schema, path)?,
        required: texts(schema, "required"),
        default: schema.get("default").cloned(),
        nullable: flag("nullable"),
        int_or_string,
        preserve,
        embedded: flag("x-kubernetes-embedded-resource"),
        list: list_type(schema),
        atomic_map: schema.get("x-kubernetes-map-type").and_then(Value::as_str) == Some("atomic"),
        limits: limits(schema, path)?,
        rules: rules(schema, path)?,
        ..Structure::default()
    };
    for (name, member) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        let path = format!("{path}.properties[{name}]");
        out.properties.insert(name.clone(), structure(member, &path, depth + 1)?);
    }
    match schema.get("additionalProperties") {
        Some(Value::Bool(true)) => out.preserve = true,
        Some(members @ Value::Object(_)) => {
            out.additional = Some(Box::new(structure(members, &format!("{path}.additionalProperties"), depth + 1)?));
        }
        _ => {}
    }
    if let Some(items) = schema.get("items").filter(|items| items.is_object()) {
        out.items = Some(Box::new(structure(items, &format!("{path}.items"), depth + 1)?));
    }
    out.all_of = junctor(schema, "allOf", path, depth)?;
    out.any_of = junctor(schema, "anyOf", path, depth)?;
    out.one_of = junctor(schema, "oneOf", path, depth)?;
    if let Some(not) = schema.get("not") {
        out.not = Some(Box::new(structure(not, &format!("{path}.not"), depth + 1)?));
    }
    Ok(out)
}

fn junctor(schema: &Value, name: &str, path: &str, depth: usize) -> Result<Vec<Structure>, String> {
    let list = schema.get(name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    list.iter()
        .enumerate()
        .map(|(index, part)| structure(part, &format!("{path}.{name}[{index}]"), depth + 1))
        .collect()
}

fn kind(schema: &Value, path: &str) -> Result<Option<Type>, String> {
    Ok(Some(match schema.get("type").and_then(Value::as_str) {
        Some("object") => Type::Object,
        Some("array") => Type::Array,
        Some("string") => Type::String,
        Some("integer") => Type::Integer,
        Some("number") => Type::Number,
        Some("boolean") => Type::Boolean,
        Some("") | None => return Ok(None),
        Some(other) => return Err(format!("{path}.type: Unsupported value: {other:?}")),
    }))
}

fn texts(schema: &Value, name: &str) -> Vec<String> {
    let list = schema.get(name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    list.iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

fn list_type(schema: &Value) -> ListType {
    match schema.get("x-kubernetes-list-type").and_then(Value::as_str) {
        Some("set") => ListType::Set,
        Some("map") => ListType::Map(texts(schema, "x-kubernetes-list-map-keys")),
        _ => ListType::Atomic,
    }
}

fn limits(schema: &Value, path: &str) -> Result<Limits, String> {
    let number = |name: &str| schema.get(name).and_then(Value::as_f64);
    let count = |name: &str| schema.get(name).and_then(Value::as_u64);
    let flag = |name: &str| schema.get(name).and_then(Value::as_bool).unwrap_or_default();
    let pattern = match schema.get("pattern").and_then(Value::as_str) {
        Some(text) => Some(regex::Regex::new(text).map_err(|error| format!("{path}.pattern: {error}"))?),
        None => None,
    };
    Ok(Limits {
        minimum: number("minimum"),
        maximum: number("maximum"),
        exclusive_minimum: flag("exclusiveMinimum"),
        exclusive_maximum: flag("exclusiveMaximum"),
        multiple_of: number("multipleOf"),
        min_length: count("minLength"),
        max_length: count("maxLength"),
        min_items: count("minItems"),
        max_items: count("maxItems"),
        unique_items: flag("uniqueItems"),
        min_properties: count("minProperties"),
        max_properties: count("maxProperties"),
        pattern,
        format: schema.get("format").and_then(Value::as_str).unwrap_or_default().to_owned(),
        options: schema.get("enum").and_then(Value::as_array).cloned().unwrap_or_default(),
    })
}

fn rules(schema: &Value, path: &str) -> Result<Vec<Rule>, String> {
    let list = schema.get("x-kubernetes-validations").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    list.iter()
        .enumerate()
        .map(|(index, rule)| Rule::parse(rule).map_err(|why| format!("{path}.x-kubernetes-validations[{index}].{why}")))
        .collect()
}
