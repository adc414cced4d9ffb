//! What an explanation says. Owns its values and their words; finds nothing out.

use std::collections::BTreeMap;
use std::fmt;

use orlop_core::hardware::gpu::ModelKey;
use orlop_core::hardware::placement::LabelExpr;
use orlop_core::id::JobId;
use orlop_core::machine::job::JobState;

use crate::effect::Limit;
use crate::job::{Band, Resources, Runtime};
use crate::token::WorkerKey;

/// Why a worker does not get a job; the filters are asked in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Misfit {
    /// It is not connected yet, drains or has left.
    State,
    /// It is unhealthy.
    Health,
    /// It is cordoned.
    Cordon,
    /// It is reserved for another job.
    Reserved,
    /// It takes jobs of other tenants only.
    Tenant,
    /// A label condition does not hold.
    Labels,
    /// It lacks a feature.
    Features,
    /// It cannot run this kind of job.
    Runtime,
    /// Its whole capacity is too small.
    NeverFits,
    /// It has as many attempts as it may.
    MaxJobs,
    /// Its free capacity is too small.
    Capacity,
    /// More of some resource is held than it has, since its capacity became smaller.
    Overdrawn,
    /// The job failed there, and other workers could hold it.
    Avoided,
}

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::State => "state",
            Self::Health => "health",
            Self::Cordon => "cordoned",
            Self::Reserved => "reserved",
            Self::Tenant => "tenant",
            Self::Labels => "labels",
            Self::Features => "features",
            Self::Runtime => "runtime",
            Self::NeverFits => "never fits",
            Self::MaxJobs => "max jobs",
            Self::Capacity => "capacity",
            Self::Overdrawn => "overdrawn",
            Self::Avoided => "avoided",
        })
    }
}

/// A dimension of which a worker has too little.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lacking {
    /// Which: `cpu`, `memory`, `slots`, `gpu <vendor>/<model>`, or the counter's name.
    pub dimension: String,
    /// Its unit: `m` for cpu (millicores), `Mi` for memory, else empty.
    pub task: &'static str,
    /// What the job needs.
    pub needs: i128,
    /// What the worker has free; below 0 where more is held than there is.
    pub free: i128,
    /// What the worker has in total.
    pub total: i128,
}

impl fmt::Display for Lacking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { dimension, task, needs, free, total } = self;
        write!(f, "{dimension}: needs {needs}{task}, free {free}{task} of {total}{task}")
    }
}

/// A condition of a job that a worker does not meet.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unmet {
    /// A label condition, and what the worker has under that key.
    Label(LabelExpr, Option<String>),
    /// A feature that it does not have.
    Feature(String),
    /// A runtime that it does not have, and those that it has.
    Runtime(Runtime, Vec<Runtime>),
}

impl fmt::Display for Unmet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Label(wanted, Some(value)) => write!(f, "label: needs {wanted}, it is `{value}`"),
            Self::Label(wanted, None) => write!(f, "label: needs {wanted}, it is not set"),
            Self::Feature(name) => write!(f, "feature: needs `{name}`"),
            Self::Runtime(wanted, offered) => {
                let offered: Vec<String> = offered.iter().map(ToString::to_string).collect();
                write!(f, "runtime: needs `{wanted}`, it has {}", offered.join(", "))
            }
        }
    }
}

/// How many members of a gang workers have room for, those together that it may use together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GangRoom {
    /// How many it has.
    pub size: u32,
    /// How many fit what is free now.
    pub now: u64,
    /// How many fit the whole capacity of registered workers.
    pub ever: u64,
    /// A worker has not said yet what it has.
    pub unknown: bool,
}

impl fmt::Display for GangRoom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { size, now, ever, .. } = self;
        write!(f, "gang: needs {size} members at once, {now} fit now, {ever} fit the whole fleet")
    }
}

/// Whether one worker fits a job, and why not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerFit {
    /// The worker.
    pub worker: WorkerKey,
    /// The first filter that refuses it; none: it fits.
    pub misfit: Option<Misfit>,
    /// Every dimension of which it has too little.
    pub lacking: Vec<Lacking>,
    /// Every label, feature and runtime that it does not have.
    pub unmet: Vec<Unmet>,
}

