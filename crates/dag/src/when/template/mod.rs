//! The template form of conditions: text with actions over `.JobFlow` and `.StepStatus`, whose result must
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

    /// Refuses comparisons of a phase with a word that it can never be.
    pub(super) fn check_words(&self) -> Result<(), SourceError> {
        let (mut open, mut terms): (Vec<&[Item]>, Vec<&Term>) = (vec![&self.items], Vec::new());
        while let Some(items) = open.pop() {
            for item in items {
                match item {
                    Item::Text(_) => {}
                    Item::Emit(term, _) => terms.push(term),
                    Item::If(arms, otherwise) => {
                        terms.extend(arms.iter().map(|(condition, _)| condition));
                        open.extend(arms.iter().map(|(_, body)| body.as_slice()));
                        open.push(otherwise);
                    }
                }
            }
        }
        while let Some(term) = terms.pop() {
            match term {
                Term::Equal(values, _) | Term::NotEqual(values, _) => {
                    for value in values {
                        let Term::Read(reference, span) = value else { continue };
                        for word in values.iter().filter_map(term::constant) {
                            reference.check_word(word, *span)?;
                        }
                    }
                    terms.extend(values);
                }
                Term::And(values) | Term::Or(values) => terms.extend(values),
                Term::Not(value) => terms.push(value),
                Term::Bool(_) | Term::Int(_) | Term::Text(_) | Term::Read(..) => {}
            }
        }
        Ok(())
    }

    /// A constant part of the text with which it can never spell a truth value, in any branch.
    pub(super) fn stray_text(&self) -> Option<(&str, Span)> {
        let mut open: Vec<&[Item]> = vec![&self.items];
        while let Some(items) = open.pop() {
            for item in items {
                match item {
                    Item::Text(text) => {
                        let part = text.trim().to_lowercase();
                        if !["true", "false", "1", "0"].iter().any(|word| word.contains(&part)) {
                            return Some((text.trim(), self.span));
                        }
                    }
                    Item::If(arms, otherwise) => {
                        open.extend(arms.iter().map(|(_, body)| body.as_slice()));
                        open.push(otherwise);
                    }
                    Item::Emit(..) => {}
                }
            }
        }
        None
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
