//! What is refused before a path reaches the recursive parser: long texts, deep nesting of brackets, nested function
//! calls, each of which the parser reads up to three times per level, and blanks in names, which it would take as part of
//! the name. Owns the limits; never parses.

use super::{PathError, shown};

/// The longest path, in bytes.
pub const PATH_MAX: usize = 4096;

/// The deepest nesting of brackets and parentheses.
pub const NESTING_MAX: usize = 32;

/// The deepest nesting of function calls.
pub const FUNCTIONS_MAX: usize = 4;

/// Refuses a path that would cost the parser too much.
pub(super) fn check(text: &str) -> Result<(), PathError> {
    if text.len() > PATH_MAX {
        return Err(PathError::TooLong { len: text.len() });
    }
    // For every open bracket, whether a function name stands before it.
    let mut open: Vec<bool> = Vec::new();
    let mut quote = None;
    // The last character that is no blank, and whether a blank follows it.
    let mut previous = ('$', false);
    let mut chars = (1..).zip(text.chars());
    while let Some((at, ch)) = chars.next() {
        if matches!(ch, ' ' | '\t' | '\n' | '\r') {
            previous.1 = true;
            continue;
        }
        match (quote, ch) {
            (Some(_), '\\') => {
                chars.next();
            }
            (Some(delimiter), _) if ch == delimiter => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(ch),
            (None, '(' | '[') => {
                open.push(ch == '(' && in_name(previous.0));
                let functions = open.iter().filter(|&&function| function).count();
                if open.len() > NESTING_MAX || functions > FUNCTIONS_MAX {
                    return Err(PathError::TooDeep);
                }
            }
            (None, ')' | ']') => {
                open.pop();
            }
            (None, _) if previous.1 && in_name(ch) && (in_name(previous.0) || previous.0 == '.') => {
                return Err(PathError::Syntax { text: shown(text), at: Some(at) });
            }
            (None, _) => {}
        }
        previous = (ch, false);
    }
    if previous.1 {
        return Err(PathError::Syntax { text: shown(text), at: Some(text.chars().count()) });
    }
    Ok(())
}

/// Whether a character may stand in a name or number without quotes.
fn in_name(ch: char) -> bool {
    ch.is_ascii_alphanumeric() || ch == '_' || !ch.is_ascii()
}
