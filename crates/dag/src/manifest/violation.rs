//! What is wrong with a manifest: one violation, and the bounded list every check writes to. Owns severity and the cap;
//! never decides what is wrong and never prints.

use std::fmt::Display;
use std::ops::Range;
use std::sync::Arc;

use serde::{Serialize, Serializer};

use super::path::{FieldPath, Path};
use crate::code::Code;

/// The most violations of one severity that a list keeps; further ones are only counted.
pub const KEPT: usize = 100;

/// Whether a violation refuses the manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The manifest is refused.
    Error,
    /// The manifest is accepted, and does not do what it seems to say.
    Warning,
}

/// A place in a file, for people and editors.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Location {
    /// Name of the file as the caller gave it.
    pub file: Arc<str>,
    /// Line, from 1.
    pub line: u32,
    /// Column in characters, from 1.
    pub column: u32,
    /// The part of the line to show, without control characters.
    #[serde(skip)]
    pub excerpt: Excerpt,
}

/// The part of a source line that shows a place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Excerpt {
    /// At most about 160 characters.
    pub text: String,
    /// Characters before the place.
    pub before: usize,
    /// Characters of the place, at least 1.
    pub width: usize,
}

/// One thing wrong with a manifest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Violation {
    /// Whether it refuses the manifest.
    pub severity: Severity,
    /// What kind of fault it is, to tell findings apart in programs.
    pub code: Code,
    /// Path of the field, as the manifest names it.
    #[serde(serialize_with = "as_text")]
    pub path: FieldPath,
    /// What is wrong; lower case start, no full stop.
    pub message: String,
    /// What to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub help: Option<String>,
    /// Where in the file; absent for objects that did not come from a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<Location>,
    /// Which part of the field is wrong.
    #[serde(skip)]
    pub part: FieldPart,
}

/// Which part of a field a violation is about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum FieldPart {
    /// Its value.
    #[default]
    Value,
    /// Its name.
    Key,
    /// These bytes of its text.
    Within(Range<usize>),
}

fn as_text<S: Serializer>(path: &FieldPath, serializer: S) -> Result<S::Ok, S::Error> {
    path.serialize(serializer)
}

/// The text of a violation: what is wrong, and what to do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Note {
    message: String,
    help: Option<String>,
    part: FieldPart,
}

impl Note {
    /// A message and what to do.
    #[must_use]
    pub fn new(message: impl Into<String>, help: impl Into<Option<String>>) -> Self {
        Self { message: message.into(), help: help.into(), part: FieldPart::Value }
    }

    /// A note of an error whose text says what is wrong and, after its last `; `, what to do.
    #[must_use]
    pub fn of(error: &impl Display) -> Self {
        let text = error.to_string();
        match text.rsplit_once("; ") {
            Some((message, help)) => Self::new(message, Some(help.to_owned())),
            None => Self::new(text, None),
        }
    }

    /// The same note about the field's name rather than its value.
    #[must_use]
    pub fn on_key(mut self) -> Self {
        self.part = FieldPart::Key;
        self
    }

    /// The same note about some bytes of the field's text.
    #[must_use]
    pub fn within(mut self, bytes: Range<usize>) -> Self {
        self.part = FieldPart::Within(bytes);
        self
    }
}

impl From<String> for Note {
    fn from(message: String) -> Self {
        Self::new(message, None)
    }
}

impl From<&str> for Note {
    fn from(message: &str) -> Self {
        Self::new(message, None)
    }
}

impl<M: Into<String>, H: Into<String>> From<(M, H)> for Note {
    fn from((message, help): (M, H)) -> Self {
        Self::new(message, Some(help.into()))
    }
}

/// All violations of a manifest, in the order they were found: the first [`KEPT`] of each severity and the number of
/// the others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct Violations {
    list: Vec<Violation>,
    errors: usize,
    warnings: usize,
}

impl Violations {
    /// An empty list.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an error. `note` runs only while the list keeps errors.
    pub fn error<N: Into<Note>>(&mut self, code: Code, path: &Path<'_>, note: impl FnOnce() -> N) {
        self.add((Severity::Error, code), path, note);
    }

    /// Adds a warning. `note` runs only while the list keeps warnings.
    pub fn warning<N: Into<Note>>(&mut self, code: Code, path: &Path<'_>, note: impl FnOnce() -> N) {
        self.add((Severity::Warning, code), path, note);
    }

    /// Adds a violation of a severity and code.
    pub fn add<N: Into<Note>>(&mut self, kind: (Severity, Code), path: &Path<'_>, note: impl FnOnce() -> N) {
        self.add_at(kind, || path.to_owned(), note);
    }

    /// Adds a violation of a severity and code about a path of its own.
    pub fn add_at<N: Into<Note>>(
        &mut self,
        kind: (Severity, Code),
        path: impl FnOnce() -> FieldPath,
        note: impl FnOnce() -> N,
    ) {
        let (severity, code) = kind;
        if self.counts(severity) {
            let Note { message, help, part } = note().into();
            self.list.push(Violation { severity, code, path: path(), message, help, at: None, part });
        }
    }

    /// Adds a violation made elsewhere.
    pub fn push(&mut self, violation: Violation) {
        if self.counts(violation.severity) {
            self.list.push(violation);
        }
    }

