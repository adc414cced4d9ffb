//! The checked form of an expression. Chains of one operator are flat and everything else nests at most
//! [`MAX_LEVELS`](super::MAX_LEVELS) deep, so walking and dropping it is safe on a small stack.

use super::error::{SourceError, Span};
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

impl Expression {
    /// The expressions directly below this one.
    fn children(&self) -> Vec<&Self> {
        match self {
            Self::Bool(_) | Self::Int(_) | Self::Double(_) | Self::Text(_) | Self::Join(_) => Vec::new(),
            Self::Read(..) | Self::Has(_) => Vec::new(),
            Self::Not(inner) | Self::Negate(inner, _) | Self::MatchesConstant(inner, ..) => vec![inner],
            Self::List(items) | Self::All(items) | Self::Any(items) | Self::Call(_, items, _) => items.iter().collect(),
            Self::Compare(_, pair) | Self::Index(pair, _) => pair.iter().collect(),
            Self::Arithmetic(first, terms) => {
                std::iter::once(&**first).chain(terms.iter().map(|(_, term, _)| term)).collect()
            }
            Self::Choose(arms, last) => {
                arms.iter().flat_map(|(condition, value)| [condition, value]).chain([&**last]).collect()
            }
        }
    }

    /// Refuses comparisons of a phase or outcome with a word that it can never be.
    pub(super) fn check_words(&self) -> Result<(), SourceError> {
        let mut open = vec![self];
        while let Some(expression) = open.pop() {
            if let Self::Compare(_, pair) = expression {
                let [left, right] = &**pair;
                for (read, constant) in [(left, right), (right, left)] {
                    let Self::Read(reference, span) = read else { continue };
                    let constants = if let Self::List(items) = constant {
                        items.as_slice()
                    } else {
                        std::slice::from_ref(constant)
                    };
                    for constant in constants {
                        if let Self::Text(word) = constant {
                            reference.check_word(word, *span)?;
                        }
                    }
                }
            }
            open.extend(expression.children());
        }
        Ok(())
    }
}
