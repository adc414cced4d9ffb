//! Approval, suspension, stop, `finally`.

use orlop_core::spec::status::Decision;
use orlop_core::testing::substrate::{Play, When};
use serde_json::json;

use super::super::{Control, Trigger};
use super::Case;

const RUNNING: fn(&'static str) -> Trigger = |step| Trigger::When { step, phase: "Running" };
const PENDING_APPROVAL: fn(&'static str) -> Trigger = |step| Trigger::When { step, phase: "PendingApproval" };

/// The cases.
pub(super) fn cases() -> Vec<Case> {
    [approvals(), orders(), finals()].concat()
}

fn approvals() -> Vec<Case> {
    vec![
        Case::new("approved")
            .manual("gate", json!({"message": "may it go on?"}))
            .step("a", "true", json!({"dependencies": ["gate"]}))
            .control(PENDING_APPROVAL("gate"), Control::Decide("gate", Decision::Approved))
            .ends(&[("gate", "Succeeded"), ("a", "Succeeded")]),
        Case::new("rejected")
            .manual("gate", json!({}))
            .step("a", "true", json!({"dependencies": ["gate"]}))
            .control(PENDING_APPROVAL("gate"), Control::Decide("gate", Decision::Rejected))
            .ends(&[("gate", "Failed/Rejected"), ("a", "Skipped/DependencyFailed")])
            .fails("FlowFailed"),
        Case::new("approved-beforehand")
            .step("a", "true", json!({}))
            .manual("gate", json!({"dependencies": ["a"]}))
            .control(Trigger::AtStart, Control::Decide("gate", Decision::Approved))
            .ends(&[("gate", "Succeeded")]),
        Case::new("approval-timed-out")
            .manual("gate", json!({"timeoutSeconds": 1, "continueOnFailure": true}))
            .step("a", "true", json!({"dependencies": ["gate"]}))
            .ends(&[("gate", "Failed/ApprovalTimedOut"), ("a", "Succeeded")]),
    ]
}

fn orders() -> Vec<Case> {
    vec![
        Case::new("stop")
            .step("a", "sleep 3", json!({}))
            .step("b", "true", json!({"dependencies": ["a"]}))
            .finally("clean", "true", json!({}))
            .control(RUNNING("a"), Control::Stop)
            .play(When::step("a"), Play::success().after(std::time::Duration::from_secs(3)))
            .ends(&[("a", "Succeeded"), ("b", "Skipped/Stopped"), ("clean", "Succeeded")])
            .fails("Stopped"),
        Case::new("terminate")
            .step("a", "sleep 600", json!({}))
            .step("b", "true", json!({"dependencies": ["a"]}))
            .finally("clean", "true", json!({}))
            .control(RUNNING("a"), Control::Terminate)
            .play(When::step("a"), Play::forever())
            .ends(&[("a", "Failed/Terminated"), ("b", "Skipped/Terminated"), ("clean", "Skipped/Terminated")])
            .fails("Terminated"),
        Case::new("suspend-and-resume")
            .step("a", "true", json!({}))
            .manual("gate", json!({"dependencies": ["a"]}))
            .step("b", "true", json!({"dependencies": ["gate"]}))
            .control(PENDING_APPROVAL("gate"), Control::Suspend(false))
            .control(Trigger::When { step: "a", phase: "Succeeded" }, Control::Decide("gate", Decision::Approved))
            .control(Trigger::When { step: "gate", phase: "Succeeded" }, Control::Resume)
            .ends(&[("gate", "Succeeded"), ("b", "Succeeded")]),
        Case::new("frozen")
            .step("a", "sleep 3", json!({}))
            .control(RUNNING("a"), Control::Suspend(true))
            .control(RUNNING("a"), Control::Resume)
            .play(When::step("a"), Play::success().after(std::time::Duration::from_secs(3)))
            .ends(&[("a", "Succeeded")]),
    ]
}

fn finals() -> Vec<Case> {
    vec![
        Case::new("finally-after-success")
            .step("a", "true", json!({}))
            .finally("good", "true", json!({"when": "flow.outcome == 'Succeeded'"}))
            .finally("bad", "true", json!({"when": "flow.outcome == 'Failed'"}))
            .ends(&[("good", "Succeeded"), ("bad", "Skipped/ConditionFalse")]),
        Case::new("finally-after-failure")
            .step("a", "exit 1", json!({}))
            .step("b", "true", json!({"dependencies": ["a"]}))
            .finally("report", "true", json!({"when": "flow.outcome == 'Failed' && steps.a.phase == 'Failed'"}))
            .finally("then", "true", json!({"dependencies": ["report"]}))
            .play(When::step("a"), Play::exit(1))
            .ends(&[("b", "Skipped/DependencyFailed"), ("report", "Succeeded"), ("then", "Succeeded")])
            .fails("FlowFailed"),
        Case::new("finally-failed")
            .step("a", "true", json!({}))
            .finally("clean", "exit 1", json!({}))
            .play(When::step("clean"), Play::exit(1))
            .ends(&[("a", "Succeeded"), ("clean", "Failed/NonZeroExit")])
            .fails("FinallyFailed"),
    ]
}
