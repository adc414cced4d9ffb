//! Order, conditions and joins.

use orlop_core::testing::substrate::{Play, When};
use serde_json::json;

use super::{Case, output, retries};

/// The cases.
pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new("single").step("a", "true", json!({})).ends(&[("a", "Succeeded")]),
        Case::new("chain")
            .step("c", "true", json!({"dependencies": ["b"]}))
            .step("b", "true", json!({"dependencies": ["a"]}))
            .step("a", "true", json!({}))
            .ends(&[("a", "Succeeded"), ("b", "Succeeded"), ("c", "Succeeded")]),
        Case::new("diamond")
            .step("a", "true", json!({}))
            .step("b", "true", json!({"dependencies": ["a"]}))
            .step("c", "true", json!({"dependencies": ["a", "a"]}))
            .step("d", "true", json!({"dependencies": ["b", "c"]}))
            .ends(&[("b", "Succeeded"), ("c", "Succeeded"), ("d", "Succeeded")]),
        Case::new("one-at-a-time")
            .policy("parallelism", json!(1))
            .step("a", "true", json!({}))
            .step("b", "true", json!({}))
            .step("c", "true", json!({}))
            .ends(&[("a", "Succeeded"), ("b", "Succeeded"), ("c", "Succeeded")]),
        Case::new("false-condition")
            .step("a", "true", json!({}))
            .step("b", "exit 1", json!({"dependencies": ["a"], "when": "steps.a.phase == 'Failed'"}))
            .step("c", "true", json!({"dependencies": ["b"]}))
            .ends(&[("b", "Skipped/ConditionFalse"), ("c", "Succeeded")]),
        Case::new("strict-skip")
            .policy("skipPolicy", json!("Strict"))
            .step("a", "true", json!({"when": "never"}))
            .step("b", "true", json!({"dependencies": ["a"]}))
            .step("c", "true", json!({"dependencies": ["b"]}))
            .ends(&[("a", "Skipped/ConditionFalse"), ("b", "Skipped/DependencySkipped"), ("c", "Skipped/DependencySkipped")]),
        Case::new("condition-on-output")
            .step("a", "printf 42 > /tmp/n", json!({"outputs": output("n", "/tmp/n")}))
            .step("big", "true", json!({"when": "int(steps.a.outputs.n) > 40"}))
            .step("small", "true", json!({"when": "int(steps.a.outputs.n) <= 40"}))
            .play(When::step("a"), Play::success().file("n", "42"))
            .ends(&[("big", "Succeeded"), ("small", "Skipped/ConditionFalse")]),
        Case::new("condition-on-retries")
            .step("a", "test $ATTEMPT -gt 1", json!({"retryPolicy": retries(2)}))
            .step("b", "true", json!({"dependencies": ["a"], "when": "steps.a.retryCount == 1 && flow.name == 'condition-on-retries'"}))
            .play(When::step("a").attempt(1), Play::exit(1))
            .ends(&[("b", "Succeeded")])
            .retried("a", 1),
        Case::new("condition-error")
            .step("a", "printf many > /tmp/n", json!({"outputs": output("n", "/tmp/n")}))
            .step("b", "true", json!({"dependencies": ["a"], "when": "int(steps.a.outputs.n) > 1"}))
            .play(When::step("a"), Play::success().file("n", "many"))
            .ends(&[("b", "Failed/ConditionError")])
            .fails("FlowFailed"),
        Case::new("join-on-failure")
            .step("a", "exit 7", json!({}))
            .step("rescue", "true", json!({"depends": "a.Failed"}))
            .step("celebrate", "true", json!({"depends": "a.Succeeded"}))
            .play(When::step("a"), Play::exit(7))
            .ends(&[("a", "Failed/NonZeroExit"), ("rescue", "Succeeded"), ("celebrate", "Skipped/DependencyFailed")])
            .fails("FlowFailed"),
        Case::new("join-of-two")
            .step("a", "true", json!({"when": "false"}))
            .step("b", "true", json!({}))
            .step("c", "true", json!({"depends": "a.Skipped && (b || b.Failed)"}))
            .step("d", "true", json!({"depends": "!a"}))
            .ends(&[("c", "Succeeded"), ("d", "Skipped/DependsFalse")]),
    ]
}
