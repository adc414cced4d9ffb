//! The program over HTTP to the API server double, whose own scheduler, kubelets and controllers work in real time. Owns the
//! cluster around it: definitions and roles as they ship, nodes, people.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use orlop::host::flow::SystemClock;
use orlop::k8s::shell::Clock as _;
use orlop::k8s::testing::ApiServer;
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use super::super::http;
use super::super::program::Program;

const GROUP: &str = "hourglass.eigenlayer.io";
/// Whom the program is to the server: the account that ships, with its rights and no others.
pub(super) const ACCOUNT: &str = "system:serviceaccount:orlop-system:orlop-operator";

/// Rights in the whole cluster, as they ship.
const EVERYWHERE: &[&str] = &["kustomize/base/cluster-role.yaml", "kustomize/base/role.yaml"];

fn definitions() -> Vec<Value> {
    orlop::k8s::crd::all().into_iter().map(|(_, definition)| definition).collect()
}

fn plural_of(definition: &Value) -> &str {
    definition["spec"]["names"]["plural"].as_str().unwrap()
}

pub(super) struct Fixture {
    pub(super) server: ApiServer,
    pub(super) dir: tempfile::TempDir,
    pub(super) kubeconfig: PathBuf,
    runtime: Arc<Runtime>,
}

fn deploy(part: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy").join(part)
}

/// The documents of a file that ships.
fn documents(part: &str) -> Vec<Value> {
    let path = deploy(part);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_saphyr::from_multiple(&text).unwrap()
}

/// An object of `deploy/examples`.
pub(super) fn example(name: &str) -> Value {
    documents(&format!("examples/{name}.yaml")).remove(0)
}

/// A performer that does not keep anybody waiting.
pub(super) fn quick(name: &str) -> Value {
    let mut performer = example("performer-minimal");
    performer["metadata"]["name"] = json!(name);
    performer["spec"]["upgrade"] = json!({"minReadySeconds": 0, "drainSeconds": 1});
    performer
}

/// A ready node with amounts beyond the usual ones.
pub(super) fn node(name: &str, labels: Value, amounts: Value) -> Value {
    let mut allocatable = json!({"cpu": "32", "memory": "256Gi", "pods": "110"});
    amounts.as_object().unwrap().iter().for_each(|(name, amount)| allocatable[name] = amount.clone());
    let mut labels = labels;
    labels["kubernetes.io/arch"] = json!("amd64");
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}, "status": {
        "allocatable": allocatable, "conditions": [{"type": "Ready", "status": "True"}]}})
}

impl Fixture {
    /// A cluster with everything that ships in it, and one node without anything special.
    pub(super) fn new(roles: &[&str]) -> Self {
        Self::with(roles, |_| true)
    }

    /// The same for the whole cluster, but for the definition of a kind.
    pub(super) fn without(plural: &str) -> Self {
        Self::with(EVERYWHERE, |known| known != plural)
    }

