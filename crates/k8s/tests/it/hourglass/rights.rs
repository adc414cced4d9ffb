//! The controllers of performers and executors work with the rights that ship, and use every one of them.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use orlop_core::time::Time;
use orlop_k8s::api::Client;
use orlop_k8s::executor::Executors;
use orlop_k8s::hourglass::controller::Reconciler;
use orlop_k8s::hourglass::{Config, Controller, RunOptions};
use orlop_k8s::performer::{INCARNATION, Performers};
use orlop_k8s::shell::Clock;
use orlop_k8s::testing::{ApiServer, Fault, Match, Verb, What};
use serde_json::{Value, json};

use super::test_env::GROUP;
use crate::shipped::{ACCOUNT, denied, grant, rights, rules, used, without};

const ADDRESS: &str = "0x1234567890abcdef1234567890abcdef12345678";

struct ServerClock(ApiServer);

impl Clock for ServerClock {
    fn now(&self) -> Time {
        Time::from_millis(self.0.clock().now())
    }
}

fn node(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": {
        "allocatable": {"cpu": "8", "memory": "64Gi", "pods": "110"}, "conditions": [{"type": "Ready", "status": "True"}]}})
}

/// A cluster that works by itself, where the account has these rights.
fn cluster(rules: &[Value]) -> ApiServer {
    let server = ApiServer::new();
    server.record_all_managers();
    server.clock().follow_tokio();
    grant(&server, rules);
    server.guard_owners();
    for (_, definition) in orlop_k8s::crd::all() {
        server.install(&definition).expect("the server takes the definition");
    }
    server.create("", "nodes", "", &node("node-0")).expect("a node");
    let cluster = server.jobs();
    tokio::spawn(async move { cluster.run().await });
    server
}

fn submit(server: &ApiServer, kind: &str, plural: &str, name: &str, spec: &Value) {
    let object =
        json!({"apiVersion": format!("{GROUP}/v1alpha1"), "kind": kind, "metadata": {"name": name}, "spec": spec});
    server.create(GROUP, plural, "default", &object).expect("the server takes the object");
}

async fn ask(server: &ApiServer, method: &str, path: &str, body: &Value) {
    let path = format!("/apis/{GROUP}/v1alpha1/namespaces/default/{path}");
    let request = http::Request::builder().method(method).uri(path);
    let request = request.header("content-type", "application/merge-patch+json");
    let request = request.body(body.to_string().into_bytes()).expect("a request");
    server.client_named("user").request::<Value>(request).await.expect("the server takes it");
}

