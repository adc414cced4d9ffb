//! The evaluation of templates: pure, from left to right, with a limit on the text. `and` and `or` stop at the value
//! that decides and give it, as in the template language they come from.

use super::{Item, Term};
use crate::when::error::{EvalError, Span};
use crate::when::eval::{at, join};
use crate::when::facts::{self, Facts};
use crate::when::value::{Value, append};
use std::mem::discriminant;

/// The text of a template.
pub(super) fn text(items: &[Item], facts: &dyn Facts) -> Result<String, EvalError> {
    let mut text = String::new();
    write(items, facts, &mut text)?;
    Ok(text)
}

fn write(items: &[Item], facts: &dyn Facts, out: &mut String) -> Result<(), EvalError> {
    for item in items {
        match item {
            Item::Text(text) => append(out, text).map_err(at(Span::new(0, 0)))?,
            Item::Emit(term, span) => {
                let text = value(term, facts)?.to_text().map_err(at(*span))?;
                append(out, text.as_text().map_err(at(*span))?).map_err(at(*span))?;
            }
            Item::If(arms, otherwise) => write(chosen(arms, otherwise, facts)?, facts, out)?,
        }
    }
    Ok(())
}

fn chosen<'i>(
    arms: &'i [(Term, Vec<Item>)],
    otherwise: &'i [Item],
    facts: &dyn Facts,
) -> Result<&'i [Item], EvalError> {
    for (condition, body) in arms {
        if is_true(&value(condition, facts)?) {
            return Ok(body);
        }
    }
    Ok(otherwise)
}

fn value<'f>(term: &'f Term, facts: &'f dyn Facts) -> Result<Value<'f>, EvalError> {
    match term {
        Term::Bool(value) => Ok(Value::Bool(*value)),
        Term::Int(value) => Ok(Value::Int(*value)),
        Term::Text(pieces) => join(facts, pieces).map(Value::String),
        Term::Read(reference, span) => facts::read(facts, reference, *span),
        Term::Equal(terms, span) => equals_any(terms, facts, *span).map(Value::Bool),
        Term::NotEqual(terms, span) => equals_any(terms, facts, *span).map(|equal| Value::Bool(!equal)),
        Term::And(terms) => first_with(terms, facts, Truth::False),
        Term::Or(terms) => first_with(terms, facts, Truth::True),
        Term::Not(term) => Ok(Value::Bool(!is_true(&value(term, facts)?))),
    }
}

fn equals_any(terms: &[Term], facts: &dyn Facts, span: Span) -> Result<bool, EvalError> {
    let Some((first, others)) = terms.split_first() else { return Ok(false) };
    let first = value(first, facts)?;
    for other in others {
        let other = value(other, facts)?;
        if discriminant(&first) != discriminant(&other) {
            return Err(EvalError::new(span, "eq and ne need values of one type"));
        }
        if first.is_equal(&other) {
            return Ok(true);
        }
    }
    Ok(false)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Truth {
    True,
    False,
}

/// The first value with that truth, else the last.
fn first_with<'f>(terms: &'f [Term], facts: &'f dyn Facts, truth: Truth) -> Result<Value<'f>, EvalError> {
    let mut last = Value::Bool(truth == Truth::False);
    for term in terms {
        last = value(term, facts)?;
        if is_true(&last) == (truth == Truth::True) {
            return Ok(last);
        }
    }
    Ok(last)
}

/// Empty text and zero are false.
fn is_true(value: &Value<'_>) -> bool {
    match value {
        Value::Bool(value) => *value,
        Value::Int(value) => *value != 0,
        Value::Double(value) => *value != 0.0,
        Value::String(text) => !text.is_empty(),
        Value::List(elements) => !elements.is_empty(),
    }
}
