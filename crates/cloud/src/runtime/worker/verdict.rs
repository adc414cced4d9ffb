//! What the end of an attempt means. Owns the rule, the same for every runtime; never looks at a process or container.

use super::event::Cause;
use crate::runtime::process::tree::Ended;
use orlop_core::task::TaskEnd;

/// Why an attempt is being ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    /// Somebody asked.
    Asked(Cause),
    /// Its time is over.
    Timeout,
    /// It wrote more than it may.
    LogLimit,
}

/// What an end means. An attempt that was being ended has not succeeded, whatever its code; a job that ran out of memory while
/// it was being ended was being ended.
pub(super) fn judge(ended: Option<Ended>, why: Option<Why>, oom: bool, success: &[i32]) -> (TaskEnd, &'static str) {
    match why {
        Some(Why::Asked(Cause::Cancel)) => return (TaskEnd::Cancelled, ""),
        Some(Why::Asked(Cause::Preempt)) => return (TaskEnd::Preempted, ""),
        Some(Why::Asked(Cause::Lease)) => return (TaskEnd::Lost, "lease_expired"),
        Some(Why::Timeout) => return (TaskEnd::TimedOut, ""),
        Some(Why::LogLimit) => return (TaskEnd::Failed, "log_limit"),
        None => {}
    }
    match ended {
        _ if oom => (TaskEnd::Failed, "oom"),
        Some(Ended::Exited(code)) if success.contains(&code) || (success.is_empty() && code == 0) => {
            (TaskEnd::Succeeded, "")
        }
        Some(_) => (TaskEnd::Failed, ""),
        None => (TaskEnd::Lost, "no_status"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_an_end_is_judged() {
        let code = |code| Some(Ended::Exited(code));
        let table = [
            (code(0), None, false, &[][..], (TaskEnd::Succeeded, "")),
            (code(3), None, false, &[0, 3], (TaskEnd::Succeeded, "")),
            (code(0), None, false, &[3], (TaskEnd::Failed, "")),
            (Some(Ended::Signalled(9)), None, false, &[], (TaskEnd::Failed, "")),
            (Some(Ended::Signalled(9)), None, true, &[], (TaskEnd::Failed, "oom")),
            (code(0), Some(Why::Timeout), false, &[], (TaskEnd::TimedOut, "")),
            (code(0), Some(Why::Asked(Cause::Cancel)), true, &[], (TaskEnd::Cancelled, "")),
            (code(0), Some(Why::Asked(Cause::Preempt)), false, &[], (TaskEnd::Preempted, "")),
            (code(0), Some(Why::Asked(Cause::Lease)), false, &[], (TaskEnd::Lost, "lease_expired")),
            (code(0), Some(Why::LogLimit), false, &[], (TaskEnd::Failed, "log_limit")),
            (None, None, false, &[], (TaskEnd::Lost, "no_status")),
        ];
        for (ended, why, oom, success, expected) in table {
            assert_eq!(judge(ended, why, oom, success), expected, "{ended:?} {why:?} {oom} {success:?}");
        }
    }
}
