//! Values at run time: equality, order, arithmetic and conversions as CEL defines them, with checked integers.
//! Never panics; a wrong combination, which validation excludes, is an error message like any other.

use super::MAX_TEXT;
use super::error::excerpt;
use super::types::Arithmetic;
use std::borrow::Cow;
use std::cmp::Ordering;

/// A value of an expression.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value<'v> {
    Bool(bool),
    Int(i64),
    Double(f64),
    String(Cow<'v, str>),
    List(Vec<Value<'v>>),
}

/// What went wrong; the evaluator adds the place.
pub(crate) type Fault = Cow<'static, str>;

impl<'v> Value<'v> {
    fn kind(&self) -> &'static str {
        match self {
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Double(_) => "double",
            Self::String(_) => "string",
            Self::List(_) => "list",
        }
    }

    /// The error of a function or operator that does not take this value.
    pub(crate) fn unfit(&self, user: &str) -> Fault {
        format!("{user} does not take a {}", self.kind()).into()
    }

    pub(crate) fn as_bool(&self) -> Result<bool, Fault> {
        match self {
            Self::Bool(value) => Ok(*value),
            other => Err(other.unfit("a condition")),
        }
    }

    pub(crate) fn as_text(&self) -> Result<&str, Fault> {
        match self {
            Self::String(text) => Ok(text),
            other => Err(other.unfit("a text function")),
        }
    }

    /// `==`: numbers by value, lists element by element, different kinds are not equal. Lists nest at most
    /// [`MAX_LEVELS`](super::MAX_LEVELS) deep, as the source does.
    pub(crate) fn is_equal(&self, other: &Value<'_>) -> bool {
        match (self, other) {
            (Self::Bool(a), Value::Bool(b)) => a == b,
            (Self::Int(a), Value::Int(b)) => a == b,
            (Self::String(a), Value::String(b)) => a == b,
            (Self::List(a), Value::List(b)) => a.len() == b.len() && a.iter().zip(b).all(|(x, y)| x.is_equal(y)),
            _ => self.order(other) == Some(Ordering::Equal),
        }
    }

    /// The order of two values; `None` for NaN and for kinds without one.
    pub(crate) fn order(&self, other: &Value<'_>) -> Option<Ordering> {
        match (self, other) {
            (Self::Bool(a), Value::Bool(b)) => Some(a.cmp(b)),
            (Self::Int(a), Value::Int(b)) => Some(a.cmp(b)),
            (Self::Double(a), Value::Double(b)) => a.partial_cmp(b),
            (Self::Int(a), Value::Double(b)) => order_mixed(*a, *b),
            (Self::Double(a), Value::Int(b)) => order_mixed(*b, *a).map(Ordering::reverse),
            (Self::String(a), Value::String(b)) => Some(a.as_ref().cmp(b.as_ref())),
            _ => None,
        }
    }

    /// `left operator right`.
    pub(crate) fn combine(self, operator: Arithmetic, right: Value<'v>) -> Result<Value<'v>, Fault> {
        match (self, right) {
            (Self::Int(a), Self::Int(b)) => combine_ints(operator, a, b).map(Self::Int),
            (Self::Double(a), Self::Double(b)) => match operator {
                Arithmetic::Add => Ok(Self::Double(a + b)),
                Arithmetic::Subtract => Ok(Self::Double(a - b)),
                Arithmetic::Multiply => Ok(Self::Double(a * b)),
                Arithmetic::Divide => Ok(Self::Double(a / b)),
                Arithmetic::Remainder => Err("`%` does not take a double".into()),
            },
            (Self::String(a), Self::String(b)) if operator == Arithmetic::Add => {
                let mut text = a.into_owned();
                append(&mut text, &b)?;
                Ok(Self::String(text.into()))
            }
            (Self::List(mut a), Self::List(b)) if operator == Arithmetic::Add => {
                a.extend(b);
                Ok(Self::List(a))
            }
            (left, _) => Err(left.unfit(operator.symbol())),
        }
    }

    /// Unary `-`.
    pub(crate) fn negate(self) -> Result<Value<'v>, Fault> {
        match self {
            Self::Int(value) => value.checked_neg().map(Self::Int).ok_or_else(|| overflow(&value.to_string())),
            Self::Double(value) => Ok(Self::Double(-value)),
            other => Err(other.unfit("-")),
        }
    }

    /// `int(x)`: decimal text with optional sign; a double loses its fraction and must fit.
    pub(crate) fn to_int(&self) -> Result<Value<'static>, Fault> {
        match self {
            Self::Int(value) => Ok(Value::Int(*value)),
            // CEL leaves out the smallest int here, because doubles near it round to it.
            Self::Double(value) => match truncate(*value) {
                Some(whole) if whole != i64::MIN => Ok(Value::Int(whole)),
                _ => Err(overflow(&value.to_string())),
            },
            Self::String(text) => {
                text.parse().map(Value::Int).map_err(|_| format!("{} is not an int", excerpt(text)).into())
            }
            other => Err(other.unfit("int()")),
        }
    }

    /// `double(x)`.
    pub(crate) fn to_double(&self) -> Result<Value<'static>, Fault> {
        match self {
            #[expect(clippy::cast_precision_loss, reason = "CEL rounds to the nearest double")]
            Self::Int(value) => Ok(Value::Double(*value as f64)),
            Self::Double(value) => Ok(Value::Double(*value)),
            Self::String(text) => {
                text.parse().map(Value::Double).map_err(|_| format!("{} is not a double", excerpt(text)).into())
            }
            other => Err(other.unfit("double()")),
        }
    }

    /// `string(x)`: shortest form that reads back as the same number.
    pub(crate) fn to_text(&self) -> Result<Value<'v>, Fault> {
        match self {
            Self::Bool(value) => Ok(Value::String(value.to_string().into())),
            Self::Int(value) => Ok(Value::String(value.to_string().into())),
            Self::Double(value) => Ok(Value::String(value.to_string().into())),
            Self::String(text) => Ok(Value::String(text.clone())),
            other => Err(other.unfit("string()")),
        }
    }

    /// `bool(x)`: the spellings that CEL takes.
    pub(crate) fn to_bool(&self) -> Result<Value<'static>, Fault> {
        match self {
            Self::Bool(value) => Ok(Value::Bool(*value)),
            Self::String(text) => match text.as_ref() {
                "1" | "t" | "T" | "true" | "True" | "TRUE" => Ok(Value::Bool(true)),
                "0" | "f" | "F" | "false" | "False" | "FALSE" => Ok(Value::Bool(false)),
                other => Err(format!("{} is not a bool", excerpt(other)).into()),
            },
            other => Err(other.unfit("bool()")),
        }
    }

    /// `size(x)`: code points of a string, elements of a list.
    pub(crate) fn size(&self) -> Result<Value<'static>, Fault> {
        let size = match self {
            Self::String(text) => text.chars().count(),
            Self::List(elements) => elements.len(),
            other => return Err(other.unfit("size()")),
        };
        i64::try_from(size).map(Value::Int).map_err(|_| overflow(&size.to_string()))
    }

    /// `list[index]`.
    pub(crate) fn at(self, index: &Value<'_>) -> Result<Value<'v>, Fault> {
        match (self, index) {
            (Self::List(elements), Value::Int(index)) => {
                let size = elements.len();
                let found = usize::try_from(*index).ok().and_then(|at| elements.into_iter().nth(at));
                found.ok_or_else(|| format!("index {index} is outside a list of {size}").into())
            }
            (value, _) => Err(value.unfit("[]")),
        }
    }
}

