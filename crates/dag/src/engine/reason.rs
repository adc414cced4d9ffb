//! Words for reasons, causes and notices.

pub(crate) const CONDITION_FALSE: &str = "ConditionFalse";
pub(crate) const CONDITION_ERROR: &str = "ConditionError";
pub(crate) const DEPENDS_FALSE: &str = "DependsFalse";
pub(crate) const DEPENDENCY_FAILED: &str = "DependencyFailed";
pub(crate) const DEPENDENCY_SKIPPED: &str = "DependencySkipped";
pub(crate) const EMPTY_FAN_OUT: &str = "EmptyFanOut";
pub(crate) const FAILURE_IGNORED: &str = "FailureIgnored";
pub(crate) const FAILURE_COUNTED: &str = "FailureCounted";
pub(crate) const REUSED: &str = "Reused";
pub(crate) const REJECTED: &str = "Rejected";
pub(crate) const APPROVAL_TIMED_OUT: &str = "ApprovalTimedOut";
pub(crate) const TIMEOUT: &str = "Timeout";
pub(crate) const PENDING_TIMEOUT: &str = "PendingTimeout";
pub(crate) const NAME_CONFLICT: &str = "NameConflict";
pub(crate) const JOB_MISSING: &str = "JobMissing";
pub(crate) const LOST: &str = "Lost";
pub(crate) const OUTPUT_MISSING: &str = "OutputMissing";
pub(crate) const OUTPUT_TOO_LARGE: &str = "OutputTooLarge";
pub(crate) const PARAMETER_UNRESOLVED: &str = "ParameterUnresolved";
pub(crate) const RETRY_SCHEDULED: &str = "RetryScheduled";
pub(crate) const QUEUED: &str = "Queued";
pub(crate) const STARTING: &str = "Starting";
pub(crate) const CANCELLING: &str = "Cancelling";

pub(crate) const FLOW_FAILED: &str = "FlowFailed";
pub(crate) const BACKOFF_LIMIT: &str = "BackoffLimitExceeded";
pub(crate) const DEADLINE: &str = "ActiveDeadlineExceeded";
pub(crate) const STOPPED: &str = "Stopped";
pub(crate) const TERMINATED: &str = "Terminated";
pub(crate) const REPLACED: &str = "Replaced";
pub(crate) const FINALLY_FAILED: &str = "FinallyFailed";

/// Whether a halt cause is an order of a person or of another flow, which counts only where it cut something off.
pub(crate) fn is_order(cause: &str) -> bool {
    matches!(cause, STOPPED | TERMINATED | REPLACED)
}

/// Whether a start was put off for want of room, of an answer or of a right: the flow shows `Blocked`.
pub(crate) fn is_short(reason: &str) -> bool {
    matches!(reason, "QuotaExceeded" | "Throttled" | "ApiUnavailable" | "Forbidden")
}

/// Whether a step reason is a halt cause.
pub(crate) fn is_halt(reason: &str) -> bool {
    is_order(reason) || matches!(reason, FLOW_FAILED | BACKOFF_LIMIT | DEADLINE)
}

/// Causes of a failed flow that its message names.
pub(crate) fn causes() -> impl Iterator<Item = &'static str> {
    [BACKOFF_LIMIT, DEADLINE, STOPPED, TERMINATED, REPLACED, FINALLY_FAILED].into_iter()
}
