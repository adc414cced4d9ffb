//! Rows of the table of step transitions, where no rule says all of them.

use std::time::Duration;

use orlop_core::effect::FlowEffect;
use orlop_core::event::{AttemptResult, FlowEvent};
use orlop_core::machine::flow::FlowPhase;
use orlop_core::spec::flow::StopMode;
use orlop_core::spec::status::{ArtifactLocation, ArtifactRecord, Decision, WaitsOn};
use orlop_core::time::Time;
use serde_json::{Value, json};

use super::support::Bench;
use crate::engine::next_deadline;

fn stop(flow: &mut Bench) {
    flow.tell(FlowEvent::Stop { mode: StopMode::Graceful, replaced: false });
}

fn terminate(flow: &mut Bench) {
    flow.tell(FlowEvent::Stop { mode: StopMode::Terminate, replaced: false });
}

fn decide(flow: &mut Bench, decision: Decision) {
    let (at, decided_at) = (flow.at("gate"), flow.now);
    flow.tell(FlowEvent::Approval { at, decision, by: None, verified: false, decided_at, reason: None });
}

fn delay(flow: &mut Bench, reason: &str, retry_at: Time) {
    let at = flow.at("a");
    let (reason, message) = (reason.into(), "not now".into());
    flow.tell(FlowEvent::AttemptDelayed { at, attempt: 1, reason, message, retry_at });
}

fn gone(flow: &mut Bench) {
    let at = flow.at("a");
    let attempt = flow.state.attempt(at).unwrap().1;
    flow.tell(FlowEvent::AttemptGone { at, attempt, ended_at: flow.now });
}

fn one(step: Value) -> Bench {
    Bench::new(json!({"steps": [step]}))
}

#[test]
fn a_fan_out_reads_its_items_once_its_source_is_settled() {
    let steps = json!([
        {"name": "list", "outputs": {"parameters": [{"name": "l", "valueFrom": {"path": "/l"}}]}},
        {"name": "fan", "withParam": "list:$.outputs.l", "retryPolicy": {}}]);
    let mut flow = Bench::new(json!({"steps": steps}));
    let asks = |flow: &Bench| flow.effects.iter().any(|effect| matches!(effect, FlowEffect::ResolveItems { .. }));
    assert!(!asks(&flow));
    let outputs = [("l".to_owned(), "x".to_owned())].into();
    flow.succeed_with("list", AttemptResult { outputs, ..AttemptResult::default() });
    assert!(asks(&flow));
    assert_eq!((flow.outcome("fan").as_str(), flow.status().progress.total_steps), ("Pending/Queued", 2));
    let at = flow.at("fan");
    flow.tell(FlowEvent::ItemsResolved { at, items: Err("no list".into()) });
    assert_eq!(flow.outcome("fan"), "Failed/ParameterUnresolved");
}

#[test]
fn a_decision_made_before_is_taken_without_a_pause() {
    for (decision, outcome, word) in
        [(Decision::Approved, "Succeeded", "StepApproved"), (Decision::Rejected, "Failed/Rejected", "StepRejected")]
    {
        let mut flow =
            Bench::new(json!({"steps": [{"name": "a"}, {"name": "gate", "type": "Manual", "dependencies": ["a"]}]}));
        decide(&mut flow, decision);
        flow.succeed("a");
        assert_eq!(flow.outcome("gate"), outcome);
        assert!(flow.notices().contains(&word) && !flow.notices().contains(&"FlowPaused"));
    }
}

