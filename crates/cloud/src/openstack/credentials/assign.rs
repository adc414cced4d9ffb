//! Files of assignments: `.env` and openrc. Owns the grammar `[export ]KEY=VALUE` with
//! quotes and comments; such files are read and never executed.

use std::collections::BTreeMap;
use std::fmt;

use super::MAX_FILE;

/// Lines that are read.
const MAX_LINES: usize = 10_000;

/// What a file assigns, and which lines were left out. Its values are never printed.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Assignments {
    /// Values by name; of several the last.
    pub values: BTreeMap<String, String>,
    /// Numbers of lines that are no assignments, from 1.
    pub ignored: Vec<usize>,
}

impl fmt::Debug for Assignments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Assignments({:?}, ignored {:?})", self.values.keys(), self.ignored)
    }
}

/// Reads assignments. Lines that are something else are left out, and reported by their numbers only, for they may hold secrets.
#[must_use]
pub fn read_assignments(text: &str) -> Assignments {
    let mut end = text.len().min(MAX_FILE);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let mut found = Assignments::default();
    for (number, line) in text.get(..end).unwrap_or_default().lines().take(MAX_LINES).enumerate() {
        let line = line.trim_start_matches('\u{feff}').trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        match assignment(line) {
            Some((key, value)) => {
                found.values.insert(key, value);
            }
            None => found.ignored.push(number + 1),
        }
    }
    found
}

fn assignment(line: &str) -> Option<(String, String)> {
    let line = line.strip_prefix("export").filter(|rest| rest.starts_with([' ', '\t'])).map_or(line, str::trim_start);
    let (key, value) = line.split_once('=')?;
    let is_name = key.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if !is_name {
        return None;
    }
    Some((key.to_owned(), unquote(value)?))
}

/// The value without its quotes and the comment behind it; nothing if a quote is left open, or the shell would have put
/// something else in its place.
fn unquote(text: &str) -> Option<String> {
    let mut value = String::new();
    let mut chars = text.chars();
    let mut quote: Option<char> = None;
    let mut before_blank = true;
    while let Some(ch) = chars.next() {
        match (quote, ch) {
            (Some(open), _) if ch == open => quote = None,
            (Some('"') | None, '\\') => value.push(chars.next()?),
            (Some('"') | None, '$' | '`') => return None,
            (Some(_), _) => value.push(ch),
            (None, '\'' | '"') => quote = Some(ch),
            (None, '#') if before_blank => break,
            (None, ' ' | '\t') => {
                let rest = chars.as_str().trim_start();
                return (rest.is_empty() || rest.starts_with('#')).then_some(value);
            }
            (None, ';' | '|' | '&' | '(' | ')' | '<' | '>') => return None,
            (None, _) => value.push(ch),
        }
        before_blank = false;
    }
    quote.is_none().then_some(value)
}
