//! What changed since reservations were last looked at, so that a round looks at that alone: workers with more to give, queues
//! with another first job, tenants with other room; and when the attempts on each worker end at the latest by their declared
//! limits, so that a forecast need not read every attempt. Owns the notes and these times in order; who acts on them is said in
//! `reserve`, `backfill` and `grant`. They follow from what happens and are not stored: after a restart everything counts as
//! changed.

use std::collections::BTreeSet;

use super::Scheduler;
use super::forecast::Wanted;
use super::heads::Old;
use super::record::Attempt;
use super::reserve::{Reservation, Seen};

/// Numbers, each once, in the order in which they came.
#[derive(Clone, Debug, Default)]
pub(super) struct Marks {
    list: Vec<u32>,
    is_in: Vec<bool>,
}

impl Marks {
    pub(super) fn insert(&mut self, number: u32) {
        let at = number as usize;
        if self.is_in.len() <= at {
            self.is_in.resize(at + 1, false);
        }
        if let Some(is_in) = self.is_in.get_mut(at).filter(|is_in| !**is_in) {
            *is_in = true;
            self.list.push(number);
        }
    }

    pub(super) fn has(&self, number: u32) -> bool {
        self.is_in.get(number as usize).is_some_and(|is_in| *is_in)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = u32> {
        self.list.iter().copied()
    }

    /// Takes one of them out.
    pub(super) fn pop(&mut self) -> Option<u32> {
        let number = self.list.pop()?;
        if let Some(is_in) = self.is_in.get_mut(number as usize) {
            *is_in = false;
        }
        Some(number)
    }

    pub(super) fn clear(&mut self) {
        while self.pop().is_some() {}
    }
}

/// The notes that concern more than one reservation.
#[derive(Clone, Debug, Default)]
pub(super) struct Changes {
    /// Workers with more to give than when backfill last looked at all that may enter.
    pub(super) grown: Marks,
    /// Workers that may be free earlier than when reservations were last to move.
    pub(super) freed: Marks,
    /// Classes that no worker could hold, as the fleet is.
    pub(super) hopeless: BTreeSet<u32>,
    /// When what runs ends by its limits.
    pub(super) end_times: EndTimes,
}

impl Scheduler {
    /// The first job of a queue may be another, or it waits for other reasons.
    pub(super) fn note_queue(&mut self, queue: u32) {
        self.heads.changed.insert(queue);
        for kept in self.reservations.iter_mut().filter(|kept| kept.queue == queue) {
            kept.seen.settled = false;
        }
    }

    /// The same of the queue of a job.
    pub(super) fn note_queue_of(&mut self, job: u32) {
        let spec = self.jobs.get(job).and_then(|job| self.specs.get(job.spec as usize));
        if let Some(queue) = spec.map(|spec| spec.queue) {
            self.note_queue(queue);
        }
    }

    /// A worker may have more to give than before, or have it earlier.
    pub(super) fn note_worker(&mut self, number: u32) {
        if self.reservations.is_empty() {
            return;
        }
        self.changes.grown.insert(number);
        self.changes.freed.insert(number);
        if self.workers.get(number).is_some_and(|worker| worker.reserved) {
            let keeper = |kept: &Reservation| kept.seats.iter().position(|seat| seat.worker == number);
            for kept in &mut self.reservations {
                if let Some(at) = keeper(kept) {
                    kept.seen.settled = false;
                    if !kept.seen.touched.contains(&at) {
                        kept.seen.touched.push(at);
                    }
                }
            }
        }
    }

    /// A tenant uses more or less than before, or may use more or less.
    pub(super) fn note_tenant(&mut self, number: u32) {
        if self.reservations.is_empty() || self.tenants.get(number as usize).is_some_and(|tenant| !tenant.is_limited())
        {
            return;
        }
        let queues = &self.queues;
        let owns = |queue: u32| queues.get(queue as usize).is_none_or(|queue| queue.tenant == number);
        for kept in self.reservations.iter_mut().filter(|kept| owns(kept.queue)) {
            kept.seen.settled = false;
        }
    }

