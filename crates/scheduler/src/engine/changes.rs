//! What changed since reservations were last looked at, so that a round looks at that alone: workers with more to give, queues
//! with another first job, tenants with other room. Owns the notes; who acts on them is said in `reserve`, `backfill` and
//! `grant`. They follow from what happens and are not stored: after a restart everything counts as changed.

use std::collections::BTreeSet;

use super::Scheduler;
use super::end_times::EndTimes;
use super::forecast::Wanted;
use super::heads::Old;
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
