//! Reading a specification from a JSON tree, with every fault at its place. Owns types, defaults and unknown fields;
//! bounds and rules between fields are checked afterwards.

use std::collections::{BTreeMap, BTreeSet};

use serde::de::Error as _;
use serde::{Deserialize as _, Deserializer};
use serde_json::{Map, Value};

use super::error::SpecErrors;
use crate::named::{Named, UnknownName};
use crate::quantity::{Quantity, Step};
use crate::time::Time;

/// A value that can be read from JSON; what is wrong is added to `errors`.
pub(super) trait Read: Sized {
    fn read(value: &Value, path: &str, errors: &mut SpecErrors) -> Option<Self>;
}

/// Reads types and defaults and refuses unknown fields, like [`Read`]; what is wrong is one message.
pub(super) fn deserialize<'de, T: Read, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    let value = Value::deserialize(deserializer)?;
    let mut errors = SpecErrors::default();
    let read = T::read(&value, "", &mut errors);
    errors.or(read).map_err(D::Error::custom)?.ok_or_else(|| D::Error::custom("it cannot be read"))
}

/// Implements `Deserialize` for types that implement [`Read`].
macro_rules! deserialize_as_read {
    ($($name:ty),+ $(,)?) => {
        $(impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                $crate::spec::job::read::deserialize(deserializer)
            }
        })+
    };
}
pub(super) use deserialize_as_read;

/// Implements [`Read`] for closed sets of values.
macro_rules! read_named {
    ($($name:ty),+ $(,)?) => {
        $(impl $crate::spec::job::read::Read for $name {
            fn read(
                value: &serde_json::Value,
                path: &str,
                errors: &mut $crate::spec::job::error::SpecErrors,
            ) -> Option<Self> {
                $crate::spec::job::read::named(value, path, errors)
            }
        })+
    };
}
pub(super) use read_named;

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

pub(super) fn wrong<T>(value: &Value, path: &str, wanted: &str, errors: &mut SpecErrors) -> Option<T> {
    let shown = match value {
        Value::Number(number) => format!("`{number}`"),
        other => kind(other).to_owned(),
    };
    errors.add(path, format!("is {shown}; use {wanted}"));
    None
}

impl Read for bool {
    fn read(value: &Value, path: &str, errors: &mut SpecErrors) -> Option<Self> {
        value.as_bool().or_else(|| wrong(value, path, "true or false", errors))
    }
}

impl Read for String {
    fn read(value: &Value, path: &str, errors: &mut SpecErrors) -> Option<Self> {
        value.as_str().map(str::to_owned).or_else(|| wrong(value, path, "a text", errors))
    }
}

impl Read for f64 {
    fn read(value: &Value, path: &str, errors: &mut SpecErrors) -> Option<Self> {
        value.as_f64().or_else(|| wrong(value, path, "a number", errors))
    }
}

macro_rules! whole {
    ($($type:ty, $wanted:literal;)+) => {
        $(impl Read for $type {
            fn read(value: &Value, path: &str, errors: &mut SpecErrors) -> Option<Self> {
                let number = value.as_i64().and_then(|number| Self::try_from(number).ok());
                let number = number.or_else(|| value.as_u64().and_then(|number| Self::try_from(number).ok()));
                number.or_else(|| wrong(value, path, $wanted, errors))
            }
        })+
    };
}

whole! {
    u8, "a whole number from 0 to 255";
    u32, "a whole number from 0 to 4294967295";
    u64, "a whole number of 0 or more";
    i32, "a whole number";
}

impl Read for Time {
    fn read(value: &Value, path: &str, errors: &mut SpecErrors) -> Option<Self> {
        let text = String::read(value, path, errors)?;
        text.parse().map_err(|error| errors.add(path, format!("{error}"))).ok()
    }
}

impl<T: Read> Read for Option<T> {
    fn read(value: &Value, path: &str, errors: &mut SpecErrors) -> Option<Self> {
        T::read(value, path, errors).map(Some)
    }
}

impl<T: Read> Read for Vec<T> {
    fn read(value: &Value, path: &str, errors: &mut SpecErrors) -> Option<Self> {
        let Some(list) = value.as_array() else {
            return wrong(value, path, "a list", errors);
        };
        let read: Vec<Option<T>> =
            (0..).zip(list).map(|(at, item): (usize, _)| T::read(item, &format!("{path}[{at}]"), errors)).collect();
        read.into_iter().collect()
    }
}

impl<T: Read + Ord> Read for BTreeSet<T> {
    fn read(value: &Value, path: &str, errors: &mut SpecErrors) -> Option<Self> {
        Vec::read(value, path, errors).map(|list| list.into_iter().collect())
    }
}

