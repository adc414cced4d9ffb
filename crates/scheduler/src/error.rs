//! Errors of events and submissions that are refused. Owns their messages and classes; a refused event has changed nothing.

use orlop_core::error::Class;
use orlop_core::id::JobId;
use orlop_core::machine::{Rejected, job, worker};

use crate::config::ConfigError;
use crate::effect::Refusal;
use crate::engine::{Lacking, Misfit};
use crate::event::OfferError;
use crate::job::DemandError;
use crate::token::WorkerKey;

/// Why a job was not placed on the worker that an operator named.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotAssigned {
    /// It is not queued.
    #[error("it is {0}, only a queued job can be placed")]
    State(job::JobState),
    /// It is a gang, whose members are placed together.
    #[error("it is a gang, whose members are placed together")]
    Gang,
    /// Its array runs as many elements at once as it may.
    #[error("its array runs as many elements as `max_parallel` allows")]
    Window,
    /// Its tenant's jobs do not start.
    #[error("its tenant is paused")]
    Paused,
    /// Its tenant's limits have no room for it.
    #[error("quota: it exceeds the limits of its tenant")]
    Limits,
    /// The worker does not take it.
    #[error("{misfit}{}", lacking.iter().map(|lacking| format!("; {lacking}")).collect::<String>())]
    Worker {
        /// The first filter that turns it down.
        misfit: Misfit,
        /// Every dimension of which the worker has too little.
        lacking: Vec<Lacking>,
    },
}

/// An event that was not taken. Nothing has changed, unless the class is Fatal.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EventError {
    /// The job is not known, or forgotten.
    #[error("job {0} is not known; it was never submitted, or ended long ago")]
    UnknownJob(JobId),
    /// The id is taken.
    #[error("job {0} exists already; every submit needs a new id")]
    DuplicateJob(JobId),
    /// The worker is not known, or another incarnation took its place.
    #[error("worker {0} is not known; it left, or another incarnation took its place")]
    UnknownWorker(WorkerKey),
    /// The worker id has a live incarnation.
    #[error("worker `{0}` has a live incarnation; remove that one first")]
    DuplicateWorker(orlop_core::id::WorkerId),
    /// The specification breaks a bound.
    #[error("job {job}: {source}")]
    Spec {
        /// The job.
        job: JobId,
        /// The bound.
        source: DemandError,
    },
    /// The elements of an array are empty, overlapping, too many, or of a gang.
    #[error("job {job}: an array {problem}")]
    Array {
        /// The job.
        job: JobId,
        /// What is wrong and what to do.
        problem: &'static str,
    },
    /// A tenant's settings break a bound.
    #[error("tenant `{tenant}`: weight {weight} is not allowed; use 1 to 1000")]
    Weight {
        /// The tenant.
        tenant: orlop_core::id::TenantName,
        /// What was given.
        weight: u32,
    },
    /// A value of the configuration is out of its bounds.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The worker offers so little that no job fits.
    #[error("worker `{worker}`: {source}")]
    Offer {
        /// The worker.
        worker: orlop_core::id::WorkerId,
        /// What is wrong with it.
        source: OfferError,
    },
    /// More kinds of GPUs and counters than the table has columns.
    #[error(
        "worker `{worker}`: no column is left for `{name}`: the fleet has 13 kinds of GPUs and extras; advertise fewer"
    )]
    Dimensions {
        /// The worker.
        worker: orlop_core::id::WorkerId,
        /// The first that has none.
        name: String,
    },
    /// The job's state does not take the event.
    #[error("job {id}: {source}")]
    Job {
        /// The job.
        id: JobId,
        /// What it would take.
        source: Box<Rejected<job::JobState, job::Event>>,
    },
    /// The worker's state does not take the event.
    #[error("worker {key}: {source}")]
    Worker {
        /// The worker.
        key: WorkerKey,
        /// What it would take.
        source: Box<Rejected<worker::WorkerState, worker::Event>>,
    },
    /// A worker does not take the job that was to be placed on it.
    #[error("job {job} cannot be placed on worker {worker}: {why}")]
    NotAssigned {
        /// The job.
        job: JobId,
        /// The worker.
        worker: WorkerKey,
        /// Why not.
        why: Box<NotAssigned>,
    },
    /// Rows of a store contradict each other.
    #[error("the store contradicts itself: {what} {problem}; nothing was started, restore the store from a backup")]
    Stored {
        /// Which row.
        what: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// An internal invariant is broken: the entity is set aside, the rest goes on.
    #[error("internal error: {0}; please report it with the events that led here")]
    Fatal(&'static str),
}

impl EventError {
    /// The class of the error, by which a caller decides what to do next.
    #[must_use]
    pub const fn class(&self) -> Class {
        match self {
            Self::UnknownJob(_) | Self::UnknownWorker(_) => Class::NotFound,
            Self::DuplicateJob(_) | Self::DuplicateWorker(_) => Class::Exists,
            Self::Spec { .. } | Self::Array { .. } | Self::Weight { .. } | Self::Offer { .. } | Self::Config(_) => {
                Class::Invalid
            }
            Self::Dimensions { .. } => Class::Capacity,
            Self::Job { .. } | Self::Worker { .. } | Self::NotAssigned { .. } => Class::Conflict,
            Self::Stored { .. } | Self::Fatal(_) => Class::Fatal,
        }
    }
}

/// A job that was not taken by [`Scheduler::submit`](crate::engine::Scheduler::submit).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SubmitError {
    /// The tenant may not submit it, or not now. Nothing of it was kept.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// It breaks a bound, or its id is taken.
    #[error(transparent)]
    NotTaken(#[from] EventError),
}
