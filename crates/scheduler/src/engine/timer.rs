//! Timers: what is due when, and what happens then. Owns the heap; a timer whose cause is gone does nothing.

use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use orlop_core::machine::attempt::AttemptState;
use orlop_core::machine::job::{self, JobState};

use super::record::Task;
use super::{Scheduler, machine};
use crate::effect::{Effect, Reason};

/// What is due. Slots carry the generation they were set for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) enum Timer {
    /// A job may start from now on.
    StartWindow(u32, u32),
    /// A job that has not started expires.
    Expire(u32, u32),
    /// A delay between attempts is over.
    Backoff(Task, u32),
    /// Heads that wait may want reservations.
    Reserve,
    /// Something about a worker's silence, probation or drain.
    Worker(u32, u32),
    /// More attempts may be ended for others.
    Preempt,
    /// A tenant may have to reserve for a job that its limits have stopped for long.
    QuotaReservation(u32),
}

/// All timers.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Timers {
    heap: BinaryHeap<Reverse<(u64, Timer)>>,
    /// Attempts that were not accepted yet, in order of their assignment: time, slot, generation.
    unaccepted: VecDeque<(u64, u32, u32)>,
}

impl Timers {
    pub(super) fn set(&mut self, at: u64, timer: Timer) {
        self.heap.push(Reverse((at, timer)));
    }

    fn due(&mut self, now: u64) -> Option<(u64, Timer)> {
        let Reverse((at, timer)) = *self.heap.peek()?;
        (at <= now).then(|| {
            self.heap.pop();
            (at, timer)
        })
    }
}

impl Scheduler {
    /// When to call again if nothing happens before, in monotonic milliseconds. May be earlier than anything is due; then
    /// the call does nothing but work out the next time. Cost: constant.
    #[must_use]
    pub fn next_deadline(&self) -> Option<u64> {
        let heap = self.timers.heap.peek().map(|Reverse((at, _))| *at);
        let accept = self.timers.unaccepted.front();
        let accept = accept.map(|(at, ..)| at.saturating_add(self.config.accept_timeout));
        heap.into_iter().chain(accept).min()
    }

    /// An attempt is to be accepted in time. Without a time limit nothing is noted of it, since it may never be.
    pub(super) fn await_acceptance(&mut self, slot: u32) {
        if self.config.accept_timeout < u64::MAX {
            self.timers.unaccepted.push_back((self.now, slot, self.attempts.generation(slot)));
        }
    }

    /// Does everything that is due.
    pub(super) fn fire(&mut self, effects: &mut Vec<Effect>) {
        while let Some((at, timer)) = self.timers.due(self.now) {
            match timer {
                Timer::StartWindow(slot, generation) if self.jobs.generation(slot) == generation => {
                    self.open_gate(slot, effects);
                }
                Timer::Expire(slot, generation) if self.jobs.generation(slot) == generation => {
                    self.expire(slot, effects);
                }
                Timer::Backoff(task, generation) if self.jobs.generation(task.job) == generation => {
                    self.backoff_over(task, at, effects);
                }
                Timer::Worker(worker, generation) if self.workers.generation(worker) == generation => {
                    self.worker_due(worker, at, effects);
                }
                Timer::Reserve => {
                    self.reserve_timer = false;
                    self.reserve_due = true;
                }
                Timer::Preempt => self.preempt_timer = false,
                Timer::QuotaReservation(tenant) => self.quota_reservation_timed(tenant),
                _ => {}
            }
        }
        self.revoke_unaccepted(effects);
    }

    fn backoff_over(&mut self, task: Task, at: u64, effects: &mut Vec<Effect>) {
        let Some(life) = self.life(task).filter(|life| life.state == JobState::Backoff && life.due == at) else {
            return;
        };
        if let Some(to) = machine::job(life.state, job::Event::RetryDue, |_| true) {
            self.follow(task, life, to, Reason::Plain, effects);
        }
    }

    /// Takes back what no worker accepted in time.
    fn revoke_unaccepted(&mut self, effects: &mut Vec<Effect>) {
        while let Some((at, slot, generation)) = self.timers.unaccepted.front().copied() {
            let waiting = self.attempts.generation(slot) == generation
                && self
                    .attempts
                    .get(slot)
                    .is_some_and(|attempt| attempt.state == AttemptState::Assigned && !attempt.revoking);
            if waiting && at.saturating_add(self.config.accept_timeout) > self.now {
                return;
            }
            self.timers.unaccepted.pop_front();
            if waiting && let Some(attempt) = self.attempts.get_mut(slot) {
                attempt.revoking = true;
                let attempt = *attempt;
                let (reference, worker) = (self.reference(&attempt), self.key_of(attempt.worker));
                effects.push(Effect::Revoke { attempt: reference, worker });
            }
        }
    }
}
