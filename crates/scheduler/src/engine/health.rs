//! Health: heartbeats, silence, bad reports, failed starts, probation. Owns when a worker is trusted; one
//! timer a worker is enough, since a heartbeat only moves what is due.

use orlop_core::machine::attempt;
use orlop_core::machine::worker::{self, WorkerState};

use super::message::Judged;
use super::record::{Life, Task, TaskName};
use super::timer::Timer;
use super::{Scheduler, machine};
use crate::effect::{Effect, WorkerReason};
use crate::error::EventError;
use crate::event::Outcome;
use crate::table::NONE;
use crate::token::WorkerKey;

/// Losses count for this long, in milliseconds.
const LOSS_WINDOW: u64 = 600_000;
/// Failed starts count for this long, in milliseconds.
const START_WINDOW: u64 = 60_000;

impl Scheduler {
    /// A message came from a worker, whatever it says.
    pub(super) fn hear(&mut self, key: WorkerKey) -> Result<u32, EventError> {
        let number = self.worker_at(key)?;
        self.worker_mut(number)?.seen = self.now;
        Ok(number)
    }

    pub(super) fn heartbeat(&mut self, key: WorkerKey, effects: &mut Vec<Effect>) -> Result<(), EventError> {
        let number = self.hear(key)?;
        let worker = self.worker(number)?;
        if worker.state == WorkerState::Unhealthy {
            return self.try_recover(number, effects);
        }
        Ok(())
    }

    pub(super) fn health_report(
        &mut self,
        key: WorkerKey,
        good: bool,
        effects: &mut Vec<Effect>,
    ) -> Result<(), EventError> {
        let number = self.hear(key)?;
        let worker = self.worker_mut(number)?;
        worker.bad = !good;
        if good {
            return self.try_recover(number, effects);
        }
        self.distrust(number, worker::Event::ReportBad, WorkerReason::ReportBad, effects);
        Ok(())
    }

    /// Unhealthy by its own report or its results: running attempts go on, probation begins.
    fn distrust(&mut self, number: u32, event: worker::Event, reason: WorkerReason, effects: &mut Vec<Effect>) {
        let (now, least, most) = (self.now, self.config.probation_min, self.config.probation_max);
        let Some(worker) = self.workers.get_mut(number) else { return };
        let held = |guard| guard == worker::Guard::Connected && worker.connected;
        let Some(to) = machine::worker(worker.state, event, held) else { return };
        if to != worker.state {
            let wait = worker.next_probation.max(least).min(most);
            worker.probation = now.saturating_add(wait);
            worker.next_probation = wait.saturating_mul(2).min(most);
            self.move_worker(number, to, reason, effects);
        }
    }

    /// Back to work, if the worker is connected, its report is good and its probation over.
    pub(super) fn try_recover(&mut self, number: u32, effects: &mut Vec<Effect>) -> Result<(), EventError> {
        let worker = self.worker(number)?;
        let ready =
            worker.state == WorkerState::Unhealthy && worker.connected && !worker.bad && worker.probation <= self.now;
        if ready { self.recover(number, worker::Event::Recovered, effects) } else { Ok(()) }
    }

    pub(super) fn connection_lost(&mut self, key: WorkerKey, effects: &mut Vec<Effect>) -> Result<(), EventError> {
        let number = self.worker_at(key)?;
        self.worker_step(number, worker::Event::ConnectionLost, &[])?;
        self.lost_sight(number, worker::Event::ConnectionLost, WorkerReason::ConnectionLost, effects);
        Ok(())
    }

    /// Out of reach: attempts are suspect; too many losses end the incarnation.
    fn lost_sight(&mut self, number: u32, event: worker::Event, reason: WorkerReason, effects: &mut Vec<Effect>) {
        let (now, most) = (self.now, self.config.max_failures as usize);
        let Some(worker) = self.workers.get_mut(number) else { return };
        let Some(to) = machine::worker(worker.state, event, |_| false) else { return };
        worker.connected = false;
        worker.losses.retain(|at| at.saturating_add(LOSS_WINDOW) > now);
        worker.losses.push(now);
        let too_many = worker.losses.len() >= most.max(1);
        self.move_worker(number, to, reason, effects);
        for slot in self.attempts_on(number) {
            if let Some(attempt) = self.attempts.get_mut(slot)
                && let Some(state) = machine::attempt(attempt.state, attempt::Event::ConnectionLost, |_| false)
            {
                attempt.state = state;
            }
        }
        if too_many && let Ok(to) = self.worker_step(number, worker::Event::TooManyLosses, &[]) {
            self.move_worker(number, to, WorkerReason::Losses, effects);
        }
        self.arm(number);
    }

    /// What the end of a member's, an element's or a job's attempt says of its worker.
    pub(super) fn note_outcome(
        &mut self,
        number: u32,
        member: u32,
        judged: &Judged,
        outcome: Outcome,
        effects: &mut Vec<Effect>,
    ) {
        match outcome {
            Outcome::Succeeded => {
                let Some(worker) = self.workers.get_mut(number) else { return };
                worker.start_failures.clear();
                worker.next_probation = 0;
            }
            // What no other worker would change is not this worker's fault.
            Outcome::StartFailed { permanent: false } => self.count_start_failure(number, judged.task, member, effects),
            _ => {}
        }
    }

