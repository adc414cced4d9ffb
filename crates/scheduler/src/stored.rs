//! The state of a scheduler as rows of a database, which [`crate::engine::Scheduler::rebuild`] reads back after a restart. Owns the
//! values; reads and writes nothing. To keep a whole state in a file instead, see [`crate::engine::Scheduler::snapshot`].
//!
//! A store holds one row for each of the types below. Times are monotonic milliseconds of the host that rebuilds: a host
//! keeps wall times and converts them when it loads. What is written when:
//!
//! | row | is written after |
//! |---|---|
//! | [`TenantRow`] | every `TenantChanged` and `QuotaChanged` that was taken: it is what these events say |
//! | [`WorkerRow`] | every event that names the worker, heartbeats and messages aside, and every `WorkerChanged` |
//! | [`JobRow`] | `Admitted`; all but its body is what the submit said and never changes |
//! | [`UnitRow`] | every `JobChanged` of the job, element or gang, and every event by which a worker tells that nothing is left of an attempt; of a gang also every event and every `Cancel`, `Revoke` and `Lost` that names one of its attempts |
//! | [`RangeRow`] | `Admitted` (all elements, Pending) and every `JobChanged` of elements that never left Queued; an element that is assigned leaves its range for a [`UnitRow`] of its own |
//! | [`AttemptRow`] | `Assign`, every event and every `Cancel`, `Revoke`, `Lost` and `Inherited` that names the attempt; it is deleted once [`crate::engine::Scheduler::attempt_row`] knows it no more |
//!
//! So after each call a host looks up the rows of what the event and its effects name; no other row has changed. Rows of final jobs
//! are read back only while an attempt of theirs is not known to have ended. Not stored, and begun anew by a restart:
//! reservations, what was freed by preemption, credit of bands, run times of classes, counts of losses and failed starts
//! of workers, probation, the rate of submits. A worker that is named and has no row means nobody.

use std::collections::BTreeMap;
use std::sync::Arc;

pub use orlop_core::hardware::gpu::GpuShape;
use orlop_core::id::{Epoch, JobId, TenantName, WorkerId};
use orlop_core::machine::job::JobState;
use orlop_core::machine::worker::WorkerState;
use orlop_core::task::TaskRef;
use serde::{Deserialize, Serialize};

use crate::effect::{CancelReason, StartMode};
use crate::engine::MemberEnd;
use crate::event::{Capabilities, DrainOrder, Quota, TenantSettings};
use crate::job::Demand;

/// Everything that a scheduler is rebuilt from, in any order.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Stored {
    /// All tenants that an operator changed; others have the defaults.
    pub tenants: Vec<TenantRow>,
    /// All workers that have not left, and of each id at least the newest incarnation.
    pub workers: Vec<WorkerRow>,
    /// All jobs that are not final, and those of [`Stored::attempts`].
    pub jobs: Vec<JobRow>,
    /// All attempts that are not known to have ended.
    pub attempts: Vec<AttemptRow>,
}

/// A tenant.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TenantRow {
    /// Its name.
    pub name: TenantName,
    /// Its settings.
    pub settings: TenantSettings,
    /// Its limits.
    pub quota: Quota,
}

/// One incarnation of a worker, by names that outlive a server.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Incarnation {
    /// The worker's id.
    pub id: WorkerId,
    /// Which incarnation of it, from 1.
    pub number: u32,
}

/// A worker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WorkerRow {
    /// Who it is.
    pub worker: Incarnation,
    /// Its state.
    pub state: WorkerState,
    /// What it offers, once it has registered.
    pub capabilities: Arc<Capabilities>,
    /// It gets no new work.
    pub cordoned: bool,
    /// It is to finish what it has and leave.
    pub drain: Option<DrainOrder>,
}

/// A job, an array or a gang.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JobRow {
    /// Its id.
    pub job: JobId,
    /// What it asks.
    pub spec: Arc<Demand>,
    /// When it was submitted; 0 if the clock did not run then.
    pub submitted: u64,
    /// Earliest start; one that has passed opens the gate of a job in Pending at once.
    pub not_before: Option<u64>,
    /// When it fails if it has not started: the submit plus `queue_timeout`.
    pub expires: Option<u64>,
    /// Where it stands.
    pub body: Body,
}