    /// Adds all violations of another list, its uncounted ones included.
    pub fn append(&mut self, other: Self) {
        let (errors, warnings) = (other.more(Severity::Error), other.more(Severity::Warning));
        for violation in other.list {
            self.push(violation);
        }
        self.count_unkept(Severity::Error, errors);
        self.count_unkept(Severity::Warning, warnings);
    }

    /// The same with every warning as an error.
    pub fn strict(mut self) -> Self {
        for violation in &mut self.list {
            violation.severity = Severity::Error;
        }
        self.errors += std::mem::take(&mut self.warnings);
        self
    }

    /// Drops kept violations that do not hold.
    pub fn retain(&mut self, hold: impl Fn(&Violation) -> bool) {
        for violation in self.list.iter().filter(|violation| !hold(violation)) {
            match violation.severity {
                Severity::Error => self.errors -= 1,
                Severity::Warning => self.warnings -= 1,
            }
        }
        self.list.retain(hold);
    }

    /// Counts violations that were found and not kept elsewhere.
    pub(super) fn count_unkept(&mut self, severity: Severity, number: usize) {
        match severity {
            Severity::Error => self.errors += number,
            Severity::Warning => self.warnings += number,
        }
    }

    /// Counts one violation and says whether it is kept.
    fn counts(&mut self, severity: Severity) -> bool {
        let count = match severity {
            Severity::Error => &mut self.errors,
            Severity::Warning => &mut self.warnings,
        };
        *count += 1;
        *count <= KEPT
    }

    /// Whether there is at least one error.
    #[must_use]
    pub fn has_errors(&self) -> bool {
        self.errors > 0
    }

    /// Whether there is no violation at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// All violations of a severity, those that are not kept included.
    #[must_use]
    pub fn count(&self, severity: Severity) -> usize {
        match severity {
            Severity::Error => self.errors,
            Severity::Warning => self.warnings,
        }
    }

    /// Violations of a severity that are counted but not kept.
    #[must_use]
    pub fn more(&self, severity: Severity) -> usize {
        self.count(severity) - self.list.iter().filter(|v| v.severity == severity).count().min(self.count(severity))
    }

    /// The violations that are kept.
    pub fn iter(&self) -> std::slice::Iter<'_, Violation> {
        self.list.iter()
    }

    /// The violations that are kept, to change.
    pub fn iter_mut(&mut self) -> std::slice::IterMut<'_, Violation> {
        self.list.iter_mut()
    }

    /// Orders the kept violations by place in the file; those without one keep their place at the end.
    pub fn sort_by_place(&mut self) {
        let place = |v: &Violation| v.at.as_ref().map_or((u32::MAX, u32::MAX), |at| (at.line, at.column));
        self.list.sort_by_key(place);
    }

    /// The kept violations as a list of their own.
    #[must_use]
    pub fn into_vec(self) -> Vec<Violation> {
        self.list
    }
}

impl IntoIterator for Violations {
    type Item = Violation;
    type IntoIter = std::vec::IntoIter<Violation>;

    fn into_iter(self) -> Self::IntoIter {
        self.list.into_iter()
    }
}

impl<'a> IntoIterator for &'a Violations {
    type Item = &'a Violation;
    type IntoIter = std::slice::Iter<'a, Violation>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl Extend<Violation> for Violations {
    fn extend<T: IntoIterator<Item = Violation>>(&mut self, violations: T) {
        for violation in violations {
            self.push(violation);
        }
    }
}

/// A user's text inside a message: in backticks, control characters escaped, cut after 64 characters.
#[must_use]
pub(crate) fn shown(text: &str) -> String {
    let mut out = String::from("`");
    for (at, c) in text.chars().enumerate() {
        if at == 64 {
            out.push('…');
            break;
        }
        if c.is_control() || is_bidi(c) {
            out.extend(c.escape_default());
        } else {
            out.push(c);
        }
    }
    out.push('`');
    out
}

/// Characters that reorder the text around them on a screen.
pub(crate) fn is_bidi(c: char) -> bool {
    matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_keep_the_first_hundred_of_each_severity_and_count_the_rest() {
        let mut list = Violations::new();
        for n in 0..250 {
            list.error(Code::Parameter, &Path::ROOT.index(n), || format!("error {n}"));
        }
        list.warning(Code::UnknownField, &Path::ROOT, || ("odd", "remove it"));
        assert_eq!((list.count(Severity::Error), list.more(Severity::Error)), (250, 150));
        assert_eq!((list.count(Severity::Warning), list.more(Severity::Warning)), (1, 0));
        assert_eq!(list.iter().count(), 101);

        let mut sum = Violations::new();
        sum.error(Code::Cycle, &Path::ROOT, || "a cycle");
        sum.append(list);
        assert_eq!((sum.count(Severity::Error), sum.more(Severity::Error)), (251, 151));
    }

    #[test]
    fn notes_past_the_cap_are_never_written() {
        let mut list = Violations::new();
        let mut written = 0;
        for _ in 0..1000 {
            list.error(Code::Parameter, &Path::ROOT, || {
                written += 1;
                "again"
            });
        }
        assert_eq!(written, KEPT);
    }

    #[test]
    fn users_texts_cannot_move_the_cursor() {
        assert_eq!(shown("a\u{1b}[2Jb\u{202e}"), "`a\\u{1b}[2Jb\\u{202e}`");
        assert_eq!(shown(&"x".repeat(80)).chars().count(), 67);
    }
}
