//! Structural schemas: what a CustomResourceDefinition says of the fields of its objects, and what the real types say of
//! those of built-in kinds. Prunes, completes and checks objects; stores nothing.

mod check;
mod complete;
mod format;
mod natural;
mod omit;
mod parse;
mod prune;
mod rule;
mod types;

use std::collections::BTreeMap;

use serde_json::Value;

use super::object::Object;
use super::refusal::Cause;

pub(crate) use natural::{metadata, of as natural};
pub(crate) use rule::Rule;

/// A JSON type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Type {
    Object,
    Array,
    String,
    Integer,
    Number,
    Boolean,
}

impl Type {
    /// Its name in schemas and messages.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Object => "object",
            Self::Array => "array",
            Self::String => "string",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Boolean => "boolean",
        }
    }

    /// The type of a value; integers are numbers too.
    pub(crate) fn name_of(value: &Value) -> &'static str {
        match value {
            Value::Null => "null",
            Value::Bool(_) => "boolean",
            Value::Number(number) if number.is_i64() || number.is_u64() => "integer",
            Value::Number(_) => "number",
            Value::String(_) => "string",
            Value::Array(_) => "array",
            Value::Object(_) => "object",
        }
    }

    /// Whether a value has this type.
    pub(crate) fn fits(self, value: &Value) -> bool {
        match self {
            Self::Object => value.is_object(),
            Self::Array => value.is_array(),
            Self::String => value.is_string(),
            Self::Boolean => value.is_boolean(),
            Self::Number => value.is_number(),
            Self::Integer => {
                value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|number| number.fract() == 0.0)
            }
        }
    }
}

/// How the items of a list are told apart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum ListType {
    /// Not at all: the list is one value.
    #[default]
    Atomic,
    /// By themselves.
    Set,
    /// By the values of these members.
    Map(Vec<String>),
}

/// Bounds on values.
#[derive(Clone, Debug, Default)]
pub(crate) struct Limits {
    pub(crate) minimum: Option<f64>,
    pub(crate) maximum: Option<f64>,
    pub(crate) exclusive_minimum: bool,
    pub(crate) exclusive_maximum: bool,
    pub(crate) multiple_of: Option<f64>,
    pub(crate) min_length: Option<u64>,
    pub(crate) max_length: Option<u64>,
    pub(crate) min_items: Option<u64>,
    pub(crate) max_items: Option<u64>,
    pub(crate) unique_items: bool,
    pub(crate) min_properties: Option<u64>,
    pub(crate) max_properties: Option<u64>,
    pub(crate) pattern: Option<regex::Regex>,
    pub(crate) format: String,
    pub(crate) options: Vec<Value>,
}

/// The schema of one value.
#[derive(Clone, Debug, Default)]
pub(crate) struct Structure {
    /// The name of the type, in built-in kinds.
    pub(crate) name: String,
    pub(crate) kind: Option<Type>,
    pub(crate) properties: BTreeMap<String, Structure>,
    /// The schema of members that are not listed; `preserve` where it is anything.
    pub(crate) additional: Option<Box<Structure>>,
    pub(crate) items: Option<Box<Structure>>,
    pub(crate) required: Vec<String>,
    pub(crate) default: Option<Value>,
    pub(crate) nullable: bool,
    pub(crate) int_or_string: bool,
    pub(crate) preserve: bool,
    pub(crate) embedded: bool,
    pub(crate) list: ListType,
    pub(crate) atomic_map: bool,
    pub(crate) limits: Limits,
    pub(crate) all_of: Vec<Structure>,
    pub(crate) any_of: Vec<Structure>,
    pub(crate) one_of: Vec<Structure>,
    pub(crate) not: Option<Box<Structure>>,
    pub(crate) rules: Vec<Rule>,
}

impl Structure {
    /// Drops what is not in the schema; returns the paths of what was dropped.
    pub(crate) fn prune(&self, object: &mut Object) -> Vec<String> {
        prune::prune(self, object)
    }

    /// Leaves out what a built-in kind does not write.
    pub(crate) fn omit(&self, object: &mut Object) {
        omit::omit(self, object);
    }

    /// Fills in what is missing and has a default.
    pub(crate) fn complete(&self, object: &mut Object) {
        complete::complete(self, object);
    }

    /// What is wrong with an object, behind what is `known` to be and before what `more` was found.
    pub(crate) fn check(
        &self,
        object: &Object,
        old: Option<&Object>,
        known: Vec<Cause>,
        more: Vec<Cause>,
    ) -> Vec<Cause> {
        check::check(self, object, old, known, more)
    }

    /// Whether an object of a built-in kind has members of the right types, as the decoder of its type wants them.
    pub(crate) fn decodes(&self, object: &Object) -> Result<(), String> {
        types::decodes(self, object)
    }

    /// The schema of a member, listed or not.
    pub(crate) fn member(&self, name: &str) -> Option<&Structure> {
        self.properties.get(name).or(self.additional.as_deref())
    }
}
