//! Cancelled attempts: nothing that comes after one starts before its last pod is gone.

use std::time::Duration;

use orlop_core::time::Time;
use orlop_k8s::api::Client;
use orlop_k8s::client::{FlowClient, Repeat};
use orlop_k8s::testing::ApiServer;
use serde_json::{Value, json};

use super::bed::{Bed, step};
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
fn created(bed: &Bed, step: &str, attempt: u32) -> Time {
    let labels = |job: &Value, name: &str| job["metadata"]["labels"][format!("workflow.kube-zen.io/{name}")].clone();
    let (jobs, attempt) = (bed.jobs(), attempt.to_string());
    let job = jobs.iter().find(|job| labels(job, "step") == step && labels(job, "attempt") == *attempt);
    at(&job.unwrap_or_else(|| panic!("no Job of {step}/{attempt}: {jobs:?}"))["metadata"]["creationTimestamp"])
}

/// Seconds from the start of a flow.
fn after_start(bed: &Bed, flow: &str, time: Time) -> u64 {
    time.since(at(&bed.status(flow)["startTime"])).as_secs()
}

/// Lets so many seconds go by.
async fn wait(bed: &mut Bed, seconds: u64) {
    for _ in 0..seconds {
        bed.pass_time(Duration::from_secs(1)).await;
    }
}

async fn edit(bed: &mut Bed, flow: &str, change: Value) {
    bed.ask_of_flows("PATCH", flow, &change).await.expect("the server takes the change");
}

#[tokio::test]
async fn a_retry_starts_after_the_last_pod_of_the_attempt_that_took_too_long() {
    let mut bed = Bed::new();
    let mut a = slow("a", &[]);
    a["timeoutSeconds"] = json!(5);
    a["retryPolicy"] = json!({"limit": 1, "backoff": {"type": "Fixed", "duration": "1s"}});
    bed.submit("etl", json!({"steps": [a]}));
    wait(&mut bed, 25).await;
    let second = created(&bed, "a", 2);
    assert!(after_start(&bed, "etl", second) > 5 + TERM, "{second}");
    assert_eq!(bed.status("etl")["steps"][0]["phase"], "Running");
}

#[tokio::test]
async fn finally_starts_after_the_last_pod_of_the_attempt_that_was_cancelled() {
    let mut bed = Bed::new();
    let spec = json!({"steps": [slow("a", &[])], "finally": [step("tidy", &[], json!({}))],
        "executionPolicy": {"activeDeadlineSeconds": 5}});
    bed.submit("etl", spec);
    wait(&mut bed, 25).await;
    let tidy = created(&bed, "tidy", 1);
    assert!(after_start(&bed, "etl", tidy) >= 5 + TERM, "{tidy}");
    assert_eq!(bed.status("etl")["phase"], "Failed");
}

/// A flow with a key that others wait for.
fn keyed(policy: &str) -> Value {
    json!({"steps": [slow("a", &[])], "executionPolicy": {"concurrencyKey": "nightly", "concurrencyPolicy": policy}})
}

#[tokio::test]
async fn a_flow_that_replaces_another_starts_after_its_last_pod() {
    let mut bed = Bed::new();
    bed.submit("old", keyed("Forbid"));
    wait(&mut bed, 3).await;
    bed.submit("new", keyed("Replace"));
    wait(&mut bed, 25).await;
    let start = at(&bed.status("new")["startTime"]);
    assert!(after_start(&bed, "old", start) >= 3 + TERM, "{start}");
    assert_eq!(bed.status("old")["phase"], "Failed");
}

#[tokio::test]
async fn the_key_of_a_deleted_flow_is_held_while_a_pod_of_it_runs_also_for_a_new_leader() {
    for restarts in [false, true] {
        let mut bed = Bed::new();
        bed.submit("old", keyed("Forbid"));
        wait(&mut bed, 3).await;
        let before = at(&bed.status("old")["startTime"]);
        bed.submit("new", keyed("Forbid"));
        bed.settle().await;
        bed.ask_of_flows("DELETE", "old", &json!({"propagationPolicy": "Background"})).await.expect("it goes");
        bed.settle().await;
        if restarts {
            bed.restart().await;
        }
        wait(&mut bed, 5).await;
        assert!(bed.server.look(FLOWS, "default", "old").is_none(), "the flow is gone");
        let status = bed.status("new");
        assert_eq!((&status["phase"], status["startTime"].is_null()), (&json!("Pending"), true), "{status}");
        let blocked = status["message"].as_str().unwrap_or_default();
        assert!(blocked.contains("`nightly` is held: waits for old"), "{blocked}");
        wait(&mut bed, 45).await;
        let start = at(&bed.status("new")["startTime"]);
        assert!(start.since(before).as_secs() >= 3 + TERM, "{start}");
    }
}

