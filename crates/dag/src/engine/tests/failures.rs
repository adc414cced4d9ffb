//! Failures: retries, budgets, policies, losses, timeouts, outputs.

use orlop_core::event::FlowEvent;
use orlop_core::machine::flow::FlowPhase;
use orlop_core::time::Time;
use serde_json::json;

use super::support::Bench;
use crate::engine::next_deadline;

#[test]
fn a_retry_is_shown_waits_and_takes_the_next_number() {
    let mut flow = Bench::new(json!({"steps": [{"name": "a", "retryPolicy": {"limit": 1}}]}));
    flow.accept("a");
    flow.fail("a");
    assert_eq!(flow.outcome("a"), "Failed/RetryScheduled");
    assert_eq!(flow.status().progress.completed_steps, 0);
    assert_eq!(flow.step("a").next_retry_time, Some(flow.now.plus(std::time::Duration::from_secs(1))));
    flow.wait(1);
    assert_eq!(flow.started(), ["a#2"]);
    let step = flow.step("a");
    assert_eq!((step.retry_count, step.start_time, step.job_ref), (1, None, None));
    assert!(flow.notices().contains(&"StepRetry"));
    flow.fail("a");
    assert_eq!(flow.outcome("a"), "Failed/NonZeroExit");
    assert_eq!(flow.phase(), FlowPhase::Failed);
}

#[test]
fn the_delay_counts_from_the_recorded_end() {
    let mut flow =
        Bench::new(json!({"steps": [{"name": "a", "retryPolicy": {"backoff": {"type": "Fixed", "duration": "10s"}}}]}));
    flow.accept("a");
    let end = flow.now;
    flow.now = end.plus(std::time::Duration::from_secs(4));
    let at = flow.at("a");
    flow.tell(FlowEvent::AttemptFailed {
        at,
        attempt: 1,
        reason: "NonZeroExit".into(),
        message: String::new(),
        pods: vec![],
        result: Box::default(),
        ended_at: end,
    });
    assert_eq!(next_deadline(&flow.state), Some(end.plus(std::time::Duration::from_secs(10))));
}

#[test]
fn the_flow_has_a_budget_and_equality_is_allowed() {
    let mut flow = Bench::new(json!({"executionPolicy": {"backoffLimit": 1}, "steps": [
        {"name": "a", "retryPolicy": {"limit": 5}}, {"name": "b", "dependencies": ["a"]}]}));
    flow.fail("a");
    flow.wait(1);
    assert_eq!(flow.status().retries, 1);
    flow.fail("a");
    assert_eq!(flow.outcome("a"), "Failed/NonZeroExit");
    assert_eq!((flow.phase(), flow.cause().as_str()), (FlowPhase::Failed, "BackoffLimitExceeded"));
}

#[test]
fn scheduled_retries_count_before_they_are_made() {
    let mut flow = Bench::new(json!({"executionPolicy": {"backoffLimit": 1, "failurePolicy": "Continue"}, "steps": [
        {"name": "a", "retryPolicy": {}}, {"name": "b", "retryPolicy": {}}]}));
    flow.fail("a");
    flow.fail("b");
    assert_eq!(flow.cause(), "BackoffLimitExceeded");
    assert_eq!(flow.status().retries, 0);
}

#[test]
fn fail_fast_lets_live_attempts_finish_and_skips_the_rest() {
    let mut flow = Bench::new(json!({"steps": [{"name": "a"}, {"name": "b"}, {"name": "c", "dependencies": ["b"]}]}));
    flow.accept("a");
    flow.accept("b");
    flow.fail("a");
    assert_eq!(flow.phase(), FlowPhase::Running);
    assert_eq!(flow.outcome("c"), "Skipped/FlowFailed");
    flow.succeed("b");
    assert_eq!(flow.outcome("b"), "Succeeded");
    assert_eq!((flow.phase(), flow.cause().as_str()), (FlowPhase::Failed, "FlowFailed"));
    assert_eq!(flow.status().progress.summary, "3/3");
}

