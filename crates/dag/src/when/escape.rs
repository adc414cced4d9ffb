//! The escape sequences of string literals. Never looks past the literal it is given.

use super::error::{SourceError, Span};

/// Decodes the escape sequence whose backslash is at `at`; returns the character and the offset after it.
pub(crate) fn decode(source: &str, at: usize) -> Result<(char, usize), SourceError> {
    let wrong = |end: usize| {
        let shown = source.get(at..end).unwrap_or_default().replace(char::is_control, "?");
        SourceError::new(Span::new(at, end), format!("unknown escape sequence `{shown}`"))
            .with_help("write \\\\ for one backslash")
    };
    let Some(kind) = source.get(at + 1..).and_then(|rest| rest.chars().next()) else {
        return Err(wrong(source.len()));
    };
    let after = at + 1 + kind.len_utf8();
    let simple = match kind {
        'a' => '\u{7}',
        'b' => '\u{8}',
        'f' => '\u{c}',
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        'v' => '\u{b}',
        '\\' | '?' | '"' | '\'' | '`' => kind,
        'x' | 'X' => return coded(source, after, 2, 16).ok_or_else(|| wrong(after)),
        'u' => return coded(source, after, 4, 16).ok_or_else(|| wrong(after)),
        'U' => return coded(source, after, 8, 16).ok_or_else(|| wrong(after)),
        '0'..='3' => return coded(source, after - 1, 3, 8).ok_or_else(|| wrong(after)),
        _ => return Err(wrong(after)),
    };
    Ok((simple, after))
}

/// A character given by `digits` digits at `at`.
fn coded(source: &str, at: usize, digits: usize, radix: u32) -> Option<(char, usize)> {
    let text = source.get(at..at + digits)?;
    if !text.chars().all(|c| c.is_digit(radix)) {
        return None;
    }
    let code = u32::from_str_radix(text, radix).ok()?;
    Some((char::from_u32(code)?, at + digits))
}
