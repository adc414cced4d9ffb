//! Messages about attempts: what they are worth and what they do. Owns the fence; every start and every
//! result gets an answer, after the change it makes.

use orlop_core::machine::attempt::{self, AttemptState};
use orlop_core::machine::job::{self, JobState};
use orlop_core::machine::verdict::{ReportVerdict, TokenFacts};
use orlop_core::task::TaskRef;

use super::assign::{Target, Token};
use super::ends::Ending;
use super::record::{Attempt, Life, Task};
use super::{Scheduler, machine};
use crate::effect::{CancelReason, Effect, Reason};
use crate::error::EventError;
use crate::event::Outcome;
use crate::table::NONE;
use crate::token::WorkerKey;

/// A message that was judged.
#[derive(Clone, Copy, Debug)]
pub(super) struct Judged {
    pub(super) verdict: ReportVerdict,
    pub(super) task: Task,
    pub(super) life: Life,
    /// Slot of the attempt, if anything is kept of it.
    pub(super) slot: u32,
}

impl Scheduler {
    /// Judges a message of a worker; none if the job is unknown.
    pub(super) fn judge(&self, reference: TaskRef, worker: u32, starts: bool) -> Option<Judged> {
        let job = self.ids.get(reference.job.as_u64())?;
        let task = Task { job, index: reference.index };
        let life = self.life(task)?;
        let newest = reference.attempt == life.attempt && self.epoch_at(life.epoch) == reference.epoch;
        let slot = self.slot_of(&life, reference);
        let past = self.past.get(&task).and_then(|past| {
            past.iter().find(|past| past.attempt == reference.attempt && self.epoch_at(past.epoch) == reference.epoch)
        });
        let live = self.attempts.get(slot).filter(|_| newest);
        let spec = self.jobs.get(job).and_then(|job| self.specs.get(job.spec as usize))?;
        let member = reference.member < spec.members;
        let facts = TokenFacts {
            job: Some(life.state),
            issued: reference.attempt > 0 && member && (newest || past.is_some()),
            answered: if newest {
                self.has_answer(task, &life, reference.member)
            } else {
                past.is_some_and(|past| past.answered || self.had_answer(job, past.attempt, reference.member))
            },
            current: live.is_some_and(|attempt| attempt.state != AttemptState::Lost && attempt.worker == worker),
            // A member by itself is no gang: of these whole ones are adopted.
            lost_newest: newest && life.lost && spec.members == 1 && self.had(task, &life, worker),
            admissible: !starts || self.may_adopt(task.job, live, worker),
        };
        Some(Judged { verdict: facts.judge(), task, life, slot })
    }

    /// Whether the newest attempt of a task, which was given up, was a worker's; of one that has left, in any incarnation.
    fn had(&self, task: Task, life: &Life, worker: u32) -> bool {
        match self.attempts.get(life.live) {
            Some(attempt) => attempt.worker == worker,
            None => self.parted.get(&task).is_some_and(|id| self.workers.get(worker).is_some_and(|w| w.id == *id)),
        }
    }

    /// Whether the newest token of a task, of a gang its member's, has an accepted result.
    fn has_answer(&self, task: Task, life: &Life, member: u32) -> bool {
        match self.gangs.get(&task.job) {
            Some(members) => members.answered.get(member as usize).copied().unwrap_or(false),
            None => life.answered,
        }
    }

    /// Whether a member of an older attempt of a gang has an accepted result.
    fn had_answer(&self, job: u32, attempt: u32, member: u32) -> bool {
        self.past_members.get(&(job, attempt)).is_some_and(|members| members.binary_search(&member).is_ok())
    }

    /// Slot of the attempt that a reference means.
    fn slot_of(&self, life: &Life, reference: TaskRef) -> u32 {
        let is_it = |slot: &u32| {
            self.attempts
                .get(*slot)
                .is_some_and(|attempt| attempt.number == reference.attempt && attempt.member == reference.member)
        };
        if is_it(&life.live) {
            return life.live;
        }
        let members = self.ids.get(reference.job.as_u64()).and_then(|job| self.gangs.get(&job));
        members.and_then(|members| members.slots.iter().copied().find(is_it)).unwrap_or(NONE)
    }

