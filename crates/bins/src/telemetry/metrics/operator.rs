//! The metrics of an operator: one value that its controllers
//! share. No label names a flow, a step, a Job or a person.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::alias;
use super::group::{Described, Group, OWN, TENANTS, short};
use super::process;
use super::series::{OTHER, Series};
use super::{FlowMetrics, HourglassMetrics, WebhookMetrics};

/// Seconds from 5 ms to 10 s: what a pass takes.
fn passes() -> Histogram {
    Histogram::new([0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0])
}

/// Seconds from 1 µs to 65 ms: what the engine takes.
fn applies() -> Histogram {
    Histogram::new([0.000_001, 0.000_004, 0.000_016, 0.000_064, 0.000_256, 0.001, 0.004, 0.016, 0.065])
}

/// Bytes from 1 KiB to 1 MiB.
fn sizes() -> Histogram {
    Histogram::new([1024.0, 4096.0, 16_384.0, 65_536.0, 262_144.0, 524_288.0, 1_048_576.0])
}

/// What the loops of controllers do.
#[derive(Debug)]
pub struct ControllerMetrics {
    /// Passes, by `controller` and `result`.
    pub passes: Series<Counter, 2>,
    /// Reconciliation time in seconds, by `controller`.
    pub duration: Series<Histogram, 1>,
    /// What had no success, by `controller` and `class`.
    pub errors: Series<Counter, 2>,
    /// Objects that could be looked at now, by `controller`.
    pub depth: Series<Gauge, 1>,
    /// Watches restarted, by `kind`.
    pub watch_restarts: Series<Counter, 1>,
    /// 1 while this process leads, else 0.
    pub leader: Gauge,
    /// What the engine was given, by `event`.
    pub events: Series<Counter, 1>,
    /// Time the engine took in seconds.
    pub apply: Histogram,
    /// Results of outdated attempts.
    pub fenced: Counter,
    /// Status writes of flows, by `level` and `result`.
    pub status_writes: Series<Counter, 2>,
    /// Status write time in seconds.
    pub status_duration: Histogram,
    /// Status size in bytes.
    pub status_bytes: Histogram,
    /// Events about objects that were not published.
    pub events_lost: Counter,
    /// Bytes of artifacts of steps, by `direction` and `store`.
    pub artifact_bytes: Series<Counter, 2>,
}

impl ControllerMetrics {
    fn new(group: &mut Group) -> Self {
        let of = ["controller"];
        Self {
            passes: group.series(
                "orlop_reconcile",
                "Reconciliations of controllers",
                ["controller", "result"],
                OWN,
                Counter::default,
            ),
            duration: group.series(
                "orlop_reconcile_duration_seconds",
                "Reconciliation time in seconds",
                of,
                OWN,
                passes,
            ),
            errors: group.series(
                "orlop_reconcile_errors",
                "Reconciliation errors",
                ["controller", "class"],
                OWN,
                Counter::default,
            ),
            depth: group.series("orlop_workqueue_depth", "Objects waiting for reconciliation", of, OWN, Gauge::default),
            watch_restarts: group.series("orlop_watch_restarts", "Watches restarted", ["kind"], OWN, Counter::default),
            leader: group.single("orlop_leader", "1 while this process leads", Gauge::default()),
            events: group.series(
                "orlop_engine_events",
                "Events applied by the engine",
                ["event"],
                OWN,
                Counter::default,
            ),
            apply: group.single("orlop_engine_apply_seconds", "Time the engine took in seconds", applies()),
            fenced: group.single("orlop_fenced_results", "Results of outdated attempts", Counter::default()),
            status_writes: group.series(
                "orlop_status_writes",
                "Status writes of flows",
                ["level", "result"],
                OWN,
                Counter::default,
            ),
            status_duration: group.single(
                "orlop_status_write_duration_seconds",
                "Status write time in seconds",
                short(),
            ),
            status_bytes: group.single("orlop_status_bytes", "Status size in bytes", sizes()),
            events_lost: group.single(
                "orlop_events_lost",
                "Events about flows that were not published",
                Counter::default(),
            ),
            artifact_bytes: group.series(
                "orlop_artifact_bytes",
                "Bytes of artifacts stored and delivered to steps",
                ["direction", "store"],
                OWN,
                Counter::default,
            ),
        }
    }
}

/// What is asked of the API server.
#[derive(Debug)]
pub struct KubeMetrics {
    /// Requests, by `verb`, `resource` and `code`.
    pub requests: Series<Counter, 3>,
    /// Seconds to the head of the answer, by `verb`, `resource` and `code`.
    pub duration: Series<Histogram, 3>,
    /// Requests that change something, by `controller`, `kind` and `verb`.
    pub writes: Series<Counter, 3>,
}

