//! A controller and a server with its own controllers. Owns the order of things: watches deliver, the controller passes, the
//! cluster settles, the clock moves to what is due.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use orlop_core::time::Time;
use orlop_k8s::admission::Settings;
use orlop_k8s::api::Client;
use orlop_k8s::flow::{Clock, Controller, Key, Options};
use orlop_k8s::testing::{ApiServer, Write, flow_reviewer};
use serde_json::{Value, json};

/// Where flows and Jobs are.
const FLOWS: &str = "jobflows.workflow.kube-zen.io";
const JOBS: &str = "jobs.batch";

struct ServerClock(ApiServer);

impl Clock for ServerClock {
    fn now(&self) -> Time {
        Time::from_millis(self.0.clock().now())
    }
}

/// How many changes of each kind a controller has not heard of yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Age {
    pub(super) flows: usize,
    pub(super) jobs: usize,
}

pub(super) struct TestEnv {
    pub(super) server: ApiServer,
    /// Whether nobody takes over where the controller dies.
    pub(super) stays_down: bool,
    /// What is due later than after that much time does not happen; without it everything does.
    pub(super) patience: Option<Duration>,
    user: Option<String>,
    options: Options,
    controller: Controller<Client>,
    queue: BTreeSet<Key>,
    due: BTreeMap<Key, Time>,
    flows: BTreeMap<String, Value>,
    jobs: BTreeMap<String, Value>,
    /// The server's version when watches were asked last.
    reported: Option<u64>,
}

impl TestEnv {
    pub(super) fn new() -> Self {
        Self::on(Self::template(), None, Options::default())
    }

    /// A server of its own that knows flows and asks the operator about each, as the configurations that ship have it.
    pub(super) fn template() -> ApiServer {
        static TEMPLATE: OnceLock<ApiServer> = OnceLock::new();
        let furnish = || {
            let server = ApiServer::new();
            install(&server);
            ask_about_flows(&server);
            server
        };
        TEMPLATE.get_or_init(furnish).fork()
    }

    pub(super) fn of(server: ApiServer, user: Option<&str>) -> Self {
        let env = Self::with(server, user, Options::default());
        ask_about_flows(&env.server);
        env
    }

    /// A controller with its own options, on a server that asks nobody about flows.
    pub(super) fn with(server: ApiServer, user: Option<&str>, options: Options) -> Self {
        install(&server);
        Self::on(server, user, options)
    }

    /// The same on a server that knows flows.
    pub(super) fn on(server: ApiServer, user: Option<&str>, options: Options) -> Self {
        let controller = controller(&server, user, &options);
        let user = user.map(str::to_owned);
        let (queue, due, flows, jobs, reported) = Default::default();
        Self { server, stays_down: false, patience: None, user, options, controller, queue, due, flows, jobs, reported }
    }

    pub(super) fn submit(&self, name: &str, spec: Value) {
        submit(&self.server, name, spec);
    }

    pub(super) fn client_name(&self) -> &str {
        self.user.as_deref().unwrap_or("admin")
    }

    /// A request of somebody who may do everything, about objects of the namespace `default`. The path begins after it.
    pub(super) async fn ask(&self, method: &str, root: &str, path: &str, body: &Value) -> Result<Value, String> {
        let kind = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
        let request = http::Request::builder().method(method).uri(format!("/{root}/namespaces/default/{path}"));
        let request = request.header("content-type", kind).body(body.to_string().into_bytes()).expect("a request");
        self.server.client_named("user").request::<Value>(request).await.map_err(|error| error.to_string())
    }

    /// The same about flows; without a name, about their list.
    pub(super) async fn ask_of_flows(&self, method: &str, name: &str, body: &Value) -> Result<Value, String> {
        let path = if name.is_empty() { "jobflows".to_owned() } else { format!("jobflows/{name}") };
        self.ask(method, "apis/workflow.kube-zen.io/v1alpha1", &path, body).await
    }

