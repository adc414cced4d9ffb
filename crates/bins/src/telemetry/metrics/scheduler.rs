//! Metrics of the scheduling core: queues, batches, decisions, quotas.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;

use super::group::{Group, OWN, Real, TENANTS, short};
use super::series::Series;

/// What the core does.
#[derive(Debug)]
pub struct SchedulerMetrics {
    /// Jobs that wait, by `band` and `state` (ready, blocked, quota, pending).
    pub queue_size: Series<Gauge, 2>,
    /// Seconds from an input to the commit of what follows from it.
    pub latency: Histogram,
    /// Decisions, by `result` (placed, blocked, quota, preempted, prefilled).
    pub decisions: Series<Counter, 1>,
    /// Seconds of a batch, by `phase` (apply, round, records, commit, release).
    pub batch: Series<Histogram, 1>,
    /// Classes of jobs, by `state` (ready, blocked).
    pub classes: Series<Gauge, 1>,
    /// Jobs with reserved workers.
    pub reservations: Gauge,
    /// Attempts waiting on workers to inherit a slot.
    pub prefill_window: Gauge,
    /// The greatest share of one resource that a tenant holds, 0 to 1, by `tenant`.
    pub dominant_share: Series<Real, 1>,
    /// Use of a limit, 0 to 1, by `tenant` and `quota`.
    pub quota_used_ratio: Series<Real, 2>,
    /// Submits refused by a quota, by `tenant`.
    pub quota_denied: Series<Counter, 1>,
    /// Messages about attempts, by `verdict`.
    pub verdicts: Series<Counter, 1>,
}

impl SchedulerMetrics {
    pub(super) fn new(group: &mut Group) -> Self {
        Self {
            queue_size: group.series(
                "orlop_scheduler_queue_size",
                "Waiting jobs by band and state",
                ["band", "state"],
                OWN,
                Gauge::default,
            ),
            latency: group.single("orlop_scheduling_latency_seconds", "Time from input to commit in seconds", short()),
            decisions: group.series(
                "orlop_scheduling_decisions",
                "Decisions by result",
                ["result"],
                OWN,
                Counter::default,
            ),
            batch: group.series(
                "orlop_scheduler_turn_seconds",
                "Batch time by phase in seconds",
                ["phase"],
                OWN,
                short,
            ),
            classes: group.series(
                "orlop_scheduler_classes",
                "Classes of jobs by state",
                ["state"],
                OWN,
                Gauge::default,
            ),
            reservations: group.single("orlop_scheduler_reservations", "Jobs with reserved workers", Gauge::default()),
            prefill_window: group.single(
                "orlop_scheduler_prefill_window",
                "Attempts waiting on workers to inherit a slot",
                Gauge::default(),
            ),
            dominant_share: group.series(
                "orlop_tenant_dominant_share",
                "Dominant resource share of a tenant",
                ["tenant"],
                TENANTS,
                Real::default,
            ),
            quota_used_ratio: group.series(
                "orlop_quota_used_ratio",
                "Use of a limit",
                ["tenant", "quota"],
                TENANTS,
                Real::default,
            ),
            quota_denied: group.series(
                "orlop_quota_denied",
                "Submits refused by a quota",
                ["tenant"],
                TENANTS,
                Counter::default,
            ),
            verdicts: group.series(
                "orlop_result_verdicts",
                "Messages about attempts by verdict",
                ["verdict"],
                OWN,
                Counter::default,
            ),
        }
    }

    pub(super) fn forget(&self, tenant: &str) {
        self.dominant_share.forget(tenant);
        self.quota_used_ratio.forget(tenant);
        self.quota_denied.forget(tenant);
    }
}
