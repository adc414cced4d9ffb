//! Metrics of workers: the fleet by state, and each worker by name.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;

use super::group::{Group, OWN, Real, WORKERS};
use super::series::Series;

/// What is known of workers.
#[derive(Debug)]
pub struct WorkerMetrics {
    /// Heartbeats received, by `worker`.
    pub heartbeats: Series<Counter, 1>,
    /// Processor use of the host in percent, by `worker`.
    pub cpu_usage_percent: Series<Real, 1>,
    /// Memory used on the host in bytes, by `worker`.
    pub memory_usage_bytes: Series<Gauge, 1>,
    /// Workers, by `state`.
    pub total: Series<Gauge, 1>,
    /// Workers that new work may be placed on.
    pub healthy: Gauge,
    /// Registrations.
    pub registered: Counter,
    /// Resources held by attempts, by `worker` and `resource` (millicores, bytes, devices).
    pub allocated: Series<Real, 2>,
    /// Resources offered, by `worker` and `resource`.
    pub capacity: Series<Real, 2>,
    /// Workers below, in and above the 60–85 % band of use, by `band`.
    pub utilization_band: Series<Gauge, 1>,
    /// Sessions resumed, by `worker`.
    pub reconnects: Series<Counter, 1>,
    /// Bytes waiting in the spool for the server, by `worker`.
    pub spool_bytes: Series<Gauge, 1>,
}

impl WorkerMetrics {
    pub(super) fn new(group: &mut Group) -> Self {
        let worker = ["worker"];
        let amount = ["worker", "resource"];
        Self {
            heartbeats: group.series(
                "orlop_worker_heartbeats",
                "Heartbeats received",
                worker,
                WORKERS,
                Counter::default,
            ),
            cpu_usage_percent: group.series(
                "orlop_worker_cpu_usage_percent",
                "Processor use of the host in percent",
                worker,
                WORKERS,
                Real::default,
            ),
            memory_usage_bytes: group.series(
                "orlop_worker_memory_usage_bytes",
                "Memory used on the host in bytes",
                worker,
                WORKERS,
                Gauge::default,
            ),
            total: group.series("orlop_workers_total", "Workers by state", ["state"], OWN, Gauge::default),
            healthy: group.single("orlop_workers_healthy", "Workers that accept new work", Gauge::default()),
            registered: group.single("orlop_workers_registered", "Registrations", Counter::default()),
            allocated: group.series(
                "orlop_worker_allocated",
                "Resources held by attempts",
                amount,
                WORKERS,
                Real::default,
            ),
            capacity: group.series("orlop_worker_capacity", "Resources offered", amount, WORKERS, Real::default),
            utilization_band: group.series(
                "orlop_worker_utilization_band",
                "Workers below, in and above 60 to 85 percent of use",
                ["band"],
                OWN,
                Gauge::default,
            ),
            reconnects: group.series("orlop_worker_reconnects", "Sessions resumed", worker, WORKERS, Counter::default),
            spool_bytes: group.series(
                "orlop_worker_spool_bytes",
                "Bytes waiting in the spool",
                worker,
                WORKERS,
                Gauge::default,
            ),
        }
    }

    pub(super) fn forget(&self, worker: &str) {
        self.heartbeats.forget(worker);
        self.reconnects.forget(worker);
        self.cpu_usage_percent.forget(worker);
        self.memory_usage_bytes.forget(worker);
        self.spool_bytes.forget(worker);
        self.allocated.forget(worker);
        self.capacity.forget(worker);
    }
}