/// Adds to a text that must stay within [`MAX_TEXT`].
pub(crate) fn append(text: &mut String, more: &str) -> Result<(), Fault> {
    if text.len().saturating_add(more.len()) > MAX_TEXT {
        return Err(format!("a text grows over {MAX_TEXT} bytes").into());
    }
    text.push_str(more);
    Ok(())
}

fn combine_ints(operator: Arithmetic, a: i64, b: i64) -> Result<i64, Fault> {
    let result = match operator {
        Arithmetic::Add => a.checked_add(b),
        Arithmetic::Subtract => a.checked_sub(b),
        Arithmetic::Multiply => a.checked_mul(b),
        Arithmetic::Divide | Arithmetic::Remainder if b == 0 => return Err("division by zero".into()),
        Arithmetic::Divide => a.checked_div(b),
        Arithmetic::Remainder => a.checked_rem(b),
    };
    result.ok_or_else(|| overflow(&format!("{a} {} {b}", operator.symbol())))
}

fn overflow(what: &str) -> Fault {
    format!("{what} is outside the range of an int").into()
}

/// 2^63, the first double above every int.
const INT_END: f64 = 9_223_372_036_854_775_808.0;

#[expect(clippy::cast_possible_truncation, reason = "the range is checked")]
fn truncate(value: f64) -> Option<i64> {
    (-INT_END..INT_END).contains(&value).then_some(value as i64)
}

/// Exact order of an int and a double, on the line of the real numbers.
fn order_mixed(int: i64, double: f64) -> Option<Ordering> {
    if double.is_nan() {
        return None;
    }
    match truncate(double) {
        None if double > 0.0 => Some(Ordering::Less),
        None => Some(Ordering::Greater),
        Some(whole) => Some(int.cmp(&whole).then_with(|| 0.0.partial_cmp(&double.fract()).unwrap_or(Ordering::Equal))),
    }
}
