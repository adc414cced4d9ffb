//! JSONPath (RFC 9535): paths with an optional step before them, and queries whose cost is bounded. `parser` reads a path
//! into the tree of `ast`, `evaluate` and `filter` select with it.

mod ast;
mod cursor;
mod evaluate;
mod filter;
mod function;
mod number;
mod parser;

use std::cmp::Ordering;
use std::fmt;

use orlop_core::id::{IdError, StepName};
use serde_json::Value;

use self::ast::{Segment, Selector};
use self::evaluate::{Evaluation, Root};
use super::text::{TextTooLarge, array_of, text_of};

pub use self::evaluate::STEPS_MAX;
pub use self::parser::{FUNCTIONS_MAX, NESTING_MAX, PATH_MAX};

/// Why a text is not a path.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PathError {
    /// Nothing was given.
    #[error("the path is empty; write one like `$.succeeded` or `build:$.outputs.digest`")]
    Empty,
    /// Neither a path nor a step and a path.
    #[error("`{text}` does not start with `$`; write `$.member`, or `<step>:$.member` to read another step")]
    NoRoot {
        /// The text, cut to 64 characters.
        text: String,
    },
    /// What stands before the colon is not a step name.
    #[error("the text before `:` is not the name of a step: {0}")]
    Step(#[from] IdError),
    /// More bytes than the limit.
    #[error("the path is {len} bytes long; use at most {PATH_MAX}")]
    TooLong {
        /// Bytes given.
        len: usize,
    },
    /// Brackets, parentheses or function calls in one another beyond the limits.
    #[error("the path nests brackets deeper than {NESTING_MAX} or functions deeper than {FUNCTIONS_MAX}; flatten it")]
    TooDeep,
    /// Not in the grammar of RFC 9535.
    #[error("`{text}` is not a JSONPath of RFC 9535: at column {column}, found {}, expected {expected}", named(*found))]
    Syntax {
        /// The path, cut to 64 characters.
        text: String,
        /// Which character is not expected, counted from 1.
        column: usize,
        /// That character; none at the end of the path.
        found: Option<char>,
        /// What may stand there.
        expected: &'static str,
    },
    /// In the grammar, but without meaning in RFC 9535.
    #[error("`{text}` is not a JSONPath of RFC 9535: {fault}")]
    Meaning {
        /// The path, cut to 64 characters.
        text: String,
        /// What is wrong.
        fault: TypeFault,
    },
}

