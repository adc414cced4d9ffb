//! Output of attempts in the outbox log. Owns its bound: beyond it the oldest output of the attempt with the most is dropped
//! and leaves a gap, and attempts whose output may not be dropped wait.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::Bound::{Excluded, Unbounded};

use orlop_core::task::{LogGap, TaskRef};

use super::EntryNo;
use super::journal::{Entry, Journal, Spot};
use crate::runtime::worker::event::{LogCapacity, LogChunk};

/// Bytes that an entry has beside its output, about.
const BESIDE: u64 = 64;

#[derive(Debug)]
struct Chunk {
    id: TaskRef,
    spot: Spot,
    bytes: u64,
    /// What was dropped before it since it was written.
    gap: LogGap,
    /// What was dropped before that, which stands in it: it may yet not be written.
    reported: LogGap,
}

/// The output of one attempt.
#[derive(Debug, Default)]
struct Source {
    chunks: BTreeSet<EntryNo>,
    bytes: u64,
    /// What was dropped and is in no chunk's gap yet.
    gap: LogGap,
    lost: LogGap,
    last_seq: u64,
    keep: bool,
    over: bool,
    /// What was dropped since it is over: its result does not count it, and no later chunk can tell it.
    unreported: LogGap,
}

#[derive(Debug)]
pub(super) struct OutputLog {
    journal: Journal,
    max: u64,
    chunks: BTreeMap<EntryNo, Chunk>,
    sources: BTreeMap<TaskRef, Source>,
    bytes: u64,
    handed: EntryNo,
    released: Vec<EntryNo>,
    waiting: BTreeSet<TaskRef>,
    dropped: u64,
}

fn add(one: LogGap, other: LogGap) -> LogGap {
    LogGap { chunks: one.chunks + other.chunks, bytes: one.bytes + other.bytes }
}

impl OutputLog {
    pub(super) fn new(journal: Journal, max: u64) -> Self {
        Self {
            journal,
            max,
            chunks: BTreeMap::new(),
            sources: BTreeMap::new(),
            bytes: 0,
            handed: EntryNo(0),
            released: Vec::new(),
            waiting: BTreeSet::new(),
            dropped: 0,
        }
    }

    /// A chunk that was found at the opening.
    pub(super) fn found(&mut self, no: EntryNo, id: TaskRef, spot: Spot, chunk: &LogChunk, gap: LogGap) {
        self.journal.need(spot);
        let source = self.sources.entry(id).or_default();
        source.lost = add(source.lost, gap);
        source.last_seq = source.last_seq.max(chunk.seq);
        let (bytes, reported) = (chunk.data.len() as u64 + BESIDE, chunk.gap.unwrap_or_default());
        self.remember(no, Chunk { id, spot, bytes, gap, reported });
    }

    fn remember(&mut self, no: EntryNo, chunk: Chunk) {
        self.bytes += chunk.bytes;
        let source = self.sources.entry(chunk.id).or_default();
        source.bytes += chunk.bytes;
        source.chunks.insert(no);
        self.chunks.insert(no, chunk);
    }

    /// The output of this attempt is not dropped.
    pub(super) fn keep(&mut self, id: TaskRef) {
        self.sources.entry(id).or_default().keep = true;
    }

    pub(super) fn push(&mut self, no: EntryNo, id: TaskRef, mut chunk: LogChunk) -> LogCapacity {
        let source = self.sources.entry(id).or_default();
        source.last_seq = source.last_seq.max(chunk.seq);
        let unreported = std::mem::take(&mut source.unreported);
        let gap = add(add(chunk.gap.unwrap_or_default(), std::mem::take(&mut source.gap)), unreported);
        chunk.gap = (gap != LogGap::default()).then_some(gap);
        let bytes = chunk.data.len() as u64;
        match self.journal.append(&Entry::Log(no, id, chunk), true) {
            Ok(spot) => {
                let (bytes, reported) = (bytes + BESIDE, gap);
                self.remember(no, Chunk { id, spot, bytes, gap: LogGap::default(), reported });
            }
            Err(error) => {
                tracing::debug!(%error, attempt = %id, "output cannot be kept");
                self.lose(&id, LogGap { chunks: 1, bytes }, gap);
            }
        }
        if self.bytes > self.max {
            self.shrink();
        }
        let keep = self.sources.get(&id).is_some_and(|source| source.keep);
        // Those that wait do so before anything has to be dropped.
        if keep && self.bytes > self.max / 8 * 7 {
            self.waiting.insert(id);
            return LogCapacity::Full;
        }
        LogCapacity::Free
    }

