//! Control: approval, suspension, stop, deadline, `finally`, time to live, resources, hold, import.

use orlop_core::effect::FlowEffect;
use orlop_core::event::FlowEvent;
use orlop_core::machine::flow::FlowPhase;
use orlop_core::spec::flow::{StopMode, SuspendMode};
use orlop_core::spec::status::{Decision, StepOutputs};
use serde_json::json;

use super::support::Bench;
use crate::engine::next_deadline;

fn decide(flow: &mut Bench, name: &str, decision: Decision) {
    let (at, decided_at) = (flow.at(name), flow.now);
    flow.tell(FlowEvent::Approval { at, decision, by: Some("ann".into()), verified: true, decided_at, reason: None });
}

fn stop(flow: &mut Bench, mode: StopMode) {
    flow.tell(FlowEvent::Stop { mode, replaced: false });
}

fn suspend(flow: &mut Bench, on: bool, mode: SuspendMode) {
    flow.tell(FlowEvent::SetSuspend { on, mode });
}

#[test]
fn a_manual_step_pauses_until_it_is_decided() {
    let mut flow =
        Bench::new(json!({"steps": [{"name": "gate", "type": "Manual"}, {"name": "after", "dependencies": ["gate"]}]}));
    assert_eq!((flow.phase(), flow.outcome("gate").as_str()), (FlowPhase::Paused, "PendingApproval"));
    assert_eq!(flow.status().message, "Waiting for manual approval of step gate");
    decide(&mut flow, "gate", Decision::Approved);
    assert_eq!(flow.started(), ["after#1"]);
    assert_eq!(flow.phase(), FlowPhase::Running);
    assert_eq!(flow.step("gate").approval.unwrap().by.as_deref(), Some("ann"));
    decide(&mut flow, "gate", Decision::Rejected);
    assert_eq!(flow.outcome("gate"), "Succeeded");
}

#[test]
fn a_decision_may_come_first_be_rejected_or_too_late() {
    let mut flow =
        Bench::new(json!({"steps": [{"name": "a"}, {"name": "gate", "type": "Manual", "dependencies": ["a"]}]}));
    decide(&mut flow, "gate", Decision::Approved);
    flow.succeed("a");
    assert_eq!(flow.phase(), FlowPhase::Succeeded);
    assert!(!flow.notices().contains(&"FlowPaused"));

    let mut flow = Bench::new(json!({"steps": [{"name": "gate", "type": "Manual"}]}));
    decide(&mut flow, "gate", Decision::Rejected);
    assert_eq!(flow.outcome("gate"), "Failed/Rejected");

    let mut flow = Bench::new(json!({"steps": [{"name": "gate", "type": "Manual", "timeoutSeconds": 9}]}));
    flow.wait(9);
    assert_eq!(flow.outcome("gate"), "Failed/ApprovalTimedOut");
    assert_eq!(flow.step("gate").approval.unwrap().decision, Decision::TimedOut);
}

#[test]
fn beside_a_manual_step_other_branches_go_on_and_what_was_rejected_is_not_asked_again() {
    let mut flow = Bench::new(json!({"executionPolicy": {"failurePolicy": "Continue"}, "steps": [
        {"name": "gate", "type": "Manual", "retryPolicy": {"limit": 3}}, {"name": "a"}, {"name": "b", "dependencies": ["a"]}]}));
    assert_eq!(flow.started(), ["a#1"]);
    flow.accept("a");
    assert_eq!((flow.outcome("gate").as_str(), flow.outcome("a").as_str()), ("PendingApproval", "Running"));
    flow.succeed("a");
    assert_eq!(flow.started(), ["b#1"], "while the decision is open");
    flow.accept("b");
    decide(&mut flow, "gate", Decision::Rejected);
    flow.wait(100_000);
    assert_eq!((flow.outcome("gate").as_str(), next_deadline(&flow.state)), ("Failed/Rejected", None));
    flow.succeed("b");
    assert_eq!((flow.outcome("gate").as_str(), flow.phase()), ("Failed/Rejected", FlowPhase::Failed));
}

