//! The controllers over real requests: applies, preconditions, schemas and statuses as a server takes them.

use orlop_k8s::api::Kind;
use orlop_k8s::executor::Executors;
use orlop_k8s::performer::Performers;
use orlop_k8s::testing::ApiServer;
use serde_json::{Value, json};

use super::bed::Bed;

const ADDRESS: &str = "0x1234567890abcdef1234567890abcdef12345678";

fn node() -> Value {
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-0"}, "status": {
        "allocatable": {"cpu": "8", "memory": "64Gi"}, "conditions": [{"type": "Ready", "status": "True"}]}})
}

fn writes(server: &ApiServer) -> Vec<String> {
    let ours = server.writes().into_iter().filter(|write| write.client == "admin");
    ours.map(|write| format!("{:?} {} {} {}", write.verb, write.resource, write.subresource, write.name)).collect()
}

#[tokio::test]
async fn a_performer_lives_is_upgraded_and_goes() {
    let server = ApiServer::new();
    let bed: Bed<Performers> = Bed::new(server.clone(), "avs", json!({"avsAddress": ADDRESS, "image": "one:1"}));
    bed.show(Kind::Node, &node());
    bed.wait(2).await;
    let status = bed.object()["status"].clone();
    assert_eq!((&status["phase"], &status["ready"]), (&json!("Running"), &json!(true)), "{status}");
    let before = writes(&server).len();
    bed.wait(3).await;
    assert_eq!(writes(&server)[before..], [] as [String; 0], "a second pass writes nothing");
    bed.patch(json!({"spec": {"image": "two:2", "config": {"grpcPort": 9191}}})).await;
    bed.wait(45).await;
    let status = bed.object()["status"].clone();
    assert_eq!((&status["phase"], &status["image"]), (&json!("Running"), &json!("two:2")), "{status}");
    let service = server.look("services", "default", "performer-avs").expect("a Service");
    assert_eq!(service["spec"]["ports"].as_array().map(Vec::len), Some(1), "the old port is gone: {service}");
    assert_eq!(service["spec"]["ports"][0]["port"], 9191);
    assert_eq!(server.look_all("pods").len(), 1);
    bed.delete().await;
    bed.wait(40).await;
    assert_eq!((bed.object(), server.look_all("pods").len(), server.look_all("services").len()), (Value::Null, 0, 0));
}

#[tokio::test]
async fn an_executor_is_made_reconfigured_and_goes() {
    let chain = |name: &str, id: u64| json!({"name": name, "rpc": "https://c.example", "chainId": id, "taskMailboxAddress": ADDRESS});
    let server = ApiServer::new();
    let spec = json!({"image": "e:1", "replicas": 2, "config": {"aggregatorEndpoint": "a:1", "operatorKeys": {"k": "KEY"},
        "chains": [chain("one", 1), chain("base", 8453)]}});
    let bed: Bed<Executors> = Bed::new(server.clone(), "exec", spec);
    bed.wait(2).await;
    let status = bed.object()["status"].clone();
    assert_eq!((&status["phase"], &status["readyReplicas"]), (&json!("Running"), &json!(2)), "{status}");
    let pods = |server: &ApiServer| -> Vec<String> {
        server
            .look_all("pods")
            .iter()
            .map(|pod| pod["metadata"]["name"].as_str().unwrap_or_default().to_owned())
            .collect()
    };
    let first = pods(&server);
    for (resource, name) in [
        ("configmaps", "exec-config"),
        ("secrets", "exec-secrets"),
        ("services", "executor-exec"),
        ("deployments.apps", "exec"),
        ("poddisruptionbudgets.policy", "exec"),
    ] {
        assert!(server.look(resource, "default", name).is_some(), "{resource}");
    }
    let before = writes(&server).len();
    bed.wait(2).await;
    assert_eq!(writes(&server)[before..], [] as [String; 0], "a second pass writes nothing");
    bed.patch(json!({"spec": {"replicas": 1, "config": {"logLevel": "debug"}}})).await;
    bed.wait(2).await;
    let deployment = server.look("deployments.apps", "default", "exec").expect("a Deployment");
    assert_eq!(deployment["spec"]["replicas"], 1);
    assert!(server.look("poddisruptionbudgets.policy", "default", "exec").is_none());
    let second = pods(&server);
    assert!(
        second.len() == 1 && !first.contains(&second[0]),
        "another configuration is another pod: {first:?} {second:?}"
    );
    assert_eq!(bed.object()["status"]["phase"], "Running");
    bed.delete().await;
    bed.wait(2).await;
    assert_eq!(
        (bed.object(), server.look_all("secrets").len(), server.look_all("deployments.apps").len()),
        (Value::Null, 0, 0),
        "nothing is left"
    );
    assert_eq!(pods(&server), [] as [String; 0]);
}
