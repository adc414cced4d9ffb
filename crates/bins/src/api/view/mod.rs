//! What is shown of jobs, workers, tenants and tokens: JSON with snake case names and RFC 3339 times. Computes nothing.

pub(super) mod artifact;
pub(super) mod explain;
pub(super) mod fleet;
pub(super) mod flow;
pub(super) mod flow_check;
pub(super) mod flow_order;
pub(super) mod flow_state;
pub(super) mod job;
pub(super) mod join_token;
pub(super) mod list;
pub(super) mod live;
pub(super) mod problem;
pub(super) mod secret;
pub(super) mod session;
pub(super) mod spec;
pub(super) mod tenant;
pub(super) mod token;
pub(super) mod worker;

use orlop_core::time::Time;

/// A time as it is shown.
pub(super) fn time(time: Time) -> String {
    time.to_string()
}

/// A time that may be missing.
pub(super) fn times(time: Option<Time>) -> Option<String> {
    time.map(|time| time.to_string())
}
