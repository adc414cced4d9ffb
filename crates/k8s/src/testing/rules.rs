//! Rules for the metadata of all objects: names, labels, finalizers, sizes.

use bytes::Bytes;
use serde_json::Value;

use super::kind::{Builtin, Kind};
use super::object::{Object, at, deleting, finalizers, list, meta};
use super::refusal::{Cause, Refusal, Result};

const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and \
     must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
     '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
/// What is wrong with a name that should be a label.
pub(crate) const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must \
     start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
     '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const LABEL_VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must \
     start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is \
     '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
const QUALIFIED: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
     alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
     '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
/// All annotations of an object together, in bytes.
const ANNOTATIONS: usize = 256 * 1024;
/// A request to the store, in bytes.
const REQUEST: usize = 1_572_864;
/// A request to the API server, in bytes.
const BODY: usize = 3 * 1024 * 1024;

/// Whether a text is a DNS label.
pub(crate) fn is_label(text: &str) -> bool {
    text.len() <= 63 && is_part(text)
}

fn is_part(text: &str) -> bool {
    let bytes = text.as_bytes();
    let edge = |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    edge(bytes.first())
        && edge(bytes.last())
        && bytes.iter().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || *byte == b'-')
}

fn is_subdomain(text: &str) -> bool {
    text.len() <= 253 && text.split('.').all(is_part)
}

fn is_word(text: &str) -> bool {
    let edge = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = text.as_bytes();
    text.len() <= 63
        && edge(bytes.first())
        && edge(bytes.last())
        && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(byte))
}

/// What is wrong with the metadata of a new object.
pub(crate) fn check_new(kind: &Kind, object: &Object) -> Vec<Cause> {
    let mut causes = Vec::new();
    let name = meta(object, "name");
    if name.is_empty() {
        causes.push(Cause::required("metadata.name", "name or generateName is required"));
    } else {
        check_name(kind, name, &mut causes);
    }
    check_maps(object, &mut causes);
    check_owners(object, &mut causes);
    check_finalizers(kind, object, &mut causes);
    causes
}

fn check_name(kind: &Kind, name: &str, causes: &mut Vec<Cause>) {
    let value = Value::from(name);
    let label = kind.habits.builtin == Builtin::Namespace || kind.plural == "services";
    if kind.group == "rbac.authorization.k8s.io" {
        if name == "." || name == ".." || name.contains(['/', '%']) {
            causes.push(Cause::invalid("metadata.name", &value, "may not contain '/'"));
        }
    } else if label && !is_label(name) {
        causes.push(Cause::invalid("metadata.name", &value, LABEL));
    } else if name.len() > 253 {
        causes.push(Cause::invalid("metadata.name", &value, "must be no more than 253 bytes"));
    } else if !label && !is_subdomain(name) {
        causes.push(Cause::invalid("metadata.name", &value, SUBDOMAIN));
    }
}

fn check_maps(object: &Object, causes: &mut Vec<Cause>) {
    let empty = Object::new();
    let map = |name: &str| at(object, &["metadata", name]).and_then(Value::as_object).unwrap_or(&empty);
    for (key, value) in map("labels") {
        check_key("metadata.labels", key, causes);
        let text = value.as_str().unwrap_or_default();
        if text.len() > 63 {
            causes.push(Cause::invalid("metadata.labels", value, "must be no more than 63 bytes"));
        } else if !text.is_empty() && !is_word(text) {
            causes.push(Cause::invalid("metadata.labels", value, LABEL_VALUE));
        }
    }
    let mut size = 0;
    for (key, value) in map("annotations") {
        check_key("metadata.annotations", &key.to_lowercase(), causes);
        size += key.len() + value.as_str().map_or(0, str::len);
    }
    if size > ANNOTATIONS {
        causes.push(Cause::too_long("metadata.annotations", 262_144));
    }
}

fn check_key(place: &str, key: &str, causes: &mut Vec<Cause>) {
    let (prefix, name) = key.split_once('/').map_or((None, key), |(prefix, name)| (Some(prefix), name));
    let value = Value::from(key);
    if name.contains('/') {
        let what = if place == "metadata.labels" { "a valid label key" } else { "a qualified name" };
        let why = format!(
            "{what} must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
                   alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
                   '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' (e.g. \
                   'example.com/MyName')"
        );
        causes.push(Cause::invalid(place, &value, why));
        return;
    }
    if let Some(prefix) = prefix.filter(|prefix| !is_subdomain(prefix)) {
        let why = if prefix.is_empty() {
            "prefix part must be non-empty".to_owned()
        } else {
            format!("prefix part {SUBDOMAIN}")
        };
        causes.push(Cause::invalid(place, &value, why));
    }
    if name.len() > 63 {
        causes.push(Cause::invalid(place, &value, "name part must be no more than 63 bytes"));
    } else if name.is_empty() {
        causes.push(Cause::invalid(place, &value, "name part must be non-empty"));
    } else if !is_word(name) {
        causes.push(Cause::invalid(place, &value, QUALIFIED));
    }
}

