//! The outbox log of a worker: acceptances, starts, ends and output of attempts are written to disk before they go to the
//! server, and released when the server acknowledges them.
//!
//! There are two journals, so that much output does not delay anything else: control entries (`c*.seg`), which are never dropped and have
//! reserved space for a full disk, and output (`l*.seg`). Beyond a limit, the oldest output of the attempt with the most is dropped and
//! leaves a gap. An entry that is acknowledged is released, a segment without needed entries removed.
//!
//! What an attempt was accepted with and how it started stay until its end is acknowledged, so that an agent that starts
//! again knows what its predecessor ran.

mod journal;
mod output_log;
mod recover;
mod reserve;
mod shift;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io;
use std::ops::Bound::{Excluded, Unbounded};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use orlop_core::task::{LogStream, TaskRef};
use serde::{Deserialize, Serialize};

pub use self::journal::Entry;
use self::journal::{Journal, Spot};
use self::output_log::OutputLog;
pub use self::recover::Recovered;
use self::reserve::Reserve;
use crate::runtime::logs::now;
use crate::runtime::worker::event::{AttemptEnd, LogCapacity, LogChunk, Started};

/// Number of an entry, growing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct EntryNo(pub u64);

/// Bounds and durability of an outbox log.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct OutboxOptions {
    /// Its directory; made if it is not there.
    pub dir: PathBuf,
    /// Whether a flush survives the host, not only the agent.
    pub fsync: bool,
    /// Bytes of output kept.
    pub logs: u64,
    /// Bytes set aside for control entries.
    pub reserve: u64,
    /// Bytes of a segment.
    pub segment: u64,
}

impl OutboxOptions {
    /// The usual bounds: 1 GiB of output, 64 MiB set aside, segments of 16 MiB, no fsync.
    #[must_use]
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self { dir: dir.into(), fsync: false, logs: 1 << 30, reserve: 64 << 20, segment: 16 << 20 }
    }
}

/// What is reported of an attempt besides its output.
#[derive(Clone, Debug, PartialEq)]
pub enum Item {
    /// It was taken on.
    Accepted,
    /// It was not, for this reason.
    Rejected(String),
    /// It was given back before it started.
    Revoked,
    /// It runs.
    Started(Started),
    /// It ended.
    Ended(Arc<AttemptEnd>),
}

/// How far entries of an outbox log were handed out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cursor {
    items: EntryNo,
    chunks: EntryNo,
}

/// How much is in an outbox log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OutboxStats {
    /// Bytes on disk.
    pub bytes: u64,
    /// Ends that are not acknowledged.
    pub results: u64,
    /// Bytes of output that were given up.
    pub dropped: u64,
}

/// What is remembered of an attempt until its end is acknowledged.
#[derive(Debug, Default)]
struct TrackedAttempt {
    body: Arc<[u8]>,
    accepted: Option<(EntryNo, Spot)>,
    started: Option<(EntryNo, Spot, Started)>,
}

#[derive(Debug)]
struct Pending {
    id: TaskRef,
    item: Item,
    spot: Spot,
}

/// See the module.
#[derive(Debug)]
pub struct OutboxLog {
    options: OutboxOptions,
    control: Journal,
    next: u64,
    known: BTreeMap<TaskRef, TrackedAttempt>,
    pending: BTreeMap<EntryNo, Pending>,
    /// The last control entry that was handed out.
    handed: EntryNo,
    results: u64,
    released: Vec<EntryNo>,
    out: OutputLog,
    reserve: Reserve,
}

impl OutboxLog {
    /// Opens an outbox log and what an earlier agent left in it.
    ///
    /// # Errors
    /// Those of the file system. A torn end of a journal is none: it is cut off.
    pub fn open(options: OutboxOptions) -> io::Result<(Self, Vec<Recovered>)> {
        recover::open(options)
    }

