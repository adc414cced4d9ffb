//! Many performers and executors under the loops that an operator runs, on the double: what they ask the server for, and how
//! long a new one takes beside them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use orlop_core::time::Time;
use orlop_k8s::api::{Client, Kind};
use orlop_k8s::executor::Executors;
use orlop_k8s::hourglass::controller::Reconciler;
use orlop_k8s::hourglass::{Config, Controller, RunOptions};
use orlop_k8s::performer::Performers;
use orlop_k8s::shell::Clock;
use orlop_k8s::shell::limits::{DEFAULT, Limited};
use orlop_k8s::testing::ApiServer;
use serde_json::{Value, json};

use super::test_env::GROUP;

const ADDRESS: &str = "0x1234567890abcdef1234567890abcdef12345678";
const OPERATOR: &str = "operator";
/// Executors; the long mode has twice as many of all.
fn executors() -> usize {
    if std::env::var_os("ORLOP_TEST_LONG").is_some() { 50 } else { 25 }
}
/// Performers for each of them.
const PERFORMERS: usize = 4;
/// Every so many performers one asks for a GPU.
const GPU: usize = 10;

struct ServerClock(ApiServer);

impl Clock for ServerClock {
    fn now(&self) -> Time {
        Time::from_millis(self.0.clock().now())
    }
}

fn node(label: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-0", "labels": {"disk": label}}, "status": {
        "allocatable": {"cpu": "1000", "memory": "9Ti", "pods": "1000", "nvidia.com/gpu": "100"},
        "conditions": [{"type": "Ready", "status": "True"}]}})
}

fn cluster() -> ApiServer {
    let server = ApiServer::new();
    server.record_all_managers();
    server.clock().follow_tokio();
    for (_, definition) in orlop_k8s::crd::all() {
        server.install(&definition).expect("the server takes the definition");
    }
    server.create("", "nodes", "", &node("old")).expect("a node");
    let cluster = server.jobs();
    tokio::spawn(async move { cluster.run().await });
    server
}

fn submit(server: &ApiServer, kind: Kind, name: &str, spec: &Value) {
    let object =
        json!({"apiVersion": kind.api_version(), "kind": kind.name(), "metadata": {"name": name}, "spec": spec});
    server.create(GROUP, kind.plural(), "default", &object).expect("the server takes the object");
}

fn submit_performer(server: &ApiServer, name: &str, gpu: bool) {
    let mut spec = json!({"avsAddress": ADDRESS, "image": "one:1"});
    if gpu {
        spec["hardwareRequirements"] = json!({"gpuCount": 1});
    }
    submit(server, Kind::Performer, name, &spec);
}

fn submit_executor(server: &ApiServer, name: &str) {
    let chain = json!({"name": "one", "rpc": "https://c.example", "chainId": 1, "taskMailboxAddress": ADDRESS});
    let config = json!({"aggregatorEndpoint": "a:1", "operatorKeys": {"k": "KEY"}, "chains": [chain]});
    submit(server, Kind::Executor, name, &json!({"image": "e:1", "config": config}));
}

/// Waits until all objects there are run.
async fn until_all_run(server: &ApiServer) {
    let runs = |kind: Kind| {
        let all = server.look_all(&format!("{}.{GROUP}", kind.plural()));
        all.iter().all(|object| object["status"]["phase"] == "Running")
    };
    for _ in 0..36_000 {
        if runs(Kind::Performer) && runs(Kind::Executor) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("not all of them run");
}

/// What the operator has asked for, by verb and resource, but for its watches.
fn asked(server: &ApiServer) -> BTreeMap<String, u64> {
    let mut asked = BTreeMap::new();
    for requests in server.requests().into_iter().filter(|asked| asked.client == OPERATOR) {
        if requests.verb.as_str() != "watch" {
            *asked.entry(format!("{} {}", requests.verb.as_str(), requests.resource)).or_default() += requests.count;
        }
    }
    asked
}

fn reads(asked: &BTreeMap<String, u64>) -> u64 {
    let reads = asked.iter().filter(|(what, _)| what.starts_with("get ") || what.starts_with("list "));
    reads.map(|(_, count)| count).sum()
}

/// Both controllers work at the pace of an operator while something happens.
async fn work(server: &ApiServer, happens: impl Future<Output = ()>) {
    let client = server.client_named(OPERATOR);
    let api = Limited::new(Client::new(client.clone()), DEFAULT);
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let stopped = stopped.map(drop).shared();
    fn run<R: Reconciler>(server: &ApiServer, api: &Limited<Client>) -> Controller<Limited<Client>, R> {
        let (clock, config) = (Arc::new(ServerClock(server.clone())), Arc::new(Config::default()));
        Controller::new(api.clone(), clock, config, Duration::from_secs(300))
    }
    let (performers, executors) = (run::<Performers>(server, &api), run::<Executors>(server, &api));
    let options = RunOptions::default();
    let test = async {
        happens.await;
        drop(stop);
    };
    futures::join!(
        performers.run(client.clone(), &options, stopped.clone()),
        executors.run(client, &options, stopped),
        test
    );
}

/// Somebody changes a label of the node.
async fn change_node(server: &ApiServer) {
    let node = json!({"metadata": {"labels": {"disk": "new"}}}).to_string().into_bytes();
    let request = http::Request::patch("/api/v1/nodes/node-0").header("content-type", "application/merge-patch+json");
    let request = request.body(node).expect("a request");
    server.client_named("user").request::<Value>(request).await.expect("the server takes it");
}

/// How long a new performer takes until it runs.
async fn new_one_takes(server: &ApiServer, name: &str) -> Duration {
    let begun = tokio::time::Instant::now();
    submit_performer(server, name, false);
    until_all_run(server).await;
    begun.elapsed()
}

#[tokio::test(start_paused = true)]
async fn many_are_brought_up_with_few_reads_and_a_node_that_changes_costs_next_to_none() {
    let idle = cluster();
    let mut alone = Duration::ZERO;
    work(&idle, async {
        tokio::time::sleep(Duration::from_secs(5)).await;
        alone = new_one_takes(&idle, "alone").await;
    })
    .await;
    let server = cluster();
    let performers = executors() * PERFORMERS;
    work(&server, async {
        // What the watches list is no matter of how many there are.
        tokio::time::sleep(Duration::from_secs(5)).await;
        server.forget_records();
        let begun = tokio::time::Instant::now();
        for number in 0..performers {
            submit_performer(&server, &format!("p{number:03}"), number % GPU == 0);
        }
        for number in 0..executors() {
            submit_executor(&server, &format!("e{number:03}"));
        }
        until_all_run(&server).await;
        let (first, took) = (asked(&server), begun.elapsed());
        println!("brought up in {took:?} with {} reads: {first:#?}", reads(&first));
        assert!(reads(&first) <= 4 * (performers + executors()) as u64, "{}: {first:#?}", reads(&first));
        tokio::time::sleep(Duration::from_secs(30)).await;
        server.forget_records();
        change_node(&server).await;
        let beside = new_one_takes(&server, "beside").await;
        let change = asked(&server);
        println!("a node changes: {} reads; a new one takes {beside:?}, alone {alone:?}: {change:#?}", reads(&change));
        assert!(reads(&change) <= (performers / GPU) as u64, "{}: {change:#?}", reads(&change));
        assert!(beside <= 2 * alone.max(Duration::from_millis(500)), "{beside:?}, alone {alone:?}");
    })
    .await;
}
