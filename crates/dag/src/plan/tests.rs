//! Plans of hostile specs: large, and wrong in every step. A quadratic look-up would take minutes here.

use std::sync::Arc;

use orlop_core::spec::flow::FlowSpec;
use serde_json::{Value, json};

use super::Plan;

const MANY: usize = 20_000;

fn spec(steps: Vec<Value>) -> Arc<FlowSpec> {
    Arc::new(serde_json::from_value(json!({ "steps": steps })).unwrap())
}

#[test]
fn twenty_thousand_wrong_references_are_all_reported_and_the_first_with_a_suggestion() {
    let prefix = "s".repeat(200);
    let wrong = |number: usize| {
        json!({"name": format!("{prefix}-{number:05}"), "dependencies": [format!("{prefix}-{number:05}x")],
            "inputs": {"artifacts": [{"name": "a", "from": format!("{prefix}y-{number:05}/a")}]}})
    };
    let errors = Plan::build(spec((0..MANY).map(wrong).collect())).unwrap_err();
    assert_eq!(errors.len(), 2 * MANY);
    assert_eq!(errors[0].help.as_deref(), Some(&*format!("did you mean `{prefix}-00000`?")));
    assert!(errors[super::build::SUGGESTED..].iter().all(|error| error.help.is_none()));
}

#[test]
fn twenty_thousand_paths_of_one_step_are_projected_once_each() {
    let reader = |number: usize| {
        let path = |number: usize| json!({"name": "p", "valueFrom": {"jsonPath": format!("all:$.status.o{number}")}});
        json!({"name": format!("r{number}"), "inputs": {"parameters": [path(number), path(number / 2)]}})
    };
    let steps = std::iter::once(json!({"name": "all"})).chain((0..MANY).map(reader)).collect();
    let plan = Plan::build(spec(steps)).unwrap();
    let all = plan.index_of("all").unwrap();
    assert_eq!(plan.projections(all).len(), MANY);
    assert_eq!(plan.projections(all)[..3], ["$.status.o0", "$.status.o1", "$.status.o2"]);
    assert_eq!(plan.edges(), MANY);
}
