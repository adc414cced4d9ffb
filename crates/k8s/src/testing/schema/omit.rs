//! What the types of built-in kinds leave out when they are written: empty lists, maps and optional texts, and nulls. Depth is
//! bounded by that of the parser which read the object.

use serde_json::Value;

use super::super::object::Object;
use super::Structure;

/// Leaves it out.
pub(super) fn omit(structure: &Structure, object: &mut Object) {
    let mut empty = Vec::new();
    for (name, value) in object.iter_mut() {
        let Some(member) = structure.properties.get(name) else {
            if let Some(member) = &structure.additional {
                descend(member, value);
            }
            continue;
        };
        descend(member, value);
        let required = structure.required.contains(name);
        let hollow = match value {
            Value::Null => true,
            Value::Array(items) => items.is_empty() && !required,
            Value::Object(members) => members.is_empty() && member.additional.is_some(),
            Value::String(text) => text.is_empty() && !required,
            _ => false,
        };
        if hollow {
            empty.push(name.clone());
        }
    }
    for name in empty {
        object.remove(&name);
    }
}

fn descend(structure: &Structure, value: &mut Value) {
    match value {
        Value::Object(object) => omit(structure, object),
        Value::Array(list) => {
            let Some(items) = &structure.items else { return };
            list.iter_mut().for_each(|item| descend(items, item));
        }
        _ => {}
    }
}
