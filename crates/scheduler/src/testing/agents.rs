//! What workers of a random world say about attempts: in any order, twice, late, about others. Owns these messages.

use super::law::{Broken, Law};
use super::model::Live;
use super::world::World;
use orlop_core::machine::job::JobState;
use orlop_core::machine::verdict::ReportVerdict;
use orlop_core::task::TaskRef;

use crate::effect::Effect;
use crate::event::{Event, Outcome};
use crate::token::WorkerKey;

impl World<'_> {
    pub(super) fn attempt_event(&mut self) -> Result<(), Broken> {
        let live: Vec<(TaskRef, WorkerKey)> =
            self.model.live.iter().map(|(attempt, live)| (*attempt, live.worker)).collect();
        let any = self.model.sent.clone();
        let old = self.choices.once_in(8);
        let Some((mut attempt, worker)) = self.choices.pick(if old { &any } else { &live }) else { return Ok(()) };
        if self.choices.once_in(40) {
            attempt.attempt = attempt.attempt.wrapping_add(1);
        }
        // Some speak of what others had, or of what their own earlier incarnation had.
        let worker = if self.choices.once_in(12) {
            let given_up = self.given_up();
            attempt = self.choices.pick(&given_up).unwrap_or(attempt);
            self.worker().unwrap_or(worker)
        } else {
            worker
        };
        match self.choices.below(8) {
            0 => self.hear(Event::Accepted { attempt, worker }, worker),
            1 | 2 if self.model.live.get(&attempt).is_some_and(|live| live.waiting) => {
                self.hear(Event::Accepted { attempt, worker }, worker)
            }
            1 | 2 => self.hear(Event::Started { attempt, worker }, worker),
            3 if self.choices.once_in(2) => {
                let job = attempt.job;
                let elements = self.choices.once_in(2).then(|| (0, self.choices.below(45) as u32));
                self.apply(Event::Cancel { job, elements }).map(drop)
            }
            4 if self.choices.once_in(2) => {
                let permanent = self.choices.once_in(4);
                self.unstarted(attempt, worker, Event::Rejected { attempt, worker, permanent })
            }
            5 if self.choices.once_in(2) => self.unstarted(attempt, worker, Event::Revoked { attempt, worker }),
            _ => self.any_result(attempt, worker),
        }
    }

    /// Workers start much of what they got: only who runs can be preempted.
    pub(super) fn start_some(&mut self) -> Result<(), Broken> {
        let live: Vec<(TaskRef, WorkerKey)> = self
            .model
            .live
            .iter()
            .filter(|(_, live)| !live.waiting)
            .map(|(attempt, live)| (*attempt, live.worker))
            .collect();
        for (attempt, worker) in live {
            if self.choices.once_in(2) {
                self.hear(Event::Started { attempt, worker }, worker)?;
            }
        }
        Ok(())
    }

    /// A worker says that an attempt never started; whether that is taken shows by the unit's state.
    pub(super) fn unstarted(&mut self, attempt: TaskRef, worker: WorkerKey, event: Event) -> Result<(), Broken> {
        let live = self.model.live.remove(&attempt);
        let running = self.model.units.get(&(attempt.job, attempt.index)).map(|unit| unit.state);
        self.hear(event, worker)?;
        let after = self.model.units.get(&(attempt.job, attempt.index)).map(|unit| unit.state);
        let held = self.scheduler.holds(attempt);
        let foreign = live.is_some_and(|live| live.worker != worker);
        Law::Answers.demand(held || !foreign, || format!("{worker} ends {attempt}, which is not its own"))?;
        if let Some(live) = live.filter(|_| held) {
            debug_assert_eq!(running, after, "an attempt that goes on leaves its unit alone");
            self.model.live.insert(attempt, live);
        }
        self.start_heirs()
    }

    fn any_result(&mut self, attempt: TaskRef, worker: WorkerKey) -> Result<(), Broken> {
        let outcome = match self.choices.below(8) {
            0..=3 => Outcome::Succeeded,
            4 => Outcome::Failed { exit_code: Some(self.choices.below(3) as i32) },
            5 => Outcome::TimedOut,
            6 if self.choices.once_in(2) => {
                Outcome::CannotStart { exit_code: 126 + i32::from(self.choices.once_in(2)) }
            }
            6 => Outcome::StartFailed { permanent: self.choices.once_in(4) },
            _ => [Outcome::Cancelled, Outcome::Lost][self.choices.below(2) as usize],
        };
        self.result(attempt, worker, outcome)
    }

    pub(super) fn result(&mut self, attempt: TaskRef, worker: WorkerKey, outcome: Outcome) -> Result<(), Broken> {
        let live = self.model.live.remove(&attempt);
        // Who was forgotten is not heard at all: its next incarnation may say it again and gets the answer.
        let heard = self.scheduler.worker_view(worker).is_some();
        let expected = self.expected(attempt, live.filter(|live| live.worker == worker)).filter(|_| heard);
        let verdicts = self.verdicts(attempt, worker, outcome)?;
        Law::Answers.demand(verdicts.len() == 1, || format!("a result of {attempt} got {verdicts:?}"))?;
        if let Some(expected) = expected {
            let right = verdicts == [Some(expected)];
            Law::Answers
                .demand(right, || format!("a result of {attempt} is {verdicts:?}, it should be {expected:?}"))?;
        }
        if let Some(live) = live.filter(|_| self.scheduler.holds(attempt)) {
            self.model.live.insert(attempt, live);
        }
        self.start_heirs()
    }

    /// What a result is worth where that follows from what effects said alone.
    fn expected(&self, attempt: TaskRef, live: Option<Live>) -> Option<ReportVerdict> {
        let unit = self.model.units.get(&(attempt.job, attempt.index))?;
        self.scheduler.job(attempt.job, None)?;
        if self.model.answered.contains(&attempt) {
            return Some(ReportVerdict::Duplicate);
        }
        let newest = live.is_some() && unit.issued == attempt.attempt;
        let alone = self.model.spec(attempt.job)?.gang.is_none();
        let verdict = match unit.state {
            JobState::Queued | JobState::Backoff => ReportVerdict::Adopted,
            state if state.is_terminal() => ReportVerdict::Stale,
            _ => ReportVerdict::Accepted,
        };
        (newest && alone).then_some(verdict)
    }

    /// Applies a result; returns its answers, an unknown one if its worker is not known.
    fn verdicts(
        &mut self,
        attempt: TaskRef,
        worker: WorkerKey,
        outcome: Outcome,
    ) -> Result<Vec<Option<ReportVerdict>>, Broken> {
        // By its clock it ran for any time at all, or does not say.
        let ran_ms = (!self.now.is_multiple_of(3)).then_some(self.now % 64);
        let event = Event::Result { attempt, worker, outcome, ran_ms };
        if self.scheduler.apply(self.now, event.clone(), &mut self.effects).is_err() {
            let known = self.scheduler.worker_view(worker).is_some();
            return if known { Err(Law::Answers.broken("a result was refused")) } else { Ok(vec![None]) };
        }
        self.store.event(self.now, &event);
        self.said = Some((worker, vec![attempt]));
        let answers = self.effects.iter().filter_map(|effect| match effect {
            Effect::Verdict { attempt: of, verdict } if *of == attempt => Some(Some(*verdict)),
            _ => None,
        });
        let verdicts: Vec<_> = answers.collect();
        if let Some(machine) = self.model.machines.get_mut(&worker) {
            machine.heard = self.scheduler.now();
        }
        if verdicts.iter().flatten().any(|verdict| verdict.counts()) {
            self.note_start_failure(attempt, worker, outcome);
        }
        self.absorb(false)?;
        if verdicts.iter().flatten().any(|verdict| verdict.counts()) && outcome != Outcome::Lost {
            self.model.answered.insert(attempt);
            if outcome == Outcome::Succeeded {
                self.model.succeeded.insert(attempt);
            }
        }
        Ok(verdicts)
    }
}
