//! The rules of built-in kinds: what the server completes in their objects and what it refuses. One file a kind that has
//! much to say; nothing is stored here.

mod claim;
mod job;
mod pod;

use serde_json::{Value, json};

use super::kind::{Builtin, Kind};
use super::object::{Object, at, child, list, meta, metadata, text};
use super::refusal::Cause;

/// Completes a new object, or one that takes the place of `old`.
pub(crate) fn complete(kind: &Kind, old: Option<&Object>, object: &mut Object) {
    match kind.habits.builtin {
        Builtin::Job => job::complete(old, object),
        Builtin::Pod => pod::complete(old, object),
        Builtin::Claim => claim::complete(old, object),
        Builtin::Namespace if old.is_none() => {
            let name = meta(object, "name").to_owned();
            child(metadata(object), "labels").insert("kubernetes.io/metadata.name".to_owned(), name.into());
            object.insert("spec".to_owned(), json!({"finalizers": ["kubernetes"]}));
            object.insert("status".to_owned(), json!({"phase": "Active"}));
        }
        Builtin::Data if kind.kind == "Secret" => secret(object),
        Builtin::Event => {
            object.entry("deprecatedFirstTimestamp").or_insert(Value::Null);
            object.entry("deprecatedLastTimestamp").or_insert(Value::Null);
            object.entry("deprecatedSource").or_insert_with(|| json!({}));
        }
        Builtin::Quota | Builtin::Node if old.is_none() => {
            object.entry("spec").or_insert_with(|| json!({}));
            object.entry("status").or_insert_with(|| json!({}));
        }
        _ => {}
    }
}

/// `stringData` is for writing only.
fn secret(object: &mut Object) {
    if let Some(Value::Object(plain)) = object.remove("stringData") {
        let data = child(object, "data");
        for (name, value) in plain {
            let encoded =
                base64::Engine::encode(&base64::engine::general_purpose::STANDARD, value.as_str().unwrap_or_default());
            data.insert(name, encoded.into());
        }
    }
    object.entry("type").or_insert_with(|| "Opaque".into());
}

/// What is wrong with an object, beyond what is wrong with any.
pub(crate) fn check(kind: &Kind, old: Option<&Object>, object: &Object) -> Vec<Cause> {
    match kind.habits.builtin {
        Builtin::Job => job::check(old, object),
        Builtin::Pod => pod::check(old, object),
        Builtin::Claim => claim::check(old, object),
        Builtin::Data => data(old, object),
        Builtin::Event => event(object),
        _ => Vec::new(),
    }
}

/// The content of a ConfigMap or Secret, in bytes.
const DATA: usize = 1024 * 1024;

/// ConfigMaps and Secrets: keys are names, and what was made immutable stays as it is.
fn data(old: Option<&Object>, object: &Object) -> Vec<Cause> {
    let mut causes = Vec::new();
    for member in ["data", "binaryData"] {
        for name in at(object, &[member]).and_then(Value::as_object).into_iter().flat_map(Object::keys) {
            if name.is_empty()
                || name.len() > 253
                || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
            {
                let why = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or \
                           'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";
                causes.push(Cause::invalid(format!("{member}[{name}]"), &Value::from(name.as_str()), why));
            }
        }
    }
    let size = |member: &str| -> usize {
        let members = at(object, &[member]).and_then(Value::as_object).into_iter().flat_map(Object::values);
        members.map(|value| value.as_str().map_or(0, str::len)).sum()
    };
    if size("data") + size("binaryData") / 4 * 3 > DATA {
        causes.push(Cause::too_long("[]", 1_048_576));
    }
    let Some(old) = old.filter(|old| old.get("immutable") == Some(&Value::Bool(true))) else { return causes };
    if object.get("immutable") != Some(&Value::Bool(true)) {
        causes.push(Cause::forbidden("immutable", "field is immutable when `immutable` is set"));
    }
    for member in ["data", "binaryData"] {
        if object.get(member) != old.get(member) {
            causes.push(Cause::forbidden(member, "field is immutable when `immutable` is set"));
        }
    }
    causes
}

/// Events of `events.k8s.io/v1`: who reports what.
fn event(object: &Object) -> Vec<Cause> {
    let mut causes = Vec::new();
    if text(object, &["eventTime"]).is_empty() {
        causes.push(Cause::required("eventTime", ""));
    }
    for (field, shown) in [
        ("reportingController", "reportingController"),
        ("reportingInstance", "reportingInstance"),
        ("action", "action"),
        ("reason", "reason"),
    ] {
        if text(object, &[field]).is_empty() {
            causes.push(Cause::required(shown, ""));
        }
    }
    let limits = [("reportingInstance", 128), ("action", 128), ("reason", 128), ("note", 1024)];
    for (field, limit) in limits {
        let value = text(object, &[field]);
        if value.len() > limit {
            let (shown, words) = if field == "note" { ("message", "1024") } else { (field, "128") };
            causes.push(Cause::invalid(shown, &Value::from(""), format!("can have at most {words} characters")));
        }
    }
    let kind = text(object, &["type"]);
    if kind != "Normal" && kind != "Warning" {
        causes.push(Cause::invalid("type", &Value::from(""), format!("has invalid value: {kind}")));
    }
    causes
}

/// What differs may not: a cause that names the field.
fn immutable(old: &Object, object: &Object, path: &[&str], causes: &mut Vec<Cause>) {
    let (before, after) = (at(old, path), at(object, path));
    if before != after {
        let value = after.cloned().unwrap_or(Value::Null);
        causes.push(Cause::invalid(path.join("."), &value, "field is immutable"));
    }
}

/// The containers of a pod spec.
fn containers<'a>(object: &'a Object, path: &[&str]) -> &'a [Value] {
    list(object, path)
}
