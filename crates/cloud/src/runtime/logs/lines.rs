//! From a stream of bytes to stamped entries. Owns where lines are cut; never reads a clock and never writes a file.

use orlop_core::time::Time;

use super::mask::Masker;
use super::{LINE_MAX, LineEnd, entry};

/// Makes entries of the chunks of one stream, its secrets masked, wherever the chunks are cut.
#[derive(Debug, Default)]
pub struct Lines {
    /// What may be the beginning of a secret.
    held: Vec<u8>,
    /// The line that has begun, masked.
    line: Vec<u8>,
    since: Time,
}

impl Lines {
    /// Takes a chunk that was written at `at`, and appends the entries it completes to `out`.
    pub fn push(&mut self, at: Time, chunk: &[u8], masker: &Masker, out: &mut Vec<u8>) {
        if self.is_between_lines() {
            self.since = at;
        }
        let mut masked = Vec::with_capacity(chunk.len());
        masker.push(&mut self.held, chunk, &mut masked);
        self.cut(at, &masked, out);
    }

    /// The end of the stream: what is left is an entry.
    pub fn finish(&mut self, masker: &Masker, out: &mut Vec<u8>) {
        let mut masked = Vec::new();
        masker.finish(&mut self.held, &mut masked);
        self.cut(self.since, &masked, out);
        if !self.line.is_empty() {
            self.entry(self.line.len(), LineEnd::Here, out);
        }
    }

    /// Whether no line has begun: everything taken has been handed out.
    #[must_use]
    pub fn is_between_lines(&self) -> bool {
        self.line.is_empty() && self.held.is_empty()
    }

    fn cut(&mut self, at: Time, masked: &[u8], out: &mut Vec<u8>) {
        let mut rest = masked;
        while !rest.is_empty() {
            let room = LINE_MAX.saturating_sub(self.line.len());
            let window = rest.get(..room.min(rest.len())).unwrap_or(rest);
            let end = window.iter().position(|byte| *byte == b'\n');
            let taken = end.unwrap_or(window.len());
            self.line.extend_from_slice(window.get(..taken).unwrap_or_default());
            // A line of exactly the limit is whole when its line feed follows, so look one byte further.
            let ends = end.is_some() || rest.get(taken) == Some(&b'\n');
            rest = rest.get(taken + usize::from(ends)..).unwrap_or_default();
            if ends {
                self.entry(self.line.len(), LineEnd::Here, out);
                self.since = at;
            } else if self.line.len() >= LINE_MAX && !rest.is_empty() {
                self.entry(boundary(&self.line), LineEnd::Later, out);
                self.since = at;
            }
        }
    }

    fn entry(&mut self, len: usize, end: LineEnd, out: &mut Vec<u8>) {
        entry(self.since, end, self.line.get(..len).unwrap_or(&self.line), out);
        self.line.drain(..len.min(self.line.len()));
    }
}

/// The largest cut that does not divide a character of UTF-8.
fn boundary(line: &[u8]) -> usize {
    let continues = |byte: &u8| byte & 0b1100_0000 == 0b1000_0000;
    let trailing = line.iter().rev().take(3).take_while(|byte| continues(byte)).count();
    let Some(lead) = line.len().checked_sub(trailing + 1) else { return line.len() };
    let width = match line.get(lead) {
        Some(byte) if byte & 0b1110_0000 == 0b1100_0000 => 2,
        Some(byte) if byte & 0b1111_0000 == 0b1110_0000 => 3,
        Some(byte) if byte & 0b1111_1000 == 0b1111_0000 => 4,
        _ => 1,
    };
    if width > trailing + 1 { lead } else { line.len() }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn entries(pieces: &[&[u8]]) -> Vec<u8> {
        let (mut lines, mut out, masker) = (Lines::default(), Vec::new(), Masker::new(["hunter22"]));
        for (n, piece) in pieces.iter().enumerate() {
            lines.push(Time::from_millis(i64::try_from(n).unwrap()), piece, &masker, &mut out);
        }
        lines.finish(&masker, &mut out);
        assert!(lines.is_between_lines());
        out
    }

    #[test]
    fn lines_carry_the_time_of_their_first_byte() {
        let out = String::from_utf8(entries(&[b"one\ntw", b"o\n\nthree"])).unwrap();
        insta::assert_snapshot!(out, @r"
        1970-01-01T00:00:00.000Z one
        1970-01-01T00:00:00.000Z two
        1970-01-01T00:00:00.001Z 
        1970-01-01T00:00:00.001Z three
        ");
    }

    #[test]
    fn secrets_are_masked_also_across_chunks() {
        let out = String::from_utf8(entries(&[b"pw=hunt", b"er22\n"])).unwrap();
        assert_eq!(out, "1970-01-01T00:00:00.000Z pw=***\n");
    }

    #[test]
    fn a_line_of_the_limit_is_whole_and_one_more_byte_splits_it() {
        let mut line = vec![b'x'; LINE_MAX];
        line.push(b'\n');
        assert_eq!(entries(&[&line]).iter().filter(|b| **b == b'\n').count(), 1);
        assert_eq!(entries(&[&line[..LINE_MAX], b"\n"]).iter().filter(|b| **b == b'\n').count(), 1);
        line.insert(0, b'x');
        let split = entries(&[&line]);
        assert_eq!(split.iter().filter(|b| **b == b'\n').count(), 2);
        assert_eq!(split[24], b'+');
    }

    #[test]
    fn a_split_never_divides_a_character() {
        for pad in 0..4 {
            let text = "y".repeat(LINE_MAX - pad) + "\u{1f6a2}\u{e9}";
            let out = entries(&[text.as_bytes()]);
            for entry in out.split(|b| *b == b'\n') {
                assert!(std::str::from_utf8(entry).is_ok());
            }
        }
    }

    proptest! {
        #[test]
        fn text_comes_back_byte_by_byte(pieces in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..40_000), 0..4)) {
            let refs: Vec<&[u8]> = pieces.iter().map(Vec::as_slice).collect();
            let mut back = Vec::new();
            for entry in entries(&refs).split_inclusive(|b| *b == b'\n') {
                prop_assert!(entry.len() <= LINE_MAX + 26);
                back.extend_from_slice(&entry[25..entry.len() - 1]);
                if entry[24] == b' ' {
                    back.push(b'\n');
                }
            }
            let mut sent = pieces.concat();
            if sent.last().is_some_and(|b| *b != b'\n') {
                sent.push(b'\n');
            }
            prop_assert_eq!(back, sent);
        }
    }
}
