//! When the attempts on each worker end at the latest by their declared limits. Owns these times in order, so that a forecast
//! need not read every attempt; they follow from the attempts and are not stored.

use super::Scheduler;
use super::record::Attempt;

/// The ends on one worker, of attempts that hold capacity there and have a limit: times with the request vectors that these
/// give back, each list in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Ends {
    /// When those end that have started.
    started: Vec<(u64, u32)>,
    /// How long those may take that have not.
    pending: Vec<(u64, u32)>,
}

impl Ends {
    fn list(&mut self, started: bool) -> &mut Vec<(u64, u32)> {
        if started { &mut self.started } else { &mut self.pending }
    }

    /// When the first one ends; `u64::MAX` = nobody knows.
    pub(super) fn soonest(&self, now: u64) -> u64 {
        let started = self.started.first().map_or(u64::MAX, |(end, _)| *end);
        let pending = self.pending.first().map_or(u64::MAX, |(limit, _)| now.saturating_add(*limit));
        started.min(pending)
    }

    /// All ends that are known, in order.
    pub(super) fn in_order(&self, now: u64) -> impl Iterator<Item = (u64, u32)> {
        let mut started = self.started.iter().copied().peekable();
        let mut pending =
            self.pending.iter().map(move |(limit, ended)| (now.saturating_add(*limit), *ended)).peekable();
        std::iter::from_fn(move || match (started.peek(), pending.peek()) {
            (Some(first), Some(other)) if other < first => pending.next(),
            (Some(_), _) => started.next(),
            (None, _) => pending.next(),
        })
        .take_while(|(end, _)| *end != u64::MAX)
    }
}

/// The ends on all workers, by their numbers; kept up from the first forecast on.
#[derive(Clone, Debug, Default)]
pub(super) struct EndTimes {
    on: bool,
    workers: Vec<Ends>,
}

impl EndTimes {
    /// The ends on a worker.
    pub(super) fn of(&self, worker: u32) -> &Ends {
        const NONE_YET: &Ends = &Ends { started: Vec::new(), pending: Vec::new() };
        self.workers.get(worker as usize).unwrap_or(NONE_YET)
    }
}

impl Scheduler {
    /// Works out all ends, unless they are kept up already.
    pub(super) fn know_end_times(&mut self) {
        if !self.changes.end_times.on {
            self.changes.end_times = EndTimes { on: true, workers: self.count_end_times() };
        }
    }

    fn count_end_times(&self) -> Vec<Ends> {
        let mut workers: Vec<Ends> = Vec::new();
        for (_, attempt) in self.attempts.iter() {
            let Some(limit) = self.limit_of(attempt) else { continue };
            let number = attempt.worker as usize;
            if workers.len() <= number {
                workers.resize(number + 1, Ends::default());
            }
            if let Some(ends) = workers.get_mut(number) {
                ends.list(attempt.started).push((limit, attempt.request));
            }
        }
        for ends in &mut workers {
            ends.started.sort_unstable();
            ends.pending.sort_unstable();
        }
        workers
    }

    /// When an attempt that holds capacity ends by its limit, and if it has not started, how long it may take.
    fn limit_of(&self, attempt: &Attempt) -> Option<u64> {
        let spec = self.spec_of(attempt.task.job).filter(|spec| spec.timeout_ms > 0 && !attempt.waiting)?;
        let begin = if attempt.started { attempt.started_at } else { 0 };
        Some(begin.saturating_add(spec.timeout_ms).saturating_add(spec.grace_ms))
    }

    /// An attempt holds capacity, or has started.
    pub(super) fn add_end_time(&mut self, slot: u32) {
        if !self.changes.end_times.on {
            return;
        }
        let Some(attempt) = self.attempts.get(slot) else { return };
        let Some(limit) = self.limit_of(attempt) else { return };
        let (number, started, end) = (attempt.worker as usize, attempt.started, (limit, attempt.request));
        if self.changes.end_times.workers.len() <= number {
            self.changes.end_times.workers.resize(number + 1, Ends::default());
        }
        if let Some(ends) = self.changes.end_times.workers.get_mut(number) {
            let list = ends.list(started);
            list.insert(list.partition_point(|known| *known < end), end);
        }
    }

    /// An attempt is about to start, or has left.
    pub(super) fn drop_end_time(&mut self, attempt: &Attempt) {
        if !self.changes.end_times.on {
            return;
        }
        let Some(limit) = self.limit_of(attempt) else { return };
        if let Some(ends) = self.changes.end_times.workers.get_mut(attempt.worker as usize) {
            let list = ends.list(attempt.started);
            if let Ok(at) = list.binary_search(&(limit, attempt.request)) {
                list.remove(at);
            }
        }
    }

    /// Whether the ends are those of the attempts; for `sanity_check`.
    pub(super) fn end_times_hold(&self) -> bool {
        if !self.changes.end_times.on {
            return true;
        }
        let counted = self.count_end_times();
        let longest = counted.len().max(self.changes.end_times.workers.len());
        let same =
            |number: usize| counted.get(number).unwrap_or(&Ends::default()) == self.changes.end_times.of(number as u32);
        (0..longest).all(same)
    }
}