/// Waits until something holds of an object; null where there is none.
async fn until(server: &ApiServer, plural: &str, name: &str, holds: impl Fn(&Value) -> bool) {
    for _ in 0..900 {
        let object = server.look(&format!("{plural}.{GROUP}"), "default", name).unwrap_or_default();
        if holds(&object) {
            return;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    panic!("{plural} {name}: {}", server.look(&format!("{plural}.{GROUP}"), "default", name).unwrap_or_default());
}

/// A controller works as the account while something happens.
async fn works<R: Reconciler>(server: &ApiServer, happens: impl Future<Output = ()>) -> BTreeSet<String> {
    let client = server.client_as(ACCOUNT);
    let clock = Arc::new(ServerClock(server.clone()));
    let resync = Duration::from_secs(300);
    let controller: Controller<Client, R> =
        Controller::new(Client::new(client.clone()), clock, Arc::new(Config::default()), resync);
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let stopped = async {
        stopped.await.expect("the test says when");
    };
    let test = async {
        happens.await;
        stop.send(()).expect("the controller runs");
    };
    let options = RunOptions::default();
    futures::join!(controller.run(client, &options, stopped), test);
    assert_eq!(denied(server), BTreeSet::new());
    used(server)
}

/// Rights that ship and nobody has used.
fn idle(rules: &[Value], used: &BTreeSet<String>) -> Vec<String> {
    rights(rules).difference(used).cloned().collect()
}

fn runs(generation: i64) -> impl Fn(&Value) -> bool {
    move |object| object["status"]["phase"] == "Running" && object["status"]["observedGeneration"] == generation
}

/// A name is said to be taken, so that who has it is looked up.
fn taken(server: &ApiServer, resource: &str) {
    let when = Match::of(Verb::Create, resource).by(ACCOUNT);
    server.faults().push(Fault { when, what: What::Conflict });
}

/// Somebody takes the number off a pod, which gets it again.
async fn unmarked(server: &ApiServer) {
    let pod = || server.look_all("pods").remove(0);
    let path = format!("/api/v1/namespaces/default/pods/{}", pod()["metadata"]["name"].as_str().expect("a name"));
    let request = http::Request::patch(path).header("content-type", "application/merge-patch+json");
    let body = json!({"metadata": {"labels": {INCARNATION: null}}}).to_string().into_bytes();
    let request = request.body(body).expect("a request");
    server.client_named("user").request::<Value>(request).await.expect("the server takes it");
    until(server, "performers", "avs", |_| !pod()["metadata"]["labels"][INCARNATION].is_null()).await;
}

/// Somebody changes what is ours, so that it is put right.
async fn disturb(server: &ApiServer, path: &str, spec: Value) {
    let request = http::Request::patch(path).header("content-type", "application/merge-patch+json");
    let request = request.body(json!({ "spec": spec }).to_string().into_bytes()).expect("a request");
    server.client_named("user").request::<Value>(request).await.expect("the server takes it");
}

#[tokio::test(start_paused = true)]
async fn every_right_of_performers_and_of_hardware_is_used() {
    let rules: Vec<Value> = ["performer", "hardware"].into_iter().flat_map(rules).collect();
    let server = cluster(&rules);
    let class = json!({"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "gpu.nvidia.com"},
        "spec": {"selectors": []}});
    server.create("resource.k8s.io", "deviceclasses", "", &class).expect("a class of devices");
    let used = works::<Performers>(&server, async {
        // Pods come to a node of which no watch has told yet.
        until(&server, "performers", "none", |_| used(&server).contains("watch nodes")).await;
        server.streams("nodes").hold();
        server.create("", "nodes", "", &node("node-1")).expect("a node");
        for resource in ["pods", "services", "controllerrevisions"] {
            taken(&server, resource);
        }
        submit(
            &server,
            "Performer",
            "performers",
            "avs",
            &json!({"avsAddress": ADDRESS, "image": "one:1", "executorRef": "exec", "config": {"environmentFrom": [
                {"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k", "optional": true}}},
                {"name": "B", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k", "optional": true}}},
            ]}}),
        );
        until(&server, "performers", "avs", runs(1)).await;
        unmarked(&server).await;
        ask(&server, "PATCH", "performers/avs", &json!({"spec": {"image": "two:2", "config": {"grpcPort": 9191}}}))
            .await;
        until(&server, "performers", "avs", runs(2)).await;
        taken(&server, "resourceclaimtemplates");
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/examples/performer-dra.yaml");
        let text = std::fs::read_to_string(path).expect("an example");
        let mut devices: Value = serde_saphyr::from_str(&text).expect("YAML");
        devices["spec"]["upgrade"] = json!({"minReadySeconds": 0, "drainSeconds": 1});
        submit(&server, "Performer", "performers", "devices", &devices["spec"]);
        until(&server, "performers", "devices", runs(1)).await;
        ask(&server, "PATCH", "performers/devices", &json!({"spec": {"image": "two:2"}})).await;
        until(&server, "performers", "devices", runs(2)).await;
        until(&server, "performers", "devices", |_| {
            server.look_all("resourceclaimtemplates.resource.k8s.io").len() == 1
        })
        .await;
        for name in ["avs", "devices"] {
            ask(&server, "DELETE", &format!("performers/{name}"), &json!({})).await;
            until(&server, "performers", name, Value::is_null).await;
        }
    })
    .await;
    // What the server itself asks for, see the last test.
    assert_eq!(idle(&rules, &used), ["update performers.hourglass.eigenlayer.io/finalizers"]);
}

#[tokio::test(start_paused = true)]
async fn every_right_of_executors_is_used() {
    let rules = rules("executor");
    let server = cluster(&rules);
    let chain = |name: &str, id: u64| json!({"name": name, "rpc": "https://c.example", "chainId": id, "taskMailboxAddress": ADDRESS});
    let spec = json!({"image": "e:1", "replicas": 2, "config": {"aggregatorEndpoint": "a:1", "operatorKeys": {"k": "KEY"},
        "chains": [chain("one", 1), chain("base", 8453)]}});
    let used = works::<Executors>(&server, async {
        for resource in ["configmaps", "secrets", "serviceaccounts", "services", "deployments", "poddisruptionbudgets"] {
            taken(&server, resource);
        }
        submit(&server, "HourglassExecutor", "hourglassexecutors", "exec", &spec);
        until(&server, "hourglassexecutors", "exec", runs(1)).await;
        let selects = json!({"selector": {"app": "theirs"}});
        disturb(&server, "/api/v1/namespaces/default/services/executor-exec", selects).await;
        disturb(&server, "/apis/policy/v1/namespaces/default/poddisruptionbudgets/exec", json!({"maxUnavailable": 2})).await;
        let patch = json!({"spec": {"replicas": 3, "config": {"logLevel": "debug", "aggregatorEndpoint": "b:2", "operatorKeys": {"k": "OTHER"}}}});
        ask(&server, "PATCH", "hourglassexecutors/exec", &patch).await;
        until(&server, "hourglassexecutors", "exec", runs(2)).await;
        ask(&server, "PATCH", "hourglassexecutors/exec", &json!({"spec": {"replicas": 1}})).await;
        until(&server, "hourglassexecutors", "exec", runs(3)).await;
        ask(&server, "DELETE", "hourglassexecutors/exec", &json!({})).await;
        until(&server, "hourglassexecutors", "exec", Value::is_null).await;
    })
    .await;
    assert_eq!(idle(&rules, &used), ["update hourglassexecutors.hourglass.eigenlayer.io/finalizers"]);
}

/// Where a cluster guards owners, who names one that must not go before its own needs this right. It is asked for by no
/// request of its own.
#[tokio::test(start_paused = true)]
async fn without_the_right_to_finalizers_nothing_can_be_owned() {
    let all = rules("performer");
    let server = cluster(&without(&all, "update performers.hourglass.eigenlayer.io/finalizers"));
    let client = server.client_as(ACCOUNT);
    let clock = Arc::new(ServerClock(server.clone()));
    let (config, resync) = (Arc::new(Config::default()), Duration::from_secs(300));
    let controller: Controller<Client, Performers> =
        Controller::new(Client::new(client.clone()), clock, config, resync);
    submit(&server, "Performer", "performers", "avs", &json!({"avsAddress": ADDRESS, "image": "one:1"}));
    let stop = until(&server, "performers", "avs", |object| object["status"]["phase"] == "Failed");
    controller.run(client, &RunOptions::default(), stop).await;
    assert!(denied(&server).iter().any(|asked| asked.starts_with("create ")), "{:?}", denied(&server));
    assert!(server.look_all("pods").is_empty());
}
