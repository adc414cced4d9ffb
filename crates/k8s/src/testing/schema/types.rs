//! Whether the JSON of a built-in kind fits its type, and the words of the decoder where it does not.

use serde_json::Value;

use super::super::object::Object;
use super::{Structure, Type};

/// Checks types only; values are checked later.
pub(crate) fn decodes(structure: &Structure, object: &Object) -> Result<(), String> {
    members(structure, object, "")
}

fn members(structure: &Structure, object: &Object, path: &str) -> Result<(), String> {
    for (name, value) in object {
        if let Some(member) = structure.member(name) {
            let listed = structure.properties.contains_key(name);
            let path = match (path.is_empty(), listed) {
                (true, _) => name.clone(),
                (false, true) => format!("{path}.{name}"),
                (false, false) => path.to_owned(),
            };
            descend(member, value, &structure.name, &path)?;
        }
    }
    Ok(())
}

fn descend(structure: &Structure, value: &Value, owner: &str, path: &str) -> Result<(), String> {
    if value.is_null() {
        return Ok(());
    }
    if let Some(kind) = structure.kind
        && !structure.int_or_string
        && !kind.fits(value)
    {
        return Err(mismatch(kind, structure, value, &format!("{owner}.{path}")));
    }
    match value {
        Value::Object(object) => members(structure, object, path),
        Value::Array(list) => {
            let Some(items) = &structure.items else { return Ok(()) };
            list.iter().try_for_each(|item| descend(items, item, owner, path))
        }
        _ => Ok(()),
    }
}

fn mismatch(kind: Type, structure: &Structure, value: &Value, path: &str) -> String {
    let given = match value {
        Value::Bool(_) => "bool".to_owned(),
        Value::Number(number) if kind == Type::Integer => format!("number {number}"),
        Value::Number(_) => "number".to_owned(),
        Value::String(_) => "string".to_owned(),
        Value::Array(_) => "array".to_owned(),
        _ => "object".to_owned(),
    };
    let wanted = match kind {
        Type::Integer if structure.limits.format == "int64" => "int64",
        Type::Integer => "int32",
        Type::Boolean => "bool",
        Type::String => "string",
        Type::Number => "float64",
        Type::Array => "slice",
        Type::Object => "struct",
    };
    format!("json: cannot unmarshal {given} into Go struct field {path} of type {wanted}")
}
