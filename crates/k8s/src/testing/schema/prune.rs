//! Dropping members that the schema does not have. Depth is bounded by that of the parser which read the object.

use serde_json::Value;

use super::super::object::Object;
use super::Structure;

/// Drops them from an object of a kind; its type and metadata stay.
pub(crate) fn prune(structure: &Structure, object: &mut Object) -> Vec<String> {
    let mut unknown = Vec::new();
    let mut path = String::new();
    members(structure, object, true, &mut path, &mut unknown);
    unknown.sort();
    unknown
}

fn members(structure: &Structure, object: &mut Object, root: bool, path: &mut String, unknown: &mut Vec<String>) {
    let resource = root || structure.embedded;
    let mut strange = Vec::new();
    for (name, value) in object.iter_mut() {
        if resource && matches!(name.as_str(), "apiVersion" | "kind") {
            continue;
        }
        let metadata = resource && name == "metadata";
        let length = path.len();
        if !path.is_empty() {
            path.push('.');
        }
        path.push_str(name);
        let member = if metadata { Some(super::metadata()) } else { structure.member(name) };
        match member {
            Some(member) => descend(member, value, path, unknown),
            None if structure.preserve => {}
            None => {
                unknown.push(path.clone());
                strange.push(name.clone());
            }
        }
        path.truncate(length);
    }
    for name in strange {
        object.remove(&name);
    }
}

fn descend(structure: &Structure, value: &mut Value, path: &mut String, unknown: &mut Vec<String>) {
    match value {
        Value::Object(object) => members(structure, object, false, path, unknown),
        Value::Array(list) => {
            let Some(items) = &structure.items else { return };
            for (index, item) in list.iter_mut().enumerate() {
                let length = path.len();
                path.push_str(&format!("[{index}]"));
                descend(items, item, path, unknown);
                path.truncate(length);
            }
        }
        _ => {}
    }
}
