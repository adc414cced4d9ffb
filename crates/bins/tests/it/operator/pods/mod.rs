//! A kubelet that runs the containers of pods as processes of this machine, for pods that an API server shows: its double, or a
//! real one. Volumes are folders, and paths of containers stand for those folders. Owns which pods are run, and when they are
//! told to go; what runs in them is in `container`, what they are given in `given`.

mod container;
mod given;

use std::collections::BTreeMap;
use std::time::Duration;

use futures::StreamExt as _;
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::runtime::{WatchStreamExt as _, watcher};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::cluster::resource;
use super::kubelet::ready;
use container::Pod;

/// How often a node says that it is well.
const RENEW: Duration = Duration::from_secs(10);

/// Whether a pod is to go, and the time it has for it.
type Going = Option<Duration>;

/// Runs pods until it is dropped.
pub(super) struct Pods {
    client: kube::Client,
    node: Option<String>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Pods {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Pods {
    /// Runs all pods that are on a node.
    pub(super) fn run(client: kube::Client) -> Self {
        let task = tokio::spawn(watch_pods(client.clone(), None));
        Self { client, node: None, task }
    }

    /// A node with this name that runs its pods.
    pub(super) fn on(client: kube::Client, node: &str) -> Self {
        let name = node.to_owned();
        let (worker, own) = (client.clone(), name.clone());
        let task = tokio::spawn(async move {
            tokio::join!(renew(worker.clone(), &own), watch_pods(worker, Some(own.clone())));
        });
        Self { client, node: Some(name), task }
    }

    /// The node is taken away, before somebody notices that nobody renews it.
    pub(super) async fn end(self) {
        self.task.abort();
        if let Some(node) = &self.node {
            let nodes: Api<DynamicObject> = Api::all_with(self.client.clone(), &resource("", "v1", "Node", "nodes"));
            drop(nodes.delete(node, &DeleteParams::default()).await);
        }
    }
}

async fn renew(client: kube::Client, name: &str) {
    let nodes: Api<DynamicObject> = Api::all_with(client, &resource("", "v1", "Node", "nodes"));
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}});
    // It may be there from an earlier test.
    drop(nodes.create(&PostParams::default(), &serde_json::from_value(node.clone()).unwrap()).await);
    loop {
        // What failed is tried again at the next turn.
        drop(nodes.patch_status(name, &PatchParams::default(), &Patch::Merge(ready(&node))).await);
        tokio::time::sleep(RENEW).await;
    }
}

/// Every pod has a task, and hears in it when it is to go.
async fn watch_pods(client: kube::Client, node: Option<String>) {
    let root = tempfile::tempdir().unwrap();
    let pods: Api<DynamicObject> = Api::all_with(client.clone(), &resource("", "v1", "Pod", "pods"));
    let mut begun: BTreeMap<String, watch::Sender<Going>> = BTreeMap::new();
    let mut running = JoinSet::new();
    let mut news = watcher(pods, watcher::Config::default()).default_backoff().touched_objects().boxed();
    while let Some(seen) = news.next().await {
        // The watch is opened again by itself.
        let Ok(pod) = seen else { continue };
        let pod = serde_json::to_value(&pod).unwrap();
        let at = word(&pod, "/spec/nodeName");
        if at.is_empty() || node.as_deref().is_some_and(|node| node != at) {
            continue;
        }
        let tell = begun.entry(word(&pod, "/metadata/uid").to_owned()).or_insert_with(|| {
            let (tell, reported) = watch::channel(None);
            running.spawn(live(client.clone(), root.path().to_owned(), pod.clone(), reported));
            tell
        });
        if !pod["metadata"]["deletionTimestamp"].is_null() {
            let grace = pod["metadata"]["deletionGracePeriodSeconds"].as_u64().unwrap_or_default();
            tell.send_replace(Some(Duration::from_secs(grace)));
        }
    }
}

/// Runs a pod and says how it ended; lets it go when it is to.
async fn live(client: kube::Client, root: std::path::PathBuf, pod: Value, mut reported: watch::Receiver<Going>) {
    if matches!(word(&pod, "/status/phase"), "Succeeded" | "Failed") {
        return;
    }
    let pods: Api<DynamicObject> =
        Api::namespaced_with(client.clone(), word(&pod, "/metadata/namespace"), &resource("", "v1", "Pod", "pods"));
    let name = word(&pod, "/metadata/name");
    let tell = async |status: Value| {
        // A pod may be gone by now, and nobody waits for its status then.
        drop(pods.patch_status(name, &PatchParams::default(), &Patch::Merge(json!({ "status": status }))).await);
    };
    tell(json!({"phase": "Running"})).await;
    let status = Pod::new(&client, &root, &pod).run(&mut reported).await;
    tell(status).await;
    // Whoever counts the pod takes it away, or somebody tells it to go.
    if reported.wait_for(Option::is_some).await.is_ok() {
        let now = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
        drop(pods.delete(name, &now).await);
    }
}

fn word<'v>(value: &'v Value, path: &str) -> &'v str {
    value.pointer(path).and_then(Value::as_str).unwrap_or_default()
}

fn items<'v>(value: &'v Value, path: &str) -> &'v [Value] {
    value.pointer(path).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}
