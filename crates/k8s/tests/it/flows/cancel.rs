//! Cancelled attempts: nothing that comes after one starts before its last pod is gone.

use std::time::Duration;

use orlop_core::time::Time;
use orlop_k8s::api::Client;
use orlop_k8s::client::{FlowClient, RetryOptions};
use orlop_k8s::testing::ApiServer;
use serde_json::{Value, json};

use super::test_env::{TestEnv, step};
use crate::shipped::{ACCOUNT, grant, rules};

const FLOWS: &str = "jobflows.workflow.kube-zen.io";
/// Seconds that pods take to end once they are deleted.
const TERM: u64 = 12;

/// A step that runs until its pod is deleted, and then takes a while.
fn slow(name: &str, after: &[&str]) -> Value {
    step(name, after, json!({"fake/run-seconds": "inf", "fake/term-seconds": TERM.to_string()}))
}

fn at(value: &Value) -> Time {
    value.as_str().unwrap_or_else(|| panic!("no time: {value}")).parse().expect("a time")
}

/// When the Job of a step was created; of the attempt with this number.
fn created(env: &TestEnv, step: &str, attempt: u32) -> Time {
    let labels = |job: &Value, name: &str| job["metadata"]["labels"][format!("workflow.kube-zen.io/{name}")].clone();
    let (jobs, attempt) = (env.jobs(), attempt.to_string());
    let job = jobs.iter().find(|job| labels(job, "step") == step && labels(job, "attempt") == *attempt);
    at(&job.unwrap_or_else(|| panic!("no Job of {step}/{attempt}: {jobs:?}"))["metadata"]["creationTimestamp"])
}

/// Seconds from the start of a flow.
fn after_start(env: &TestEnv, flow: &str, time: Time) -> u64 {
    time.since(at(&env.status(flow)["startTime"])).as_secs()
}

/// Lets so many seconds go by.
async fn wait(env: &mut TestEnv, seconds: u64) {
    for _ in 0..seconds {
        env.pass_time(Duration::from_secs(1)).await;
    }
}

async fn edit(env: &mut TestEnv, flow: &str, change: Value) {
    env.ask_of_flows("PATCH", flow, &change).await.expect("the server takes the change");
}

#[tokio::test]
async fn a_retry_starts_after_the_last_pod_of_the_attempt_that_took_too_long() {
    let mut env = TestEnv::new();
    let mut a = slow("a", &[]);
    a["timeoutSeconds"] = json!(5);
    a["retryPolicy"] = json!({"limit": 1, "backoff": {"type": "Fixed", "duration": "1s"}});
    env.submit("etl", json!({"steps": [a]}));
    wait(&mut env, 25).await;
    let second = created(&env, "a", 2);
    assert!(after_start(&env, "etl", second) > 5 + TERM, "{second}");
    assert_eq!(env.status("etl")["steps"][0]["phase"], "Running");
}

#[tokio::test]
async fn finally_starts_after_the_last_pod_of_the_attempt_that_was_cancelled() {
    let mut env = TestEnv::new();
    let spec = json!({"steps": [slow("a", &[])], "finally": [step("tidy", &[], json!({}))],
        "executionPolicy": {"activeDeadlineSeconds": 5}});
    env.submit("etl", spec);
    wait(&mut env, 25).await;
    let tidy = created(&env, "tidy", 1);
    assert!(after_start(&env, "etl", tidy) >= 5 + TERM, "{tidy}");
    assert_eq!(env.status("etl")["phase"], "Failed");
}

/// A flow with a key that others wait for.
fn keyed(policy: &str) -> Value {
    json!({"steps": [slow("a", &[])], "executionPolicy": {"concurrencyKey": "nightly", "concurrencyPolicy": policy}})
}

#[tokio::test]
async fn a_flow_that_replaces_another_starts_after_its_last_pod() {
    let mut env = TestEnv::new();
    env.submit("old", keyed("Forbid"));
    wait(&mut env, 3).await;
    env.submit("new", keyed("Replace"));
    wait(&mut env, 25).await;
    let start = at(&env.status("new")["startTime"]);
    assert!(after_start(&env, "old", start) >= 3 + TERM, "{start}");
    assert_eq!(env.status("old")["phase"], "Failed");
}

#[tokio::test]
async fn the_key_of_a_deleted_flow_is_held_while_a_pod_of_it_runs_also_for_a_new_leader() {
    for restarts in [false, true] {
        let mut env = TestEnv::new();
        env.submit("old", keyed("Forbid"));
        wait(&mut env, 3).await;
        let before = at(&env.status("old")["startTime"]);
        env.submit("new", keyed("Forbid"));
        env.settle().await;
        env.ask_of_flows("DELETE", "old", &json!({"propagationPolicy": "Background"})).await.expect("it goes");
        env.settle().await;
        if restarts {
            env.restart().await;
        }
        wait(&mut env, 5).await;
        assert!(env.server.look(FLOWS, "default", "old").is_none(), "the flow is gone");
        let status = env.status("new");
        assert_eq!((&status["phase"], status["startTime"].is_null()), (&json!("Pending"), true), "{status}");
        let blocked = status["message"].as_str().unwrap_or_default();
        assert!(blocked.contains("`nightly` is held: waits for old"), "{blocked}");
        wait(&mut env, 45).await;
        let start = at(&env.status("new")["startTime"]);
        assert!(start.since(before).as_secs() >= 3 + TERM, "{start}");
    }
}

