//! Opening an outbox log: which entries of the journals are still needed, and what an earlier agent left.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::sync::Arc;

use orlop_core::task::{LogGap, TaskRef};

use super::journal::{Entry, Journal, Spot};
use super::output_log::OutputLog;
use super::reserve::Reserve;
use super::{EntryNo, Item, OutboxLog, OutboxOptions, TrackedAttempt};
use crate::runtime::worker::event::{LogChunk, Started};
use crate::segment::decode;

/// An attempt of an earlier agent whose end the server has not acknowledged.
#[derive(Clone, Debug, PartialEq)]
pub struct Recovered {
    /// The attempt.
    pub id: TaskRef,
    /// What it was accepted with.
    pub body: Arc<[u8]>,
    /// How it started; none when it did not.
    pub started: Option<Started>,
    /// Whether its end is in the outbox log.
    pub ended: bool,
    /// Its last chunk of output that is known of; 0 when there is none.
    pub last_seq: u64,
}

/// What the journals hold.
#[derive(Default)]
struct ReplayedJournals {
    control: BTreeMap<EntryNo, (Entry, Spot)>,
    chunks: BTreeMap<EntryNo, (TaskRef, LogChunk, Spot)>,
    gaps: BTreeMap<EntryNo, LogGap>,
    released: BTreeSet<EntryNo>,
    last: u64,
    last_seq: BTreeMap<TaskRef, u64>,
}

impl ReplayedJournals {
    fn take(&mut self, spot: Spot, payload: &[u8]) {
        match decode(payload) {
            Some(Entry::Released(all)) => {
                self.last = self.last.max(all.iter().map(|no| no.0).max().unwrap_or(0));
                self.released.extend(all);
            }
            Some(Entry::Gap(no, _, gap)) => {
                self.gaps.insert(no, gap);
            }
            Some(Entry::Log(no, id, chunk)) => {
                self.last = self.last.max(no.0);
                let last = self.last_seq.entry(id).or_default();
                *last = chunk.seq.max(*last);
                self.chunks.insert(no, (id, chunk, spot));
            }
            Some(entry) => {
                let no = number(&entry);
                self.last = self.last.max(no.0);
                self.control.insert(no, (entry, spot));
            }
            None => tracing::warn!(?spot, "an entry of the outbox is complete but has unknown contents"),
        }
    }
}

fn number(entry: &Entry) -> EntryNo {
    match entry {
        Entry::Accepted(no, ..) | Entry::Rejected(no, ..) | Entry::Revoked(no, _) | Entry::Started(no, ..) => *no,
        Entry::Ended(no, ..) | Entry::Log(no, ..) | Entry::Gap(no, ..) => *no,
        Entry::Released(_) => EntryNo(0),
    }
}

/// Opens an outbox log.
pub(super) fn open(options: OutboxOptions) -> io::Result<(OutboxLog, Vec<Recovered>)> {
    DirBuilder::new().recursive(true).mode(0o700).create(&options.dir)?;
    let mut found = ReplayedJournals::default();
    let control = Journal::open(&options.dir, 'c', options.segment, |spot, payload| found.take(spot, payload))?;
    let logs = Journal::open(&options.dir, 'l', options.segment, |spot, payload| found.take(spot, payload))?;
    let mut outbox = OutboxLog {
        control,
        next: found.last,
        known: BTreeMap::new(),
        pending: BTreeMap::new(),
        handed: EntryNo(0),
        results: 0,
        released: Vec::new(),
        out: OutputLog::new(logs, options.logs),
        reserve: Reserve::new(&options.dir, options.reserve),
        options,
    };
    let ReplayedJournals { control, chunks, gaps, released, last_seq, .. } = found;
    for (no, (entry, spot)) in control.into_iter().filter(|(no, _)| !released.contains(no)) {
        outbox.restore(no, entry, spot);
    }
    for (no, (id, chunk, spot)) in chunks.into_iter().filter(|(no, _)| !released.contains(no)) {
        let gap = gaps.get(&no).copied().unwrap_or_default();
        outbox.out.found(no, id, spot, &chunk, gap);
    }
    let recovered = outbox.recovered(&last_seq);
    // Output of attempts that are over is all there will be.
    for known in recovered.iter().filter(|known| known.ended) {
        let _ = outbox.out.end(&known.id);
    }
    outbox.control.clear()?;
    outbox.out.flush(false);
    Ok((outbox, recovered))
}

impl OutboxLog {
    fn restore(&mut self, no: EntryNo, entry: Entry, spot: Spot) {
        self.control.need(spot);
        match entry {
            Entry::Accepted(_, id, body) => {
                let known = self.known.entry(id).or_default();
                (known.body, known.accepted) = (body.into(), Some((no, spot)));
            }
            Entry::Started(_, id, started) => self.known.entry(id).or_default().started = Some((no, spot, started)),
            Entry::Rejected(_, id, reason) => self.pend(no, id, Item::Rejected(reason), spot),
            Entry::Revoked(_, id) => self.pend(no, id, Item::Revoked, spot),
            Entry::Ended(_, id, end) => self.pend(no, id, Item::Ended(Arc::from(end)), spot),
            Entry::Log(..) | Entry::Gap(..) | Entry::Released(_) => self.control.release(spot),
        }
    }

    fn recovered(&self, last_seq: &BTreeMap<TaskRef, u64>) -> Vec<Recovered> {
        let over: BTreeSet<TaskRef> = self.pending.values().map(|pending| pending.id).collect();
        let one = |(id, known): (&TaskRef, &TrackedAttempt)| Recovered {
            id: *id,
            body: Arc::clone(&known.body),
            started: known.started.as_ref().map(|(_, _, started)| started.clone()),
            ended: over.contains(id),
            last_seq: last_seq.get(id).copied().unwrap_or(0),
        };
        self.known.iter().map(one).collect()
    }
}
