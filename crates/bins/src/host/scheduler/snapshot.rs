//! What readers see of the fleet without asking the loop: an immutable snapshot, swapped whole.

use std::collections::BTreeMap;
use std::sync::Arc;

use orlop_core::id::{Epoch, TenantName, WorkerId};
use orlop_core::time::Time;
use orlop_scheduler::engine::{BlockedQueue, FleetUse, TenantQueue, TenantView, Waiting, WorkerView};
use orlop_scheduler::event::Capabilities;

use crate::api::auth::Scope;
use crate::wire::status::WorkerStatus;

/// How a worker is to leave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DrainSnapshot {
    /// Why, as given in the request; empty = not given.
    pub reason: String,
    /// When what is left on it is cancelled; none = never.
    pub deadline: Option<Time>,
    /// The host itself goes: it cannot be withdrawn.
    pub host_shutdown: bool,
}

/// Counts of jobs and elements since this server began to lead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Taken.
    pub submitted: u64,
    /// Started, every attempt.
    pub started: u64,
    /// Ended for good.
    pub ended: u64,
}

/// A worker as people see it.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkerSnapshot {
    /// As the core sees it.
    pub view: WorkerView,
    /// What it offers.
    pub capabilities: Arc<Capabilities>,
    /// Version of its agent.
    pub agent_version: String,
    /// Since when it is in its state.
    pub since: Time,
    /// Why.
    pub reason: String,
    /// When it registered.
    pub registered_at: Option<Time>,
    /// What it last reported.
    pub status: Option<Arc<WorkerStatus>>,
    /// Its stream is up.
    pub connected: bool,
    /// It is to leave.
    pub drain: Option<DrainSnapshot>,
}

impl WorkerSnapshot {
    /// Whose jobs it takes.
    #[must_use]
    pub fn whose(&self) -> Scope {
        match self.capabilities.tenants.is_empty() {
            true => Scope::All,
            false => Scope::Tenants(self.capabilities.tenants.clone()),
        }
    }
}

/// The fleet at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Snapshot {
    /// Of which term of leadership; 0 = none yet.
    pub epoch: Epoch,
    /// When it was taken.
    pub at: Time,
    /// Jobs that are not final, arrays and gangs counting as one.
    pub jobs: u64,
    /// Allocation of the whole fleet.
    pub fleet: FleetUse,
    /// Workers by id; of each the newest incarnation.
    pub workers: BTreeMap<WorkerId, WorkerSnapshot>,
    /// Tenants by name.
    pub tenants: BTreeMap<TenantName, TenantView>,
    /// Messages about attempts by their verdict: unknown, duplicate, accepted, adopted, stale.
    pub verdicts: [u64; 5],
    /// What waits in queues, by band and by why.
    pub waiting: Waiting,
    /// Tasks that wait outside the queues, by band: their gate is closed, or their next attempt is not due.
    pub gated: [u64; 3],
    /// What waits by tenant and band.
    pub queues: Vec<TenantQueue>,
    /// What fits nowhere, the longest waiting first, each with the time since when.
    pub blocked: Vec<(BlockedQueue, Time)>,
    /// What has happened to jobs so far.
    pub totals: Totals,
}

/// The most queues that a snapshot tells to fit nowhere.
pub(super) const BLOCKED: usize = 20;
/// The least time between two snapshots while the server is busy, in milliseconds.
pub(super) const EVERY: u64 = 100;
/// The same where nothing has happened but that workers reported how they are: a thousand idle ones are to cost little.
pub(super) const REPORTS: u64 = 1000;
