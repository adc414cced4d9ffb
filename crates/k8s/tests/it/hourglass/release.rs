//! Letting go of objects before the operator is removed, over real requests.

use std::time::Duration;

use orlop_core::error::Class;
use orlop_k8s::hourglass::release::{Finalizer, end_operator, release};
use orlop_k8s::testing::{ApiServer, Fault, Match, Verb, What};
use serde_json::{Value, json};

use super::test_env::GROUP;

const ALL: [Finalizer; 2] = [Finalizer::PERFORMERS, Finalizer::EXECUTORS];
const OF_PERFORMERS: &str = "hourglass.eigenlayer.io/performer-finalizer";
const OF_EXECUTORS: &str = "hourglass.eigenlayer.io/finalizer";
const OTHERS: &str = "example.org/kept";

fn server() -> ApiServer {
    let server = ApiServer::new();
    for (_, definition) in orlop_k8s::crd::all() {
        server.install(&definition).expect("the server takes the definition");
    }
    server.namespace("other");
    server
}

fn performer(server: &ApiServer, namespace: &str, name: &str, finalizers: &[&str]) {
    let object = json!({"apiVersion": format!("{GROUP}/v1alpha1"), "kind": "Performer",
        "metadata": {"name": name, "finalizers": finalizers},
        "spec": {"avsAddress": "0x1234567890abcdef1234567890abcdef12345678", "image": "i"}});
    server.create(GROUP, "performers", namespace, &object).expect("the server takes the performer");
}

fn executor(server: &ApiServer, name: &str, finalizers: &[&str]) {
    let chain = json!({"name": "c", "rpc": "https://c.example", "chainId": 1,
        "taskMailboxAddress": "0x1234567890abcdef1234567890abcdef12345678"});
    let object = json!({"apiVersion": format!("{GROUP}/v1alpha1"), "kind": "HourglassExecutor",
        "metadata": {"name": name, "finalizers": finalizers},
        "spec": {"image": "i", "config": {"aggregatorEndpoint": "a:1", "operatorKeys": {"k": "Planted-Key"}, "chains": [chain]}}});
    server.create(GROUP, "hourglassexecutors", "default", &object).expect("the server takes the executor");
}

fn finalizers(server: &ApiServer, plural: &str) -> Vec<String> {
    let all = server.look_all(&format!("{plural}.{GROUP}"));
    all.iter()
        .flat_map(|object| object["metadata"]["finalizers"].as_array().cloned().unwrap_or_default())
        .map(|name| name.as_str().unwrap_or_default().to_owned())
        .collect()
}

/// What was written, by verb and kind.
fn writes(server: &ApiServer) -> Vec<(Verb, String)> {
    let writes = server.writes().into_iter().filter(|write| write.changed);
    writes.map(|write| (write.verb, write.resource)).collect()
}

#[tokio::test]
async fn only_finalizers_of_orlop_are_taken_and_nothing_is_deleted() {
    let server = server();
    performer(&server, "default", "a", &[OTHERS, OF_PERFORMERS, "example.org/last"]);
    performer(&server, "other", "b", &[OF_PERFORMERS]);
    // What executors are held by is not for performers.
    performer(&server, "default", "c", &[OF_EXECUTORS]);
    executor(&server, "e", &[OF_EXECUTORS]);
    executor(&server, "f", &[]);
    let before = server.look_all(&format!("hourglassexecutors.{GROUP}")).remove(0)["spec"].clone();
    assert_eq!(release(&server.client(), &ALL, &[]).await, Ok(3));
    assert_eq!(finalizers(&server, "performers"), [OTHERS, "example.org/last", OF_EXECUTORS]);
    assert_eq!(finalizers(&server, "hourglassexecutors"), Vec::<String>::new());
    let executors = server.look_all(&format!("hourglassexecutors.{GROUP}"));
    assert_eq!((executors.len(), &executors[0]["spec"]), (2, &before));
    assert_eq!(server.look_all(&format!("performers.{GROUP}")).len(), 3);
    let written = writes(&server);
    assert!(written.len() == 3 && written.iter().all(|(verb, _)| *verb == Verb::Patch), "{written:?}");
    // Again there is nothing to do, and nothing is done.
    assert_eq!(release(&server.client(), &ALL, &[]).await, Ok(0));
    assert_eq!(writes(&server).len(), 3);
}

