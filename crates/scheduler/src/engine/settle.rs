//! A task moves from one state to the next: counters, queues, timers, final outcomes and what is remembered of them. Owns
//! everything that follows from a new state; the tables say which state that is.

use std::collections::BTreeMap;

use orlop_core::id::JobId;
use orlop_core::machine::attempt::AttemptState;
use orlop_core::machine::job::JobState;

use super::Scheduler;
use super::record::{Job, Life, Task, waits};
use super::timer::Timer;
use crate::effect::{CancelReason, Effect, JobPart, Reason};
use crate::table::NONE;

impl Scheduler {
    /// Moves a task on: `life` is what it was with its new numbers, `to` the new state. Leaves the old state's queue,
    /// enters that of the new one.
    pub(super) fn follow(
        &mut self,
        task: Task,
        mut life: Life,
        to: JobState,
        reason: Reason,
        effects: &mut Vec<Effect>,
    ) {
        let from = life.state;
        self.leave(task, from);
        life.state = to;
        if to != JobState::Backoff {
            life.due = 0;
        }
        self.set_life(task, life);
        self.count(task, from, to);
        self.tell(task, (from, to), reason, effects);
        match to {
            JobState::Queued => {
                if let Some(array) = self.array_mut(task.job) {
                    array.ready.insert(task.index, task.index, ());
                }
                self.line_up(task.job);
            }
            JobState::Backoff => self.timers.set(life.due, Timer::Backoff(task, self.jobs.generation(task.job))),
            _ if to.is_terminal() => self.end_task(task, life, reason, effects),
            _ => {}
        }
        let waits = matches!(to, JobState::Queued | JobState::Backoff);
        if waits && !life.started && self.overdue.contains(&task.job) {
            self.timers.set(self.now, Timer::Expire(task.job, self.jobs.generation(task.job)));
        }
        match (from.holds_capacity(), to.holds_capacity()) {
            (true, false) => self.line_up(task.job),
            (false, true) => self.step_aside(task.job),
            _ => {}
        }
    }

    /// An array whose window is full waits outside its queue.
    fn step_aside(&mut self, slot: u32) {
        let full = self.array_mut(slot).is_some_and(|array| array.running >= array.max_parallel);
        if full {
            self.leave_quota_reservations(slot);
            self.dequeue(slot);
        }
    }

    /// Says that a task changed.
    pub(super) fn tell(
        &mut self,
        task: Task,
        (from, to): (JobState, JobState),
        reason: Reason,
        effects: &mut Vec<Effect>,
    ) {
        let revision = self.next_revision();
        let (part, Some(job)) = (self.part_of(task), self.jobs.get(task.job)) else { return };
        effects.push(Effect::JobChanged { job: job.id, part, from, to, reason, revision });
    }

    /// Takes a task out of where its old state keeps it.
    fn leave(&mut self, task: Task, from: JobState) {
        if from != JobState::Queued {
            return;
        }
        self.release_held(task);
        self.unqueue(task);
    }

    /// Takes a task out of its job's queue; the job with its last one.
    pub(super) fn unqueue(&mut self, task: Task) {
        match self.array_mut(task.job) {
            Some(array) => {
                array.ready.remove(task.index, task.index);
                if array.ready.len() == 0 {
                    self.dequeue(task.job);
                }
                self.note_queue_of(task.job);
            }
            None => self.dequeue(task.job),
        }
    }

    /// Keeps the tenant's and the array's numbers.
    pub(super) fn count(&mut self, task: Task, from: JobState, to: JobState) {
        if let Some(array) = self.array_mut(task.job) {
            match (from.holds_capacity(), to.holds_capacity()) {
                (false, true) => array.running += 1,
                (true, false) => array.running = array.running.saturating_sub(1),
                _ => {}
            }
        }
        let tenant = self.tenant_of(task.job);
        if let Some(tenant) = self.tenant_mut(tenant) {
            match (waits(from), waits(to)) {
                (false, true) => tenant.pending += 1,
                (true, false) => tenant.pending = tenant.pending.saturating_sub(1),
                _ => {}
            }
            if to.is_terminal() {
                tenant.active = tenant.active.saturating_sub(1);
            }
        }
    }

    /// A task is final: publish it, and its job if that was the last.
    fn end_task(&mut self, task: Task, life: Life, reason: Reason, effects: &mut Vec<Effect>) {
        let (part, tenant) = (self.part_of(task), self.tenant_of(task.job));
        let Some(job) = self.jobs.get(task.job) else { return };
        let (id, array) = (job.id, job.array);
        self.less_demand(task.job, tenant, 1);
        effects.push(Effect::Finished { job: id, part, outcome: life.state, reason });
        if array == NONE {
            self.unreserve(task.job, effects);
            self.remember(task.job);
            return;
        }
        let failed = life.state != JobState::Completed;
        let Some(array) = self.arrays.get_mut(array) else { return };
        array.failures += u64::from(failed && life.state != JobState::Cancelled);
        let too_many = array.failures > array.max_failures;
        if array.done.len() == u64::from(array.elements) {
            self.finish_array(task.job, effects);
        } else if too_many && failed {
            self.cancel_rest(task.job, effects);
        }
    }

