//! From the end of a job to the end of the attempt that it was.

use orlop_core::attempt::{AttemptEnd, AttemptKey, EndResult};
use orlop_core::exact;
use orlop_core::machine::job::JobState;

use super::port::JobEnd;

/// Output of the job that says how the attempt ended.
pub const END: &str = "flow_step_end";
/// Reason of a job that was given up after too many losses.
const LOST: &str = "infra_limit";

/// The end of an attempt whose job has ended. `cancelled`: this host asked for it.
pub(super) fn attempt_end(key: &AttemptKey, end: &JobEnd, cancelled: bool) -> AttemptEnd {
    let reported = end.outputs.get(END).map(|text| exact::from_str::<AttemptEnd>(text));
    match (end.state, reported) {
        (JobState::Cancelled, _) => {
            let result = if cancelled { EndResult::Cancelled } else { EndResult::Gone };
            AttemptEnd::without_job(result, end.ended_at)
        }
        // What it left is not stored, so that nobody could have it.
        (JobState::Failed, Some(Ok(reported))) if reported.result == EndResult::Succeeded => AttemptEnd {
            result: EndResult::Failed { reason: "ArtifactUnavailable".to_owned(), message: end.reason.clone() },
            artifacts: Vec::new(),
            ..reported
        },
        (JobState::Completed | JobState::Failed, Some(Ok(reported))) => reported,
        (JobState::Failed, _) if end.reason == LOST => AttemptEnd::without_job(EndResult::Lost, end.ended_at),
        (_, reported) => {
            if let Some(Err(error)) = reported {
                tracing::error!(attempt = %key, %error, "cannot read the report of a worker about a step");
            }
            failed(end)
        }
    }
}

/// A job that ended without the end of an attempt in its outputs.
fn failed(end: &JobEnd) -> AttemptEnd {
    let word = end.reason.split(':').next().unwrap_or_default();
    let reason = match (end.state, word) {
        (JobState::TimedOut, _) => "DeadlineExceeded",
        (_, "oom") => "OOMKilled",
        (_, "expired") => "Unschedulable",
        (_, "artifact") => "ArtifactUnavailable",
        _ => "StartFailed",
    };
    let code = end.exit_code.map(|code| format!(" with exit code {code}")).unwrap_or_default();
    let why = if end.reason.is_empty() { String::new() } else { format!(": {}", end.reason) };
    let message =
        format!("the job of the step ended as {}{code}{why}, and its worker reported nothing more", end.state);
    AttemptEnd::without_job(EndResult::Failed { reason: reason.to_owned(), message }, end.ended_at)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use orlop_core::time::Time;

    use super::*;

    fn key() -> AttemptKey {
        AttemptKey { flow: "u".into(), step: "s".into(), item: None, attempt: 1 }
    }

    fn end(state: JobState, reason: &str) -> JobEnd {
        let reason = reason.to_owned();
        JobEnd { state, reason, exit_code: Some(7), outputs: BTreeMap::new(), ended_at: Time::from_millis(5) }
    }

    fn result(end: &JobEnd, cancelled: bool) -> EndResult {
        attempt_end(&key(), end, cancelled).result
    }

    #[test]
    fn a_job_that_lost_its_workers_is_a_lost_attempt() {
        assert_eq!(result(&end(JobState::Failed, "infra_limit"), false), EndResult::Lost);
    }

    #[test]
    fn a_job_that_somebody_else_cancelled_is_gone() {
        assert_eq!(result(&end(JobState::Cancelled, "user"), false), EndResult::Gone);
        assert_eq!(result(&end(JobState::Cancelled, "user"), true), EndResult::Cancelled);
    }

    #[test]
    fn what_the_runner_tells_counts() {
        let reported = AttemptEnd::without_job(EndResult::Succeeded, Time::from_millis(3));
        let mut ended = end(JobState::Completed, "");
        ended.outputs.insert(END.to_owned(), serde_json::to_string(&reported).unwrap());
        assert_eq!(attempt_end(&key(), &ended, false), reported);
        // What it left could not be stored.
        let unstored = JobEnd { state: JobState::Failed, reason: "artifact: `left`: quota".into(), ..ended.clone() };
        let EndResult::Failed { reason, message } = result(&unstored, false) else { panic!() };
        assert_eq!((reason.as_str(), message.as_str()), ("ArtifactUnavailable", "artifact: `left`: quota"));
        // The one that cancelled it does not care.
        assert_eq!(result(&JobEnd { state: JobState::Cancelled, ..ended }, true), EndResult::Cancelled);
    }

    #[test]
    fn without_a_word_the_job_speaks() {
        let EndResult::Failed { reason, message } = result(&end(JobState::Failed, "oom"), false) else { panic!() };
        assert_eq!(reason, "OOMKilled");
        insta::assert_snapshot!(message, @"the job of the step ended as Failed with exit code 7: oom, and its worker reported nothing more");
        let mut unreadable = end(JobState::Completed, "");
        unreadable.outputs.insert(END.to_owned(), "{".to_owned());
        assert!(matches!(result(&unreadable, false), EndResult::Failed { .. }));
        let EndResult::Failed { reason, .. } = result(&end(JobState::Failed, "artifact: `x`: gone"), false) else {
            panic!()
        };
        assert_eq!(reason, "ArtifactUnavailable");
        let EndResult::Failed { reason, .. } = result(&end(JobState::TimedOut, ""), false) else { panic!() };
        assert_eq!(reason, "DeadlineExceeded");
    }
}
