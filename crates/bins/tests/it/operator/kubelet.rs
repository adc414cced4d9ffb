//! Nodes of the real control plane that run nothing: pods bound to them end as their annotations say, or serve until they are
//! deleted. Owns what a kubelet would write.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use kube::api::{Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::cluster::{client, resource};

/// Name of the node that is there without being asked for.
pub(super) const NODE: &str = "orlop-test";

/// How often a node says that it is well.
const RENEW: Duration = Duration::from_secs(10);

/// Nodes that play pods until this is dropped.
pub(super) struct Kubelet {
    stop: Arc<AtomicBool>,
    nodes: Arc<Mutex<Vec<Value>>>,
    thread: Option<JoinHandle<()>>,
}

impl Kubelet {
    /// The node [`NODE`], which the scheduler gives nothing.
    pub(super) fn start(kubeconfig: PathBuf) -> Self {
        Self::with_nodes(kubeconfig, vec![json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}})])
    }

    /// These nodes, with the labels and amounts they have.
    pub(super) fn with_nodes(kubeconfig: PathBuf, nodes: Vec<Value>) -> Self {
        let (stop, nodes) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(nodes)));
        let (reported, known) = (Arc::clone(&stop), Arc::clone(&nodes));
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(play(kubeconfig, &reported, &known));
        });
        Self { stop, nodes, thread: Some(thread) }
    }

    /// More nodes join.
    pub(super) fn add(&self, nodes: Vec<Value>) {
        self.nodes.lock().unwrap().extend(nodes);
    }

    /// A node renews itself no more, and nothing plays its pods.
    pub(super) fn lose(&self, name: &str) {
        self.nodes.lock().unwrap().retain(|node| node["metadata"]["name"] != name);
    }
}

impl Drop for Kubelet {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        drop(self.thread.take().map(JoinHandle::join));
    }
}

async fn play(kubeconfig: PathBuf, stop: &AtomicBool, known: &Mutex<Vec<Value>>) {
    let client = client(&kubeconfig).await;
    let nodes: Api<DynamicObject> = Api::all_with(client.clone(), &resource("", "v1", "Node", "nodes"));
    let pods: Api<DynamicObject> = Api::all_with(client.clone(), &resource("", "v1", "Pod", "pods"));
    let mut begun: BTreeMap<String, Begun> = BTreeMap::new();
    let mut renewed: BTreeMap<String, Instant> = BTreeMap::new();
    let mut all = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        all.clone_from(&known.lock().unwrap());
        for node in &all {
            let name = node["metadata"]["name"].as_str().unwrap();
            if renewed.get(name).is_none_or(|at| at.elapsed() > RENEW) {
                if !renewed.contains_key(name) {
                    // It may be there from an earlier test.
                    drop(nodes.create(&PostParams::default(), &serde_json::from_value(node.clone()).unwrap()).await);
                }
                // What failed is tried again at the next turn.
                if nodes.patch_status(name, &PatchParams::default(), &Patch::Merge(ready(node))).await.is_ok() {
                    renewed.insert(name.to_owned(), Instant::now());
                }
            }
        }
        let mine =
            |pod: &&DynamicObject| all.iter().any(|node| node["metadata"]["name"] == pod.data["spec"]["nodeName"]);
        let list = pods.list(&ListParams::default()).await.map(|list| list.items).unwrap_or_default();
        for pod in list.iter().filter(mine) {
            one(&client, pod, &mut begun).await;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    // Nodes that nobody renews would change for minutes, and whoever looks at nodes with them.
    for node in &all {
        drop(nodes.delete(node["metadata"]["name"].as_str().unwrap(), &DeleteParams::default()).await);
    }
}

pub(super) fn stamp() -> String {
    use orlop::host::flow::Clock as _;
    orlop::host::flow::SystemClock.now().whole_seconds().to_string()
}

pub(super) fn ready(node: &Value) -> Value {
    let mut status = json!({"conditions": [{"type": "Ready", "status": "True", "reason": "Test", "message": "", "lastHeartbeatTime": stamp(), "lastTransitionTime": stamp()}]});
    if node["status"]["allocatable"].is_object() {
        status["allocatable"] = node["status"]["allocatable"].clone();
        status["capacity"] = status["allocatable"].clone();
    }
    json!({ "status": status })
}

/// When a pod was seen first, and its number.
struct Begun {
    at: Instant,
    number: usize,
}

/// Plays a pod: starts it, ends it when its time has come, lets it go when it is deleted.
async fn one(client: &kube::Client, pod: &DynamicObject, begun: &mut BTreeMap<String, Begun>) {
    let meta = &pod.metadata;
    let (Some(name), Some(namespace)) = (&meta.name, &meta.namespace) else { return };
    let pods: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &resource("", "v1", "Pod", "pods"));
    if meta.deletion_timestamp.is_some() {
        let now = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
        drop(pods.delete(name, &now).await);
        return;
    }
    let phase = pod.data.pointer("/status/phase").and_then(Value::as_str).unwrap_or_default();
    if phase == "Succeeded" || phase == "Failed" {
        return;
    }
    let number = begun.len();
    let began = begun.entry(meta.uid.clone().unwrap_or_default());
    let began = began.or_insert_with(|| Begun { at: Instant::now(), number });
    let status =
        if pod.data["spec"]["restartPolicy"] == "Always" { serve(pod, phase, began) } else { work(pod, phase, began) };
    if let Some(status) = status {
        let patch = Patch::Merge(json!({ "status": status }));
        drop(pods.patch_status(name, &PatchParams::default(), &patch).await);
    }
}

