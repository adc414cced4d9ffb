//! How an attempt ended, as the end of its job.

use std::collections::BTreeMap;

use orlop_cloud::runtime::logs::now;
use orlop_cloud::runtime::worker::{AttemptEnd as JobEnd, Cause, LogTotals};
use orlop_core::attempt::{AttemptEnd, EndResult};
use orlop_core::error::{Class, Problem};
use orlop_core::task::TaskEnd;
use orlop_core::time::Time;

use super::files::EndCause;
use crate::host::flow::fleet::END;
use crate::wire::bound::OUTPUTS_MAX;

/// Exit code of an attempt that was asked to end: as a shell shows SIGTERM.
const CANCELLED: i32 = 143;

/// The longest end in bytes: what a result may hold, less the name.
const MAX: usize = OUTPUTS_MAX - 256;

/// The end of the job of an attempt. `cause`: why it was asked to end.
pub(super) fn job_end(end: &AttemptEnd, cause: Option<EndCause>, started_at: Option<Time>, log: LogTotals) -> JobEnd {
    // A step that succeeded or failed before it was stopped keeps that result, unless it exceeded its log limit.
    let is_own = matches!(end.result, EndResult::Succeeded | EndResult::Failed { .. });
    let (outcome, reason) = match cause.filter(|cause| !is_own || *cause == EndCause::LogLimit) {
        Some(EndCause::Asked(Cause::Cancel)) => (TaskEnd::Cancelled, ""),
        Some(EndCause::Asked(Cause::Preempt)) => (TaskEnd::Preempted, ""),
        Some(EndCause::Asked(Cause::Lease)) => (TaskEnd::Lost, "lease_expired"),
        Some(EndCause::Timeout) => (TaskEnd::TimedOut, ""),
        Some(EndCause::LogLimit) => (TaskEnd::Failed, "log_limit"),
        Some(EndCause::Refused) | None if end.result == EndResult::Succeeded => (TaskEnd::Succeeded, ""),
        Some(EndCause::Refused) | None => (TaskEnd::Failed, ""),
    };
    let outputs = BTreeMap::from([(END.to_owned(), text(end))]);
    JobEnd { exit_code: Some(exit_code(end)), started_at, outputs, log, ..JobEnd::without_run(outcome, reason, now()) }
}

/// The exit code of the job: that of the step's last container where it failed by one.
fn exit_code(end: &AttemptEnd) -> i32 {
    match &end.result {
        EndResult::Succeeded => 0,
        EndResult::Cancelled => CANCELLED,
        EndResult::Failed { .. } | EndResult::Gone | EndResult::Lost => {
            let last = end.failed_pods.last().and_then(|pod| pod.containers.last());
            last.map(|container| container.exit_code).filter(|code| (1..=255).contains(code)).unwrap_or(1)
        }
    }
}

fn text(end: &AttemptEnd) -> String {
    // Writing to memory fails for values JSON has no form for; here are none.
    let write = |end: &AttemptEnd| serde_json::to_string(end).unwrap_or_default();
    let text = write(end);
    if text.len() <= MAX {
        return text;
    }
    let len = text.len();
    let message = format!("the result of the step has {len} bytes, the limit is {MAX}; pass large values as artifacts");
    let result = EndResult::Failed { reason: "OutputTooLarge".to_owned(), message };
    write(&AttemptEnd::without_job(result, end.ended_at))
}

/// The end of an attempt that wrote more than it may.
pub(super) fn too_long(end: AttemptEnd, limit: u64) -> AttemptEnd {
    let message = format!("the step wrote more than the {limit} bytes that its log may have");
    AttemptEnd { result: EndResult::Failed { reason: "LogLimit".to_owned(), message }, artifacts: Vec::new(), ..end }
}

/// The end of an attempt that could not be started.
pub(super) fn refused(error: &Problem) -> AttemptEnd {
    let reason = error.reason.unwrap_or(match error.class {
        Class::Denied => "Forbidden",
        Class::Invalid => "TemplateInvalid",
        Class::Exists => "NameConflict",
        _ => "StartFailed",
    });
    AttemptEnd::without_job(EndResult::Failed { reason: reason.to_owned(), message: error.chain() }, now())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_end_of_a_job_tells_that_of_its_attempt() {
        let end = AttemptEnd { ended_at: Time::from_millis(7), ..refused(&Problem::new(Class::Invalid, "a\nb")) };
        let job = job_end(&end, None, None, LogTotals::default());
        assert_eq!((job.outcome, job.exit_code), (TaskEnd::Failed, Some(1)));
        assert_eq!(serde_json::from_str::<AttemptEnd>(&job.outputs[END]).unwrap(), end);
        let cancelled = AttemptEnd { result: EndResult::Cancelled, ..end };
        let job = job_end(&cancelled, Some(EndCause::Timeout), None, LogTotals::default());
        assert_eq!((job.outcome, job.exit_code), (TaskEnd::TimedOut, Some(143)));
        let succeeded = AttemptEnd { result: EndResult::Succeeded, ..cancelled };
        for cause in [EndCause::Timeout, EndCause::Asked(Cause::Preempt), EndCause::Refused] {
            let job = job_end(&succeeded, Some(cause), None, LogTotals::default());
            assert_eq!((job.outcome, job.exit_code), (TaskEnd::Succeeded, Some(0)), "{cause:?}");
        }
        let long = too_long(succeeded, 10);
        let job = job_end(&long, Some(EndCause::LogLimit), None, LogTotals::default());
        assert_eq!((job.outcome, job.reason.as_str()), (TaskEnd::Failed, "log_limit"));
    }

    #[test]
    fn outputs_beyond_what_a_job_may_tell_fail_the_step() {
        let mut end = refused(&Problem::new(Class::Invalid, ""));
        end.document = json!("x".repeat(MAX));
        let short: AttemptEnd = serde_json::from_str(&text(&end)).unwrap();
        assert!(matches!(short.result, EndResult::Failed { reason, .. } if reason == "OutputTooLarge"));
    }
}
