//! Parameters and outputs.

use orlop_core::testing::substrate::{Play, When};
use serde_json::json;

use super::{Case, output};

/// A value that quoting, escaping or a second scan would damage.
const NASTY: &str = "a 'b' \"c\" \\d $(e) `f` {{.parameters.x}} ${parameters.y}\ttab\nline";

/// The cases.
pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new("facts-of-the-flow")
            .step("bad", "exit 3", json!({}))
            .finally("notify", "printf '%s' '${parameters.failures}' | grep -q '\"step\":\"bad\"' && printf '%s' '${parameters.name} ${parameters.outcome}' > /tmp/o", json!({
                "inputs": {"parameters": [
                    {"name": "name", "valueFrom": {"flow": "name"}}, {"name": "outcome", "valueFrom": {"flow": "outcome"}},
                    {"name": "failures", "valueFrom": {"flow": "failures"}}]},
                "outputs": output("o", "/tmp/o")}))
            .play(When::step("bad"), Play::exit(3))
            .ends(&[("notify", "Succeeded")])
            .gives("notify", "o", "facts-of-the-flow Failed")
            .fails("FlowFailed"),
        Case::new("output-to-input")
            .step("a", "echo hello > /tmp/o", json!({"outputs": output("o", "/tmp/o")}))
            .reading("b", "printf '%s' \"$V!\" > /tmp/p", with_input(json!({"name": "v", "valueFrom": {"jsonPath": "a: $.outputs.o"}})))
            .play(When::step("a"), Play::success().file("o", "hello"))
            .ends(&[("b", "Succeeded")])
            .gives("b", "p", "hello!"),
        Case::new("byte-exact-value")
            .reading("b", "printf '%s' \"$V\" > /tmp/p", with_input(json!({"name": "v", "value": NASTY})))
            .ends(&[("b", "Succeeded")])
            .gives("b", "p", NASTY),
        Case::new("flow-parameter")
            .with("parameters", json!([{"name": "who", "enum": ["you", "me"]}, {"name": "greeting", "value": "hi"}]))
            .parameter("who", "me")
            .step("a", "printf '%s' '${parameters.greeting} ${parameters.who}' > /tmp/p", json!({"outputs": output("p", "/tmp/p")}))
            .ends(&[("a", "Succeeded")])
            .gives("a", "p", "hi me"),
        Case::new("default-output")
            .step("a", "true", json!({"outputs": {"parameters": [{"name": "o", "valueFrom": {"path": "/tmp/none"}, "default": "fallback"}]}}))
            .play(When::step("a"), Play::success().without("o"))
            .ends(&[("a", "Succeeded")])
            .gives("a", "o", "fallback"),
        Case::new("missing-output")
            .step("a", "true", json!({"outputs": output("o", "/tmp/none")}))
            .play(When::step("a"), Play::success().without("o"))
            .ends(&[("a", "Failed/OutputMissing")])
            .fails("FlowFailed"),
        Case::new("termination-message")
            .step("a", r#"printf '{"score": 0.7}' > /dev/termination-log"#, json!({"outputs": {"parameters": [
                {"name": "score", "valueFrom": {"jsonPath": "$.termination.json.score"}},
                {"name": "exit", "valueFrom": {"jsonPath": "$.termination.exitCode"}}]}}))
            .play(When::step("a"), Play::success().termination(r#"{"score": 0.7}"#))
            .ends(&[("a", "Succeeded")])
            .gives("a", "score", "0.7")
            .gives("a", "exit", "0"),
        Case::new("document-of-a-step")
            .step("a", "true", json!({}))
            .reading("b", "printf '%s' \"$V\" > /tmp/p", with_input(json!({"name": "v", "valueFrom": {"jsonPath": "a:$.succeeded"}})))
            .ends(&[("b", "Succeeded")])
            .gives("b", "p", "1"),
        Case::new("unresolved-parameter")
            .step("a", "true", json!({}))
            .reading("b", "true", with_input(json!({"name": "v", "valueFrom": {"jsonPath": "a:$.nothing"}})))
            .play(When::step("b"), Play::success())
            .ends(&[("b", "Failed/ParameterUnresolved")])
            .fails("FlowFailed"),
    ]
}

/// A step that reads one input through its environment and gives back what it writes to `/tmp/p`.
fn with_input(input: serde_json::Value) -> serde_json::Value {
    json!({"inputs": {"parameters": [input]}, "outputs": output("p", "/tmp/p")})
}