fn check_owners(object: &Object, causes: &mut Vec<Cause>) {
    let mut controllers = 0;
    for owner in list(object, &["metadata", "ownerReferences"]) {
        for (member, why) in [
            ("apiVersion", "version must not be empty"),
            ("kind", "must not be empty"),
            ("name", "must not be empty"),
            ("uid", "must not be empty"),
        ] {
            let value = owner.get(member).and_then(Value::as_str).unwrap_or_default();
            if value.is_empty() {
                causes.push(Cause::invalid(format!("metadata.ownerReferences.{member}"), &Value::from(""), why));
            }
        }
        controllers += usize::from(owner.get("controller") == Some(&Value::Bool(true)));
    }
    if controllers > 1 {
        let owners = at(object, &["metadata", "ownerReferences"]).cloned().unwrap_or(Value::Null);
        causes.push(Cause::invalid(
            "metadata.ownerReferences",
            &owners,
            "Only one reference can have Controller set to true.",
        ));
    }
}

/// Finalizers are names of somebody, or of the few that the server knows.
fn check_finalizers(kind: &Kind, object: &Object, causes: &mut Vec<Cause>) {
    for (index, name) in finalizers(object).into_iter().enumerate() {
        let known = matches!(name, "kubernetes" | "orphan" | "foregroundDeletion");
        if !name.contains('/') && !known && !kind.is_custom() {
            let why = "name is neither a standard finalizer name nor is it fully qualified";
            causes.push(Cause::invalid(format!("metadata.finalizers[{index}]"), &Value::from(name), why));
        }
    }
}

/// What is wrong with the metadata of an object that takes the place of another.
pub(crate) fn check_update(kind: &Kind, old: &Object, new: &Object) -> Vec<Cause> {
    let mut causes = Vec::new();
    check_maps(new, &mut causes);
    check_owners(new, &mut causes);
    check_finalizers(kind, new, &mut causes);
    if deleting(old) {
        let before = finalizers(old);
        let added: Vec<String> =
            finalizers(new).into_iter().filter(|name| !before.contains(name)).map(super::object::quoted).collect();
        if !added.is_empty() {
            let why = format!(
                "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
                added.join(", ")
            );
            causes.push(Cause::forbidden("metadata.finalizers", &why));
        }
    }
    causes
}

/// The number of replicas that the scale subresource would show.
pub(crate) fn check_scale(kind: &Kind, object: &Object) -> Vec<Cause> {
    let Some(scale) = &kind.scale else { return Vec::new() };
    let place = format!(".{}", scale.spec.join("."));
    let bad = |value: Value, why: String| vec![Cause::invalid(place.clone(), &value, why)];
    let mut value: Option<&Value> = None;
    for (index, name) in scale.spec.iter().enumerate() {
        let members = if index == 0 { Some(object) } else { value.and_then(Value::as_object) };
        let Some(members) = members else {
            let wrong = value.filter(|value| !value.is_null());
            let why =
                |value: &Value| format!("{place} accessor error: {}, expected map[string]interface{{}}", typed(value));
            return wrong.map(|value| bad(Value::from(0), why(value))).unwrap_or_default();
        };
        value = members.get(name);
    }
    match value {
        None | Some(Value::Null) => Vec::new(),
        Some(value) => match value.as_i64() {
            None => bad(Value::from(0), format!("{place} accessor error: {}, expected int64", typed(value))),
            Some(number) if number < 0 => bad(value.clone(), "should be a non-negative integer".to_owned()),
            Some(number) if number > i64::from(i32::MAX) => {
                bad(value.clone(), format!("should be less than or equal to {}", i32::MAX))
            }
            Some(_) => Vec::new(),
        },
    }
}

/// A value and the name of its type in error texts of the server.
fn typed(value: &Value) -> String {
    let (shown, kind) = match value {
        Value::String(text) => (text.clone(), "string"),
        Value::Bool(_) => (value.to_string(), "bool"),
        Value::Number(_) => (value.to_string(), "float64"),
        Value::Array(_) => (value.to_string(), "[]interface {}"),
        _ => (value.to_string(), "map[string]interface {}"),
    };
    format!("{shown} is of the type {kind}")
}

/// Whether an object fits the store.
pub(crate) fn check_size(body: &Bytes, object: &Object) -> Result<()> {
    if body.len() > BODY {
        return Err(Refusal::too_large(format!("Request entity too large: limit is {BODY}")));
    }
    // Most objects are so small that a look shows it.
    if object.values().map(weight).sum::<usize>() < REQUEST / 2 {
        return Ok(());
    }
    let size = serde_json::to_vec(object).map_or(usize::MAX, |text| text.len());
    if size > REQUEST {
        return Err(Refusal::plain("etcdserver: request is too large"));
    }
    Ok(())
}

/// About the size of a value as text, escapes not counted. Depth is bounded by that of the parser which read it.
fn weight(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len() + 2,
        Value::Array(list) => list.iter().map(|item| weight(item) + 1).sum(),
        Value::Object(map) => map.iter().map(|(name, value)| name.len() + weight(value) + 4).sum(),
        _ => 8,
    }
}
