//! The log files of attempts: one line `<RFC 3339 time with milliseconds, UTC> <text>` for each line a container wrote.
//! Owns that format, the masking of secrets and the cutting of endless lines; never opens a file and never reads a clock.

use std::borrow::Cow;

use orlop_core::time::Time;

/// A line that reaches this length, in bytes, is cut where the next chunk begins.
pub const LINE_SOFT_MAX: usize = 64 * 1024;

/// No line is longer than this and one chunk, in bytes, even where the cut may fall into a secret.
pub const LINE_HARD_MAX: usize = 1024 * 1024;

/// What stands in place of a secret.
pub const MASK: &str = "***";

/// Lines of a secret of several lines that are shorter than this, in bytes, are no secrets on their own.
const FRAGMENT_MIN: usize = 4;

/// Appends one line of a log file: the time, a space, the text, a newline.
pub fn stamp(at: Time, text: &[u8], out: &mut Vec<u8>) {
    let timestamp = jiff::Timestamp::from_millisecond(at.millis()).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
    let printer = jiff::fmt::temporal::DateTimePrinter::new().precision(Some(3));
    out.extend_from_slice(printer.timestamp_to_string(&timestamp).as_bytes());
    out.push(b' ');
    out.extend_from_slice(text);
    out.push(b'\n');
}

/// Reads one line of a log file, with or without its newline: the time and the text.
///
/// ```
/// use orlop_cloud::runtime::logs::{parse, stamp};
/// let at = "2026-11-21T09:00:00.25Z".parse().unwrap();
/// let mut line = Vec::new();
/// stamp(at, b"hello", &mut line);
/// assert_eq!(line, b"2026-11-21T09:00:00.250Z hello\n");
/// assert_eq!(parse(&line), Some((at, &b"hello"[..])));
/// ```
#[must_use]
pub fn parse(line: &[u8]) -> Option<(Time, &[u8])> {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let space = line.iter().position(|byte| *byte == b' ')?;
    let (time, text) = line.split_at(space);
    let time = std::str::from_utf8(time).ok()?.parse().ok()?;
    Some((time, text.get(1..).unwrap_or_default()))
}

/// Replaces secrets by [`MASK`] (rule R29).
#[derive(Clone, Default)]
pub struct Masker {
    /// Longest first, so that a secret that begins another one does not leave its rest.
    secrets: Vec<Vec<u8>>,
}

impl std::fmt::Debug for Masker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Masker({} secrets)", self.secrets.len())
    }
}

impl Masker {
    /// Masks these values, and each line of those that have several; empty ones are no secrets.
    #[must_use]
    pub fn new<I>(values: I) -> Self
    where
        I: IntoIterator,
        I::Item: AsRef<str>,
    {
        let mut secrets = Vec::new();
        for value in values {
            let value = value.as_ref();
            let lines = value.lines().filter(|line| line.len() >= FRAGMENT_MIN && line.len() < value.len());
            secrets.extend(lines.map(|line| line.as_bytes().to_vec()));
            if !value.is_empty() {
                secrets.push(value.as_bytes().to_vec());
            }
        }
        secrets.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        secrets.dedup();
        Self { secrets }
    }

    /// The bytes with every secret in them masked.
    #[must_use]
    pub fn mask<'a>(&self, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        let mut masked: Option<Vec<u8>> = None;
        let mut at = 0;
        while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
            match self.secrets.iter().find(|secret| rest.starts_with(secret)) {
                Some(secret) => {
                    let out = masked.get_or_insert_with(|| bytes.get(..at).unwrap_or_default().to_vec());
                    out.extend_from_slice(MASK.as_bytes());
                    at += secret.len();
                }
                None => {
                    if let Some(out) = masked.as_mut() {
                        out.extend(rest.first());
                    }
                    at += 1;
                }
            }
        }
        masked.map_or(Cow::Borrowed(bytes), Cow::Owned)
    }

    /// The text with every secret in it masked.
    #[must_use]
    pub fn mask_text(&self, text: &str) -> String {
        String::from_utf8_lossy(&self.mask(text.as_bytes())).into_owned()
    }

    /// Whether the bytes may end inside a secret, so that cutting here could show a part of it.
    #[must_use]
    pub fn may_end_inside(&self, bytes: &[u8]) -> bool {
        self.secrets.iter().any(|secret| {
            let longest = secret.len().saturating_sub(1).min(bytes.len());
            (1..=longest).any(|length| bytes.get(bytes.len() - length..) == secret.get(..length))
        })
    }
}

/// Makes lines of the chunks of one stream. A line has the time of its first chunk.
#[derive(Debug, Default)]
pub struct Lines {
    text: Vec<u8>,
    begun: Option<Time>,
}

