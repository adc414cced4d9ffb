//! The fleet and the server at a glance. Owns their shapes.

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
    /// Messages about attempts by what they were worth
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
