//! Metrics of jobs, by tenant. Arrays count their elements.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;

use super::group::{Group, OWN, TENANTS, long, short};
use super::series::Series;

/// What happened to jobs.
#[derive(Debug)]
pub struct JobMetrics {
    /// Time from start to result in seconds, by `tenant` and `outcome`.
    pub execution_duration: Series<Histogram, 2>,
    /// Submitted and admitted, by `tenant`.
    pub submitted: Series<Counter, 1>,
    /// Placed on a worker, by `tenant`.
    pub scheduled: Series<Counter, 1>,
    /// Completed, by `tenant`.
    pub completed: Series<Counter, 1>,
    /// Failed or timed out, by `tenant` and `reason`.
    pub failed: Series<Counter, 2>,
    /// Cancelled, by `tenant`.
    pub cancelled: Series<Counter, 1>,
    /// Tried again after a failure of their own, by `tenant`.
    pub retried: Series<Counter, 1>,
    /// Attempts lost with their worker, by `tenant`.
    pub lost: Series<Counter, 1>,
    /// Attempts preempted by more urgent work, by `tenant`.
    pub preempted: Series<Counter, 1>,
    /// Waiting for a place, by `tenant`.
    pub queued: Series<Gauge, 1>,
    /// Holding a place, by `tenant`.
    pub running: Series<Gauge, 1>,
    /// Time from Queued to Assigned in seconds, by `band`.
    pub queue_wait: Series<Histogram, 1>,
    /// Time from submit to start in seconds.
    pub submit_to_start: Histogram,
}

impl JobMetrics {
    pub(super) fn new(group: &mut Group) -> Self {
        let tenant = ["tenant"];
        let mut counter = |name: &str, help: &str| group.series(name, help, tenant, TENANTS, Counter::default);
        let submitted = counter("orlop_jobs_submitted", "Jobs and elements admitted");
        let scheduled = counter("orlop_jobs_scheduled", "Attempts placed on a worker");
        let completed = counter("orlop_jobs_completed", "Jobs and elements completed");
        let cancelled = counter("orlop_jobs_cancelled", "Jobs and elements cancelled");
        let retried = counter("orlop_jobs_retried", "Attempts retried after a failure of the job");
        let lost = counter("orlop_jobs_lost", "Attempts lost with their worker");
        let preempted = counter("orlop_jobs_preempted", "Attempts preempted by more urgent work");
        Self {
            execution_duration: group.series(
                "orlop_job_execution_duration",
                "Time from start to result in seconds",
                ["tenant", "outcome"],
                TENANTS,
                long,
            ),
            submitted,
            scheduled,
            completed,
            failed: group.series(
                "orlop_jobs_failed",
                "Jobs and elements failed or timed out",
                ["tenant", "reason"],
                TENANTS,
                Counter::default,
            ),
            cancelled,
            retried,
            lost,
            preempted,
            queued: group.series("orlop_jobs_queued", "Jobs and elements waiting", tenant, TENANTS, Gauge::default),
            running: group.series(
                "orlop_jobs_running",
                "Jobs and elements that hold capacity",
                tenant,
                TENANTS,
                Gauge::default,
            ),
            queue_wait: group.series(
                "orlop_queue_wait_time_seconds",
                "Time from Queued to Assigned in seconds",
                ["band"],
                OWN,
                long,
            ),
            submit_to_start: group.single(
                "orlop_submit_to_start_seconds",
                "Time from submit to start in seconds",
                short(),
            ),
        }
    }

    pub(super) fn forget(&self, tenant: &str) {
        self.execution_duration.forget(tenant);
        self.failed.forget(tenant);
        for counter in [
            &self.submitted,
            &self.scheduled,
            &self.completed,
            &self.cancelled,
            &self.retried,
            &self.lost,
            &self.preempted,
        ] {
            counter.forget(tenant);
        }
        self.queued.forget(tenant);
        self.running.forget(tenant);
    }
}