    /// What watches tell: what is new, what changed, what is gone.
    pub(super) fn deliver(&mut self) {
        let newest = Some(self.server.revision());
        if std::mem::replace(&mut self.reported, newest) == newest {
            return;
        }
        let (flows, jobs) = (by_name(self.server.look_all(FLOWS)), by_name(self.server.look_all(JOBS)));
        for (name, object) in &self.flows {
            if flows.get(name).is_none_or(|now| now["metadata"]["uid"] != object["metadata"]["uid"]) {
                self.queue.extend(self.controller.flow_deleted(object));
            }
        }
        for (name, object) in &self.jobs {
            if !jobs.contains_key(name) {
                self.queue.extend(self.controller.job_deleted(object));
            }
        }
        let fresh = |known: &BTreeMap<String, Value>, now: &BTreeMap<String, Value>| -> Vec<Value> {
            let version = |object: &Value| object["metadata"]["resourceVersion"].clone();
            let is_new = |(name, object): &(&String, &Value)| known.get(*name).map(version) != Some(version(object));
            now.iter().filter(is_new).map(|(_, object)| object.clone()).collect()
        };
        for object in fresh(&self.flows, &flows) {
            self.queue.extend(self.controller.flow_applied(&object));
        }
        for object in fresh(&self.jobs, &jobs) {
            self.queue.extend(self.controller.job_applied(&object));
        }
        (self.flows, self.jobs) = (flows, jobs);
    }

    /// A controller with other options takes over.
    pub(super) async fn restart_with(&mut self, options: Options) {
        self.options = options;
        self.restart().await;
    }

    /// Another controller takes over, which sees all there is.
    pub(super) async fn restart(&mut self) {
        self.server.faults().restart(self.client_name());
        self.controller = controller(&self.server, self.user.as_deref(), &self.options);
        (self.queue, self.due) = Default::default();
        self.begin(Age::default()).await;
    }

    /// What the controller sees first; where that is the past, its first looks are at the past.
    pub(super) async fn begin(&mut self, age: Age) {
        let past = |resource: &str, changes: usize| by_name(self.server.look_back(resource, changes));
        (self.flows, self.jobs, self.reported) = (past(FLOWS, age.flows), past(JOBS, age.jobs), None);
        for object in self.flows.values() {
            self.queue.extend(self.controller.flow_applied(object));
        }
        for object in self.jobs.values() {
            self.queue.extend(self.controller.job_applied(object));
        }
        self.queue.extend(self.controller.prime());
        if age != Age::default() {
            for _ in 0..self.queue.len() {
                self.pass().await;
            }
        }
    }

    /// Whether the controller has died, and nobody has taken over.
    pub(super) fn is_down(&self) -> bool {
        self.server.faults().is_stopped(self.client_name())
    }

    /// One pass over the next flow, if there is one to look at.
    pub(super) async fn pass(&mut self) -> bool {
        if self.is_down() {
            return false;
        }
        let Some(key) = self.queue.pop_first() else { return false };
        let next = self.controller.reconcile(&key).await;
        self.queue.extend(self.controller.finish_background().await);
        self.queue.extend(next.wake);
        let now = Time::from_millis(self.server.clock().now());
        match next.again_at {
            Some(at) if at <= now => drop(self.queue.insert(key)),
            Some(at) => drop(self.due.insert(key, at)),
            None => drop(self.due.remove(&key)),
        }
        if self.is_down() && !self.stays_down {
            Box::pin(self.restart()).await;
        }
        true
    }

    /// Passes until there is nothing to do now.
    pub(super) async fn settle(&mut self) {
        for _ in 0..2_000 {
            self.deliver();
            if !self.pass().await && (self.is_down() || self.server.jobs().settle() == 0) {
                return;
            }
        }
        panic!("the controller does not come to rest");
    }

    /// Lets time go by, with all that happens meanwhile.
    pub(super) async fn pass_time(&mut self, time: Duration) {
        self.settle().await;
        self.server.clock().advance(time);
        self.wake_due();
        self.settle().await;
    }

    /// Flows whose time has come are looked at.
    fn wake_due(&mut self) {
        let now = Time::from_millis(self.server.clock().now());
        let woken: Vec<Key> = self.due.iter().filter(|(_, at)| **at <= now).map(|(key, _)| key.clone()).collect();
        self.due.retain(|_, at| *at > now);
        self.queue.extend(woken);
    }

    /// Everything that happens until all flows are over or wait for people, or for longer than patience lasts, or the controller
    /// has died for good.
    pub(super) async fn run(&mut self) {
        loop {
            self.settle().await;
            if self.is_down() {
                return;
            }
            let now = Time::from_millis(self.server.clock().now());
            let due = self.due.iter().filter(|(key, _)| !self.is_over(&key.name)).map(|(_, at)| *at);
            let cluster = self.server.jobs().next_due().map(Time::from_millis);
            let Some(at) = due.chain(cluster).min() else { return };
            if self.patience.is_some_and(|patience| at > now.plus(patience)) {
                return;
            }
            self.server.clock().advance(at.since(now).max(Duration::from_millis(1)));
            self.wake_due();
        }
    }

