//! The fleet and the server at a glance.

use std::collections::BTreeMap;

use serde::Serialize;
use utoipa::ToSchema;

use super::tenant::UsageView;

/// The fleet at one moment.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Stats {
    /// leading, standby, restoring or stopped
    pub(crate) status: &'static str,
    pub(crate) epoch: u64,
    pub(crate) at: String,
    /// Jobs that are not final, arrays and gangs counting as one
    pub(crate) jobs: u64,
    pub(crate) allocation: Allocation,
    /// Workers by state
    pub(crate) workers: BTreeMap<String, u64>,
    /// What the tenants hold that the caller sees
    pub(crate) tenants: Vec<UsageView>,
    /// What waits by band, arrays counting as one
    pub(crate) bands: Vec<BandQueue>,
    /// What waits by tenant and band, of the tenants that the caller sees
    pub(crate) queues: Vec<TenantQueueView>,
    /// What fits no worker now, the longest waiting first, of the tenants that the caller sees
    pub(crate) blocked: Vec<BlockedView>,
    /// Jobs and elements since this server began to lead
    pub(crate) totals: TotalsView,
    /// Messages about attempts by verdict
    pub(crate) verdicts: BTreeMap<&'static str, u64>,
}

/// Allocation of the whole fleet, against the band of 60 to 85 percent.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Allocation {
    /// Workers whose capacity counts
    pub(crate) workers: u64,
    /// Allocated share of all processors, 0 to 1
    pub(crate) cpu: f64,
    /// Allocated share of all memory, 0 to 1
    pub(crate) memory: f64,
    /// Workers below, in and above the band
    pub(crate) below: u64,
    #[serde(rename = "in")]
    pub(crate) within: u64,
    pub(crate) above: u64,
}

/// What waits in a band.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct BandQueue {
    /// high, normal or low
    pub(crate) band: &'static str,
    /// Those whose turn can come
    pub(crate) ready: u64,
    /// Those that fit no worker now
    pub(crate) blocked: u64,
    /// Those that a quota stops
    pub(crate) quota: u64,
    /// Those that are not due yet
    pub(crate) pending: u64,
}

/// What waits of a tenant in a band.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = TenantQueue)]
pub(crate) struct TenantQueueView {
    pub(crate) tenant: String,
    /// high, normal or low
    pub(crate) band: &'static str,
    /// Those whose turn can come
    pub(crate) ready: u64,
    /// Those that fit no worker now
    pub(crate) blocked: u64,
    /// Those that the tenant's quota stops
    pub(crate) quota: u64,
}

/// Jobs of one shape that fit no worker now.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Blocked)]
pub(crate) struct BlockedView {
    pub(crate) tenant: String,
    /// high, normal or low
    pub(crate) band: &'static str,
    /// How many wait, arrays counting as one
    pub(crate) jobs: u64,
    /// The first of them; `GET /jobs/{id}/explain` shows what each worker lacks
    pub(crate) first: String,
    pub(crate) since: String,
    pub(crate) cpu_m: u64,
    pub(crate) memory_bytes: u64,
    pub(crate) gpus: u32,
}

/// Counts of jobs and elements.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Totals)]
pub(crate) struct TotalsView {
    pub(crate) submitted: u64,
    /// Every attempt
    pub(crate) started: u64,
    pub(crate) ended: u64,
}

/// Whether the server is well.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Health {
    /// live, leading or standby
    pub(crate) status: &'static str,
}

/// What this server is.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Version {
    pub(crate) version: &'static str,
    pub(crate) api: &'static str,
}
