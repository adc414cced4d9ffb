//! Artifacts and outputs on Kubernetes, whole: the operator renders pods, a kubelet runs them as processes of the real helper,
//! which hands artifacts in at the operator, and the next step has them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use orlop::cloud::testing::s3::{Keys, Store};
use orlop::host::operator::{Operator, Plan, Stop};
use orlop::k8s::render::helper::{HelperOptions, Tokens};
use orlop::k8s::testing::ApiServer;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::double::{ServerClock, plain_server};
use super::flow;
use super::pods::Pods;

const FLOWS: &str = "jobflows.workflow.kube-zen.io";
const TOKEN: &str = "planted-token";

/// A step whose containers are run by a kubelet of the test.
fn step(name: &str, script: &str) -> Value {
    json!({"name": name, "template": {"apiVersion": "batch/v1", "kind": "Job", "spec": {"backoffLimit": 0, "template": {
        "metadata": {"annotations": {"fake/start-seconds": "inf"}},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "busybox", "command": ["sh", "-euc", script]}]}}}}})
}

/// What a flow comes to where the operator places the helper; `spec` is given the address where artifacts are handed in.
async fn outcome(store: Option<Value>, spec: impl FnOnce(&str) -> Value) -> (ApiServer, Value) {
    let server = plain_server(true);
    let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", socket.local_addr().unwrap());
    let mut helper = HelperOptions::new("orlop-helper", &url, Tokens::new(|| TOKEN.to_owned()));
    helper.store = store.map(|store| serde_json::from_value(store).unwrap());
    let mut plan = Plan::default();
    plan.flows.helper = Some(helper);
    let operator = Operator::new(plan, server.client_named("operator"), Arc::new(ServerClock(server.clone())));
    operator.take_artifacts(socket, None).unwrap();
    let (tell, stop) = Stop::new();
    let _pods = Pods::run(server.client());
    let test = async {
        let keys = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "lake-keys"},
            "stringData": {"id": "AKID", "secret": "planted-key"}});
        server.create("", "secrets", "default", &keys).expect("the server takes the keys");
        let object = flow("etl", &spec(&url));
        server.create("workflow.kube-zen.io", "jobflows", "default", &object).expect("the server takes the flow");
        let began = Instant::now();
        let status = loop {
            let status = server.look(FLOWS, "default", "etl").unwrap_or_default()["status"].clone();
            if matches!(status["phase"].as_str(), Some("Succeeded" | "Failed")) {
                break status;
            }
            assert!(began.elapsed() < Duration::from_secs(120), "the flow does not end: {status}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        };
        tell.send(true).unwrap();
        status
    };
    let (worked, status) = tokio::join!(operator.run(&stop), test);
    worked.unwrap();
    (server, status)
}

/// Two steps: the second takes a number and a tree of the first, and says what it has got.
fn handed_on() -> Value {
    let make = "mkdir -p /tmp/tree/deep; printf 'a b' > /tmp/tree/deep/file; ln -s deep/file /tmp/tree/link; echo 42 > /tmp/count; \
         echo one > /tmp/more; printf words > /dev/termination-log; test -z \"${ORLOP_PORTER_TOKEN:-}${ORLOP_PORTER:-}\"";
    let mut make = step("make", make);
    make["outputs"] = json!({
        "parameters": [
            {"name": "count", "valueFrom": {"path": "/tmp/count"}},
            {"name": "more", "valueFrom": {"path": "/tmp/more"}},
            {"name": "said", "valueFrom": {"jsonPath": "$.termination.message"}},
        ],
        "artifacts": [{"name": "tree", "path": "/tmp/tree"}, {"name": "none", "path": "/tmp/none", "optional": true}],
    });
    let take = "printf '%s/%s/%s' {{.parameters.count}} \"$(cat /in/tree/link)\" \"$(ls /in/tree)\" > /tmp/seen";
    let mut take = step("take", take);
    take["dependencies"] = json!(["make"]);
    take["inputs"] = json!({
        "parameters": [{"name": "count", "valueFrom": {"jsonPath": "make:$.outputs.count"}}],
        "artifacts": [{"name": "tree", "from": "make/tree", "path": "/in/tree"}],
    });
    take["outputs"] = json!({"parameters": [{"name": "seen", "valueFrom": {"path": "/tmp/seen"}}]});
    json!({"steps": [make, take]})
}

