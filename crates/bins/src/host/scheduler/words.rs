//! Words under which reasons are stored and shown.

use std::borrow::Cow;

use orlop_core::ports::fleet_store::Text;
use orlop_scheduler::effect::{Reason, WorkerReason};

/// Why a job changed its state; none where the state says it all.
#[must_use]
pub(super) fn reason(reason: Reason) -> Option<Text> {
    let word = match reason {
        Reason::Expired => "expired",
        Reason::Cancelled => "cancelled",
        Reason::MaxFailures => "max_failures",
        Reason::InfraLimit => "infra_limit",
        Reason::Permanent => "permanent",
        Reason::Exit(Some(_)) => "exit",
        Reason::Exit(None) => "signal",
        Reason::TimedOut => "timed_out",
        Reason::StartFailed => "start_failed",
        Reason::Command(_) => "command",
        Reason::Rejected => "rejected",
        Reason::WorkerLost => "worker_lost",
        Reason::Revoked => "revoked",
        Reason::Preempted => "preempted",
        Reason::Drained => "drained",
        Reason::Adopted => "adopted",
        Reason::GangEnded => "gang_ended",
        _ => return None,
    };
    Some(Cow::Borrowed(word))
}

/// Why a worker changed its state; empty where the state says it all.
#[must_use]
pub(super) fn worker_reason(reason: WorkerReason) -> &'static str {
    match reason {
        WorkerReason::Timeout => "timeout",
        WorkerReason::Refused => "refused",
        WorkerReason::ConnectionLost => "connection_lost",
        WorkerReason::Silent => "silent",
        WorkerReason::ReportBad => "report_bad",
        WorkerReason::StartFailures => "start_failures",
        WorkerReason::Losses => "losses",
        WorkerReason::Drained => "drained",
        WorkerReason::Gone => "gone",
        WorkerReason::Superseded => "superseded",
        WorkerReason::ServerRestarted => "server_restarted",
        _ => "",
    }
}
