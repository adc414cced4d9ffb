//! JSON schemas of types, as people read and write them. Owns their plain form; what a type consists of is said at the type.

use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use schemars::{JsonSchema, Schema};
use serde_json::Value;

/// The schema of a type in JSON Schema 2020-12. A member that may be absent is not said to be null, and a description has no
/// line breaks but those between paragraphs.
///
/// ```
/// let schema = orlop_core::schema::of::<orlop_core::spec::meta::KeyRef>();
/// assert_eq!(schema["properties"]["optional"]["type"], "boolean");
/// assert_eq!(schema["required"], serde_json::json!(["name", "key"]));
/// ```
#[must_use]
pub fn of<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().with_transform(RecursiveTransform(plain));
    settings.into_generator().into_root_schema_for::<T>().to_value()
}

fn plain(schema: &mut Schema) {
    let Some(members) = schema.as_object_mut() else { return };
    if let Some(Value::String(text)) = members.get_mut("description") {
        *text = text.split("\n\n").map(|paragraph| paragraph.replace('\n', " ")).collect::<Vec<_>>().join("\n\n");
    }
    if members.get("default").is_some_and(Value::is_null) {
        members.shift_remove("default");
    }
    if let Some(Value::Array(values)) = members.get_mut("enum") {
        values.retain(|value| !value.is_null());
    }
    let kinds = members.get("type").and_then(Value::as_array).into_iter().flatten();
    if let [kind] = kinds.filter(|kind| *kind != "null").cloned().collect::<Vec<_>>().as_slice() {
        members.insert("type".to_owned(), kind.clone());
    }
    if let Some(Value::Array(mut choices)) = members.shift_remove("anyOf") {
        choices.retain(|choice| choice.get("type").is_none_or(|kind| kind != "null"));
        match choices.pop() {
            Some(Value::Object(only)) if choices.is_empty() => {
                for (name, value) in only {
                    members.entry(name).or_insert(value);
                }
            }
            last => {
                choices.extend(last);
                members.insert("anyOf".to_owned(), Value::Array(choices));
            }
        }
    }
}
