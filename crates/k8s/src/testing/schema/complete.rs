//! Filling in defaults. Depth is bounded by that of the parser which read the object, and that of the schema.

use serde_json::Value;

use super::super::object::Object;
use super::Structure;

/// Completes an object.
pub(crate) fn complete(structure: &Structure, object: &mut Object) {
    members(structure, object);
}

fn members(structure: &Structure, object: &mut Object) {
    // Nulls where none may be count as missing.
    let nulls: Vec<String> = object
        .iter()
        .filter(|(name, value)| {
            value.is_null() && structure.member(name).is_some_and(|member| !member.nullable && member.kind.is_some())
        })
        .map(|(name, _)| name.clone())
        .collect();
    for name in nulls {
        object.remove(&name);
    }
    for (name, member) in &structure.properties {
        if let Some(value) = &member.default
            && !object.contains_key(name)
        {
            object.insert(name.clone(), value.clone());
        }
    }
    for (name, value) in object.iter_mut() {
        if let Some(member) = structure.member(name) {
            descend(member, value);
        }
    }
}

fn descend(structure: &Structure, value: &mut Value) {
    match value {
        Value::Object(object) => members(structure, object),
        Value::Array(list) => {
            let Some(items) = &structure.items else { return };
            for item in list {
                descend(items, item);
            }
        }
        _ => {}
    }
}
