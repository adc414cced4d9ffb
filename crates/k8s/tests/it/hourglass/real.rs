//! The controllers of performers and executors die at writes to a real API server, that of `ORLOP_TEST_KUBECONFIG` (the double
//! stands in for it where there is none). Nobody works there but this test: it places pods, starts them, lets them go, and says
//! how far a Deployment is. The clock is the controller's own.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use http::Request as HttpRequest;
use orlop_core::time::Time;
use orlop_k8s::api::{Api as _, Kind, Request};
use orlop_k8s::executor::Executors;
use orlop_k8s::hourglass::controller::Reconciler;
use orlop_k8s::hourglass::{Config, Controller};
use orlop_k8s::performer::Performers;
use orlop_k8s::shell::{Clock, Key};
use orlop_k8s::testing::ApiServer;
use serde_json::{Value, json};

use super::test_env::GROUP;
use crate::conformance;
use crate::failing::{Failing, Plan, Watch, What};

const ADDRESS: &str = "0x1234567890abcdef1234567890abcdef12345678";
/// What is left of neither kind in the end.
const CHILDREN: [Kind; 5] = [Kind::Pod, Kind::Service, Kind::Deployment, Kind::Secret, Kind::ConfigMap];

/// A server, and its double where it is one.
struct Server {
    kube: kube::Client,
    double: Option<ApiServer>,
    namespace: String,
}

impl Server {
    async fn new(real: Option<kube::Client>) -> Self {
        let double = real.is_none().then(ApiServer::new);
        let kube = real.or_else(|| double.as_ref().map(ApiServer::client)).expect("one of both");
        let namespace = format!("glass-{}", std::process::id());
        for plural in ["performers", "hourglassexecutors"] {
            let all = orlop_k8s::crd::all();
            let ours = |definition: &Value| definition["spec"]["names"]["plural"] == plural;
            let definition = all.into_iter().map(|(_, definition)| definition).find(ours).expect("it is one of them");
            if let Some(double) = &double {
                double.install(&definition).expect("the server takes the definition");
            }
            let group = format!("/apis/{GROUP}/v1alpha1");
            conformance::set_up(&kube, &namespace, &definition, &group, plural).await;
        }
        Self { kube, double, namespace }
    }

    /// Whether the server did it; what is gone or was changed meanwhile is looked at again.
    async fn send(&self, method: &str, path: &str, body: &Value) -> bool {
        let request = HttpRequest::builder().method(method).uri(path);
        let kind = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
        let request = request.header("content-type", kind).body(body.to_string().into_bytes()).expect("a request");
        self.kube.request::<Value>(request).await.is_ok()
    }
}

/// An object, its controller, and the cluster around it.
struct TestEnv<'a, R: Reconciler> {
    server: &'a Server,
    api: Failing,
    clock: Arc<Watch>,
    controller: Controller<Failing, R>,
    key: Key,
    /// What was seen where it had to be so.
    seen: Vec<String>,
}

fn controller<R: Reconciler>(api: &Failing, clock: &Arc<Watch>) -> Controller<Failing, R> {
    let config = Arc::new(Config::default());
    let clock = Arc::clone(clock) as Arc<dyn Clock>;
    let controller = Controller::new(api.clone(), clock, config, Duration::from_secs(300));
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-0"}, "status": {
        "allocatable": {"cpu": "8", "memory": "64Gi"}, "conditions": [{"type": "Ready", "status": "True"}]}});
    let _ = controller.object_applied(Kind::Node, &node);
    controller
}

impl<'a, R: Reconciler> TestEnv<'a, R> {
    async fn new(server: &'a Server, name: &str, spec: &Value, plan: Plan) -> Self {
        let api = Failing::new(&server.kube, plan);
        let clock = Arc::new(Watch::at_present());
        if let Some(double) = &server.double {
            clock.set(Time::from_millis(double.clock().now()));
        }
        let object = json!({"apiVersion": format!("{GROUP}/v1alpha1"), "kind": R::KIND.name(),
            "metadata": {"name": name, "namespace": server.namespace}, "spec": spec});
        api.client.send(&Request::create(R::KIND, object)).await.expect("the server takes the object");
        let controller = controller(&api, &clock);
        let key = Key { namespace: server.namespace.clone(), name: name.to_owned() };
        Self { server, api, clock, controller, key, seen: Vec::new() }
    }

