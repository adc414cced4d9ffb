//! The controller dies at writes to a real API server, that of `ORLOP_TEST_KUBECONFIG` (the double stands in for it where
//! there is none). Nobody works there but this test: it ends Jobs by their status, and owns the clock of the controller.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::batch::v1::Job;
use kube::api::{Patch, PatchParams};
use orlop_core::time::Time;
use orlop_k8s::api::{Api, Kind, Request};
use orlop_k8s::flow::{Clock, Controller, Key, Options};
use orlop_k8s::testing::ApiServer;
use serde_json::{Value, json};

use super::test_env::step;
use crate::conformance;
use crate::failing::{Failing, Plan, Watch, What};

/// What a flow and its Jobs looked like.
type Look = (Value, BTreeMap<String, Value>);

struct TestEnv {
    kube: kube::Client,
    api: Failing,
    clock: Arc<Watch>,
    namespace: String,
    flow: String,
    controller: Controller<Failing>,
    queue: BTreeSet<Key>,
    due: BTreeMap<Key, Time>,
    past: Vec<Look>,
    /// How many looks behind the next controller is at first.
    behind: usize,
}

impl TestEnv {
    async fn new(kube: &kube::Client, namespace: &str, flow: &str, spec: &Value, plan: Plan, behind: usize) -> Self {
        let api = Failing::new(kube, plan);
        let object = json!({"apiVersion": "workflow.kube-zen.io/v1alpha1", "kind": "JobFlow",
            "metadata": {"name": flow, "namespace": namespace}, "spec": spec});
        api.client.send(&Request::create(Kind::JobFlow, object)).await.expect("the server takes the flow");
        let clock = Arc::new(Watch::at_present());
        let controller = Controller::new(api.clone(), Arc::clone(&clock) as Arc<dyn Clock>, Options::default());
        let (queue, due, past) = Default::default();
        let (namespace, flow) = (namespace.to_owned(), flow.to_owned());
        Self { kube: kube.clone(), api, clock, namespace, flow, controller, queue, due, past, behind }
    }

    async fn look(&self) -> Look {
        let client = &self.api.client;
        let flow = client.send(&Request::get(Kind::JobFlow, &self.namespace, &self.flow)).await.expect("the flow");
        let uid = flow["metadata"]["uid"].as_str().expect("a uid");
        let labels = format!("workflow.kube-zen.io/flow-uid={uid}");
        let list = client.send(&Request::list(Kind::Job, &self.namespace, labels)).await.expect("its Jobs");
        let jobs = list["items"].as_array().cloned().unwrap_or_default().into_iter().map(|mut job| {
            // Items of a list do not say what they are.
            (job["apiVersion"], job["kind"]) = (json!("batch/v1"), json!("Job"));
            (job["metadata"]["name"].as_str().expect("a name").to_owned(), job)
        });
        (flow, jobs.collect())
    }

    /// Shows a look to the controller, after another one that it knows.
    fn show(&mut self, (flow, jobs): &Look, before: Option<&Look>) {
        self.queue.extend(self.controller.flow_applied(flow));
        for (name, job) in before.iter().flat_map(|(_, jobs)| jobs) {
            if !jobs.contains_key(name) {
                self.queue.extend(self.controller.job_deleted(job));
            }
        }
        for job in jobs.values() {
            self.queue.extend(self.controller.job_applied(job));
        }
    }

    async fn deliver(&mut self) {
        let look = self.look().await;
        if self.past.last() != Some(&look) {
            let before = self.past.last().cloned();
            self.show(&look, before.as_ref());
            self.past.push(look);
        }
    }

    async fn restart(&mut self) {
        self.api.plan().dead = false;
        self.controller =
            Controller::new(self.api.clone(), Arc::clone(&self.clock) as Arc<dyn Clock>, Options::default());
        (self.queue, self.due) = Default::default();
        let newest = self.past.len().saturating_sub(1);
        let old = self.past.get(newest.saturating_sub(self.behind)).cloned().expect("something was seen");
        self.show(&old, None);
        self.queue.extend(self.controller.prime());
        // The first passes are over the past.
        self.pass().await;
        self.past.push(old);
    }