    /// Whether the tenant's limits let a lost attempt run on, and if its incarnation of the worker has left, whether the
    /// next one has room for it.
    fn may_adopt(&self, job: u32, attempt: Option<&Attempt>, worker: u32) -> bool {
        let Some(tenant) = self.tenants.get(self.tenant_of(job) as usize) else { return false };
        let request = match attempt {
            Some(attempt) => Some(attempt.request),
            None => self.room_for(job, worker),
        };
        request
            .and_then(|request| self.requests.get(request))
            .is_some_and(|request| tenant.room(request, &self.dims) > 0)
    }

    /// The request vector of a job that a connected worker has room for.
    fn room_for(&self, job: u32, worker: u32) -> Option<u32> {
        let class = self.classes.get(self.class_of(job))?;
        let place = self.workers.get(worker).filter(|worker| !worker.state.is_terminal())?.place;
        let hosts =
            |number: &u32| self.requests.get(*number).is_some_and(|request| self.table.hosts(place, &request.need) > 0);
        class.requests.iter().copied().find(|number| place != NONE && hosts(number))
    }

    /// The record of a lost attempt; if that went with its incarnation of the worker, a new one on the next.
    fn adopted_slot(&mut self, judged: &Judged, worker: u32) -> u32 {
        if self.attempts.get(judged.slot).is_some() {
            return judged.slot;
        }
        let Some(request) = self.room_for(judged.task.job, worker) else { return NONE };
        let place = self.workers.get(worker).map_or(NONE, |worker| worker.place);
        if let Some(request) = self.requests.get(request) {
            self.table.charge(place, &request.need, 1);
        }
        let target = Target { worker, request, tenant: self.tenant_of(judged.task.job) };
        let attempt = Attempt::new(
            judged.task,
            Token { member: 0, number: judged.life.attempt, epoch: judged.life.epoch },
            target,
            self.now,
        );
        self.list_attempt(Attempt { state: AttemptState::Lost, charged: false, ..attempt })
    }

    fn answer(attempt: TaskRef, verdict: ReportVerdict, effects: &mut Vec<Effect>) {
        effects.push(Effect::Verdict { attempt, verdict });
    }

    /// Tells a worker to end an attempt whose fence was overtaken.
    pub(super) fn kill(&self, attempt: TaskRef, worker: WorkerKey, effects: &mut Vec<Effect>) {
        effects.push(Effect::Cancel { attempt, worker, why: CancelReason::Stale, grace_ms: 0 });
    }

    pub(super) fn accepted(
        &mut self,
        reference: TaskRef,
        key: WorkerKey,
        effects: &mut Vec<Effect>,
    ) -> Result<(), EventError> {
        let worker = self.hear(key)?;
        let Some(judged) =
            self.judge(reference, worker, false).filter(|judged| judged.verdict == ReportVerdict::Accepted)
        else {
            return Ok(());
        };
        let Some(attempt) = self.attempts.get_mut(judged.slot) else { return Ok(()) };
        if let Some(state) = machine::attempt(attempt.state, attempt::Event::Accepted, |_| false) {
            attempt.state = state;
            attempt.accepted = true;
        }
        if judged.life.state == JobState::Cancelling {
            self.tell_to_end(judged.slot, CancelReason::User, effects);
        }
        Ok(())
    }

    pub(super) fn started(
        &mut self,
        reference: TaskRef,
        key: WorkerKey,
        effects: &mut Vec<Effect>,
    ) -> Result<(), EventError> {
        let worker = self.hear(key)?;
        let judged = self.judge(reference, worker, true);
        let verdict = judged.map_or(ReportVerdict::Unknown, |judged| judged.verdict);
        match judged {
            Some(judged) if verdict == ReportVerdict::Accepted => self.start(&judged, effects),
            Some(judged) if verdict == ReportVerdict::Adopted => self.adopt_running(&judged, worker, effects),
            _ => {}
        }
        if verdict.kills() {
            self.kill(reference, key, effects);
        }
        Self::answer(reference, verdict, effects);
        Ok(())
    }

    /// The current attempt of a task has started.
    fn start(&mut self, judged: &Judged, effects: &mut Vec<Effect>) {
        let now = self.now;
        self.take_slot(judged.slot, effects);
        let Some(attempt) = self.attempts.get(judged.slot).copied() else { return };
        self.drop_end_time(&attempt);
        let Some(attempt) = self.attempts.get_mut(judged.slot) else { return };
        if let Some(state) = machine::attempt(attempt.state, attempt::Event::Started, |_| false) {
            attempt.state = state;
            (attempt.accepted, attempt.started) = (true, true);
            attempt.started_at = now;
            // A revoke came too late for it.
            attempt.revoking = false;
        }
        let ending = attempt.ending;
        let on = attempt.worker;
        self.add_end_time(judged.slot);
        let mut life = judged.life;
        life.started = true;
        self.blame_first(judged.task, &mut life, on, effects);
        match machine::job(life.state, job::Event::Started, |_| false) {
            Some(to) => self.follow(judged.task, life, to, Reason::Plain, effects),
            None => self.set_life(judged.task, life),
        }
        if let Some(why) = ending {
            self.tell_to_end(judged.slot, why, effects);
        }
    }

