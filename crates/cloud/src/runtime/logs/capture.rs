//! From a pipe into a log file. Owns the order of steps (mask, cut into lines, append) and what happens when the file
//! cannot be written: the pipe is drained all the same, so that a full disk never stops a job.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

use nix::errno::Errno;
use nix::fcntl::{FallocateFlags, fallocate};
use nix::libc;
use orlop_core::time::Time;

use super::{Lines, Masker, STAMP_LEN, stamp};

/// Lines that last words taken from a log have at most.
pub const TAIL_LINES: usize = 80;
/// Bytes that last words taken from a log have at most.
pub const TAIL_BYTES: usize = 2048;

/// Bytes that a note of what is missing has at most.
const NOTE_ROOM: usize = 256;

/// Opens a log file for appending and creates it, readable by its owner only. Room is kept for a note: a log that lacks what a
/// full disk did not take can say so.
///
/// # Errors
/// Those of the file system; that there is no room for the note.
pub fn open(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(path)?;
    keep_room(&file)?;
    Ok(file)
}

/// Keeps room for a note behind the end of a file; a file system that cannot do that goes without. It stays with the file: other
/// pods of an attempt may append to it at any moment, so nothing is cut off.
fn keep_room(file: &File) -> io::Result<()> {
    let end = libc::off_t::try_from(file.metadata()?.len()).map_err(io::Error::other)?;
    let room = libc::off_t::try_from(NOTE_ROOM).map_err(io::Error::other)?;
    match fallocate(file, FallocateFlags::FALLOC_FL_KEEP_SIZE, end, room) {
        Ok(()) | Err(Errno::EOPNOTSUPP | Errno::ENOSYS) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// One stream on its way into its log file.
#[derive(Debug)]
pub struct Capture<W = File> {
    masker: Arc<Masker>,
    lines: Lines,
    sink: Sink<W>,
    entries: Vec<u8>,
}

impl<W: Write> Capture<W> {
    /// A stream whose secrets `masker` knows and whose entries go to `file`.
    #[must_use]
    pub fn new(masker: Arc<Masker>, file: W) -> Self {
        let sink = Sink { file, lost: Lost::default(), torn: false };
        Self { masker, lines: Lines::default(), sink, entries: Vec::new() }
    }

    /// The next piece of the stream, read at `now`. Entries it completes are appended to the file and remembered in
    /// `tail`. Trouble with the file is counted, see [`Capture::lost`].
    pub fn push(&mut self, piece: &[u8], now: Time, tail: &mut Tail) {
        self.lines.push(now, piece, &self.masker, &mut self.entries);
        self.append(now, tail);
    }

    /// The end of the stream.
    pub fn finish(&mut self, now: Time, tail: &mut Tail) {
        self.lines.finish(&self.masker, &mut self.entries);
        self.append(now, tail);
    }

    fn append(&mut self, now: Time, tail: &mut Tail) {
        if !self.entries.is_empty() {
            tail.remember(&self.entries);
            self.sink.append(&self.entries, now);
        }
        self.entries.clear();
    }

    /// What could not be written, in words; none when all was.
    #[must_use]
    pub fn losses(&self) -> Option<String> {
        let Lost { bytes, why, .. } = &self.sink.lost;
        let why = why.as_ref().map_or_else(String::new, |why| format!(": {why}"));
        (*bytes > 0).then(|| format!("{bytes} bytes of its log could not be written{why}"))
    }

    /// What could not be written.
    #[must_use]
    pub const fn lost(&self) -> &Lost {
        &self.sink.lost
    }
}

impl Capture<File> {
    /// Nothing comes any more. A log that lacks its end says so, in the place of its last lines where the disk is still full.
    pub fn close(&mut self, now: Time) {
        if self.sink.say(now).is_err() && self.sink.shorten().is_ok() {
            // Where others took the room at once the count in the record of the end has to do.
            let _ = self.sink.say(now);
        }
    }
}

impl Sink<File> {
    /// Takes away the last lines, at least so much as a note needs.
    fn shorten(&mut self) -> io::Result<()> {
        let len = self.file.metadata()?.len();
        let from = len.saturating_sub(4 * NOTE_ROOM as u64);
        let mut end = vec![0; usize::try_from(len - from).map_err(io::Error::other)?];
        self.file.read_exact_at(&mut end, from)?;
        let head = end.get(..end.len().saturating_sub(NOTE_ROOM)).unwrap_or_default();
        let line = head.iter().rposition(|byte| *byte == b'\n').map(|at| at + 1);
        // A line that is longer than all that was looked at is cut.
        let kept = line.unwrap_or(if from == 0 { 0 } else { head.len() });
        self.file.set_len(from + kept as u64)?;
        self.torn = line.is_none() && from > 0;
        self.lose(end.len() - kept);
        Ok(())
    }
}

/// Output that could not be written to its log file.
#[derive(Debug, Default)]
pub struct Lost {
    /// Bytes of entries, in all.
    pub bytes: u64,
    /// Those of them that the log itself does not mention yet.
    unsaid: u64,
    /// Why, the last time.
    pub why: Option<io::Error>,
}

#[derive(Debug)]
struct Sink<W> {
    file: W,
    lost: Lost,
    /// Whether the last write ended within an entry.
    torn: bool,
}

impl<W: Write> Sink<W> {
    fn append(&mut self, entries: &[u8], now: Time) {
        if self.say(now).is_err() {
            self.lose(entries.len());
            return;
        }
        if let Err(unwritten) = self.write(entries) {
            self.lose(unwritten);
        }
    }

    /// Says in the log what it lacks.
    fn say(&mut self, now: Time) -> Result<(), usize> {
        let note = self.note(now);
        if !note.is_empty() {
            self.write(&note)?;
            self.lost.unsaid = 0;
        }
        Ok(())
    }

    fn lose(&mut self, bytes: usize) {
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        self.lost.bytes = self.lost.bytes.saturating_add(bytes);
        self.lost.unsaid = self.lost.unsaid.saturating_add(bytes);
    }

    /// What the log says once it can be written again.
    fn note(&self, now: Time) -> Vec<u8> {
        if self.lost.unsaid == 0 {
            return Vec::new();
        }
        let why = self.lost.why.as_ref().map_or_else(String::new, |why| format!(": {why}"));
        let mut note = if self.torn { vec![b'\n'] } else { Vec::new() };
        stamp(now, format!("[{} bytes of this log could not be written{why}]", self.lost.unsaid).as_bytes(), &mut note);
        note
    }

    /// Writes all, or says how much is missing.
    fn write(&mut self, bytes: &[u8]) -> Result<(), usize> {
        let mut rest = bytes;
        while !rest.is_empty() {
            match self.file.write(rest) {
                Ok(0) => return self.fail(bytes, rest, io::ErrorKind::WriteZero.into()),
                Ok(written) => rest = rest.get(written..).unwrap_or_default(),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return self.fail(bytes, rest, error),
            }
        }
        self.torn = false;
        Ok(())
    }

    fn fail(&mut self, all: &[u8], rest: &[u8], why: io::Error) -> Result<(), usize> {
        if rest.len() < all.len() {
            let written = all.len() - rest.len();
            self.torn = all.get(written - 1) != Some(&b'\n');
        }
        self.lost.why = Some(why);
        Err(rest.len())
    }
}

/// The last lines of a container's output, both streams together.
#[derive(Debug, Default)]
pub struct Tail {
    lines: VecDeque<Vec<u8>>,
    bytes: usize,
}

impl Tail {
    fn remember(&mut self, entries: &[u8]) {
        for entry in entries.split_inclusive(|byte| *byte == b'\n') {
            let text = entry.get(STAMP_LEN + 1..).unwrap_or_default();
            self.bytes += text.len();
            self.lines.push_back(text.to_vec());
            while self.lines.len() > TAIL_LINES || self.bytes.saturating_sub(self.first_len()) >= TAIL_BYTES {
                self.bytes -= self.lines.pop_front().map_or(0, |line| line.len());
            }
        }
    }

    fn first_len(&self) -> usize {
        self.lines.front().map_or(0, Vec::len)
    }

    /// The last [`TAIL_LINES`] lines or [`TAIL_BYTES`] bytes, whichever is less.
    #[must_use]
    pub fn text(&self) -> String {
        let all: Vec<u8> = self.lines.iter().flatten().copied().collect();
        let from = all.len().saturating_sub(TAIL_BYTES);
        let cut = String::from_utf8_lossy(all.get(from..).unwrap_or_default());
        // A character cut in two at the beginning is not part of the last words.
        if from > 0 { cut.trim_start_matches('\u{fffd}').to_owned() } else { cut.into_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A disk with room for some bytes.
    #[derive(Debug)]
    struct Disk {
        content: Vec<u8>,
        room: usize,
    }

    impl Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let taken = bytes.len().min(self.room);
            if taken == 0 {
                return Err(io::ErrorKind::StorageFull.into());
            }
            self.room -= taken;
            self.content.extend_from_slice(&bytes[..taken]);
            Ok(taken)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn at(millis: i64) -> Time {
        Time::from_millis(millis)
    }

    #[test]
    fn a_full_disk_loses_entries_and_says_how_many_bytes() {
        let (mut capture, mut tail) =
            (Capture::new(Arc::default(), Disk { content: Vec::new(), room: 40 }), Tail::default());
        capture.push(b"first\nsecond\n", at(0), &mut tail);
        capture.push(b"third\n", at(1), &mut tail);
        assert_eq!(capture.lost().bytes, 23 + 31);
        capture.sink.file.room = 1000;
        capture.push(b"fourth\n", at(2), &mut tail);
        insta::assert_snapshot!(String::from_utf8_lossy(&capture.sink.file.content), @r"
        1970-01-01T00:00:00.000Z first
        1970-01-0
        1970-01-01T00:00:00.002Z [54 bytes of this log could not be written: no storage space]
        1970-01-01T00:00:00.002Z fourth
        ");
        assert_eq!(tail.text(), "first\nsecond\nthird\nfourth\n");
    }

    #[test]
    fn a_log_that_stays_too_short_says_so_in_the_place_of_its_last_lines() {
        let dir = tempfile::tempdir().unwrap();
        let (mut capture, mut tail) =
            (Capture::new(Arc::default(), open(&dir.path().join("log")).unwrap()), Tail::default());
        for n in 0..20 {
            capture.push(format!("line {n}\n").as_bytes(), at(n), &mut tail);
        }
        capture.sink.lost.why = Some(io::ErrorKind::StorageFull.into());
        capture.sink.lose(1000);
        capture.sink.shorten().unwrap();
        let lost = capture.lost().bytes;
        capture.close(at(99));
        let text = std::fs::read_to_string(dir.path().join("log")).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines.len() < 21 && lost >= 1000 + NOTE_ROOM as u64, "{text}");
        assert!(lines[lines.len() - 2].contains("Z line "), "{text}");
        let note =
            format!("1970-01-01T00:00:00.099Z [{lost} bytes of this log could not be written: no storage space]");
        assert_eq!(lines.last(), Some(&note.as_str()));
        assert!(note.len() < NOTE_ROOM);
        assert_eq!(
            capture.losses().unwrap(),
            format!("{lost} bytes of its log could not be written: no storage space")
        );
    }

    #[test]
    fn the_tail_is_the_last_lines_or_bytes() {
        let (mut capture, mut tail) = (Capture::new(Arc::default(), Vec::new()), Tail::default());
        for n in 0..200 {
            capture.push(format!("{n}\n").as_bytes(), at(n), &mut tail);
        }
        assert_eq!(tail.text().lines().count(), TAIL_LINES);
        assert!(tail.text().ends_with("198\n199\n"));
        capture.push("\u{e9}".repeat(3000).as_bytes(), at(0), &mut tail);
        capture.finish(at(0), &mut tail);
        assert_eq!(tail.text().len(), 2047);
        assert!(tail.text().trim_end().chars().all(|c| c == '\u{e9}'));
    }

    #[test]
    fn secrets_reach_neither_file_nor_tail() {
        let masker = Arc::new(Masker::new(["hunter22"]));
        let (mut capture, mut tail) = (Capture::new(masker, Vec::new()), Tail::default());
        capture.push(b"pw=hunt", at(0), &mut tail);
        capture.push(b"er22\n", at(1), &mut tail);
        capture.finish(at(2), &mut tail);
        assert_eq!(capture.sink.file, b"1970-01-01T00:00:00.000Z pw=***\n");
        assert_eq!(tail.text(), "pw=***\n");
    }
}
