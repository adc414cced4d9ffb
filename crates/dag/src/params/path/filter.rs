//! Filters (RFC 9535, 2.3.5): tests, comparisons and the logic between them. Owns comparison of values; recursion
//! follows the nesting of the path, which `guard` bounds, never that of the document.

use std::cmp::Ordering;

use jsonpath_rust::parser::model::{
    Comparable, Comparison, Filter, FilterAtom, Literal, SingularQuery, SingularQuerySegment, Test,
};
use serde_json::{Number, Value};

use super::QueryError;
use super::check::sides;
use super::evaluate::{Evaluation, item};
use super::number;

/// One side of a comparison, or an argument of a function.
#[derive(Clone, Copy)]
pub(super) enum Operand<'e> {
    /// No value at all, which equals only another nothing.
    Nothing,
    /// A value of the document.
    Json(&'e Value),
    /// A text of the path.
    Text(&'e str),
    /// A whole number of the path, or what a function counts.
    Int(i64),
    /// Another number of the path.
    Float(f64),
    /// A truth value of the path.
    Bool(bool),
    /// `null` of the path.
    Null,
}

/// What an operand is compared as.
enum Plain<'e> {
    Nothing,
    Null,
    Bool(bool),
    Number(Number),
    Text(&'e str),
    Tree(&'e Value),
}

impl<'e> Operand<'e> {
    pub(super) const fn literal(literal: &'e Literal) -> Self {
        match literal {
            Literal::Int(number) => Self::Int(*number),
            Literal::Float(number) => Self::Float(*number),
            Literal::String(text) => Self::Text(text.as_str()),
            Literal::Bool(truth) => Self::Bool(*truth),
            Literal::Null => Self::Null,
        }
    }

    /// The operand as a text, if it is one.
    pub(super) const fn text(self) -> Option<&'e str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Json(Value::String(text)) => Some(text.as_str()),
            _ => None,
        }
    }

    fn plain(self) -> Plain<'e> {
        match self {
            Self::Nothing => Plain::Nothing,
            Self::Null | Self::Json(Value::Null) => Plain::Null,
            Self::Bool(truth) => Plain::Bool(truth),
            Self::Int(number) => Plain::Number(number.into()),
            // Not a number only if infinite, which `check` refuses in paths.
            Self::Float(number) => Number::from_f64(number).map_or(Plain::Nothing, Plain::Number),
            Self::Text(text) => Plain::Text(text),
            Self::Json(Value::Bool(truth)) => Plain::Bool(*truth),
            Self::Json(Value::Number(number)) => Plain::Number(number.clone()),
            Self::Json(Value::String(text)) => Plain::Text(text),
            Self::Json(tree @ (Value::Array(_) | Value::Object(_))) => Plain::Tree(tree),
        }
    }
}

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
            Filter::Atom(FilterAtom::Filter { expr, not }) => Ok(self.holds(expr, node)? != *not),
            Filter::Atom(FilterAtom::Test { expr, not }) => Ok(self.test(expr, node)? != *not),
            Filter::Atom(FilterAtom::Comparison(comparison)) => self.compare(comparison, node),
        }
    }

    fn test(&mut self, test: &'e Test, node: &'e Value) -> Result<bool, QueryError> {
        match test {
            Test::Function(call) => self.matches(call, node),
            path => Ok(!self.nodes(path, node)?.is_empty()),
        }
    }

    /// The nodes a path in a filter selects; none of a function.
    pub(super) fn nodes(&mut self, path: &'e Test, node: &'e Value) -> Result<Vec<&'e Value>, QueryError> {
        match path {
            Test::RelQuery(segments) => self.walk(vec![node], segments),
            Test::AbsQuery(query) => self.run(query),
            Test::Function(_) => Ok(Vec::new()),
        }
    }

    fn compare(&mut self, comparison: &'e Comparison, node: &'e Value) -> Result<bool, QueryError> {
        let (left, right) = sides(comparison);
        let (left, right) = (self.operand(left, node)?.plain(), self.operand(right, node)?.plain());
        match comparison {
            Comparison::Eq(..) => self.equal(&left, &right),
            Comparison::Ne(..) => Ok(!self.equal(&left, &right)?),
            Comparison::Lt(..) => self.less(&left, &right),
            Comparison::Gt(..) => self.less(&right, &left),
            Comparison::Lte(..) => Ok(self.less(&left, &right)? || self.equal(&left, &right)?),
            Comparison::Gte(..) => Ok(self.less(&right, &left)? || self.equal(&left, &right)?),
        }
    }

    fn operand(&mut self, side: &'e Comparable, node: &'e Value) -> Result<Operand<'e>, QueryError> {
        match side {
            Comparable::Literal(literal) => Ok(Operand::literal(literal)),
            Comparable::Function(call) => self.value_of(call, node),
            Comparable::SingularQuery(SingularQuery::Current(path)) => self.singular(Some(node), path),
            Comparable::SingularQuery(SingularQuery::Root(path)) => {
                let start = match path.first() {
                    Some(SingularQuerySegment::Name(name)) => self.start_of(name),
                    _ => Some(self.root()),
                };
                self.singular(start, path)
            }
        }
    }

    fn singular(
        &mut self,
        start: Option<&'e Value>,
        path: &'e [SingularQuerySegment],
    ) -> Result<Operand<'e>, QueryError> {
        self.pay(path.len())?;
        let found = path.iter().try_fold(start, |node, segment| {
            let node = node?;
            Some(match segment {
                SingularQuerySegment::Name(name) => node.as_object().and_then(|members| members.get(name)),
                SingularQuerySegment::Index(index) => node.as_array().and_then(|items| item(items, *index)),
            })
        });
        Ok(found.flatten().map_or(Operand::Nothing, Operand::Json))
    }

    fn equal(&mut self, left: &Plain<'e>, right: &Plain<'e>) -> Result<bool, QueryError> {
        Ok(match (left, right) {
            (Plain::Nothing, Plain::Nothing) | (Plain::Null, Plain::Null) => true,
            (Plain::Bool(left), Plain::Bool(right)) => left == right,
            (Plain::Number(left), Plain::Number(right)) => number::compare(left, right) == Some(Ordering::Equal),
            (Plain::Text(left), Plain::Text(right)) => self.same_text(left, right)?,
            (Plain::Tree(left), Plain::Tree(right)) => self.same_tree(left, right)?,
            _ => false,
        })
    }

    fn less(&mut self, left: &Plain<'e>, right: &Plain<'e>) -> Result<bool, QueryError> {
        Ok(match (left, right) {
            (Plain::Number(left), Plain::Number(right)) => number::compare(left, right) == Some(Ordering::Less),
            (Plain::Text(left), Plain::Text(right)) => {
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

    fn same_tree(&mut self, left: &'e Value, right: &'e Value) -> Result<bool, QueryError> {
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
                    if !self.equal(&Operand::Json(left).plain(), &Operand::Json(right).plain())? {
                        return Ok(false);
                    }
                }
            }
        }
        Ok(true)
    }
}
