//! Finding things: units by reference, lives by task, records by slot. Owns how an element that was never touched looks;
//! changes lives only as a whole.

use orlop_core::id::{Epoch, JobId};
use orlop_core::machine::job::JobState;
use orlop_core::task::TaskRef;

use super::Scheduler;
use super::record::{Array, Attempt, Done, Job, Life, Task, Worker};
use crate::effect::JobPart;
use crate::error::EventError;
use crate::job::Demand;
use crate::queue::Key;
use crate::table::NONE;
use crate::tenant::Tenant;
use crate::token::WorkerKey;

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