#[test]
fn cancel_running_cancels_live_attempts() {
    let mut flow = Bench::new(
        json!({"executionPolicy": {"failurePolicy": "CancelRunning"}, "steps": [{"name": "a"}, {"name": "b"}]}),
    );
    flow.accept("a");
    flow.accept("b");
    flow.fail("a");
    assert_eq!(flow.cancelled(), ["b:FlowFailed"]);
    assert_eq!(flow.outcome("b"), "Running/Cancelling");
    flow.confirm("b");
    assert_eq!(flow.outcome("b"), "Failed/FlowFailed");
    assert_eq!(flow.phase(), FlowPhase::Failed);
}

#[test]
fn an_attempt_accepted_after_a_cancelling_halt_is_cancelled() {
    let mut flow = Bench::new(
        json!({"executionPolicy": {"failurePolicy": "CancelRunning"}, "steps": [{"name": "a"}, {"name": "b"}]}),
    );
    flow.fail("a");
    flow.accept("b");
    assert_eq!(flow.cancelled(), ["b:FlowFailed"]);
}

#[test]
fn tolerated_failures_do_not_fail_the_flow_unless_asked() {
    for (outcome, phase) in [("Succeeded", FlowPhase::Succeeded), ("Failed", FlowPhase::Failed)] {
        let mut flow = Bench::new(json!({"executionPolicy": {"toleratedOutcome": outcome}, "steps": [
            {"name": "a", "continueOnFailure": true}, {"name": "b", "dependencies": ["a"]}]}));
        flow.fail("a");
        assert_eq!(flow.started(), ["b#1"]);
        flow.succeed("b");
        assert_eq!(flow.phase(), phase);
        assert_eq!(flow.status().progress.failed_steps, 1);
    }
}

#[test]
fn a_timeout_cancels_and_may_retry() {
    let mut flow = Bench::new(json!({"steps": [{"name": "a", "timeoutSeconds": 5, "retryPolicy": {"limit": 1}}]}));
    flow.accept("a");
    flow.wait(4);
    assert!(flow.cancelled().is_empty());
    flow.wait(1);
    assert_eq!(flow.cancelled(), ["a:Timeout"]);
    assert!(flow.notices().contains(&"StepTimeout"));
    flow.succeed("a");
    assert_eq!(flow.outcome("a"), "Failed/RetryScheduled");
    flow.wait(1);
    flow.accept("a");
    flow.wait(5);
    flow.confirm("a");
    assert_eq!(flow.outcome("a"), "Failed/Timeout");
}

#[test]
fn a_lost_attempt_runs_again_without_counting() {
    let mut flow =
        Bench::new(json!({"executionPolicy": {"lostLimit": 1, "backoffLimit": 0}, "steps": [{"name": "a"}]}));
    flow.accept("a");
    flow.lose("a");
    assert_eq!(flow.started(), ["a#2"]);
    assert_eq!(flow.status().retries, 0);
    flow.accept("a");
    flow.lose("a");
    assert_eq!(flow.outcome("a"), "Failed/Lost");
}

#[test]
fn ignored_and_counted_failures_succeed_and_fail_job_is_not_retried() {
    let policy = json!({"rules": [
        {"action": "Ignore", "onExitCodes": {"operator": "In", "values": [3]}},
        {"action": "Count", "onExitCodes": {"operator": "In", "values": [4]}},
        {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [5]}}]});
    let mut flow = Bench::new(
        json!({"executionPolicy": {"podFailurePolicy": policy, "backoffLimit": 1, "failurePolicy": "Continue"}, "steps": [
        {"name": "i"}, {"name": "c"}, {"name": "d"}, {"name": "f", "retryPolicy": {}}, {"name": "later", "dependencies": ["d"]}]}),
    );
    flow.fail_with("i", 3);
    assert_eq!(flow.outcome("i"), "Succeeded/FailureIgnored");
    flow.fail_with("c", 4);
    assert_eq!(flow.outcome("c"), "Succeeded/FailureCounted");
    assert_eq!(flow.step("c").counted_failures, 1);
    flow.fail_with("f", 5);
    assert_eq!(flow.outcome("f"), "Failed/NonZeroExit");
    flow.fail_with("d", 4);
    assert_eq!(flow.outcome("d"), "Succeeded/FailureCounted");
    assert_eq!(flow.status().retries, 2);
    assert_eq!(flow.phase(), FlowPhase::Failed);
}

