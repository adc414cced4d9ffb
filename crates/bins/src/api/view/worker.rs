//! Workers as they are shown.

use orlop_scheduler::engine::ResourceUse;
use orlop_scheduler::event::Capabilities;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::list::Listed;
use super::{time, times};
use crate::host::scheduler::WorkerSnapshot;
use crate::wire::status::{HealthCheck, Measured, WorkerStatus};

/// A worker.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Worker)]
pub(crate) struct WorkerView {
    pub(crate) id: String,
    pub(crate) incarnation: u32,
    /// Creating, Registering, Available, Running, Unhealthy, Draining, Failed or Terminated
    pub(crate) state: String,
    pub(crate) since: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) reason: String,
    pub(crate) cordoned: bool,
    pub(crate) draining: bool,
    /// How it is to leave
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) drain: Option<DrainView>,
    pub(crate) connected: bool,
    /// Attempts that hold its capacity
    pub(crate) attempts: u32,
    /// Allocated share of its processors, 0 to 1
    pub(crate) cpu_allocated: f64,
    /// Allocated share of its memory, 0 to 1
    pub(crate) memory_allocated: f64,
    /// Devices by kind and extras by name, with what attempts hold of them
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) further: Vec<FurtherView>,
    /// below, in or above 60 to 85 percent of allocation
    pub(crate) band: &'static str,
    pub(crate) agent_version: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) registered_at: Option<String>,
    /// cpu_m, memory_bytes, gpus, gpu_units, extras, labels, features, runtimes, max_jobs, tenants
    #[schema(value_type = Object)]
    pub(crate) capabilities: Value,
    /// What it last reported
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) report: Option<ReportView>,
}

/// What a worker has beside processors and memory.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = WorkerResource)]
pub(crate) struct FurtherView {
    /// `gpu:<vendor>/<model>` or `extra:<name>`
    pub(crate) name: String,
    /// What attempts hold
    pub(crate) allocated: u64,
    /// What there is
    pub(crate) total: u64,
}

impl From<&ResourceUse> for FurtherView {
    fn from(held: &ResourceUse) -> Self {
        Self { name: held.what.clone(), allocated: held.allocated, total: held.total }
    }
}

/// What a worker reports every few seconds.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = WorkerReport)]
pub(crate) struct ReportView {
    /// When, by its clock
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) time: Option<String>,
    /// Processor use of its host, 0 to 100
    pub(crate) cpu_percent: f64,
    /// Memory in use on its host, in bytes
    pub(crate) memory_bytes: u64,
    /// Free bytes on the disks of work and spool
    pub(crate) disk_free: u64,
    /// Bytes a second, read and written
    pub(crate) disk_io: u64,
    /// Bytes a second, received and sent
    pub(crate) net_io: u64,
    /// Runnable threads, mean of one minute
    pub(crate) load: f64,
    /// How busy each GPU is, 0 to 100; empty where it is not reported
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) gpu_percent: Vec<f64>,
    /// What it checked
    pub(crate) health: Vec<CheckView>,
    /// Bytes that wait in its spool
    pub(crate) spool_bytes: u64,
    /// Results that wait in its spool
    pub(crate) spool_results: u64,
    /// Bytes of logs that it gave up
    pub(crate) spool_dropped: u64,
}

/// One thing a worker checks.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = HealthCheck)]
pub(crate) struct CheckView {
    pub(crate) check: String,
    pub(crate) ok: bool,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) detail: String,
}

impl From<&WorkerStatus> for ReportView {
    fn from(status: &WorkerStatus) -> Self {
        let Measured { cpu_percent, memory_bytes, disk_free, disk_io, net_io, gpu_percent, load } =
            status.measured.clone().unwrap_or_default();
        let outbox = status.outbox.unwrap_or_default();
        let check = |HealthCheck { check, ok, detail }: HealthCheck| CheckView { check, ok, detail };
        Self {
            time: times(status.reported_at()),
            cpu_percent,
            memory_bytes,
            disk_free,
            disk_io,
            net_io,
            load,
            gpu_percent,
            health: status.health.iter().cloned().map(check).collect(),
            spool_bytes: outbox.bytes,
            spool_results: outbox.results,
            spool_dropped: outbox.dropped,
        }
    }
}

/// How a worker is to leave.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Drain)]
pub(crate) struct DrainView {
    /// Why, as given in the request
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) reason: String,
    /// When what is left on it is cancelled
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) deadline: Option<String>,
    /// Its host is shutting down: the drain cannot be withdrawn
    pub(crate) host_shutdown: bool,
}

/// Where an allocation stands against the reported band.
pub(crate) fn band(cpu: f64, memory: f64) -> &'static str {
    match cpu.max(memory) {
        share if share < 0.60 => "below",
        share if share > 0.85 => "above",
        _ => "in",
    }
}

fn capabilities(offer: &Capabilities) -> Value {
    // All of its keys are texts, so it can be written.
    serde_json::to_value(offer).unwrap_or_default()
}

impl From<&WorkerSnapshot> for WorkerView {
    fn from(worker: &WorkerSnapshot) -> Self {
        let view = &worker.view;
        Self {
            id: view.id.to_string(),
            incarnation: view.incarnation,
            state: view.state.to_string(),
            since: time(worker.since),
            reason: worker.reason.clone(),
            cordoned: view.cordoned,
            draining: view.draining,
            drain: worker.drain.as_ref().map(|drain| DrainView {
                reason: drain.reason.clone(),
                deadline: times(drain.deadline),
                host_shutdown: drain.host_shutdown,
            }),
            connected: worker.connected,
            attempts: view.attempts,
            cpu_allocated: view.cpu,
            memory_allocated: view.memory,
            further: view.further.iter().map(FurtherView::from).collect(),
            band: band(view.cpu, view.memory),
            agent_version: worker.agent_version.clone(),
            registered_at: times(worker.registered_at),
            capabilities: capabilities(&worker.capabilities),
            report: worker.status.as_deref().map(ReportView::from),
        }
    }
}

/// Some of the workers.
pub(crate) type WorkerList = Listed<WorkerView>;

/// How a worker is to leave.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DrainRequest {
    /// After this time what is left on it is cancelled: a duration such as `10m`, or a time in RFC 3339 form
    #[serde(default)]
    pub(crate) deadline: Option<String>,
    /// Why: shown with the worker, and given to its agent; at most 256 characters
    #[serde(default)]
    pub(crate) reason: Option<String>,
}

/// An order that was taken.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct WorkerOrdered {
    pub(crate) id: String,
    /// drain, undrain, cordon, uncordon or remove
    pub(crate) order: &'static str,
}
