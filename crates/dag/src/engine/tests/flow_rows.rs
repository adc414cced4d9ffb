//! Rows of the table of flow transitions, where no rule says all of them.

use std::time::Duration;

use orlop_core::effect::FlowEffect;
use orlop_core::event::FlowEvent;
use orlop_core::machine::flow::FlowPhase;
use orlop_core::spec::flow::{StopMode, SuspendMode};
use orlop_core::spec::status::{ConditionStatus, Decision};
use orlop_core::time::Time;
use serde_json::json;

use super::support::Bench;
use crate::engine::{FlowMeta, next_deadline, refused};

fn stop(flow: &mut Bench, mode: StopMode, replaced: bool) {
    flow.tell(FlowEvent::Stop { mode, replaced });
}

fn suspend(flow: &mut Bench, on: bool) {
    flow.tell(FlowEvent::SetSuspend { on, mode: SuspendMode::Drain });
}

fn approve(flow: &mut Bench, name: &str) {
    let (at, decided_at) = (flow.at(name), flow.now);
    let decision = Decision::Approved;
    flow.tell(FlowEvent::Approval { at, decision, by: None, verified: false, decided_at, reason: None });
}

fn count(flow: &Bench, word: &str) -> usize {
    flow.notices().into_iter().filter(|notice| *notice == word).count()
}

#[test]
fn a_refused_flow_is_over_at_once() {
    let now = Time::from_millis(5_000);
    let status = refused(3, "DAGCycle", "steps wait for each other", now);
    assert_eq!(status.phase, FlowPhase::Failed);
    assert_eq!((status.start_time, status.completion_time), (Some(now), Some(now)));
    assert_eq!((status.progress.summary.as_str(), status.message.as_str()), ("0/3", "steps wait for each other"));
    let conditions: Vec<_> =
        status.conditions.iter().map(|one| (one.kind.as_str(), one.status, one.reason.as_str())).collect();
    assert_eq!(
        conditions,
        [("Failed", ConditionStatus::True, "DAGCycle"), ("Ready", ConditionStatus::False, "DAGCycle")]
    );
}

#[test]
fn a_valid_flow_begins_pending_or_suspended() {
    let mut spec = json!({"steps": [{"name": "a"}, {"name": "b"}], "finally": [{"name": "c"}]});
    let flow = Bench::unadmitted(spec.clone());
    assert_eq!((flow.phase(), flow.notices()), (FlowPhase::Pending, vec!["JobFlowCreated"]));
    assert_eq!(flow.status().progress.summary, "0/3");
    assert_eq!(["a", "b", "c"].map(|name| flow.outcome(name)), ["Pending", "Pending", "Pending"]);

    spec["suspend"] = json!(true);
    let mut flow = Bench::unadmitted(spec);
    assert_eq!(flow.phase(), FlowPhase::Suspended);
    flow.tell(FlowEvent::Admit);
    assert!(flow.started().is_empty());
    suspend(&mut flow, false);
    assert_eq!(flow.started(), ["a#1", "b#1"]);
}

#[test]
fn admission_sets_the_start_and_the_deadline_once() {
    let spec = json!({"executionPolicy": {"activeDeadlineSeconds": 30}, "steps": [{"name": "a"}]});
    let meta = FlowMeta { uid: "u".into(), spec_hash: Some("abc".into()), ..FlowMeta::default() };
    let mut flow = Bench::with_meta(spec, meta);
    flow.wait(100);
    assert_eq!((flow.status().start_time, flow.status().spec_hash, next_deadline(&flow.state)), (None, None, None));
    flow.tell(FlowEvent::Admit);
    let start = flow.now;
    flow.wait(5);
    flow.tell(FlowEvent::Admit);
    assert!(flow.effects.is_empty());
    assert_eq!((flow.status().start_time, flow.status().spec_hash.as_deref()), (Some(start), Some("abc")));
    assert_eq!(next_deadline(&flow.state), Some(start.plus(Duration::from_secs(30))));
}