#[tokio::test]
async fn an_attempt_whose_job_somebody_deletes_is_over_when_its_last_pod_is_gone() {
    let mut bed = Bed::new();
    let mut a = slow("a", &[]);
    a["retryPolicy"] = json!({"limit": 1, "backoff": {"type": "Fixed", "duration": "1s"}});
    bed.submit("etl", json!({"steps": [a]}));
    wait(&mut bed, 3).await;
    let name = bed.jobs()[0]["metadata"]["name"].as_str().expect("a name").to_owned();
    let path = format!("jobs/{name}");
    bed.ask("DELETE", "apis/batch/v1", &path, &json!({"propagationPolicy": "Background"})).await.expect("it goes");
    wait(&mut bed, 45).await;
    let second = created(&bed, "a", 2);
    assert!(after_start(&bed, "etl", second) > 3 + TERM, "{second}");
    edit(&mut bed, "etl", json!({"spec": {"stop": "Terminate"}})).await;
    wait(&mut bed, 20).await;
    assert_eq!(bed.status("etl")["phase"], "Failed");
}

#[tokio::test]
async fn a_key_is_free_once_a_person_says_that_the_last_attempt_of_its_flow_is_gone() {
    let mut bed = Bed::new();
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}});
    bed.server.create("", "nodes", "", &node).expect("a node");
    let mut a = step("a", &[], json!({"fake/run-seconds": "inf", "fake/term-seconds": "inf"}));
    a["timeoutSeconds"] = json!(5);
    let policy = json!({"concurrencyKey": "nightly", "concurrencyPolicy": "Forbid"});
    bed.submit("old", json!({"steps": [a], "executionPolicy": policy}));
    wait(&mut bed, 3).await;
    bed.submit("new", keyed("Forbid"));
    wait(&mut bed, 130).await;
    assert_eq!(bed.status("new")["phase"], "Pending", "the pod of the other may still write");
    let flows = FlowClient::new(Client::new(bed.server.client_named("ann")), "default");
    flows.confirm_gone("old", "a", "ann", None).await.expect("it is blocked");
    wait(&mut bed, 90).await;
    assert_eq!(bed.status("old")["phase"], "Failed", "{}", bed.status("old"));
    assert_eq!(bed.status("new")["phase"], "Running", "{}", bed.status("new"));
    // What is said of one run is not handed to the next.
    let again = flows.repeat("old", Repeat { key: "k".to_owned(), ..Repeat::default() }).await.expect("it is taken");
    assert!(again.metadata.annotations.keys().all(|key| !key.starts_with("gone")), "{again:?}");
}

/// A request of an administrator about a node.
async fn ask_of_node(bed: &Bed, method: &str, body: &Value) {
    let request = http::Request::builder().method(method).uri("/api/v1/nodes/n1");
    let request = request.header("content-type", "application/merge-patch+json").body(body.to_string().into_bytes());
    bed.server.client_named("admin").request::<Value>(request.expect("a request")).await.expect("it is done");
}

/// The condition of the flow `etl` that says what is left of cancelled attempts.
fn blocked(bed: &Bed) -> Value {
    let all = bed.status("etl")["conditions"].as_array().cloned().unwrap_or_default();
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
    let mut bed = Bed::new();
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}});
    bed.server.create("", "nodes", "", &node).expect("a node");
    let mut a = endless();
    a["withItems"] = json!(["x", "y"]);
    bed.submit("etl", json!({"steps": [a]}));
    wait(&mut bed, 130).await;
    let flows = FlowClient::new(Client::new(bed.server.client_named("ann")), "default");
    flows.confirm_gone("etl", "a-i1", "ann", None).await.expect("it is blocked");
    wait(&mut bed, 40).await;
    let attempt = |bed: &Bed, instance: &str| {
        let status = bed.status("etl");
        let known =
            status["steps"].as_array().and_then(|all| all.iter().find(|step| step["name"] == instance)).cloned();
        known.unwrap_or_else(|| panic!("no {instance}: {status}"))["attempt"].clone()
    };
    assert_eq!((attempt(&bed, "a-i0"), attempt(&bed, "a-i1")), (json!(1), json!(2)), "{}", bed.status("etl"));
    let message = blocked(&bed)["message"].as_str().unwrap_or_default().to_owned();
    assert!(message.contains("a-i0") && !message.contains("a-i1"), "{message}");
}

