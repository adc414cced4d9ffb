//! The static types of expressions and the rules of operators over them. Outputs, parameters and words are strings,
//! the retry count is an int, the whole must be a bool. Knows nothing of syntax or of values.

use std::fmt;

/// The type of an expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Type {
    Bool,
    Int,
    Double,
    String,
    List(Box<Type>),
    /// The elements of an empty list: agrees with every type.
    Any,
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bool => f.write_str("bool"),
            Self::Int => f.write_str("int"),
            Self::Double => f.write_str("double"),
            Self::String => f.write_str("string"),
            Self::List(element) if **element == Type::Any => f.write_str("list"),
            Self::List(element) => write!(f, "list of {element}"),
            Self::Any => f.write_str("anything"),
        }
    }
}

impl Type {
    /// The type with its article, as messages say it.
    pub(crate) fn a(&self) -> String {
        match self {
            Self::Int => "an int".to_owned(),
            Self::Any => "anything".to_owned(),
            other => format!("a {other}"),
        }
    }

    /// The type that both agree with, if there is one.
    pub(crate) fn unify(&self, other: &Type) -> Option<Type> {
        let (mut left, mut right, mut lists) = (self, other, 0_usize);
        while let (Self::List(a), Self::List(b)) = (left, right) {
            (left, right, lists) = (a.as_ref(), b.as_ref(), lists + 1);
        }
        let inner = match (left, right) {
            (Self::Any, known) | (known, Self::Any) => known.clone(),
            (a, b) if a == b => a.clone(),
            _ => return None,
        };
        Some((0..lists).fold(inner, |element, _| Self::List(Box::new(element))))
    }

    fn is_number(&self) -> bool {
        matches!(self, Self::Int | Self::Double)
    }

    /// Whether `==` and `in` may compare values of the two types. Ints and doubles compare by value.
    pub(crate) fn is_comparable(&self, other: &Type) -> bool {
        self.unify(other).is_some() || (self.is_number() && other.is_number())
    }

    /// Whether `<` and its kin order values of the two types.
    pub(crate) fn is_ordered(&self, other: &Type) -> bool {
        match self {
            Self::Bool | Self::String => self == other,
            _ => self.is_number() && other.is_number(),
        }
    }
}

/// An arithmetic operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arithmetic {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
}

impl Arithmetic {
    /// The operator as it is written.
    pub(crate) fn symbol(self) -> &'static str {
        match self {
            Self::Add => "+",
            Self::Subtract => "-",
            Self::Multiply => "*",
            Self::Divide => "/",
            Self::Remainder => "%",
        }
    }

    /// The type of the result, `None` if the operator does not take these operands.
    pub(crate) fn result(self, left: &Type, right: &Type) -> Option<Type> {
        match (self, left, right) {
            (_, Type::Int, Type::Int) => Some(Type::Int),
            (Self::Remainder, ..) => None,
            (_, Type::Double, Type::Double) => Some(Type::Double),
            (Self::Add, Type::String, Type::String) => Some(Type::String),
            (Self::Add, Type::List(_), Type::List(_)) => left.unify(right),
            _ => None,
        }
    }
}

/// A comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    In,
}

impl Comparison {
    /// The operator as it is written.
    pub(crate) fn symbol(self) -> &'static str {
        match self {
            Self::Equal => "==",
            Self::NotEqual => "!=",
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::Greater => ">",
            Self::GreaterOrEqual => ">=",
            Self::In => "in",
        }
    }

    /// Whether the operator takes these operands.
    pub(crate) fn takes(self, left: &Type, right: &Type) -> bool {
        match self {
            Self::Equal | Self::NotEqual => left.is_comparable(right),
            Self::In => matches!(right, Type::List(element) if left.is_comparable(element)),
            _ => left.is_ordered(right),
        }
    }
}

/// The functions of conditions except `has`, which takes a reference instead of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Function {
    Int,
    Double,
    String,
    Bool,
    Size,
    Contains,
    StartsWith,
    EndsWith,
    Matches,
}

/// How a function is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    /// `name(a, b)`
    Global,
    /// `a.name(b)`
    Method,
}

impl Function {
    /// Every name, `has` included.
    pub(crate) const NAMES: [&'static str; 10] =
        ["int", "double", "string", "bool", "size", "has", "contains", "startsWith", "endsWith", "matches"];

    pub(crate) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "int" => Self::Int,
            "double" => Self::Double,
            "string" => Self::String,
            "bool" => Self::Bool,
            "size" => Self::Size,
            "contains" => Self::Contains,
            "startsWith" => Self::StartsWith,
            "endsWith" => Self::EndsWith,
            "matches" => Self::Matches,
            _ => return None,
        })
    }

    /// How the function is written, for messages about wrong calls.
    pub(crate) fn usage(self) -> &'static str {
        match self {
            Self::Int => "int(string or number)",
            Self::Double => "double(string or number)",
            Self::String => "string(string, number or bool)",
            Self::Bool => "bool(string or bool)",
            Self::Size => "size(string or list), or text.size()",
            Self::Contains => "text.contains(string)",
            Self::StartsWith => "text.startsWith(string)",
            Self::EndsWith => "text.endsWith(string)",
            Self::Matches => "text.matches(string), or matches(text, string)",
        }
    }

    /// The type of the result, `None` if the function is not called in this style with these operands (for a method,
    /// the value before the dot comes first).
    pub(crate) fn result(self, style: Style, operands: &[&Type]) -> Option<Type> {
        use Style::{Global, Method};
        match (self, style, operands) {
            (Self::Int, Global, [Type::String | Type::Int | Type::Double]) => Some(Type::Int),
            (Self::Double, Global, [Type::String | Type::Int | Type::Double]) => Some(Type::Double),
            (Self::String, Global, [Type::String | Type::Int | Type::Double | Type::Bool]) => Some(Type::String),
            (Self::Bool, Global, [Type::String | Type::Bool]) => Some(Type::Bool),
            (Self::Size, _, [Type::String | Type::List(_)]) => Some(Type::Int),
            (Self::Contains | Self::StartsWith | Self::EndsWith, Method, [Type::String, Type::String])
            | (Self::Matches, _, [Type::String, Type::String]) => Some(Type::Bool),
            _ => None,
        }
    }
}
