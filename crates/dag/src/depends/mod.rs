//! The language of the field `depends`, which joins steps and their outcomes by `&&`, `||`, `!` and parentheses, such as
//! `build && (scan.Succeeded || scan.Skipped)`. [`compile`] checks a text against the declared steps; [`Depends::eval`] decides it
//! once all named steps are settled (have ended or were skipped). It skips nothing itself: the engine does.

mod parser;

#[cfg(test)]
mod tests;

use crate::when::{SourceError, Span, Steps};
use std::collections::BTreeSet;

/// Longest expression, in bytes. Long lists of steps that must all succeed belong into `dependencies`, which has no such limit.
pub const MAX_SOURCE: usize = 256 * 1024;
/// Deepest nesting of parentheses.
pub const MAX_LEVELS: usize = 64;

/// What a join asks of one step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StepPredicate {
    Satisfied,
    Succeeded,
    Failed,
    Skipped,
    Omitted,
    Completed,
    AnySucceeded,
    AllFailed,
}

impl StepPredicate {
    const SUFFIXES: [(&'static str, Self); 7] = [
        ("Succeeded", Self::Succeeded),
        ("Failed", Self::Failed),
        ("Skipped", Self::Skipped),
        ("Omitted", Self::Omitted),
        ("Completed", Self::Completed),
        ("AnySucceeded", Self::AnySucceeded),
        ("AllFailed", Self::AllFailed),
    ];

    /// As it is written behind the step; nothing where the step stands alone.
    fn suffix(self) -> &'static str {
        Self::SUFFIXES.iter().find(|(_, asked)| *asked == self).map_or("", |(suffix, _)| suffix)
    }

    /// Whether asking this names the step's failure.
    fn names_failure(self) -> bool {
        matches!(self, Self::Failed | Self::Completed | Self::AllFailed)
    }

    fn answer(self, view: SettledView) -> bool {
        match self {
            Self::Satisfied => view.satisfied,
            Self::Succeeded => view.succeeded,
            Self::Failed => view.failed,
            Self::Skipped => view.skipped,
            Self::Omitted => view.omitted,
            Self::Completed => view.completed,
            Self::AnySucceeded => view.any_succeeded,
            Self::AllFailed => view.all_failed,
        }
    }
}

/// The outcome of a settled step; of a fan-out step, that of all instances together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SettledView {
    /// Its dependents may run: `<step>`
    pub satisfied: bool,
    /// `<step>.Succeeded`
    pub succeeded: bool,
    /// `<step>.Failed`, tolerated or not
    pub failed: bool,
    /// Skipped by its own condition: `<step>.Skipped`
    pub skipped: bool,
    /// Skipped for any other reason: `<step>.Omitted`
    pub omitted: bool,
    /// Settled with an attempt: `<step>.Completed`
    pub completed: bool,
    /// An instance of the fan-out succeeded: `<step>.AnySucceeded`
    pub any_succeeded: bool,
    /// All instances of the fan-out failed: `<step>.AllFailed`
    pub all_failed: bool,
}

/// A node; parentheses nest at most [`MAX_LEVELS`] deep and chains are flat, so walking and dropping it is safe.
#[derive(Debug, Clone)]
enum Node {
    /// The index of a named step, and what is asked of it.
    Term(usize, StepPredicate),
    Not(Box<Node>),
    All(Vec<Node>),
    Any(Vec<Node>),
}

/// A checked expression.
///
/// ```
/// use orlop_dag::depends::{SettledView, compile};
/// use orlop_dag::when::Steps;
/// let steps: Steps<'_> = [("build", []), ("scan", [])].into_iter().collect();
/// let join = compile("build && scan.Failed", &steps)?;
/// assert_eq!(join.named_failures().collect::<Vec<_>>(), ["scan"]);
/// let both = |_: &str| SettledView { satisfied: true, failed: true, ..SettledView::default() };
/// assert!(join.eval(&both));
/// # Ok::<(), orlop_dag::when::SourceError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Depends {
    root: Node,
    /// Each named step once, in the order of first mention.
    steps: Vec<Box<str>>,
    failures: BTreeSet<Box<str>>,
}

/// Checks the text of a `depends` field.
///
/// # Errors
///
/// The first thing that is wrong: text outside the language, an unknown step or suffix, or a limit ([`MAX_SOURCE`],
/// [`MAX_LEVELS`]).
pub fn compile(source: &str, steps: &Steps<'_>) -> Result<Depends, SourceError> {
    if source.len() > MAX_SOURCE {
        let message = format!("a join of {} bytes, {MAX_SOURCE} are allowed", source.len());
        return Err(SourceError::new(Span::new(MAX_SOURCE, source.len()), message)
            .with_help("list steps that must all be satisfied under dependencies"));
    }
    parser::parse(source, steps)
}

impl Depends {
    /// The named steps, each once, in the order of first mention. All must be settled before [`eval`](Self::eval).
    pub fn references(&self) -> impl ExactSizeIterator<Item = &str> {
        self.steps.iter().map(AsRef::as_ref)
    }

    /// The steps whose failure this expression handles, in order of their names: those with `.Failed`, `.Completed` or `.AllFailed`.
    pub fn named_failures(&self) -> impl ExactSizeIterator<Item = &str> {
        self.failures.iter().map(AsRef::as_ref)
    }

    /// The conditions on a step, in the order of the text, such as `Failed` or `!Succeeded`; an empty text for a step without a
    /// suffix.
    ///
    /// ```
    /// # use orlop_dag::depends::compile;
    /// # let steps: orlop_dag::when::Steps<'_> = [("build", []), ("scan", [])].into_iter().collect();
    /// let join = compile("build && (scan.Failed || !scan.Succeeded)", &steps)?;
    /// assert_eq!(join.asked("scan"), ["Failed", "!Succeeded"]);
    /// assert_eq!(join.asked("build"), [""]);
    /// # Ok::<(), orlop_dag::when::SourceError>(())
    /// ```
    #[must_use]
    pub fn asked(&self, step: &str) -> Vec<String> {
        let mut asked = Vec::new();
        if let Some(step) = self.steps.iter().position(|known| **known == *step) {
            terms(&self.root, step, false, &mut asked);
        }
        asked
    }

    /// Whether the step with this expression may run. `settled` gives the outcome of a named step.
    pub fn eval(&self, settled: &dyn Fn(&str) -> SettledView) -> bool {
        self.holds(&self.root, settled)
    }

    fn holds(&self, node: &Node, settled: &dyn Fn(&str) -> SettledView) -> bool {
        match node {
            Node::Term(step, asked) => self.steps.get(*step).is_some_and(|name| asked.answer(settled(name))),
            Node::Not(inner) => !self.holds(inner, settled),
            Node::All(nodes) => nodes.iter().all(|node| self.holds(node, settled)),
            Node::Any(nodes) => nodes.iter().any(|node| self.holds(node, settled)),
        }
    }
}

/// What a part of a join asks of a step, each once.
fn terms(node: &Node, step: usize, negated: bool, found: &mut Vec<String>) {
    match node {
        Node::Term(of, asked) if *of == step => {
            let term = format!("{}{}", if negated { "!" } else { "" }, asked.suffix());
            if !found.contains(&term) {
                found.push(term);
            }
        }
        Node::Term(..) => {}
        Node::Not(inner) => terms(inner, step, !negated, found),
        Node::All(nodes) | Node::Any(nodes) => nodes.iter().for_each(|node| terms(node, step, negated, found)),
    }
}
