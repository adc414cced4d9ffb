//! The cluster around a controller: each of its parts takes one small step. Owns what pods and Deployments come to.

use serde_json::{Value, json};

use super::TestEnv;
use crate::api::Kind;
use crate::hardware::{node, read};
use crate::hourglass::controller::Reconciler;
use crate::shell::Clock as _;
use crate::value::{items, word};
use orlop_core::hardware::merge;
use orlop_core::hardware::placement::Placement;

impl<R: Reconciler> TestEnv<R> {
    /// One step of the first part of the cluster that has something to do.
    pub(super) fn step_cluster(&mut self) -> bool {
        let pods = self.server.list(Kind::Pod);
        if let Some(pod) =
            pods.iter().find(|pod| pod["metadata"]["deletionTimestamp"].is_string() && !self.is_lost(pod))
        {
            self.server.remove(Kind::Pod, name(pod));
            return true;
        }
        pods.iter().any(|pod| self.play(pod)) || self.step_deployments()
    }

    fn is_lost(&self, pod: &Value) -> bool {
        let host = word(pod, "/spec/nodeName");
        let nodes = self.cluster(Kind::Node);
        let ready = |node: &&Value| {
            items(node, "/status/conditions").iter().any(|known| known["type"] == "Ready" && known["status"] == "True")
        };
        !host.is_empty() && !nodes.iter().filter(ready).any(|node| name(node) == host)
    }

    /// One step of a pod: the scheduler's or its kubelet's.
    fn play(&self, pod: &Value) -> bool {
        if matches!(word(pod, "/status/phase"), "Failed" | "Succeeded") || self.is_lost(pod) {
            return false;
        }
        let now = self.clock.now().whole_seconds().to_string();
        if word(pod, "/spec/nodeName").is_empty() {
            return self.schedule(pod, &now);
        }
        // What others put into a pod stands before what is ours, and runs from the beginning.
        let (container, others) = items(pod, "/spec/containers").split_last().unwrap();
        let habit = self.images.get(word(container, "/image")).copied().unwrap_or("well");
        let status = |state: Value, image: &str| -> Value {
            let one = |name: &Value, state: Value, image: &str| json!({"name": name, "state": state, "imageID": image});
            let runs = |other: &Value| one(&other["name"], json!({"running": {"startedAt": now}}), "sha256:2");
            others.iter().map(runs).chain([one(&container["name"], state, image)]).collect()
        };
        let waiting = |reason: &str| json!({"waiting": {"reason": reason}});
        let was = items(pod, "/status/containerStatuses").iter().find(|known| known["name"] == container["name"]);
        let was = was.unwrap_or(&Value::Null);
        let reason = word(was, "/state/waiting/reason");
        let next = if pod["status"]["startTime"].is_null() {
            json!({"startTime": now, "phase": "Pending"})
        } else if was.is_null() {
            json!({"containerStatuses": status(waiting("ContainerCreating"), "")})
        } else if reason == "ContainerCreating" && word(was, "/imageID").is_empty() {
            let failing = matches!(habit, "ImagePullBackOff" | "InvalidImageName");
            if habit == "pulls" {
                return false;
            }
            let (reason, image) = if failing { (habit, "") } else { ("ContainerCreating", "sha256:1") };
            json!({"containerStatuses": status(waiting(reason), image)})
        } else if reason == "ContainerCreating" {
            let failing = matches!(habit, "CrashLoopBackOff" | "CreateContainerConfigError" | "RunContainerError");
            let state = if failing { waiting(habit) } else { json!({"running": {"startedAt": now}}) };
            json!({"phase": if failing { "Pending" } else { "Running" }, "containerStatuses": status(state, "sha256:1")})
        } else if was["state"]["running"].is_object() && habit == "well" && condition(pod, "Ready") != "True" {
            json!({"conditions": conditions(pod, "Ready", "True", &now)})
        } else {
            return false;
        };
        self.server.edit(Kind::Pod, name(pod), |pod| set(pod, next));
        true
    }

    fn schedule(&self, pod: &Value, now: &str) -> bool {
        let user = read(&pod["spec"], ours(pod)).unwrap();
        let merged = merge(&user, &Placement::default()).unwrap();
        let pods = self.server.list(Kind::Pod);
        let fits = |host: &Value| {
            let host = node(host).unwrap();
            let mut machine = host.machine;
            // What other pods have is not free.
            for other in pods.iter().filter(|other| word(other, "/spec/nodeName") == machine.name) {
                let used = read(&other["spec"], ours(other)).unwrap().requests;
                machine.allocatable = machine.allocatable.saturating_sub(&used);
            }
            host.ready && host.schedulable && merged.check(&machine).fits()
        };
        match self.cluster(Kind::Node).iter().find(|host| fits(host)) {
            Some(host) => {
                let bound = json!({"conditions": conditions(pod, "PodScheduled", "True", now)});
                self.server.edit(Kind::Pod, name(pod), |pod| {
                    pod["spec"]["nodeName"] = json!(name(host));
                    set(pod, bound);
                });
                true
            }
            None if condition(pod, "PodScheduled") == "False" => false,
            None => {
                let refused = json!({"phase": "Pending", "conditions": conditions(pod, "PodScheduled", "False", now)});
                self.server.edit(Kind::Pod, name(pod), |pod| set(pod, refused));
                true
            }
        }
    }

