//! Rebuilding from a status: what must not be misread.

use orlop_core::effect::FlowEffect;
use orlop_core::event::{AttemptResult, FlowEvent};
use orlop_core::machine::flow::FlowPhase;
use orlop_core::spec::flow::StopMode;
use orlop_core::spec::meta::ObjectReference;
use orlop_core::spec::status::{FlowStatus, WaitsOn};
use serde_json::json;

use super::support::Bench;
use crate::engine::{ObservedAttempt, RestoreError, next_deadline, reconstruct, restore, snapshot, view};

/// The same flow after its host was lost: from a status and what runs.
fn rebuilt(flow: Bench, status: &FlowStatus, live: &[ObservedAttempt]) -> Bench {
    let mut effects = Vec::new();
    let state = reconstruct(&flow.plan, flow.state.meta(), status, live, flow.now, &mut effects);
    Bench { state, effects, ..flow }
}

/// Attempts of a step that exist.
fn exist(flow: &Bench, step: &str, attempts: &[u32]) -> Vec<ObservedAttempt> {
    let of =
        |attempt: &u32| ObservedAttempt { at: flow.at(step), attempt: *attempt, reference: ObjectReference::default() };
    attempts.iter().map(of).collect()
}

#[test]
fn jobs_that_were_to_be_deleted_are_asked_for_again_after_a_restart() {
    let policy = |retention: &str| {
        json!({"steps": [{"name": "a", "retryPolicy": {"backoff": {"duration": "9s"}}}, {"name": "b"}],
        "executionPolicy": {"jobRetention": retention}})
    };
    let forgets = |flow: &Bench| -> Vec<u32> {
        let of = |effect: &FlowEffect| match effect {
            FlowEffect::ForgetAttempt { attempt, .. } => Some(*attempt),
            _ => None,
        };
        flow.effects.iter().filter_map(of).collect()
    };
    for (retention, wanted) in [("All", vec![]), ("Failed", vec![2]), ("None", vec![1, 2])] {
        let mut flow = Bench::new(policy(retention));
        flow.accept("a");
        flow.fail("a");
        flow.wait(9);
        flow.accept("a");
        flow.succeed("a");
        let (status, live) = (flow.status(), exist(&flow, "a", &[1, 2]));
        let flow = rebuilt(flow, &status, &live);
        assert_eq!(forgets(&flow), wanted, "{retention}");
    }
    let mut flow = Bench::new(policy("None"));
    flow.accept("a");
    flow.accept("b");
    let (status, live) = (flow.status(), exist(&flow, "a", &[1]));
    assert_eq!(forgets(&rebuilt(flow, &status, &live)), [0_u32; 0], "what runs is kept");
}

#[test]
fn a_failed_step_without_reason_is_tried_again_from_its_end() {
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
        assert_eq!(flow.started(), ["c#1"], "the flow continues");
        flow.succeed("c");
        assert_eq!(flow.phase(), phase);
        assert_eq!(flow.status().conditions.iter().any(|one| one.kind == "FailuresTolerated"), tolerated);
        assert_eq!(flow.cause(), if continues { "" } else { "FlowFailed" });
    }
}

#[test]
fn what_a_queue_held_back_at_a_graceful_stop_ends_nothing_else_after_a_restart() {
    let mut flow = Bench::new(json!({"steps": [{"name": "a"}, {"name": "b"}, {"name": "c"}]}));
    for name in ["a", "b", "c"] {
        flow.accept(name);
    }
    flow.queue("b", Some(WaitsOn::Suspended));
    flow.tell(FlowEvent::Stop { mode: StopMode::Graceful, replaced: false });
    let (status, live) = (flow.status(), [exist(&flow, "a", &[1]), exist(&flow, "b", &[1])].concat());
    assert_eq!(rebuilt(flow, &status, &live).cancelled(), ["b:Stopped"], "before it is gone");

    let mut flow = Bench::new(json!({"steps": [{"name": "a"}, {"name": "b"}]}));
    flow.accept("a");
    flow.accept("b");
    flow.queue("b", Some(WaitsOn::Suspended));
    flow.tell(FlowEvent::Stop { mode: StopMode::Graceful, replaced: false });
    flow.confirm("b");
    let (status, live) = (flow.status(), exist(&flow, "a", &[1]));
    let mut flow = rebuilt(flow, &status, &live);
    assert_eq!((flow.cancelled().len(), flow.outcome("a").as_str()), (0, "Running"));
    flow.succeed("a");
    assert_eq!((flow.phase(), flow.cause().as_str()), (FlowPhase::Failed, "Stopped"));
}

#[test]
fn a_snapshot_of_another_form_or_plan_is_refused() {
    let flow = Bench::new(json!({"steps": [{"name": "a"}]}));
    let other = Bench::new(json!({"steps": [{"name": "a"}, {"name": "b"}]}));
    let bytes = snapshot(&flow.state);
    assert!(matches!(restore(&other.plan, &bytes), Err(RestoreError::OtherPlan { found: 1, expected: 2 })));
    let newer = String::from_utf8(bytes.clone()).unwrap().replacen("\"version\":1", "\"version\":2", 1);
    assert!(matches!(restore(&flow.plan, newer.as_bytes()), Err(RestoreError::Version { found: 2 })));
    assert!(matches!(restore(&flow.plan, &bytes[1..]), Err(RestoreError::Unreadable(_))));
}

#[test]
fn a_view_is_paged_with_instances_after_their_step() {
    let flow = Bench::new(json!({"steps": [{"name": "a"}, {"name": "fan", "withItems": [1, 2]}, {"name": "z"}]}));
    let page = |range| {
        let page = view(&flow.plan, &flow.state, range);
        (page.status.steps.into_iter().map(|step| step.name).collect::<Vec<_>>().join(" "), page.records)
    };
    assert_eq!(page(0..usize::MAX), ("a fan fan-i0 fan-i1 z".into(), 5));
    assert_eq!(page(2..4), ("fan-i0 fan-i1".into(), 5));
    assert_eq!(page(5..9), (String::new(), 5));
}