#[test]
fn a_wait_has_message_start_and_limit_and_every_end_its_notice() {
    for (decision, outcome, word) in [
        (Some(Decision::Approved), "Succeeded", "StepApproved"),
        (Some(Decision::Rejected), "Failed/Rejected", "StepRejected"),
        (None, "Failed/ApprovalTimedOut", "StepTimeout"),
    ] {
        let mut flow = Bench::new(json!({
            "parameters": [{"name": "env", "value": "prod"}],
            "steps": [{"name": "gate", "type": "Manual", "timeoutSeconds": 60, "message": "deploy to {{.parameters.env}}?",
                       "inputs": {"parameters": [{"name": "env", "value": "test"}]}, "retryPolicy": {"limit": 3}}]}));
        let step = flow.step("gate");
        assert_eq!((step.message.as_str(), step.start_time), ("deploy to test?", Some(flow.now)));
        assert_eq!(next_deadline(&flow.state), Some(flow.now.plus(Duration::from_secs(60))));
        assert!(flow.notices().contains(&"StepPendingApproval"));
        match decision {
            Some(decision) => decide(&mut flow, decision),
            None => flow.wait(60),
        }
        assert_eq!(flow.outcome("gate"), outcome, "a decision is never asked for again");
        assert!(flow.notices().contains(&word));
    }
}

#[test]
fn an_accepted_attempt_shows_start_reference_and_limit() {
    let mut flow = one(json!({"name": "a", "timeoutSeconds": 9}));
    assert_eq!((flow.step("a").start_time, next_deadline(&flow.state)), (None, None));
    flow.wait(3);
    flow.accept("a");
    let step = flow.step("a");
    assert_eq!((flow.outcome("a").as_str(), step.start_time), ("Running", Some(flow.now)));
    assert_eq!(step.job_ref.unwrap().kind, "Process");
    assert_eq!(next_deadline(&flow.state), Some(flow.now.plus(Duration::from_secs(9))));
    assert!(flow.notices().contains(&"StepCreated"));
}

#[test]
fn every_delay_is_shown_and_ends_with_a_halt() {
    for word in ["Throttled", "ApiUnavailable", "QuotaExceeded"] {
        let mut flow = one(json!({"name": "a"}));
        let later = flow.now.plus(Duration::from_secs(30));
        delay(&mut flow, word, later);
        assert_eq!(flow.outcome("a"), format!("Pending/{word}"));
        stop(&mut flow);
        assert_eq!((flow.outcome("a").as_str(), flow.phase()), ("Skipped/Stopped", FlowPhase::Failed));
    }
    let mut flow = one(json!({"name": "a"}));
    stop(&mut flow);
    assert_eq!(flow.outcome("a"), "Pending/Starting", "its start was asked for and is not answered");
    let later = flow.now.plus(Duration::from_secs(30));
    delay(&mut flow, "Throttled", later);
    assert_eq!((flow.outcome("a").as_str(), flow.cause().as_str()), ("Skipped/Stopped", "Stopped"));
}

#[test]
fn after_a_halt_a_refused_start_is_skipped() {
    let mut flow = one(json!({"name": "a", "retryPolicy": {}}));
    stop(&mut flow);
    let at = flow.at("a");
    let (reason, message) = ("Forbidden".into(), "no".into());
    flow.tell(FlowEvent::AttemptRefused { at, attempt: 1, reason, message, retryable: true });
    assert_eq!((flow.outcome("a").as_str(), flow.cause().as_str()), ("Skipped/Stopped", "Stopped"));
    assert!(!flow.notices().contains(&"StepFailed"));
    assert_eq!((flow.step("a").start_time, flow.step("a").completion_time), (None, None));
}