#[tokio::test]
async fn without_rights_on_nodes_a_person_decides_that_a_pod_of_a_dead_node_is_gone() {
    let server = ApiServer::new();
    grant(&server, &rules("jobflow"));
    let mut bed = Bed::of(server, Some(ACCOUNT));
    bed.submit("etl", json!({"steps": [endless()]}));
    wait(&mut bed, 170).await;
    assert_eq!(blocked(&bed)["status"], "True", "{}", bed.status("etl"));
    assert_eq!(bed.status("etl")["steps"][0]["attempt"], 1, "no node was ever there, and nobody may know");
    let flows = FlowClient::new(Client::new(bed.server.client_named("ann")), "default");
    flows.confirm_gone("etl", "a", "ann", None).await.expect("it is blocked");
    wait(&mut bed, 40).await;
    assert_eq!(bed.status("etl")["steps"][0]["attempt"], 2, "{}", bed.status("etl"));
}

#[tokio::test]
async fn a_job_that_a_foreign_finalizer_holds_is_told_with_that_finalizer() {
    let mut bed = Bed::new();
    let mut a = endless();
    a["template"]["spec"]["template"]["metadata"]["annotations"]["fake/term-seconds"] = json!("2");
    bed.submit("etl", json!({"steps": [a]}));
    wait(&mut bed, 2).await;
    let path = format!("jobs/{}", bed.jobs()[0]["metadata"]["name"].as_str().expect("a name"));
    let held = |by: Value| json!({"metadata": {"finalizers": by}});
    bed.ask("PATCH", "apis/batch/v1", &path, &held(json!(["example.com/archive"]))).await.expect("it is taken");
    wait(&mut bed, 130).await;
    let message = blocked(&bed)["message"].as_str().unwrap_or_default().to_owned();
    let job = path.trim_start_matches("jobs/");
    assert_eq!(message, format!("step a: Job {job}, held by finalizer example.com/archive"));
    assert_eq!(bed.status("etl")["steps"][0]["attempt"], 1);
    bed.ask("PATCH", "apis/batch/v1", &path, &held(Value::Null)).await.expect("it is taken");
    wait(&mut bed, 40).await;
    assert_eq!(bed.status("etl")["steps"][0]["attempt"], 2, "{}", bed.status("etl"));
}

#[tokio::test]
async fn a_pod_that_does_not_go_blocks_the_cancellation_until_its_node_or_a_person_says_that_it_is_gone() {
    for sign in ["no node", "taint", "person"] {
        let mut bed = Bed::new();
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}});
        bed.server.create("", "nodes", "", &node).expect("a node");
        let mut a = step("a", &[], json!({"fake/run-seconds": "inf", "fake/term-seconds": "inf"}));
        a["timeoutSeconds"] = json!(5);
        a["retryPolicy"] = json!({"limit": 1, "backoff": {"type": "Fixed", "duration": "1s"}});
        bed.submit("etl", json!({"steps": [a]}));
        wait(&mut bed, 90).await;
        let flows = FlowClient::new(Client::new(bed.server.client_named("ann")), "default");
        let confirm = || flows.confirm_gone("etl", "a", "ann", Some("powered off"));
        let early = confirm().await.expect_err("it may end yet").to_string();
        assert!(early.contains("is not blocked"), "{early}");
        let forced = json!({"metadata": {"annotations": {"gone.workflow.kube-zen.io/a": "1"}}});
        let forced = bed.ask_of_flows("PATCH", "etl", &forced).await.expect_err("the webhook refuses it");
        assert!(forced.contains("is not CancelBlocked"), "{forced}");
        assert_eq!(blocked(&bed), Value::Null);
        wait(&mut bed, 40).await;
        let blocked = blocked(&bed);
        let message = blocked["message"].as_str().unwrap_or_default();
        assert_eq!(blocked["status"], "True", "{}", bed.status("etl"));
        assert!(message.starts_with("step a: pod etl-a-") && message.ends_with(" on node n1"), "{message}");
        if sign == "person" {
            bed.restart().await;
            wait(&mut bed, 40).await;
            confirm().await.expect("it is blocked");
        } else if sign == "taint" {
            let taint = json!([{"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"}]);
            ask_of_node(&bed, "PATCH", &json!({"spec": {"taints": taint}})).await;
        } else {
            ask_of_node(&bed, "DELETE", &json!({})).await;
        }
        wait(&mut bed, 40).await;
        assert_eq!(bed.status("etl")["steps"][0]["attempt"], 2, "{sign}: {}", bed.status("etl"));
        let count_of =
            |reason: &str| bed.server.look_all("events.events.k8s.io").iter().filter(|e| e["reason"] == reason).count();
        assert_eq!(
            (count_of("CancelBlocked"), count_of("GoneConfirmed")),
            (1, usize::from(sign == "person")),
            "{sign}"
        );
    }
}