    /// Counts what is gone; `before` was reported as gone already.
    fn lose(&mut self, id: &TaskRef, gone: LogGap, before: LogGap) {
        self.dropped += gone.bytes;
        let source = self.sources.entry(*id).or_default();
        source.lost = add(source.lost, gone);
        let place = if source.over { &mut source.unreported } else { &mut source.gap };
        *place = add(*place, add(gone, before));
    }

    /// Drops the oldest output that was not handed out, each time of the attempt with the most, until an eighth is free. The
    /// newest of each attempt stays: how it ended is reported, and with it what is missing before.
    fn shrink(&mut self) {
        while self.bytes > self.max / 8 * 7 {
            let handed = self.handed;
            let droppable = |source: &Source| {
                let mut unsent = source.chunks.range((Excluded(handed), Unbounded));
                let oldest = *unsent.next()?;
                unsent.next().map(|_| oldest)
            };
            let most = self.sources.iter().filter(|(_, source)| !source.keep);
            let most = most.filter_map(|(id, source)| Some((source.bytes, *id, droppable(source)?)));
            let Some((_, id, no)) = most.max_by_key(|(bytes, id, _)| (*bytes, *id)) else { return };
            self.drop_chunk(&id, no);
        }
    }

    fn drop_chunk(&mut self, id: &TaskRef, no: EntryNo) {
        let Some(chunk) = self.remove(no) else { return };
        self.released.push(no);
        let gone = LogGap { chunks: 1, bytes: chunk.bytes - BESIDE };
        self.lose(id, gone, add(chunk.reported, chunk.gap));
        // It is reported before the next chunk that is left, or the next that comes.
        let next = self.sources.get(id).and_then(|source| source.chunks.range(no..).next().copied());
        if let Some((next, source)) = next.zip(self.sources.get_mut(id)) {
            let gap = std::mem::take(&mut source.gap);
            if let Some(chunk) = self.chunks.get_mut(&next) {
                chunk.gap = add(chunk.gap, gap);
                self.note(next, *id, chunk_gap(&self.chunks, next));
            }
        }
    }

    /// Writes down that output is gone before a chunk.
    fn note(&mut self, no: EntryNo, id: TaskRef, gap: LogGap) {
        if let Err(error) = self.journal.append(&Entry::Gap(no, id, gap), false) {
            tracing::debug!(%error, attempt = %id, "a gap is not written down");
        }
    }

    fn remove(&mut self, no: EntryNo) -> Option<Chunk> {
        let chunk = self.chunks.remove(&no)?;
        self.bytes -= chunk.bytes;
        self.journal.release(chunk.spot);
        if let Some(source) = self.sources.get_mut(&chunk.id) {
            source.bytes -= chunk.bytes;
            source.chunks.remove(&no);
        }
        Some(chunk)
    }

    /// Forgets an attempt that is over, once nothing of it is to be reported.
    fn forget(&mut self, id: &TaskRef) {
        let done = |source: &Source| source.over && source.chunks.is_empty() && source.unreported == LogGap::default();
        if self.sources.get(id).is_some_and(done) {
            self.sources.remove(id);
        }
    }

    /// Attempts that are over and of whose losses nobody knows, each with the number of its last chunk.
    pub(super) fn unreported(&self) -> Vec<(TaskRef, u64)> {
        let unreported = self.sources.iter().filter(|(_, source)| source.unreported != LogGap::default());
        unreported.map(|(id, source)| (*id, source.last_seq)).collect()
    }

    /// The attempt has ended: what its output lost here.
    pub(super) fn end(&mut self, id: &TaskRef) -> LogGap {
        self.waiting.remove(id);
        let Some(source) = self.sources.get_mut(id) else { return LogGap::default() };
        source.over = true;
        let lost = source.lost;
        self.forget(id);
        lost
    }

    /// Says whether it was a chunk.
    pub(super) fn release(&mut self, no: EntryNo) -> bool {
        let Some(chunk) = self.remove(no) else { return false };
        self.released.push(no);
        self.forget(&chunk.id);
        true
    }

    pub(super) fn discard(&mut self, id: &TaskRef) {
        let all: Vec<EntryNo> = self.sources.get(id).iter().flat_map(|source| source.chunks.iter().copied()).collect();
        for no in all {
            self.release(no);
        }
        self.sources.remove(id);
        self.waiting.remove(id);
    }