    pub(super) fn status(&self, flow: &str) -> Value {
        self.server.look(FLOWS, "default", flow).expect("the flow is there")["status"].clone()
    }

    pub(super) fn is_over(&self, flow: &str) -> bool {
        let phase = self.server.look(FLOWS, "default", flow).map(|flow| flow["status"]["phase"].clone());
        phase.is_none_or(|phase| phase == "Succeeded" || phase == "Failed")
    }

    /// How steps came out: name, phase, reason, attempt, outputs.
    pub(super) fn outcome(&self, flow: &str) -> String {
        let status = self.status(flow);
        let word = |value: &Value| value.as_str().unwrap_or("-").to_owned();
        let mut lines = vec![format!("{} {}", word(&status["phase"]), word(&status["progress"]["summary"]))];
        for step in status["steps"].as_array().into_iter().flatten() {
            let outputs = &step["outputs"]["parameters"];
            let outputs = if outputs.is_null() { String::new() } else { format!(" {outputs}") };
            let (name, phase, reason) = (word(&step["name"]), word(&step["phase"]), word(&step["reason"]));
            lines.push(format!("{name} {phase}/{reason} {}{outputs}", step["attempt"]));
        }
        lines.join("\n")
    }

    /// Writes of the controller that changed something, or tried to.
    pub(super) fn writes(&self) -> Vec<Write> {
        self.server.writes().into_iter().filter(|write| write.client == self.client_name()).collect()
    }

    pub(super) fn jobs(&self) -> Vec<Value> {
        self.server.look_all(JOBS)
    }

    /// No attempt had two Jobs: none was created twice.
    pub(super) fn check_jobs_once(&self) {
        let created: Vec<String> = self
            .writes()
            .into_iter()
            .filter(|write| write.resource == JOBS && write.verb.as_str() == "create" && write.code == 201)
            .map(|write| write.name)
            .collect();
        let distinct: BTreeSet<&String> = created.iter().collect();
        assert_eq!(distinct.len(), created.len(), "{created:?}");
    }
}

pub(super) fn submit(server: &ApiServer, name: &str, spec: Value) {
    let object = json!({"apiVersion": "workflow.kube-zen.io/v1alpha1", "kind": "JobFlow", "metadata": {"name": name}, "spec": spec});
    server.create("workflow.kube-zen.io", "jobflows", "default", &object).expect("the server takes the flow");
}

fn install(server: &ApiServer) {
    server.install(&orlop_k8s::crd::job_flow()).expect("the server takes the definition");
}

fn by_name(objects: Vec<Value>) -> BTreeMap<String, Value> {
    let named = |object: Value| (object["metadata"]["name"].as_str().expect("a name").to_owned(), object);
    objects.into_iter().map(named).collect()
}

/// The server asks the operator about every flow, as the configurations that ship have it.
pub(super) fn ask_about_flows(server: &ApiServer) {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/kustomize/webhook/configurations.yaml");
    let text = std::fs::read_to_string(path).expect("configurations");
    let reviewer = flow_reviewer(Settings::default());
    for part in text.split("\n---\n") {
        let configuration: Value = serde_saphyr::from_str(part).expect("a document");
        server.webhooks(&configuration, &reviewer).expect("the server takes the configuration");
    }
}

fn controller(server: &ApiServer, user: Option<&str>, options: &Options) -> Controller<Client> {
    let client = user.map_or_else(|| server.client(), |user| server.client_as(user));
    Controller::new(Client::new(client), Arc::new(ServerClock(server.clone())), options.clone())
}

/// A step whose pods do what annotations say.
pub(super) fn step(name: &str, after: &[&str], plays: Value) -> Value {
    json!({"name": name, "dependencies": after, "template": {"apiVersion": "batch/v1", "kind": "Job", "spec": {"backoffLimit": 0,
        "template": {"metadata": {"annotations": plays}, "spec": {"restartPolicy": "Never",
            "containers": [{"name": "main", "image": "busybox", "command": ["true"]}]}}}}})
}
