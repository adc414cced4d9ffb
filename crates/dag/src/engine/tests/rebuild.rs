//! Rebuilding from a status (section 3.1): what must not be misread.

use orlop_core::event::{AttemptResult, FlowEvent};
use orlop_core::machine::flow::FlowPhase;
use orlop_core::spec::meta::ObjectReference;
use orlop_core::spec::status::FlowStatus;
use serde_json::json;

use super::support::Bench;
use crate::engine::{ObservedAttempt, next_deadline, reconstruct};

/// The same flow after its host was lost: from a status and what runs.
fn rebuilt(flow: Bench, status: &FlowStatus, live: &[ObservedAttempt]) -> Bench {
    let mut effects = Vec::new();
    let state = reconstruct(&flow.plan, flow.state.meta(), (status, live), flow.now, &mut effects);
    Bench { state, effects, ..flow }
}

#[test]
fn r9_a_failed_step_without_reason_is_tried_again_from_its_end() {
    let spec =
        json!({"steps": [{"name": "a", "retryPolicy": {"limit": 1, "backoff": {"duration": "9s"}}}, {"name": "b"}]});
    let mut flow = Bench::new(spec);
    flow.accept("a");
    flow.accept("b");
    flow.fail("a");
    let (due, mut status) = (flow.step("a").next_retry_time, flow.status());
    let record = status.steps.iter_mut().find(|step| step.name == "a").unwrap();
    (record.reason, record.message, record.next_retry_time) = (String::new(), String::new(), None);
    let mut flow = rebuilt(flow, &status, &[]);
    assert_eq!((flow.outcome("a").as_str(), next_deadline(&flow.state)), ("Failed/RetryScheduled", due));
    flow.wait(9);
    assert_eq!(flow.started(), ["a#2"]);

    let record = status.steps.iter_mut().find(|step| step.name == "a").unwrap();
    record.retry_count = 1;
    let flow = rebuilt(flow, &status, &[]);
    assert_eq!((flow.outcome("a").as_str(), next_deadline(&flow.state)), ("Failed", None), "no retry is left");
}

#[test]
fn the_higher_of_recorded_attempt_and_existing_job_wins() {
    let mut flow = Bench::new(json!({"steps": [{"name": "a", "retryPolicy": {}}]}));
    flow.accept("a");
    let status = flow.status();
    let at = flow.at("a");
    let observed = |attempt| ObservedAttempt {
        at,
        attempt,
        reference: ObjectReference { name: "job".into(), ..ObjectReference::default() },
    };
    let flow = rebuilt(flow, &status, &[observed(3)]);
    let step = flow.step("a");
    assert_eq!((step.attempt, step.retry_count, flow.status().retries), (3, 2, 2));
    assert_eq!((flow.outcome("a").as_str(), step.job_ref.unwrap().name.as_str()), ("Running", "job"));
    let newer = flow.status();
    let flow = rebuilt(flow, &newer, &[observed(1)]);
    assert_eq!(flow.step("a").attempt, 3);
}

/// A Job that has used up its own pods says `BackoffLimitExceeded`: this is no halt of the flow.
#[test]
fn a_jobs_own_reason_is_not_taken_for_a_halt() {
    for (continues, phase, tolerated) in [(true, FlowPhase::Succeeded, true), (false, FlowPhase::Failed, false)] {
        let mut flow = Bench::new(json!({"executionPolicy": {"failurePolicy": "Continue"}, "steps": [
            {"name": "a", "continueOnFailure": continues}, {"name": "b"}, {"name": "c", "dependencies": ["b"]}]}));
        flow.accept("a");
        let (at, ended_at, message) = (flow.at("a"), flow.now, "Job has reached its backoff limit".to_owned());
        let (reason, pods, result) = ("BackoffLimitExceeded".to_owned(), vec![], Box::<AttemptResult>::default());
        flow.tell(FlowEvent::AttemptFailed { at, attempt: 1, reason, message, pods, result, ended_at });
        let status = flow.status();
        let mut flow = rebuilt(flow, &status, &[]);
        flow.succeed("b");
        assert_eq!(flow.started(), ["c#1"], "the flow goes on");
        flow.succeed("c");
        assert_eq!(flow.phase(), phase);
        assert_eq!(flow.status().conditions.iter().any(|one| one.kind == "FailuresTolerated"), tolerated);
        assert_eq!(flow.cause(), if continues { "" } else { "FlowFailed" });
    }
}
