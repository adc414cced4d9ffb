//! Cancelling: what waits ends at once, what is out is told to end. Owns the order in which; ranges of elements that never
//! started cost as much as one.

use orlop_core::id::JobId;
use orlop_core::machine::job::{self, JobState};

use super::record::{Done, Life, Task};
use super::{Scheduler, machine};
use crate::effect::{CancelReason, Effect, JobPart, Reason};
use crate::error::EventError;
use crate::table::NONE;

impl Scheduler {
    pub(super) fn cancel(
        &mut self,
        id: JobId,
        elements: Option<(u32, u32)>,
        effects: &mut Vec<Effect>,
    ) -> Result<(), EventError> {
        let slot = self.job_slot(id)?;
        let Some(job) = self.jobs.get(slot) else { return Err(EventError::Fatal("a job is missing")) };
        if job.array != NONE {
            let (first, last) = elements.unwrap_or((0, u32::MAX));
            if job.life.state.is_terminal() {
                return Err(self.refused(id, job.life.state, job::Event::CancelRequested));
            }
            self.cancel_elements(slot, first, last, (Reason::Cancelled, CancelReason::User), effects);
            return Ok(());
        }
        let (task, life) = (Task::whole(slot), job.life);
        if machine::job(life.state, job::Event::CancelRequested, |_| true).is_none() {
            return Err(self.refused(id, life.state, job::Event::CancelRequested));
        }
        self.cancel_task(task, Reason::Cancelled, CancelReason::User, effects);
        Ok(())
    }

    /// The error of an event that a job's state does not take.
    pub(super) fn refused(&self, id: JobId, state: JobState, event: job::Event) -> EventError {
        match job::MACHINE.choose(state, event, |_| false) {
            Err(rejected) => EventError::Job { id, source: Box::new(rejected) },
            Ok(_) => EventError::Fatal("an event that the table takes was refused"),
        }
    }

    /// Cancels one task, if its state takes it.
    pub(super) fn cancel_task(&mut self, task: Task, reason: Reason, why: CancelReason, effects: &mut Vec<Effect>) {
        let Some(life) = self.life(task) else { return };
        let Some(to) = machine::job(life.state, job::Event::CancelRequested, |_| true) else { return };
        self.follow(task, life, to, reason, effects);
        if to == JobState::Cancelling {
            for slot in self.attempts_of(task, &life) {
                self.tell_to_end(slot, why, effects);
            }
        }
    }

    /// Revokes an attempt that has not started, or tells it to end.
    pub(super) fn tell_to_end(&mut self, slot: u32, why: CancelReason, effects: &mut Vec<Effect>) {
        let Some(attempt) = self.attempts.get(slot).copied() else { return };
        let (reference, worker) = (self.reference(&attempt), self.key_of(attempt.worker));
        let grace_ms = self.spec_of(attempt.task.job).map_or(0, |spec| spec.grace_ms);
        let Some(record) = self.attempts.get_mut(slot) else { return };
        // A revoke for want of acceptance is said again: from now on it has a reason that must be stored.
        let new = record.ending.is_none();
        record.ending = record.ending.or(Some(why));
        self.note_worker(attempt.worker);
        let Some(record) = self.attempts.get_mut(slot) else { return };
        if attempt.started {
            effects.push(Effect::Cancel { attempt: reference, worker, why, grace_ms });
        } else if new || !record.revoking {
            record.revoking = true;
            effects.push(Effect::Revoke { attempt: reference, worker });
        }
    }

    /// Cancels elements of an array.
    pub(super) fn cancel_elements(
        &mut self,
        slot: u32,
        first: u32,
        last: u32,
        why: (Reason, CancelReason),
        effects: &mut Vec<Effect>,
    ) {
        let own = self.end_untouched(slot, first, last, job::Event::CancelRequested, why.0, effects);
        for index in own {
            self.cancel_task(Task { job: slot, index }, why.0, why.1, effects);
        }
    }

    /// Ends elements that never left Queued (or Pending), by ranges; returns those within that did and are not final.
    fn end_untouched(
        &mut self,
        slot: u32,
        first: u32,
        last: u32,
        event: job::Event,
        reason: Reason,
        effects: &mut Vec<Effect>,
    ) -> Vec<u32> {
        let Some(job) = self.jobs.get(slot) else { return Vec::new() };
        let (id, base, tenant) = (job.id, job.life.state, self.tenant_of(slot));
        let Some(array) = self.array_mut(slot) else { return Vec::new() };
        let own: Vec<u32> = array.active.range(first..=last).map(|(index, _)| *index).collect();
        let Some(to) = machine::job(base, event, |_| true) else { return own };
        let mut untouched = array.ready.clone();
        own.iter().for_each(|index| drop(untouched.remove(*index, *index)));
        let ranges = untouched.remove(first, last);
        let done = Done { state: to, attempt: 0, epoch: 0, answered: false };
        let mut units = 0_u64;
        for (first, last, ()) in &ranges {
            array.ready.remove(*first, *last);
            array.done.insert(*first, *last, done);
            units += u64::from(last - first) + 1;
        }
        array.failures += if to == JobState::Failed { units } else { 0 };
        let (empty, over) = (array.ready.len() == 0, array.done.len() == u64::from(array.elements));
        for (first, last, ()) in ranges {
            let (part, revision) = (JobPart::Elements(first, last), self.next_revision());
            effects.push(Effect::JobChanged { job: id, part, from: base, to, reason, revision });
            effects.push(Effect::Finished { job: id, part, outcome: to, reason });
        }
        if empty {
            self.dequeue(slot);
        }
        self.note_queue_of(slot);
        self.less_demand(slot, tenant, units);
        if let Some(tenant) = self.tenant_mut(tenant) {
            tenant.pending = tenant.pending.saturating_sub(units);
            tenant.active = tenant.active.saturating_sub(units);
        }
        if over && units > 0 {
            self.finish_array(slot, effects);
        }
        own
    }

    /// Whether something of a job is assigned and has never started: if it comes back it has expired.
    fn is_unstarted(&self, slot: u32) -> bool {
        let Some(job) = self.jobs.get(slot) else { return false };
        let unstarted = |life: &Life| life.state == JobState::Assigned && !life.started;
        self.array_of(job).map_or(unstarted(&job.life), |array| array.active.values().any(unstarted))
    }

    /// Fails what never started in time.
    pub(super) fn expire(&mut self, slot: u32, effects: &mut Vec<Effect>) {
        let Some(job) = self.jobs.get(slot) else { return };
        let mut units = vec![Task::whole(slot)];
        if job.array != NONE {
            let own = self.end_untouched(slot, 0, u32::MAX, job::Event::Expired, Reason::Expired, effects);
            units = own.into_iter().map(|index| Task { job: slot, index }).collect();
        }
        for task in units {
            let Some(life) = self.life(task) else { continue };
            let never_started = |guard| guard == job::Guard::NeverStarted && !life.started;
            if let Some(to) = machine::job(life.state, job::Event::Expired, never_started) {
                self.follow(task, life, to, Reason::Expired, effects);
            }
        }
        // Elements that wait for another attempt do not expire.
        self.heed_failures(slot, effects);
        if self.is_unstarted(slot) {
            self.overdue.insert(slot);
        }
    }
}
