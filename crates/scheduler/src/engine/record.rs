//! Records of jobs, arrays, attempts, specifications, tenants and workers, and finding them: units by reference, lives by
//! task, records by slot. Owns their shapes, and how an element that was never touched looks; the engine's parts change them,
//! lives only as a whole.

use std::collections::BTreeMap;
use std::sync::Arc;

use orlop_core::id::{Epoch, JobId, WorkerId};
use orlop_core::machine::attempt::AttemptState;
use orlop_core::machine::job::JobState;
use orlop_core::machine::worker::WorkerState;
use orlop_core::task::TaskRef;
use serde::{Deserialize, Serialize};

use super::Scheduler;
use crate::effect::{CancelReason, JobPart};
use crate::error::EventError;
use crate::event::{Capabilities, DrainOrder};
use crate::job::Demand;
use crate::queue::Key;
use crate::table::{NONE, RangeMap, RangeSet};
use crate::tenant::{QuotaUse, Tenant};
use crate::token::WorkerKey;

/// A single job, an element of an array, or a gang.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct Task {
    /// Slot of the job.
    pub(super) job: u32,
    /// Element, else 0.
    pub(super) index: u32,
}

/// Where a task stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Life {
    pub(super) state: JobState,
    /// The newest token has an accepted result.
    pub(super) answered: bool,
    /// It was started once, so it cannot expire.
    pub(super) started: bool,
    /// Its newest attempt is lost and no newer one was issued.
    pub(super) lost: bool,
    /// Its command could not be started by the worker that it avoids, and has not started anywhere since.
    #[serde(default)]
    pub(super) second_try: bool,
    pub(super) retries: u8,
    pub(super) infra: u32,
    /// Number of the newest attempt ever issued; 0 = none.
    pub(super) attempt: u32,
    /// Its epoch, by number.
    pub(super) epoch: u32,
    /// Slot of the newest attempt while anything is known of it; of a gang, of the first member.
    pub(super) live: u32,
    /// Worker that it should rather not get.
    pub(super) avoid: WorkerKey,
    /// When its backoff ends; while it is Pending, when its gate opens.
    pub(super) due: u64,
}

impl Life {
    pub(super) const fn new(state: JobState) -> Self {
        Self {
            state,
            answered: false,
            started: false,
            lost: false,
            second_try: false,
            retries: 0,
            infra: 0,
            attempt: 0,
            epoch: 0,
            live: NONE,
            avoid: WorkerKey::NOBODY,
            due: 0,
        }
    }

    /// Whether its newest attempt was given up and left with its worker: it may return with a later incarnation.
    pub(super) fn may_return_elsewhere(&self) -> bool {
        self.lost && self.live == NONE && !self.state.is_terminal()
    }
}

/// A job, an element or a member of a gang, by a name that is never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct TaskName {
    pub(super) job: JobId,
    pub(super) index: u32,
    pub(super) member: u32,
}

/// A job.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Job {
    pub(super) id: JobId,
    pub(super) spec: u32,
    /// Number of its array record, if it is one.
    pub(super) array: u32,
    /// That of its entry in its queue.
    pub(super) stamp: u32,
    pub(super) queued: bool,
    /// Of an array: Pending before its gate opens, Queued after, final at its end.
    pub(super) life: Life,
    pub(super) submitted: u64,
}

/// What remains of an element that is final.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Done {
    pub(super) state: JobState,
    pub(super) attempt: u32,
    pub(super) epoch: u32,
    pub(super) answered: bool,
}

/// The elements of an array.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Array {
    /// Elements that may be placed, or will be when the gate opens.
    pub(super) ready: RangeSet,
    /// Elements that have left Queued once and are not final.
    #[serde(with = "crate::table::stored::pairs")]
    pub(super) active: BTreeMap<u32, Life>,
    pub(super) done: RangeMap<Done>,
    pub(super) elements: u32,
    pub(super) max_parallel: u32,
    pub(super) max_failures: u64,
    /// Elements that hold capacity.
    pub(super) running: u32,
    /// Elements that ended without success.
    pub(super) failures: u64,
}

/// An attempt that is not known to have ended.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Attempt {
    pub(super) task: Task,
    pub(super) member: u32,
    pub(super) number: u32,
    pub(super) epoch: u32,
    pub(super) worker: u32,
    pub(super) request: u32,
    pub(super) tenant: u32,
    pub(super) state: AttemptState,
    pub(super) accepted: bool,
    pub(super) started: bool,
    /// Its tenant is charged for it.
    pub(super) charged: bool,
    /// A revoke was sent.
    pub(super) revoking: bool,
    /// It was asked to end.
    pub(super) ending: Option<CancelReason>,
    /// Its priority number, if it may be ended for others.
    pub(super) preemptible: Option<u8>,
    /// It was sent ahead to inherit a slot.
    #[serde(default)]
    pub(super) ahead: bool,
    /// It was, and has none yet: it holds no capacity and nobody is charged for it.
    #[serde(default)]
    pub(super) waiting: bool,
    /// Number of its feed, if these are kept.
    #[serde(default = "nowhere")]
    pub(super) feed: u32,
    pub(super) assigned_at: u64,
    pub(super) started_at: u64,
    /// Neighbours on the same worker.
    pub(super) before: u32,
    pub(super) after: u32,
}