#[test]
fn missing_outputs_are_retried_and_complete_ones_recorded() {
    let mut flow = one(json!({"name": "a", "retryPolicy": {"limit": 1}, "outputs": {
        "parameters": [{"name": "n", "valueFrom": {"path": "/n"}}], "artifacts": [{"name": "f", "path": "/f"}]}}));
    flow.succeed("a");
    assert_eq!(flow.outcome("a"), "Failed/RetryScheduled");
    assert_eq!(flow.step("a").message, "OutputMissing: the attempt gave no output `n`");
    flow.wait(1);
    let location = ArtifactLocation { kind: "cas".into(), reference: "x".into(), size_bytes: 1, sha256: "ab".into() };
    let artifact = ArtifactRecord { name: "f".into(), path: "/f".into(), location: Some(location) };
    let result = AttemptResult {
        outputs: [("n".to_owned(), "1".to_owned()), ("undeclared".to_owned(), "2".to_owned())].into(),
        projections: [("$.succeeded".to_owned(), "1".to_owned())].into(),
        artifacts: vec![artifact.clone()],
        trouble: None,
    };
    flow.succeed_with("a", result);
    assert_eq!(flow.outcome("a"), "Succeeded");
    assert!(flow.notices().contains(&"StepSucceeded"));
    let outputs = flow.step("a").outputs.unwrap();
    assert_eq!((outputs.parameter("n"), outputs.parameter("undeclared")), (Some("1"), None));
    assert_eq!((outputs.artifact("f"), outputs.projections["$.succeeded"].as_str()), (Some(&artifact), "1"));
}

#[test]
fn a_job_deleted_by_somebody_else_is_a_failure() {
    let mut flow = one(json!({"name": "a", "retryPolicy": {"limit": 1, "backoff": {"duration": "8s"}}}));
    flow.accept("a");
    gone(&mut flow);
    let step = flow.step("a");
    assert_eq!((flow.outcome("a").as_str(), step.completion_time), ("Failed/RetryScheduled", Some(flow.now)));
    assert_eq!(step.next_retry_time, Some(flow.now.plus(Duration::from_secs(8))));
    assert!(!flow.notices().contains(&"StepFailed"));
    flow.wait(8);
    flow.accept("a");
    gone(&mut flow);
    assert_eq!((flow.outcome("a").as_str(), flow.step("a").lost_count), ("Failed/JobMissing", 0));
    assert_eq!((flow.step("a").next_retry_time, flow.cause().as_str()), (None, "FlowFailed"));
    assert!(flow.notices().contains(&"StepFailed"));
}

#[test]
fn what_ends_after_an_order_ends_for_the_order_unless_it_succeeded_first() {
    let output = json!({"parameters": [{"name": "n", "valueFrom": {"path": "/n"}}]});
    let mut flow = Bench::new(
        json!({"steps": [{"name": "a", "retryPolicy": {}}, {"name": "b"}, {"name": "c", "outputs": output, "retryPolicy": {}}]}),
    );
    for name in ["a", "b", "c"] {
        flow.accept(name);
    }
    terminate(&mut flow);
    assert_eq!(flow.outcome("a"), "Running/Cancelling");
    flow.fail("a");
    assert_eq!(flow.outcome("a"), "Failed/Terminated");
    flow.succeed("b");
    assert_eq!(flow.outcome("b"), "Succeeded");
    flow.succeed("c");
    assert_eq!(flow.outcome("c"), "Failed/OutputMissing");
    assert_eq!((flow.phase(), flow.cause().as_str()), (FlowPhase::Failed, "Terminated"));
}

#[test]
fn beyond_the_limit_and_after_a_halt_a_loss_is_a_failure() {
    let mut flow = one(json!({"name": "a", "retryPolicy": {"limit": 1}}));
    for attempt in 2..=4 {
        flow.accept("a");
        flow.lose("a");
        assert_eq!(flow.started(), [format!("a#{attempt}")], "three losses by default");
    }
    flow.accept("a");
    flow.lose("a");
    let step = flow.step("a");
    assert_eq!((flow.outcome("a").as_str(), step.lost_count, step.attempt), ("Failed/RetryScheduled", 3, 4));
    assert!(step.message.starts_with("Lost: "), "{}", step.message);

    let mut flow = Bench::new(json!({"steps": [{"name": "a"}, {"name": "b"}]}));
    flow.accept("a");
    flow.accept("b");
    stop(&mut flow);
    flow.lose("a");
    assert_eq!((flow.outcome("a").as_str(), flow.started().len()), ("Failed/Lost", 0));
    terminate(&mut flow);
    flow.lose("b");
    assert_eq!(flow.outcome("b"), "Failed/Terminated");
}

