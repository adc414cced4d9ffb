//! From the shape of a type and the notes on its fields to a structural schema of `apiextensions.k8s.io/v1`. Owns how each
//! shape is written; decides nothing about which fields there are.

use orlop_core::spec::flow::FlowSpec;
use orlop_core::spec::status::FlowStatus;
use serde_json::{Map, Value, json};

use super::fields::{Bounds, Form, Notes, fields};
use super::trace::{Field, Object, Shape, TraceError, shape_of};

/// A time that every field of that form reads.
const SOME_TIME: &str = "1970-01-01T00:00:00Z";

/// A Manual step needs no template.
const STEP_RULE: &str = "self.type == 'Manual' || has(self.template)";

/// Shape of `spec`.
///
/// # Errors
/// Never while the table of fields fits the types, which a test holds.
pub(crate) fn spec_shape() -> Result<Shape, TraceError> {
    shape_of::<FlowSpec>(&sample)
}

/// Shape of `status`. The outputs of a step admit all that its spec declares besides what is recorded.
///
/// # Errors
/// As of [`spec_shape`].
pub(crate) fn status_shape() -> Result<Shape, TraceError> {
    let mut status = shape_of::<FlowStatus>(&sample)?;
    let spec = spec_shape()?;
    if let (Some(recorded), Some(declared)) =
        (member(&mut status, &["steps", "outputs"]), member(&mut spec.clone(), &["steps", "outputs"]))
    {
        admit(recorded, declared);
    }
    Ok(status)
}

fn sample(object: &'static str, field: &'static str) -> &'static str {
    match fields().get(&(object, field)) {
        Some(Notes { form: Form::Time, .. }) => SOME_TIME,
        Some(Notes { choices: Some(choices), .. }) => choices.first().copied().unwrap_or_default(),
        _ => "x",
    }
}

/// The shape at a path of members; lists are passed through.
fn member<'s>(shape: &'s mut Shape, path: &[&str]) -> Option<&'s mut Shape> {
    match (shape, path) {
        (Shape::List(inner), path) => member(inner, path),
        (shape, []) => Some(shape),
        (Shape::Object(object), [name, rest @ ..]) => {
            member(&mut object.fields.iter_mut().find(|field| field.name == *name)?.shape, rest)
        }
        _ => None,
    }
}

/// Adds the members of `more` that `shape` lacks, none of them required.
fn admit(shape: &mut Shape, more: &Shape) {
    match (shape, more) {
        (Shape::List(inner), Shape::List(more)) => admit(inner, more),
        (Shape::Object(object), Shape::Object(more)) => {
            for extra in &more.fields {
                match object.fields.iter_mut().find(|field| field.name == extra.name) {
                    Some(field) => admit(&mut field.shape, &extra.shape),
                    None => object.fields.push(Field { required: false, ..extra.clone() }),
                }
            }
        }
        _ => {}
    }
}

/// The structural schema of a shape that no field holds.
pub(crate) fn schema(shape: &Shape) -> Value {
    Value::Object(shaped(shape, &Notes::default()))
}

fn shaped(shape: &Shape, notes: &Notes) -> Map<String, Value> {
    match (shape, notes.form) {
        (Shape::Any, Form::Job) => job(),
        (Shape::Any, _) => members(json!({"x-kubernetes-preserve-unknown-fields": true})),
        (Shape::Bool, _) => members(json!({"type": "boolean"})),
        (Shape::Integer { long, signed }, _) => {
            let format = if *long { "int64" } else { "int32" };
            let least = if *signed { notes.value.least } else { notes.value.least.or(Some(0)) };
            bounded(
                json!({"type": "integer", "format": format}),
                Bounds { least, ..notes.value },
                ["minimum", "maximum"],
            )
        }
        (Shape::Number, _) => bounded(json!({"type": "number"}), notes.value, ["minimum", "maximum"]),
        (Shape::Text(_), Form::Time) => members(json!({"type": "string", "format": "date-time"})),
        (Shape::Text(texts), _) => {
            let mut own = bounded(json!({"type": "string"}), notes.length, ["minLength", "maxLength"]);
            let choices = notes.choices.as_deref().unwrap_or(texts);
            if !choices.is_empty() {
                own.insert("enum".to_owned(), json!(choices));
            }
            own
        }
        (Shape::List(inner), _) => list(inner, notes),
        (Shape::Map(inner), _) => members(json!({"type": "object", "additionalProperties": schema(inner)})),
        (Shape::Object(object), _) => structure(object),
    }
}

fn list(inner: &Shape, notes: &Notes) -> Map<String, Value> {
    let items = match notes.form {
        Form::Objects => json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}),
        _ => schema(inner),
    };
    let mut own = bounded(json!({"type": "array", "items": items}), notes.items, ["minItems", "maxItems"]);
    if let Some(key) = notes.key {
        own.insert("x-kubernetes-list-type".to_owned(), json!("map"));
        own.insert("x-kubernetes-list-map-keys".to_owned(), json!([key]));
    }
    own
}

fn structure(object: &Object) -> Map<String, Value> {
    let mut properties = Map::new();
    let mut required = Vec::new();
    for field in &object.fields {
        let nothing = Notes::default();
        let notes = fields().get(&(field.owner, field.name)).unwrap_or(&nothing);
        let mut own = members(json!({"description": notes.description}));
        own.append(&mut shaped(&field.shape, notes));
        if let Some(default) = &notes.default {
            own.insert("default".to_owned(), default.clone());
        }
        properties.insert(field.name.to_owned(), Value::Object(own));
        if field.required {
            required.push(field.name);
        }
    }
    let mut own = members(json!({"type": "object", "properties": properties}));
    if !required.is_empty() {
        own.insert("required".to_owned(), json!(required));
    }
    if object.name == "Step" {
        let rule = json!([{"rule": STEP_RULE, "message": "a step of type Job needs a template"}]);
        own.insert("x-kubernetes-validations".to_owned(), rule);
    }
    own
}

/// The schema of a step's template: what a Job must have is declared, the rest is kept as it is.
fn job() -> Map<String, Value> {
    let open = |description: &str| json!({"description": description, "type": "object", "x-kubernetes-preserve-unknown-fields": true});
    members(json!({
        "type": "object",
        "properties": {
            "apiVersion": {"description": "Always batch/v1.", "type": "string", "enum": ["batch/v1"]},
            "kind": {"description": "Always Job.", "type": "string", "enum": ["Job"]},
            "metadata": open("Labels and annotations of the Job; its name is that of the attempt."),
            "spec": open("The spec of the Job."),
        },
        "required": ["apiVersion", "kind", "spec"],
    }))
}

fn bounded(base: Value, bounds: Bounds, [least, most]: [&str; 2]) -> Map<String, Value> {
    let mut own = members(base);
    for (name, bound) in [(least, bounds.least), (most, bounds.most)] {
        if let Some(bound) = bound {
            own.insert(name.to_owned(), json!(bound));
        }
    }
    own
}

fn members(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(members) => members,
        _ => Map::new(),
    }
}
