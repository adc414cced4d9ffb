//! The metrics of a scheduler server: one value that its parts share, without globals.

#[cfg(feature = "kube")]
mod alias;
mod flow_counts;
mod flows;
mod group;
#[cfg(feature = "kube")]
mod hourglass;
mod jobs;
mod meter;
#[cfg(feature = "kube")]
mod operator;
mod process;
mod scheduler;
mod series;
mod transport;
#[cfg(feature = "kube")]
mod webhook;
mod workers;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Mutex, PoisonError};

use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;

pub use flow_counts::FlowCounts;
pub use flows::FlowMetrics;
use group::Group;
pub use group::{Described, Kind, Real};
#[cfg(feature = "kube")]
pub use hourglass::{HourglassMetrics, PerformerMeter};
pub use jobs::JobMetrics;
pub use meter::Meter;
use meter::is_group;
#[cfg(feature = "kube")]
pub use operator::{ControllerMetrics, KubeMetrics, OperatorMetrics, Telling};
pub use scheduler::SchedulerMetrics;
pub use series::{OTHER, Series, Single};
pub use transport::{StoreMetrics, TransportMetrics};
#[cfg(feature = "kube")]
pub use webhook::WebhookMetrics;
pub use workers::WorkerMetrics;

/// All metrics of one server.
#[derive(Debug)]
pub struct Metrics {
    /// Jobs, by tenant.
    pub jobs: JobMetrics,
    /// Workers, by state and by name.
    pub workers: WorkerMetrics,
    /// Flows and their steps.
    pub flows: FlowMetrics,
    /// Queues, batches and decisions.
    pub scheduler: SchedulerMetrics,
    /// Store, outbox and leadership.
    pub store: StoreMetrics,
    /// HTTP, gRPC, logs and artifacts.
    pub transport: TransportMetrics,
    registry: Registry,
    names: BTreeMap<String, Described>,
    /// Tenants and workers that were there when they were last looked at.
    there: Mutex<[BTreeSet<String>; 2]>,
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    /// The metrics of a server, all at zero.
    #[must_use]
    pub fn new() -> Self {
        let mut group = Group::default();
        let jobs = JobMetrics::new(&mut group);
        let workers = WorkerMetrics::new(&mut group);
        let flows = FlowMetrics::new(&mut group);
        let scheduler = SchedulerMetrics::new(&mut group);
        let store = StoreMetrics::new(&mut group);
        let transport = TransportMetrics::new(&mut group);
        group.note("orlop_build_info", "Version of the program", Kind::Gauge, &["version"]);
        let build = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
        group.registry.register("orlop_build", "Version of the program", build);
        process::register(&mut group);
        let (registry, names) = (group.registry, group.names);
        Self { jobs, workers, flows, scheduler, store, transport, registry, names, there: Mutex::default() }
    }

    /// The names that an answer of `/metrics` can hold, each with its kind and labels.
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
        Ok(out)
    }

    /// These tenants and workers are there: the series of those that were before, and are not any more, go. What is new and
    /// not among them yet stays.
    pub fn are_there(&self, tenants: BTreeSet<String>, workers: BTreeSet<String>) {
        let mut there = self.there.lock().unwrap_or_else(PoisonError::into_inner);
        let [before_tenants, before_workers] = std::mem::replace(&mut *there, [tenants, workers]);
        let [tenants, workers] = &*there;
        before_tenants.difference(tenants).for_each(|name| self.forget_tenant(name));
        before_workers.difference(workers).for_each(|name| self.forget_worker(name));
    }

    /// Removes the series of a tenant that is gone.
    pub fn forget_tenant(&self, tenant: &str) {
        self.jobs.forget(tenant);
        self.scheduler.forget(tenant);
    }

    /// Removes the series of a worker that is gone.
    pub fn forget_worker(&self, worker: &str) {
        self.workers.forget(worker);
    }
}

#[cfg(test)]
mod tests;
