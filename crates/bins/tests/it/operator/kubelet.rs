//! A node of the real control plane that runs nothing: pods bound to it end as their annotations say. Owns what a kubelet
//! would write; the pods name the node, so that no scheduler is needed.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use kube::api::{Api, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};

/// Name of the node.
pub(super) const NODE: &str = "orlop-test";

/// A node that plays pods until it is dropped.
pub(super) struct Kubelet {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Kubelet {
    pub(super) fn start(kubeconfig: PathBuf) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(play(kubeconfig, told));
        });
        Self { stop, thread: Some(thread) }
    }
}

impl Drop for Kubelet {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        drop(self.thread.take().map(JoinHandle::join));
    }
}

fn resource(kind: &str, plural: &str) -> ApiResource {
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk("", "v1", kind), plural)
}

async fn play(kubeconfig: PathBuf, stop: Arc<AtomicBool>) {
    let file = kube::config::Kubeconfig::read_from(kubeconfig).unwrap();
    let config = kube::Config::from_custom_kubeconfig(file, &kube::config::KubeConfigOptions::default()).await.unwrap();
    let client = kube::Client::try_from(config).unwrap();
    let nodes: Api<DynamicObject> = Api::all_with(client.clone(), &resource("Node", "nodes"));
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}});
    // It may be there from an earlier test.
    drop(nodes.create(&PostParams::default(), &serde_json::from_value(node).unwrap()).await);
    let mut begun: BTreeMap<String, Instant> = BTreeMap::new();
    let mut renewed = None::<Instant>;
    while !stop.load(Ordering::Relaxed) {
        if renewed.is_none_or(|at| at.elapsed() > Duration::from_secs(10)) {
            renewed = Some(Instant::now());
            drop(nodes.patch_status(NODE, &PatchParams::default(), &Patch::Merge(ready())).await);
        }
        let pods: Api<DynamicObject> = Api::all_with(client.clone(), &resource("Pod", "pods"));
        let bound = ListParams::default().fields(&format!("spec.nodeName={NODE}"));
        for pod in pods.list(&bound).await.map(|list| list.items).unwrap_or_default() {
            one(&client, &pod, &mut begun).await;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

fn stamp() -> String {
    use orlop::host::flow::Clock as _;
    orlop::host::flow::SystemClock.now().whole_seconds().to_string()
}

fn ready() -> Value {
    json!({"status": {"conditions": [{"type": "Ready", "status": "True", "reason": "Test", "message": "", "lastHeartbeatTime": stamp(), "lastTransitionTime": stamp()}]}})
}

/// Plays a pod: ends it when its time has come, lets it go when it is deleted.
async fn one(client: &kube::Client, pod: &DynamicObject, begun: &mut BTreeMap<String, Instant>) {
    let meta = &pod.metadata;
    let (Some(name), Some(namespace)) = (&meta.name, &meta.namespace) else { return };
    let pods: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &resource("Pod", "pods"));
    if meta.deletion_timestamp.is_some() {
        let now = kube::api::DeleteParams { grace_period_seconds: Some(0), ..Default::default() };
        drop(pods.delete(name, &now).await);
        return;
    }
    let phase = pod.data.pointer("/status/phase").and_then(Value::as_str).unwrap_or_default();
    if phase == "Succeeded" || phase == "Failed" {
        return;
    }
    let plays = meta.annotations.clone().unwrap_or_default();
    let seconds: f64 = plays.get("fake/run-seconds").and_then(|text| text.parse().ok()).unwrap_or(0.1);
    let code: i32 = plays.get("fake/exit-code").and_then(|text| text.parse().ok()).unwrap_or(0);
    let began = *begun.entry(meta.uid.clone().unwrap_or_default()).or_insert_with(Instant::now);
    let container = |state: Value| json!([{"name": "main", "image": "busybox", "imageID": "", "ready": false, "restartCount": 0, "state": state}]);
    let status = if began.elapsed().as_secs_f64() >= seconds {
        let phase = if code == 0 { "Succeeded" } else { "Failed" };
        let ended = json!({"terminated": {"exitCode": code, "startedAt": stamp(), "finishedAt": stamp(), "reason": if code == 0 { "Completed" } else { "Error" }}});
        json!({"phase": phase, "startTime": stamp(), "containerStatuses": container(ended)})
    } else if phase == "Running" {
        return;
    } else {
        json!({"phase": "Running", "startTime": stamp(), "containerStatuses": container(json!({"running": {"startedAt": stamp()}}))})
    };
    drop(pods.patch_status(name, &PatchParams::default(), &Patch::Merge(json!({"status": status}))).await);
}