impl<T: Read> Read for BTreeMap<String, T> {
    fn read(value: &Value, path: &str, errors: &mut SpecErrors) -> Option<Self> {
        let Some(map) = value.as_object() else {
            return wrong(value, path, "an object", errors);
        };
        let read: Vec<Option<(String, T)>> = map
            .iter()
            .map(|(key, item)| Some((key.clone(), T::read(item, &format!("{path}.{}", shown(key)), errors)?)))
            .collect();
        read.into_iter().collect()
    }
}

/// A name as it stands in a path: printable and short.
pub(super) fn shown(name: &str) -> String {
    let mut text: String = name.chars().take(64).flat_map(char::escape_debug).collect();
    if name.chars().nth(64).is_some() {
        text.push('…');
    }
    text
}

/// A value of a closed set.
pub(super) fn named<T: Named>(value: &Value, path: &str, errors: &mut SpecErrors) -> Option<T> {
    let text = String::read(value, path, errors)?;
    T::from_name(&text).or_else(|| {
        errors.add(path, UnknownName::of::<T>(&shown(&text)).to_string());
        None
    })
}

/// An amount: a number in `step`s, or a quantity as text.
pub(super) fn amount(value: &Value, step: Step, path: &str, errors: &mut SpecErrors) -> Option<u64> {
    let Some(text) = value.as_str() else {
        return value.as_u64().or_else(|| wrong(value, path, "a whole number of 0 or more, or a quantity", errors));
    };
    match text.parse::<Quantity>().map(|quantity| quantity.round_up(step)) {
        Ok(Some(steps)) => Some(steps),
        Ok(None) => {
            errors.add(path, format!("`{}` is below zero; use 0 or more", shown(text)));
            None
        }
        Err(error) => {
            errors.add(path, error.to_string());
            None
        }
    }
}

/// The members of an object as they are read one after the other; what nobody asked for is unknown.
pub(super) struct Object<'a> {
    map: &'a Map<String, Value>,
    path: &'a str,
    known: Vec<&'static str>,
}

impl<'a> Object<'a> {
    pub(super) fn new(value: &'a Value, path: &'a str, errors: &mut SpecErrors) -> Option<Self> {
        match value.as_object() {
            Some(map) => Some(Self { map, path, known: Vec::new() }),
            None => wrong(value, path, "an object", errors),
        }
    }

    fn below(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) }
    }

    /// The member, if it is there and not null.
    pub(super) fn get(&mut self, name: &'static str) -> Option<&'a Value> {
        self.known.push(name);
        self.map.get(name).filter(|value| !value.is_null())
    }

    /// The member, read by `how`, or else the default.
    pub(super) fn by<T>(
        &mut self,
        name: &'static str,
        default: T,
        errors: &mut SpecErrors,
        how: impl FnOnce(&Value, &str, &mut SpecErrors) -> Option<T>,
    ) -> T {
        match self.get(name) {
            Some(value) => how(value, &self.below(name), errors).unwrap_or(default),
            None => default,
        }
    }

    /// The member, or its default.
    pub(super) fn or<T: Read>(&mut self, name: &'static str, default: T, errors: &mut SpecErrors) -> T {
        self.by(name, default, errors, T::read)
    }

    /// The member, which must be there.
    pub(super) fn need<T: Read + Default>(&mut self, name: &'static str, errors: &mut SpecErrors) -> T {
        if self.get(name).is_none() {
            errors.add(self.below(name), "is missing");
            return T::default();
        }
        self.or(name, T::default(), errors)
    }

    /// Reports members that nobody asked for.
    pub(super) fn end(self, errors: &mut SpecErrors) {
        for name in self.map.keys().filter(|name| !self.known.contains(&name.as_str())) {
            let mut known = self.known.clone();
            known.sort_unstable();
            known.dedup();
            let message = match nearest(name, &known) {
                Some(meant) => format!("unknown field; did you mean `{meant}`?"),
                None => format!("unknown field; known fields: {}", known.join(", ")),
            };
            errors.add(self.below(&shown(name)), message);
        }
    }
}

/// A known name that differs in case, in `-` for `_`, or in one character more, less or other.
fn nearest(given: &str, known: &[&'static str]) -> Option<&'static str> {
    let plain = |text: &str| text.to_lowercase().replace(['-', '_'], "");
    let close = |name: &&&'static str| plain(name) == plain(given) || one_apart(given, name);
    if given.len() > 64 { None } else { known.iter().find(close).copied() }
}

fn one_apart(left: &str, right: &str) -> bool {
    let (left, right): (Vec<char>, Vec<char>) = (left.chars().collect(), right.chars().collect());
    if left.len().abs_diff(right.len()) > 1 || left.len() < 3 {
        return false;
    }
    let same = left.iter().zip(&right).take_while(|(a, b)| a == b).count();
    let rest = |list: &[char], skip: usize| list.get(same + skip..).unwrap_or_default().to_vec();
    rest(&left, 1) == rest(&right, 1) || rest(&left, 1) == rest(&right, 0) || rest(&left, 0) == rest(&right, 1)
}