    /// Late adoption: live work that was given up is kept.
    fn adopt_running(&mut self, judged: &Judged, worker: u32, effects: &mut Vec<Effect>) {
        let slot = self.adopted_slot(judged, worker);
        let own = self.attempts.get(slot).is_some_and(|attempt| attempt.worker == worker);
        if !own || !self.revive(slot, effects) {
            return;
        }
        let mut life = judged.life;
        (life.lost, life.live, life.started) = (false, slot, true);
        self.blame_first(judged.task, &mut life, worker, effects);
        if let Some(to) = machine::job(life.state, job::Event::Started, |guard| guard == job::Guard::NewestMayRun) {
            self.follow(judged.task, life, to, Reason::Adopted, effects);
        }
    }

    pub(super) fn result(
        &mut self,
        reference: TaskRef,
        key: WorkerKey,
        (outcome, ran_ms): (Outcome, Option<u64>),
        effects: &mut Vec<Effect>,
    ) -> Result<ReportVerdict, EventError> {
        let worker = self.hear(key)?;
        let judged = self.judge(reference, worker, false);
        let verdict = judged.map_or(ReportVerdict::Unknown, |judged| judged.verdict);
        match judged {
            Some(judged) if verdict.counts() => {
                self.note_outcome(worker, reference.member, &judged, outcome, effects);
                self.conclude(&judged, worker, outcome, ran_ms, effects);
            }
            _ => self.close_stale(reference, worker, effects),
        }
        Self::answer(reference, verdict, effects);
        Ok(verdict)
    }

    /// An attempt whose result does not count has ended all the same.
    pub(super) fn close_stale(&mut self, reference: TaskRef, worker: u32, effects: &mut Vec<Effect>) {
        let Some(job) = self.ids.get(reference.job.as_u64()) else { return };
        let task = Task { job, index: reference.index };
        for slot in self.attempts_on(worker) {
            let same = self.attempts.get(slot).is_some_and(|attempt| {
                attempt.task == task
                    && (attempt.number, attempt.member) == (reference.attempt, reference.member)
                    && self.epoch_at(attempt.epoch) == reference.epoch
                    && attempt.state == AttemptState::Lost
            });
            if same {
                self.close(slot, effects);
                if let Some(life) = self.life(task).filter(|life| life.live == slot) {
                    self.is_over(task, life);
                }
            }
        }
    }

    /// An accepted or adopted result: the attempt ends, the task moves on.
    fn conclude(
        &mut self,
        judged: &Judged,
        worker: u32,
        outcome: Outcome,
        ran_ms: Option<u64>,
        effects: &mut Vec<Effect>,
    ) {
        let attempt = self.attempts.get(judged.slot).copied();
        let mut life = judged.life;
        life.answered = outcome != Outcome::Lost;
        if matches!(outcome, Outcome::Succeeded | Outcome::Failed { .. } | Outcome::TimedOut) && life.second_try {
            self.blame_first(judged.task, &mut life, worker, effects);
            // Of a gang it is kept beside what its members say.
            self.set_life(judged.task, Life { answered: judged.life.answered, ..life });
        }
        if let Some(attempt) = attempt {
            self.note_runtime(&attempt, outcome, ran_ms);
            self.close(judged.slot, effects);
        }
        let ending = ending(outcome, attempt.and_then(|attempt| attempt.ending), life.state);
        if let Some(members) = self.gangs.get_mut(&judged.task.job) {
            let member = attempt.map_or(0, |attempt| attempt.member);
            if let Some(answered) = members.answered.get_mut(member as usize) {
                *answered = outcome != Outcome::Lost;
            }
            let failed = (outcome != Outcome::Succeeded).then_some(ending);
            self.member_ended(judged.task, (member, worker), failed, effects);
            return;
        }
        if !self.move_on(judged.task, life, self.key_of(worker), ending, effects) {
            self.is_over(judged.task, life);
        }
    }