impl KubeMetrics {
    fn new(group: &mut Group) -> Self {
        let labels = ["verb", "resource", "code"];
        Self {
            requests: group.series("orlop_kube_requests", "Requests to the API server", labels, OWN, Counter::default),
            duration: group.series(
                "orlop_kube_request_duration_seconds",
                "API server response time in seconds",
                labels,
                OWN,
                short,
            ),
            writes: group.series(
                "orlop_api_writes",
                "Write requests to the API server",
                ["controller", "kind", "verb"],
                OWN,
                Counter::default,
            ),
        }
    }
}

/// What else metrics of flows count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Telling {
    /// The names of zen-flow too.
    pub zen_aliases: bool,
    /// The namespace of the flow, as a label.
    pub namespaces: bool,
}

/// The label that says where a flow is.
const NAMESPACE: &str = "namespace";

/// All metrics of one operator.
#[derive(Debug)]
pub struct OperatorMetrics {
    /// Flows and their steps, wherever they are.
    pub flows: Arc<FlowMetrics>,
    /// Performers and executors.
    pub hourglass: HourglassMetrics,
    /// Passes, watches, the engine, statuses.
    pub controllers: ControllerMetrics,
    /// Requests to the API server.
    pub kube: KubeMetrics,
    /// Reviews of the API server.
    pub webhook: Arc<WebhookMetrics>,
    registry: Registry,
    names: BTreeMap<String, Described>,
    telling: Telling,
    /// Flows by namespace, those beyond the bound aside.
    places: Mutex<BTreeMap<String, Arc<FlowMetrics>>>,
}

impl Default for OperatorMetrics {
    fn default() -> Self {
        Self::new()
    }
}

impl OperatorMetrics {
    /// The metrics of an operator, all at zero.
    #[must_use]
    pub fn new() -> Self {
        Self::telling(Telling::default())
    }

    /// The same, with what else is counted.
    #[must_use]
    pub fn telling(telling: Telling) -> Self {
        let mut group = Group { place: telling.namespaces.then_some(NAMESPACE), ..Group::default() };
        let flows = Arc::new(FlowMetrics::new(&mut group));
        group.place = None;
        let hourglass = HourglassMetrics::new(&mut group);
        let controllers = ControllerMetrics::new(&mut group);
        let kube = KubeMetrics::new(&mut group);
        let webhook = Arc::new(WebhookMetrics::new(&mut group));
        let build: Series<Gauge, 1> =
            group.series("orlop_build_info", "Version of the program", ["version"], OWN, Gauge::default);
        build.of([env!("CARGO_PKG_VERSION")]).set(1);
        process::register(&mut group);
        Self {
            flows,
            hourglass,
            controllers,
            kube,
            webhook,
            registry: group.registry,
            names: group.names,
            telling,
            places: Mutex::default(),
        }
    }

    /// The name under which flows of a namespace are counted: its own, `other` beyond the bound, none where namespaces are
    /// not reported.
    #[must_use]
    pub fn place<'n>(&self, namespace: &'n str) -> &'n str {
        self.placed(namespace).0
    }

    /// The metrics of flows of a namespace.
    #[must_use]
    pub fn flows_of(&self, namespace: &str) -> Arc<FlowMetrics> {
        self.placed(namespace).1
    }

    fn placed<'n>(&self, namespace: &'n str) -> (&'n str, Arc<FlowMetrics>) {
        if !self.telling.namespaces {
            return ("", Arc::clone(&self.flows));
        }
        let mut places = self.places();
        let full = places.len() >= TENANTS && !places.contains_key(namespace);
        let place = if full { OTHER } else { namespace };
        let within = || Arc::new(self.flows.within(&(NAMESPACE, Arc::from(place))));
        let metrics = Arc::clone(places.entry(place.to_owned()).or_insert_with(within));
        (place, metrics)
    }

    /// All places that flows were counted in.
    #[must_use]
    pub fn known_places(&self) -> Vec<String> {
        if self.telling.namespaces { self.places().keys().cloned().collect() } else { vec![String::new()] }
    }

    fn places(&self) -> MutexGuard<'_, BTreeMap<String, Arc<FlowMetrics>>> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The names that an answer of `/metrics` can hold, each with its kind and labels; other names of the same are not among
    /// them.
    #[must_use]
    pub fn names(&self) -> &BTreeMap<String, Described> {
        &self.names
    }

    /// The text form that Prometheus reads (OpenMetrics 1.0).
    ///
    /// # Errors
    /// None of its own; that of the writer.
    pub fn text(&self) -> Result<String, fmt::Error> {
        let mut out = String::new();
        prometheus_client::encoding::text::encode(&mut out, &self.registry)?;
        Ok(if self.telling.zen_aliases { alias::with_aliases(&out) } else { out })
    }
}
