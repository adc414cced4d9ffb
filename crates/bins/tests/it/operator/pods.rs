//! A kubelet that runs the containers of pods as processes of this machine, for pods that the API server double shows: volumes
//! are folders, and paths of containers stand for those folders. Owns that, and what it says of a pod that has ended.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use orlop::k8s::testing::ApiServer;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::cluster::resource;

/// Where a container leaves its termination message.
const MESSAGE: &str = "/dev/termination-log";

/// Runs pods until it is dropped.
pub(super) struct Pods {
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Pods {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Pods {
    pub(super) fn run(server: ApiServer) -> Self {
        let task = tokio::spawn(async move {
            let root = tempfile::tempdir().unwrap();
            let mut begun: BTreeMap<String, ()> = BTreeMap::new();
            loop {
                for pod in server.look_all("pods") {
                    let uid = word(&pod, "/metadata/uid").to_owned();
                    let bound = !word(&pod, "/spec/nodeName").is_empty();
                    if bound && begun.insert(uid, ()).is_none() {
                        let status = Pod::new(&server, &root, &pod).run().await;
                        tell(&server, &pod, status).await;
                    }
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        });
        Self { task }
    }
}

fn word<'v>(value: &'v Value, path: &str) -> &'v str {
    value.pointer(path).and_then(Value::as_str).unwrap_or_default()
}

fn items<'v>(value: &'v Value, path: &str) -> &'v [Value] {
    value.pointer(path).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

async fn tell(server: &ApiServer, pod: &Value, status: Value) {
    let kind = resource("", "v1", "Pod", "pods");
    let pods: Api<DynamicObject> = Api::namespaced_with(server.client(), word(pod, "/metadata/namespace"), &kind);
    let patch = Patch::Merge(json!({ "status": status }));
    pods.patch_status(word(pod, "/metadata/name"), &PatchParams::default(), &patch).await.expect("the status is taken");
}

/// A pod with its folders.
struct Pod<'p> {
    server: &'p ApiServer,
    pod: &'p Value,
    folder: PathBuf,
    claims: PathBuf,
}

impl<'p> Pod<'p> {
    fn new(server: &'p ApiServer, root: &TempDir, pod: &'p Value) -> Self {
        let folder = root.path().join(word(pod, "/metadata/uid"));
        Self { server, pod, folder, claims: root.path().join("claims") }
    }

    /// Runs its containers one after the other. Gives its status.
    async fn run(&self) -> Value {
        for volume in items(self.pod, "/spec/volumes") {
            self.fill(volume);
        }
        let mut init = Vec::new();
        for container in items(self.pod, "/spec/initContainers") {
            let (code, status) = self.container(container).await;
            init.push(status);
            if code != 0 {
                let never = |container: &Value| {
                    json!({"name": container["name"], "image": "", "imageID": "", "ready": false, "restartCount": 0,
                        "state": {"waiting": {"reason": "PodInitializing"}}})
                };
                let main: Vec<Value> = items(self.pod, "/spec/containers").iter().map(never).collect();
                return json!({"phase": "Failed", "initContainerStatuses": init, "containerStatuses": main});
            }
        }
        let (code, status) = self.container(&self.pod["spec"]["containers"][0]).await;
        let phase = if code == 0 { "Succeeded" } else { "Failed" };
        json!({"phase": phase, "initContainerStatuses": init, "containerStatuses": [status]})
    }

    fn volume(&self, name: &str) -> PathBuf {
        let volume = items(self.pod, "/spec/volumes").iter().find(|volume| volume["name"] == name).expect("a volume");
        match word(volume, "/persistentVolumeClaim/claimName") {
            "" => self.folder.join("volumes").join(name),
            claim => self.claims.join(claim),
        }
    }

    fn fill(&self, volume: &Value) {
        let folder = self.volume(word(volume, "/name"));
        std::fs::create_dir_all(&folder).unwrap();
        for source in items(volume, "/projected/sources") {
            let map = &source["configMap"];
            let namespace = word(self.pod, "/metadata/namespace");
            let found = self.server.look("configmaps", namespace, word(map, "/name"));
            assert!(found.is_some() || map["optional"] == true, "a pod waits for ever for {map}");
            for item in items(map, "/items") {
                let data = found.as_ref().and_then(|found| found["binaryData"][word(item, "/key")].as_str());
                if let Some(data) = data {
                    std::fs::write(folder.join(word(item, "/path")), STANDARD.decode(data).unwrap()).unwrap();
                }
            }
        }
    }

    /// Paths of a container and what they stand for, the longest first.
    fn mounts(&self, container: &Value, message: &Path) -> Vec<(String, PathBuf)> {
        let mut mounts = vec![(MESSAGE.to_owned(), message.to_owned())];
        for mount in items(container, "/volumeMounts") {
            let place = self.volume(word(mount, "/name")).join(word(mount, "/subPath"));
            // A kubelet makes a folder where nothing is.
            if !place.exists() {
                std::fs::create_dir_all(&place).unwrap();
            }
            mounts.push((word(mount, "/mountPath").to_owned(), place));
        }
        mounts.sort_by_key(|(path, _)| std::cmp::Reverse(path.len()));
        mounts
    }

    /// Runs a container. Gives its exit code and its status.
    async fn container(&self, container: &Value) -> (i32, Value) {
        let message = self.folder.join(format!("message-{}", word(container, "/name")));
        std::fs::write(&message, "").unwrap();
        let mounts = self.mounts(container, &message);
        let words = |list: &str| items(container, list).iter().map(|word| seen(word.as_str().unwrap(), &mounts));
        let mut line: Vec<String> = words("/command").collect();
        if word(container, "/image") == "orlop-helper" {
            line.push(env!("CARGO_BIN_EXE_orlop-helper").to_owned());
        }
        line.extend(words("/args"));
        let mut command = tokio::process::Command::new(&line[0]);
        command.args(&line[1..]).env_clear().env("PATH", "/usr/bin:/bin").kill_on_drop(true);
        for variable in items(container, "/env") {
            command.env(word(variable, "/name"), seen(word(variable, "/value"), &mounts));
        }
        let status = command.status().await.unwrap_or_else(|error| panic!("{line:?}: {error}"));
        let code = status.code().unwrap_or(137);
        let told = std::fs::read_to_string(&message).unwrap();
        assert!(told.len() <= 4096, "a kubelet cuts it");
        let reason = if code == 0 { "Completed" } else { "Error" };
        let now = "2026-11-24T12:00:00Z";
        let ended = json!({"exitCode": code, "reason": reason, "message": told, "startedAt": now, "finishedAt": now});
        let status = json!({"name": container["name"], "image": container["image"], "imageID": "", "ready": false,
            "restartCount": 0, "state": {"terminated": ended}});
        (code, status)
    }
}

/// A text in which paths of a container are those of this machine.
fn seen(text: &str, mounts: &[(String, PathBuf)]) -> String {
    let mut told = String::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let begins = !told.ends_with(|before: char| before.is_ascii_alphanumeric() || "/._-".contains(before));
        let found = mounts.iter().find(|(path, _)| {
            let after = rest.strip_prefix(path.as_str()).map(|after| after.chars().next());
            begins
                && after
                    .is_some_and(|next| next.is_none_or(|next| !next.is_ascii_alphanumeric() && !"._-".contains(next)))
        });
        match found {
            Some((path, place)) => {
                told.push_str(place.to_str().unwrap());
                rest = &rest[path.len()..];
            }
            None => {
                told.push(first);
                rest = &rest[first.len_utf8()..];
            }
        }
    }
    told
}
