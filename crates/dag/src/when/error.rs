//! The two errors of the condition languages: [`SourceError`], a text refused at validation with the place that is
//! wrong, and [`EvalError`], a condition that could not be decided at run time. Never prints a whole foreign value.

use std::fmt;
use std::ops::Range;

/// Widest part of a source line that [`SourceError::point_out`] shows, in characters.
const SHOWN: usize = 100;

/// A place in a source text, in bytes. Sources are far shorter than 4 GiB, so two words less per node are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span {
    start: u32,
    end: u32,
}

impl Span {
    /// The bytes from `start` to before `end`.
    pub(crate) fn new(start: usize, end: usize) -> Self {
        let narrow = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
        Self { start: narrow(start), end: narrow(end) }
    }

    /// Byte offset of the first byte.
    pub(crate) fn start(self) -> usize {
        self.start as usize
    }

    /// Byte offset after the last byte.
    pub(crate) fn end(self) -> usize {
        self.end as usize
    }

    /// From the start of `self` to the end of `last`.
    pub(crate) fn to(self, last: Span) -> Span {
        Span { start: self.start, end: last.end }
    }
}

/// A text that validation refuses: what is wrong, where, and what would be right.
///
/// `Display` gives one line; [`point_out`](Self::point_out) shows the place under the source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceError {
    message: String,
    span: Span,
    help: Option<String>,
}

impl SourceError {
    pub(crate) fn new(span: Span, message: impl Into<String>) -> Self {
        Self { message: message.into(), span, help: None }
    }

    #[must_use]
    pub(crate) fn with_help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    #[must_use]
    pub(crate) fn with_help_if(self, help: Option<String>) -> Self {
        match help {
            Some(help) => self.with_help(help),
            None => self,
        }
    }

    /// The same error where the text it was found in starts `by` bytes later.
    #[must_use]
    pub(crate) fn shifted(mut self, by: usize) -> Self {
        self.span = Span::new(self.span.start() + by, self.span.end() + by);
        self
    }

    /// What is wrong, without the place.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The wrong bytes of the source, empty at the place where something is missing.
    pub fn range(&self) -> Range<usize> {
        self.span.start()..self.span.end()
    }

    /// What would be right, where that is known.
    pub fn help(&self) -> Option<&str> {
        self.help.as_deref()
    }

    /// The message, the line of `source` with carets under the wrong part, and the help, on lines of their own.
    pub fn point_out(&self, source: &str) -> String {
        let start = floor_boundary(source, self.span.start());
        let before = source.get(..start).unwrap_or_default();
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        let line = source.get(line_start..).unwrap_or_default().split('\n').next().unwrap_or_default();
        let column = before.get(line_start..).unwrap_or_default().chars().count();
        let wrong = source.get(start..floor_boundary(source, self.span.end())).unwrap_or_default();
        let width = wrong.split('\n').next().unwrap_or_default().chars().count().max(1);

        let skipped = column.saturating_sub(SHOWN / 2);
        let visible: String = line.trim_end().chars().skip(skipped).take(SHOWN).collect();
        let lead: String = visible.chars().chain(std::iter::repeat(' ')).take(column - skipped).map(blank).collect();
        let carets = "^".repeat(width.min((SHOWN + 1).saturating_sub(column - skipped)));
        let shown = format!("  {visible}");
        let mut text = format!("{}\n{}\n  {lead}{carets}", self.message, shown.trim_end());
        if let Some(help) = &self.help {
            text.push_str("\n  ");
            text.push_str(help);
        }
        text
    }
}

impl fmt::Display for SourceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at byte {}", self.message, self.span.start)?;
        match &self.help {
            Some(help) => write!(f, "; {help}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for SourceError {}

/// A condition that could not be decided: the step fails with reason ConditionError.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message} at byte {} of the condition", .span.start())]
pub struct EvalError {
    message: String,
    span: Span,
}

impl EvalError {
    pub(crate) fn new(span: Span, message: impl Into<String>) -> Self {
        Self { message: message.into(), span }
    }

    /// What went wrong, without the place.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The bytes of the source whose evaluation failed.
    pub fn range(&self) -> Range<usize> {
        self.span.start()..self.span.end()
    }
}

/// A value from outside as an error message shows it: quoted, escaped, at most 40 characters.
pub(crate) fn excerpt(value: &str) -> String {
    let shown: String = value.chars().take(40).collect();
    if shown.len() == value.len() { format!("{shown:?}") } else { format!("{shown:?}…") }
}

/// A character as messages show it: control characters escaped.
pub(crate) fn printable(c: char) -> String {
    if c.is_control() { c.escape_debug().to_string() } else { c.to_string() }
}

/// Keeps tabs, so that carets stand under their text, and blanks everything else.
fn blank(c: char) -> char {
    if c == '\t' { '\t' } else { ' ' }
}

fn floor_boundary(source: &str, at: usize) -> usize {
    let mut at = at.min(source.len());
    while !source.is_char_boundary(at) {
        at -= 1;
    }
    at
}