#[test]
fn drain_starts_nothing_and_resume_goes_on() {
    let mut flow = Bench::new(json!({"executionPolicy": {"activeDeadlineSeconds": 100}, "steps": [
        {"name": "a"}, {"name": "b", "dependencies": ["a"]}, {"name": "gate", "type": "Manual", "dependencies": ["a"]}]}));
    flow.accept("a");
    suspend(&mut flow, true, SuspendMode::Drain);
    assert_eq!(flow.phase(), FlowPhase::Suspended);
    assert_eq!(next_deadline(&flow.state), None);
    flow.succeed("a");
    assert!(flow.started().is_empty());
    assert_eq!(flow.outcome("gate"), "Pending/Queued");
    flow.wait(500);
    suspend(&mut flow, false, SuspendMode::Drain);
    assert_eq!(flow.started(), ["b#1"]);
    assert_eq!(flow.outcome("gate"), "PendingApproval");
    assert_eq!(flow.status().suspended_seconds, 500);
    flow.wait(99);
    assert_eq!(flow.phase(), FlowPhase::Paused);
    flow.wait(1);
    assert_eq!(
        (flow.outcome("gate").as_str(), flow.outcome("b").as_str()),
        ("Skipped/ActiveDeadlineExceeded", "Pending/Starting")
    );
}

#[test]
fn suspend_mode_freezes_attempts_and_their_timers() {
    let mut flow = Bench::new(json!({"steps": [{"name": "a", "timeoutSeconds": 10}, {"name": "late"}]}));
    flow.accept("a");
    flow.wait(4);
    suspend(&mut flow, true, SuspendMode::Suspend);
    assert!(flow.effects.iter().any(|effect| matches!(effect, FlowEffect::SuspendAttempt { .. })));
    flow.accept("late");
    assert!(flow.effects.iter().any(|effect| matches!(effect, FlowEffect::SuspendAttempt { .. })));
    flow.wait(100);
    assert!(flow.cancelled().is_empty());
    suspend(&mut flow, false, SuspendMode::Suspend);
    assert_eq!(next_deadline(&flow.state), Some(flow.now.plus(std::time::Duration::from_secs(6))));
    flow.wait(6);
    assert_eq!(flow.cancelled(), ["a:Timeout"]);
}

#[test]
fn due_retries_wait_for_resume() {
    let mut flow = Bench::new(json!({"steps": [{"name": "a", "retryPolicy": {}}]}));
    flow.fail("a");
    suspend(&mut flow, true, SuspendMode::Drain);
    assert_eq!(next_deadline(&flow.state), None);
    flow.wait(60);
    assert!(flow.started().is_empty());
    suspend(&mut flow, false, SuspendMode::Drain);
    assert_eq!(flow.started(), ["a#2"]);
}

#[test]
fn graceful_stop_lets_live_attempts_finish_then_cleans_up() {
    let mut flow = Bench::new(
        json!({"steps": [{"name": "a"}, {"name": "b", "dependencies": ["a"]}], "finally": [{"name": "clean"}]}),
    );
    flow.accept("a");
    stop(&mut flow, StopMode::Graceful);
    assert!(flow.cancelled().is_empty());
    flow.succeed("a");
    assert_eq!(flow.outcome("b"), "Skipped/Stopped");
    assert_eq!(flow.started(), ["clean#1"]);
    flow.succeed("clean");
    assert_eq!((flow.phase(), flow.cause().as_str()), (FlowPhase::Failed, "Stopped"));
}

#[test]
fn a_stop_that_cuts_nothing_off_leaves_the_natural_outcome() {
    for mode in [StopMode::Graceful, StopMode::Terminate] {
        let mut flow = Bench::new(json!({"steps": [{"name": "a"}]}));
        flow.accept("a");
        stop(&mut flow, mode);
        flow.succeed("a");
        assert_eq!(flow.phase(), FlowPhase::Succeeded, "{mode:?}");
    }
}

