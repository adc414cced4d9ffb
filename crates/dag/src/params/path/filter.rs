//! Filters (RFC 9535, 2.3.5): tests, comparisons and the logic between them. Owns comparison of values; recursion
//! follows the nesting of the path, which the parser bounds, never that of the document.

use std::borrow::Cow;
use std::cmp::Ordering;

use serde_json::Value;

use super::QueryError;
use super::ast::{Comparable, Comparison, Filter, Operator, Query, Singular, Step};
use super::evaluate::{Evaluation, item};
use super::number;

/// One side of a comparison, or an argument of a function. Nothing equals only another nothing.
pub(super) type Operand<'e> = Option<Cow<'e, Value>>;

impl<'e> Evaluation<'e> {
    /// Whether a condition holds for a node.
    pub(super) fn holds(&mut self, condition: &'e Filter, node: &'e Value) -> Result<bool, QueryError> {
        self.pay(1)?;
        match condition {
            Filter::Or(parts) => {
                for part in parts {
                    if self.holds(part, node)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            Filter::And(parts) => {
                for part in parts {
                    if !self.holds(part, node)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            Filter::Not(inner) => Ok(!self.holds(inner, node)?),
            Filter::Exists(query) => Ok(!self.nodes(query, node)?.is_empty()),
            Filter::Match(test) => self.matches(test, node),
            Filter::Comparison(comparison) => self.compare(comparison, node),
        }
    }

    /// The nodes a path in a filter selects.
    pub(super) fn nodes(&mut self, query: &'e Query, node: &'e Value) -> Result<Vec<&'e Value>, QueryError> {
        if query.absolute { self.run(&query.segments) } else { self.walk(vec![node], &query.segments) }
    }

    fn compare(&mut self, comparison: &'e Comparison, node: &'e Value) -> Result<bool, QueryError> {
        let (left, right) = (self.operand(&comparison.left, node)?, self.operand(&comparison.right, node)?);
        let (left, right) = (left.as_deref(), right.as_deref());
        match comparison.operator {
            Operator::Equal => self.equal(left, right),
            Operator::NotEqual => Ok(!self.equal(left, right)?),
            Operator::Less => self.less(left, right),
            Operator::Greater => self.less(right, left),
            Operator::LessOrEqual => Ok(self.less(left, right)? || self.equal(left, right)?),
            Operator::GreaterOrEqual => Ok(self.less(right, left)? || self.equal(left, right)?),
        }
    }

    /// The value of one side of a comparison, or of an argument of a function.
    pub(super) fn operand(&mut self, side: &'e Comparable, node: &'e Value) -> Result<Operand<'e>, QueryError> {
        match side {
            Comparable::Literal(literal) => Ok(Some(Cow::Borrowed(literal))),
            Comparable::Function(function) => self.value_of(function, node),
            Comparable::Singular(path) => Ok(self.singular(path, node)?.map(Cow::Borrowed)),
        }
    }

    fn singular(&mut self, path: &'e Singular, node: &'e Value) -> Result<Option<&'e Value>, QueryError> {
        self.pay(path.steps.len())?;
        let start = match path.steps.first() {
            _ if !path.absolute => Some(node),
            Some(Step::Name(name)) => self.start_of(name),
            _ => Some(self.root()),
        };
        Ok(path.steps.iter().fold(start, |node, step| match (step, node?) {
            (Step::Name(name), Value::Object(members)) => members.get(name),
            (Step::Index(index), Value::Array(items)) => item(items, *index),
            _ => None,
        }))
    }

    fn equal(&mut self, left: Option<&Value>, right: Option<&Value>) -> Result<bool, QueryError> {
        let (Some(left), Some(right)) = (left, right) else { return Ok(left.is_none() && right.is_none()) };
        Ok(match (left, right) {
            (Value::Null, Value::Null) => true,
            (Value::Bool(left), Value::Bool(right)) => left == right,
            (Value::Number(left), Value::Number(right)) => number::compare(left, right) == Some(Ordering::Equal),
            (Value::String(left), Value::String(right)) => self.same_text(left, right)?,
            (Value::Array(_), Value::Array(_)) | (Value::Object(_), Value::Object(_)) => self.same_tree(left, right)?,
            _ => false,
        })
    }

    fn less(&mut self, left: Option<&Value>, right: Option<&Value>) -> Result<bool, QueryError> {
        Ok(match (left, right) {
            (Some(Value::Number(left)), Some(Value::Number(right))) => {
                number::compare(left, right) == Some(Ordering::Less)
            }
            (Some(Value::String(left)), Some(Value::String(right))) => {
                self.pay(left.len().min(right.len()) / 64)?;
                // UTF-8 sorts bytes as it sorts scalar values, which RFC 9535 compares.
                left < right
            }
            _ => false,
        })
    }

    fn same_text(&mut self, left: &str, right: &str) -> Result<bool, QueryError> {
        if left.len() != right.len() {
            return Ok(false);
        }
        self.pay(left.len() / 64)?;
        Ok(left == right)
    }

    fn same_tree(&mut self, left: &Value, right: &Value) -> Result<bool, QueryError> {
        let mut open = vec![(left, right)];
        while let Some((left, right)) = open.pop() {
            self.pay(1)?;
            match (left, right) {
                (Value::Array(left), Value::Array(right)) if left.len() == right.len() => {
                    self.pay(left.len())?;
                    open.extend(left.iter().zip(right));
                }
                (Value::Object(left), Value::Object(right)) if left.len() == right.len() => {
                    self.pay(left.len())?;
                    for (name, member) in left {
                        let Some(other) = right.get(name) else { return Ok(false) };
                        open.push((member, other));
                    }
                }
                (Value::Array(_) | Value::Object(_), _) | (_, Value::Array(_) | Value::Object(_)) => return Ok(false),
                (left, right) => {
                    if !self.equal(Some(left), Some(right))? {
                        return Ok(false);
                    }
                }
            }
        }
        Ok(true)
    }
}
