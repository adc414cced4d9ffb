//! Failures, retries, budgets, limits of time.

use orlop_core::testing::substrate::{Play, When};
use serde_json::{Value, json};

use super::super::{Control, Trigger};
use super::{Case, retries};

fn rule(action: &str, code: i32) -> Value {
    json!({"rules": [{"action": action, "onExitCodes": {"operator": "In", "values": [code]}}]})
}

/// A Job whose container has no program to start.
fn cannot_start() -> Value {
    let container = json!({"name": "main", "image": "{image}", "command": ["/no/such/program"]});
    json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "spec": {"template": {"spec": {"containers": [container], "restartPolicy": "Never"}}},
    })
}

/// The cases.
pub(super) fn cases() -> Vec<Case> {
    [policies(), joins(), starting(), retrying(), limits()].concat()
}

fn starting() -> Vec<Case> {
    vec![
        Case::new("no-such-command")
            .step("gone", "true", json!({"template": cannot_start()}))
            .play(When::step("gone"), Play::exit(127))
            .ends(&[("gone", "Failed/NonZeroExit")])
            .fails("FlowFailed"),
    ]
}

fn policies() -> Vec<Case> {
    vec![
        Case::new("fail-fast")
            .policy("parallelism", json!(1))
            .step("a", "exit 3", json!({}))
            .step("b", "true", json!({"dependencies": ["a"]}))
            .step("c", "true", json!({"dependencies": ["b"]}))
            .step("other", "true", json!({}))
            .play(When::step("a"), Play::exit(3))
            .ends(&[
                ("a", "Failed/NonZeroExit"),
                ("b", "Skipped/DependencyFailed"),
                ("c", "Skipped/DependencyFailed"),
                ("other", "Skipped/FlowFailed"),
            ])
            .fails("FlowFailed"),
        Case::new("continue")
            .policy("failurePolicy", json!("Continue"))
            .policy("parallelism", json!(1))
            .step("a", "exit 3", json!({}))
            .step("b", "true", json!({"dependencies": ["a"]}))
            .step("c", "true", json!({}))
            .step("d", "true", json!({"dependencies": ["c"]}))
            .play(When::step("a"), Play::exit(3))
            .ends(&[("b", "Skipped/DependencyFailed"), ("c", "Succeeded"), ("d", "Succeeded")])
            .fails("FlowFailed"),
        Case::new("cancel-running")
            .policy("failurePolicy", json!("CancelRunning"))
            .step("long", "sleep 600", json!({}))
            .manual("gate", json!({}))
            .step("bad", "exit 1", json!({"dependencies": ["gate"]}))
            .control(
                Trigger::When { step: "long", phase: "Running" },
                Control::Decide("gate", orlop_core::spec::status::Decision::Approved),
            )
            .play(When::step("long"), Play::forever())
            .play(When::step("bad"), Play::exit(1))
            .ends(&[("long", "Failed/FlowFailed"), ("bad", "Failed/NonZeroExit")])
            .fails("FlowFailed"),
        Case::new("continue-on-failure")
            .step("a", "exit 1", json!({"continueOnFailure": true}))
            .step("b", "true", json!({"dependencies": ["a"]}))
            .play(When::step("a"), Play::exit(1))
            .ends(&[("a", "Failed/NonZeroExit"), ("b", "Succeeded")]),
        Case::new("tolerated-outcome")
            .policy("toleratedOutcome", json!("Failed"))
            .step("a", "exit 1", json!({"continueOnFailure": true}))
            .step("b", "true", json!({"dependencies": ["a"]}))
            .play(When::step("a"), Play::exit(1))
            .ends(&[("b", "Succeeded")])
            .fails("FlowFailed"),
        Case::new("ignored-exit-code")
            .policy("podFailurePolicy", rule("Ignore", 42))
            .step("a", "exit 42", json!({}))
            .step("b", "true", json!({"dependencies": ["a"]}))
            .play(When::step("a"), Play::exit(42))
            .ends(&[("a", "Succeeded/FailureIgnored"), ("b", "Succeeded")]),
        Case::new("counted-exit-code")
            .policy("podFailurePolicy", rule("Count", 42))
            .step("a", "exit 42", json!({}))
            .play(When::step("a"), Play::exit(42))
            .ends(&[("a", "Succeeded/FailureCounted")]),
        Case::new("fail-job-exit-code")
            .policy("podFailurePolicy", rule("FailJob", 42))
            .step("a", "exit 42", json!({"retryPolicy": retries(3)}))
            .play(When::step("a"), Play::exit(42))
            .ends(&[("a", "Failed/NonZeroExit")])
            .retried("a", 0)
            .fails("FlowFailed"),
    ]
}