/// Where a job stands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Body {
    /// A single job or a gang.
    One(UnitRow),
    /// An array.
    Array(ArrayRow),
}

/// The elements of an array: each is in exactly one range or has a row of its own.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ArrayRow {
    /// The most elements that hold capacity at once.
    pub max_parallel: Option<u32>,
    /// Past this many unsuccessful elements the rest is cancelled.
    pub max_failures: Option<u32>,
    /// Elements that were never assigned.
    pub ranges: Vec<RangeRow>,
    /// Elements that were, by index.
    pub elements: BTreeMap<u32, UnitRow>,
}

/// Neighbouring elements of an array that were never assigned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RangeRow {
    /// The first.
    pub first: u32,
    /// The last.
    pub last: u32,
    /// Pending, Queued or final; of one array never both of the first two.
    pub state: JobState,
}

/// A single job, an element or a gang.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct UnitRow {
    /// Its state.
    pub state: JobState,
    /// Number of its newest attempt ever issued; 0 = none.
    pub attempt: u32,
    /// The epoch of that attempt; 0 before the first.
    pub epoch: Epoch,
    /// That attempt has an accepted result.
    pub answered: bool,
    /// That attempt was given up, so that what it still says may be adopted.
    pub lost: bool,
    /// The worker of that attempt; only it can bring the attempt back.
    pub lost_by: Option<WorkerId>,
    /// It has started once, so that it cannot expire.
    pub started: bool,
    /// Its command could not be started by the worker that it avoids, and has not started anywhere since.
    pub second_try: bool,
    /// Own failures that were retried.
    pub retries: u32,
    /// Infrastructure losses.
    pub infra: u32,
    /// The worker that it should rather not get.
    pub avoid: Option<Incarnation>,
    /// When its backoff ends.
    pub due: Option<u64>,
    /// Attempts before the newest, oldest first. Without them their late messages are unknown instead of stale.
    pub earlier: Vec<TokenRow>,
    /// What a gang's members have said about the newest attempt.
    pub gang: Option<GangRow>,
}

/// A token that is not its unit's newest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenRow {
    /// Number of the attempt.
    pub attempt: u32,
    /// Its epoch.
    pub epoch: Epoch,
    /// It has an accepted result.
    pub answered: bool,
    /// Of a gang, the members that have one, ascending.
    pub members: Vec<u32>,
}

/// How far the members of a gang have come.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GangRow {
    /// Whose result was accepted, by member.
    pub answered: Vec<bool>,
    /// How the first member that failed ended: so will the gang.
    pub ending: Option<GangEnd>,
    /// Whether a member has ended for sure and without success, or members were given up on two workers: then nothing of
    /// this attempt is adopted late.
    pub broken: bool,
}

/// The end that a gang is coming to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GangEnd {
    /// How the member ended, for the scheduler only.
    pub end: MemberEnd,
    /// Where.
    pub worker: Option<Incarnation>,
}

/// An attempt that is not known to have ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AttemptRow {
    /// The attempt with its token.
    pub attempt: TaskRef,
    /// Where it is.
    pub worker: Incarnation,
    /// Which of the kinds of GPUs that would do it holds.
    pub gpu: Option<GpuShape>,
    /// When it was assigned.
    pub assigned_at: u64,
    /// The worker took it.
    pub accepted: bool,
    /// When it started.
    pub started_at: Option<u64>,
    /// It was asked to end.
    pub ending: Option<CancelReason>,
    /// It was given up and may still run.
    pub lost: bool,
    /// When its worker may start it.
    pub start: StartMode,
    /// It was sent ahead and has no slot yet, so that it holds nothing. A store that does not note [`Effect::Inherited`]
    /// may say so of whatever was sent ahead and has not started: when its worker returns it is taken back, or its start is
    /// counted.
    ///
    /// [`Effect::Inherited`]: crate::effect::Effect::Inherited
    pub waiting: bool,
}
