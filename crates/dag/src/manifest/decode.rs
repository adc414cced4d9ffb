//! From trees to typed values through serde, leaving out members that do not fit. Owns that one decision; what does not
//! fit is reported by the walk over the field tables before.

use std::collections::BTreeSet;
use std::fmt;

use serde::de::value::StrDeserializer;
use serde::de::{self, DeserializeOwned, DeserializeSeed, IntoDeserializer, Visitor};
use serde::forward_to_deserialize_any;

use super::data::{Data, Shape};

/// Reads a value, without the members of those marks.
pub(crate) fn decode<'d, T: DeserializeOwned>(data: impl Data<'d>, without: &BTreeSet<u32>) -> Result<T, DecodeError> {
    T::deserialize(Reader { data, without })
}

/// A tree is not a value of the wanted type.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct DecodeError(String);

impl de::Error for DecodeError {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self(message.to_string())
    }
}

#[derive(Clone, Copy)]
struct Reader<'w, D> {
    data: D,
    without: &'w BTreeSet<u32>,
}

impl<'d, D: Data<'d>> Reader<'_, D> {
    fn sequence<'de, V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        let without = self.without;
        visitor.visit_seq(Items { items: self.data.items(), without })
    }

    /// Members of a mapping; `nulls` tells whether null is a value rather than absence.
    fn mapping<'de, V: Visitor<'de>>(self, visitor: V, nulls: bool) -> Result<V::Value, DecodeError> {
        let without = self.without;
        let kept = move |(_, member): &(&str, D)| {
            (nulls || member.shape() != Shape::Null) && (without.is_empty() || !without.contains(&member.mark()))
        };
        visitor.visit_map(Members { entries: self.data.entries().filter(kept), value: None, without })
    }
}

impl<'de, 'd, D: Data<'d>> de::Deserializer<'de> for Reader<'_, D> {
    type Error = DecodeError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        match self.data.shape() {
            Shape::Null => visitor.visit_unit(),
            Shape::Bool(value) => visitor.visit_bool(value),
            Shape::Int(value) => match (i64::try_from(value), u64::try_from(value)) {
                (Ok(value), _) => visitor.visit_i64(value),
                (_, Ok(value)) => visitor.visit_u64(value),
                _ => visitor.visit_i128(value),
            },
            Shape::Float(value) => visitor.visit_f64(value),
            Shape::Str(text) => visitor.visit_str(text),
            Shape::Seq => self.sequence(visitor),
            Shape::Map => self.mapping(visitor, true),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        if self.data.shape() == Shape::Null { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, DecodeError> {
        self.deserialize_map(visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        match self.data.shape() {
            Shape::Map => self.mapping(visitor, false),
            _ => self.deserialize_any(visitor),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, DecodeError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, DecodeError> {
        match self.data.shape() {
            Shape::Str(text) => visitor.visit_enum(text.into_deserializer()),
            other => Err(de::Error::custom(format_args!("expected a text, found {}", other.described()))),
        }
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct identifier ignored_any
    }
}

struct Items<'w, I> {
    items: I,
    without: &'w BTreeSet<u32>,
}

impl<'de, 'd, D: Data<'d>, I: Iterator<Item = D>> de::SeqAccess<'de> for Items<'_, I> {
    type Error = DecodeError;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, DecodeError> {
        let without = self.without;
        self.items.next().map(|data| seed.deserialize(Reader { data, without })).transpose()
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.items.size_hint().0)
    }
}

struct Members<'w, I, D> {
    entries: I,
    value: Option<D>,
    without: &'w BTreeSet<u32>,
}

impl<'de, 'd, D: Data<'d>, I: Iterator<Item = (&'d str, D)>> de::MapAccess<'de> for Members<'_, I, D> {
    type Error = DecodeError;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, DecodeError> {
        let Some((key, value)) = self.entries.next() else { return Ok(None) };
        self.value = Some(value);
        seed.deserialize(StrDeserializer::new(key)).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, DecodeError> {
        let data = self.value.take().ok_or_else(|| de::Error::custom("a key has no value"))?;
        seed.deserialize(Reader { data, without: self.without })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            any::<f64>().prop_filter("JSON has no infinity", |f| f.is_finite()).prop_map(Value::from),
            ".*".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 4, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                proptest::collection::btree_map(".*", inner, 0..4).prop_map(|map| map.into_iter().collect::<Value>()),
            ]
        })
    }

    proptest! {
        #[test]
        fn trees_read_as_themselves(value in values()) {
            prop_assert_eq!(decode::<Value>(&value, &BTreeSet::new()), Ok(value));
        }
    }

    #[test]
    fn null_members_of_structs_are_absent() {
        let step = json!({"name": "a", "dependencies": null, "when": null, "template": {"spec": null}});
        let step: orlop_core::spec::step::Step = decode(&step, &BTreeSet::new()).unwrap();
        assert_eq!(step.template, Some(json!({"spec": null})));
        assert_eq!((step.dependencies.len(), step.when), (0, None));
    }

    #[test]
    fn errors_name_the_trouble() {
        let error = decode::<orlop_core::spec::step::Step>(&json!({"name": 5}), &BTreeSet::new()).unwrap_err();
        insta::assert_snapshot!(error, @"invalid type: integer `5`, expected a string");
    }
}
