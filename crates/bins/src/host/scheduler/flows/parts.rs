//! What the host of a flow of this server works with.

use std::sync::Arc;

use orlop_core::error::Problem;
use orlop_core::ports::journal::FlowRecord;

use super::Inner;
use super::facts::{facts, tenant};
use super::jobs::ServerFleet;
use crate::host::flow::HostParts;
use crate::host::flow::fleet::FleetSubstrate;

/// What the host of a flow works with.
pub(super) fn parts(inner: &Inner, record: &FlowRecord) -> Result<HostParts, Problem> {
    let fleet = ServerFleet::new(inner.handle.clone(), tenant(record)?);
    let substrate = FleetSubstrate::new(Arc::new(fleet), facts(record)?);
    Ok(HostParts::new(Arc::new(substrate), Arc::clone(&inner.journal) as _))
}
