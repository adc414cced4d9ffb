//! Attempts end or are given up: capacity and quota go back, and their units move on. Owns what a worker's departure and
//! every kind of end do to the attempt; messages and timers decide that it ended.

use orlop_core::machine::attempt::{self, AttemptState};
use orlop_core::machine::job::{self, JobState};
use orlop_core::machine::worker;
use serde::{Deserialize, Serialize};

use super::record::{Attempt, Life, Task};
use super::{Scheduler, machine};
use crate::effect::{Effect, Reason, WorkerReason};
use crate::job::{Overlap, RetryOn};
use crate::table::NONE;
use crate::token::WorkerKey;

/// How long a task waits after its first infrastructure loss, and at most, in milliseconds.
const INFRA_BACKOFF: (u64, u64) = (1000, 60_000);

/// How an end looks to the task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Ending {
    pub(super) event: job::Event,
    pub(super) reason: Reason,
    /// The exit code of a failure.
    pub(super) exit_code: Option<i32>,
    /// Another worker would not help.
    pub(super) permanent: bool,
}

impl Ending {
    pub(super) const fn of(event: job::Event, reason: Reason) -> Self {
        Self { event, reason, exit_code: None, permanent: false }
    }
}

impl Scheduler {
    /// Forgets an attempt that has ended for sure: its worker's capacity and its tenant's quota go back.
    pub(super) fn close(&mut self, slot: u32, effects: &mut Vec<Effect>) {
        let Some(attempt) = self.attempts.remove(slot) else { return };
        self.preemptibles.remove(slot, &attempt);
        self.drop_end_time(&attempt);
        self.note_worker(attempt.worker);
        if let Some(before) = self.attempts.get_mut(attempt.before) {
            before.after = attempt.after;
        } else if let Some(worker) = self.workers.get_mut(attempt.worker) {
            worker.first = attempt.after;
        }
        if let Some(after) = self.attempts.get_mut(attempt.after) {
            after.before = attempt.before;
        }
        let passed = self.feeds.on && self.pass_slot(slot, &attempt, effects);
        if !passed {
            self.uncharge(&attempt);
        }
        let Some(worker) = self.workers.get_mut(attempt.worker) else { return };
        worker.attempts = worker.attempts.saturating_sub(1);
        if !passed
            && worker.place != NONE
            && let Some(request) = self.requests.get(attempt.request)
        {
            let whole = self.changes.hopeless.is_empty() || self.table.is_whole(worker.place);
            self.table.release(worker.place, &request.need);
            self.note_growth(attempt.worker);
            self.refresh_open(attempt.worker);
            self.note_whole(whole);
        }
        self.worker_lost_one(attempt.worker, effects);
        if attempt.state == AttemptState::Lost {
            self.note_settled(attempt.task.job);
            self.part_gang(&attempt);
        }
    }

    /// A worker has one attempt less.
    fn worker_lost_one(&mut self, number: u32, effects: &mut Vec<Effect>) {
        let Some(worker) = self.workers.get(number) else { return };
        let held = |guard| match guard {
            worker::Guard::OthersLeft => worker.attempts > 0,
            worker::Guard::DrainPending => worker.drain.is_some(),
            _ => false,
        };
        let Some(to) = machine::worker(worker.state, worker::Event::JobEnded, held) else { return };
        if to != worker.state {
            self.move_worker(number, to, WorkerReason::Plain, effects);
            self.empty_drain(number, effects);
        }
    }

    /// Gives the tenant's charge back.
    fn uncharge(&mut self, attempt: &Attempt) {
        if !attempt.charged {
            return;
        }
        let request = self.requests.get(attempt.request);
        let tenant = self.tenants.get_mut(attempt.tenant as usize);
        if let (Some(request), Some(tenant)) = (request, tenant) {
            tenant.release(request);
            self.weigh_tenant(attempt.tenant);
            self.note_relief(attempt.tenant);
        }
    }