/// What a path says that RFC 9535 gives no meaning.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TypeFault {
    /// A function outside `length`, `count`, `value`, `match` and `search`.
    #[error("there is no function `{0}`; use length, count, value, match or search")]
    Function(String),
    /// A function that gives a value stands as a test.
    #[error("the result of `{0}` must be compared, as in `{0}(…) > 0`")]
    Uncompared(&'static str),
    /// A function that gives true or false stands where a value is needed.
    #[error("`{0}` gives no value; use it as a test by itself")]
    NoValue(&'static str),
    /// An argument that may be several values where one is needed.
    #[error("an argument of `{0}` must be a literal, a path to one value such as `@.name`, or a function's value")]
    ValueArgument(&'static str),
    /// An argument that is no path where one is needed.
    #[error("the argument of `{0}` must be a path such as `@.items[*]`")]
    NodesArgument(&'static str),
    /// A number that is too large for a double.
    #[error("a number in it is too large")]
    Number,
}

/// Why a path gives no value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum QueryError {
    /// Nothing is there: the value is unresolved.
    #[error("the path selects nothing")]
    Missing,
    /// Finding it would take too long.
    #[error(
        "the path takes more than {STEPS_MAX} steps in this document; name the members it passes in place of `..`, `*` and filters"
    )]
    TooCostly,
    /// It is no text of reasonable size.
    #[error(transparent)]
    TooLarge(#[from] TextTooLarge),
}

/// A parsed JSONPath.
///
/// ```
/// use orlop_dag::params::Path;
/// use serde_json::json;
/// let path = Path::parse("$.conditions[?@.status == 'True'].type").unwrap();
/// let document = json!({"conditions": [{"type": "Complete", "status": "True"}]});
/// assert_eq!(path.query(&document).unwrap(), "Complete");
/// ```
#[derive(Debug, Clone)]
pub struct Path {
    text: String,
    segments: Vec<Segment>,
}

impl PartialEq for Path {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Path {}

impl PartialOrd for Path {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Path {
    fn cmp(&self, other: &Self) -> Ordering {
        self.text.cmp(&other.text)
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Path {
    /// Parses a path that begins with `$`.
    ///
    /// # Errors
    /// When the text is empty, too long, nested too deeply, or not a well-typed path of RFC 9535.
    pub fn parse(text: &str) -> Result<Self, PathError> {
        if text.is_empty() {
            return Err(PathError::Empty);
        }
        if !text.starts_with('$') {
            return Err(PathError::NoRoot { text: shown(text) });
        }
        Ok(Self { text: text.to_owned(), segments: parser::parse(text)? })
    }

    /// The path as written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The text of what the path selects in a value: of the one result, or of all as a JSON array.
    ///
    /// # Errors
    /// When it selects nothing, takes too many steps, or the text would be too large.
    pub fn query(&self, value: &Value) -> Result<String, QueryError> {
        self.text_in(Root::Value(value))
    }

    /// All values the path selects, in the order of RFC 9535; members of objects, whose order it leaves open, by name.
    ///
    /// # Errors
    /// When it takes too many steps.
    pub fn select<'v>(&'v self, value: &'v Value) -> Result<Vec<&'v Value>, QueryError> {
        Evaluation::new(Root::Value(value)).run(&self.segments)
    }

    /// The member of the root that the path begins with, where it names one.
    pub(crate) fn first_member(&self) -> Option<&str> {
        let first = self.segments.first().filter(|first| !first.descends)?;
        match first.selectors.as_slice() {
            [Selector::Name(name)] => Some(name),
            _ => None,
        }
    }

    /// As [`query`](Self::query), in the document of a step: the first member is looked up in `status` unless it is one
    /// of the document's own.
    pub(super) fn query_document(&self, document: &Value) -> Result<String, QueryError> {
        self.text_in(Root::Document(document))
    }

    fn text_in(&self, root: Root<'_>) -> Result<String, QueryError> {
        let found = Evaluation::new(root).run(&self.segments)?;
        match found.as_slice() {
            [] => Err(QueryError::Missing),
            [one] => Ok(text_of(one)?.into_owned()),
            several => Ok(array_of(several.iter().copied())?),
        }
    }
}

/// A path with the step whose document it reads.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct JsonPathRef {
    /// The step; none means the own document (and in inputs: unresolved).
    pub step: Option<StepName>,
    /// The path into that step's document.
    pub path: Path,
}

impl JsonPathRef {
    /// Parses `$.path` or `<step>:$.path`, blanks around step and path allowed.
    ///
    /// ```
    /// use orlop_dag::params::JsonPathRef;
    /// let reference = JsonPathRef::parse("build: $.outputs.digest").unwrap();
    /// assert_eq!(reference.step.unwrap(), "build");
    /// assert_eq!(reference.path.as_str(), "$.outputs.digest");
    /// ```
    ///
    /// # Errors
    /// When neither form is given, the step is no step name, or the path does not parse.
    pub fn parse(text: &str) -> Result<Self, PathError> {
        if text.trim().is_empty() {
            return Err(PathError::Empty);
        }
        if text.starts_with('$') {
            return Ok(Self { step: None, path: Path::parse(text)? });
        }
        match text.split_once(':').map(|(step, rest)| (step.trim(), rest.trim())) {
            Some((step, path)) if path.starts_with('$') => {
                Ok(Self { step: Some(StepName::new(step)?), path: Path::parse(path)? })
            }
            _ => Err(PathError::NoRoot { text: shown(text) }),
        }
    }
}

impl fmt::Display for JsonPathRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.step {
            Some(step) => write!(f, "{step}:{}", self.path),
            None => self.path.fmt(f),
        }
    }
}

/// How much of a refused text a message shows, in characters.
const SHOWN: usize = 64;

fn shown(text: &str) -> String {
    let mut shown = String::new();
    for ch in text.chars().take(SHOWN) {
        if ch.is_control() { shown.extend(ch.escape_debug()) } else { shown.push(ch) }
    }
    if text.chars().nth(SHOWN).is_some() {
        shown.push('…');
    }
    shown
}

fn named(found: Option<char>) -> String {
    found.map_or_else(|| "the end".to_owned(), |ch| format!("`{}`", shown(&ch.to_string())))
}

#[cfg(test)]
mod tests;
