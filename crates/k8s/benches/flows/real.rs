//! Flows on a real API server, that of `ORLOP_TEST_KUBECONFIG`. Owns the way to it, what the controller asks of it, counted,
//! and the end of Jobs: they succeed as soon as they are there, so that only the controller and the server are measured.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use futures::StreamExt as _;
use k8s_openapi::api::batch::v1::Job;
use kube::api::{Patch, PatchParams};
use kube::runtime::{WatchStreamExt as _, watcher};
use orlop_core::time::Time;
use orlop_k8s::api::{Api, ApiError, Client, Request, Verb};
use orlop_k8s::flow::{Clock, Options};
use serde_json::{Value, json};

use super::load::{Figures, Ground, drive};

/// Jobs that are ended at once.
const ENDING: usize = 32;

/// The clock of this machine.
struct Machine;

impl Clock for Machine {
    fn now(&self) -> Time {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Time::from_millis(i64::try_from(now.as_millis()).unwrap_or(i64::MAX))
    }
}

/// A client that counts, by what is done to what.
#[derive(Clone)]
struct Counted {
    client: Client,
    asked: Arc<Mutex<BTreeMap<String, usize>>>,
}

#[async_trait]
impl Api for Counted {
    async fn send(&self, request: &Request) -> Result<Value, ApiError> {
        let version = request.kind.api_version();
        let group = version.split_once('/').map(|(group, _)| format!(".{group}")).unwrap_or_default();
        let sub = if matches!(request.verb, Verb::PatchStatus | Verb::ApplyStatus { .. }) { "/status" } else { "" };
        let what = format!("{} {}{group}{sub}", request.verb.name(), request.kind.plural());
        *self.asked.lock().unwrap_or_else(PoisonError::into_inner).entry(what).or_default() += 1;
        self.client.send(request).await
    }
}

/// A real API server, ready for flows.
pub(crate) struct Real {
    kube: kube::Client,
    runs: u32,
}

impl Real {
    /// The one of the environment, if there is one.
    pub(crate) async fn find() -> Option<Self> {
        let path = std::env::var_os("ORLOP_TEST_KUBECONFIG")?;
        let file = kube::config::Kubeconfig::read_from(path).expect("the kubeconfig can be read");
        let config = kube::Config::from_custom_kubeconfig(file, &kube::config::KubeConfigOptions::default()).await;
        let kube = kube::Client::try_from(config.expect("it is right")).expect("a client");
        let real = Self { kube, runs: 0 };
        let definition = orlop_k8s::crd::job_flow();
        let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        // It may be there already.
        real.ask("POST", path, &definition).await.ok();
        while real.ask("GET", "/apis/workflow.kube-zen.io/v1alpha1/jobflows", &Value::Null).await.is_err() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Some(real)
    }

    async fn ask(&self, method: &str, path: &str, body: &Value) -> Result<Value, kube::Error> {
        let bytes = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        let request = http::Request::builder().method(method).uri(path).header("content-type", "application/json");
        self.kube.request(request.body(bytes).expect("a request")).await
    }

    /// Runs flows to their ends, all at once, in a namespace of their own.
    pub(crate) async fn run(&mut self, specs: Vec<Value>, options: Options) -> Figures {
        self.runs += 1;
        let namespace = format!("bench-{}-{}", std::process::id(), self.runs);
        let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        self.ask("POST", "/api/v1/namespaces", &object).await.expect("a namespace");
        let ending = tokio::spawn(end_jobs(self.kube.clone(), namespace.clone()));
        let asked = Arc::new(Mutex::new(BTreeMap::new()));
        let api = Counted { client: Client::new(self.kube.clone()), asked: Arc::clone(&asked) };
        let (user, operator) = (self.kube.clone(), self.kube.clone());
        let ground = Ground { user, operator, api, events: None, clock: Arc::new(Machine), namespace };
        let mut figures = drive(ground, specs, options).await;
        ending.abort();
        figures.writes = std::mem::take(&mut *asked.lock().unwrap_or_else(PoisonError::into_inner));
        figures.writes.retain(|what, _| !what.starts_with("get ") && !what.starts_with("list "));
        figures
    }
}

/// Every Job of a namespace succeeds as soon as it is there.
async fn end_jobs(kube: kube::Client, namespace: String) {
    let jobs: kube::Api<Job> = kube::Api::namespaced(kube, &namespace);
    let known = Mutex::new(BTreeSet::new());
    let news = watcher(jobs.clone(), watcher::Config::default()).default_backoff().applied_objects();
    let ends = news.for_each_concurrent(ENDING, |job| async {
        let Some(name) = job.ok().and_then(|job| job.metadata.name) else { return };
        if !known.lock().unwrap_or_else(PoisonError::into_inner).insert(name.clone()) {
            return;
        }
        let now = Machine.now().whole_seconds().to_string();
        let condition = |kind: &str| {
            json!({"type": kind, "status": "True", "reason": "CompletionsReached", "message": "",
            "lastTransitionTime": now, "lastProbeTime": now})
        };
        let status = json!({"startTime": now, "completionTime": now, "succeeded": 1,
            "conditions": [condition("SuccessCriteriaMet"), condition("Complete")]});
        let patch = Patch::Merge(json!({ "status": status }));
        jobs.patch_status(&name, &PatchParams::default(), &patch).await.expect("the Job ends");
    });
    ends.await;
}
