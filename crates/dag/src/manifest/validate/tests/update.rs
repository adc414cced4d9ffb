//! What may change in a stored flow.

use orlop_core::spec::flow::JobFlow;
use serde_json::{Value, json};

use crate::manifest::testing::{flow, lines, set};
use crate::manifest::validate_update;

/// What an update of a flow in some phase says.
fn update<const N: usize, const M: usize>(before: [(&str, Value); N], after: [(&str, Value); M]) -> String {
    let mut old = flow();
    set(&mut old, "spec.steps.-", json!({"name": "gate", "type": "Manual"}));
    for (path, value) in before {
        set(&mut old, path, value);
    }
    let mut new = old.clone();
    for (path, value) in after {
        set(&mut new, path, value);
    }
    let typed = |object: Value| serde_json::from_value::<JobFlow>(object).unwrap();
    lines(&validate_update(&typed(old), &typed(new)))
}

fn started() -> (&'static str, Value) {
    ("status", json!({"phase": "Running", "startTime": "2024-05-01T12:00:00Z"}))
}

#[test]
fn the_spec_is_frozen_once_the_flow_has_started() {
    insta::assert_snapshot!(update([started()], [("spec.steps.0.template.spec.backoffLimit", json!(3))]), @"error[immutable] spec.steps[0].template.spec.backoffLimit: the flow has started, so its spec does not change (restore the field; only suspend, suspendMode and stop may change)");
    insta::assert_snapshot!(update([started()], [("spec.steps.-", json!({"name": "b", "type": "Manual"}))]), @"error[immutable] spec.steps: the flow has started, so its spec does not change (restore the field; only suspend, suspendMode and stop may change)");
    insta::assert_snapshot!(update([started()], [("spec.parameters", json!([{"name": "p"}])), ("spec.suspend", json!(true))]), @"error[immutable] spec.parameters: the flow has started, so its spec does not change (restore the field; only suspend, suspendMode and stop may change)");
    assert_eq!(update([], [("spec.steps.0.name", json!("b"))]), "", "before the start everything may change");
}

#[test]
fn controls_and_metadata_may_change() {
    assert_eq!(
        update(
            [started()],
            [
                ("spec.suspend", json!(true)),
                ("spec.suspendMode", json!("Suspend")),
                ("spec.stop", json!("Graceful")),
                ("metadata.labels", json!({"a": "b"}))
            ]
        ),
        ""
    );
}

#[test]
fn stop_only_rises() {
    let stop = |word: &str| ("spec.stop", json!(word));
    insta::assert_snapshot!(update([stop("Terminate")], [stop("Graceful")]), @"error[value] spec.stop: stop goes back from Terminate to Graceful (it may only rise from Graceful to Terminate)");
    insta::assert_snapshot!(update([stop("Graceful")], [("spec.stop", json!(null))]), @"error[value] spec.stop: the order to stop (Graceful) is taken back (leave it; repeat the flow with a retry instead)");
    assert_eq!(update([started(), stop("Graceful")], [stop("Terminate")]), "");
}

#[test]
fn approvals_name_manual_steps_and_stay() {
    let annotate = |step: &str, value: &str| {
        ("metadata.annotations", json!({format!("approved.workflow.kube-zen.io/{step}"): value}))
    };
    assert_eq!(update([started()], [annotate("gate", "true")]), "");
    insta::assert_snapshot!(update([started()], [annotate("gat", "true")]), @r#"error[approval] metadata.annotations["approved.workflow.kube-zen.io/gat"]: the flow has no Manual step `gat` (did you mean `approved.workflow.kube-zen.io/gate`?)"#);
    insta::assert_snapshot!(update([started()], [annotate("a", "true")]), @r#"error[approval] metadata.annotations["approved.workflow.kube-zen.io/a"]: the flow has no Manual step `a` (name a step of type Manual)"#);
    insta::assert_snapshot!(update([started()], [annotate("gate", "yes")]), @r#"warning[approval] metadata.annotations["approved.workflow.kube-zen.io/gate"]: `yes` decides nothing (write `true` or `rejected`)"#);
    insta::assert_snapshot!(update([started(), annotate("gate", "true")], [annotate("gate", "rejected")]), @r#"error[approval] metadata.annotations["approved.workflow.kube-zen.io/gate"]: the decision `true` is taken back (leave it: decisions are final)"#);
    insta::assert_snapshot!(update([started(), annotate("gate", "rejected")], [("metadata.annotations", json!({}))]), @r#"error[approval] metadata.annotations["approved.workflow.kube-zen.io/gate"]: the decision `rejected` is taken back (leave it: decisions are final)"#);
    assert_eq!(
        update([started()], [("metadata.annotations", json!({"workflow.kube-zen.io/approved/gate": "true"}))]),
        ""
    );
}

#[test]
fn a_long_step_is_approved_by_its_short_name() {
    let long = "g".repeat(80);
    let key = format!("approved.workflow.kube-zen.io/{}", orlop_core::name::short63(&long));
    assert_eq!(update([("spec.steps.1.name", json!(long))], [("metadata.annotations", json!({key: "true"}))]), "");
}

#[test]
fn metadata_of_ended_flows_may_change() {
    let ended = ("status", json!({"phase": "Succeeded", "startTime": "2024-05-01T12:00:00Z"}));
    let decided = ("metadata.annotations", json!({"approved.workflow.kube-zen.io/gate": "true"}));
    assert_eq!(update([ended.clone(), decided], [("metadata.annotations", json!({}))]), "");
    assert_ne!(update([ended], [("spec.steps.0.name", json!("b"))]), "", "their spec may not");
}
