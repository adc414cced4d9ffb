//! The shape of a serde type, found by driving its own `Deserialize`: which members it asks for, of what type, and which
//! it cannot do without. Owns that walk; knows nothing of Kubernetes.
//!
//! So a schema cannot forget a field: what a type reads is what the schema declares.

use std::fmt;

use serde::de::value::StrDeserializer;
use serde::de::{self, DeserializeOwned, DeserializeSeed, IntoDeserializer, MapAccess, SeqAccess, Visitor};

/// What a value may be.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) enum Shape {
    /// Anything at all.
    #[default]
    Any,
    /// `true` or `false`.
    Bool,
    /// A whole number.
    Integer {
        /// Whether it needs more than 32 bits.
        long: bool,
        /// Whether it may be below zero.
        signed: bool,
    },
    /// A number.
    Number,
    /// A text; one of these where there are any.
    Text(&'static [&'static str]),
    /// A list.
    List(Box<Shape>),
    /// An object with any member names.
    Map(Box<Shape>),
    /// An object with these members.
    Object(Object),
}

/// A struct.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Object {
    /// Name of the Rust type.
    pub(crate) name: &'static str,
    /// Its members in the order of the type.
    pub(crate) fields: Vec<Field>,
}

/// A member of a struct.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Field {
    /// Name of the Rust type that declares it.
    pub(crate) owner: &'static str,
    /// Its name in JSON.
    pub(crate) name: &'static str,
    /// What it may be.
    pub(crate) shape: Shape,
    /// Whether the type cannot be read without it.
    pub(crate) required: bool,
}

/// Why a type has no shape.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TraceError {
    /// A member was left out that must be there.
    #[error("`{0}` is missing")]
    Missing(&'static str),
    /// The type refuses what it was shown.
    #[error("{0}")]
    Refused(String),
}

impl de::Error for TraceError {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self::Refused(message.to_string())
    }

    fn missing_field(field: &'static str) -> Self {
        Self::Missing(field)
    }
}

/// A text that the member `Type.field` accepts.
pub(crate) type Sample<'a> = &'a dyn Fn(&'static str, &'static str) -> &'static str;

/// The shape of a type. `sample` gives a text for members that do not take every text.
///
/// # Errors
/// When the type refuses a sample, or asks for something no JSON object has.
pub(crate) fn shape_of<T: DeserializeOwned>(sample: Sample<'_>) -> Result<Shape, TraceError> {
    let mut shape = trace::<T>(sample, None)?;
    let mut failed = None;
    mark(&mut shape, &mut |field| match trace::<T>(sample, Some((field.owner, field.name))) {
        Ok(_) => false,
        Err(TraceError::Missing(_)) => true,
        Err(error) => {
            failed.get_or_insert(error);
            false
        }
    });
    failed.map_or(Ok(shape), Err)
}

/// Asks of every member whether it is required.
fn mark(shape: &mut Shape, required: &mut dyn FnMut(&Field) -> bool) {
    match shape {
        Shape::List(inner) | Shape::Map(inner) => mark(inner, required),
        Shape::Object(object) => {
            for field in &mut object.fields {
                field.required = required(field);
                mark(&mut field.shape, required);
            }
        }
        _ => {}
    }
}

fn trace<T: DeserializeOwned>(
    sample: Sample<'_>,
    omit: Option<(&'static str, &'static str)>,
) -> Result<Shape, TraceError> {
    let mut shape = Shape::Any;
    T::deserialize(Tracer { shape: &mut shape, walk: Walk { sample, omit }, text: "x" })?;
    Ok(shape)
}

#[derive(Clone, Copy)]
struct Walk<'a> {
    sample: Sample<'a>,
    omit: Option<(&'static str, &'static str)>,
}

/// Shows a type one value and writes down what it asked for.
struct Tracer<'a, 's> {
    shape: &'s mut Shape,
    walk: Walk<'a>,
    /// The text it is shown where it asks for one.
    text: &'static str,
}

