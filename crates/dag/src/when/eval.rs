//! The evaluation of expressions: pure and bounded. Recursion follows the checked tree, which is at most
//! [`MAX_LEVELS`](super::MAX_LEVELS) deep; texts, and the text searched by regular expressions, have limits.

use super::error::{EvalError, Span};
use super::expression::Expression;
use super::facts::{self, Facts};
use super::lexer::Piece;
use super::types::{Comparison, Function};
use super::value::{Fault, Value, append};
use super::{MAX_SEARCHED, pattern};
use regex::Regex;
use std::borrow::Cow;
use std::cell::Cell;
use std::cmp::Ordering;

/// One evaluation.
pub(super) struct Evaluator<'f> {
    facts: &'f dyn Facts,
    /// Bytes that `matches` may still search.
    searchable: Cell<usize>,
}

impl<'f> Evaluator<'f> {
    pub(super) fn new(facts: &'f dyn Facts) -> Self {
        Self { facts, searchable: Cell::new(MAX_SEARCHED) }
    }

    /// The value of a condition.
    pub(super) fn condition(&self, expression: &'f Expression) -> Result<bool, EvalError> {
        let whole = Span::new(0, 0);
        self.value(expression)?.as_bool().map_err(|fault| EvalError::new(whole, fault))
    }

    fn value(&self, expression: &'f Expression) -> Result<Value<'f>, EvalError> {
        match expression {
            Expression::Bool(value) => Ok(Value::Bool(*value)),
            Expression::Int(value) => Ok(Value::Int(*value)),
            Expression::Double(value) => Ok(Value::Double(*value)),
            Expression::Text(text) => Ok(Value::String(Cow::Borrowed(text))),
            Expression::Join(pieces) => join(self.facts, pieces).map(Value::String),
            Expression::Read(reference, span) => facts::read(self.facts, reference, *span),
            Expression::Has(reference) => Ok(Value::Bool(facts::has(self.facts, reference))),
            Expression::List(elements) => self.values(elements).map(Value::List),
            Expression::Not(operand) => Ok(Value::Bool(!self.condition(operand)?)),
            Expression::Negate(operand, span) => self.value(operand)?.negate().map_err(at(*span)),
            Expression::Arithmetic(first, rest) => {
                let mut sum = self.value(first)?;
                for (operator, operand, span) in rest {
                    sum = sum.combine(*operator, self.value(operand)?).map_err(at(*span))?;
                }
                Ok(sum)
            }
            Expression::Compare(operator, operands) => {
                let [left, right] = operands.as_ref();
                Ok(Value::Bool(compare(*operator, &self.value(left)?, &self.value(right)?)))
            }
            Expression::All(operands) => self.decide(operands, false),
            Expression::Any(operands) => self.decide(operands, true),
            Expression::Choose(arms, last) => {
                for (condition, value) in arms {
                    if self.condition(condition)? {
                        return self.value(value);
                    }
                }
                self.value(last)
            }
            Expression::Index(operands, span) => {
                let [list, index] = operands.as_ref();
                self.value(list)?.at(&self.value(index)?).map_err(at(*span))
            }
            Expression::Call(function, operands, span) => {
                let operands = self.values(operands)?;
                self.call(*function, &operands).map_err(at(*span))
            }
            Expression::MatchesConstant(text, regex, span) => self.search(&self.value(text)?, regex).map_err(at(*span)),
        }
    }

    /// `&&` and `||` as CEL defines them: one `deciding` operand decides, whatever errors the others have and on
    /// whichever side they stand. Without one, the first error stands.
    fn decide(&self, operands: &'f [Expression], deciding: bool) -> Result<Value<'f>, EvalError> {
        let mut first_error = None;
        for operand in operands {
            match self.condition(operand) {
                Ok(value) if value == deciding => return Ok(Value::Bool(deciding)),
                Ok(_) => {}
                Err(error) => first_error = first_error.or(Some(error)),
            }
        }
        match first_error {
            Some(error) => Err(error),
            None => Ok(Value::Bool(!deciding)),
        }
    }

    fn values(&self, operands: &'f [Expression]) -> Result<Vec<Value<'f>>, EvalError> {
        // A loop: adapters would put six frames between two levels.
        let mut values = Vec::with_capacity(operands.len());
        for operand in operands {
            values.push(self.value(operand)?);
        }
        Ok(values)
    }

    fn call(&self, function: Function, operands: &[Value<'f>]) -> Result<Value<'f>, Fault> {
        match (function, operands) {
            (Function::Int, [value]) => value.to_int(),
            (Function::Double, [value]) => value.to_double(),
            (Function::String, [value]) => value.to_text(),
            (Function::Bool, [value]) => value.to_bool(),
            (Function::Size, [value]) => value.size(),
            (Function::Contains, [text, part]) => Ok(Value::Bool(text.as_text()?.contains(part.as_text()?))),
            (Function::StartsWith, [text, part]) => Ok(Value::Bool(text.as_text()?.starts_with(part.as_text()?))),
            (Function::EndsWith, [text, part]) => Ok(Value::Bool(text.as_text()?.ends_with(part.as_text()?))),
            (Function::Matches, [text, part]) => self.search(text, &pattern::compile(part.as_text()?)?),
            _ => Err("a function has too many or too few operands".into()),
        }
    }

    fn search(&self, text: &Value<'_>, regex: &Regex) -> Result<Value<'static>, Fault> {
        let text = text.as_text()?;
        let Some(left) = self.searchable.get().checked_sub(text.len()) else {
            return Err(format!("matches searches more than {MAX_SEARCHED} bytes of text").into());
        };
        self.searchable.set(left);
        Ok(Value::Bool(regex.is_match(text)))
    }
}

/// The text of a literal with placeholders.
pub(super) fn join<'f>(facts: &'f dyn Facts, pieces: &'f [Piece]) -> Result<Cow<'f, str>, EvalError> {
    let mut text = String::new();
    for piece in pieces {
        match piece {
            Piece::Text(part) => append(&mut text, part).map_err(at(Span::new(0, 0)))?,
            Piece::Read(reference, span) => {
                let value = facts::read(facts, reference, *span)?;
                let part = value.to_text().map_err(at(*span))?;
                append(&mut text, part.as_text().map_err(at(*span))?).map_err(at(*span))?;
            }
        }
    }
    Ok(Cow::Owned(text))
}

fn compare(operator: Comparison, left: &Value<'_>, right: &Value<'_>) -> bool {
    match operator {
        Comparison::Equal => left.is_equal(right),
        Comparison::NotEqual => !left.is_equal(right),
        Comparison::Less => left.order(right) == Some(Ordering::Less),
        Comparison::LessOrEqual => left.order(right).is_some_and(Ordering::is_le),
        Comparison::Greater => left.order(right) == Some(Ordering::Greater),
        Comparison::GreaterOrEqual => left.order(right).is_some_and(Ordering::is_ge),
        Comparison::In => match right {
            Value::List(elements) => elements.iter().any(|element| element.is_equal(left)),
            _ => false,
        },
    }
}

/// Puts a place on a fault.
pub(super) fn at(span: Span) -> impl Fn(Fault) -> EvalError {
    move |fault| EvalError::new(span, fault)
}
