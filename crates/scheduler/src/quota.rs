//! What an operator says of a tenant: its settings and its limits. Owns the values and how they are built; what follows
//! from them stands with the tenant.

use std::collections::BTreeMap;

use orlop_core::hardware::gpu::ModelKey;
use serde::{Deserialize, Serialize};

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
///
/// ```
/// use orlop_scheduler::prelude::*;
///
/// let mut scheduler = Scheduler::new(Config::without_timeouts(), 7)?;
/// let mut effects = Vec::new();
/// scheduler.join(0, "w1".parse()?, Capabilities::new(8000, 16 << 30), &mut effects)?;
/// let tenant: TenantName = "physics".parse()?;
/// let quota = Quota::default().max_running_jobs(2).max_cpu_m(4000);
/// scheduler.apply(0, Event::QuotaChanged { tenant: tenant.clone(), quota }, &mut effects)?;
/// for number in 1..=5 {
///     let job = Submission::new(JobId::from_u64(number), Demand::new(tenant.clone()));
///     scheduler.submit(0, job, &mut effects)?;
/// }
/// // The worker has room for all of them.
/// assert_eq!(scheduler.round(0, u32::MAX, &mut effects).placed, 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
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

    /// With at most `most` jobs and elements that wait.
    #[must_use]
    pub fn max_pending_jobs(mut self, most: u64) -> Self {
        self.max_pending_jobs = Some(most);
        self
    }

    /// With at most `most` jobs and elements that are not final.
    #[must_use]
    pub fn max_active_jobs(mut self, most: u64) -> Self {
        self.max_active_jobs = Some(most);
        self
    }

    /// With at most `most` jobs and elements submitted per second.
    #[must_use]
    pub fn submit_per_second(mut self, most: u64) -> Self {
        self.submit_per_second = Some(most);
        self
    }

    /// With at most `most` attempts at once.
    #[must_use]
    pub fn max_running_jobs(mut self, most: u64) -> Self {
        self.max_running_jobs = Some(most);
        self
    }

    /// With at most `most` millicores at once.
    #[must_use]
    pub fn max_cpu_m(mut self, most: u64) -> Self {
        self.max_cpu_m = Some(most);
        self
    }

    /// With at most `most` bytes of memory at once.
    #[must_use]
    pub fn max_memory_bytes(mut self, most: u64) -> Self {
        self.max_memory_bytes = Some(most);
        self
    }

    /// With at most `most` GPUs of all kinds at once.
    #[must_use]
    pub fn max_gpus(mut self, most: u64) -> Self {
        self.max_gpus = Some(most);
        self
    }

    /// With at most `most` GPUs of one model at once.
    #[must_use]
    pub fn max_gpus_of(mut self, model: ModelKey, most: u64) -> Self {
        self.max_gpus_by_kind.insert(model, most);
        self
    }

    /// Refusing, or letting wait, what passes a limit of what runs.
    #[must_use]
    pub fn on_exceed(mut self, what: OnExceed) -> Self {
        self.on_exceed = what;
        self
    }
}