macro_rules! scalar {
    ($($method:ident => $visit:ident($($value:expr)?), $shape:expr;)*) => {
        $(fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, TraceError> {
            *self.shape = $shape;
            visitor.$visit($($value)?)
        })*
    };
}

impl<'de> de::Deserializer<'de> for Tracer<'_, '_> {
    type Error = TraceError;

    scalar! {
        deserialize_any => visit_unit(), Shape::Any;
        deserialize_ignored_any => visit_unit(), Shape::Any;
        deserialize_bool => visit_bool(true), Shape::Bool;
        deserialize_i8 => visit_i8(1), Shape::Integer { long: false, signed: true };
        deserialize_i16 => visit_i16(1), Shape::Integer { long: false, signed: true };
        deserialize_i32 => visit_i32(1), Shape::Integer { long: false, signed: true };
        deserialize_i64 => visit_i64(1), Shape::Integer { long: true, signed: true };
        deserialize_u8 => visit_u8(1), Shape::Integer { long: false, signed: false };
        deserialize_u16 => visit_u16(1), Shape::Integer { long: false, signed: false };
        deserialize_u32 => visit_u32(1), Shape::Integer { long: false, signed: false };
        deserialize_u64 => visit_u64(1), Shape::Integer { long: true, signed: false };
        deserialize_f32 => visit_f32(1.0), Shape::Number;
        deserialize_f64 => visit_f64(1.0), Shape::Number;
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, TraceError> {
        *self.shape = Shape::Text(&[]);
        visitor.visit_str(self.text)
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, TraceError> {
        self.deserialize_str(visitor)
    }

    fn deserialize_char<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, TraceError> {
        self.deserialize_str(visitor)
    }

    fn deserialize_identifier<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, TraceError> {
        self.deserialize_str(visitor)
    }

    fn deserialize_bytes<V: Visitor<'de>>(self, _: V) -> Result<V::Value, TraceError> {
        Err(TraceError::Refused("JSON has no bytes".to_owned()))
    }

    fn deserialize_byte_buf<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, TraceError> {
        self.deserialize_bytes(visitor)
    }

    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, TraceError> {
        self.deserialize_any(visitor)
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, TraceError> {
        self.deserialize_any(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, TraceError> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, TraceError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, TraceError> {
        let mut inner = Shape::Any;
        let value = visitor.visit_seq(One { shape: Some(&mut inner), walk: self.walk, key: true, text: self.text })?;
        *self.shape = Shape::List(Box::new(inner));
        Ok(value)
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, TraceError> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: usize,
        visitor: V,
    ) -> Result<V::Value, TraceError> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, TraceError> {
        let mut inner = Shape::Any;
        let value = visitor.visit_map(One { shape: Some(&mut inner), walk: self.walk, key: true, text: self.text })?;
        *self.shape = Shape::Map(Box::new(inner));
        Ok(value)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, TraceError> {
        let mut members = Members { object: Object { name, fields: Vec::new() }, left: fields.iter(), walk: self.walk };
        let value = visitor.visit_map(&mut members)?;
        *self.shape = Shape::Object(members.object);
        Ok(value)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, TraceError> {
        *self.shape = Shape::Text(variants);
        let first: StrDeserializer<'_, TraceError> = variants.first().copied().unwrap_or_default().into_deserializer();
        visitor.visit_enum(first)
    }
}

/// A list of one item, or a mapping of one entry.
struct One<'a, 's> {
    shape: Option<&'s mut Shape>,
    walk: Walk<'a>,
    key: bool,
    text: &'static str,
}

impl<'de> SeqAccess<'de> for One<'_, '_> {
    type Error = TraceError;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, TraceError> {
        let Some(shape) = self.shape.take() else { return Ok(None) };
        seed.deserialize(Tracer { shape, walk: self.walk, text: self.text }).map(Some)
    }
}

impl<'de> MapAccess<'de> for One<'_, '_> {
    type Error = TraceError;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, TraceError> {
        if !std::mem::replace(&mut self.key, false) {
            return Ok(None);
        }
        let key: StrDeserializer<'_, TraceError> = "x".into_deserializer();
        seed.deserialize(key).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, TraceError> {
        let Some(shape) = self.shape.take() else { return Err(TraceError::Refused("a second entry".to_owned())) };
        seed.deserialize(Tracer { shape, walk: self.walk, text: self.text })
    }
}

/// All members of a struct, each once.
struct Members<'a> {
    object: Object,
    left: std::slice::Iter<'static, &'static str>,
    walk: Walk<'a>,
}

impl<'de> MapAccess<'de> for &mut Members<'_> {
    type Error = TraceError;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, TraceError> {
        let omit = self.walk.omit;
        let object = self.object.name;
        let Some(name) = self.left.find(|name| omit != Some((object, **name))) else { return Ok(None) };
        self.object.fields.push(Field { owner: object, name, shape: Shape::Any, required: false });
        let key: StrDeserializer<'_, TraceError> = (*name).into_deserializer();
        seed.deserialize(key).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, TraceError> {
        let object = self.object.name;
        let Some(field) = self.object.fields.last_mut() else {
            return Err(TraceError::Refused("a value before its name".to_owned()));
        };
        let text = (self.walk.sample)(object, field.name);
        let mut shape = Shape::Any;
        let value = seed
            .deserialize(Tracer { shape: &mut shape, walk: self.walk, text })
            .map_err(|error| within(error, object, field.name))?;
        field.shape = shape;
        Ok(value)
    }
}

/// Says which member refused, once.
fn within(error: TraceError, object: &str, field: &str) -> TraceError {
    match error {
        TraceError::Refused(why) if !why.contains(": ") => TraceError::Refused(format!("{object}.{field}: {why}")),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;

    use super::*;

    #[derive(PartialEq, Deserialize)]
    #[serde(rename_all = "camelCase", deny_unknown_fields)]
    struct Outer {
        must_be: String,
        may_be: Option<i64>,
        #[serde(default)]
        list: Vec<Inner>,
        #[serde(default)]
        map: BTreeMap<String, u32>,
        #[serde(default)]
        open: Option<serde_json::Value>,
        #[serde(skip)]
        hidden: Option<u8>,
    }

    #[derive(PartialEq, Deserialize)]
    struct Inner {
        kind: Kind,
        #[serde(default)]
        share: Option<f64>,
    }

    #[derive(PartialEq, Deserialize)]
    enum Kind {
        One,
        Two,
    }

    #[test]
    fn what_a_type_reads_is_its_shape() {
        let Shape::Object(outer) = shape_of::<Outer>(&|_, _| "x").unwrap() else { panic!("no object") };
        let told: Vec<String> =
            outer.fields.iter().map(|f| format!("{} {} {:?}", f.name, f.required, f.shape)).collect();
        insta::assert_snapshot!(told.join("\n"), @r#"
        mustBe true Text([])
        mayBe false Integer { long: true, signed: true }
        list false List(Object(Object { name: "Inner", fields: [Field { owner: "Inner", name: "kind", shape: Text(["One", "Two"]), required: true }, Field { owner: "Inner", name: "share", shape: Number, required: false }] }))
        map false Map(Integer { long: false, signed: false })
        open false Any
        "#);
        assert!(matches!(Kind::One, Kind::One) && !matches!(Kind::Two, Kind::One));
    }

    #[derive(PartialEq, Deserialize)]
    struct Picky {
        word: orlop_core::machine::step::StepPhase,
    }

    #[test]
    fn a_refused_sample_is_named() {
        let error = shape_of::<Picky>(&|_, _| "x").unwrap_err().to_string();
        assert!(error.starts_with("Picky.word: "), "{error}");
        assert!(shape_of::<Picky>(&|_, _| "Running").is_ok());
    }
}