#[tokio::test]
async fn what_is_being_deleted_goes_when_it_is_let_go() {
    let server = server();
    performer(&server, "default", "a", &[OF_PERFORMERS]);
    let path = format!("/apis/{GROUP}/v1alpha1/namespaces/default/performers/a");
    let request = http::Request::delete(path).body(Vec::new()).expect("a request");
    server.client_named("user").request::<Value>(request).await.expect("the server takes the deletion");
    assert_eq!(server.look_all(&format!("performers.{GROUP}")).len(), 1, "it is held");
    assert_eq!(release(&server.client(), &ALL, &[]).await, Ok(1));
    assert_eq!(server.look_all(&format!("performers.{GROUP}")).len(), 0);
}

#[tokio::test]
async fn all_pages_are_seen_and_only_the_namespaces_that_are_named() {
    let server = server();
    for number in 0..450 {
        performer(&server, "default", &format!("p{number}"), &[OF_PERFORMERS]);
    }
    performer(&server, "other", "kept", &[OF_PERFORMERS]);
    let here = ["default".to_owned()];
    assert_eq!(release(&server.client(), &ALL, &here).await, Ok(450));
    assert_eq!(finalizers(&server, "performers"), [OF_PERFORMERS]);
    let lists = |server: &ApiServer| {
        let all = server.requests().into_iter().filter(|request| request.verb == Verb::List);
        all.map(|request| request.count).sum::<u64>()
    };
    assert_eq!(lists(&server), 3 + 3 + 1, "three pages, the same again, and executors");
}

/// A list that is too old, an object that somebody changes, and one that is gone: it is looked again.
#[tokio::test]
async fn what_changes_meanwhile_is_let_go_all_the_same() {
    let server = server();
    for number in 0..250 {
        performer(&server, "default", &format!("p{number}"), &[OF_PERFORMERS]);
    }
    let second = Match::of(Verb::List, "performers").nth(2);
    server.faults().push(Fault { when: second, what: What::Refuse(410) });
    server.faults().push(Fault { when: Match::of(Verb::Patch, "performers").nth(7), what: What::Conflict });
    assert_eq!(release(&server.client(), &ALL, &[]).await, Ok(250));
    assert_eq!((finalizers(&server, "performers").len(), server.faults().struck()), (0, 2));
    performer(&server, "default", "q", &[OF_PERFORMERS]);
    let always = Match::of(Verb::Patch, "performers").times(0);
    server.faults().push(Fault { when: always, what: What::Conflict });
    let held = release(&server.client(), &ALL, &[]).await.unwrap_err();
    assert!(held.class == Class::Conflict && held.message.starts_with("1 objects keep getting finalizers"), "{held}");
}

#[tokio::test]
async fn kinds_that_are_not_defined_hold_nothing_and_refusals_are_reported() {
    assert_eq!(release(&ApiServer::new().client(), &ALL, &[]).await, Ok(0));
    let server = server();
    executor(&server, "e", &[OF_EXECUTORS]);
    let refused = What::RefuseWith(403, "Planted-Key may not be changed".to_owned());
    server.faults().push(Fault { when: Match::of(Verb::Patch, "hourglassexecutors"), what: refused });
    let error = release(&server.client(), &ALL, &[]).await.expect_err("it is refused");
    insta::assert_snapshot!(error, @"letting go of HourglassExecutor `default/e`: the API server answers 403 Forbidden");
}

/// A Deployment as the chart has it, and its pods.
fn operator(server: &ApiServer) {
    let labels = json!({"app.kubernetes.io/name": "orlop-operator"});
    let template =
        json!({"metadata": {"labels": labels}, "spec": {"containers": [{"name": "operator", "image": "i"}]}});
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "orlop-operator"},
        "spec": {"replicas": 2, "selector": {"matchLabels": labels}, "template": template}});
    server.create("apps", "deployments", "other", &deployment).expect("the server takes the Deployment");
    server.jobs().settle();
    assert_eq!(server.look_all("pods").len(), 2);
}

#[tokio::test]
async fn the_operator_has_ended_before_anything_is_let_go() {
    let server = server();
    operator(&server);
    let ended = end_operator(&server.client(), "other", "orlop-operator", Duration::ZERO).await;
    let ended = ended.unwrap_err();
    assert!(ended.class == Class::Conflict && ended.message.contains("orlop-operator-"), "{ended}");
    assert_eq!(server.look("deployments.apps", "other", "orlop-operator").unwrap_or_default()["spec"]["replicas"], 0);
    server.jobs().settle();
    assert_eq!(end_operator(&server.client(), "other", "orlop-operator", Duration::ZERO).await, Ok(()));
    assert_eq!(end_operator(&server.client(), "other", "gone", Duration::ZERO).await, Ok(()));
}
