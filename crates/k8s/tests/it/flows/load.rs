//! Many steps and many flows: the whole loop of a controller, on the double or wherever else, counted and timed. Owns the run
//! and its figures; what they may be is said by the test and by the benchmark that use it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::batch::v1::Job;
use kube::runtime::{WatchStreamExt as _, watcher};
use orlop_core::event::FlowEvent;
use orlop_core::rate::Rate;
use orlop_core::time::Time;
use orlop_k8s::api::{Api, Client, Kind, Request};
use orlop_k8s::flow::{Clock, Controller, ControllerEvent, Monitor, Options, RunOptions};
use orlop_k8s::shell::LoopEvent;
use orlop_k8s::shell::limits::{self, Limited};
use orlop_k8s::testing::ApiServer;
use serde_json::{Value, json};
use tokio::time::Instant;

/// Who works, in records.
const OPERATOR: &str = "operator";

/// What the controller tells of its work.
#[derive(Default)]
struct Counts {
    passes: AtomicU64,
    nanos: AtomicU64,
    events: AtomicU64,
    largest: AtomicU64,
}

struct Meter {
    begun: std::time::Instant,
    counts: Counts,
}

impl Monitor for Meter {
    fn now(&self) -> Duration {
        self.begun.elapsed()
    }

    fn record(&self, event: ControllerEvent<'_>) {
        let Counts { passes, nanos, events, largest } = &self.counts;
        match event {
            ControllerEvent::Loop(LoopEvent::Reconciled { took, .. }) => {
                passes.fetch_add(1, Ordering::Relaxed);
                nanos.fetch_add(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
            }
            ControllerEvent::EventApplied { event, .. } if !matches!(event, FlowEvent::Tick) => {
                events.fetch_add(1, Ordering::Relaxed);
            }
            ControllerEvent::StatusStored { bytes, .. } => {
                largest.fetch_max(bytes as u64, Ordering::Relaxed);
            }
            _ => {}
        }
    }
}

struct ServerClock(ApiServer);

impl Clock for ServerClock {
    fn now(&self) -> Time {
        Time::from_millis(self.0.clock().now())
    }
}

/// What a run came to.
#[derive(Debug, Default)]
pub(crate) struct Figures {
    /// Phases of the flows at the end, with how many stand in each.
    pub(crate) phases: BTreeMap<String, usize>,
    /// What the engine was told, but for the time.
    pub(crate) events: u64,
    /// Passes of the controller.
    pub(crate) passes: u64,
    /// Seconds of all passes together, with what the server took for their requests.
    pub(crate) busy: f64,
    /// Requests of the controller that change something, by verb and resource.
    pub(crate) writes: BTreeMap<String, usize>,
    /// Requests of the controller that change nothing, but for watches.
    pub(crate) reads: u64,
    /// Bytes of the largest object of a flow that was stored, as the controller counts them.
    pub(crate) largest: u64,
    /// Bytes of the largest object of a flow at the end.
    pub(crate) final_object: usize,
    /// Milliseconds from the end of a step's Job until the Job of the next step was there, where steps form a chain.
    pub(crate) gaps: Vec<f64>,
    /// Seconds from the first submission to the last end.
    pub(crate) seconds: f64,
}

impl Figures {
    /// Writes of all kinds.
    pub(crate) fn all_writes(&self) -> usize {
        self.writes.values().sum()
    }
}

/// A step that runs a Job which succeeds at once.
pub(crate) fn quick(name: &str) -> Value {
    json!({"name": name, "template": {"apiVersion": "batch/v1", "kind": "Job", "spec": {"backoffLimit": 0,
        "template": {"spec": {"restartPolicy": "Never",
            "containers": [{"name": "main", "image": "busybox", "command": ["true"]}]}}}}})
}

/// A flow of one step with so many instances.
pub(crate) fn fan_out(instances: usize) -> Value {
    let mut step = quick("many");
    step["withItems"] = json!((0..instances).collect::<Vec<_>>());
    json!({"steps": [step]})
}

/// A flow of so many steps, each after the one before.
pub(crate) fn chain(steps: usize) -> Value {
    let mut all = Vec::new();
    for number in 0..steps {
        let mut step = quick(&format!("s{number:02}"));
        if number > 0 {
            step["dependencies"] = json!([format!("s{:02}", number - 1)]);
        }
        all.push(step);
    }
    json!({ "steps": all })
}

/// When Jobs of chains were first seen, and seen complete, by flow and number of the step.
#[derive(Default)]
struct Seen {
    made: BTreeMap<(String, usize), Instant>,
    done: BTreeMap<(String, usize), Instant>,
}

impl Seen {
    fn see(&mut self, job: &Job) {
        let label = |name: &str| job.metadata.labels.as_ref()?.get(&format!("workflow.kube-zen.io/{name}")).cloned();
        let number = label("step").and_then(|step| step.strip_prefix('s')?.parse().ok());
        let (Some(flow), Some(number)) = (label("flow"), number) else { return };
        let key = (flow, number);
        let now = Instant::now();
        self.made.entry(key.clone()).or_insert(now);
        let conditions = job.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
        if conditions.iter().any(|condition| condition.type_ == "Complete" && condition.status == "True") {
            self.done.entry(key).or_insert(now);
        }
    }

