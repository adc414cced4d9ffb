//! JSON schemas of the types of this crate. Owns their plain form; fields and descriptions come from the types.

use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use schemars::{JsonSchema, Schema};
use serde_json::{Map, Value};

/// The schema of a type in JSON Schema 2020-12. A member that may be absent is not nullable. A description has no line
/// breaks but those between paragraphs, and no example in Rust.
///
/// ```
/// let schema = orlop_core::schema::of::<orlop_core::spec::meta::KeyRef>();
/// assert_eq!(schema["properties"]["optional"]["type"], "boolean");
/// assert_eq!(schema["required"], serde_json::json!(["name", "key"]));
/// ```
#[must_use]
pub fn of<T: JsonSchema>() -> Value {
    settings().into_generator().into_root_schema_for::<T>().to_value()
}

/// The schemas of a type and of all that it names, by name, as components of an OpenAPI document.
#[must_use]
pub fn components<T: JsonSchema>() -> Map<String, Value> {
    let settings = settings().with(|settings| settings.definitions_path = "/components/schemas".into());
    let mut generator = settings.into_generator();
    generator.subschema_for::<T>();
    generator.take_definitions(true)
}

fn settings() -> SchemaSettings {
    SchemaSettings::draft2020_12().with_transform(RecursiveTransform(plain))
}

/// Gives a type a schema that is written out wherever the type is named.
macro_rules! written_out {
    ($name:ident, $schema:tt) => {
        impl ::schemars::JsonSchema for $name {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> ::std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut ::schemars::SchemaGenerator) -> ::schemars::Schema {
                ::schemars::json_schema!($schema)
            }
        }
    };
}
pub(crate) use written_out;

fn plain(schema: &mut Schema) {
    let Some(members) = schema.as_object_mut() else { return };
    if let Some(Value::String(text)) = members.get_mut("description") {
        let prose = text.split("```").next().unwrap_or_default().trim_end();
        *text = prose.split("\n\n").map(|paragraph| paragraph.replace('\n', " ")).collect::<Vec<_>>().join("\n\n");
    }
    if members.get("default").is_some_and(Value::is_null) {
        members.remove("default");
    }
    if let Some(Value::Array(values)) = members.get_mut("enum") {
        values.retain(|value| !value.is_null());
    }
    if let Some(kind) = members.get_mut("type")
        && let Some(kinds) = kind.as_array_mut()
    {
        kinds.retain(|kind| kind != "null");
        if let [only] = kinds.as_slice() {
            *kind = only.clone();
        }
    }
    if let Some(Value::Array(mut choices)) = members.remove("anyOf") {
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

#[cfg(test)]
mod tests {
    use serde::{Deserialize, Serialize};

    use super::*;

    /// How it is done
    /// in two lines.
    ///
    /// And why.
    ///
    /// ```
    /// assert!(true);
    /// ```
    #[derive(Serialize, Deserialize, JsonSchema)]
    struct Sample {
        kind: Option<Kind>,
        count: Option<u8>,
    }

    #[derive(Serialize, Deserialize, JsonSchema)]
    enum Kind {
        One,
    }

    #[test]
    fn what_may_be_absent_is_not_said_to_be_null_and_lines_are_joined() {
        let schema = of::<Sample>();
        assert_eq!(schema["description"], "How it is done in two lines.\n\nAnd why.");
        insta::assert_snapshot!(schema["properties"], @r##"{"count":{"format":"uint8","maximum":255,"minimum":0,"type":"integer"},"kind":{"$ref":"#/$defs/Kind"}}"##);
        assert_eq!(schema["required"], Value::Null);
    }
}