#[test]
fn the_first_step_that_leaves_pending_starts_the_flow_once() {
    let mut flow = Bench::new(json!({"steps": [{"name": "a"}, {"name": "b"}]}));
    assert_eq!((flow.phase(), count(&flow, "JobFlowStarted")), (FlowPhase::Pending, 0));
    flow.accept("a");
    assert_eq!((flow.phase(), count(&flow, "JobFlowStarted")), (FlowPhase::Running, 1));
    flow.accept("b");
    assert_eq!(count(&flow, "JobFlowStarted"), 0);

    let flow = Bench::new(json!({"steps": [{"name": "gate", "type": "Manual"}]}));
    assert_eq!(flow.phase(), FlowPhase::Paused);
    assert_eq!((count(&flow, "JobFlowStarted"), count(&flow, "FlowPaused")), (1, 1));
}

#[test]
fn the_last_decision_ends_the_pause_in_the_same_call() {
    let mut flow = Bench::new(json!({"steps": [
        {"name": "a"}, {"name": "g", "type": "Manual", "dependencies": ["a"]}, {"name": "h", "type": "Manual", "dependencies": ["a"]},
        {"name": "b", "dependencies": ["g", "h"]}]}));
    flow.accept("a");
    flow.succeed("a");
    assert_eq!((flow.phase(), count(&flow, "FlowPaused")), (FlowPhase::Paused, 1));
    approve(&mut flow, "g");
    assert_eq!((flow.phase(), count(&flow, "FlowResumed")), (FlowPhase::Paused, 0));
    approve(&mut flow, "h");
    assert_eq!((flow.phase(), count(&flow, "FlowResumed")), (FlowPhase::Running, 1));
    assert_eq!(flow.started(), ["b#1"]);
}

#[test]
fn both_marks_must_go_and_the_phase_returns_to_where_the_steps_are() {
    let gate = json!({"name": "g", "type": "Manual"});
    for (begun, gated, phase) in
        [(false, false, FlowPhase::Pending), (true, false, FlowPhase::Running), (true, true, FlowPhase::Paused)]
    {
        let mut steps = vec![json!({"name": "a"})];
        steps.extend(gated.then(|| gate.clone()));
        let mut flow = Bench::new(json!({"steps": steps}));
        if begun {
            flow.accept("a");
        }
        suspend(&mut flow, true);
        assert_eq!((flow.phase(), count(&flow, "FlowSuspended")), (FlowPhase::Suspended, 1));
        flow.tell(FlowEvent::Hold { on: true });
        suspend(&mut flow, false);
        assert_eq!((flow.phase(), count(&flow, "FlowResumed")), (FlowPhase::Suspended, 0));
        flow.wait(7);
        flow.tell(FlowEvent::Hold { on: false });
        assert_eq!((flow.phase(), count(&flow, "FlowResumed")), (phase, 1));
        assert_eq!(flow.status().suspended_seconds, 7);
    }
}

/// A retry that may not be made, and a failure that is counted.
#[test]
fn under_cancel_running_the_spent_budget_cancels_what_is_live() {
    let rules = json!({"rules": [{"action": "Count", "onExitCodes": {"operator": "In", "values": [4]}}]});
    for (code, outcome) in [(1, "Failed/NonZeroExit"), (4, "Succeeded/FailureCounted")] {
        let policy = json!({"failurePolicy": "CancelRunning", "backoffLimit": 0, "podFailurePolicy": rules});
        let steps = json!([{"name": "a", "retryPolicy": {}}, {"name": "b"}]);
        let mut flow = Bench::new(json!({"executionPolicy": policy, "steps": steps}));
        flow.accept("b");
        flow.fail_with("a", code);
        assert_eq!(flow.outcome("a"), outcome);
        assert_eq!(flow.cancelled(), ["b:BackoffLimitExceeded"]);
        flow.confirm("b");
        assert_eq!(flow.outcome("b"), "Failed/BackoffLimitExceeded");
        assert_eq!(flow.cause(), "BackoffLimitExceeded");
    }
}