impl WorkerFit {
    /// All that it lacks, in words.
    pub fn lacks(&self) -> impl Iterator<Item = String> {
        self.lacking.iter().map(ToString::to_string).chain(self.unmet.iter().map(ToString::to_string))
    }
}

/// A limit of the tenant's that has no room for one more attempt (of a gang: for all its members).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitReached {
    /// Which.
    pub limit: Limit,
    /// Of which GPUs, if it is `max_gpus_by_kind`.
    pub model: Option<ModelKey>,
    /// What is used, in the task of the limit: millicores, bytes, devices, attempts.
    pub used: u64,
    /// What it needs.
    pub needs: u64,
    /// The limit.
    pub most: u64,
}

impl fmt::Display for LimitReached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { limit, model, used, needs, most } = self;
        write!(f, "{limit}")?;
        if let Some(model) = model {
            write!(f, "[{model}]")?;
        }
        write!(f, ": needs {needs}, {used} of {most} are used")
    }
}

/// What keeps a job that has not ended from being placed at all, before any worker is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Obstacle {
    /// It may not start before, in monotonic milliseconds.
    NotBefore(u64),
    /// It failed, and its next attempt waits until then, in monotonic milliseconds.
    Backoff(u64),
    /// Its tenant is paused.
    TenantPaused,
    /// So many of its elements hold capacity, which is `max_parallel`.
    Window(u32),
    /// Limits of its tenant, all that are in the way.
    Quota(Vec<LimitReached>),
    /// Its tenant reserves its limits for this job, which they have stopped for long.
    QuotaReserved(JobId),
}

/// Workers that are kept for a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReservedWorkers {
    /// The workers; of a gang, several.
    pub workers: Vec<WorkerKey>,
    /// When they are free at the latest, by the time limits of what runs there, in monotonic milliseconds; absent: unknown.
    pub shadow: Option<u64>,
}

/// Why a job is in its state: what it waits for, and what each worker lacks for it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Explanation {
    /// Its state.
    pub state: JobState,
    /// Its band.
    pub band: Band,
    /// Dominant share of its tenant divided by weight.
    pub tenant_share: f64,
    /// How many tenants with waiting jobs in this band come before its own.
    pub tenant_rank: usize,
    /// How many jobs of its tenant, band and class come before it; counted up to 1000, and none if it does not wait.
    pub position: Option<usize>,
    /// What blocks it before workers are considered; absent = nothing does, or it does not wait.
    pub obstacle: Option<Obstacle>,
    /// What is kept for it.
    pub reservation: Option<ReservedWorkers>,
    /// Since when its class fits nowhere, in monotonic milliseconds.
    pub blocked_since: Option<u64>,
    /// Of a gang, how many members there is room for.
    pub gang: Option<GangRoom>,
    /// The result for each worker, in the order of their keys; workers that left are not among them.
    pub workers: Vec<WorkerFit>,
    /// How many workers each filter refuses.
    pub counts: BTreeMap<Misfit, usize>,
    /// The worker that comes nearest: it lacks the least, measured against its own capacity.
    pub nearest: Option<WorkerKey>,
}

impl Explanation {
    /// Whether no registered worker could ever hold it.
    #[must_use]
    pub fn is_infeasible(&self) -> bool {
        let never = |misfit: &Misfit| {
            matches!(misfit, Misfit::Tenant | Misfit::Labels | Misfit::Features | Misfit::Runtime | Misfit::NeverFits)
        };
        let parted = self.gang.is_some_and(|gang| gang.ever < u64::from(gang.size) && !gang.unknown);
        parted || self.workers.iter().all(|fit| fit.misfit.as_ref().is_some_and(never))
    }
}

/// The demand of jobs of one class that no worker has room for: what a provisioner would have to add.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnmetDemand {
    /// What one attempt asks.
    pub resources: Resources,
    /// Jobs, elements and gang members that wait.
    pub waiting: u64,
    /// Since when the class fits nowhere, in monotonic milliseconds.
    pub since: u64,
}