#[tokio::test]
async fn an_attempt_whose_job_somebody_deletes_is_over_when_its_last_pod_is_gone() {
    let mut env = TestEnv::new();
    let mut a = slow("a", &[]);
    a["retryPolicy"] = json!({"limit": 1, "backoff": {"type": "Fixed", "duration": "1s"}});
    env.submit("etl", json!({"steps": [a]}));
    wait(&mut env, 3).await;
    let name = env.jobs()[0]["metadata"]["name"].as_str().expect("a name").to_owned();
    let path = format!("jobs/{name}");
    env.ask("DELETE", "apis/batch/v1", &path, &json!({"propagationPolicy": "Background"})).await.expect("it goes");
    wait(&mut env, 45).await;
    let second = created(&env, "a", 2);
    assert!(after_start(&env, "etl", second) > 3 + TERM, "{second}");
    edit(&mut env, "etl", json!({"spec": {"stop": "Terminate"}})).await;
    wait(&mut env, 20).await;
    assert_eq!(env.status("etl")["phase"], "Failed");
}

#[tokio::test]
async fn a_key_is_free_once_a_person_says_that_the_last_attempt_of_its_flow_is_gone() {
    let mut env = TestEnv::new();
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}});
    env.server.create("", "nodes", "", &node).expect("a node");
    let mut a = step("a", &[], json!({"fake/run-seconds": "inf", "fake/term-seconds": "inf"}));
    a["timeoutSeconds"] = json!(5);
    let policy = json!({"concurrencyKey": "nightly", "concurrencyPolicy": "Forbid"});
    env.submit("old", json!({"steps": [a], "executionPolicy": policy}));
    wait(&mut env, 3).await;
    env.submit("new", keyed("Forbid"));
    wait(&mut env, 130).await;
    assert_eq!(env.status("new")["phase"], "Pending", "the pod of the other may still write");
    let flows = FlowClient::new(Client::new(env.server.client_named("ann")), "default");
    flows.confirm_gone("old", "a", "ann", None).await.expect("it is blocked");
    wait(&mut env, 90).await;
    assert_eq!(env.status("old")["phase"], "Failed", "{}", env.status("old"));
    assert_eq!(env.status("new")["phase"], "Running", "{}", env.status("new"));
    // What is said of one run is not handed to the next.
    let again = flows
        .repeat("old", RetryOptions { key: "k".to_owned(), ..RetryOptions::default() })
        .await
        .expect("it is taken");
    assert!(again.metadata.annotations.keys().all(|key| !key.starts_with("gone")), "{again:?}");
}

/// A request of an administrator about a node.
async fn ask_of_node(env: &TestEnv, method: &str, body: &Value) {
    let request = http::Request::builder().method(method).uri("/api/v1/nodes/n1");
    let request = request.header("content-type", "application/merge-patch+json").body(body.to_string().into_bytes());
    env.server.client_named("admin").request::<Value>(request.expect("a request")).await.expect("it is done");
}

/// The condition of the flow `etl` that says what is left of cancelled attempts.
fn blocked(env: &TestEnv) -> Value {
    let all = env.status("etl")["conditions"].as_array().cloned().unwrap_or_default();
    all.into_iter().find(|condition| condition["type"] == "CancelBlocked").unwrap_or_default()
}

/// A step whose pods never end, and that is tried twice.
fn endless() -> Value {
    let mut a = step("a", &[], json!({"fake/run-seconds": "inf", "fake/term-seconds": "inf"}));
    a["timeoutSeconds"] = json!(5);
    a["retryPolicy"] = json!({"limit": 1, "backoff": {"type": "Fixed", "duration": "1s"}});
    a
}

#[tokio::test]
async fn one_instance_of_a_fan_out_is_confirmed_gone_and_the_others_stay_blocked() {
    let mut env = TestEnv::new();
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}});
    env.server.create("", "nodes", "", &node).expect("a node");
    let mut a = endless();
    a["withItems"] = json!(["x", "y"]);
    env.submit("etl", json!({"steps": [a]}));
    wait(&mut env, 130).await;
    let flows = FlowClient::new(Client::new(env.server.client_named("ann")), "default");
    flows.confirm_gone("etl", "a-i1", "ann", None).await.expect("it is blocked");
    wait(&mut env, 40).await;
    let attempt = |env: &TestEnv, instance: &str| {
        let status = env.status("etl");
        let known =
            status["steps"].as_array().and_then(|all| all.iter().find(|step| step["name"] == instance)).cloned();
        known.unwrap_or_else(|| panic!("no {instance}: {status}"))["attempt"].clone()
    };
    assert_eq!((attempt(&env, "a-i0"), attempt(&env, "a-i1")), (json!(1), json!(2)), "{}", env.status("etl"));
    let message = blocked(&env)["message"].as_str().unwrap_or_default().to_owned();
    assert!(message.contains("a-i0") && !message.contains("a-i1"), "{message}");
}

