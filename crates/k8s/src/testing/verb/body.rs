//! The body of a write as an object of its kind: parsed, its type checked, unknown fields dropped or refused.

use serde_json::Value;

use super::super::kind::Kind;
use super::super::object::{Object, meta, set_meta, text};
use super::super::refusal::{Refusal, Result};
use super::super::request::{Call, FieldValidation};

/// An object and what the caller should be warned of.
pub(crate) struct Decoded {
    pub(crate) object: Object,
    pub(crate) warnings: Vec<String>,
}

/// Parses the body of a POST or PUT.
pub(crate) fn decode(kind: &Kind, call: &Call) -> Result<Decoded> {
    let value: Value = serde_json::from_slice(&call.body).map_err(|error| unreadable(kind, &error.to_string()))?;
    let Value::Object(mut object) = value else {
        return Err(unreadable(kind, "json: cannot unmarshal into Go value of type struct"));
    };
    check_type(kind, &mut object)?;
    check_place(call, &mut object)?;
    let warnings = known_fields(kind, call.options.field_validation, &mut object)?;
    Ok(Decoded { object, warnings })
}

fn unreadable(kind: &Kind, why: &str) -> Box<Refusal> {
    Refusal::bad_request(format!(
        "{name} in version \"{version}\" cannot be handled as a {name}: {why}",
        name = kind.kind,
        version = kind.version
    ))
}

/// The type of the body must be that of the path; a body that names none has it.
pub(crate) fn check_type(kind: &Kind, object: &mut Object) -> Result<()> {
    let expected = kind.api_version();
    let (given, name) = (text(object, &["apiVersion"]).to_owned(), text(object, &["kind"]).to_owned());
    if kind.is_custom() && (given.is_empty() || name.is_empty()) {
        let text = Value::Object(object.clone()).to_string();
        let start: String = text.chars().take(30).collect();
        return Err(Refusal::bad_request(if name.is_empty() {
            format!(
                "the object provided is unrecognized (must be of type {}): Object 'Kind' is missing in '{text}' ({start} ...)",
                kind.kind
            )
        } else {
            format!("the API version in the data () does not match the expected API version ({expected})")
        }));
    }
    if !given.is_empty() && given != expected && !kind.is_custom() {
        return Err(Refusal::bad_request(format!(
            "{name} in version {given:?} cannot be handled as a {}: no kind {name:?} is registered for version {given:?} in scheme \"pkg/runtime/scheme.go:111\"",
            kind.kind
        )));
    }
    if !name.is_empty() && name != kind.kind {
        let group = if kind.group.is_empty() { "core" } else { kind.group.as_str() };
        return Err(Refusal::bad_request(format!(
            "{name} in version \"{version}\" cannot be handled as a {own}: converting ({version}.{name}) to ({group}.{own}): unknown conversion",
            version = kind.version,
            own = kind.kind
        )));
    }
    if !given.is_empty() && given != expected {
        return Err(Refusal::bad_request(format!(
            "the API version in the data ({given}) does not match the expected API version ({expected})"
        )));
    }
    object.insert("apiVersion".to_owned(), expected.into());
    object.insert("kind".to_owned(), kind.kind.clone().into());
    Ok(())
}

/// Namespace and name of the body must be those of the path; a body that names none has them.
pub(crate) fn check_place(call: &Call, object: &mut Object) -> Result<()> {
    if let Some(name) = &call.path.name {
        let given = meta(object, "name");
        if !given.is_empty() && given != name {
            return Err(Refusal::bad_request(format!(
                "the name of the object ({given}) does not match the name on the URL ({name})"
            )));
        }
        set_meta(object, "name", name.as_str());
    }
    if let Some(namespace) = &call.path.namespace {
        let given = meta(object, "namespace");
        if !given.is_empty() && given != namespace {
            return Err(Refusal::bad_request(
                "the namespace of the provided object does not match the namespace sent on the request",
            ));
        }
        set_meta(object, "namespace", namespace.as_str());
    }
    Ok(())
}

/// Drops what the schema does not have: silently, with warnings, or not at all.
pub(crate) fn known_fields(kind: &Kind, validation: FieldValidation, object: &mut Object) -> Result<Vec<String>> {
    let Some(structure) = &kind.structure else { return Ok(Vec::new()) };
    if !kind.is_custom() {
        structure.decodes(object).map_err(|why| unreadable(kind, &why))?;
    }
    if let Some(Value::Object(metadata)) = object.get("metadata").filter(|_| kind.is_custom()) {
        super::super::schema::metadata().decodes(metadata).map_err(|why| unreadable(kind, &why))?;
    }
    let unknown = structure.prune(object);
    if !kind.is_custom() {
        structure.omit(object);
    }
    if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
        super::super::schema::metadata().omit(metadata);
    }
    if unknown.is_empty() || validation == FieldValidation::Ignore {
        return Ok(Vec::new());
    }
    let lines: Vec<String> = unknown.iter().map(|path| format!("unknown field \"{path}\"")).collect();
    if validation == FieldValidation::Strict {
        return Err(unreadable(kind, &format!("strict decoding error: {}", lines.join(", "))));
    }
    Ok(lines)
}