/// Snapshots from before prefill know no feeds and no round trips.
const fn nowhere() -> u32 {
    NONE
}

/// An interned specification.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Spec {
    pub(super) spec: Arc<Demand>,
    pub(super) tenant: u32,
    pub(super) class: u32,
    pub(super) queue: u32,
    /// Number of its preferences; 0 = none.
    pub(super) preferences: u32,
    /// Its priority number, if attempts of it may be ended for others.
    pub(super) preemptible: Option<u8>,
    /// How many members an attempt has; 1 unless it is a gang.
    pub(super) members: u32,
    /// What one task asks for. Both stand in the specification too, which is too far away to be read for every end.
    pub(super) one: QuotaUse,
}

/// One incarnation of a worker.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Worker {
    pub(super) id: WorkerId,
    pub(super) incarnation: u32,
    pub(super) state: WorkerState,
    /// Its place in the table while its capacity counts.
    pub(super) place: u32,
    pub(super) capabilities: Arc<Capabilities>,
    pub(super) cordoned: bool,
    /// It is kept for a job.
    pub(super) reserved: bool,
    pub(super) connected: bool,
    pub(super) drain: Option<DrainOrder>,
    /// It waits among those that grew.
    pub(super) grew: bool,
    /// Its last report was bad.
    pub(super) bad: bool,
    /// Its attempts were given up in this silence.
    pub(super) reassigned: bool,
    pub(super) seen: u64,
    /// When it entered its state.
    pub(super) since: u64,
    /// First attempt of its list.
    pub(super) first: u32,
    pub(super) attempts: u32,
    /// Those of them that wait for a slot.
    #[serde(default)]
    pub(super) waiting: u32,
    /// Its smoothed round trip in microseconds; `NONE` = unknown.
    #[serde(default = "nowhere")]
    pub(super) round_trip: u32,
    /// Times of recent losses, the oldest first.
    pub(super) losses: Vec<u64>,
    /// Times and tasks of failed starts since the last success.
    #[serde(default)]
    pub(super) start_failures: Vec<(u64, TaskName)>,
    /// When its probation ends, and how long the next one is.
    pub(super) probation: u64,
    pub(super) next_probation: u64,
    /// The earliest time of its timer that is set; `u64::MAX` = none.
    pub(super) timer: u64,
}

impl Worker {
    /// A worker that was just declared.
    pub(super) const fn new(id: WorkerId, incarnation: u32, capabilities: Arc<Capabilities>, now: u64) -> Self {
        Self {
            id,
            incarnation,
            state: WorkerState::Creating,
            place: NONE,
            capabilities,
            cordoned: false,
            reserved: false,
            connected: false,
            drain: None,
            grew: false,
            bad: false,
            reassigned: false,
            seen: now,
            since: now,
            first: NONE,
            attempts: 0,
            waiting: 0,
            round_trip: NONE,
            losses: Vec::new(),
            start_failures: Vec::new(),
            probation: 0,
            next_probation: 0,
            timer: u64::MAX,
        }
    }
}

/// A token that is no longer its task's newest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Past {
    pub(super) attempt: u32,
    pub(super) epoch: u32,
    pub(super) answered: bool,
}

impl Scheduler {
    pub(super) fn job_slot(&self, id: JobId) -> Result<u32, EventError> {
        self.ids.get(id.as_u64()).ok_or(EventError::UnknownJob(id))
    }

    /// Where a job stands in its band.
    pub(super) fn key_of_job(&self, job: &Job) -> Key {
        let step = self.specs.get(job.spec as usize).map_or(0, |spec| spec.spec.priority.step());
        (u8::try_from(step).unwrap_or(u8::MAX), job.id.as_u64())
    }

    pub(super) fn array_of(&self, job: &Job) -> Option<&Array> {
        self.arrays.get(job.array)
    }

    pub(super) fn array_mut(&mut self, job: u32) -> Option<&mut Array> {
        let number = self.jobs.get(job)?.array;
        self.arrays.get_mut(number)
    }

    /// Where a task stands; none if the job has no such element.
    pub(super) fn life(&self, task: Task) -> Option<Life> {
        let job = self.jobs.get(task.job)?;
        if job.array == NONE {
            return (task.index == 0).then_some(job.life);
        }
        let array = self.arrays.get(job.array)?;
        if let Some(life) = array.active.get(&task.index) {
            return Some(*life);
        }
        if let Some(done) = array.done.get(task.index) {
            let Done { state, attempt, epoch, answered } = done;
            return Some(Life { attempt, epoch, answered, started: attempt > 0, ..Life::new(state) });
        }
        array.ready.get(task.index).map(|()| Life::new(job.life.state))
    }

