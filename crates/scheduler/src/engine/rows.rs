//! Rows for a store: where units, attempts and workers stand, one by one. Owns the way out; `rebuild` is the way back.

use orlop_core::id::{Epoch, JobId, WorkerId};
use orlop_core::task::TaskRef;
use serde::{Deserialize, Serialize};

use super::Scheduler;
use super::ends::Ending;
use super::record::{Attempt, Life, Task};
use crate::effect::{Reason, StartMode};
use crate::fleet::dims::Dim;
use crate::stored::{AttemptRow, GangEnd, GangRow, GpuShape, Incarnation, TokenRow, UnitRow, WorkerRow};
use crate::table::NONE;
use crate::token::WorkerKey;
use orlop_core::machine::attempt::AttemptState;
use orlop_core::machine::job::{self, JobState};

/// How a member of a gang ended, as a value to be stored and given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MemberEnd(pub(super) Ending);

impl MemberEnd {
    /// How a member ended whose attempt is stored in a state, with the exit code of a failure; `permanent`: another worker
    /// would not help. None if it has not ended, or well.
    #[must_use]
    pub fn of(state: AttemptState, exit_code: Option<i32>, permanent: bool) -> Option<Self> {
        let ending = match state {
            AttemptState::Failed => {
                Ending { exit_code, ..Ending::of(job::Event::ResultFailed, Reason::Exit(exit_code)) }
            }
            AttemptState::TimedOut => Ending::of(job::Event::ResultTimedOut, Reason::TimedOut),
            AttemptState::Cancelled => Ending::of(job::Event::Drained, Reason::Drained),
            AttemptState::Preempted => Ending::of(job::Event::Preempted, Reason::Preempted),
            AttemptState::StartFailed => match exit_code {
                Some(code) => Ending { exit_code, ..Ending::of(job::Event::CannotStart, Reason::Command(code)) },
                None => Ending { permanent, ..Ending::of(job::Event::StartFailed, Reason::StartFailed) },
            },
            AttemptState::Rejected => Ending { permanent, ..Ending::of(job::Event::Rejected, Reason::Rejected) },
            AttemptState::Revoked => Ending::of(job::Event::Revoked, Reason::Revoked),
            AttemptState::Lost => Ending::of(job::Event::WorkerLost, Reason::WorkerLost),
            _ => return None,
        };
        Some(Self(ending))
    }
}

impl Scheduler {
    /// The row of a single job or gang, or of an element of an array; none if it is not known, not even as a final one.
    /// Elements that were never assigned have no attempt and stand in ranges. Cost: as of [`Scheduler::job`], and linear in
    /// its tokens.
    #[must_use]
    pub fn task_row(&self, job: JobId, element: Option<u32>) -> Option<UnitRow> {
        let task = Task { job: self.job_slot(job).ok()?, index: element.unwrap_or(0) };
        let record = self.jobs.get(task.job)?;
        if element.is_some() != (record.array != NONE) {
            return None;
        }
        let life = self.life(task)?;
        let tokens = self.past.get(&task).into_iter().flatten();
        let earlier = tokens.map(|past| TokenRow {
            attempt: past.attempt,
            epoch: self.epoch_at(past.epoch),
            answered: past.answered,
            members: self.past_members.get(&(task.job, past.attempt)).cloned().unwrap_or_default(),
        });
        let gang = self.gangs.get(&task.job).map(|members| GangRow {
            answered: members.answered.clone(),
            ending: members
                .ending
                .map(|(ending, worker)| GangEnd { end: MemberEnd(ending), worker: self.incarnation_at(worker) }),
            broken: members.broken,
        });
        Some(UnitRow {
            state: life.state,
            attempt: life.attempt,
            epoch: if life.attempt == 0 { Epoch::default() } else { self.epoch_at(life.epoch) },
            answered: life.answered,
            lost: life.lost,
            lost_by: self.loser(task, &life),
            started: life.started,
            second_try: life.second_try,
            retries: u32::from(life.retries),
            infra: life.infra,
            avoid: self.incarnation_at(life.avoid),
            due: (life.state == JobState::Backoff).then_some(life.due),
            earlier: earlier.collect(),
            gang,
        })
    }

    /// The row of an attempt of a worker; none once it is known to have ended. Cost: constant for the newest attempt of a
    /// job that is live or has succeeded, else linear in the attempts of the worker.
    #[must_use]
    pub fn attempt_row(&self, attempt: TaskRef, worker: WorkerKey) -> Option<AttemptRow> {
        let number = self.worker_at(worker).ok()?;
        let task = Task { job: self.job_slot(attempt.job).ok()?, index: attempt.index };
        let life = self.life(task)?;
        let is_it = |slot: u32| {
            self.attempts.get(slot).filter(|known| known.worker == number && self.reference(known) == attempt)
        };
        if let Some(known) = is_it(life.live) {
            return self.row_of(known);
        }
        if life.state == JobState::Completed && life.attempt == attempt.attempt {
            return None;
        }
        let known = self.attempts_on(number).into_iter().find_map(is_it)?;
        self.row_of(known)
    }

    fn row_of(&self, attempt: &Attempt) -> Option<AttemptRow> {
        let request = self.requests.get(attempt.request)?;
        let gpu = request.need.iter().find_map(|(dim, _)| match self.dims.get(usize::from(*dim)) {
            Some(Dim::Gpu { vendor, model, memory_bytes }) => {
                Some(GpuShape { vendor: *vendor, model: model.clone(), memory_bytes: *memory_bytes })
            }
            _ => None,
        });
        Some(AttemptRow {
            attempt: self.reference(attempt),
            worker: self.incarnation(attempt.worker)?,
            gpu,
            assigned_at: attempt.assigned_at,
            accepted: attempt.accepted,
            started_at: attempt.started.then_some(attempt.started_at),
            ending: attempt.ending,
            lost: attempt.state == AttemptState::Lost,
            start: if attempt.ahead { StartMode::Inherit } else { StartMode::Now },
            waiting: attempt.waiting,
        })
    }

    /// The row of a worker; none if the incarnation is not known any more. Cost: constant.
    #[must_use]
    pub fn worker_row(&self, key: WorkerKey) -> Option<WorkerRow> {
        let number = self.worker_at(key).ok()?;
        let worker = self.workers.get(number)?;
        Some(WorkerRow {
            worker: self.incarnation(number)?,
            state: worker.state,
            capabilities: std::sync::Arc::clone(&worker.capabilities),
            cordoned: worker.cordoned,
            drain: worker.drain,
        })
    }

    /// Whose attempt it was that was given up.
    fn loser(&self, task: Task, life: &Life) -> Option<WorkerId> {
        let attempt = self.attempts.get(life.live).filter(|_| life.lost);
        let worker = attempt.and_then(|attempt| self.workers.get(attempt.worker)).map(|worker| &worker.id);
        worker.or_else(|| self.parted.get(&task)).cloned()
    }

    fn incarnation_at(&self, key: WorkerKey) -> Option<Incarnation> {
        self.incarnation(self.worker_at(key).ok()?)
    }

    fn incarnation(&self, worker: u32) -> Option<Incarnation> {
        let worker = self.workers.get(worker)?;
        Some(Incarnation { id: worker.id.clone(), number: worker.incarnation })
    }
}