    async fn pass(&mut self) -> bool {
        let Some(key) = self.queue.pop_first() else { return false };
        let next = self.controller.reconcile(&key).await;
        match next.again_at {
            Some(at) if at <= self.clock.now() => drop(self.queue.insert(key)),
            Some(at) => drop(self.due.insert(key, at)),
            None => drop(self.due.remove(&key)),
        }
        self.queue.extend(next.wake);
        true
    }

    /// Passes until there is nothing to do now.
    async fn rest(&mut self) {
        for _ in 0..100 {
            self.deliver().await;
            if !self.pass().await {
                return;
            }
        }
        panic!("no rest: {}", self.past.last().expect("something was seen").0["status"]);
    }

    /// The flow is looked at once more, and until there is nothing to do.
    async fn again(&mut self) {
        self.queue.insert(Key { namespace: self.namespace.clone(), name: self.flow.clone() });
        self.rest().await;
    }

    async fn run(&mut self) {
        for _ in 0..500 {
            self.deliver().await;
            if self.pass().await {
                let dead = self.api.plan().dead;
                if dead {
                    self.restart().await;
                }
                continue;
            }
            let (flow, jobs) = self.past.last().cloned().expect("something was seen");
            if flow["status"]["phase"] == "Succeeded" || flow["status"]["phase"] == "Failed" {
                return;
            }
            if let Some(job) = jobs.values().find(|job| job["status"]["conditions"].is_null()) {
                self.end(job).await;
                continue;
            }
            let (key, at) = self.due.pop_first().expect("somebody does something");
            self.clock.set(at);
            self.queue.insert(key);
        }
        panic!("no end: {}", self.past.last().expect("something was seen").0["status"]);
    }

    /// A Job ends well, or as its name says.
    async fn end(&self, job: &Value) {
        let name = job["metadata"]["name"].as_str().expect("a name");
        let now = self.clock.now().plus(Duration::from_secs(1)).whole_seconds().to_string();
        let condition = |kind: &str, reason: &str| json!({"type": kind, "status": "True", "reason": reason, "message": "m", "lastTransitionTime": now, "lastProbeTime": now});
        let status = if name.contains("-bad-") {
            let why = "BackoffLimitExceeded";
            json!({"startTime": now, "failed": 1, "conditions": [condition("FailureTarget", why), condition("Failed", why)]})
        } else {
            let why = "CompletionsReached";
            json!({"startTime": now, "completionTime": now, "succeeded": 1,
                "conditions": [condition("SuccessCriteriaMet", why), condition("Complete", why)]})
        };
        let jobs: kube::Api<Job> = kube::Api::namespaced(self.kube.clone(), &self.namespace);
        let patch = Patch::Merge(json!({"status": status}));
        jobs.patch_status(name, &PatchParams::default(), &patch).await.expect("the Job ends");
    }

    /// How steps came out, and what was created.
    fn outcome(&self) -> String {
        let (flow, _) = self.past.last().expect("something was seen");
        let status = &flow["status"];
        let word = |value: &Value| value.as_str().unwrap_or("-").to_owned();
        let mut lines = vec![word(&status["phase"])];
        for step in status["steps"].as_array().into_iter().flatten() {
            lines.push(format!(
                "{} {}/{} {}",
                word(&step["name"]),
                word(&step["phase"]),
                word(&step["reason"]),
                step["attempt"]
            ));
        }
        let uid = word(&flow["metadata"]["uid"]);
        let uid = uid.get(..8).expect("a uid");
        let mut created = self.api.plan().created.clone();
        created.sort();
        let distinct: BTreeSet<&String> = created.iter().collect();
        assert_eq!(distinct.len(), created.len(), "something was created twice: {created:?}");
        lines.extend(created.into_iter().map(|name| name.replace(uid, "UID").replace(&self.flow, "FLOW")));
        lines.join("\n")
    }
}