#[test]
fn missing_outputs_fail_and_defaults_fill() {
    let output =
        |name: &str, default: Option<&str>| json!({"name": name, "valueFrom": {"path": "/x"}, "default": default});
    let mut flow = Bench::new(
        json!({"steps": [{"name": "a", "outputs": {"parameters": [output("x", Some("dflt"))]}}, {"name": "b", "outputs": {"parameters": [output("y", None)]}}]}),
    );
    flow.succeed("a");
    assert_eq!(flow.step("a").outputs.unwrap().parameter("x"), Some("dflt"));
    flow.succeed("b");
    assert_eq!(flow.outcome("b"), "Failed/OutputMissing");
}

#[test]
fn a_delayed_start_asks_again_under_the_same_number() {
    let mut flow = Bench::new(json!({"steps": [{"name": "a"}]}));
    let retry_at = flow.now.plus(std::time::Duration::from_secs(7));
    let at = flow.at("a");
    flow.tell(FlowEvent::AttemptDelayed {
        at,
        attempt: 1,
        reason: "Throttled".into(),
        message: "slow down".into(),
        retry_at,
    });
    assert_eq!(flow.outcome("a"), "Pending/Throttled");
    assert_eq!(next_deadline(&flow.state), Some(retry_at));
    flow.wait(7);
    assert_eq!(flow.started(), ["a#1"]);
}

#[test]
fn a_refused_start_is_retried_only_where_it_can_help() {
    let mut flow = Bench::new(
        json!({"executionPolicy": {"failurePolicy": "Continue"}, "steps": [{"name": "a", "retryPolicy": {}}, {"name": "b", "retryPolicy": {}}]}),
    );
    for (name, retryable, outcome) in [("a", true, "Failed/RetryScheduled"), ("b", false, "Failed/TemplateInvalid")] {
        let at = flow.at(name);
        let event = FlowEvent::AttemptRefused {
            at,
            attempt: 1,
            reason: "TemplateInvalid".into(),
            message: "no".into(),
            retryable,
        };
        flow.tell(event);
        assert_eq!(flow.outcome(name), outcome);
        assert!(flow.step(name).completion_time.is_some() && flow.step(name).start_time.is_some());
    }
}

/// Results of old attempts are refused.
#[test]
fn fenced_events_change_nothing_and_are_counted() {
    let mut flow = Bench::new(json!({"steps": [{"name": "a", "retryPolicy": {}}, {"name": "b"}]}));
    flow.fail("a");
    flow.wait(1);
    let before = crate::engine::snapshot(&flow.state);
    let at = flow.at("a");
    let stale = FlowEvent::AttemptSucceeded { at, attempt: 1, result: Box::default(), ended_at: flow.now };
    let revision = flow.state.revision();
    flow.tell(stale);
    assert_eq!((flow.state.fenced(), flow.state.revision()), (1, revision));
    assert!(flow.effects.is_empty());
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).replace("\"fenced\":1", "\"fenced\":0");
    assert_eq!(text(&crate::engine::snapshot(&flow.state)), text(&before));
}

#[test]
fn time_never_runs_backwards() {
    let mut flow = Bench::new(json!({"steps": [{"name": "a"}]}));
    let now = flow.now;
    flow.now = Time::EPOCH;
    flow.accept("a");
    assert_eq!(flow.step("a").start_time, Some(now));
}
