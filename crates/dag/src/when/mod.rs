//! The language of the field `when`: the constants `true` and `false`, a subset of CEL (the Common Expression Language) with
//! placeholders, and a subset of Go templates. [`compile`] checks a text against the names in a [`Scope`]; [`Condition::eval`]
//! decides it by [`Facts`] about the flow. Everything is pure and bounded, and no input makes it panic. It never orders steps and
//! never stores a decision: the engine does.
//!
//! The parser and evaluator are not those of the crate `cel`, to which the tests compare them. That crate, without optimisation,
//! overflows a stack of 512 KiB at 20 nested parentheses and one of 8 MiB at 60 or at a chain of 2,000 operators; it has global
//! state; it has no static types, so that comparing a string with a number is silently false; and names with dashes and
//! placeholders need another lexer.

mod build;
mod call;
mod error;
mod escape;
mod eval;
mod expression;
mod facts;
mod lexer;
mod mention;
mod names;
mod operand;
mod parser;
mod pattern;
mod placeholder;
mod reference;
mod scope;
mod suggest;
mod template;
mod types;
mod value;

#[cfg(test)]
mod tests;

pub use error::{EvalError, SourceError};
pub use facts::Facts;
pub use reference::{FlowField, References};
pub use scope::{Parameters, Scope, Secrecy, Steps};

pub(crate) use error::{Span, printable};
pub(crate) use names::{readings, run, shortened, unknown_step};
pub(crate) use suggest::did_you_mean;

use expression::Expression;
use template::Template;

/// Longest condition, in bytes.
pub const MAX_SOURCE: usize = 4096;
/// Deepest nesting of parentheses, brackets, calls, operators and template blocks.
pub const MAX_LEVELS: usize = 64;
/// Longest text that a condition may build, in bytes.
pub const MAX_TEXT: usize = 1024 * 1024;
/// Most text that `matches` may search in one evaluation, in bytes.
pub const MAX_SEARCHED: usize = 256 * 1024;

/// A checked condition.
#[derive(Debug, Clone)]
pub struct Condition {
    kind: Kind,
    references: References,
}

#[derive(Debug, Clone)]
enum Kind {
    Constant(bool),
    Expression(Expression),
    Template(Template),
}

/// Checks the text of a `when` field.
///
/// ```
/// use orlop_dag::when::{Scope, Steps, compile};
/// let steps: Steps<'_> = [("build", ["digest"])].into_iter().collect();
/// let condition = compile("steps.build.phase == 'Succeeded'", &Scope::new(&steps))?;
/// assert_eq!(condition.references().steps().collect::<Vec<_>>(), ["build"]);
/// # Ok::<(), orlop_dag::when::SourceError>(())
/// ```
///
/// # Errors
///
/// The first thing that is wrong: text outside the language, an unknown or secret name, a type that does not fit, or
/// a limit ([`MAX_SOURCE`], [`MAX_LEVELS`]).
pub fn compile(source: &str, scope: &Scope<'_>) -> Result<Condition, SourceError> {
    if source.len() > MAX_SOURCE {
        let message = format!("a condition of {} bytes, {MAX_SOURCE} are allowed", source.len());
        let span = Span::new(MAX_SOURCE, source.len());
        return Err(SourceError::new(span, message).with_help("let a step compute it and compare its output"));
    }
    let (kind, references) = match source.trim() {
        "" | "always" | "true" => (Kind::Constant(true), References::default()),
        "never" | "false" => (Kind::Constant(false), References::default()),
        _ if placeholder::is_template(source)? => {
            let (template, references) = template::parse(source, scope)?;
            (Kind::Template(template), references)
        }
        _ => {
            let (expression, references) = parser::parse(source, scope)?;
            (Kind::Expression(expression), references)
        }
    };
    Ok(Condition { kind, references })
}

impl Condition {
    /// What the condition reads.
    pub fn references(&self) -> &References {
        &self.references
    }

    /// The same condition, unless it is certainly a mistake: constant text of a template keeps it from ever being true or false, or a
    /// phase is compared with a text that is no phase.
    ///
    /// # Errors
    ///
    /// The text or word, and what to write.
    pub fn decidable(self) -> Result<Self, SourceError> {
        match &self.kind {
            Kind::Constant(_) => {}
            Kind::Expression(expression) => expression.check_words()?,
            Kind::Template(template) => template.check_words()?,
        }
        let stray = match &self.kind {
            Kind::Template(template) => template.stray_text(),
            _ => None,
        };
        match stray {
            None => Ok(self),
            Some((text, span)) => {
                let message = format!("the text {} outside the braces is neither true nor false", error::excerpt(text));
                let help = "write a comparison without braces, or {{if VALUE}}true{{else}}false{{end}}";
                Err(SourceError::new(span, message).with_help(help))
            }
        }
    }

    /// Decides the condition. The engine calls it once, when the dependencies are satisfied and every step of
    /// [`references`](Self::references) is settled.
    ///
    /// ```
    /// use std::borrow::Cow;
    /// use orlop_dag::when::{Facts, Scope, Steps, compile};
    /// struct Built;
    /// impl Facts for Built {
    ///     fn step_phase(&self, _: &str) -> Option<&str> { Some("Succeeded") }
    ///     fn step_reason(&self, _: &str) -> Option<&str> { None }
    ///     fn step_message(&self, _: &str) -> Option<&str> { None }
    ///     fn step_retry_count(&self, _: &str) -> Option<u32> { Some(0) }
    ///     fn output(&self, _: &str, _: &str) -> Option<Cow<'_, str>> { Some("12".into()) }
    ///     fn parameter(&self, _: &str) -> Option<Cow<'_, str>> { None }
    ///     fn flow_name(&self) -> &str { "release" }
    ///     fn flow_namespace(&self) -> &str { "default" }
    ///     fn flow_uid(&self) -> &str { "6d0d7a5e" }
    ///     fn flow_phase(&self) -> &str { "Running" }
    ///     fn flow_outcome(&self) -> Option<&str> { None }
    ///     fn flow_label(&self, _: &str) -> Option<&str> { None }
    ///     fn flow_annotation(&self, _: &str) -> Option<&str> { None }
    /// }
    /// let steps: Steps<'_> = [("build", ["count"])].into_iter().collect();
    /// let condition = compile("int(steps.build.outputs.count) > 10", &Scope::new(&steps)).unwrap();
    /// assert_eq!(condition.eval(&Built).ok(), Some(true));
    /// ```
    ///
    /// # Errors
    ///
    /// A run-time error that no deciding operand of `&&` or `||` hides, or a template whose text is not a truth value.
    pub fn eval(&self, facts: &dyn Facts) -> Result<bool, EvalError> {
        match &self.kind {
            Kind::Constant(value) => Ok(*value),
            Kind::Expression(expression) => eval::Evaluator::new(facts).condition(expression),
            Kind::Template(template) => template.eval(facts),
        }
    }

    /// The raw text of a template; `true` or `false` for other conditions.
    ///
    /// # Errors
    ///
    /// As for [`eval`](Self::eval), except that a template may give any text.
    pub fn text(&self, facts: &dyn Facts) -> Result<String, EvalError> {
        match &self.kind {
            Kind::Template(template) => template.text(facts),
            _ => self.eval(facts).map(|value| value.to_string()),
        }
    }
}