    fn gaps(&self) -> Vec<f64> {
        let gap = |((flow, number), made): (&(String, usize), &Instant)| {
            let done = self.done.get(&(flow.clone(), number.checked_sub(1)?))?;
            Some(made.saturating_duration_since(*done).as_secs_f64() * 1e3)
        };
        self.made.iter().filter_map(gap).collect()
    }
}

/// Where flows run.
pub(crate) struct Ground<A> {
    /// Who submits flows and looks at them.
    pub(crate) user: kube::Client,
    /// Who watches for the controller.
    pub(crate) operator: kube::Client,
    /// What the controller asks through.
    pub(crate) api: A,
    /// What its events go through, where that is another way.
    pub(crate) events: Option<A>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) namespace: String,
}

/// Runs flows to their ends, all at once, on a double where pods end as soon as they run.
///
/// # Panics
/// When they do not end within an hour of the runtime's clock.
pub(crate) async fn run(specs: Vec<Value>, options: Options) -> Figures {
    on_double(specs, options, |client| (client, None)).await
}

/// The same at the pace of an operator that nobody gave another: requests at theirs, events at theirs.
///
/// # Panics
/// As of [`run`].
#[allow(dead_code, reason = "benchmarks measure the controller alone")]
pub(crate) async fn run_paced(specs: Vec<Value>, options: Options) -> Figures {
    let events = Rate { per_second: 10, burst: 100 };
    let paced = |client: Client| (Limited::new(client.clone(), limits::DEFAULT), Some(Limited::new(client, events)));
    on_double(specs, options, paced).await
}

async fn on_double<A: Api>(
    specs: Vec<Value>,
    options: Options,
    ways: impl FnOnce(Client) -> (A, Option<A>),
) -> Figures {
    let server = ApiServer::new();
    server.install(&orlop_k8s::crd::job_flow()).expect("the server takes it");
    server.clock().follow_tokio();
    let cluster = server.jobs();
    let cluster = tokio::spawn(async move { cluster.run().await });
    let operator = server.client_named(OPERATOR);
    let (api, events) = ways(Client::new(operator.clone()));
    let ground = Ground {
        user: server.client_named("user"),
        api,
        events,
        operator,
        clock: Arc::new(ServerClock(server.clone())),
        namespace: "default".to_owned(),
    };
    let mut figures = drive(ground, specs, options).await;
    cluster.abort();
    for write in server.writes().into_iter().filter(|write| write.client == OPERATOR) {
        let sub = if write.subresource.is_empty() { String::new() } else { format!("/{}", write.subresource) };
        *figures.writes.entry(format!("{} {}{sub}", write.verb.as_str(), write.resource)).or_default() += 1;
    }
    let reads = server
        .requests()
        .into_iter()
        .filter(|asked| asked.client == OPERATOR && matches!(asked.verb.as_str(), "get" | "list"));
    figures.reads = reads.map(|asked| asked.count).sum();
    figures
}