    pub(super) fn rejected(
        &mut self,
        reference: TaskRef,
        key: WorkerKey,
        permanent: bool,
        effects: &mut Vec<Effect>,
    ) -> Result<(), EventError> {
        let ending = Ending { permanent, ..Ending::of(job::Event::Rejected, Reason::Rejected) };
        self.unstarted(reference, key, ending, effects)
    }

    pub(super) fn revoked(
        &mut self,
        reference: TaskRef,
        key: WorkerKey,
        effects: &mut Vec<Effect>,
    ) -> Result<(), EventError> {
        self.unstarted(reference, key, Ending::of(job::Event::Revoked, Reason::Revoked), effects)
    }

    /// An attempt ended before it started.
    fn unstarted(
        &mut self,
        reference: TaskRef,
        key: WorkerKey,
        ending: Ending,
        effects: &mut Vec<Effect>,
    ) -> Result<(), EventError> {
        let worker = self.hear(key)?;
        let judged = self.judge(reference, worker, false).filter(|judged| judged.verdict == ReportVerdict::Accepted);
        match judged {
            // Who has started cannot be unstarted: its result will tell.
            Some(judged) if self.attempts.get(judged.slot).is_some_and(|attempt| !attempt.started) => {
                self.close(judged.slot, effects);
                if self.is_gang(judged.task.job) {
                    self.member_ended(judged.task, (reference.member, worker), Some(ending), effects);
                } else {
                    self.move_on(judged.task, judged.life, key, ending, effects);
                }
            }
            Some(_) => {}
            None => self.close_stale(reference, worker, effects),
        }
        Ok(())
    }
}

impl Scheduler {
    /// Remembers how long an attempt of its class ran, if it ended by itself. The start of a short one is not heard of before
    /// its end.
    fn note_runtime(&mut self, attempt: &Attempt, outcome: Outcome, ran_ms: Option<u64>) {
        let ended = matches!(outcome, Outcome::Succeeded | Outcome::Failed { .. });
        let heard = attempt.started.then(|| self.now.saturating_sub(attempt.started_at));
        let Some(ran) = ran_ms.or(heard).filter(|_| ended) else { return };
        let ran = u32::try_from(ran).unwrap_or(u32::MAX);
        let spec = self.jobs.get(attempt.task.job).map_or(NONE, |job| job.spec);
        let class = self.specs.get(spec as usize).map_or(NONE, |spec| spec.class);
        if let Some(class) = self.classes.get_mut(class)
            && let Some(count) = class.runtimes.get_mut((32 - ran.leading_zeros()).min(31) as usize)
        {
            *count = count.saturating_add(1);
        }
    }
}

/// What an outcome means to the task. An attempt that was ended for others' sake and did not succeed counts nothing.
fn ending(outcome: Outcome, asked: Option<CancelReason>, state: JobState) -> Ending {
    let displaced = match asked {
        Some(CancelReason::Preempted) => Some(Ending::of(job::Event::Preempted, Reason::Preempted)),
        Some(CancelReason::Drain) => Some(Ending::of(job::Event::Drained, Reason::Drained)),
        _ => None,
    };
    match (outcome, displaced) {
        (Outcome::Succeeded, _) => Ending::of(job::Event::ResultSucceeded, Reason::Plain),
        (_, Some(displaced)) => displaced,
        (Outcome::Failed { exit_code }, None) => {
            Ending { exit_code, ..Ending::of(job::Event::ResultFailed, Reason::Exit(exit_code)) }
        }
        (Outcome::TimedOut, None) => Ending::of(job::Event::ResultTimedOut, Reason::TimedOut),
        // Ended by its own worker, for example on its way out.
        (Outcome::Cancelled, None) if state != JobState::Cancelling => Ending::of(job::Event::Drained, Reason::Drained),
        (Outcome::Cancelled, None) => Ending::of(job::Event::ResultCancelled, Reason::Cancelled),
        (Outcome::StartFailed { permanent }, None) => {
            Ending { permanent, ..Ending::of(job::Event::StartFailed, Reason::StartFailed) }
        }
        (Outcome::CannotStart { exit_code }, None) => {
            Ending { exit_code: Some(exit_code), ..Ending::of(job::Event::CannotStart, Reason::Command(exit_code)) }
        }
        (Outcome::Lost, None) => Ending::of(job::Event::WorkerLost, Reason::WorkerLost),
    }
}