#[test]
fn a_halt_ends_the_wait_for_a_retry_with_its_last_reason() {
    let mut flow = one(json!({"name": "a", "retryPolicy": {}}));
    flow.accept("a");
    flow.fail("a");
    let failed_at = flow.now;
    flow.tell(FlowEvent::Hold { on: true });
    flow.wait(10);
    assert_eq!(flow.outcome("a"), "Failed/RetryScheduled", "a held flow tries nothing again");
    stop(&mut flow);
    let step = flow.step("a");
    assert_eq!((flow.outcome("a").as_str(), step.next_retry_time), ("Failed/NonZeroExit", None));
    assert_eq!((step.completion_time, step.retry_count), (Some(failed_at), 0));
    assert_eq!(flow.cause(), "Stopped");
}

/// A queue holds `b` back before the stop, `c` after it, and lets `d` go again.
#[test]
fn after_a_halt_an_attempt_that_a_queue_holds_back_is_cancelled_and_one_that_runs_finishes() {
    for cause in ["Stopped", "FlowFailed"] {
        let mut flow = Bench::new(json!({
            "steps": [{"name": "a"}, {"name": "b", "retryPolicy": {}}, {"name": "c"}, {"name": "d"}, {"name": "bad"}],
            "finally": [{"name": "last"}],
        }));
        for name in ["a", "b", "c", "d", "bad"] {
            flow.accept(name);
        }
        flow.queue("b", Some(WaitsOn::Suspended));
        flow.queue("d", Some(WaitsOn::Suspended));
        flow.queue("d", None);
        if cause == "Stopped" {
            stop(&mut flow);
        } else {
            flow.fail("bad");
        }
        assert_eq!((flow.cancelled(), flow.outcome("d").as_str()), (vec![format!("b:{cause}")], "Running"));
        flow.queue("a", Some(WaitsOn::FirstPod));
        assert_eq!(flow.outcome("a"), "Running");
        flow.queue("c", Some(WaitsOn::Suspended));
        assert_eq!(flow.cancelled(), [format!("c:{cause}")]);
        flow.confirm("b");
        flow.confirm("c");
        assert_eq!(["b", "c"].map(|name| flow.outcome(name)), [format!("Failed/{cause}"), format!("Failed/{cause}")]);
        let rest = if cause == "Stopped" { &["a", "d", "bad"][..] } else { &["a", "d"] };
        for name in rest {
            flow.succeed(name);
        }
        assert_eq!(flow.started(), ["last#1"], "what tidies up runs");
        flow.accept("last");
        flow.queue("last", Some(WaitsOn::Suspended));
        assert_eq!(flow.outcome("last"), "Running", "the halt was not of this part");
        flow.succeed("last");
        assert_eq!((flow.phase(), flow.cause().as_str()), (FlowPhase::Failed, cause));
    }
}

/// A flow that ends skips steps that wait, are queued or await approval.
#[test]
fn a_halt_skips_whatever_has_not_started() {
    for (policy, cause) in [("FailFast", "Skipped/FlowFailed"), ("CancelRunning", "Skipped/FlowFailed")] {
        let mut flow = Bench::new(json!({"executionPolicy": {"failurePolicy": policy, "parallelism": 1}, "steps": [
            {"name": "gate", "type": "Manual", "timeoutSeconds": 5}, {"name": "bad"}, {"name": "queued"},
            {"name": "waiting", "dependencies": ["queued"]}]}));
        assert_eq!(flow.phase(), FlowPhase::Paused);
        flow.fail("bad");
        assert_eq!(["gate", "queued", "waiting"].map(|name| flow.outcome(name)), [cause; 3]);
        assert_eq!(flow.status().progress.summary, "4/4");
        decide(&mut flow, Decision::Approved);
        assert_eq!((flow.outcome("gate").as_str(), flow.effects.len()), (cause, 0));
    }
}
