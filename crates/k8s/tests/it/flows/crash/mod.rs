//! The controller dies at every write, before it arrives or after it, or hears no answer; the next one sees the past at first.
//! Every write alone, and pairs of writes, or a sample of both. Owns the flows this is tried with.

mod plans;

use orlop_k8s::flow::Options;
use orlop_k8s::status::SizeLimits;
use serde_json::{Value, json};

use super::test_env::step;
use plans::{Case, Extent};

/// Of how many first faults one is followed by all second ones, unless the long mode takes all. First faults repeat every 7 at one write: what shares a factor with that always follows the same ones.
const EVERY: usize = 30;
/// How many writes are tried as the first that goes wrong, unless the long mode takes all.
const FEW: usize = 6;
/// So long that it does not end until everything is ordered.
const ENDLESS: &str = "1000000";

fn every() -> Extent {
    let sample = orlop_core::sample!(EVERY, 1);
    let (every, few) = if sample.is_whole() { (1, usize::MAX) } else { (EVERY, FEW) };
    Extent { every, before: sample.into_iter().next().unwrap_or_default() % every, few }
}

fn job(name: &str) -> Value {
    step(name, &[], json!({}))
}

fn after(name: &str, before: &str) -> Value {
    step(name, &[before], json!({}))
}

fn endless(name: &str) -> Value {
    step(name, &[], json!({"fake/run-seconds": ENDLESS}))
}

#[tokio::test]
async fn a_crash_at_any_two_writes_of_a_chain_changes_nothing_and_creates_nothing_twice() {
    let mut first = job("a");
    first["outputs"] = json!({"parameters": [{"name": "count", "valueFrom": {"jsonPath": "$.succeeded"}}]});
    let mut flaky = step("flaky", &["a"], json!({"fake/exit-code": "7"}));
    flaky["retryPolicy"] = json!({"limit": 1, "backoff": {"type": "Fixed", "duration": "30s"}});
    flaky["continueOnFailure"] = json!(true);
    Case::of(json!({"steps": [first, flaky], "finally": [job("tidy")]})).all(every()).await;
}

/// Two instances and a step that fails, of which only the failed one keeps its Job, a ConfigMap and a claim.
#[tokio::test]
async fn a_crash_at_any_two_writes_of_a_fan_out_changes_nothing_and_creates_nothing_twice() {
    let mut many = job("many");
    many["withItems"] = json!([1, 2]);
    let mut tolerated = step("bad", &["many"], json!({"fake/exit-code": "3"}));
    tolerated["continueOnFailure"] = json!(true);
    let claim = json!({"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}}}});
    let case = Case::of(json!({
        "steps": [many, tolerated],
        "resourceTemplates": {"configMapTemplates": [{"metadata": {"name": "settings"}, "data": {"k": "v"}}],
            "volumeClaimTemplates": [claim]},
        "executionPolicy": {"jobRetention": "Failed"},
    }));
    case.all(every()).await;
}

#[tokio::test]
async fn a_crash_at_any_two_writes_with_records_beside_the_object_changes_nothing_and_creates_nothing_twice() {
    let mut options = Options::default();
    options.sizes = SizeLimits { inline: 64, object: 1_400 };
    let case = Case { options, ..Case::of(json!({"steps": [job("a"), after("b", "a")]})) };
    assert!(plans::pieces(&case.clean().await) > 0, "the records of the status lie beside it");
    case.all(every()).await;
}

#[tokio::test]
async fn a_crash_at_any_two_writes_of_attempts_that_are_ended_changes_nothing_and_creates_nothing_twice() {
    let mut slow = endless("slow");
    slow["timeoutSeconds"] = json!(60);
    slow["retryPolicy"] = json!({"limit": 1, "backoff": {"type": "Fixed", "duration": "30s"}});
    let mut kept = job("kept");
    kept["template"]["spec"]["ttlSecondsAfterFinished"] = json!(77);
    Case::of(json!({"steps": [slow, kept]})).all(every()).await;
}

#[tokio::test]
async fn a_crash_at_any_two_writes_of_a_suspension_changes_nothing_and_creates_nothing_twice() {
    let orders = vec![json!({"spec": {"suspend": true}}), json!({"spec": {"suspend": false}})];
    let mut held = endless("a");
    held["template"]["spec"]["backoffLimit"] = json!(3);
    let spec = json!({"suspendMode": "Suspend", "steps": [held, after("b", "a")]});
    Case { orders, ..Case::of(spec) }.all(every()).await;
}

#[tokio::test]
async fn a_crash_at_any_two_writes_around_a_decision_changes_nothing_and_creates_nothing_twice() {
    let orders = vec![json!({"metadata": {"annotations": {"approved.workflow.kube-zen.io/gate": "true"}}})];
    let gate = json!({"name": "gate", "type": "Manual", "dependencies": ["a"]});
    Case { orders, ..Case::of(json!({"steps": [job("a"), gate, after("b", "gate")]})) }.all(every()).await;
}

#[tokio::test]
async fn a_crash_at_any_two_writes_of_a_fan_out_over_an_output_changes_nothing_and_creates_nothing_twice() {
    let mut many = after("many", "a");
    many["withParam"] = json!("a:$.status.conditions[*]['type','status']");
    Case::of(json!({"steps": [job("a"), many]})).all(every()).await;
}

/// A flow that takes the place of another, whose Job does not end.
#[tokio::test]
async fn a_crash_at_any_two_writes_of_a_flow_that_replaces_another_changes_nothing_and_creates_nothing_twice() {
    let spec = |policy: &str, step: Value| json!({"steps": [step], "executionPolicy": {"concurrencyPolicy": policy, "concurrencyKey": "k"}});
    let case = Case { before: Some(spec("Forbid", endless("a"))), fresh: true, ..Case::of(spec("Replace", job("a"))) };
    assert!(case.clean().await.status("old")["conditions"].to_string().contains("Replaced"));
    case.all(every()).await;
}