#[test]
fn terminate_cancels_skips_finally_and_may_follow_graceful() {
    let mut flow = Bench::new(json!({"steps": [{"name": "a"}], "finally": [{"name": "clean"}]}));
    flow.accept("a");
    stop(&mut flow, StopMode::Graceful);
    stop(&mut flow, StopMode::Terminate);
    assert_eq!(flow.cancelled(), ["a:Terminated"]);
    flow.confirm("a");
    assert_eq!(flow.outcome("a"), "Failed/Terminated");
    assert_eq!(flow.outcome("clean"), "Skipped/Terminated");
    assert_eq!(flow.phase(), FlowPhase::Failed);
}

#[test]
fn the_deadline_cancels_and_skips() {
    let mut flow = Bench::new(
        json!({"executionPolicy": {"activeDeadlineSeconds": 30}, "steps": [{"name": "a"}, {"name": "b", "dependencies": ["a"]}]}),
    );
    flow.accept("a");
    flow.wait(30);
    assert_eq!(flow.cancelled(), ["a:ActiveDeadlineExceeded"]);
    flow.confirm("a");
    assert_eq!(flow.outcome("a"), "Failed/ActiveDeadlineExceeded");
    assert_eq!(flow.outcome("b"), "Skipped/ActiveDeadlineExceeded");
    assert_eq!(flow.cause(), "ActiveDeadlineExceeded");
}

#[test]
fn finally_runs_after_failure_reads_the_outcome_and_may_fail_the_flow() {
    let mut flow = Bench::new(json!({"steps": [{"name": "a"}], "finally": [
        {"name": "bad", "when": "flow.outcome == 'Failed'"}, {"name": "good", "when": "flow.outcome == 'Succeeded'"}]}));
    flow.succeed("a");
    assert_eq!(flow.phase(), FlowPhase::Running);
    assert_eq!(flow.started(), ["good#1"]);
    assert_eq!(flow.outcome("bad"), "Skipped/ConditionFalse");
    flow.accept("good");
    assert_eq!(next_deadline(&flow.state), Some(flow.now.plus(std::time::Duration::from_secs(3600))));
    flow.fail("good");
    assert_eq!((flow.phase(), flow.cause().as_str()), (FlowPhase::Failed, "FinallyFailed"));
}

#[test]
fn ttl_counts_from_first_completion() {
    let mut flow = Bench::new(json!({"executionPolicy": {"ttlSecondsAfterFinished": 60}, "steps": [{"name": "a"}]}));
    flow.succeed("a");
    let due = flow.now.plus(std::time::Duration::from_secs(60));
    assert_eq!(next_deadline(&flow.state), Some(due));
    flow.wait(59);
    assert!(flow.effects.is_empty());
    flow.wait(1);
    assert_eq!(flow.effects, [FlowEffect::DeleteFlow]);
    flow.wait(1);
    assert!(flow.effects.is_empty());
}

#[test]
fn ttl_zero_waits_for_the_final_status() {
    let mut flow = Bench::new(json!({"executionPolicy": {"ttlSecondsAfterFinished": 0}, "steps": [{"name": "a"}]}));
    flow.succeed("a");
    flow.wait(5);
    assert!(flow.effects.is_empty());
    flow.tell(FlowEvent::FinalStatusWritten);
    assert_eq!(flow.effects, [FlowEffect::DeleteFlow]);
}

#[test]
fn a_suspended_flow_that_is_to_end_says_that_it_has_to_be_resumed() {
    let mut flow = Bench::new(json!({"steps": [{"name": "a"}, {"name": "b", "dependencies": ["a"]}]}));
    flow.accept("a");
    suspend(&mut flow, true, SuspendMode::Suspend);
    stop(&mut flow, StopMode::Graceful);
    let since = flow.now;
    assert_eq!(flow.phase(), FlowPhase::Suspended);
    let message = format!("Stopped: the flow was asked to stop; suspended since {since}; resume it to go on");
    assert_eq!(flow.status().message, message);
    suspend(&mut flow, false, SuspendMode::Suspend);
    flow.succeed("a");
    assert_eq!((flow.phase(), flow.cause().as_str()), (FlowPhase::Failed, "Stopped"));
    assert_eq!(flow.status().message, "Stopped: the flow was asked to stop");
}

