//! Words of the core's reasons as the store has them.

use std::borrow::Cow;

use orlop_core::ports::fleet_store::Text;
use orlop_scheduler::effect::{Reason, WorkerReason};

/// Why a job changed its state; none where the state says it all.
#[must_use]
pub(super) fn reason(reason: Reason) -> Option<Text> {
    reason.word().map(Cow::Borrowed)
}

/// Why a worker changed its state; empty where the state says it all.
#[must_use]
pub(super) fn worker_reason(reason: WorkerReason) -> &'static str {
    reason.word()
}