impl Lines {
    /// Takes a chunk that was written at `at`, and appends the lines it completes to `out`, stamped and masked.
    pub fn push(&mut self, at: Time, chunk: &[u8], masker: &Masker, out: &mut Vec<u8>) {
        for piece in chunk.split_inclusive(|byte| *byte == b'\n') {
            self.begun.get_or_insert(at);
            match piece.strip_suffix(b"\n") {
                Some(end) => {
                    self.text.extend_from_slice(end);
                    self.finish(masker, out);
                }
                None => self.text.extend_from_slice(piece),
            }
        }
        let length = self.text.len();
        if length >= LINE_HARD_MAX || (length >= LINE_SOFT_MAX && !masker.may_end_inside(&self.text)) {
            self.finish(masker, out);
        }
    }

    /// Appends what is left of a line without end.
    pub fn finish(&mut self, masker: &Masker, out: &mut Vec<u8>) {
        if let Some(at) = self.begun.take() {
            stamp(at, &masker.mask(&self.text), out);
            self.text.clear();
        }
    }

    /// Whether no line has begun: everything taken has been handed out.
    #[must_use]
    pub fn is_between_lines(&self) -> bool {
        self.begun.is_none()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn lines(chunks: &[&str], masker: &Masker) -> String {
        let (mut lines, mut out) = (Lines::default(), Vec::new());
        for (n, chunk) in (0..).zip(chunks) {
            lines.push(Time::from_millis(n), chunk.as_bytes(), masker, &mut out);
        }
        lines.finish(masker, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn every_line_has_the_time_of_its_first_chunk() {
        insta::assert_snapshot!(lines(&["a\nb", "c\n\n", "d"], &Masker::default()), @r"
        1970-01-01T00:00:00.000Z a
        1970-01-01T00:00:00.000Z bc
        1970-01-01T00:00:00.001Z 
        1970-01-01T00:00:00.002Z d
        ");
    }

    #[test]
    fn r29_secrets_are_masked_also_across_chunks() {
        let masker = Masker::new(["hunter2", "", "hunter2-long"]);
        assert_eq!(lines(&["x hunt", "er2 y hunter2-long\n"], &masker), "1970-01-01T00:00:00.000Z x *** y ***\n");
        assert!(!format!("{masker:?}").contains("hunter"));
    }

    #[test]
    fn r29_each_line_of_a_secret_of_several_lines_is_masked() {
        let masker = Masker::new(["-----BEGIN\nMIIabc\n}\n-----END"]);
        assert_eq!(masker.mask_text("MIIabc } -----END"), "*** } ***");
    }

    #[test]
    fn r29_an_endless_line_is_not_cut_inside_a_secret() {
        let masker = Masker::new(["hunter2"]);
        let long = format!("{}hunt", "x".repeat(LINE_SOFT_MAX));
        let text = lines(&[&long, "er2", "z"], &masker);
        assert!(!text.contains("hunt") && !text.contains("er2"));
        assert_eq!(text.lines().count(), 2);
    }

    #[test]
    fn endless_lines_are_cut() {
        let text = lines(&["x".repeat(LINE_SOFT_MAX).as_str(), "y"], &Masker::default());
        assert_eq!(text.lines().map(str::len).collect::<Vec<_>>(), [LINE_SOFT_MAX + 25, 26]);
        let masker = Masker::new(["a".repeat(LINE_HARD_MAX * 2)]);
        assert_eq!(lines(&["a".repeat(LINE_HARD_MAX).as_str(), "a"], &masker).lines().count(), 2);
    }

    #[test]
    fn what_is_no_log_line_is_not_read_as_one() {
        for bad in ["", "hello", "2026 hello", " x"] {
            assert_eq!(parse(bad.as_bytes()), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn chunks_do_not_change_lines(text in "[ab\n]{0,40}", cut in 0_usize..40) {
            let cut = cut.min(text.len());
            let masker = Masker::new(["ab"]);
            let strip = |text: String| -> Vec<Vec<u8>> {
                text.lines().map(|line| parse(line.as_bytes()).unwrap().1.to_vec()).collect()
            };
            prop_assert_eq!(strip(lines(&[&text], &masker)), strip(lines(&[&text[..cut], &text[cut..]], &masker)));
        }

        #[test]
        fn no_secret_survives(text in ".{0,60}", secret in "[a-c]{1,4}") {
            let masked = Masker::new([&secret]).mask_text(&text);
            prop_assert!(!masked.contains(&secret));
        }

        #[test]
        fn stamped_lines_parse(millis in 0_i64..253_402_207_200_000, text in "[^\n]{0,40}") {
            let at = Time::from_millis(millis);
            let mut line = Vec::new();
            stamp(at, text.as_bytes(), &mut line);
            prop_assert_eq!(parse(&line), Some((at, text.as_bytes())));
        }
    }
}