fn outputs(status: &Value, step: usize) -> Vec<(&str, &str)> {
    let values = status["steps"][step]["outputs"]["parameters"].as_array().into_iter().flatten();
    values.map(|value| (value["name"].as_str().unwrap(), value["value"].as_str().unwrap())).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parameters_and_a_tree_go_from_step_to_step_through_the_operator() {
    let (server, status) = outcome(None, |_| handed_on()).await;
    assert_eq!(status["phase"], "Succeeded", "{status}");
    assert_eq!(outputs(&status, 0), [("count", "42"), ("more", "one"), ("said", "words")]);
    assert_eq!(outputs(&status, 1), [("seen", "42/a b/deep\nlink")]);
    let tree = &status["steps"][0]["outputs"]["artifacts"][0];
    assert_eq!(
        (&tree["location"]["kind"], &tree["location"]["ref"]),
        (&json!("configmap"), &json!("etl-make-tree/tree#.tar"))
    );
    let map = server.look("configmaps", "default", "etl-make-tree").unwrap();
    assert_eq!(map["metadata"]["ownerReferences"][0]["kind"], "JobFlow");
    // Who may read Jobs and pods may read the token of their attempt; nobody else does.
    for kind in [FLOWS, "configmaps", "events.events.k8s.io"] {
        assert!(!server.look_all(kind).iter().any(|object| object.to_string().contains(TOKEN)), "{kind}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn they_go_over_a_claim_too() {
    let claim = json!({"persistentVolumeClaim": {"claimName": "shelf", "subPath": "artifacts"}});
    let (server, status) = outcome(Some(claim), |_| handed_on()).await;
    assert_eq!(status["phase"], "Succeeded", "{status}");
    assert_eq!(outputs(&status, 1), [("seen", "42/a b/deep\nlink")]);
    let uid = server.look(FLOWS, "default", "etl").unwrap()["metadata"]["uid"].as_str().unwrap().to_owned();
    let location = &status["steps"][0]["outputs"]["artifacts"][0]["location"];
    assert_eq!(location["ref"], format!("shelf/artifacts/{uid}/make/1/tree#.tar"));
    assert!(server.look("configmaps", "default", "etl-make-tree").is_none());
}

/// A bucket, and the Secret with the keys to it.
fn bucket() -> (Store, Value) {
    let store = Store::start("lake", "eu-north-1", Some(Keys { id: "AKID", secret: "planted-key" })).unwrap();
    let key = |key: &str| json!({"name": "lake-keys", "key": key});
    let store_of_flows = json!({
        "endpoint": store.endpoint(), "bucket": "lake", "prefix": "flows",
        "accessKeyIDSecretRef": key("id"), "secretAccessKeySecretRef": key("secret"),
    });
    (store, json!({"s3": store_of_flows}))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn they_go_over_a_bucket_and_no_command_sees_its_keys() {
    let (bucket, store) = bucket();
    let spec = |_: &str| {
        let mut spec = handed_on();
        spec["artifactStore"] = store;
        let script = &mut spec["steps"][0]["template"]["spec"]["template"]["spec"]["containers"][0]["command"][2];
        *script = json!(format!("{}; env > /tmp/env; ! grep -q planted /tmp/env", script.as_str().unwrap()));
        spec
    };
    let (server, status) = outcome(None, spec).await;
    assert_eq!(status["phase"], "Succeeded", "{status}");
    assert_eq!(outputs(&status, 1), [("seen", "42/a b/deep\nlink")]);
    let uid = server.look(FLOWS, "default", "etl").unwrap()["metadata"]["uid"].as_str().unwrap().to_owned();
    assert_eq!(bucket.keys(), [format!("flows/{uid}/make/1/tree")]);
    let location = &status["steps"][0]["outputs"]["artifacts"][0]["location"];
    assert_eq!(location["kind"], "s3", "{location}");
    assert!(server.look("configmaps", "default", "etl-make-tree").is_none());
    for kind in [FLOWS, "jobs.batch", "pods", "configmaps", "events.events.k8s.io"] {
        assert!(!server.look_all(kind).iter().any(|object| object.to_string().contains("planted-key")), "{kind}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn outputs_larger_than_a_termination_message_arrive_whole() {
    let (server, status) = outcome(None, |_| {
        let mut step = step("make", "head -c 20000 /dev/zero | tr '\\0' x > /tmp/big; echo 1 > /tmp/one");
        let file = |name: &str| json!({"name": name, "valueFrom": {"path": format!("/tmp/{name}")}});
        step["outputs"] = json!({"parameters": [file("big"), file("one")]});
        json!({"steps": [step]})
    })
    .await;
    assert_eq!(outputs(&status, 0), [("big", "x".repeat(20_000).as_str()), ("one", "1")], "{status}");
    assert!(server.look("configmaps", "default", "etl-make-orlop-report").is_some());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_input_that_is_not_there_is_the_reason_of_its_step() {
    let (_, status) = outcome(None, |url| {
        let mut step = step("take", "true");
        let http = json!({"url": format!("{url}/nothing"), "headers": {"X-Key": "planted"}});
        step["inputs"] = json!({"artifacts": [{"name": "data", "http": http, "path": "/in/data"}]});
        json!({"steps": [step]})
    })
    .await;
    let step = &status["steps"][0];
    assert_eq!((&step["phase"], &step["reason"]), (&json!("Failed"), &json!("ArtifactUnavailable")), "{status}");
    let message = step["message"].as_str().unwrap();
    assert!(message.starts_with("input artifact data is not available: ") && message.contains("404"), "{message}");
    assert!(!message.contains("planted"), "{message}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_output_that_is_missing_fails_its_step_and_an_exit_code_is_kept() {
    let (_, status) = outcome(None, |_| {
        let mut missing = step("missing", "true");
        missing["outputs"] = json!({"artifacts": [{"name": "data", "path": "/nowhere/data"}]});
        let mut fails = step("fails", "exit 7");
        fails["outputs"] = missing["outputs"].clone();
        let rule = json!({"action": "Ignore", "onExitCodes": {"operator": "In", "values": [7]}});
        json!({"steps": [missing, fails],
            "executionPolicy": {"failurePolicy": "Continue", "podFailurePolicy": {"rules": [rule]}}})
    })
    .await;
    let reasons: Vec<&str> = (0..2).map(|step| status["steps"][step]["reason"].as_str().unwrap()).collect();
    assert_eq!(reasons, ["OutputMissing", "FailureIgnored"], "{status}");
}