/// Runs flows to their ends, all at once, where somebody ends their Jobs. What the controller asked is not counted.
///
/// # Panics
/// When they do not end within an hour of the runtime's clock.
pub(crate) async fn drive<A: Api>(ground: Ground<A>, specs: Vec<Value>, options: Options) -> Figures {
    let Ground { user, operator, api, events, clock, namespace } = ground;
    let seen = Arc::new(Mutex::new(Seen::default()));
    let watching = tokio::spawn(watch(user.clone(), namespace.clone(), Arc::clone(&seen)));
    let meter = Arc::new(Meter { begun: std::time::Instant::now(), counts: Counts::default() });
    let controller = Controller::new(api, clock, options).measured(Arc::<Meter>::clone(&meter));
    let controller = match events {
        Some(events) => controller.with_background_api(events),
        None => controller,
    };
    let user = Client::new(user);
    let begun = Instant::now();
    for (number, spec) in specs.iter().enumerate() {
        let object = json!({"apiVersion": "workflow.kube-zen.io/v1alpha1", "kind": "JobFlow",
            "metadata": {"name": name(number), "namespace": namespace}, "spec": spec});
        user.send(&Request::create(Kind::JobFlow, object)).await.expect("the server takes the flow");
    }
    let mut run = RunOptions::default();
    run.namespaces = vec![namespace.clone()];
    controller.run(operator, &run, over(&user, &namespace, specs.len())).await;
    let seconds = begun.elapsed().as_secs_f64();
    watching.abort();
    let gaps = seen.lock().unwrap_or_else(PoisonError::into_inner).gaps();
    let mut figures = figures(&meter.counts, gaps, seconds);
    for number in 0..specs.len() {
        let flow = user.send(&Request::get(Kind::JobFlow, &namespace, &name(number))).await.expect("the flow");
        let phase = flow["status"]["phase"].as_str().unwrap_or("-").to_owned();
        *figures.phases.entry(phase).or_default() += 1;
        figures.final_object = figures.final_object.max(flow.to_string().len());
    }
    figures
}

fn name(number: usize) -> String {
    format!("f{number:05}")
}

async fn watch(client: kube::Client, namespace: String, seen: Arc<Mutex<Seen>>) {
    let jobs: kube::Api<Job> = kube::Api::namespaced(client, &namespace);
    let mut news = watcher(jobs, watcher::Config::default()).applied_objects().boxed();
    while let Some(job) = news.next().await {
        let Ok(job) = job else { continue };
        seen.lock().unwrap_or_else(PoisonError::into_inner).see(&job);
    }
}

/// Comes when all flows are over.
async fn over(user: &Client, namespace: &str, flows: usize) {
    let mut ended = 0;
    for _ in 0..36_000 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        while ended < flows {
            // A server that does not answer is asked again.
            let flow = user.send(&Request::get(Kind::JobFlow, namespace, &name(ended))).await.unwrap_or_default();
            if flow["status"]["completionTime"].is_null() {
                break;
            }
            ended += 1;
        }
        if ended == flows {
            return;
        }
    }
    panic!("{flows} flows do not end");
}

fn figures(counts: &Counts, gaps: Vec<f64>, seconds: f64) -> Figures {
    Figures {
        events: counts.events.load(Ordering::Relaxed),
        passes: counts.passes.load(Ordering::Relaxed),
        busy: Duration::from_nanos(counts.nanos.load(Ordering::Relaxed)).as_secs_f64(),
        largest: counts.largest.load(Ordering::Relaxed),
        gaps,
        seconds,
        ..Figures::default()
    }
}
