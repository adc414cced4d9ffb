//! The output of a step on its way to the server: both streams of its attempt as they grow, as chunks of its job. Owns which of it
//! was handed on, so that an agent that starts later goes on behind that; never decides how long to read.
//!
//! A note is written for each page of a stream, before its chunks are handed on. An agent that starts later cuts the same pages again, so
//! that its chunks are those of before, however many of them are known to have arrived.

use std::collections::VecDeque;
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use orlop_cloud::durable::{Durable, replace};
use orlop_cloud::runtime::logs::Stream;
use orlop_cloud::runtime::logs::follow::Changes;
use orlop_cloud::runtime::logs::read::{Entry, PAGE_BYTES, read_until};
use orlop_cloud::runtime::worker::{AttemptEvents, LogCapacity, LogChunk, LogTotals};
use orlop_core::spec::job::{LogPolicy, OnFull};
use orlop_core::task::{LogGap, LogStream, TaskRef};
use orlop_core::time::Time;

/// The most bytes of a chunk.
const CHUNK: usize = 16 << 10;
/// Between two looks at output that cannot be watched, as where a user has too many watches.
const UNWATCHED: Duration = Duration::from_secs(1);
/// Numbers of a note, and its length.
const NUMBERS: usize = 8;
const NOTE: usize = NUMBERS * 8;
/// Notes kept when the file is compacted at twice this number; the chunks of older ones have long been acknowledged.
const NOTES_KEPT: usize = 1000;

/// Whether a step wrote more than it may, and is to fail by that.
pub(super) fn exceeds(policy: LogPolicy, totals: &LogTotals) -> bool {
    policy.on_full == OnFull::Fail && totals.dropped_bytes > 0
}

/// How far the output was handed on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Note {
    /// The last chunk.
    seq: u64,
    /// Bytes of each file.
    offsets: [u64; 2],
    bytes: u64,
    dropped_bytes: u64,
    dropped_chunks: u64,
    /// What is missing since the last chunk.
    gap: LogGap,
}

impl Note {
    fn encode(self) -> Vec<u8> {
        let ([out, err], LogGap { chunks, bytes }) = (self.offsets, self.gap);
        let numbers = [self.seq, out, err, self.bytes, self.dropped_bytes, self.dropped_chunks, chunks, bytes];
        numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let mut numbers = bytes.as_chunks::<8>().0.iter().map(|number| u64::from_le_bytes(*number));
        let mut next = || numbers.next();
        Some(Self {
            seq: next()?,
            offsets: [next()?, next()?],
            bytes: next()?,
            dropped_bytes: next()?,
            dropped_chunks: next()?,
            gap: LogGap { chunks: next()?, bytes: next()? },
        })
    }
}

/// The file of notes.
#[derive(Debug)]
struct NoteFile {
    path: PathBuf,
    /// How many are in it.
    count: usize,
}

/// The output of an attempt.
#[derive(Debug)]
pub(super) struct Output {
    id: TaskRef,
    paths: [PathBuf; 2],
    policy: LogPolicy,
    notes: NoteFile,
    /// How far it was read.
    note: Note,
    /// Notes of the previous agent whose pages are sent again.
    again: VecDeque<Note>,
    /// Highest chunk that the previous agent is known to have sent.
    known: u64,
    /// Whether nothing is handed on because there is no room.
    is_paused: bool,
    /// Whether the attempt has ended.
    is_ended: bool,
    /// Whether notes are written.
    has_notes: bool,
}