fn spec() -> Value {
    let mut many = step("many", &["a"], json!({}));
    many["withItems"] = json!([1, 2]);
    let mut bad = step("bad", &["a"], json!({}));
    bad["continueOnFailure"] = json!(true);
    json!({"steps": [step("a", &[], json!({})), many, bad, step("last", &["many", "bad"], json!({}))],
        "finally": [step("tidy", &[], json!({}))],
        "resourceTemplates": {"configMapTemplates": [{"metadata": {"name": "settings"}, "data": {"k": "v"}}]},
        "executionPolicy": {"jobRetention": "Failed"}})
}

/// Flows that wait for people or for their Jobs are not written by passes with nothing to do, of this controller or the next.
async fn rests(kube: &kube::Client, namespace: &str) {
    let gate = json!({"name": "gate", "type": "Manual"});
    for (name, steps, phase) in [
        ("waits", json!([step("a", &[], json!({})), gate]), "Paused"),
        ("runs", json!([step("a", &[], json!({}))]), "Running"),
    ] {
        let mut env = TestEnv::new(kube, namespace, name, &json!({"steps": steps}), Plan::default(), 0).await;
        env.rest().await;
        env.clock.set(env.clock.now().plus(Duration::from_secs(10)));
        env.again().await;
        let (flow, jobs) = env.past.last().cloned().expect("something was seen");
        assert_eq!((&flow["status"]["phase"], jobs.len()), (&json!(phase), 1), "{}", flow["status"]);
        let before = env.api.plan().writes;
        env.again().await;
        env.restart().await;
        env.again().await;
        assert_eq!(env.api.plan().writes, before, "a {phase} flow is written without need");
    }
}

#[tokio::test]
async fn a_crash_at_any_write_to_a_real_server_changes_nothing_and_creates_nothing_twice() {
    let real = conformance::real().await;
    conformance::announce(real.as_ref());
    let definition = orlop_k8s::crd::job_flow();
    let kube = match &real {
        Some(kube) => kube.clone(),
        None => {
            let server = ApiServer::new();
            server.install(&definition).expect("the server takes the definition");
            server.client()
        }
    };
    let namespace = format!("crash-{}", std::process::id());
    conformance::set_up(&kube, &namespace, &definition, "/apis/workflow.kube-zen.io/v1alpha1", "jobflows").await;
    if real.is_some() && conformance::has_controllers(&kube, &namespace).await {
        println!("skipped: a crash at any write of flows: controllers of Jobs run there, and this test is one");
        return;
    }
    let spec = spec();
    let mut clean = TestEnv::new(&kube, &namespace, "clean", &spec, Plan::default(), 0).await;
    clean.run().await;
    let (want, writes) = (clean.outcome(), clean.api.plan().writes);
    assert!(want.starts_with("Succeeded") && writes > 10, "{want} after {writes} writes");
    let mut plans = Vec::new();
    for at in 0..writes {
        plans.push((at, What::LoseAnswer, 0));
        for behind in [0, 1, 2, 4, 16, 64, 1_000] {
            plans.extend([(at, What::DieBefore, behind), (at, What::DieAfter, behind)]);
        }
    }
    rests(&kube, &namespace).await;
    // The double is gone through elsewhere, write by write.
    let sample = orlop_core::sample!(plans.len(), plans.len().div_ceil(if real.is_some() { 4 } else { 16 }));
    let (tried, whole) = (sample.count(), sample.is_whole());
    for number in sample {
        let (at, what, behind) = &plans[number];
        let plan = Plan { at: Some((*at, *what)), ..Plan::default() };
        let mut env = TestEnv::new(&kube, &namespace, &format!("p{number}"), &spec, plan, *behind).await;
        env.run().await;
        assert_eq!(env.outcome(), want, "{what:?} at write {at}, {behind} behind");
    }
    assert!(plans.len() >= 200 && (!whole || tried >= 200), "{tried} of {} plans", plans.len());
    println!("{tried} of {} crashes at {writes} writes", plans.len());
}
