//! A job gets a worker: token, charges, messages. Owns what a placement writes; where it goes was decided before.

use orlop_core::machine::attempt::AttemptState;
use orlop_core::machine::job::{self, JobState};
use orlop_core::machine::worker;

use super::gang::Members;
use super::record::{Attempt, Past, Task};
use super::{Scheduler, machine};
use crate::effect::{Effect, Reason, StartMode, WorkerReason};
use crate::table::NONE;

/// Where an attempt goes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Target {
    /// Slot of the worker.
    pub(super) worker: u32,
    /// Number of the request vector that is charged.
    pub(super) request: u32,
    pub(super) tenant: u32,
}

/// What tells an attempt of a task from all others of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Token {
    pub(super) member: u32,
    pub(super) number: u32,
    pub(super) epoch: u32,
}

impl Attempt {
    /// An attempt that was just issued, and where it goes.
    pub(super) const fn new(task: Task, token: Token, target: Target, now: u64) -> Self {
        let Token { member, number, epoch } = token;
        Self {
            task,
            member,
            number,
            epoch,
            worker: target.worker,
            request: target.request,
            tenant: target.tenant,
            state: AttemptState::Assigned,
            accepted: false,
            started: false,
            charged: true,
            revoking: false,
            ending: None,
            preemptible: None,
            ahead: false,
            waiting: false,
            feed: NONE,
            assigned_at: now,
            started_at: 0,
            before: NONE,
            after: NONE,
        }
    }
}

impl Scheduler {
    /// Issues the next token of a queued task and sends its attempt (of a gang, one per target, the members in order).
    /// The task has left its queue; capacity and quota are charged by the caller. Returns whether it was possible.
    pub(super) fn assign(&mut self, task: Task, targets: &[Target], effects: &mut Vec<Effect>) -> bool {
        self.issue(task, targets, StartMode::Now, effects)
    }

    /// Issues the next token of a queued task and sends its attempt ahead of the slot that it will inherit. Nothing is
    /// charged yet.
    pub(super) fn assign_ahead(&mut self, task: Task, target: Target, effects: &mut Vec<Effect>) -> bool {
        self.issue(task, &[target], StartMode::Inherit, effects)
    }

    fn issue(&mut self, task: Task, targets: &[Target], start: StartMode, effects: &mut Vec<Effect>) -> bool {
        let Some(mut life) = self.life(task) else { return false };
        self.release_held(task);
        let from = life.state;
        let event = if start == StartMode::Inherit { job::Event::Prefilled } else { job::Event::Placed };
        let Some(to) = machine::job(from, event, |_| true) else { return false };
        let Some(number) = life.attempt.checked_add(1) else { return false };
        if life.attempt > 0 {
            let answered = life.answered && targets.len() == 1;
            let past = Past { attempt: life.attempt, epoch: life.epoch, answered };
            self.past.entry(task).or_default().push(past);
            let members = self.gangs.get(&task.job).map(Members::who_answered).filter(|members| !members.is_empty());
            members.and_then(|members| self.past_members.insert((task.job, life.attempt), members));
        }
        (life.attempt, life.epoch) = (number, self.epoch_number());
        (life.answered, life.lost, life.state) = (false, false, to);
        let mut slots = Vec::new();
        let mut first = NONE;
        for (member, target) in (0..).zip(targets) {
            let slot = self.new_attempt(task, Token { member, number, epoch: life.epoch }, *target, start);
            if first == NONE {
                first = slot;
            }
            if targets.len() > 1 {
                slots.push(slot);
            }
        }
        life.live = first;
        if !slots.is_empty() {
            self.gangs.insert(task.job, Members::new(slots.clone()));
        }
        self.set_life(task, life);
        self.count(task, from, to);
        self.tell(task, (from, to), Reason::Plain, effects);
        if slots.is_empty() {
            self.send(first, effects);
        }
        for slot in slots {
            self.send(slot, effects);
        }
        true
    }

    fn new_attempt(&mut self, task: Task, token: Token, target: Target, start: StartMode) -> u32 {
        let ahead = start == StartMode::Inherit;
        let attempt = Attempt::new(task, token, target, self.now);
        let slot = self.list_attempt(Attempt { ahead, waiting: ahead, charged: !ahead, ..attempt });
        self.await_acceptance(slot);
        slot
    }

    /// Stores an attempt and lists it with its worker.
    pub(super) fn list_attempt(&mut self, mut attempt: Attempt) -> u32 {
        let spec = self.jobs.get(attempt.task.job).and_then(|job| self.specs.get(job.spec as usize));
        attempt.preemptible = spec.and_then(|spec| spec.preemptible);
        let Some(worker) = self.workers.get_mut(attempt.worker) else { return NONE };
        let next = worker.first;
        attempt.after = next;
        let Some(slot) = self.attempts.insert(attempt) else { return NONE };
        worker.first = slot;
        worker.attempts += 1;
        worker.waiting += u32::from(attempt.waiting);
        if let Some(next) = self.attempts.get_mut(next) {
            next.before = slot;
        }
        self.preemptibles.insert(slot, &attempt);
        self.add_end_time(slot);
        if attempt.state == AttemptState::Lost {
            self.note_given_up(attempt.task.job);
        }
        if self.feeds.on {
            self.join_feed(slot);
        }
        slot
    }

    /// Sends an attempt that was just made.
    fn send(&mut self, slot: u32, effects: &mut Vec<Effect>) {
        let Some(attempt) = self.attempts.get(slot).copied() else { return };
        let Some(worker) = self.workers.get(attempt.worker) else { return };
        let held = |guard| match guard {
            worker::Guard::NotCordoned => !worker.cordoned,
            _ => false,
        };
        if let Some(to) = machine::worker(worker.state, worker::Event::JobAssigned, held)
            && to != worker.state
        {
            self.move_worker(attempt.worker, to, WorkerReason::Plain, effects);
        }
        let (reference, worker) = (self.reference(&attempt), self.key_of(attempt.worker));
        let start = if attempt.ahead { StartMode::Inherit } else { StartMode::Now };
        effects.push(Effect::Assign { attempt: reference, worker, start });
    }

    /// Takes an element or job that waits off the front of a queue.
    pub(super) fn take(&mut self, queue: u32) -> Option<Task> {
        let head = self.head(queue)?;
        let slot = head.1.job;
        self.leave_quota_reservations(slot);
        if self.queues.get(queue as usize).is_some_and(|queue| !queue.passes.is_empty()) {
            let place = (head.0, self.peek(slot).index);
            self.queues.get_mut(queue as usize).into_iter().for_each(|queue| queue.passes.forget(place));
        }
        if let Some(array) = self.array_mut(slot) {
            let index = array.ready.pop_first()?;
            if array.ready.len() == 0 || array.running.saturating_add(1) >= array.max_parallel {
                self.pop(queue, head.0, head.1);
            }
            // From here on it has a life of its own.
            let task = Task { job: slot, index };
            if let Some(array) = self.array_mut(slot) {
                array.active.entry(index).or_insert_with(|| super::record::Life::new(JobState::Queued));
            }
            return Some(task);
        }
        self.pop(queue, head.0, head.1);
        Some(Task::whole(slot))
    }
}
