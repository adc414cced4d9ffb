//! Logs of attempts on one machine, one file for each stream. Owns their format, the way from a pipe into the file
//! (secrets masked, lines stamped) and the way back out; never decides where a log lies or how long it is kept.
//!
//! # Format
//! Every entry is one line of the file: 24 bytes of time, one flag byte, text, line feed.
//!
//! ```text
//! 2026-11-21T09:00:01.500Z a whole line
//! 2026-11-21T09:00:01.731Z+a piece of a line longer than 16 KiB, which goes on
//! 2026-11-21T09:00:01.731Z with the next entry and ends there
//! ```
//!
//! The time is RFC 3339, UTC, always with milliseconds, and is that of the first byte of the entry. The flag is a blank
//! where the line ends and `+` where it goes on. The text is what was written, byte by byte, except for secrets, which
//! are `***`. A last line without line feed is an entry like others. Entries of several pods may alternate in one file;
//! each is appended in one write.

pub mod capture;
mod encodings;
#[cfg(target_os = "linux")]
pub mod follow;
mod lines;
mod mask;
pub mod read;

use orlop_core::time::Time;
use serde::{Deserialize, Serialize};

pub use encodings::SECRET_MIN;
pub use lines::Lines;
pub use mask::{MASK, Masker, read_secrets};

/// Bytes of the time at the beginning of an entry.
pub(crate) const STAMP_LEN: usize = 24;
/// Bytes of text an entry has at most; longer lines are split.
pub const LINE_MAX: usize = 16 * 1024;

/// A standard stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// Whether a line ends with an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineEnd {
    /// It ends there.
    Here,
    /// It goes on in the next entry of its stream.
    Later,
}

/// Appends an entry whose line ends with it.
pub fn stamp(at: Time, text: &[u8], out: &mut Vec<u8>) {
    entry(at, LineEnd::Here, text, out);
}

/// Appends an entry.
pub fn entry(at: Time, end: LineEnd, text: &[u8], out: &mut Vec<u8>) {
    const PRINTER: jiff::fmt::temporal::DateTimePrinter =
        jiff::fmt::temporal::DateTimePrinter::new().precision(Some(3));
    let time = jiff::Timestamp::from_millisecond(at.millis().max(0)).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
    out.extend_from_slice(PRINTER.timestamp_to_string(&time).as_bytes());
    out.push(if end == LineEnd::Here { b' ' } else { b'+' });
    out.extend_from_slice(text);
    out.push(b'\n');
}

/// Reads one entry, with or without its line feed: the time and the text.
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
    parse_entry(line).map(|(time, _, text)| (time, text))
}

/// Reads one entry, with or without its line feed: the time, whether its line ends with it, and the text.
#[must_use]
pub(crate) fn parse_entry(line: &[u8]) -> Option<(Time, LineEnd, &[u8])> {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let time = std::str::from_utf8(line.get(..STAMP_LEN)?).ok()?.parse().ok()?;
    let end = match line.get(STAMP_LEN)? {
        b' ' => LineEnd::Here,
        b'+' => LineEnd::Later,
        _ => return None,
    };
    Some((time, end, line.get(STAMP_LEN + 1..)?))
}

/// The time now, by the clock of this machine.
#[must_use]
pub fn now() -> Time {
    Time::from_millis(jiff::Timestamp::now().as_millisecond())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_no_entry_is_not_read_as_one() {
        for bad in ["", "hello", "2026 hello", " x", "1970-01-01T00:00:00.000Z", "1970-01-01T00:00:00.000Zx"] {
            assert_eq!(parse(bad.as_bytes()), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn entries_come_back(millis in 0_i64..253_402_207_200_000, text in "[^\n]{0,40}", ends: bool) {
            let at = Time::from_millis(millis);
            let end = if ends { LineEnd::Here } else { LineEnd::Later };
            let mut line = Vec::new();
            entry(at, end, text.as_bytes(), &mut line);
            prop_assert_eq!(parse_entry(&line), Some((at, end, text.as_bytes())));
        }

        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            let _ = parse_entry(&bytes);
        }
    }
}