    /// Counts a failed start against a worker. Ten of different tasks in a minute without a success: the worker is to blame.
    fn count_start_failure(&mut self, number: u32, unit: Task, member: u32, effects: &mut Vec<Effect>) {
        let (now, most) = (self.now, self.config.start_failures as usize);
        let Some(job) = self.jobs.get(unit.job).map(|job| job.id) else { return };
        let Some(worker) = self.workers.get_mut(number) else { return };
        let task = TaskName { job, index: unit.index, member };
        worker.start_failures.retain(|(at, known)| at.saturating_add(START_WINDOW) > now && *known != task);
        worker.start_failures.push((now, task));
        if worker.start_failures.len() >= most.max(1) {
            worker.start_failures.clear();
            self.distrust(number, worker::Event::StartFailures, WorkerReason::StartFailures, effects);
        }
    }

    /// A task runs on a worker. If another one could not start its command before, that one is to blame after all.
    pub(super) fn blame_first(&mut self, unit: Task, life: &mut Life, on: u32, effects: &mut Vec<Effect>) {
        if !std::mem::take(&mut life.second_try) {
            return;
        }
        let first = self.avoided(life);
        if first != NONE && first != on {
            self.count_start_failure(first, unit, 0, effects);
        }
    }

    /// When something about a worker is due next.
    fn due(&self, number: u32) -> u64 {
        let (Some(worker), config) = (self.workers.get(number), &self.config) else { return u64::MAX };
        let drain = worker.drain.and_then(|order| order.deadline).filter(|at| *at > self.now).unwrap_or(u64::MAX);
        match worker.state {
            WorkerState::Creating => worker.since.saturating_add(config.create_timeout),
            WorkerState::Registering => worker.since.saturating_add(config.register_timeout),
            WorkerState::Available => worker.seen.saturating_add(config.heartbeat_timeout),
            WorkerState::Running | WorkerState::Draining => {
                worker.seen.saturating_add(config.heartbeat_timeout).min(drain)
            }
            WorkerState::Unhealthy => {
                let wait = if worker.reassigned { config.fail_after } else { config.reassign_after };
                let silence = worker.seen.saturating_add(wait);
                let waits = worker.connected && !worker.bad && worker.probation > self.now;
                if waits { silence.min(worker.probation) } else { silence }
            }
            // What must not overlap is given up only now.
            WorkerState::Failed | WorkerState::Terminated if worker.attempts > 0 => {
                worker.seen.saturating_add(config.reassign_after)
            }
            WorkerState::Failed | WorkerState::Terminated => u64::MAX,
        }
    }

    /// Sets a worker's timer, if what is due comes before it.
    pub(super) fn arm(&mut self, number: u32) {
        let (at, generation) = (self.due(number), self.workers.generation(number));
        let Some(worker) = self.workers.get_mut(number) else { return };
        if at < worker.timer {
            worker.timer = at;
            self.timers.set(at, Timer::Worker(number, generation));
        }
    }

    /// A worker's timer fired: does what is due, and sets the next one.
    pub(super) fn worker_due(&mut self, number: u32, at: u64, effects: &mut Vec<Effect>) {
        let Some(worker) = self.workers.get_mut(number).filter(|worker| worker.timer == at) else { return };
        worker.timer = u64::MAX;
        self.overdue(number, effects);
        self.arm(number);
    }

    fn overdue(&mut self, number: u32, effects: &mut Vec<Effect>) {
        let (now, config) = (self.now, &self.config);
        let Some(worker) = self.workers.get(number) else { return };
        let silent = |limit: u64| worker.seen.saturating_add(limit) <= now;
        let since = |limit: u64| worker.since.saturating_add(limit) <= now;
        let drain = worker.drain.and_then(|order| order.deadline).is_some_and(|deadline| deadline <= now);
        match worker.state {
            WorkerState::Creating if since(config.create_timeout) => {
                self.end_worker(number, worker::Event::CreateTimeout, WorkerReason::Timeout, effects);
            }
            WorkerState::Registering if since(config.register_timeout) => {
                self.end_worker(number, worker::Event::RegisterTimeout, WorkerReason::Timeout, effects);
            }
            WorkerState::Available | WorkerState::Running | WorkerState::Draining
                if silent(config.heartbeat_timeout) =>
            {
                self.lost_sight(number, worker::Event::HeartbeatTimeout, WorkerReason::Silent, effects);
            }
            WorkerState::Running | WorkerState::Draining if drain => self.drain_deadline(number, effects),
            WorkerState::Failed | WorkerState::Terminated if silent(config.reassign_after) => {
                self.attempts_on(number).into_iter().for_each(|slot| self.abandon(slot, effects));
            }
            WorkerState::Unhealthy if silent(config.fail_after) => {
                self.end_worker(number, worker::Event::FailDue, WorkerReason::Silent, effects);
            }
            WorkerState::Unhealthy if silent(config.reassign_after) && !worker.reassigned => {
                self.reassign(number, effects);
            }
            WorkerState::Unhealthy => {
                // Probation may be over; a worker that cannot be found here cannot recover either.
                self.try_recover(number, effects).unwrap_or_default();
            }
            _ => {}
        }
    }

    fn end_worker(&mut self, number: u32, event: worker::Event, reason: WorkerReason, effects: &mut Vec<Effect>) {
        if let Ok(to) = self.worker_step(number, event, &[]) {
            self.move_worker(number, to, reason, effects);
        }
    }

    /// Silent for too long: its attempts are lost, their capacity stays held.
    fn reassign(&mut self, number: u32, effects: &mut Vec<Effect>) {
        if let Some(worker) = self.workers.get_mut(number) {
            worker.reassigned = true;
        }
        for slot in self.attempts_on(number) {
            self.lose(slot, effects);
        }
    }
}