    async fn object(&self) -> Value {
        let request = Request::get(R::KIND, &self.key.namespace, &self.key.name);
        self.api.client.send(&request).await.unwrap_or_default()
    }

    async fn children(&self, kind: Kind) -> Vec<Value> {
        let labels = format!("{}={}", R::OWNER_LABEL, self.key.name);
        let list = self.api.client.send(&Request::list(kind, &self.key.namespace, labels)).await;
        list.expect("its children")["items"].as_array().cloned().unwrap_or_default()
    }

    /// Somebody changes the spec.
    async fn change(&self, spec: &Value) {
        let path =
            format!("/apis/{GROUP}/v1alpha1/namespaces/{}/{}/{}", self.key.namespace, R::KIND.plural(), self.key.name);
        assert!(self.server.send("PATCH", &path, &json!({ "spec": spec })).await, "the server takes the change");
    }

    async fn delete(&self) {
        let request = Request::delete(R::KIND, &self.key.namespace, &self.key.name, None);
        self.api.client.send(&request).await.expect("the server takes the deletion");
    }

    /// Passes, and steps of the cluster, until something is so.
    async fn until(&mut self, what: &str, holds: impl Fn(&Value, &[Value]) -> bool) {
        for _ in 0..400 {
            let before = self.api.plan().writes;
            let next = self.controller.reconcile(&self.key).await;
            let dead = self.api.plan().dead;
            if dead {
                self.api.plan().dead = false;
                self.controller = controller(&self.api, &self.clock);
                continue;
            }
            let played = self.play().await;
            if self.api.plan().writes != before || played {
                continue;
            }
            let (object, pods) = (self.object().await, self.children(Kind::Pod).await);
            if holds(&object, &pods) {
                self.note(&object, &pods).await;
                return;
            }
            let at = next.again_at.unwrap_or_else(|| panic!("{what} does not come: {}", object["status"]));
            if let Some(double) = &self.server.double {
                double.clock().advance(at.since(self.clock.now()));
            }
            self.clock.set(at.max(self.clock.now()));
        }
        panic!("{what} does not come: {}", self.object().await["status"]);
    }

    /// Everything but when it was, and whose.
    async fn note(&mut self, object: &Value, pods: &[Value]) {
        let status = &object["status"];
        // Pods of a Deployment have names of their own.
        let mine = pods.iter().filter(|_| R::KIND == Kind::Performer);
        let mut all: Vec<String> = mine.map(|pod| self.plain("pod", &pod["metadata"]["name"])).collect();
        for kind in [Kind::Service, Kind::Deployment] {
            all.extend(
                self.children(kind).await.iter().map(|child| self.plain(kind.name(), &child["metadata"]["name"])),
            );
        }
        all.sort();
        self.seen.push(format!(
            "{}/{} ready {} of {} with {}",
            status["phase"],
            status["state"],
            status["ready"],
            status["active"]["incarnation"],
            all.join(", ")
        ));
    }

    /// A name without what is only this object's.
    fn plain(&self, kind: &str, name: &Value) -> String {
        let name = name.as_str().expect("a name").replace(&self.key.name, "NAME");
        let is_hash = |part: &str| part.len() == 8 && part.bytes().all(|byte| byte.is_ascii_hexdigit());
        let name: Vec<&str> = name.split('-').map(|part| if is_hash(part) { "HASH" } else { part }).collect();
        format!("{kind} {}", name.join("-"))
    }

    /// One step of whatever runs in the cluster. True where there was one.
    async fn play(&self) -> bool {
        if let Some(double) = &self.server.double {
            let before = double.revision();
            double.jobs().settle();
            return double.revision() != before;
        }
        let mut played = false;
        for pod in self.children(Kind::Pod).await {
            played |= self.play_pod(&pod).await;
        }
        for deployment in self.children(Kind::Deployment).await {
            played |= self.play_deployment(&deployment).await;
        }
        played
    }

