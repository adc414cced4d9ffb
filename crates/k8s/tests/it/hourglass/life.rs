//! The controllers over real requests: applies, preconditions, schemas and statuses as a server takes them.

use orlop_k8s::api::{Api as _, Client, Kind, Request};
use orlop_k8s::executor::Executors;
use orlop_k8s::performer::Performers;
use orlop_k8s::testing::{ApiServer, Fault, Match, What};
use serde_json::{Value, json};

use super::test_env::TestEnv;

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
    let env: TestEnv<Performers> =
        TestEnv::new(server.clone(), "avs", json!({"avsAddress": ADDRESS, "image": "one:1"}));
    env.add(Kind::Node, &node());
    env.wait(2).await;
    let status = env.object()["status"].clone();
    assert_eq!((&status["phase"], &status["ready"]), (&json!("Running"), &json!(true)), "{status}");
    let before = writes(&server).len();
    env.wait(3).await;
    assert_eq!(writes(&server)[before..], [] as [String; 0], "a second pass writes nothing");
    env.patch(json!({"spec": {"image": "two:2", "config": {"grpcPort": 9191}}})).await;
    env.wait(45).await;
    let status = env.object()["status"].clone();
    assert_eq!((&status["phase"], &status["image"]), (&json!("Running"), &json!("two:2")), "{status}");
    let service = server.look("services", "default", "performer-avs").expect("a Service");
    assert_eq!(service["spec"]["ports"].as_array().map(Vec::len), Some(1), "the old port is gone: {service}");
    assert_eq!(service["spec"]["ports"][0]["port"], 9191);
    assert_eq!(server.look_all("pods").len(), 1);
    env.delete().await;
    env.wait(40).await;
    assert_eq!((env.object(), server.look_all("pods").len(), server.look_all("services").len()), (Value::Null, 0, 0));
}

#[tokio::test]
async fn an_executor_is_made_reconfigured_and_goes() {
    let chain = |name: &str, id: u64| json!({"name": name, "rpc": "https://c.example", "chainId": id, "taskMailboxAddress": ADDRESS});
    let server = ApiServer::new();
    let spec = json!({"image": "e:1", "replicas": 2, "config": {"aggregatorEndpoint": "a:1", "operatorKeys": {"k": "KEY"},
        "chains": [chain("one", 1), chain("base", 8453)]}});
    let env: TestEnv<Executors> = TestEnv::new(server.clone(), "exec", spec);
    env.wait(2).await;
    let status = env.object()["status"].clone();
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
    env.wait(2).await;
    assert_eq!(writes(&server)[before..], [] as [String; 0], "a second pass writes nothing");
    env.patch(json!({"spec": {"replicas": 1, "config": {"logLevel": "debug"}}})).await;
    env.wait(2).await;
    let deployment = server.look("deployments.apps", "default", "exec").expect("a Deployment");
    assert_eq!(deployment["spec"]["replicas"], 1);
    assert!(server.look("poddisruptionbudgets.policy", "default", "exec").is_none());
    let second = pods(&server);
    assert!(
        second.len() == 1 && !first.contains(&second[0]),
        "another configuration is another pod: {first:?} {second:?}"
    );
    assert_eq!(env.object()["status"]["phase"], "Running");
    env.delete().await;
    env.wait(2).await;
    assert_eq!(
        (env.object(), server.look_all("secrets").len(), server.look_all("deployments.apps").len()),
        (Value::Null, 0, 0),
        "nothing is left"
    );
    assert_eq!(pods(&server), [] as [String; 0]);
}

fn executor(members: Value) -> Value {
    let chain = json!({"name": "one", "rpc": "https://c.example", "chainId": 1, "taskMailboxAddress": ADDRESS});
    let config = json!({"aggregatorEndpoint": "a:1", "operatorKeys": {"k": "KEY"}, "chains": [chain]});
    let mut spec = json!({"image": "e:1", "config": config});
    for (name, value) in members.as_object().expect("members") {
        spec[name] = value.clone();
    }
    spec
}