    /// A worker's capacity may have stopped being overdrawn, unless it was `whole` before.
    pub(super) fn note_whole(&mut self, whole: bool) {
        if !whole {
            self.changes.hopeless.clear();
        }
    }

    /// Nothing is known of what changed: everything is to be looked at.
    pub(super) fn forget_seen(&mut self) {
        self.changes = Changes::default();
        for at in 0..self.reservations.len() {
            let job = self.reservations.get(at).map_or(crate::table::NONE, |kept| kept.job);
            let spec = self.jobs.get(job).and_then(|job| self.specs.get(job.spec as usize));
            let queue = spec.map_or(crate::table::NONE, |spec| spec.queue);
            if let Some(kept) = self.reservations.get_mut(at) {
                (kept.queue, kept.seen) = (queue, Seen::default());
            }
        }
        self.forget_heads();
    }

    /// Other workers take work, or workers or tenants take other work than before: nothing that was seen holds any more.
    pub(super) fn note_fleet(&mut self) {
        self.changes.hopeless.clear();
        self.reservations.iter_mut().for_each(|kept| kept.seen = Seen::default());
        self.heads.forget_front();
    }
}

impl Scheduler {
    /// Whether whatever counts as seen would be found again by a look at everything; for `sanity_check`.
    pub(super) fn check_seen(&self) -> Result<(), &'static str> {
        let must = |holds: bool, fault| if holds { Ok(()) } else { Err(fault) };
        must(self.end_times_hold(), "the ends of a worker are not those of its attempts")?;
        must(self.heads_hold(), "a queue stands where its first job does not belong")?;
        for kept in &self.reservations {
            must(self.is_settled(kept), "a reservation that could start or makes no sense counts as settled")?;
            must(self.is_tried(kept), "a head that may enter a reserved worker counts as tried")?;
            must(self.is_earliest(kept), "a worker that is free earlier counts as seen")?;
        }
        Ok(())
    }

    fn is_settled(&self, kept: &Reservation) -> bool {
        let first = self.first_entry(kept.queue).map(|entry| entry.job);
        let starts = || first == Some(kept.job) && kept.seats.iter().all(|seat| self.is_free(seat));
        let passed = || first.is_some_and(|first| self.reservations.iter().all(|other| other.job != first));
        !kept.seen.settled
            || self.sensible(kept) == Some(kept.queue)
                && self.is_allowed(kept)
                && (self.held_task(kept.job).is_some() || !starts() && !passed())
    }

    fn is_tried(&self, kept: &Reservation) -> bool {
        let seats = kept.seats.iter().enumerate().filter(|(at, _)| kept.seen.tried && !kept.seen.touched.contains(at));
        let mut pairs = seats.flat_map(|(_, seat)| self.tried_heads().map(move |old| (seat, old)));
        let runs = |old: &Old| self.tenants.get(old.head.turn.tenant as usize).is_some_and(crate::tenant::Tenant::runs);
        pairs.all(|(seat, old)| old.gang || !runs(old) || self.may_pass(kept, seat, &old.head).is_none())
    }

    fn is_earliest(&self, kept: &Reservation) -> bool {
        let Some(record) = self.queues.get(kept.queue as usize).filter(|_| kept.seen.earliest) else { return true };
        let Some(class) = self.classes.get(record.class) else { return true };
        let (mut allowed, gang) = (Vec::new(), class.shape.gang.as_ref().map_or(1, |gang| gang.size));
        let key = self.jobs.get(kept.job).map(|job| self.key_of_job(job)).unwrap_or_default();
        self.room(record.tenant, key, &class.requests, gang, &mut allowed);
        let task = self.held_task(kept.job).unwrap_or_else(|| self.peek(kept.job));
        let wanted = Wanted { class, allowed: &allowed, shunned: self.shunned(task) };
        let before = kept.shadow.unwrap_or(u64::MAX);
        let others = self.workers.iter().map(|(number, _)| number).filter(|number| !self.changes.freed.has(*number));
        kept.is_held() || others.into_iter().all(|worker| !self.opens_before(worker, &wanted, before))
    }
}

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
    fn end_times_hold(&self) -> bool {
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
