//! What happens to the scheduler: the events. Owns the values; decides nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use orlop_core::hardware::gpu::{ModelKey, Vendor};
use orlop_core::id::{JobId, TenantName, WorkerId};
use orlop_core::task::TaskRef;
use serde::{Deserialize, Serialize};

use crate::config::Config;
use crate::job::{Demand, Runtime};
use crate::token::WorkerKey;

/// When a job may start, and until when it must have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct StartWindow {
    /// Earliest start, in monotonic milliseconds of the host.
    pub not_before: Option<u64>,
    /// How long it may wait for its first start, in milliseconds from the submit.
    pub queue_timeout: Option<u64>,
}

/// Which elements an array has, and how they run beside each other.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ArraySpec {
    /// Inclusive ranges of indices, in any order; they may touch but not overlap.
    pub indices: Vec<(u32, u32)>,
    /// The most elements that hold capacity at once, 1 or more.
    pub max_parallel: Option<u32>,
    /// Past this many unsuccessful elements the rest is cancelled.
    pub max_failures: Option<u32>,
}

/// Devices of one kind that a worker has.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct GpuDevices {
    /// Who makes them.
    pub vendor: Vendor,
    /// Their model.
    pub model: ModelKey,
    /// Memory of one device in bytes.
    pub memory_bytes: u64,
    /// How many.
    pub count: u32,
}

/// One device of a worker or one slice of it, for those who look at the worker; what is placed is counted by kind.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct GpuUnit {
    /// Who makes it.
    pub vendor: Vendor,
    /// Its model.
    pub model: ModelKey,
    /// Its number; of a slice, that of its device.
    pub index: u32,
    /// Its UUID.
    pub uuid: String,
}

/// What a worker offers: its machine less what it keeps for itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Capabilities {
    /// Millicores.
    pub cpu_m: u64,
    /// Bytes.
    pub memory_bytes: u64,
    /// Devices by kind.
    #[serde(default)]
    pub gpus: Vec<GpuDevices>,
    /// Devices and slices one by one, those of which the UUID is known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gpu_units: Vec<GpuUnit>,
    /// Counters by name.
    #[serde(default)]
    pub extras: BTreeMap<String, u64>,
    /// Labels, at most 64.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// Features.
    #[serde(default)]
    pub features: BTreeSet<String>,
    /// How it can run jobs.
    pub runtimes: BTreeSet<Runtime>,
    /// The most attempts at once.
    pub max_jobs: u32,
    /// Whose jobs it takes; none = everybody's.
    #[serde(default)]
    pub tenants: BTreeSet<TenantName>,
}

/// Whether a tenant's jobs run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TenantStatus {
    /// They do.
    #[default]
    Active,
    /// They are not ready; what runs goes on.
    Paused,
    /// Nothing is submitted any more.
    Closing,
}

/// What an operator says about a tenant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TenantSettings {
    /// Its weight in fair division, 1 to 1000.
    pub weight: u32,
    /// Whether its jobs run.
    pub status: TenantStatus,
    /// The lowest priority number it may use.
    pub priority_best: u8,
}

impl Default for TenantSettings {
    fn default() -> Self {
        Self { weight: 100, status: TenantStatus::Active, priority_best: 0 }
    }
}

/// What submits do when a placement limit would be passed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnExceed {
    /// Jobs are taken and wait.
    #[default]
    Wait,
    /// Jobs are refused once the demand of active jobs would pass the limit.
    Deny,
}

/// Limits of a tenant; absent = none. Those of submits are checked at submit, the others at every placement.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Quota {
    /// Jobs and elements in Pending, Queued and Backoff.
    pub max_pending_jobs: Option<u64>,
    /// Jobs and elements that are not final.
    pub max_active_jobs: Option<u64>,
    /// Jobs and elements submitted per second, with a burst of two seconds.
    pub submit_per_second: Option<u64>,
    /// Attempts that hold capacity.
    pub max_running_jobs: Option<u64>,
    /// Millicores held.
    pub max_cpu_m: Option<u64>,
    /// Bytes held.
    pub max_memory_bytes: Option<u64>,
    /// GPUs held, of all kinds.
    pub max_gpus: Option<u64>,
    /// GPUs held, by model.
    pub max_gpus_by_kind: BTreeMap<ModelKey, u64>,
    /// The longest `timeout_ms` of a job; a job without one asks for more than any.
    pub max_timeout_ms: Option<u64>,
    /// The most elements of one array.
    pub max_array: Option<u64>,
    /// Bytes of artifacts that are stored; the server's to check, as bytes arrive.
    pub max_artifact_bytes: Option<u64>,
    /// Bytes of the log of one attempt; the server's to check, as the limit of what is submitted.
    pub max_log_bytes_per_job: Option<u64>,
    /// What submits do at a placement limit.
    pub on_exceed: OnExceed,
}

impl Default for Quota {
    fn default() -> Self {
        Self {
            max_pending_jobs: Some(1_000_000),
            max_active_jobs: None,
            submit_per_second: None,
            max_running_jobs: None,
            max_cpu_m: None,
            max_memory_bytes: None,
            max_gpus: None,
            max_gpus_by_kind: BTreeMap::new(),
            max_timeout_ms: None,
            max_array: None,
            max_artifact_bytes: None,
            max_log_bytes_per_job: None,
            on_exceed: OnExceed::default(),
        }
    }
}

impl Quota {
    /// No limit at all.
    #[must_use]
    pub fn unlimited() -> Self {
        Self { max_pending_jobs: None, ..Self::default() }
    }
}

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
    /// It said goodbye.
    Goodbye,
    /// An operator removed it.
    Removed,
    /// Its provisioner failed, or it was refused.
    Refused,
    /// Its id registers from another state directory.
    Superseded,
}

/// Something that has happened.
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
    /// An operator places a queued job, of an array its next element, on a worker now: filters and limits hold, policy and
    /// order do not.
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
    /// Time has passed.
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
    /// A message took this long to a worker and back. Only workers of which this is known are sent jobs ahead.
    RoundTrip {
        /// The worker.
        worker: WorkerKey,
        /// A sample in microseconds.
        micros: u64,
    },
    /// How long the host's turns take, from a message to the answer it causes.
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
