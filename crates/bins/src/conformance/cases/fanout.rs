//! Fan-out.

use orlop_core::testing::substrate::{Play, When};
use serde_json::json;

use super::{Case, output};

/// The cases.
pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new("fan-out")
            .step("fan", "printf '%s' 'i=${parameters.index} v=${parameters.item}' > /tmp/o", json!({"withItems": ["x", 2, true], "outputs": output("o", "/tmp/o")}))
            .ends(&[("fan", "Succeeded"), ("fan-i0", "Succeeded"), ("fan-i2", "Succeeded")])
            .gives("fan", "o", r#"["i=0 v=x","i=1 v=2","i=2 v=true"]"#),
        Case::new("fan-out-fields")
            .step("fan", "printf '%s' '{{.parameters.item.name}}/{{parameters.item.size}}' > /tmp/o", json!({"withItems": [{"name": "a", "size": 0.7}, {"name": "b", "size": 3}], "outputs": output("o", "/tmp/o")}))
            .ends(&[("fan", "Succeeded")])
            .gives("fan", "o", r#"["a/0.7","b/3"]"#),
        Case::new("fan-out-of-output")
            .step("list", r#"printf '["p","q"]' > /tmp/l"#, json!({"outputs": output("l", "/tmp/l")}))
            .step("fan", "printf '%s' '${parameters.item}' > /tmp/o", json!({"withParam": "list:$.outputs.l", "outputs": output("o", "/tmp/o")}))
            .step("sum", "printf '%s' '${parameters.all}' > /tmp/s", json!({
                "inputs": {"parameters": [{"name": "all", "valueFrom": {"jsonPath": "fan:$.outputs.o"}}]},
                "dependencies": ["fan"], "outputs": output("s", "/tmp/s")}))
            .play(When::step("list"), Play::success().file("l", r#"["p","q"]"#))
            .ends(&[("fan", "Succeeded"), ("fan-i1", "Succeeded"), ("sum", "Succeeded")])
            .gives("sum", "s", r#"["p","q"]"#),
        Case::new("fan-out-of-objects")
            .step("first", r#"printf '{"name":"%s","size":%s}' n${parameters.index} ${parameters.item} > /tmp/o"#, json!({"withItems": [7, 8], "outputs": output("o", "/tmp/o")}))
            .step("second", "printf '%s' '${parameters.item.name}/${parameters.item.size}' > /tmp/o", json!({"withParam": "first:$.outputs.o", "outputs": output("o", "/tmp/o")}))
            .play(When::step("first"), Play::success().file("o", r#"{"name":"n0","size":7}"#))
            .ends(&[("second", "Succeeded"), ("second-i1", "Succeeded")])
            .gives("second", "o", r#"["n0/7","n1/8"]"#),
        Case::new("fan-out-of-nothing")
            .step("fan", "exit 1", json!({"withItems": []}))
            .step("b", "true", json!({"dependencies": ["fan"]}))
            .ends(&[("fan", "Succeeded/EmptyFanOut"), ("b", "Succeeded")]),
        Case::new("fan-out-unreadable")
            .step("list", "printf nonsense > /tmp/l", json!({"outputs": output("l", "/tmp/l")}))
            .step("fan", "true", json!({"withParam": "list:$.outputs.l"}))
            .play(When::step("list"), Play::success().file("l", "nonsense"))
            .ends(&[("fan", "Failed/ParameterUnresolved")])
            .fails("FlowFailed"),
        Case::new("fan-out-fails")
            .policy("failurePolicy", json!("Continue"))
            .step("fan", "test ${parameters.item} != 2", json!({"withItems": [1, 2, 3], "parallelism": 1}))
            .step("b", "true", json!({"dependencies": ["fan"]}))
            .play(When::step("fan").item(1), Play::exit(1))
            .ends(&[("fan", "Failed/NonZeroExit"), ("fan-i0", "Succeeded"), ("fan-i1", "Failed/NonZeroExit"), ("fan-i2", "Succeeded"), ("b", "Skipped/DependencyFailed")])
            .fails("FlowFailed"),
        Case::new("fan-out-condition")
            .step("fan", "true", json!({"withItems": ["a", "b"], "when": "parameters.item == 'b'"}))
            .step("b", "true", json!({"depends": "fan.AnySucceeded && !fan.AllFailed"}))
            .ends(&[("fan-i0", "Skipped/ConditionFalse"), ("fan-i1", "Succeeded"), ("b", "Succeeded")]),
    ]
}