    /// The task of an attempt moves on by how the attempt ended. Returns whether its state took it.
    pub(super) fn move_on(
        &mut self,
        task: Task,
        mut life: Life,
        worker: WorkerKey,
        ending: Ending,
        effects: &mut Vec<Effect>,
    ) -> bool {
        let Some(spec) = self.spec_of(task.job) else { return false };
        let retry = &spec.retry;
        let wanted = || match ending.event {
            job::Event::ResultTimedOut => retry.on.contains(&RetryOn::TimedOut),
            // That a command cannot start is repeated only where it is asked for.
            job::Event::CannotStart if retry.exit_codes.is_none() => false,
            _ => {
                let known = |code: &i32| retry.exit_codes.as_ref().is_none_or(|codes| codes.contains(code));
                retry.on.contains(&RetryOn::Failed)
                    && ending.exit_code.as_ref().map_or(retry.exit_codes.is_none(), known)
            }
        };
        let retries = u32::from(life.retries);
        let may_retry = || wanted() && retries < spec.retries;
        let again = spec.requeue_lost || ending.event != job::Event::WorkerLost;
        let infra_left = again && life.infra < self.config.max_infra && !ending.permanent;
        let first_loss = infra_left && life.infra == 0;
        let second_try = || !life.second_try && self.could_hold_elsewhere(self.class_of(task.job), worker.index);
        let holds = |guard| match guard {
            job::Guard::FirstLoss => first_loss,
            job::Guard::SecondTry | job::Guard::NewestSecondTry => second_try(),
            job::Guard::MayRetry | job::Guard::NewestMayRetry => may_retry(),
            job::Guard::InfraLeft | job::Guard::NewestInfraLeft => infra_left,
            job::Guard::Newest => true,
            _ => false,
        };
        let from = life.state;
        let Some(to) = machine::job(from, ending.event, holds) else { return false };
        life.lost = false;
        life.live = NONE;
        let counts = matches!(ending.event, job::Event::Rejected | job::Event::StartFailed)
            || (ending.event == job::Event::WorkerLost && from == JobState::Running);
        let mut reason = ending.reason;
        match to {
            JobState::Queued | JobState::Backoff if counts => {
                life.infra += 1;
                // The worker that could not start its command stays avoided: the second try is for another one.
                life.avoid = if life.second_try { life.avoid } else { worker };
                if to == JobState::Backoff {
                    life.due = self.now.saturating_add(self.infra_backoff(task, life.infra));
                }
            }
            JobState::Queued if ending.event == job::Event::CannotStart => {
                life.second_try = true;
                life.avoid = worker;
            }
            JobState::Backoff => {
                life.due = self.now.saturating_add(self.backoff(task, &life));
                life.second_try = false;
                life.retries = life.retries.saturating_add(1);
                life.avoid = worker;
            }
            JobState::Failed if counts => {
                reason = if ending.permanent { Reason::Permanent } else { Reason::InfraLimit };
            }
            JobState::Cancelled => reason = Reason::Cancelled,
            _ => {}
        }
        self.follow(task, life, to, reason, effects);
        true
    }

    /// How long the next retry waits, in milliseconds; jitter by the job and its retry, never by chance.
    fn backoff(&self, task: Task, life: &Life) -> u64 {
        let (Some(spec), Some(job)) = (self.spec_of(task.job), self.jobs.get(task.job)) else { return 0 };
        let retry = &spec.retry;
        let formula = orlop_core::backoff::Backoff {
            growth: orlop_core::backoff::Growth::Exponential,
            base: std::time::Duration::from_millis(retry.backoff_ms),
            factor: f64::from(retry.factor_milli) / 1000.0,
            ceiling: Some(std::time::Duration::from_millis(retry.max_ms)),
            jitter: f64::from(retry.jitter_milli) / 1000.0,
        };
        let (id, index, n) = (job.id.to_string(), task.index.to_string(), u32::from(life.retries));
        let fraction = orlop_core::backoff::fraction(&[&id, &index, &n.to_string()]);
        u64::try_from(formula.delay(n, fraction).as_millis()).unwrap_or(u64::MAX)
    }

    /// How long a task waits after an infrastructure loss, in milliseconds: twice as long after each, a fifth more or less by
    /// the seed and the task.
    fn infra_backoff(&self, task: Task, losses: u32) -> u64 {
        let Some(job) = self.jobs.get(task.job) else { return 0 };
        let wait = INFRA_BACKOFF.0.saturating_mul(1 << losses.saturating_sub(1).min(16)).min(INFRA_BACKOFF.1);
        let (id, index) = (job.id.to_string(), task.index.to_string());
        let parts = [&*self.seed.to_string(), "infra", &id, &index, &losses.to_string()];
        let fraction = orlop_core::backoff::fraction(&parts);
        let wait = wait as f64;
        wait.mul_add(0.8, wait * 0.4 * fraction) as u64
    }