fn container(pod: &DynamicObject, ready: bool, state: &Value) -> Value {
    let one = |container: &Value| {
        json!({"name": container["name"], "image": container["image"], "imageID": "", "ready": ready,
            "started": ready, "restartCount": 0, "state": state})
    };
    pod.data["spec"]["containers"].as_array().unwrap().iter().map(one).collect()
}

/// A pod that is to end.
fn work(pod: &DynamicObject, phase: &str, began: &Begun) -> Option<Value> {
    let plays = pod.metadata.annotations.clone().unwrap_or_default();
    let seconds: f64 = plays.get("fake/run-seconds").and_then(|text| text.parse().ok()).unwrap_or(0.1);
    let code: i32 = plays.get("fake/exit-code").and_then(|text| text.parse().ok()).unwrap_or(0);
    if began.at.elapsed().as_secs_f64() >= seconds {
        let phase = if code == 0 { "Succeeded" } else { "Failed" };
        let ended = json!({"terminated": {"exitCode": code, "startedAt": stamp(), "finishedAt": stamp(), "reason": if code == 0 { "Completed" } else { "Error" }}});
        return Some(json!({"phase": phase, "startTime": stamp(), "containerStatuses": container(pod, false, &ended)}));
    }
    let running = json!({"running": {"startedAt": stamp()}});
    let status =
        json!({"phase": "Running", "startTime": stamp(), "containerStatuses": container(pod, false, &running)});
    (phase != "Running").then_some(status)
}

/// A pod that serves: it is running, then ready; its image may be one that cannot be had.
fn serve(pod: &DynamicObject, phase: &str, began: &Begun) -> Option<Value> {
    let image = pod.data.pointer("/spec/containers/0/image").and_then(Value::as_str).unwrap_or_default();
    if image.contains("missing") {
        let waiting = json!({"waiting": {"reason": "ImagePullBackOff", "message": "there is no such image"}});
        let said = pod.data.pointer("/status/containerStatuses/0/state/waiting").is_some();
        let status =
            json!({"phase": "Pending", "startTime": stamp(), "containerStatuses": container(pod, false, &waiting)});
        return (!said).then_some(status);
    }
    // Some take their time, so that there is a middle.
    let wait = Duration::from_millis(if image.contains("slow") { 4000 } else { 500 });
    let ready = began.at.elapsed() > wait;
    let word = if ready { "True" } else { "False" };
    let said = pod.data.pointer("/status/containerStatuses/0/ready").and_then(Value::as_bool);
    if phase == "Running" && said == Some(ready) {
        return None;
    }
    let condition = |kind: &str, word: &str| json!({"type": kind, "status": word, "lastTransitionTime": stamp()});
    let conditions = json!([
        condition("PodScheduled", "True"),
        condition("Initialized", "True"),
        condition("ContainersReady", word),
        condition("Ready", word)
    ]);
    let ip = format!("10.244.{}.{}", began.number / 250, began.number % 250 + 1);
    let running = json!({"running": {"startedAt": stamp()}});
    Some(json!({"phase": "Running", "startTime": stamp(), "podIP": ip, "podIPs": [{"ip": ip}], "hostIP": "127.0.0.1",
        "conditions": conditions, "containerStatuses": container(pod, ready, &running)}))
}
