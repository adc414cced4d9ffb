//! The end of a container's log: the files of its attempt, and a note of how far they are written. Owns that every line
//! is appended once even when this process dies between a line and its note; never talks to an engine.
//!
//! The note says how far the engine's log was read and how long the files were then. What the files hold beyond that was
//! written in the moment of the crash: the same lines come again from the engine, and those that are found there are not
//! written a second time. Pods of one attempt may share their files; another pod's lines never match.
//!
//! All writing here is synchronous: between a line and its note nothing else runs, so that dropping a task is as good or
//! as bad as a crash.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use bollard::container::LogOutput;
use orlop_core::time::Time;
use serde::{Deserialize, Serialize};

use super::frame::{self, Search, Stream, StreamPosition};
use crate::durable::{Durable, replace};
use crate::runtime::logs::{Lines, Masker};

/// How far a log is written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Note {
    out: Written,
    err: Written,
}

/// How far a stream is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Written {
    /// How far the engine's log was read, always between two lines.
    place: StreamPosition,
    /// How long the file was then.
    length: u64,
}

/// The files one container's output goes to.
#[derive(Debug)]
pub(in crate::runtime::docker) struct Sink {
    note: PathBuf,
    masker: Masker,
    out: Half,
    err: Half,
}

/// One stream of them.
#[derive(Debug)]
struct Half {
    file: File,
    lines: Lines,
    written: Written,
    /// How far it was read, within a line too.
    read: StreamPosition,
    search: Search,
    found: UnrecordedOutput,
}

/// What was written in the moment of a crash.
#[derive(Debug, Default)]
struct UnrecordedOutput {
    lines: BTreeMap<Vec<u8>, usize>,
    /// The beginning of a line at the end of the file.
    torn: Vec<u8>,
}

impl Sink {
    /// Opens the log files at `stdout` and `stderr` for the container whose note is at `note`.
    pub(in crate::runtime::docker) fn open(
        note: &Path,
        stdout: &Path,
        stderr: &Path,
        masker: Masker,
    ) -> io::Result<Self> {
        let known: Option<Note> = match std::fs::read(note) {
            // An unreadable note is as good as none: lines may come twice, none is lost.
            Ok(bytes) => serde_json::from_slice(&bytes).ok(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        let is_new = known.is_none();
        let (out, err) = known.map_or((None, None), |note| (Some(note.out), Some(note.err)));
        let sink = Self { note: note.to_owned(), masker, out: Half::open(stdout, out)?, err: Half::open(stderr, err)? };
        if is_new {
            sink.write_note()?;
        }
        Ok(sink)
    }

    /// The second from which the engine's log is to be read, after which [`Sink::take`] finds its place.
    pub(in crate::runtime::docker) fn rewind(&mut self) -> i32 {
        let mut seconds = [&mut self.out, &mut self.err].map(|half| {
            half.search = Search::new(half.read);
            half.read.second()
        });
        seconds.sort_unstable();
        seconds.first().copied().unwrap_or_default()
    }

    /// Takes pieces of output and appends the lines they complete.
    pub(in crate::runtime::docker) fn take(&mut self, pieces: &[LogOutput]) -> io::Result<()> {
        let mut lines = [Vec::new(), Vec::new()];
        for piece in pieces {
            let frame = frame::frame(piece);
            let [out, err] = &mut lines;
            let (half, lines) = match frame.stream {
                Stream::Out => (&mut self.out, out),
                Stream::Err => (&mut self.err, err),
            };
            let nanos = frame.nanos.unwrap_or(half.read.nanos);
            if half.search.is_new(nanos) {
                half.read = half.read.after(nanos);
                half.lines.push(Time::from_millis(nanos.div_euclid(1_000_000)), frame.text, &self.masker, lines);
            }
        }
        let [out, err] = lines;
        self.append(&out, &err)
    }

    /// Appends what is left of lines without end, when the container has ended and its log is read to the end.
    pub(in crate::runtime::docker) fn finish(&mut self) -> io::Result<()> {
        let (mut out, mut err) = (Vec::new(), Vec::new());
        self.out.lines.finish(&self.masker, &mut out);
        self.err.lines.finish(&self.masker, &mut err);
        self.append(&out, &err)
    }

    fn append(&mut self, out: &[u8], err: &[u8]) -> io::Result<()> {
        let before = (self.out.written, self.err.written);
        self.out.append(out)?;
        self.err.append(err)?;
        if before != (self.out.written, self.err.written) { self.write_note() } else { Ok(()) }
    }

    fn write_note(&self) -> io::Result<()> {
        let note = Note { out: self.out.written, err: self.err.written };
        replace(&self.note, &serde_json::to_vec(&note)?, Durable::No)
    }
}

impl Half {
    fn open(path: &Path, known: Option<Written>) -> io::Result<Self> {
        // Logs are their owner's: they may show secrets that were not marked.
        let mut file = OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(path)?;
        let length = file.metadata()?.len();
        let written = known.unwrap_or(Written { place: StreamPosition::default(), length });
        let mut rest = Vec::new();
        if length > written.length {
            file.seek(SeekFrom::Start(written.length))?;
            file.read_to_end(&mut rest)?;
        }
        Ok(Self {
            file,
            lines: Lines::default(),
            written,
            read: written.place,
            search: Search::new(written.place),
            found: UnrecordedOutput::new(&rest),
        })
    }

    /// Appends whole lines, except those that a crash left there, and moves on what is known to be written.
    fn append(&mut self, lines: &[u8]) -> io::Result<()> {
        let missing = self.found.missing(lines);
        if !missing.is_empty() {
            self.file.write_all(&missing)?;
        }
        if self.lines.is_between_lines() && (self.written.place != self.read) {
            self.written = Written { place: self.read, length: self.file.metadata()?.len() };
        }
        Ok(())
    }
}

impl UnrecordedOutput {
    fn new(bytes: &[u8]) -> Self {
        let mut found = Self::default();
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            if line.ends_with(b"\n") {
                *found.lines.entry(line.to_vec()).or_default() += 1;
            } else {
                found.torn = line.to_vec();
            }
        }
        found
    }

    fn is_empty(&self) -> bool {
        self.lines.is_empty() && self.torn.is_empty()
    }

    /// What of these lines is not in the file yet. They were written in order, so the first one that is not there is
    /// the end of what was.
    fn missing(&mut self, lines: &[u8]) -> Vec<u8> {
        if self.is_empty() {
            return lines.to_vec();
        }
        let mut missing = Vec::new();
        for line in lines.split_inclusive(|byte| *byte == b'\n') {
            match self.lines.get_mut(line) {
                Some(count) if *count > 1 => *count -= 1,
                Some(_) => {
                    self.lines.remove(line);
                }
                None => {
                    let begun = if line.starts_with(&self.torn) { self.torn.len() } else { 0 };
                    missing.extend_from_slice(line.get(begun..).unwrap_or_default());
                    *self = Self::default();
                }
            }
        }
        missing
    }
}

#[cfg(test)]
mod tests;
