//! What people and schedules decide: approvals, and flows that exclude each other.

use serde_json::{Value, json};

use super::{annotate, apply, jobs, object};
use crate::flows::test_env::TestEnv;

/// The flow of `gate.yaml`, as far as it goes alone.
async fn waiting() -> TestEnv {
    let mut env = TestEnv::new();
    apply(&env, &object("gate")).await;
    env.run().await;
    let status = env.status("gate");
    let step = &status["steps"][1];
    assert_eq!((&status["phase"], &step["phase"]), (&json!("Paused"), &json!("PendingApproval")));
    assert_eq!(step["message"], "Is the backup complete?");
    assert!(!step["startTime"].is_null() && jobs(&env, "move").is_empty());
    env
}

#[tokio::test]
async fn a_manual_step_pauses_the_flow_until_somebody_approves() {
    let mut env = waiting().await;
    // The key of their documentation has two slashes: no API server takes it, and the flow goes on waiting.
    let refused = annotate(&env, "gate", "workflow.kube-zen.io/approved/look", "true").await.expect_err("two slashes");
    assert!(refused.contains("workflow.kube-zen.io/approved/look"), "{refused}");
    annotate(&env, "gate", "approved.workflow.kube-zen.io/look", "true").await.expect("an approval");
    env.run().await;
    insta::assert_snapshot!(env.outcome("gate"), @"
    Succeeded 3/3
    backup Succeeded/- 1
    look Succeeded/- null
    move Succeeded/- 1
    ");
}

#[tokio::test]
async fn a_manual_step_that_is_rejected_ends_the_flow() {
    let mut env = waiting().await;
    annotate(&env, "gate", "approved.workflow.kube-zen.io/look", "rejected").await.expect("a rejection");
    env.run().await;
    insta::assert_snapshot!(env.outcome("gate"), @"
    Failed 3/3
    backup Succeeded/- 1
    look Failed/Rejected null
    move Skipped/DependencyFailed null
    ");
}

/// The manifest of `nightly.yaml` as the n-th run of one schedule.
fn run(number: u32, policy: &str) -> Value {
    let mut manifest = object("nightly-1");
    manifest["metadata"]["name"] = json!(format!("nightly-{number}"));
    manifest["spec"]["executionPolicy"]["concurrencyPolicy"] = json!(policy);
    manifest
}

/// Phases of the first and the second run after the second was created.
async fn two(policy: &str) -> (TestEnv, Vec<Value>) {
    let mut env = TestEnv::new();
    for number in [1, 2] {
        apply(&env, &run(number, policy)).await;
        env.settle().await;
    }
    let phases = ["nightly-1", "nightly-2"].map(|flow| env.status(flow)["phase"].clone());
    (env, phases.to_vec())
}

#[tokio::test]
async fn one_run_at_a_time_is_what_forbid_means() {
    let (mut env, phases) = two("Forbid").await;
    assert_eq!(phases, ["Running", "Pending"]);
    env.run().await;
    assert_eq!(
        (&env.status("nightly-1")["phase"], &env.status("nightly-2")["phase"]),
        (&json!("Succeeded"), &json!("Succeeded"))
    );
    let time = |flow: &str, field: &str| env.status(flow)[field].as_str().map(str::to_owned);
    assert!(time("nightly-2", "startTime") >= time("nightly-1", "completionTime"));
}

#[tokio::test]
async fn runs_beside_each_other_are_what_allow_means() {
    let (_, phases) = two("Allow").await;
    assert_eq!(phases, ["Running", "Running"]);
}

#[tokio::test]
async fn the_newer_run_ends_the_older_one_where_replace_is_said() {
    let (mut env, _) = two("Replace").await;
    env.run().await;
    let first = env.status("nightly-1");
    assert_eq!((&first["phase"], &first["conditions"][0]["reason"]), (&json!("Failed"), &json!("Replaced")), "{first}");
    assert_eq!(env.status("nightly-2")["phase"], "Succeeded");
}

#[tokio::test]
async fn a_second_flow_of_the_same_name_is_refused_by_the_server() {
    let env = TestEnv::new();
    apply(&env, &object("harvest")).await;
    let refused = env.ask_of_flows("POST", "", &object("harvest")).await.expect_err("a name is taken once");
    assert!(refused.contains("already exists"), "{refused}");
}