    /// Writes what waits, or gives it up.
    pub(super) fn flush(&mut self, no_room: bool) {
        if !self.released.is_empty() {
            let released = Entry::Released(std::mem::take(&mut self.released));
            if let Err(error) = self.journal.append(&released, false) {
                // They are handed out once more after a restart, which harms nobody.
                tracing::debug!(%error, "released output is not written down");
            }
        }
        if self.journal.waiting() == 0 {
            return;
        }
        let written = if no_room { Err(io::ErrorKind::StorageFull.into()) } else { self.journal.write() };
        if let Err(error) = written {
            // What only tells of losses is tried again and again.
            match self.give_up() {
                0 => tracing::debug!(%error, "what was lost of output cannot be written down"),
                bytes => tracing::warn!(%error, bytes, "output of attempts cannot be written and is dropped"),
            }
        }
        if let Err(error) = self.shift() {
            tracing::warn!(%error, "output of attempts exceeds its disk limit");
        }
    }

    /// Removes segments that nothing in is needed of, and copies what is needed of the oldest behind the rest when they
    /// have a quarter more bytes than there is output.
    fn shift(&mut self) -> io::Result<()> {
        self.journal.clear()?;
        while let Some(oldest) = self.journal.oldest_beyond(self.max + self.max / 4) {
            let there = self.chunks.iter().filter(|(_, chunk)| chunk.spot.segment == oldest);
            let numbers: Vec<EntryNo> = there.map(|(no, _)| *no).collect();
            for no in numbers {
                let Some(chunk) = self.chunks.get_mut(&no) else { continue };
                let entry = self.journal.read(chunk.spot)?;
                let spot = self.journal.append(&entry, true)?;
                self.journal.release(std::mem::replace(&mut chunk.spot, spot));
                let (id, gap) = (chunk.id, chunk.gap);
                if gap != LogGap::default() {
                    self.note(no, id, gap);
                }
            }
            self.journal.write()?;
            self.journal.clear()?;
        }
        Ok(())
    }

    /// Gives how many bytes of output are gone.
    fn give_up(&mut self) -> u64 {
        let before = self.dropped;
        let (segment, from) = self.journal.written();
        let unwritten = |chunk: &Chunk| chunk.spot.segment == segment && chunk.spot.place.offset >= from;
        let gone: Vec<EntryNo> =
            self.chunks.iter().rev().take_while(|(_, chunk)| unwritten(chunk)).map(|(no, _)| *no).collect();
        for no in gone.into_iter().rev() {
            if let Some(chunk) = self.remove(no) {
                let bytes = chunk.bytes - BESIDE;
                // One without output only tells of what was lost before.
                let gone = LogGap { chunks: u64::from(bytes > 0), bytes };
                self.lose(&chunk.id, gone, add(chunk.reported, chunk.gap));
            }
        }
        self.journal.give_up();
        self.dropped - before
    }

    pub(super) fn next(&mut self, max: usize, bytes: u64) -> Vec<(EntryNo, TaskRef, LogChunk)> {
        let (mut all, mut left) = (Vec::new(), bytes);
        for (no, chunk) in self.chunks.range((Excluded(self.handed), Unbounded)).take(max) {
            let len = chunk.bytes - BESIDE;
            if len > left {
                break;
            }
            left -= len;
            self.handed = *no;
            if let Ok(Entry::Log(_, id, mut chunk_read)) = self.journal.read(chunk.spot) {
                let gap = add(chunk_read.gap.unwrap_or_default(), chunk.gap);
                chunk_read.gap = (gap != LogGap::default()).then_some(gap);
                all.push((*no, id, chunk_read));
            }
        }
        all
    }

    pub(super) fn has_more(&self) -> bool {
        self.chunks.range((Excluded(self.handed), Unbounded)).next().is_some()
    }

    pub(super) const fn handed(&self) -> EntryNo {
        self.handed
    }

    pub(super) const fn rewind(&mut self, to: EntryNo) {
        self.handed = to;
    }

    /// Those who wait may go on when a quarter is free.
    pub(super) fn take_relieved(&mut self) -> Vec<TaskRef> {
        if self.waiting.is_empty() || self.bytes > self.max / 4 * 3 {
            return Vec::new();
        }
        std::mem::take(&mut self.waiting).into_iter().collect()
    }

    pub(super) fn bytes(&self) -> u64 {
        self.journal.bytes()
    }

    pub(super) const fn dropped(&self) -> u64 {
        self.dropped
    }

    pub(super) fn last_seq(&self, id: &TaskRef) -> u64 {
        self.sources.get(id).map_or(0, |source| source.last_seq)
    }
}

fn chunk_gap(chunks: &BTreeMap<EntryNo, Chunk>, no: EntryNo) -> LogGap {
    chunks.get(&no).map_or(LogGap::default(), |chunk| chunk.gap)
}
