//! Enumerations in which every value has one exact text: states, phases, events, vendors. Owns the [`Named`] trait and the macro
//! that implements it with text, parsing and serde; declares no enumeration itself.
//!
//! ```
//! use orlop_core::machine::flow::FlowPhase;
//! use orlop_core::named::Named;
//! assert_eq!(FlowPhase::Succeeded.as_str(), "Succeeded");
//! assert_eq!(FlowPhase::from_name("Failed"), Some(FlowPhase::Failed));
//! assert_eq!(FlowPhase::from_typed("failed"), Ok(FlowPhase::Failed));
//! assert!("Broken".parse::<FlowPhase>().unwrap_err().to_string().contains("Succeeded"));
//! ```

use std::fmt;

use serde::de::{self, IntoDeserializer as _, Visitor};
use serde::{Deserialize, Deserializer};

/// A closed set of values, each with one exact text that is used in objects, logs, metrics and diagrams.
pub trait Named: Copy + Eq + Ord + fmt::Debug + 'static {
    /// What the set is called in messages, for example `step phase`.
    const KIND: &'static str;
    /// All values, in the order of their declaration.
    const ALL: &'static [Self];

    /// The exact text.
    fn as_str(self) -> &'static str;

    /// The value with this text, upper and lower case being equal.
    ///
    /// # Errors
    /// No value has this text: a sentence that names all values.
    fn from_typed(text: &str) -> Result<Self, String> {
        let found = Self::ALL.iter().copied().find(|value| value.as_str().eq_ignore_ascii_case(text));
        found.ok_or_else(|| {
            let UnknownName { kind, given, allowed } = UnknownName::of::<Self>(text);
            format!("unknown {kind} `{given}`, use one of {allowed}")
        })
    }

    /// The value with this exact text (case counts).
    fn from_name(text: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|value| value.as_str() == text)
    }
}

/// A text that is not one of a closed set of values.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown {kind} `{given}`, allowed are {allowed} (case counts)")]
pub struct UnknownName {
    /// What was asked for, for example `step phase`.
    pub kind: &'static str,
    /// The text as given, cut to 64 characters.
    pub given: String,
    /// All accepted texts, separated by commas.
    pub allowed: String,
}

impl UnknownName {
    /// The error for `given`, naming all values of `T`.
    pub fn of<T: Named>(given: &str) -> Self {
        let mut shown: String = given.chars().take(64).collect();
        if shown.len() < given.len() {
            shown.push('…');
        }
        let allowed = T::ALL.iter().map(|value| value.as_str()).collect::<Vec<_>>().join(", ");
        Self { kind: T::KIND, given: shown, allowed }
    }
}

/// Deserializes a value from its text with upper and lower case being equal, for enumerations whose texts are all lower case.
///
/// # Errors
/// The input is not a string, or not one of the texts of `T`.
pub fn in_any_case<'de, T: Deserialize<'de>, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    let text = String::deserialize(deserializer)?.to_ascii_lowercase();
    T::deserialize(text.into_deserializer())
}

/// Reads a value of a closed set from its exact text; for `Deserialize` implementations.
///
/// # Errors
/// The input is not a string, or not one of the texts of `T`.
pub(crate) fn deserialize<'de, T: Named, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    struct ByText<T>(std::marker::PhantomData<T>);

    impl<T: Named> Visitor<'_> for ByText<T> {
        type Value = T;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "a {}", T::KIND)
        }

        fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
            T::from_name(text).ok_or_else(|| E::custom(UnknownName::of::<T>(text)))
        }
    }

    deserializer.deserialize_str(ByText(std::marker::PhantomData))
}

/// Implements `Display`, `FromStr` and serde for a `Named` type.
macro_rules! named_impls {
    ($name:ident) => {
        impl ::std::fmt::Display for $name {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.pad($crate::named::Named::as_str(*self))
            }
        }

        impl ::std::str::FromStr for $name {
            type Err = $crate::named::UnknownName;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                <Self as $crate::named::Named>::from_name(text)
                    .ok_or_else(|| $crate::named::UnknownName::of::<Self>(text))
            }
        }

        impl ::serde::Serialize for $name {
            fn serialize<S: ::serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str($crate::named::Named::as_str(*self))
            }
        }

        impl<'de> ::serde::Deserialize<'de> for $name {
            fn deserialize<D: ::serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                $crate::named::deserialize(deserializer)
            }
        }

        #[cfg(feature = "schema")]
        $crate::schema::written_out!($name, {"type": "string", "enum": <Self as $crate::named::Named>::ALL});
    };
}
pub(crate) use named_impls;

/// Declares an enumeration without data together with its texts.
///
/// `enum Phase("flow phase") { Pending = "pending", … }`. Without `= "…"` the text is the variant's name; with it, the
/// text is also documentation, so that a guard or event which explains itself needs no comment.
macro_rules! named_enum {
    ($(#[$meta:meta])* $vis:vis enum $name:ident($kind:literal) {
        $($(#[$vmeta:meta])* $variant:ident $(= $text:literal)?),+ $(,)?
    }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        $vis enum $name {
            $($(#[$vmeta])* $(#[doc = $text])? $variant),+
        }

        impl $crate::named::Named for $name {
            const KIND: &'static str = $kind;
            const ALL: &'static [Self] = &[$(Self::$variant),+];

            fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $crate::named::named_enum!(@text $variant $($text)?)),+
                }
            }
        }

        $crate::named::named_impls!($name);
    };
    (@text $variant:ident $text:literal) => { $text };
    (@text $variant:ident) => { stringify!($variant) };
}
pub(crate) use named_enum;

#[cfg(test)]
mod tests {
    use super::*;

    named_enum! {
        /// A set for the tests below.
        enum Light("light") {
            /// Text differs from the name.
            Red = "stop",
            /// Text is the name.
            Green,
        }
    }

    #[test]
    fn typed_values_are_known_in_any_case_and_stored_ones_exactly() {
        assert_eq!(
            ["STOP", "Stop", "green"].map(Light::from_typed),
            [Ok(Light::Red), Ok(Light::Red), Ok(Light::Green)]
        );
        assert_eq!(Light::from_typed("blue").unwrap_err(), "unknown light `blue`, use one of stop, Green");
        assert_eq!(Light::from_name("green"), None);
    }

    #[test]
    fn every_value_round_trips_through_its_text_and_json() {
        for value in Light::ALL.iter().copied() {
            assert_eq!(value.to_string().parse(), Ok(value));
            let json = serde_json::to_string(&value).unwrap();
            assert_eq!(json, format!("\"{}\"", value.as_str()));
            assert_eq!(serde_json::from_str::<Light>(&json).unwrap(), value);
        }
    }

    #[test]
    fn an_unknown_text_is_refused_with_the_allowed_ones() {
        let error = "green".parse::<Light>().unwrap_err();
        insta::assert_snapshot!(error, @"unknown light `green`, allowed are stop, Green (case counts)");
        let long = "x".repeat(1000).parse::<Light>().unwrap_err();
        assert_eq!(long.given.chars().count(), 65);
        let json = serde_json::from_str::<Light>("\"blue\"").unwrap_err();
        insta::assert_snapshot!(json, @"unknown light `blue`, allowed are stop, Green (case counts) at line 1 column 6");
        assert!(serde_json::from_str::<Light>("7").is_err());
    }
}