impl Output {
    /// The output in files with these names of an attempt; chunks up to `known` were handed on before.
    pub(super) fn open(
        id: TaskRef,
        notes: &Path,
        paths: [PathBuf; 2],
        policy: LogPolicy,
        known: u64,
    ) -> io::Result<Self> {
        let bytes = match fs::read(notes) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            read => read?,
        };
        // An incomplete note at the end is ignored: its chunks were never sent.
        let all: Vec<Note> = bytes.chunks_exact(NOTE).filter_map(Note::decode).collect();
        let count = all.len();
        // If every note is newer than `known`, the file was compacted and the chunks before it have arrived.
        let begin = match all.iter().rposition(|note| note.seq <= known) {
            Some(last) => Some(last),
            None => (count >= NOTES_KEPT).then_some(0),
        };
        let note = begin.and_then(|begin| all.get(begin).copied()).unwrap_or_default();
        let again = all.into_iter().skip(begin.map_or(0, |begin| begin + 1)).collect();
        let notes = NoteFile { path: notes.to_owned(), count };
        Ok(Self { id, paths, policy, notes, note, again, known, is_paused: false, is_ended: false, has_notes: true })
    }

    /// Tells when there is more.
    pub(super) fn watch(&self) -> Changed {
        let [out, _] = &self.paths;
        let changes = out.parent().map(Changes::watch).transpose();
        let changes = changes.inspect_err(|error| tracing::warn!(%error, "the output of a step cannot be watched"));
        Changed(changes.ok().flatten())
    }

    /// Whether nothing is handed on because there is no room.
    pub(super) const fn is_paused(&self) -> bool {
        self.is_paused
    }

    /// There is room again.
    pub(super) const fn resume(&mut self) {
        self.is_paused = false;
    }

    /// Whether the step wrote more than it may, and is to fail by that.
    pub(super) fn is_over_limit(&self) -> bool {
        exceeds(self.policy, &self.totals())
    }

    /// What became of it so far.
    pub(super) const fn totals(&self) -> LogTotals {
        LogTotals {
            bytes: self.note.bytes,
            dropped_bytes: self.note.dropped_bytes,
            dropped_chunks: self.note.dropped_chunks,
            last_seq: self.note.seq,
        }
    }

    /// Hands on a page of each stream, where there is one. Says whether there is no more for now.
    pub(super) fn pass_on(&mut self, events: &dyn AttemptEvents) -> io::Result<bool> {
        let is_caught_up = match self.again.front().copied() {
            Some(next) if !self.is_paused => {
                let which = usize::from(next.offsets[1] > self.note.offsets[1]);
                self.page(which, Some(next), events)?;
                self.again.pop_front();
                self.is_paused
            }
            _ => {
                let mut is_caught_up = true;
                for which in 0..self.paths.len() {
                    is_caught_up &= self.page(which, None, events)?;
                }
                is_caught_up
            }
        };
        events.flush();
        Ok(is_caught_up)
    }

    /// Hands on a page of a stream; `again`: one of which there is a note already. Says whether it was not a full one.
    fn page(&mut self, which: usize, again: Option<Note>, events: &dyn AttemptEvents) -> io::Result<bool> {
        let (Some(path), Some(from)) = (self.paths.get(which), self.note.offsets.get(which).copied()) else {
            return Ok(true);
        };
        if self.is_paused {
            return Ok(true);
        }
        let stream = if which == 0 { Stream::Stdout } else { Stream::Stderr };
        let to = again.and_then(|again| again.offsets.get(which).copied()).unwrap_or(u64::MAX);
        let page = read_until(path, stream, from, to)?;
        if page.next == from && again.is_none() {
            return Ok(true);
        }
        let mut next = self.note;
        if let Some(offset) = next.offsets.get_mut(which) {
            *offset = page.next;
        }
        let chunks = self.cut(stream, &page.entries, &mut next);
        match again {
            Some(again) => self.note = again,
            None => {
                // After the end output is sent even if its note cannot be written. No notes follow, so that the file has no gaps.
                match self.has_notes.then(|| self.write_note(next)) {
                    Some(Err(error)) if !self.is_ended => return Err(error),
                    Some(Err(_)) => self.has_notes = false,
                    Some(Ok(())) | None => {}
                }
                self.note = next;
            }
        }
        for chunk in chunks.into_iter().filter(|chunk| chunk.seq > self.known) {
            let room = events.log(self.id, chunk);
            self.is_paused |= room == LogCapacity::Full && self.policy.on_full == OnFull::Block;
        }
        self.is_paused |= self.policy.on_full == OnFull::Block && self.note.bytes >= self.policy.limit;
        // A line that is longer than what was left of the page begins the next one.
        Ok(page.next - from < PAGE_BYTES as u64 / 2)
    }

    /// Writes a note, or nothing of it.
    fn write_note(&mut self, note: Note) -> io::Result<()> {
        let NoteFile { path, count } = &mut self.notes;
        if *count >= 2 * NOTES_KEPT {
            let bytes = fs::read(&*path)?;
            let all: Vec<Note> = bytes.chunks_exact(NOTE).filter_map(Note::decode).collect();
            let kept = all.get(all.len().saturating_sub(NOTES_KEPT)..).unwrap_or_default();
            write_all(path, kept)?;
            *count = kept.len();
        }
        let mut file = OpenOptions::new().append(true).create(true).mode(0o600).open(&*path)?;
        let found = file.metadata()?.len();
        let len = found - found % NOTE as u64;
        if len != found {
            // A part of a note that could not be taken back.
            file.set_len(len)?;
        }
        file.write_all(&note.encode()).inspect_err(|_| {
            // Where that fails too, it is done before the next one.
            drop(file.set_len(len));
        })?;
        *count += 1;
        Ok(())
    }

    /// Entries as chunks, as far as the limit lets them.
    fn cut(&self, stream: Stream, entries: &[Entry], note: &mut Note) -> Vec<LogChunk> {
        let mut text = String::new();
        for entry in entries {
            text.push_str(&entry.text);
            if !entry.goes_on {
                text.push('\n');
            }
        }
        let bytes = text.into_bytes();
        let room = usize::try_from(self.policy.limit.saturating_sub(note.bytes)).unwrap_or(usize::MAX);
        let fits = if self.policy.on_full == OnFull::Block { bytes.len() } else { room.min(bytes.len()) };
        let (kept, dropped) = bytes.split_at_checked(fits).unwrap_or((&bytes, &[]));
        note.bytes += kept.len() as u64;
        let time = entries.first().map_or(Time::EPOCH, |entry| entry.time);
        let stream = if stream == Stream::Stdout { LogStream::Stdout } else { LogStream::Stderr };
        let mut chunks = Vec::new();
        for data in kept.chunks(CHUNK) {
            note.seq += 1;
            let gap = std::mem::take(&mut note.gap);
            let gap = (gap != LogGap::default()).then_some(gap);
            chunks.push(LogChunk { stream, seq: note.seq, time, data: data.to_vec(), gap });
        }
        if !dropped.is_empty() {
            let (bytes, pieces) = (dropped.len() as u64, dropped.len().div_ceil(CHUNK) as u64);
            note.gap = LogGap { chunks: note.gap.chunks + pieces, bytes: note.gap.bytes + bytes };
            note.dropped_chunks += pieces;
            note.dropped_bytes += bytes;
        }
        chunks
    }

    /// The end of all output: what is left is handed on, whatever room there is.
    pub(super) async fn finish(mut self, events: &dyn AttemptEvents, at: Time) -> LogTotals {
        self.is_ended = true;
        loop {
            self.is_paused = false;
            // It has ended: there is nothing more to be done about the limit.
            match self.pass_on(events) {
                Ok(true) if !self.is_paused => break,
                Ok(_) => tokio::task::yield_now().await,
                Err(error) => {
                    tracing::error!(attempt = %self.id, %error, "the end of the output of a step cannot be read");
                    break;
                }
            }
        }
        if self.note.gap != LogGap::default() {
            self.note.seq += 1;
            let (seq, gap) = (self.note.seq, Some(self.note.gap));
            let end = LogChunk { stream: LogStream::System, seq, time: at, data: Vec::new(), gap };
            // There may be no room: what is missing is reported all the same.
            let _ = events.log(self.id, end);
        }
        self.totals()
    }
}

/// Writes all notes anew.
fn write_all(path: &Path, notes: &[Note]) -> io::Result<()> {
    let bytes: Vec<u8> = notes.iter().flat_map(|note| note.encode()).collect();
    replace(path, &bytes, Durable::No)
}

/// Waits for more output.
#[derive(Debug, Default)]
pub(super) struct Changed(Option<Changes>);

impl Changed {
    /// Returns when there may be more, or when it is to be looked at all the same. Dropping the future loses nothing.
    pub(super) async fn next(&mut self) {
        if let Some(changes) = &self.0 {
            match changes.next().await {
                Ok(()) => return,
                Err(error) => tracing::warn!(%error, "the output of a step cannot be watched any more"),
            }
            self.0 = None;
        }
        tokio::time::sleep(UNWATCHED).await;
    }
}

#[cfg(test)]
mod tests;