#[test]
fn nothing_changes_after_the_end() {
    let mut flow = Bench::new(json!({"steps": [{"name": "a"}]}));
    flow.accept("a");
    flow.succeed("a");
    let revision = flow.state.revision();
    flow.fail("a");
    stop(&mut flow, StopMode::Terminate);
    suspend(&mut flow, true, SuspendMode::Suspend);
    flow.tell(FlowEvent::Admit);
    assert_eq!((flow.phase(), flow.state.revision()), (FlowPhase::Succeeded, revision));
}

#[test]
fn resources_come_first_and_may_fail_the_flow() {
    let spec = json!({"resourceTemplates": {"volumeClaimTemplates": [{"metadata": {"name": "data"}}]}, "steps": [{"name": "a"}], "finally": [{"name": "f"}]});
    let mut flow = Bench::new(spec.clone());
    assert!(flow.effects.contains(&FlowEffect::EnsureResources) && flow.started().is_empty());
    flow.tell(FlowEvent::ResourcesReady { refs: vec![] });
    assert_eq!(flow.started(), ["a#1"]);

    let mut flow = Bench::new(spec);
    flow.tell(FlowEvent::ResourcesFailed {
        reason: "ResourceConflict".into(),
        message: "data belongs to somebody else".into(),
    });
    assert_eq!((flow.phase(), flow.cause().as_str()), (FlowPhase::Failed, "ResourceConflict"));
    assert_eq!(flow.outcome("a"), "Skipped/FlowFailed");
    assert_eq!(flow.outcome("f"), "Skipped/FlowFailed");
}

#[test]
fn a_blocked_flow_waits_pending_and_says_so() {
    let mut flow = Bench::unadmitted(json!({"steps": [{"name": "a"}]}));
    flow.tell(FlowEvent::Blocked { reason: "ConcurrencyBlocked".into(), message: "flow x holds key k".into() });
    assert_eq!((flow.phase(), flow.status().message.as_str()), (FlowPhase::Pending, "flow x holds key k"));
    assert_eq!(flow.status().start_time, None);
    flow.tell(FlowEvent::Admit);
    assert_eq!(flow.started(), ["a#1"]);
}

#[test]
fn stop_before_admission_ends_the_flow() {
    let mut flow = Bench::unadmitted(json!({"steps": [{"name": "a"}], "finally": [{"name": "f"}]}));
    stop(&mut flow, StopMode::Graceful);
    assert_eq!((flow.phase(), flow.cause().as_str()), (FlowPhase::Failed, "Stopped"));
    assert_eq!((flow.outcome("a"), flow.outcome("f")), ("Skipped/Stopped".into(), "Skipped/Stopped".into()));
    assert_eq!(flow.status().progress.summary, "2/2");
}

#[test]
fn a_changed_spec_holds_until_it_is_restored() {
    let mut flow = Bench::new(json!({"steps": [{"name": "a"}, {"name": "b", "dependencies": ["a"]}]}));
    flow.tell(FlowEvent::Hold { on: true });
    flow.succeed("a");
    assert!(flow.started().is_empty());
    assert_eq!(flow.phase(), FlowPhase::Suspended);
    flow.tell(FlowEvent::Hold { on: false });
    assert_eq!(flow.started(), ["b#1"]);
}

#[test]
fn imported_steps_are_reused_and_start_nothing_before_admission() {
    let mut flow = Bench::unadmitted(json!({"steps": [{"name": "a"}, {"name": "b", "dependencies": ["a"]}]}));
    let at = flow.at("a");
    flow.tell(FlowEvent::Import { at, outputs: Box::new(StepOutputs::default()) });
    assert_eq!(flow.outcome("a"), "Succeeded/Reused");
    assert_eq!(flow.phase(), FlowPhase::Pending);
    assert!(flow.started().is_empty());
    flow.tell(FlowEvent::Admit);
    assert_eq!(flow.started(), ["b#1"]);
}