    /// The directory.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.options.dir
    }

    fn number(&mut self) -> EntryNo {
        self.next += 1;
        EntryNo(self.next)
    }

    fn append(&mut self, entry: &Entry, needed: bool) -> io::Result<Spot> {
        match self.control.append(entry, needed) {
            // It is the segment before that cannot be written, or the next that cannot be made.
            Err(error) if self.reserve.give(&error) => self.control.append(entry, needed),
            appended => appended,
        }
    }

    fn pend(&mut self, no: EntryNo, id: TaskRef, item: Item, spot: Spot) {
        self.results += u64::from(matches!(item, Item::Ended(_)));
        self.pending.insert(no, Pending { id, item, spot });
    }

    /// An attempt is taken on; `body` is what an agent that starts later needs to know of it. With `keep` its output is
    /// never dropped: it gets [`LogCapacity::Full`] instead.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn accepted(&mut self, id: TaskRef, body: &[u8], keep: bool) -> io::Result<()> {
        let no = self.number();
        let spot = self.append(&Entry::Accepted(no, id, body.to_vec()), true)?;
        if keep {
            self.out.keep(id);
        }
        self.known.insert(id, TrackedAttempt { body: body.into(), accepted: Some((no, spot)), started: None });
        self.pend(no, id, Item::Accepted, spot);
        Ok(())
    }

    /// More is known of an attempt that was taken on: this is what an agent that starts later needs to know of it now.
    /// Nothing is reported to the server by it.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn amended(&mut self, id: TaskRef, body: &[u8]) -> io::Result<()> {
        let Some((no, before)) = self.known.get(&id).and_then(|known| known.accepted) else { return Ok(()) };
        let spot = self.append(&Entry::Accepted(no, id, body.to_vec()), true)?;
        if let Some(known) = self.known.get_mut(&id) {
            (known.body, known.accepted) = (body.into(), Some((no, spot)));
        }
        if let Some(pending) = self.pending.get_mut(&no) {
            pending.spot = spot;
        }
        self.control.release(before);
        Ok(())
    }

    /// An attempt is not taken on.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn rejected(&mut self, id: TaskRef, reason: &str) -> io::Result<()> {
        let no = self.number();
        let spot = self.append(&Entry::Rejected(no, id, reason.to_owned()), true)?;
        self.pend(no, id, Item::Rejected(reason.to_owned()), spot);
        Ok(())
    }

    /// An attempt is given back before it started.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn revoked(&mut self, id: TaskRef) -> io::Result<()> {
        let no = self.number();
        let spot = self.append(&Entry::Revoked(no, id), true)?;
        self.pend(no, id, Item::Revoked, spot);
        Ok(())
    }

    /// An attempt runs. A later report for an attempt that is already started is ignored.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn started(&mut self, id: TaskRef, started: Started) -> io::Result<()> {
        if self.known.get(&id).is_some_and(|known| known.started.is_some()) {
            return Ok(());
        }
        let no = self.number();
        let spot = self.append(&Entry::Started(no, id, started.clone()), true)?;
        self.known.entry(id).or_default().started = Some((no, spot, started.clone()));
        self.pend(no, id, Item::Started(started), spot);
        Ok(())
    }

    /// An attempt ended. What its output lost on the way through the outbox log is added to the end's count. Its acceptance
    /// and start need not be reported any more if they were not yet: an end implies both.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn ended(&mut self, id: TaskRef, mut end: AttemptEnd) -> io::Result<()> {
        let lost = self.out.end(&id);
        end.log.dropped_bytes += lost.bytes;
        end.log.dropped_chunks += lost.chunks;
        let no = self.number();
        let entry = Entry::Ended(no, id, Box::new(end));
        let spot = self.append(&entry, true)?;
        let Entry::Ended(_, _, end) = entry else { return Ok(()) };
        if let Some(known) = self.known.get(&id) {
            let implied = [known.accepted.map(|(no, _)| no), known.started.as_ref().map(|(no, ..)| *no)];
            for no in implied.into_iter().flatten().filter(|no| *no > self.handed) {
                self.pending.remove(&no);
            }
        }
        self.pend(no, id, Item::Ended(Arc::from(end)), spot);
        Ok(())
    }

    /// An attempt wrote something.
    pub fn log(&mut self, id: TaskRef, chunk: LogChunk) -> LogCapacity {
        let no = self.number();
        self.out.push(no, id, chunk)
    }

    /// Writes what waits: only what was written is handed out.
    ///
    /// # Errors
    /// When control entries cannot be written, not even into the room set aside; they wait on. Output that cannot be
    /// written is dropped and counted, which is no error.
    pub fn flush(&mut self) -> io::Result<()> {
        if !self.released.is_empty() {
            let released = std::mem::take(&mut self.released);
            self.append(&Entry::Released(released), false)?;
        }
        if self.control.waiting() > 0 {
            if let Err(error) = self.control.write() {
                if !self.reserve.give(&error) {
                    return Err(error);
                }
                self.control.write()?;
            }
            if self.options.fsync {
                self.control.sync()?;
            }
        }
        let full = self.reserve.is_given();
        self.out.flush(full);
        if !full {
            self.tell_losses();
        }
        self.reserve.take_back();
        self.shift()
    }

    /// Has a chunk without output report what was lost of attempts whose end is reported already.
    fn tell_losses(&mut self) {
        let unreported = self.out.unreported();
        for (id, seq) in &unreported {
            let no = self.number();
            let (stream, time) = (LogStream::System, now());
            // Whether there is room for the next one makes no difference to who has ended.
            let _ = self.out.push(no, *id, LogChunk { stream, seq: *seq, time, data: Vec::new(), gap: None });
        }
        if !unreported.is_empty() {
            self.out.flush(false);
        }
    }

    /// The next control entries that are written and were not handed out yet, at most `max`, oldest first.
    pub fn next_items(&mut self, max: usize) -> Vec<(EntryNo, TaskRef, Item)> {
        let range = self.pending.range((Excluded(self.handed), Unbounded));
        let items: Vec<_> = range.take(max).map(|(no, pending)| (*no, pending.id, pending.item.clone())).collect();
        if let Some((no, ..)) = items.last() {
            self.handed = *no;
        }
        items
    }

    /// The next chunks of output that are written and were not handed out yet, oldest first, as long as they have at
    /// most `bytes` in all and are at most `max`.
    pub fn next_chunks(&mut self, max: usize, bytes: u64) -> Vec<(EntryNo, TaskRef, LogChunk)> {
        self.out.next(max, bytes)
    }

    /// Whether [`OutboxLog::next_items`] or [`OutboxLog::next_chunks`] has something.
    #[must_use]
    pub fn has_more(&self) -> (bool, bool) {
        let items = self.pending.range((Excluded(self.handed), Unbounded)).next().is_some();
        (items, self.out.has_more())
    }

    /// Whether something waits besides acceptances, which nobody waits for.
    #[must_use]
    pub fn has_news(&self) -> bool {
        let mut waiting = self.pending.range((Excluded(self.handed), Unbounded));
        waiting.any(|(_, pending)| !matches!(pending.item, Item::Accepted)) || self.out.has_more()
    }

    /// How far entries were handed out.
    #[must_use]
    pub fn cursor(&self) -> Cursor {
        Cursor { items: self.handed, chunks: self.out.handed() }
    }

    /// What was handed out after this, and is not acknowledged, is handed out again; after the default cursor: all.
    pub fn rewind(&mut self, to: Cursor) {
        self.handed = to.items;
        self.out.rewind(to.chunks);
    }

    /// The server has it. With the end of an attempt all of it goes.
    pub fn release(&mut self, no: EntryNo) {
        if self.out.release(no) {
            return;
        }
        let Some(pending) = self.pending.remove(&no) else { return };
        match pending.item {
            // An agent that starts later needs them.
            Item::Accepted | Item::Started(_) => {}
            Item::Rejected(_) | Item::Revoked | Item::Ended(_) => {
                self.results -= u64::from(matches!(pending.item, Item::Ended(_)));
                self.control.release(pending.spot);
                self.released.push(no);
                self.forget(&pending.id);
            }
        }
    }

    /// Nothing of an attempt is needed: the server wants to hear no more of it.
    pub fn discard(&mut self, id: &TaskRef) {
        let all: Vec<EntryNo> =
            self.pending.iter().filter(|(_, pending)| pending.id == *id).map(|(no, _)| *no).collect();
        for no in all {
            self.release(no);
        }
        self.forget(id);
        self.out.discard(id);
    }

    fn forget(&mut self, id: &TaskRef) {
        let Some(known) = self.known.remove(id) else { return };
        let spots = [known.accepted, known.started.map(|(no, spot, _)| (no, spot))];
        for (no, spot) in spots.into_iter().flatten() {
            self.pending.remove(&no);
            self.control.release(spot);
            self.released.push(no);
        }
    }

    /// Attempts that got [`LogCapacity::Full`] and for which there is room again.
    pub fn take_relieved(&mut self) -> Vec<TaskRef> {
        self.out.take_relieved()
    }

    /// How much is in it.
    #[must_use]
    pub fn stats(&self) -> OutboxStats {
        let bytes = self.control.bytes() + self.out.bytes();
        OutboxStats { bytes, results: self.results, dropped: self.out.dropped() }
    }

    /// Number of the last chunk of an attempt that was ever put in; 0 when there is none, or its end is acknowledged.
    #[must_use]
    pub fn last_seq(&self, id: &TaskRef) -> u64 {
        self.out.last_seq(id)
    }
}