/// A join that names a failure lets who named it run, and changes nothing for other dependents.
fn joins() -> Vec<Case> {
    vec![
        Case::new("failure-handler")
            .step("deploy", "exit 1", json!({}))
            .step("promote", "true", json!({"dependencies": ["deploy"]}))
            .step("alert", "true", json!({"depends": "deploy.Failed"}))
            .play(When::step("deploy"), Play::exit(1))
            .ends(&[("deploy", "Failed/NonZeroExit"), ("promote", "Skipped/DependencyFailed"), ("alert", "Succeeded")])
            .fails("FlowFailed"),
        Case::new("failure-handled-by-all")
            .step("deploy", "exit 1", json!({}))
            .step("promote", "true", json!({"depends": "deploy && !deploy.Failed"}))
            .step("alert", "true", json!({"depends": "deploy.Failed"}))
            .play(When::step("deploy"), Play::exit(1))
            .ends(&[("promote", "Skipped/DependsFalse"), ("alert", "Succeeded")]),
        Case::new("diamond-of-joins")
            .step("b", "exit 1", json!({}))
            .step("c", "true", json!({}))
            .step("either", "true", json!({"depends": "b.Succeeded || (c && (b.Failed || b.Skipped))"}))
            .step("both", "true", json!({"depends": "b && c"}))
            .play(When::step("b"), Play::exit(1))
            .ends(&[("c", "Succeeded"), ("either", "Succeeded"), ("both", "Skipped/DependencyFailed")])
            .fails("FlowFailed"),
    ]
}

fn retrying() -> Vec<Case> {
    vec![
        Case::new("retry-succeeds")
            .step("a", "test $ATTEMPT -eq 3", json!({"retryPolicy": retries(3)}))
            .play(When::step("a").attempt(1), Play::exit(1))
            .play(When::step("a").attempt(2), Play::exit(1))
            .ends(&[("a", "Succeeded")])
            .retried("a", 2),
        Case::new("retries-used-up")
            .step("a", "exit 9", json!({"retryPolicy": retries(2)}))
            .play(When::step("a"), Play::exit(9))
            .ends(&[("a", "Failed/NonZeroExit")])
            .retried("a", 2)
            .fails("FlowFailed"),
        Case::new("no-retries")
            .step("a", "exit 9", json!({"retryPolicy": retries(0)}))
            .play(When::step("a"), Play::exit(9))
            .ends(&[("a", "Failed/NonZeroExit")])
            .retried("a", 0)
            .fails("FlowFailed"),
        Case::new("budget-used-up")
            .policy("backoffLimit", json!(1))
            .policy("failurePolicy", json!("Continue"))
            .policy("parallelism", json!(1))
            .step("a", "exit 9", json!({"retryPolicy": retries(5)}))
            .step("b", "true", json!({"dependencies": ["a"]}))
            .play(When::step("a"), Play::exit(9))
            .ends(&[("a", "Failed/NonZeroExit"), ("b", "Skipped/DependencyFailed")])
            .retried("a", 1)
            .fails("BackoffLimitExceeded"),
    ]
}

fn limits() -> Vec<Case> {
    vec![
        Case::new("timeout")
            .step("a", "sleep 600", json!({"timeoutSeconds": 1}))
            .step("b", "true", json!({"dependencies": ["a"]}))
            .play(When::step("a"), Play::forever())
            .ends(&[("a", "Failed/Timeout"), ("b", "Skipped/DependencyFailed")])
            .fails("FlowFailed"),
        Case::new("timeout-then-success")
            // On a busy machine the second attempt takes seconds to start a container, and must not time out as well.
            .step("a", "test $ATTEMPT -gt 1 || sleep 600", json!({"timeoutSeconds": 15, "retryPolicy": retries(1)}))
            .play(When::step("a").attempt(1), Play::forever())
            .ends(&[("a", "Succeeded")])
            .retried("a", 1),
        Case::new("deaf-to-term")
            .step("a", "trap '' TERM; while :; do sleep 0.1; done", json!({"timeoutSeconds": 1}))
            .play(When::step("a"), Play::forever())
            .ends(&[("a", "Failed/Timeout")])
            .fails("FlowFailed"),
        Case::new("deadline")
            .policy("activeDeadlineSeconds", json!(10))
            .step("a", "sleep 600", json!({}))
            .step("b", "true", json!({"dependencies": ["a"]}))
            .play(When::step("a"), Play::forever())
            .ends(&[("a", "Failed/ActiveDeadlineExceeded"), ("b", "Skipped/ActiveDeadlineExceeded")])
            .fails("ActiveDeadlineExceeded"),
        // A command's `$$` reaches the program as one `$`. A program that kills itself is left out: in a container it is
        // process 1, which the kernel protects from its own signals.
        Case::new("command-not-found")
            .step("a", "test \"$$$$\" -gt 0 && exec /no/such/program", json!({}))
            .play(When::step("a"), Play::exit(127))
            .ends(&[("a", "Failed/NonZeroExit")])
            .fails("FlowFailed"),
    ]
}
