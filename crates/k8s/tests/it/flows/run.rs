//! The whole loop: watches, queue, passes and clock, beside a cluster that works by itself.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use orlop_core::time::Time;
use orlop_k8s::api::{Api, ApiError, Client, Kind, Request, Verb};
use orlop_k8s::flow::{Clock, Controller, Options, RunOptions};
use orlop_k8s::shell::limits::{self, Limited};
use orlop_k8s::testing::ApiServer;
use serde_json::{Value, json};

use super::test_env::{ask_about_flows, step};

const FLOWS: &str = "jobflows.workflow.kube-zen.io";

struct ServerClock(ApiServer);

impl Clock for ServerClock {
    fn now(&self) -> Time {
        Time::from_millis(self.0.clock().now())
    }
}

fn phases(server: &ApiServer) -> BTreeSet<String> {
    let word = |flow: Value| flow["status"]["phase"].as_str().unwrap_or("-").to_owned();
    server.look_all(FLOWS).into_iter().map(word).collect()
}

fn submit(server: &ApiServer, name: &str, spec: Value) {
    let object = json!({"apiVersion": "workflow.kube-zen.io/v1alpha1", "kind": "JobFlow", "metadata": {"name": name}, "spec": spec});
    server.create("workflow.kube-zen.io", "jobflows", "default", &object).expect("the server takes the flow");
}

/// Waits until all flows show only these phases.
async fn until(server: &ApiServer, wanted: &[&str]) {
    let wanted: BTreeSet<String> = wanted.iter().map(|phase| (*phase).to_owned()).collect();
    for _ in 0..600 {
        if phases(server) == wanted {
            return;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    panic!("flows stay {:?}", phases(server));
}

#[tokio::test(start_paused = true)]
async fn flows_run_side_by_side_and_an_idle_controller_is_silent() {
    let server = ApiServer::new();
    server.install(&orlop_k8s::crd::job_flow()).expect("the server takes it");
    ask_about_flows(&server);
    server.clock().follow_tokio();
    let cluster = server.jobs();
    let cluster = tokio::spawn(async move { cluster.run().await });
    let clock = Arc::new(ServerClock(server.clone()));
    let api = Limited::new(Client::new(server.client()), limits::DEFAULT);
    let controller = Controller::new(api, clock, Options::default());
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let stopped = async {
        stopped.await.expect("the test says when");
    };
    let test = async {
        submit(&server, "before", json!({"steps": [step("a", &[], json!({}))]}));
        until(&server, &["Succeeded"]).await;
        for number in 0..10 {
            let gate = json!({"name": "gate", "type": "Manual", "dependencies": ["a"], "timeoutSeconds": 300});
            let mut slow = step("b", &["a"], json!({"fake/run-seconds": "40"}));
            slow["timeoutSeconds"] = json!(20);
            let steps = if number % 2 == 0 {
                json!([step("a", &[], json!({})), gate])
            } else {
                json!([step("a", &[], json!({})), slow])
            };
            submit(&server, &format!("flow-{number}"), json!({"steps": steps}));
        }
        // Time-outs and limits of approvals come by themselves.
        until(&server, &["Failed", "Succeeded"]).await;
        server.streams("jobs").cut();
        server.streams("jobflows").cut();
        let before = server.writes().len();
        tokio::time::sleep(Duration::from_secs(3_000)).await;
        assert_eq!(server.writes().len(), before, "nothing is written while nothing happens");
        submit(
            &server,
            "after",
            json!({"steps": [step("a", &[], json!({}))], "executionPolicy": {"ttlSecondsAfterFinished": 30}}),
        );
        tokio::time::sleep(Duration::from_secs(200)).await;
        assert!(server.look(FLOWS, "default", "after").is_none(), "its time to live is over");
        stop.send(()).expect("the controller runs");
    };
    let options = RunOptions::default();
    futures::join!(controller.run(server.client(), &options, stopped), test);
    cluster.abort();
}

/// A server that lists pods a minute late.
struct SlowPods(Client);

#[async_trait]
impl Api for SlowPods {
    async fn send(&self, request: &Request) -> Result<Value, ApiError> {
        if request.kind == Kind::Pod && matches!(request.verb, Verb::List { .. }) {
            tokio::time::sleep(Duration::from_secs(60)).await;
        }
        self.0.send(request).await
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_read_about_pods_that_do_not_run_holds_no_flow_back() {
    let server = ApiServer::new();
    server.install(&orlop_k8s::crd::job_flow()).expect("the server takes it");
    server.clock().follow_tokio();
    let cluster = server.jobs();
    let cluster = tokio::spawn(async move { cluster.run().await });
    let clock = Arc::new(ServerClock(server.clone()));
    let controller = Controller::new(SlowPods(Client::new(server.client())), clock, Options::default());
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let stopped = async {
        stopped.await.expect("the test says when");
    };
    let test = async {
        let stuck = json!({"steps": [step("a", &[], json!({"fake/waiting-reason": "ImagePullBackOff"}))]});
        (0..20).for_each(|number| submit(&server, &format!("stuck-{number}"), stuck.clone()));
        tokio::time::sleep(Duration::from_secs(20)).await;
        submit(&server, "quick", json!({"steps": [step("a", &[], json!({})), step("b", &["a"], json!({}))]}));
        tokio::time::sleep(Duration::from_secs(10)).await;
        let status = |flow: &str| server.look(FLOWS, "default", flow).expect("a flow")["status"].clone();
        assert_eq!(status("quick")["phase"], "Succeeded", "{}", status("quick"));
        tokio::time::sleep(Duration::from_secs(700)).await;
        for number in 0..20 {
            let status = status(&format!("stuck-{number}"));
            assert_eq!(status["steps"][0]["waiting"]["reason"], "ImagePullBackOff", "{status}");
        }
        stop.send(()).expect("the controller runs");
    };
    let options = RunOptions::default();
    futures::join!(controller.run(server.client(), &options, stopped), test);
    cluster.abort();
}

/// A whole loop over a client, from the first list until a flow has ended.
pub(super) async fn watches(server: &ApiServer, client: kube::Client) {
    server.install(&orlop_k8s::crd::job_flow()).expect("the server takes it");
    server.clock().follow_tokio();
    let cluster = server.jobs();
    let cluster = tokio::spawn(async move { cluster.run().await });
    let clock = Arc::new(ServerClock(server.clone()));
    let controller = Controller::new(Client::new(client.clone()), clock, Options::default());
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let stopped = async {
        stopped.await.expect("the test says when");
    };
    let test = async {
        submit(server, "etl", json!({"steps": [step("a", &[], json!({}))]}));
        until(server, &["Succeeded"]).await;
        stop.send(()).expect("the controller runs");
    };
    let options = RunOptions::default();
    futures::join!(controller.run(client, &options, stopped), test);
    cluster.abort();
}