    /// Gives back what final units asked for.
    pub(super) fn less_demand(&mut self, job: u32, tenant: u32, units: u64) {
        let Some(number) = self.jobs.get(job).map(|job| job.spec) else { return };
        let (Some(spec), Some(tenant)) = (self.specs.get(number as usize), self.tenants.get_mut(tenant as usize))
        else {
            return;
        };
        tenant.demand_less(spec.one, units);
    }

    /// The last element of an array is final.
    pub(super) fn finish_array(&mut self, slot: u32, effects: &mut Vec<Effect>) {
        self.dequeue(slot);
        let Some(job) = self.jobs.get(slot) else { return };
        let Some(array) = self.array_of(job) else { return };
        let outcome = JobState::of_array(array.done.iter().map(|(_, _, done)| done.state));
        let id = job.id;
        if let Some(job) = self.jobs.get_mut(slot) {
            job.life.state = outcome;
        }
        effects.push(Effect::Finished { job: id, part: JobPart::Whole, outcome, reason: Reason::Plain });
        self.unreserve(slot, effects);
        self.remember(slot);
    }

    /// Cancels what is left of an array with more failures than it may have.
    pub(super) fn heed_failures(&mut self, slot: u32, effects: &mut Vec<Effect>) {
        let past = |array: &mut super::record::Array| {
            array.failures > array.max_failures && array.done.len() != u64::from(array.elements)
        };
        if self.array_mut(slot).is_some_and(past) {
            self.cancel_rest(slot, effects);
        }
    }

    /// Past `max_failures`: what is left is cancelled.
    fn cancel_rest(&mut self, slot: u32, effects: &mut Vec<Effect>) {
        self.cancel_elements(slot, 0, u32::MAX, (Reason::MaxFailures, CancelReason::User), effects);
    }

    /// An attempt was given up: its job is not forgotten before that has ended, since it holds capacity.
    pub(super) fn note_given_up(&mut self, job: u32) {
        *self.given_up.entry(job).or_default() += 1;
    }

    /// An attempt that was given up has ended, or runs on after all.
    pub(super) fn note_settled(&mut self, job: u32) {
        let Some(left) = self.given_up.get_mut(&job) else { return };
        *left -= 1;
        if *left == 0 {
            self.given_up.remove(&job);
            if self.jobs.get(job).is_some_and(|job| job.life.state.is_terminal()) {
                self.remember(job);
            }
        }
    }

    /// Counts again which jobs must not be forgotten.
    pub(super) fn count_given_up(&mut self) {
        let mut given_up: BTreeMap<u32, u32> = BTreeMap::new();
        let lost = self.attempts.iter().filter(|(_, attempt)| attempt.state == AttemptState::Lost);
        lost.for_each(|(_, attempt)| *given_up.entry(attempt.task.job).or_default() += 1);
        self.finished.retain(|(slot, _)| !given_up.contains_key(slot));
        self.given_up = given_up;
    }

    /// Keeps a final job for messages that come late, and forgets the oldest ones.
    fn remember(&mut self, slot: u32) {
        if self.given_up.contains_key(&slot) {
            return;
        }
        let Some(job) = self.jobs.get(slot) else { return };
        self.finished.push_back((slot, job.id));
        while self.finished.len() > self.config.finished_kept as usize {
            let Some((oldest, id)) = self.finished.pop_front() else { break };
            self.forget(oldest, id);
        }
    }

    fn forget(&mut self, slot: u32, id: JobId) {
        self.ids.remove(id.as_u64());
        let Some(Job { array, .. }) = self.jobs.remove(slot) else { return };
        self.arrays.remove(array);
        self.gangs.remove(&slot);
        self.overdue.remove(&slot);
        let all = Task { job: slot, index: 0 }..=Task { job: slot, index: u32::MAX };
        let parted: Vec<Task> = self.parted.range(all.clone()).map(|(task, _)| *task).collect();
        parted.iter().for_each(|task| drop(self.parted.remove(task)));
        if self.past.is_empty() {
            return;
        }
        let units: Vec<Task> = self.past.range(all).map(|(task, _)| *task).collect();
        units.iter().for_each(|task| drop(self.past.remove(task)));
        let members: Vec<_> = self.past_members.range((slot, 0)..=(slot, u32::MAX)).map(|(key, _)| *key).collect();
        members.iter().for_each(|key| drop(self.past_members.remove(key)));
    }
}