    async fn play_pod(&self, pod: &Value) -> bool {
        let name = pod["metadata"]["name"].as_str().expect("a name");
        let path = format!("/api/v1/namespaces/{}/pods/{name}", self.key.namespace);
        if !pod["metadata"]["deletionTimestamp"].is_null() {
            return self.server.send("DELETE", &path, &json!({"gracePeriodSeconds": 0})).await;
        }
        if pod["spec"]["nodeName"].is_null() {
            let target = json!({"apiVersion": "v1", "kind": "Node", "name": "node-0"});
            let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target});
            return self.server.send("POST", &format!("{path}/binding"), &binding).await;
        }
        if pod["status"]["phase"] == "Running" {
            return false;
        }
        let now = self.clock.now().whole_seconds().to_string();
        let condition = |kind: &str| json!({"type": kind, "status": "True", "lastTransitionTime": now});
        let container = json!({"name": "performer", "image": pod["spec"]["containers"][0]["image"], "imageID": "",
            "ready": true, "started": true, "restartCount": 0, "state": {"running": {"startedAt": now}}});
        let conditions = ["PodScheduled", "Initialized", "ContainersReady", "Ready"].map(condition);
        let status =
            json!({"phase": "Running", "startTime": now, "conditions": conditions, "containerStatuses": [container]});
        self.server.send("PATCH", &format!("{path}/status"), &json!({ "status": status })).await
    }

    async fn play_deployment(&self, deployment: &Value) -> bool {
        let (meta, spec) = (&deployment["metadata"], &deployment["spec"]);
        let name = meta["name"].as_str().expect("a name");
        let path = format!("/apis/apps/v1/namespaces/{}/deployments/{name}", self.key.namespace);
        if !meta["deletionTimestamp"].is_null() {
            // The collector, which waits for those that depend on it.
            return self.server.send("PATCH", &path, &json!({"metadata": {"finalizers": null}})).await;
        }
        if deployment["status"]["observedGeneration"] == meta["generation"] {
            return false;
        }
        let now = self.clock.now().whole_seconds().to_string();
        let condition = |kind: &str, reason: &str| {
            json!({"type": kind, "status": "True", "reason": reason, "message": "",
            "lastTransitionTime": now, "lastUpdateTime": now})
        };
        let conditions =
            [condition("Available", "MinimumReplicasAvailable"), condition("Progressing", "NewReplicaSetAvailable")];
        let replicas = &spec["replicas"];
        let status = json!({"observedGeneration": meta["generation"], "replicas": replicas, "updatedReplicas": replicas,
            "readyReplicas": replicas, "availableReplicas": replicas, "conditions": conditions});
        self.server.send("PATCH", &format!("{path}/status"), &json!({ "status": status })).await
    }

    /// What is written in the ten minutes that come next.
    async fn ten_minutes(&mut self) -> Vec<String> {
        let before = self.api.plan().sent.len();
        for _ in 0..10 {
            self.clock.set(self.clock.now().plus(Duration::from_secs(60)));
            let _ = self.controller.reconcile(&self.key).await;
            self.play().await;
        }
        self.api.plan().sent.split_off(before)
    }

    /// A whole life: made, changed, deleted.
    async fn live(&mut self, change: &Value) {
        let runs = |object: &Value, _: &[Value]| {
            object["status"]["phase"] == "Running"
                && object["status"]["observedGeneration"] == object["metadata"]["generation"]
        };
        self.until("the first Running", runs).await;
        let one_each = |object: &Value, pods: &[Value]| {
            let most = object["spec"]["replicas"].as_u64().unwrap_or(1);
            runs(object, pods) && pods.len() as u64 <= most
        };
        self.change(change).await;
        self.until("the second Running", one_each).await;
        // With nothing to do, nothing is written.
        let before = self.api.plan().writes;
        for _ in 0..2 {
            let _ = self.controller.reconcile(&self.key).await;
        }
        let after = self.api.plan().writes;
        assert_eq!(after, before, "a pass with nothing to do writes something");
        self.delete().await;
        self.until("the end", |object, _| object.is_null()).await;
        for kind in CHILDREN {
            let left: Vec<Value> = self.children(kind).await;
            let left: Vec<&Value> =
                left.iter().filter(|child| child["metadata"]["deletionTimestamp"].is_null()).collect();
            assert!(left.is_empty(), "{} is left: {left:?}", kind.name());
        }
        let created = self.api.plan().created.clone();
        let distinct: BTreeSet<&String> = created.iter().collect();
        assert_eq!(distinct.len(), created.len(), "something was created twice: {created:?}");
        let mut plain: Vec<String> = created.iter().map(|made| self.plain("made", &json!(made))).collect();
        plain.sort();
        self.seen.push(plain.join("\n"));
    }
}

