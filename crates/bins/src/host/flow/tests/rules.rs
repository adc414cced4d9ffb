//! What a host refuses when a flow is submitted: the rules are those of every other way in.

use orlop_core::error::Class;
use orlop_core::spec::flow::JobFlow;
use serde_json::{Value, json};

use super::bench::{Bench, UID};
use crate::host::flow::{FlowHost, Submission};

/// What is said of a flow with a change at a place in it.
async fn refused(place: &str, value: Value) -> String {
    let template = json!({"apiVersion": "batch/v1", "kind": "Job", "spec": {"template": {"spec": {
        "containers": [{"name": "main", "image": "busybox", "command": ["true"]}]}}}});
    let mut flow = json!({
        "apiVersion": "workflow.kube-zen.io/v1alpha1", "kind": "JobFlow", "metadata": {"name": "f"},
        "spec": {"executionPolicy": {}, "steps": [
            {"name": "a", "template": template, "retryPolicy": {}},
            {"name": "b", "template": template, "inputs": {"parameters": []}},
        ]},
    });
    let (parent, member) = place.rsplit_once('/').unwrap();
    flow.pointer_mut(parent).unwrap()[member] = value;
    let flow: JobFlow = serde_json::from_value(flow).unwrap();
    let bench = Bench::new();
    match FlowHost::submit(bench.parts(), Submission::new(flow, UID), Vec::new()).await {
        Ok(_) => String::new(),
        Err(error) => {
            assert_eq!((error.class, bench.journal.writes()), (Class::Invalid, 0), "{error}");
            error.message
        }
    }
}

#[tokio::test]
async fn a_flow_that_breaks_a_rule_is_refused_before_anything_is_written() {
    let input = json!([{"name": "x", "valueFrom": {"jsonPath": "a:$["}}]);
    for (place, value, said) in [
        ("/apiVersion", json!("evil/v9"), "apiVersion: `apiVersion` is `evil/v9`"),
        ("/kind", json!("Pod"), "kind: `kind` is `Pod`"),
        ("/metadata/name", json!("../../x"), "metadata.name"),
        ("/spec/steps", json!([]), "the flow has no steps"),
        ("/spec/steps/0/name", json!(""), "spec.steps[0].name"),
        ("/spec/steps/0/template", Value::Null, "the step has no template"),
        ("/spec/steps/0/timeoutSeconds", json!(-5), "a timeout of -5 seconds"),
        ("/spec/steps/0/retryPolicy/limit", json!(-1), "spec.steps[0].retryPolicy.limit"),
        ("/spec/steps/1/inputs/parameters", input, "spec.steps[1].inputs.parameters[0].valueFrom.jsonPath"),
        ("/spec/executionPolicy/parallelism", json!(-3), "spec.executionPolicy.parallelism"),
        ("/spec/steps/1/dependencies", json!(["c"]), "spec.steps[1].dependencies"),
        ("/spec/steps/1/dependencies", json!(["b"]), "cycle"),
    ] {
        let message = refused(place, value).await;
        assert!(message.starts_with("the flow is invalid: ") && message.contains(said), "{place}: {message}");
    }
    assert_eq!(refused("/metadata/name", json!("g")).await, "");
}
