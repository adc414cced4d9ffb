//! Reading log files. Owns the way from bytes back to entries; never waits, see [`follow`](super::follow).

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use orlop_core::time::Time;

use super::{LineEnd, Stream, parse_entry};

/// Bytes one call reads at most.
pub const PAGE_BYTES: usize = 1024 * 1024;

/// A line of a log, or a piece of a long one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// When its first byte was read.
    pub time: Time,
    /// From which stream.
    pub stream: Stream,
    /// The text, without line feed; bytes that are not UTF-8 are shown as U+FFFD.
    pub text: String,
    /// Whether the line goes on in the next entry of this stream.
    pub goes_on: bool,
}

/// A part of a log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// The entries, in the order of the file.
    pub entries: Vec<Entry>,
    /// Where the next page begins, in bytes of the file.
    pub next: u64,
}

/// Reads the complete entries of a log file from byte `from` on, [`PAGE_BYTES`] at most; none when the end is reached
/// or there is no such file yet. A line that is no entry, such as the remains of a write on a full disk, is an entry
/// with the time of its predecessor in the page.
///
/// # Errors
/// Those of the file system.
pub fn read(path: &Path, stream: Stream, from: u64) -> io::Result<Page> {
    read_until(path, stream, from, u64::MAX)
}

/// The same, of what is before byte `to` alone.
///
/// # Errors
/// Those of the file system.
pub fn read_until(path: &Path, stream: Stream, from: u64, to: u64) -> io::Result<Page> {
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Page { next: from, ..Page::default() }),
        Err(error) => return Err(error),
    };
    file.seek(SeekFrom::Start(from))?;
    let mut bytes = Vec::new();
    file.take((PAGE_BYTES as u64).min(to.saturating_sub(from))).read_to_end(&mut bytes)?;
    Ok(parse(&bytes, stream, from))
}

/// Reads all entries of a log file from byte `from` on.
///
/// # Errors
/// Those of the file system.
pub fn read_all(path: &Path, stream: Stream, from: u64) -> io::Result<Page> {
    let mut all = Page { entries: Vec::new(), next: from };
    loop {
        let page = read(path, stream, all.next)?;
        if page.next == all.next {
            return Ok(all);
        }
        all.next = page.next;
        all.entries.extend(page.entries);
    }
}

fn parse(bytes: &[u8], stream: Stream, from: u64) -> Page {
    let mut page = Page { entries: Vec::new(), next: from };
    let mut last = Time::EPOCH;
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        // A page that holds no line feed at all is no log of ours; show it in pieces rather than never.
        if line.last() != Some(&b'\n') && line.len() < PAGE_BYTES {
            break;
        }
        page.next = page.next.saturating_add(line.len() as u64);
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        if is_torn_stamp(line) {
            continue;
        }
        let entry = entry(line, stream, last);
        last = entry.time;
        page.entries.push(entry);
    }
    page
}

/// Whether a line is the beginning of a time and no more: what a full disk left of an entry.
fn is_torn_stamp(line: &[u8]) -> bool {
    const STAMP: &[u8] = b"dddd-dd-ddTdd:dd:dd.dddZ";
    let fits = |(byte, form): (&u8, &u8)| if *form == b'd' { byte.is_ascii_digit() } else { byte == form };
    line.len() > 4 && line.len() <= STAMP.len() && line.iter().zip(STAMP).all(fits)
}

fn entry(line: &[u8], stream: Stream, last: Time) -> Entry {
    let (time, end, text) = parse_entry(line).unwrap_or((last, LineEnd::Here, line));
    Entry { time, stream, text: String::from_utf8_lossy(text).into_owned(), goes_on: end == LineEnd::Later }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::super::capture::{Capture, Tail};
    use super::*;

    #[test]
    fn entries_come_back_from_any_offset_returned() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("1.out");
        assert_eq!(read(&path, Stream::Stdout, 0).unwrap(), Page::default());
        let (mut capture, mut tail) =
            (Capture::new(Arc::default(), super::super::capture::open(&path).unwrap()), Tail::default());
        capture.push(b"one\ntwo", Time::from_millis(5), &mut tail);
        let first = read(&path, Stream::Stdout, 0).unwrap();
        assert_eq!(first.entries.len(), 1);
        capture.push(b" and more\n", Time::from_millis(9), &mut tail);
        let second = read(&path, Stream::Stdout, first.next).unwrap();
        assert_eq!(
            second.entries,
            [Entry {
                time: Time::from_millis(5),
                stream: Stream::Stdout,
                text: "two and more".to_owned(),
                goes_on: false
            }]
        );
        assert_eq!(read(&path, Stream::Stdout, second.next).unwrap().next, second.next);
    }

    #[test]
    fn an_incomplete_entry_is_left_for_later() {
        let page = parse(b"1970-01-01T00:00:01.000Z a\n1970-01-01T0", Stream::Stderr, 100);
        assert_eq!((page.entries.len(), page.next), (1, 127));
    }

    #[test]
    fn a_torn_line_keeps_the_time_before_it() {
        let page = parse(b"1970-01-01T00:00:01.000Z+a\ntorn\n", Stream::Stdout, 0);
        assert_eq!(page.entries[1].time, Time::from_millis(1000));
        assert_eq!((page.entries[0].goes_on, page.entries[1].text.as_str()), (true, "torn"));
    }

    #[test]
    fn logs_larger_than_a_page_are_read_in_pages() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("big");
        let line = format!("1970-01-01T00:00:01.000Z {}\n", "x".repeat(1000));
        std::fs::write(&path, line.repeat(3000)).unwrap();
        assert!(read(&path, Stream::Stdout, 0).unwrap().entries.len() < 3000);
        assert_eq!(read_all(&path, Stream::Stdout, 0).unwrap().entries.len(), 3000);
    }

    proptest! {
        #[test]
        fn no_content_panics_or_hangs(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let page = parse(&bytes, Stream::Stdout, 0);
            prop_assert!(page.next <= bytes.len() as u64);
        }
    }
}