    fn with(roles: &[&str], defined: impl Fn(&str) -> bool) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let dir = tempfile::tempdir().unwrap();
        let server = ApiServer::new();
        let address = runtime.block_on(async {
            let behind = SystemClock.now().since(orlop::core::time::Time::from_millis(server.clock().now()));
            server.clock().advance(behind);
            server.clock().follow_tokio();
            http::serve(server.client_as(ACCOUNT)).await
        });
        server.record_all_managers();
        server.namespace("orlop-system");
        definitions().iter().filter(|known| defined(plural_of(known))).for_each(|known| server.install(known).unwrap());
        for document in roles.iter().flat_map(|part| documents(part)) {
            let plural = format!("{}s", document["kind"].as_str().unwrap().to_lowercase());
            let namespace = document["metadata"]["namespace"].as_str().unwrap_or_default().to_owned();
            server.create("rbac.authorization.k8s.io", &plural, &namespace, &document).unwrap();
        }
        let kubeconfig = http::kubeconfig(dir.path(), &address);
        let cluster = server.jobs();
        runtime.spawn(async move { cluster.run().await });
        let fixture = Self { server, dir, kubeconfig, runtime: Arc::new(runtime) };
        fixture.create("", "nodes", "", &super::machines::plain());
        fixture
    }

    /// The same, in the whole cluster.
    pub(super) fn everywhere() -> Self {
        Self::new(EVERYWHERE)
    }

    /// Somebody installs the definition of a kind.
    pub(super) fn install(&self, plural: &str) {
        definitions()
            .iter()
            .filter(|known| plural_of(known) == plural)
            .for_each(|known| self.server.install(known).unwrap());
    }

    /// The way to the server as another account, in a folder of its own.
    pub(super) fn kubeconfig_of(&self, account: &str) -> PathBuf {
        let dir = self.dir.path().join(account.replace(':', "-"));
        std::fs::create_dir(&dir).unwrap();
        http::kubeconfig(&dir, &self.runtime.block_on(async { http::serve(self.server.client_as(account)).await }))
    }

    /// The program as a process, in an election.
    pub(super) fn start(&self, name: &str, arguments: &[&str]) -> Program {
        let mut all = vec!["--lease-namespace=orlop-system"];
        all.extend(arguments);
        Program::start(self.dir.path(), name, &self.kubeconfig, &all)
    }

    pub(super) fn create(&self, group: &str, plural: &str, namespace: &str, object: &Value) {
        self.server.create(group, plural, namespace, object).unwrap_or_else(|error| panic!("{object}: {error}"));
    }

    /// Somebody submits an object of ours.
    pub(super) fn submit(&self, object: &Value) {
        self.create(GROUP, plural(object["kind"].as_str().unwrap()), "default", object);
    }

    /// How many there are to be, as an autoscaler reads it.
    pub(super) fn scale(&self, name: &str) -> Value {
        self.request("GET", &format!("{}/scale", Self::path("HourglassExecutor", name)), &json!({}))
    }

    fn request(&self, method: &str, path: &str, body: &Value) -> Value {
        let request = axum::http::Request::builder().method(method).uri(path);
        let request = request.header("content-type", "application/merge-patch+json");
        let request = request.body(body.to_string().into_bytes()).unwrap();
        let client = self.runtime.block_on(async { self.server.client_named("user") });
        let answer = self.runtime.block_on(client.request::<Value>(request));
        answer.unwrap_or_else(|error| panic!("{method} {path}: {error}"))
    }

    fn path(kind: &str, name: &str) -> String {
        format!("/apis/{GROUP}/v1alpha1/namespaces/default/{}/{name}", plural(kind))
    }

    /// Somebody changes an object of ours, or one of its subresources.
    pub(super) fn patch(&self, kind: &str, name: &str, patch: &Value) {
        self.request("PATCH", &Self::path(kind, name), patch);
    }

    /// Somebody deletes it.
    pub(super) fn delete(&self, kind: &str, name: &str) {
        self.request("DELETE", &Self::path(kind, name), &json!({}));
    }

    pub(super) fn status(&self, kind: &str, name: &str) -> Value {
        let found = self.server.look(&format!("{}.{GROUP}", plural(kind)), "default", name).unwrap_or_default();
        found["status"].clone()
    }

    pub(super) fn is_there(&self, kind: &str, name: &str) -> bool {
        self.server.look(&format!("{}.{GROUP}", plural(kind)), "default", name).is_some()
    }

    /// Status and reason of a condition.
    pub(super) fn condition(&self, kind: &str, name: &str, condition: &str) -> String {
        let status = self.status(kind, name);
        let all = status["conditions"].as_array().cloned().unwrap_or_default();
        let found = all.iter().find(|known| known["type"] == condition).cloned().unwrap_or_default();
        format!("{}/{}", found["status"].as_str().unwrap_or("-"), found["reason"].as_str().unwrap_or("-"))
    }

    /// Waits for a phase.
    pub(super) fn comes_to(&self, kind: &str, name: &str, phase: &str) {
        self.waits(&format!("{kind} {name} in {phase}"), || {
            let status = self.status(kind, name);
            status["phase"] == phase && status["observedGeneration"] == self.generation(kind, name)
        });
    }

    pub(super) fn generation(&self, kind: &str, name: &str) -> Value {
        let found = self.server.look(&format!("{}.{GROUP}", plural(kind)), "default", name).unwrap_or_default();
        found["metadata"]["generation"].clone()
    }

    /// Waits for something to come true, and tells how everything stands where it does not.
    pub(super) fn waits(&self, what: &str, mut holds: impl FnMut() -> bool) {
        let began = std::time::Instant::now();
        while !holds() {
            if began.elapsed() > Duration::from_secs(60) {
                for resource in
                    [format!("performers.{GROUP}"), format!("hourglassexecutors.{GROUP}"), "pods".to_owned()]
                {
                    for object in self.server.look_all(&resource) {
                        println!("{resource} {}: {}", object["metadata"]["name"], object["status"]);
                    }
                }
                panic!("{what} does not come");
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Names of objects.
    pub(super) fn names(&self, resource: &str) -> Vec<String> {
        let all = self.server.look_all(resource);
        all.iter().map(|object| object["metadata"]["name"].as_str().unwrap().to_owned()).collect()
    }

    /// Requests of the program that its rights do not cover.
    pub(super) fn denied(&self) -> Vec<String> {
        self.denied_to(ACCOUNT)
    }

    /// Requests of an account that its rights do not cover.
    pub(super) fn denied_to(&self, account: &str) -> Vec<String> {
        let all = self.server.requests().into_iter();
        all.filter(|request| request.client == account && request.code == 403)
            .map(|request| format!("{request:?}"))
            .collect()
    }
}

fn plural(kind: &str) -> &'static str {
    match kind {
        "Performer" => "performers",
        "HourglassExecutor" => "hourglassexecutors",
        other => panic!("{other}"),
    }
}