    /// Deployments make one pod of the newest template at a time, and remove an old one once there are enough.
    fn step_deployments(&self) -> bool {
        self.server.list(Kind::Deployment).iter().any(|deployment| self.step_deployment(deployment))
    }

    fn step_deployment(&self, deployment: &Value) -> bool {
        let wanted = deployment["spec"]["replicas"].as_u64().unwrap_or(1) as usize;
        let template = orlop_core::name::sha256_hex(deployment["spec"]["template"].to_string().as_bytes(), 8);
        let owned = |pod: &&Value| pod["metadata"]["ownerReferences"][0]["uid"] == deployment["metadata"]["uid"];
        let pods: Vec<Value> = self.server.list(Kind::Pod).iter().filter(owned).cloned().collect();
        let is_new = |pod: &&Value| pod["metadata"]["labels"]["hash"] == template;
        let ready = |pod: &&Value| condition(pod, "Ready") == "True";
        let new = pods.iter().filter(is_new).count();
        let (ready_new, ready_all) =
            (pods.iter().filter(is_new).filter(ready).count(), pods.iter().filter(ready).count());
        let counts = json!({"observedGeneration": deployment["metadata"]["generation"], "replicas": pods.len(),
            "updatedReplicas": new, "readyReplicas": ready_all, "conditions": deployment["status"]["conditions"]});
        if counts != deployment["status"] {
            self.server.edit(Kind::Deployment, name(deployment), |deployment| deployment["status"] = counts);
            return true;
        }
        if new < wanted && pods.len() <= wanted {
            self.server.put(Kind::Pod, pod_of(deployment, &template, pods.len()));
            return true;
        }
        let old = pods.iter().find(|pod| !is_new(pod) && ready_new + pods.len() - new > wanted);
        let surplus = pods.iter().rfind(is_new).filter(|_| new > wanted);
        match old.or(surplus) {
            Some(pod) => {
                self.server.remove(Kind::Pod, name(pod));
                true
            }
            None => false,
        }
    }
}

/// Name of the container that is not somebody else's.
fn ours(pod: &Value) -> &str {
    items(pod, "/spec/containers").last().map_or("", |container| word(container, "/name"))
}

fn pod_of(deployment: &Value, template: &str, count: usize) -> Value {
    let mut pod = deployment["spec"]["template"].clone();
    let unique = format!(
        "{}-{template}-{count}-{}",
        name(deployment),
        deployment["metadata"]["resourceVersion"].as_str().unwrap()
    );
    pod["metadata"]["name"] = json!(unique);
    pod["metadata"]["labels"]["hash"] = json!(template);
    pod["metadata"]["ownerReferences"] =
        json!([{"kind": "ReplicaSet", "uid": deployment["metadata"]["uid"], "controller": true}]);
    pod
}

fn name(object: &Value) -> &str {
    word(object, "/metadata/name")
}

fn set(object: &mut Value, members: Value) {
    for (name, value) in members.as_object().unwrap() {
        object["status"][name] = value.clone();
    }
}

fn condition<'v>(pod: &'v Value, kind: &str) -> &'v str {
    crate::value::item(pod, "/status/conditions", "type", kind).map_or("", |known| word(known, "/status"))
}

fn conditions(pod: &Value, kind: &str, status: &str, now: &str) -> Value {
    let mut all: Vec<Value> =
        items(pod, "/status/conditions").iter().filter(|known| known["type"] != kind).cloned().collect();
    all.push(json!({"type": kind, "status": status, "lastTransitionTime": now}));
    json!(all)
}

/// A ready node.
pub(crate) fn host(name: &str, labels: Value, allocatable: Value) -> Value {
    let mut amounts = json!({"cpu": "8", "memory": "64Gi", "pods": "110"});
    allocatable.as_object().unwrap().iter().for_each(|(name, amount)| amounts[name] = amount.clone());
    json!({"metadata": {"name": name, "labels": labels},
        "status": {"allocatable": amounts, "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-11-21T09:00:00Z"}]}})
}
