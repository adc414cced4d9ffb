//! The template form of conditions (item 5): text with actions over `.JobFlow` and `.StepStatus`, whose result must
//! spell a truth value. A subset with fixed roots and functions; no variables, pipes, loops or comments.

mod eval;
mod lexer;
mod parser;
mod term;

use super::error::{EvalError, SourceError, Span};
use super::facts::Facts;
use super::lexer::Piece;
use super::reference::{Reference, References};
use super::scope::Scope;

/// A checked template.
#[derive(Debug, Clone)]
pub(super) struct Template {
    items: Vec<Item>,
    span: Span,
}

/// A part of a template; blocks nest at most [`MAX_LEVELS`](super::MAX_LEVELS) deep.
#[derive(Debug, Clone)]
enum Item {
    Text(Box<str>),
    Emit(Term, Span),
    /// Conditions with their bodies, then the body of `else`.
    If(Vec<(Term, Vec<Item>)>, Vec<Item>),
}

/// A value inside an action; calls nest at most [`MAX_LEVELS`](super::MAX_LEVELS) deep.
#[derive(Debug, Clone)]
enum Term {
    Bool(bool),
    Int(i64),
    /// A string literal, with placeholders or without.
    Text(Vec<Piece>),
    Read(Reference, Span),
    /// Whether the first equals any of the others.
    Equal(Vec<Term>, Span),
    NotEqual(Vec<Term>, Span),
    And(Vec<Term>),
    Or(Vec<Term>),
    Not(Box<Term>),
}

/// Parses and checks a template.
pub(super) fn parse(source: &str, scope: &Scope<'_>) -> Result<(Template, References), SourceError> {
    let (items, references) = parser::parse(source, scope)?;
    Ok((Template { items, span: Span::new(0, source.len()) }, references))
}

impl Template {
    /// The text of the template.
    pub(super) fn text(&self, facts: &dyn Facts) -> Result<String, EvalError> {
        eval::text(&self.items, facts)
    }

    /// The truth value that the text spells: true, 1, false or 0, in any case, blanks around it ignored.
    pub(super) fn eval(&self, facts: &dyn Facts) -> Result<bool, EvalError> {
        let text = self.text(facts)?;
        match text.trim().to_lowercase().as_str() {
            "true" | "1" => Ok(true),
            "false" | "0" => Ok(false),
            other => {
                let shown = super::error::excerpt(other);
                Err(EvalError::new(self.span, format!("the template gives {shown}, not true, 1, false or 0")))
            }
        }
    }
}