/// Every write of a life may be the last of a controller, or go unanswered.
async fn every_write<R: Reconciler>(server: &Server, spec: &Value, change: &Value) -> usize {
    // The account that executors share is made by the first of them, and stays.
    let mut first: TestEnv<'_, R> = TestEnv::new(server, "first", spec, Plan::default()).await;
    first.live(change).await;
    let mut clean: TestEnv<'_, R> = TestEnv::new(server, "clean", spec, Plan::default()).await;
    clean.live(change).await;
    let writes = clean.api.plan().writes;
    assert!(writes > 15, "{writes} writes: {:?}", clean.seen);
    // The double is gone through elsewhere, write by write; and it has one clock for all.
    let (every, at_once) = if server.double.is_some() { (14, 1) } else { (4, 8) };
    let faults = [What::DieBefore, What::DieAfter, What::LoseAnswer];
    let all = writes * faults.len();
    let lives = orlop_core::sample!(all, all.div_ceil(every)).into_iter().map(|number| {
        let (at, what) = (number / faults.len(), faults[number % faults.len()]);
        let (plan, want) = (Plan { at: Some((at, what)), ..Plan::default() }, &clean.seen);
        async move {
            let mut env: TestEnv<'_, R> = TestEnv::new(server, &format!("p{number}"), spec, plan).await;
            env.live(change).await;
            assert_eq!(&env.seen, want, "{what:?} at write {at}");
        }
    });
    futures::stream::iter(lives).buffer_unordered(at_once).count().await
}

#[tokio::test]
async fn a_crash_at_any_write_to_a_real_server_changes_nothing_and_makes_nothing_twice() {
    let real = conformance::real().await;
    conformance::announce(real.as_ref());
    let server = Server::new(real).await;
    if server.double.is_none() && conformance::has_controllers(&server.kube, &server.namespace).await {
        println!(
            "skipped: a crash at any write of performers: controllers and a scheduler run there, and this test is both"
        );
        return;
    }
    let upgrade = json!({"minReadySeconds": 0, "drainSeconds": 1});
    let performer = json!({"avsAddress": ADDRESS, "image": "one:1", "upgrade": upgrade});
    let of_performers = every_write::<Performers>(&server, &performer, &json!({"image": "two:2"})).await;
    let chain = json!({"name": "one", "rpc": "https://c.example", "chainId": 1, "taskMailboxAddress": ADDRESS});
    let executor = json!({"image": "e:1", "replicas": 2,
        "config": {"aggregatorEndpoint": "a:1", "operatorKeys": {"k": "KEY"}, "chains": [chain]}});
    let of_executors = every_write::<Executors>(&server, &executor, &json!({"config": {"logLevel": "debug"}})).await;
    println!("{of_performers} crashes in lives of performers, {of_executors} in those of executors");
}

/// What a policy of the cluster makes of objects of a kind.
struct Policy {
    group: &'static str,
    resource: &'static str,
    /// In the language of policies.
    patch: &'static str,
}

const POLICIES: [Policy; 5] = [
    Policy {
        group: "apps",
        resource: "deployments",
        patch: r#"JSONPatch{op: "add", path: "/spec/minReadySeconds", value: 7},
            JSONPatch{op: "add", path: "/spec/template/spec/containers/0/imagePullPolicy", value: "Always"}"#,
    },
    Policy {
        group: "",
        resource: "pods",
        patch: r#"JSONPatch{op: "add", path: "/spec/containers/0/imagePullPolicy", value: "Always"}"#,
    },
    Policy {
        group: "",
        resource: "services",
        patch: r#"JSONPatch{op: "add", path: "/spec/ports/0/name", value: "their-name"}"#,
    },
    Policy {
        group: "",
        resource: "secrets",
        patch: r#"JSONPatch{op: "add", path: "/metadata/annotations", value: {"theirs": "here"}}"#,
    },
    Policy {
        group: "",
        resource: "configmaps",
        patch: r#"JSONPatch{op: "add", path: "/metadata/annotations", value: {"theirs": "here"}}"#,
    },
];

const ADMISSION: &str = "/apis/admissionregistration.k8s.io/v1";