/// Who manages fields of an object, and how: manager, operation, subresource.
fn managers(object: &Value) -> Vec<(String, String, String)> {
    let entries = object["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
    let word = |entry: &Value, name: &str| entry[name].as_str().unwrap_or_default().to_owned();
    entries.iter().map(|entry| (word(entry, "manager"), word(entry, "operation"), word(entry, "subresource"))).collect()
}

fn ours(operation: &str) -> (String, String, String) {
    ("orlop-operator".to_owned(), operation.to_owned(), String::new())
}

#[tokio::test]
async fn a_field_that_is_said_no_more_vanishes_from_what_was_created() {
    let server = ApiServer::new();
    let given =
        json!({"resources": {"limits": {"memory": "1Gi"}}, "tolerations": [{"operator": "Exists"}], "replicas": 2});
    let env: TestEnv<Executors> = TestEnv::new(server.clone(), "exec", executor(given));
    env.wait(2).await;
    let live = || server.look("deployments.apps", "default", "exec").expect("a Deployment");
    let pod = |live: &Value| live["spec"]["template"]["spec"].clone();
    assert_eq!(pod(&live())["containers"][0]["resources"]["limits"]["memory"], "1Gi");
    assert!(managers(&live()).contains(&ours("Update")), "{:?}", managers(&live()));
    let changes = || {
        let writes = writes(&server);
        writes.iter().filter(|write| write.starts_with("Patch deployments.apps ")).count()
    };
    let before = changes();
    env.patch(json!({"spec": {"resources": null, "tolerations": null}})).await;
    env.wait(2).await;
    let after = live();
    assert_eq!(
        (&pod(&after)["tolerations"], &pod(&after)["containers"][0]["resources"]["limits"]),
        (&Value::Null, &Value::Null)
    );
    assert!(
        managers(&after).contains(&ours("Apply")) && !managers(&after).contains(&ours("Update")),
        "{:?}",
        managers(&after)
    );
    assert_eq!(changes() - before, 2, "one patch that takes the creation over, one apply");
    env.patch(json!({"spec": {"image": "e:2"}})).await;
    env.wait(2).await;
    assert_eq!(
        (pod(&live())["containers"][0]["image"].as_str(), changes() - before),
        (Some("e:2"), 3),
        "then applies alone"
    );
}

#[tokio::test]
async fn statuses_have_one_manager_and_a_stale_one_is_refused() {
    let server = ApiServer::new();
    let env: TestEnv<Performers> =
        TestEnv::new(server.clone(), "avs", json!({"avsAddress": ADDRESS, "image": "one:1"}));
    env.add(Kind::Node, &node());
    env.wait(2).await;
    let stored = env.object();
    let of_status: Vec<_> = managers(&stored).into_iter().filter(|(.., subresource)| subresource == "status").collect();
    let wanted = ("orlop-operator-status".to_owned(), "Apply".to_owned(), "status".to_owned());
    assert_eq!(of_status, [wanted]);
    // An earlier leader that took its time.
    env.patch(json!({"spec": {"version": "2"}})).await;
    let metadata = json!({"name": "avs", "namespace": "default", "uid": stored["metadata"]["uid"],
        "resourceVersion": stored["metadata"]["resourceVersion"]});
    let late = json!({"apiVersion": stored["apiVersion"], "kind": "Performer", "metadata": metadata, "status": {"phase": "Failed"}});
    let request = Request::apply_status(Kind::Performer, late, "orlop-operator-status");
    let refused = Client::new(server.client()).send(&request).await.expect_err("it is stale");
    assert_eq!((refused.code, &env.object()["status"]), (Some(409), &stored["status"]));
    env.wait(2).await;
    assert_eq!(
        (&env.object()["status"]["phase"], &env.object()["status"]["version"]),
        (&json!("Running"), &json!("2"))
    );
}

/// Somebody holds a pod, or lets it go.
async fn hold(server: &ApiServer, name: &str, finalizers: Value) {
    let request = http::Request::patch(format!("/api/v1/namespaces/default/pods/{name}"));
    let request = request.header("content-type", "application/merge-patch+json");
    let body = json!({"metadata": {"finalizers": finalizers}}).to_string().into_bytes();
    let request = request.body(body).expect("a request");
    server.client_named("user").request::<Value>(request).await.expect("the server takes it");
}

#[tokio::test]
async fn the_deployment_goes_after_its_pods_and_what_they_read_after_it() {
    let server = ApiServer::new();
    let env: TestEnv<Executors> = TestEnv::new(server.clone(), "exec", executor(json!({})));
    env.wait(2).await;
    let pod = server.look_all("pods").remove(0)["metadata"]["name"].as_str().expect("a name").to_owned();
    hold(&server, &pod, json!(["example.org/kept"])).await;
    env.delete().await;
    env.wait(40).await;
    let going = server.look("deployments.apps", "default", "exec").expect("it waits for its pods");
    assert_eq!(going["metadata"]["finalizers"], json!(["foregroundDeletion"]));
    assert!(server.look("services", "default", "executor-exec").is_none());
    for (resource, name) in [("configmaps", "exec-config"), ("secrets", "exec-secrets")] {
        assert!(server.look(resource, "default", name).is_some(), "{resource}");
    }
    let status = env.object()["status"].clone();
    assert_eq!((&status["phase"], &status["state"]), (&json!("Terminating"), &json!("Cleanup")));
    hold(&server, &pod, json!([])).await;
    env.wait(2).await;
    assert_eq!((env.object(), server.look_all("secrets").len(), server.look_all("pods").len()), (Value::Null, 0, 0));
}

#[tokio::test]
async fn an_executor_is_scaled_by_its_subresource() {
    let server = ApiServer::new();
    let env: TestEnv<Executors> = TestEnv::new(server.clone(), "exec", executor(json!({})));
    env.wait(2).await;
    let path = "/apis/hourglass.eigenlayer.io/v1alpha1/namespaces/default/hourglassexecutors/exec/scale";
    let send = async |method: &str, body: Value| {
        let request = http::Request::builder().method(method).uri(path);
        let request = request.header("content-type", "application/merge-patch+json");
        let request = request.body(body.to_string().into_bytes()).expect("a request");
        server.client_named("scaler").request::<Value>(request).await.expect("the server takes it")
    };
    let pods: Vec<Value> = server.look_all("pods");
    send("PATCH", json!({"spec": {"replicas": 3}})).await;
    env.wait(2).await;
    let scale = send("GET", json!({})).await;
    assert_eq!((&scale["spec"]["replicas"], &scale["status"]["replicas"]), (&json!(3), &json!(3)));
    assert_eq!(scale["status"]["selector"], "app=hourglass-executor,hourglass.eigenlayer.io/name=exec");
    assert_eq!(env.object()["status"]["phase"], "Running");
    let all = server.look_all("pods");
    let first = all.iter().any(|pod| pod["metadata"]["uid"] == pods[0]["metadata"]["uid"]);
    assert!(all.len() == 3 && first, "the pod that was there stays");
}

#[tokio::test]
async fn a_secret_of_the_user_is_mounted_and_only_its_metadata_is_read() {
    let server = ApiServer::new();
    let mut spec = executor(json!({}));
    spec["config"].as_object_mut().expect("it is one").remove("operatorKeys");
    spec["config"]["operatorKeysSecretRef"] = json!({"name": "mine"});
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "mine"}, "data": {"ecdsa": "a2V5"}});
    server.create("", "secrets", "default", &secret).expect("a Secret");
    let when = Match::any().named("mine").contents();
    server.faults().push(Fault { when, what: What::Refuse(500) });
    let env: TestEnv<Executors> = TestEnv::new(server.clone(), "exec", spec);
    env.wait(310).await;
    assert_eq!(env.object()["status"]["references"][0]["name"], "mine");
    env.delete().await;
    env.wait(2).await;
    assert_eq!((env.object(), server.faults().struck()), (Value::Null, 0), "nobody has asked for what it holds");
}