#[test]
fn a_replaced_flow_is_cancelled_without_finally_and_reported_once() {
    let mut flow = Bench::new(
        json!({"steps": [{"name": "a"}, {"name": "b", "dependencies": ["a"]}], "finally": [{"name": "clean"}]}),
    );
    flow.accept("a");
    stop(&mut flow, StopMode::Terminate, true);
    assert_eq!((flow.cancelled(), count(&flow, "FlowStopped")), (vec!["a:Replaced".to_owned()], 1));
    assert_eq!(count(&flow, "ConcurrencyReplaced"), 1, "section 5.2");
    stop(&mut flow, StopMode::Terminate, false);
    assert!(flow.effects.is_empty(), "an order that adds nothing changes nothing");
    flow.confirm("a");
    assert_eq!(
        ["a", "b", "clean"].map(|name| flow.outcome(name)),
        ["Failed/Replaced", "Skipped/Replaced", "Skipped/Replaced"]
    );
    assert_eq!((flow.phase(), flow.cause().as_str()), (FlowPhase::Failed, "Replaced"));
}

#[test]
fn finally_keeps_the_outcome_and_stands_outside_the_deadline() {
    let mut flow =
        Bench::new(json!({"executionPolicy": {"activeDeadlineSeconds": 10, "failurePolicy": "CancelRunning"},
        "steps": [{"name": "a"}], "finally": [{"name": "x"}, {"name": "y", "dependencies": ["x"]}]}));
    flow.fail("a");
    assert_eq!((flow.phase(), flow.started()), (FlowPhase::Running, vec!["x#1".to_owned()]));
    flow.accept("x");
    flow.wait(100);
    assert!(flow.cancelled().is_empty());
    flow.succeed("x");
    assert_eq!(flow.started(), ["y#1"], "the halt of the steps is none of finally");
    flow.fail("y");
    assert_eq!((flow.phase(), flow.cause().as_str()), (FlowPhase::Failed, "FlowFailed"));
}

#[test]
fn a_later_terminate_ends_finally() {
    let mut flow =
        Bench::new(json!({"steps": [{"name": "a"}], "finally": [{"name": "x"}, {"name": "y", "dependencies": ["x"]}]}));
    flow.succeed("a");
    flow.accept("x");
    stop(&mut flow, StopMode::Graceful, false);
    assert!(flow.effects.is_empty(), "a graceful stop lets finally run, and it runs already");
    stop(&mut flow, StopMode::Terminate, false);
    assert_eq!(flow.cancelled(), ["x:Terminated"]);
    flow.confirm("x");
    assert_eq!((flow.outcome("a"), flow.outcome("y")), ("Succeeded".into(), "Skipped/Terminated".into()));
    assert_eq!((flow.phase(), flow.cause().as_str()), (FlowPhase::Failed, "Terminated"));
}

#[test]
fn the_first_cause_names_the_failure() {
    let mut flow = Bench::new(
        json!({"executionPolicy": {"failurePolicy": "Continue", "activeDeadlineSeconds": 20}, "steps": [{"name": "a"}, {"name": "b"}]}),
    );
    flow.accept("b");
    flow.fail("a");
    flow.wait(20);
    assert_eq!(flow.cancelled(), ["b:ActiveDeadlineExceeded"]);
    assert_eq!(flow.status().completion_time, None);
    flow.confirm("b");
    assert_eq!(flow.status().completion_time, Some(flow.now));
    assert_eq!((flow.cause().as_str(), count(&flow, "JobFlowFailed")), ("FlowFailed", 1));
    let reported = flow.effects.iter().any(
        |effect| matches!(effect, FlowEffect::RecordEvent(notice) if notice.message.starts_with("FlowFailed: step a failed")),
    );
    assert!(reported, "{:?}", flow.effects);
}
