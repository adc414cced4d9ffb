//! Events: what a host tells a scheduler. Owns the values; decides nothing.

use std::sync::Arc;

use orlop_core::id::{JobId, TenantName, WorkerId};
use orlop_core::task::TaskRef;
use serde::{Deserialize, Serialize};

use crate::config::Config;
use crate::job::Demand;
pub use crate::offer::{Capabilities, GpuDevices, GpuKindError, GpuUnit, OfferError};
pub use crate::quota::{OnExceed, Quota, TenantSettings, TenantStatus};
pub use crate::submission::{ArraySpec, StartWindow, Submission};
use crate::token::WorkerKey;

/// How an attempt ended, as its worker says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Outcome {
    /// With an exit code of success.
    Succeeded,
    /// With any other exit, by a signal or for a reason of its own.
    Failed {
        /// The exit code; absent when a signal ended it.
        exit_code: Option<i32>,
    },
    /// Over its wall limit.
    TimedOut,
    /// Told to end.
    Cancelled,
    /// Its process or container could not be started.
    StartFailed {
        /// Another worker would not help: a secret, artifact or image is missing.
        permanent: bool,
    },
    /// Its command could not be started: it was not found, may not be run, or has no interpreter or working directory.
    CannotStart {
        /// As a shell would say it: 127 for a command that was not found, 126 for others.
        exit_code: i32,
    },
    /// The worker lost it, for example over a restart of its agent.
    Lost,
}

/// An attempt that a worker still has when it connects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Kept {
    /// The attempt.
    pub attempt: TaskRef,
    /// Whether its process has started.
    pub started: bool,
}

/// How a worker should leave.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct DrainOrder {
    /// When the attempts that are left are cancelled, in monotonic milliseconds of the host.
    pub deadline: Option<u64>,
    /// Its host shuts down: the drain cannot be withdrawn.
    pub host_shutdown: bool,
}

/// Why a worker is gone for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Departure {
    /// It left by itself.
    Goodbye,
    /// An operator removed it.
    Removed,
    /// Its provisioner failed, or it was refused.
    Refused,
    /// Its id registers from another state directory.
    Superseded,
}

/// Something that has happened, for [`Scheduler::apply`](crate::engine::Scheduler::apply). A program that runs the jobs itself needs few
/// of them: [`join`](crate::engine::Scheduler::join), [`submit`](crate::engine::Scheduler::submit) and
/// [`finish`](crate::engine::Scheduler::finish) stand for the usual ones.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Event {
    /// A single job or a gang was submitted.
    Submit {
        /// Its id, unique; jobs of equal priority start in the order of their ids.
        job: JobId,
        /// What it asks.
        spec: Arc<Demand>,
        /// When it may start.
        gate: StartWindow,
    },
    /// An array was submitted.
    SubmitArray {
        /// Its id, unique.
        job: JobId,
        /// What each element asks.
        spec: Arc<Demand>,
        /// When it may start.
        gate: StartWindow,
        /// Its elements.
        array: ArraySpec,
    },
    /// Somebody cancelled a job, or elements of it.
    Cancel {
        /// The job.
        job: JobId,
        /// Inclusive range of elements; absent = all of it.
        elements: Option<(u32, u32)>,
    },
    /// An operator places a queued job, or the next element of an array, on a worker now. Requirements and limits hold; policy and order
    /// of the queue do not.
    AssignJob {
        /// The job.
        job: JobId,
        /// The worker.
        worker: WorkerKey,
    },
    /// An operator created or changed a tenant.
    TenantChanged {
        /// The tenant.
        tenant: TenantName,
        /// What it is now.
        settings: TenantSettings,
    },
    /// An operator changed a tenant's limits.
    QuotaChanged {
        /// The tenant.
        tenant: TenantName,
        /// What they are now.
        quota: Quota,
    },
    /// The configuration was loaded again.
    ConfigChanged {
        /// What it is now.
        config: Box<Config>,
    },
    /// Time has passed: due timers fire.
    Tick,
    /// A worker was declared, or heard of for the first time; also the next incarnation of one that left.
    WorkerDeclared {
        /// Its id.
        id: WorkerId,
    },
    /// A worker registered.
    Registered {
        /// The worker.
        worker: WorkerKey,
        /// What it offers.
        capabilities: Arc<Capabilities>,
    },
    /// A worker's stream is open and synced.
    Connected {
        /// The worker.
        worker: WorkerKey,
        /// Every attempt it still has.
        kept: Vec<Kept>,
    },
    /// A worker's capacity or labels changed.
    Updated {
        /// The worker.
        worker: WorkerKey,
        /// What it offers now.
        capabilities: Arc<Capabilities>,
    },
    /// A worker's stream broke.
    ConnectionLost {
        /// The worker.
        worker: WorkerKey,
    },
    /// A message took this long to a worker and back. Jobs are sent ahead only to workers whose round trip is known.
    RoundTrip {
        /// The worker.
        worker: WorkerKey,
        /// A sample in microseconds.
        micros: u64,
    },
    /// How long the host takes from a message to its answer.
    TurnTime {
        /// Their 99th percentile in microseconds.
        micros: u64,
    },
    /// A worker is alive.
    Heartbeat {
        /// The worker.
        worker: WorkerKey,
    },
    /// A worker reported on itself.
    HealthReport {
        /// The worker.
        worker: WorkerKey,
        /// Whether all its checks passed.
        good: bool,
    },
    /// A worker is to finish what it has and leave.
    Drain {
        /// The worker.
        worker: WorkerKey,
        /// How.
        order: DrainOrder,
    },
    /// A drain was withdrawn.
    Undrain {
        /// The worker.
        worker: WorkerKey,
    },
    /// A worker is to get no new work.
    Cordon {
        /// The worker.
        worker: WorkerKey,
    },
    /// A worker may get new work again.
    Uncordon {
        /// The worker.
        worker: WorkerKey,
    },
    /// A worker is gone for good.
    Remove {
        /// The worker.
        worker: WorkerKey,
        /// Why.
        why: Departure,
    },
    /// A worker took an attempt.
    Accepted {
        /// The attempt.
        attempt: TaskRef,
        /// The worker that says so.
        worker: WorkerKey,
    },
    /// A worker refused an attempt.
    Rejected {
        /// The attempt.
        attempt: TaskRef,
        /// The worker that says so.
        worker: WorkerKey,
        /// Another worker would not help.
        permanent: bool,
    },
    /// An attempt has started.
    Started {
        /// The attempt.
        attempt: TaskRef,
        /// The worker that says so.
        worker: WorkerKey,
    },
    /// An attempt has ended.
    Result {
        /// The attempt.
        attempt: TaskRef,
        /// The worker that says so.
        worker: WorkerKey,
        /// How.
        outcome: Outcome,
        /// How long it ran by the clock of its worker, in milliseconds; none = from when its start was heard of until now.
        /// News gather on their way, so that what is heard says little of how long a short attempt ran.
        ran_ms: Option<u64>,
    },
    /// An attempt was taken back before it started.
    Revoked {
        /// The attempt.
        attempt: TaskRef,
        /// The worker that says so.
        worker: WorkerKey,
    },
}

impl From<Submission> for Event {
    fn from(submission: Submission) -> Self {
        let Submission { job, demand: spec, window: gate, array } = submission;
        match array {
            Some(array) => Self::SubmitArray { job, spec, gate, array },
            None => Self::Submit { job, spec, gate },
        }
    }
}