    /// Writes where a task stands.
    pub(super) fn set_life(&mut self, task: Task, life: Life) {
        if !self.parted.is_empty() && !life.may_return_elsewhere() {
            self.parted.remove(&task);
        }
        let Some(job) = self.jobs.get_mut(task.job) else { return };
        if job.array == NONE {
            job.life = life;
            return;
        }
        let Some(array) = self.arrays.get_mut(job.array) else { return };
        if life.state.is_terminal() {
            let Life { state, attempt, epoch, answered, .. } = life;
            array.active.remove(&task.index);
            array.ready.remove(task.index, task.index);
            array.done.insert(task.index, task.index, Done { state, attempt, epoch, answered });
        } else {
            array.active.insert(task.index, life);
        }
    }

    pub(super) fn part_of(&self, task: Task) -> JobPart {
        match self.jobs.get(task.job) {
            Some(job) if job.array != NONE => JobPart::Elements(task.index, task.index),
            _ => JobPart::Whole,
        }
    }

    /// Identity, specification and tenant of a job.
    pub(super) fn spec_of(&self, job: u32) -> Option<&Demand> {
        let number = self.jobs.get(job)?.spec;
        Some(&self.specs.get(number as usize)?.spec)
    }

    pub(super) fn tenant_of(&self, job: u32) -> u32 {
        let number = self.jobs.get(job).map_or(NONE, |job| job.spec);
        self.specs.get(number as usize).map_or(NONE, |spec| spec.tenant)
    }

    pub(super) fn tenant_mut(&mut self, tenant: u32) -> Option<&mut Tenant> {
        self.tenants.get_mut(tenant as usize)
    }

    pub(super) fn epoch_number(&self) -> u32 {
        u32::try_from(self.epochs.len().saturating_sub(1)).unwrap_or(0)
    }

    pub(super) fn epoch_at(&self, number: u32) -> Epoch {
        self.epochs.get(number as usize).copied().unwrap_or_default()
    }

    /// The reference of an attempt, as it travels.
    pub(super) fn reference(&self, attempt: &Attempt) -> TaskRef {
        TaskRef {
            job: self.jobs.get(attempt.task.job).map_or(JobId::from_u64(0), |job| job.id),
            index: attempt.task.index,
            member: attempt.member,
            attempt: attempt.number,
            epoch: self.epoch_at(attempt.epoch),
        }
    }

    /// The worker that a key means.
    pub(super) fn worker_at(&self, key: WorkerKey) -> Result<u32, EventError> {
        match self.workers.get(key.index) {
            Some(_) if self.workers.generation(key.index) == key.generation => Ok(key.index),
            _ => Err(EventError::UnknownWorker(key)),
        }
    }

    /// The worker that a task should rather not get, while anything is known of it.
    pub(super) fn avoided(&self, life: &Life) -> u32 {
        self.worker_at(life.avoid).unwrap_or(NONE)
    }

    pub(super) fn key_of(&self, worker: u32) -> WorkerKey {
        WorkerKey { index: worker, generation: self.workers.generation(worker) }
    }

    pub(super) fn worker(&self, worker: u32) -> Result<&Worker, EventError> {
        self.workers.get(worker).ok_or(EventError::Fatal("a worker is missing"))
    }

    pub(super) fn worker_mut(&mut self, worker: u32) -> Result<&mut Worker, EventError> {
        self.workers.get_mut(worker).ok_or(EventError::Fatal("a worker is missing"))
    }

    /// Slots of the attempts on a worker, in the order they came.
    pub(super) fn attempts_on(&self, worker: u32) -> Vec<u32> {
        let mut slots = Vec::new();
        let mut at = self.workers.get(worker).map_or(NONE, |worker| worker.first);
        while let Some(attempt) = self.attempts.get(at) {
            slots.push(at);
            at = attempt.after;
        }
        slots.reverse();
        slots
    }

    /// Slots of all live attempts of a task: one, or one per member of a gang.
    pub(super) fn attempts_of(&self, task: Task, life: &Life) -> Vec<u32> {
        if self.is_gang(task.job) {
            let members = self.gangs.get(&task.job).map_or(&[][..], |members| &members.slots);
            return members.iter().copied().filter(|slot| *slot != NONE).collect();
        }
        self.attempts.get(life.live).map(|_| life.live).into_iter().collect()
    }
}

/// Whether a task counts as waiting in its tenant's usage.
pub(super) const fn waits(state: JobState) -> bool {
    matches!(state, JobState::Pending | JobState::Queued | JobState::Backoff)
}
