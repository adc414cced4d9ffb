//! The checked form of an expression. Chains of one operator are flat and everything else nests at most
//! [`MAX_LEVELS`](super::MAX_LEVELS) deep, so walking and dropping it is safe on a small stack.

use super::error::Span;
use super::lexer::Piece;
use super::reference::Reference;
use super::types::{Arithmetic, Comparison, Function};
use regex::Regex;

/// An expression whose types agree.
#[derive(Debug, Clone)]
pub(crate) enum Expression {
    Bool(bool),
    Int(i64),
    Double(f64),
    Text(Box<str>),
    /// A string literal with placeholders.
    Join(Vec<Piece>),
    Read(Reference, Span),
    Has(Reference),
    List(Vec<Expression>),
    Not(Box<Expression>),
    Negate(Box<Expression>, Span),
    /// Operators of one precedence, applied from left to right.
    Arithmetic(Box<Expression>, Vec<(Arithmetic, Expression, Span)>),
    Compare(Comparison, Box<[Expression; 2]>),
    All(Vec<Expression>),
    Any(Vec<Expression>),
    /// `condition ? value : …`, a chain of alternatives, and the last value.
    Choose(Vec<(Expression, Expression)>, Box<Expression>),
    Index(Box<[Expression; 2]>, Span),
    Call(Function, Vec<Expression>, Span),
    /// `matches` with a constant pattern, compiled at validation.
    MatchesConstant(Box<Expression>, Regex, Span),
}
