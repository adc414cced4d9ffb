//! One way to look at a tree of data, whether it was parsed from a file or came as JSON over the wire. Owns the view;
//! never checks anything.

use serde_json::Value;

/// What a value is, without its children.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Shape<'a> {
    /// Nothing.
    Null,
    /// A truth value.
    Bool(bool),
    /// A whole number.
    Int(i128),
    /// Another number.
    Float(f64),
    /// A text.
    Str(&'a str),
    /// A sequence.
    Seq,
    /// A mapping.
    Map,
}

impl Shape<'_> {
    /// What people call it, with a short value.
    pub(crate) fn described(self) -> String {
        match self {
            Self::Null => "nothing (null)".to_owned(),
            Self::Bool(value) => format!("the truth value {value}"),
            Self::Int(value) => format!("the number {value}"),
            Self::Float(value) => format!("the number {value}"),
            Self::Str(text) => format!("the text {}", super::violation::shown(text)),
            Self::Seq => "a list".to_owned(),
            Self::Map => "a mapping".to_owned(),
        }
    }
}

/// A value with its children.
pub(crate) trait Data<'a>: Copy {
    /// What it is.
    fn shape(self) -> Shape<'a>;
    /// Items of a sequence; nothing for others.
    fn items(self) -> impl Iterator<Item = Self>;
    /// Keys and values of a mapping; nothing for others.
    fn entries(self) -> impl Iterator<Item = (&'a str, Self)>;

    /// A number of this value among those of its document; 0 where values are not numbered.
    fn mark(self) -> u32 {
        0
    }

    /// The text of a number or truth value as it is written in its file; none where there is no file.
    fn written(self) -> Option<&'a str> {
        None
    }

    /// The value of a key of a mapping; null counts as absent, as in the Kubernetes API.
    fn member(self, key: &str) -> Option<Self> {
        self.entries().find(|(name, value)| *name == key && value.shape() != Shape::Null).map(|(_, value)| value)
    }
}

impl<'a> Data<'a> for &'a Value {
    fn shape(self) -> Shape<'a> {
        match self {
            Value::Null => Shape::Null,
            Value::Bool(value) => Shape::Bool(*value),
            Value::String(text) => Shape::Str(text),
            Value::Array(_) => Shape::Seq,
            Value::Object(_) => Shape::Map,
            Value::Number(number) => {
                let whole = number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from));
                whole.map_or_else(|| Shape::Float(number.as_f64().unwrap_or(f64::NAN)), Shape::Int)
            }
        }
    }

    fn items(self) -> impl Iterator<Item = Self> {
        self.as_array().into_iter().flatten()
    }

    fn entries(self) -> impl Iterator<Item = (&'a str, Self)> {
        self.as_object().into_iter().flatten().map(|(key, value)| (key.as_str(), value))
    }
}
