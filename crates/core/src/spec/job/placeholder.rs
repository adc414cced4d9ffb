//! Placeholders in texts of a job: `{{index}}`, `{{job}}`, `{{attempt}}`. Owns finding and filling them; other text in
//! braces that is not a single word, such as `{{.ID}}`, is not a placeholder and stays as it is.

use std::borrow::Cow;

use crate::id::JobId;

/// The known placeholders.
pub const KNOWN: [&str; 3] = ["index", "job", "attempt"];

/// Bytes of a word, blanks around it included.
const WORD_MAX: usize = 64;

/// What placeholders stand for in one attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Filling {
    /// The element of an array, else 0.
    pub index: u32,
    /// The job.
    pub job: JobId,
    /// The attempt's number.
    pub attempt: u32,
}

/// The next placeholder of a text: what stands before it, its word, what follows.
fn next(text: &str) -> Option<(&str, &str, &str)> {
    let mut from = 0;
    while let Some(at) = text.get(from..)?.find("{{").map(|at| at + from) {
        let inside = text.get(at + 2..)?;
        // A word is short, so that no text takes more than a look at each of its characters and the next few.
        let close = inside.as_bytes().windows(2).take(WORD_MAX).position(|pair| pair == b"}}");
        if let Some((word, after)) = close.and_then(|close| Some((inside.get(..close)?, inside.get(close + 2..)?))) {
            let word = word.trim();
            let is_word = word.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
            if is_word && word.starts_with(|ch: char| ch.is_ascii_alphabetic()) {
                return Some((text.get(..at)?, word, after));
            }
        }
        from = at + 1;
    }
    None
}

/// The first placeholder that is not known.
#[must_use]
pub fn unknown(text: &str) -> Option<&str> {
    let mut rest = text;
    while let Some((_, word, after)) = next(rest) {
        if !KNOWN.contains(&word) {
            return Some(word);
        }
        rest = after;
    }
    None
}

/// The text with every known placeholder filled.
///
/// ```
/// use orlop_core::{id::JobId, spec::job::placeholder::{Filling, fill}};
/// let filling = Filling { index: 7, job: JobId::from_u64(1), attempt: 2 };
/// assert_eq!(fill("part-{{index}}.{{ attempt }}", &filling), "part-7.2");
/// ```
#[must_use]
pub fn fill<'a>(text: &'a str, filling: &Filling) -> Cow<'a, str> {
    let mut filled = String::new();
    let mut rest = text;
    while let Some((before, word, after)) = next(rest) {
        filled.push_str(before);
        match word {
            "index" => filled.push_str(&filling.index.to_string()),
            "job" => filled.push_str(&filling.job.to_string()),
            "attempt" => filled.push_str(&filling.attempt.to_string()),
            _ => filled.push_str(rest.get(before.len()..rest.len() - after.len()).unwrap_or_default()),
        }
        rest = after;
    }
    if filled.is_empty() && rest.len() == text.len() {
        return Cow::Borrowed(text);
    }
    filled.push_str(rest);
    Cow::Owned(filled)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_three_placeholders_are_filled_and_templates_of_others_stay() {
        let filling = Filling { index: 3, job: JobId::from_u64(1), attempt: 2 };
        let cases = [
            ("{{index}}{{attempt}}", "32"),
            ("a {{job}} b", "a j0000000000001 b"),
            ("{{.ID}} {{ index }}", "{{.ID}} 3"),
            ("{{{index}}}", "{3}"),
            ("{{index", "{{index"),
            ("{{other}} {{index}}", "{{other}} 3"),
            ("", ""),
        ];
        for (text, filled) in cases {
            assert_eq!(fill(text, &filling), filled, "{text}");
        }
    }

    #[test]
    fn other_placeholders_are_found() {
        assert_eq!(unknown("{{index}} {{shard}}"), Some("shard"));
        assert_eq!(unknown("{{index}} {{.Shard}} {{}} {{ job }} {{1}}"), None);
    }
}