    /// Gives an attempt up although it may still run: its task moves on, its worker's capacity stays held.
    pub(super) fn lose(&mut self, slot: u32, effects: &mut Vec<Effect>) {
        if self.attempts.get(slot).is_some_and(|attempt| attempt.state != AttemptState::Lost) {
            self.tell_lost(slot, true, effects);
            self.give_up_attempt(slot, effects);
        }
    }

    /// Says that an attempt was given up without a word of its worker.
    pub(super) fn tell_lost(&self, slot: u32, held: bool, effects: &mut Vec<Effect>) {
        let Some(attempt) = self.attempts.get(slot) else { return };
        let (attempt, worker) = (self.reference(attempt), self.key_of(attempt.worker));
        effects.push(Effect::Lost { attempt, worker, held });
    }

    fn give_up_attempt(&mut self, slot: u32, effects: &mut Vec<Effect>) {
        let Some(attempt) = self.attempts.get(slot).copied() else { return };
        let Some(state) = machine::attempt(attempt.state, attempt::Event::DeclaredLost, |_| false) else { return };
        self.uncharge(&attempt);
        if self.feeds.on {
            self.lose_slot(slot);
        }
        if let Some(record) = self.attempts.get_mut(slot) {
            record.state = state;
            record.charged = false;
        }
        self.note_given_up(attempt.task.job);
        let Some(life) = self.life(attempt.task) else { return };
        if life.attempt != attempt.number || life.live == NONE || life.lost {
            return;
        }
        let lost = Ending::of(job::Event::WorkerLost, Reason::WorkerLost);
        if self.is_gang(attempt.task.job) {
            self.member_given_up(slot, lost, effects);
            return;
        }
        if self.move_on(attempt.task, life, self.key_of(attempt.worker), lost, effects)
            && let Some(mut life) = self.life(attempt.task).filter(|life| !life.state.is_terminal())
        {
            life.lost = true;
            life.live = slot;
            self.set_life(attempt.task, life);
        }
    }

    /// Whether a job that never has two attempts at once must wait: the lease of this one may not be over.
    pub(super) fn must_wait(&self, slot: u32) -> bool {
        let Some(attempt) = self.attempts.get(slot) else { return false };
        let forbids = self.spec_of(attempt.task.job).is_some_and(|spec| spec.overlap == Overlap::Forbid);
        let seen = self.workers.get(attempt.worker).map_or(0, |worker| worker.seen);
        forbids && attempt.state != AttemptState::Lost && seen.saturating_add(self.config.reassign_after) > self.now
    }

    /// The attempt of a terminal worker: it is lost, and nothing of the worker is held any more.
    pub(super) fn abandon(&mut self, slot: u32, effects: &mut Vec<Effect>) {
        self.tell_lost(slot, false, effects);
        self.give_up_attempt(slot, effects);
        let Some(attempt) = self.attempts.get(slot).filter(|attempt| attempt.state == AttemptState::Lost).copied()
        else {
            return;
        };
        self.close(slot, effects);
        if let Some(mut life) = self.life(attempt.task).filter(|life| life.live == slot) {
            life.live = NONE;
            self.set_life(attempt.task, life);
            let id = self.workers.get(attempt.worker).map(|worker| worker.id.clone());
            id.filter(|_| life.may_return_elsewhere()).and_then(|id| self.parted.insert(attempt.task, id));
        }
    }

    /// A task's attempt was given up before, and its worker says that nothing is left of it: it cannot return any more.
    pub(super) fn is_over(&mut self, task: Task, life: Life) {
        self.set_life(task, Life { live: NONE, lost: false, ..life });
    }

    /// A task whose attempt numbers are used up.
    pub(super) fn give_up(&mut self, task: Task, effects: &mut Vec<Effect>) {
        if let Some(life) = self.life(task) {
            self.follow(task, life, JobState::Failed, Reason::InfraLimit, effects);
        }
    }
}