impl Server {
    /// Policies of this namespace. False where the server knows none.
    async fn admit_by_policies(&self) -> bool {
        for Policy { group, resource, patch } in POLICIES {
            let name = format!("{}-{resource}", self.namespace);
            let rule = json!({"apiGroups": [group], "apiVersions": ["*"], "operations": ["CREATE", "UPDATE"], "resources": [resource]});
            let place = json!({"matchLabels": {"kubernetes.io/metadata.name": self.namespace}});
            let policy = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingAdmissionPolicy",
                "metadata": {"name": name}, "spec": {"failurePolicy": "Fail", "reinvocationPolicy": "Never",
                "matchConstraints": {"resourceRules": [rule], "namespaceSelector": place},
                "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": format!("[{patch}]")}}]}});
            let binding = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingAdmissionPolicyBinding",
                "metadata": {"name": name}, "spec": {"policyName": name}});
            let made = self.send("POST", &format!("{ADMISSION}/mutatingadmissionpolicies"), &policy).await
                && self.send("POST", &format!("{ADMISSION}/mutatingadmissionpolicybindings"), &binding).await;
            if !made {
                return false;
            }
        }
        true
    }

    async fn remove_policies(&self) {
        for Policy { resource, .. } in POLICIES {
            for kind in ["mutatingadmissionpolicybindings", "mutatingadmissionpolicies"] {
                self.send("DELETE", &format!("{ADMISSION}/{kind}/{}-{resource}", self.namespace), &json!({})).await;
            }
        }
    }

    /// Waits until the last of them is heeded: a server learns of policies by a watch of its own.
    async fn wait_for_policies(&self) {
        let path = format!("/api/v1/namespaces/{}/configmaps?dryRun=All", self.namespace);
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "tried"}}).to_string();
        for _ in 0..300 {
            let request = HttpRequest::builder().method("POST").uri(&path).header("content-type", "application/json");
            let request = request.body(map.clone().into_bytes()).expect("a request");
            let seen = self.kube.request::<Value>(request).await.unwrap_or_default();
            if seen["metadata"]["annotations"]["theirs"] == "here" {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("policies are not heeded");
    }
}

/// An object whose children policies change comes to rest, also under a controller that takes over.
async fn rests<R: Reconciler>(server: &Server, spec: &Value) {
    let mut env: TestEnv<'_, R> = TestEnv::new(server, "admitted", spec, Plan::default()).await;
    env.until("Running", |object, _| object["status"]["phase"] == "Running").await;
    let rested = env.ten_minutes().await;
    assert!(rested.is_empty(), "{}: {rested:?}", R::KIND.name());
    // One that takes over asks once what admission makes of each child.
    env.controller = controller(&env.api, &env.clock);
    let mut asked = env.ten_minutes().await;
    asked.retain(|sent| CHILDREN.iter().any(|kind| sent.contains(kind.plural())));
    let distinct: BTreeSet<&String> = asked.iter().collect();
    assert_eq!(distinct.len(), asked.len(), "{}: {asked:?}", R::KIND.name());
    let rested = env.ten_minutes().await;
    assert!(rested.is_empty(), "{}: {rested:?}", R::KIND.name());
    env.delete().await;
    env.until("the end", |object, _| object.is_null()).await;
}

#[tokio::test]
async fn children_that_policies_of_a_real_server_change_are_not_written_again_and_again() {
    let real = conformance::real().await;
    conformance::announce(real.as_ref());
    if real.is_none() {
        return;
    }
    let server = Server::new(real).await;
    if conformance::has_controllers(&server.kube, &server.namespace).await {
        println!("skipped: policies and children: controllers and a scheduler run there, and this test is both");
        return;
    }
    if !server.admit_by_policies().await {
        println!("skipped: policies and children: this server has no MutatingAdmissionPolicy");
        return server.remove_policies().await;
    }
    server.wait_for_policies().await;
    let upgrade = json!({"minReadySeconds": 0, "drainSeconds": 1});
    rests::<Performers>(&server, &json!({"avsAddress": ADDRESS, "image": "one:1", "upgrade": upgrade})).await;
    let chain = json!({"name": "one", "rpc": "https://c.example", "chainId": 1, "taskMailboxAddress": ADDRESS});
    let executor = json!({"image": "e:1", "replicas": 2,
        "config": {"aggregatorEndpoint": "a:1", "operatorKeys": {"k": "KEY"}, "chains": [chain]}});
    rests::<Executors>(&server, &executor).await;
    server.remove_policies().await;
}