#[tokio::test]
async fn without_rights_on_nodes_a_person_decides_that_a_pod_of_a_dead_node_is_gone() {
    let server = ApiServer::new();
    grant(&server, &rules("jobflow"));
    let mut env = TestEnv::of(server, Some(ACCOUNT));
    env.submit("etl", json!({"steps": [endless()]}));
    wait(&mut env, 170).await;
    assert_eq!(blocked(&env)["status"], "True", "{}", env.status("etl"));
    assert_eq!(env.status("etl")["steps"][0]["attempt"], 1, "no node was ever there, and nobody may know");
    let flows = FlowClient::new(Client::new(env.server.client_named("ann")), "default");
    flows.confirm_gone("etl", "a", "ann", None).await.expect("it is blocked");
    wait(&mut env, 40).await;
    assert_eq!(env.status("etl")["steps"][0]["attempt"], 2, "{}", env.status("etl"));
}

#[tokio::test]
async fn a_job_that_a_foreign_finalizer_holds_is_reported_with_that_finalizer() {
    let mut env = TestEnv::new();
    let mut a = endless();
    a["template"]["spec"]["template"]["metadata"]["annotations"]["fake/term-seconds"] = json!("2");
    env.submit("etl", json!({"steps": [a]}));
    wait(&mut env, 2).await;
    let path = format!("jobs/{}", env.jobs()[0]["metadata"]["name"].as_str().expect("a name"));
    let held = |by: Value| json!({"metadata": {"finalizers": by}});
    env.ask("PATCH", "apis/batch/v1", &path, &held(json!(["example.com/archive"]))).await.expect("it is taken");
    wait(&mut env, 130).await;
    let message = blocked(&env)["message"].as_str().unwrap_or_default().to_owned();
    let job = path.trim_start_matches("jobs/");
    assert_eq!(message, format!("step a: Job {job}, held by finalizer example.com/archive"));
    assert_eq!(env.status("etl")["steps"][0]["attempt"], 1);
    env.ask("PATCH", "apis/batch/v1", &path, &held(Value::Null)).await.expect("it is taken");
    wait(&mut env, 40).await;
    assert_eq!(env.status("etl")["steps"][0]["attempt"], 2, "{}", env.status("etl"));
}

#[tokio::test]
async fn a_pod_that_does_not_go_blocks_the_cancellation_until_its_node_or_a_person_says_that_it_is_gone() {
    for sign in ["no node", "taint", "person"] {
        let mut env = TestEnv::new();
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}});
        env.server.create("", "nodes", "", &node).expect("a node");
        let mut a = step("a", &[], json!({"fake/run-seconds": "inf", "fake/term-seconds": "inf"}));
        a["timeoutSeconds"] = json!(5);
        a["retryPolicy"] = json!({"limit": 1, "backoff": {"type": "Fixed", "duration": "1s"}});
        env.submit("etl", json!({"steps": [a]}));
        wait(&mut env, 90).await;
        let flows = FlowClient::new(Client::new(env.server.client_named("ann")), "default");
        let confirm = || flows.confirm_gone("etl", "a", "ann", Some("powered off"));
        let early = confirm().await.expect_err("it may end yet").to_string();
        assert!(early.contains("is not blocked"), "{early}");
        let forced = json!({"metadata": {"annotations": {"gone.workflow.kube-zen.io/a": "1"}}});
        let forced = env.ask_of_flows("PATCH", "etl", &forced).await.expect_err("the webhook refuses it");
        assert!(forced.contains("is not CancelBlocked"), "{forced}");
        assert_eq!(blocked(&env), Value::Null);
        wait(&mut env, 40).await;
        let blocked = blocked(&env);
        let message = blocked["message"].as_str().unwrap_or_default();
        assert_eq!(blocked["status"], "True", "{}", env.status("etl"));
        assert!(message.starts_with("step a: pod etl-a-") && message.ends_with(" on node n1"), "{message}");
        if sign == "person" {
            env.restart().await;
            wait(&mut env, 40).await;
            confirm().await.expect("it is blocked");
        } else if sign == "taint" {
            let taint = json!([{"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"}]);
            ask_of_node(&env, "PATCH", &json!({"spec": {"taints": taint}})).await;
        } else {
            ask_of_node(&env, "DELETE", &json!({})).await;
        }
        wait(&mut env, 40).await;
        assert_eq!(env.status("etl")["steps"][0]["attempt"], 2, "{sign}: {}", env.status("etl"));
        let count_of =
            |reason: &str| env.server.look_all("events.events.k8s.io").iter().filter(|e| e["reason"] == reason).count();
        assert_eq!(
            (count_of("CancelBlocked"), count_of("GoneConfirmed")),
            (1, usize::from(sign == "person")),
            "{sign}"
        );
    }
}
