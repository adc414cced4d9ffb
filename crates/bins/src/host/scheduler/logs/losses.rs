//! What workers dropped of the output of their attempts, as it is counted: chunks tell what is missing before them, ends tell
//! all of it, and both may come more than once and in any order. Reads no log.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use orlop_cloud::logs::LogSummary;
use orlop_core::error::Problem;
use orlop_core::task::TaskRef;

/// Attempts that are remembered: those that lost output, the latest ones.
const REMEMBERED: usize = 4096;

/// What is known of one attempt.
#[derive(Clone, Copy, Debug, Default)]
struct Loss {
    /// The last chunk that was heard; what comes up to it was heard before.
    seq: u64,
    /// Bytes that its chunks said are missing.
    gaps: u64,
    /// Bytes that its end said are missing, those of its chunks among them. What is dropped after the end only chunks say.
    end: u64,
}

impl Loss {
    /// Bytes that are counted by now.
    fn counted(self) -> u64 {
        self.gaps.max(self.end)
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(in super::super) struct Losses(Mutex<BTreeMap<TaskRef, Loss>>);

impl Losses {
    /// Makes sure that an attempt is known; what is kept of its log was counted by an earlier server.
    ///
    /// # Errors
    /// What is kept cannot be read.
    pub(super) fn learn(
        &self,
        attempt: TaskRef,
        kept: impl FnOnce() -> Result<LogSummary, Problem>,
    ) -> Result<(), Problem> {
        if !self.with(|known| known.contains_key(&attempt)) {
            let kept = kept()?;
            let loss = Loss { seq: kept.last_seq, gaps: kept.dropped, end: 0 };
            self.with(|known| *entry(known, attempt, loss));
        }
        Ok(())
    }

    /// A chunk says that so many bytes are missing before it: how many of them were not counted yet.
    pub(super) fn gap(&self, attempt: TaskRef, seq: u64, bytes: u64) -> u64 {
        self.count(attempt, |loss| {
            if seq > loss.seq {
                loss.seq = seq;
                loss.gaps = loss.gaps.saturating_add(bytes);
            }
        })
    }

    /// The end of an attempt says that so many bytes are missing in all: how many of them were not counted yet.
    pub(in super::super) fn end(&self, attempt: TaskRef, bytes: u64) -> u64 {
        self.count(attempt, |loss| loss.end = loss.end.max(bytes))
    }

    fn count(&self, attempt: TaskRef, change: impl FnOnce(&mut Loss)) -> u64 {
        self.with(|known| {
            let loss = entry(known, attempt, Loss::default());
            let before = loss.counted();
            change(loss);
            loss.counted() - before
        })
    }

    fn with<T>(&self, work: impl FnOnce(&mut BTreeMap<TaskRef, Loss>) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// What is known of an attempt; a new one may take the place of the oldest.
fn entry(known: &mut BTreeMap<TaskRef, Loss>, attempt: TaskRef, new: Loss) -> &mut Loss {
    if known.len() >= REMEMBERED && !known.contains_key(&attempt) {
        known.pop_first();
    }
    known.entry(attempt).or_insert(new)
}

#[cfg(test)]
mod tests {
    use orlop_core::id::{Epoch, JobId};

    use super::*;

    fn attempt(job: u64) -> TaskRef {
        TaskRef { job: JobId::from_u64(job), index: 0, member: 0, attempt: 1, epoch: Epoch(1) }
    }

    #[test]
    fn what_was_lost_at_the_end_is_counted_with_the_end_and_nothing_twice() {
        let losses = Losses::default();
        let id = attempt(1);
        assert_eq!(losses.gap(id, 3, 10), 10);
        assert_eq!(losses.gap(id, 3, 10), 0, "it was sent again");
        assert_eq!(losses.gap(id, 5, 7), 7);
        assert_eq!(losses.end(id, 30), 13, "of which 17 were told before");
        assert_eq!(losses.end(id, 30), 0, "it was sent again");
        assert_eq!((losses.gap(id, 6, 13), losses.gap(id, 7, 5)), (0, 5), "the end did not know of all of it");
        assert_eq!(losses.gap(attempt(2), 1, 4), 4, "another attempt");
    }

    #[test]
    fn what_an_earlier_server_counted_is_not_counted_again() {
        let losses = Losses::default();
        let kept = LogSummary { last_seq: 5, dropped: 17, ..LogSummary::default() };
        losses.learn(attempt(1), || Ok(kept)).unwrap();
        losses.learn(attempt(1), || unreachable!("it is known")).unwrap();
        assert_eq!((losses.gap(attempt(1), 5, 7), losses.gap(attempt(1), 6, 1)), (0, 1));
        assert_eq!(losses.end(attempt(1), 20), 2);
    }

    #[test]
    fn the_oldest_are_forgotten() {
        let losses = Losses::default();
        let all = REMEMBERED as u64 + 2;
        (0..all).for_each(|job| assert_eq!(losses.gap(attempt(job), 1, 1), 1));
        assert_eq!(losses.with(|known| known.len()), REMEMBERED);
        assert_eq!(losses.gap(attempt(all - 1), 1, 1), 0);
    }
}
