//! Metrics of flows, in one place or, where it is asked for, by namespace. No label names a flow, a step, a job or a person.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;

use super::group::{Group, OWN};
#[cfg(feature = "kube")]
use super::series::Label;
use super::series::{Series, Single};

/// Seconds from 1 s to 24 h: what flows and steps take.
fn hours() -> Histogram {
    Histogram::new([1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 10_800.0, 21_600.0, 43_200.0, 86_400.0])
}

/// Seconds from 1 s to 10 min: what a retry waits.
fn minutes() -> Histogram {
    Histogram::new([1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0])
}

/// Seconds from 1 ms to 60 s: what a step that may run waits.
fn waits() -> Histogram {
    Histogram::new([0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0])
}

/// Seconds from 1 ms to 1 s: what a plan takes.
fn instants() -> Histogram {
    Histogram::new([0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0])
}

/// Seconds from 1 min to 24 h: what people take.
fn people() -> Histogram {
    Histogram::new([60.0, 300.0, 900.0, 1800.0, 3600.0, 10_800.0, 21_600.0, 43_200.0, 86_400.0])
}

/// What happens to flows, and how they stand.
#[derive(Debug)]
pub struct FlowMetrics {
    /// Flows that are driven, by `phase`.
    pub flows: Series<Gauge, 1>,
    /// Their steps, by `phase`.
    pub steps: Series<Gauge, 1>,
    /// Steps waiting for a slot or a worker.
    pub ready: Single<Gauge>,
    /// Attempts that are under way.
    pub live_attempts: Single<Gauge>,
    /// Attempts that were accepted and do not run yet, by what they wait `on`.
    pub waiting: Series<Gauge, 1>,
    /// Flows with a cancelled attempt that has not ended.
    pub cancels_blocked: Single<Gauge>,
    /// Steps waiting for a decision.
    pub approvals_pending: Single<Gauge>,
    /// Changes of flows, `from` a phase `to` another.
    pub transitions: Series<Counter, 2>,
    /// Changes of steps, `from` a phase `to` another.
    pub step_transitions: Series<Counter, 2>,
    /// Finished flows, by `outcome` and `reason`.
    pub finished: Series<Counter, 2>,
    /// Seconds from start to end, by `outcome` and `reason`.
    pub duration: Series<Histogram, 2>,
    /// Seconds an attempt took, by `result`: success, failure or timeout.
    pub step_duration: Series<Histogram, 1>,
    /// Seconds from the end of the last step it depends on until its attempt was accepted.
    pub step_start_latency: Single<Histogram>,
    /// Seconds that planning a flow took.
    pub plan_duration: Single<Histogram>,
    /// Attempts that failed, by `reason`.
    pub step_errors: Series<Counter, 1>,
    /// Attempts that were repeated.
    pub step_retries: Single<Counter>,
    /// Seconds a retry waited.
    pub retry_backoff: Single<Histogram>,
    /// Time until the decision of an approval in seconds.
    pub approval_latency: Single<Histogram>,
    /// Timeouts by type, by `type`: step, pending (of the first pod), flow or approval.
    pub timeouts: Series<Counter, 1>,
}

const UNDER_WAY: &str = "Attempts of steps in progress";
const WAITING: &str = "Accepted attempts of steps that are not running yet, by what they wait for";
const STEPS: &str = "Steps of unfinished flows by phase";
const BLOCKED: &str = "Flows with a cancelled attempt that has not ended";

/// How long steps that may run wait, and planning takes.
fn latencies(group: &mut Group) -> (Single<Histogram>, Single<Histogram>) {
    let wait = "Time from the end of the last dependency of a step until its first attempt was accepted, in seconds";
    let latency = group.placed("orlop_step_start_latency_seconds", wait, waits);
    (latency, group.placed("orlop_plan_duration_seconds", "Planning time of flows in seconds", instants))
}

impl FlowMetrics {
    pub(super) fn new(group: &mut Group) -> Self {
        let (step_start_latency, plan_duration) = latencies(group);
        let (phase, change, end) = (["phase"], ["from", "to"], ["outcome", "reason"]);
        Self {
            flows: group.series("orlop_flows", "Unfinished flows by phase", phase, OWN, Gauge::default),
            steps: group.series("orlop_steps", STEPS, phase, OWN, Gauge::default),
            ready: group.placed("orlop_ready_steps", "Steps waiting for a slot or a worker", Gauge::default),
            live_attempts: group.placed("orlop_live_attempts", UNDER_WAY, Gauge::default),
            waiting: group.series("orlop_attempts_waiting", WAITING, ["on"], OWN, Gauge::default),
            cancels_blocked: group.placed("orlop_cancels_blocked", BLOCKED, Gauge::default),
            approvals_pending: group.placed("orlop_approvals_pending", "Steps waiting for a decision", Gauge::default),
            transitions: group.series(
                "orlop_flow_phase_transitions",
                "Changes of the phase of flows",
                change,
                OWN,
                Counter::default,
            ),
            step_transitions: group.series(
                "orlop_step_phase_transitions",
                "Changes of the phase of steps",
                change,
                OWN,
                Counter::default,
            ),
            finished: group.series("orlop_flows_finished", "Finished flows", end, OWN, Counter::default),
            duration: group.series("orlop_flow_duration_seconds", "Duration of flows in seconds", end, OWN, hours),
            step_duration: group.series(
                "orlop_step_duration_seconds",
                "Duration of attempts of steps in seconds",
                ["result"],
                OWN,
                hours,
            ),
            step_start_latency,
            plan_duration,
            step_errors: group.series(
                "orlop_step_errors",
                "Failed attempts of steps",
                ["reason"],
                OWN,
                Counter::default,
            ),
            step_retries: group.placed("orlop_step_retries", "Retried attempts of steps", Counter::default),
            retry_backoff: group.placed(
                "orlop_step_retry_backoff_seconds",
                "Delay before retries of steps in seconds",
                minutes,
            ),
            approval_latency: group.placed(
                "orlop_approval_latency_seconds",
                "Time until the decision of an approval in seconds",
                people,
            ),
            timeouts: group.series("orlop_timeouts", "Timeouts by type", ["type"], OWN, Counter::default),
        }
    }

    /// The same metrics in a place.
    #[cfg(feature = "kube")]
    pub(super) fn within(&self, place: &Label) -> Self {
        Self {
            flows: self.flows.within(place),
            steps: self.steps.within(place),
            ready: self.ready.within(place),
            live_attempts: self.live_attempts.within(place),
            waiting: self.waiting.within(place),
            cancels_blocked: self.cancels_blocked.within(place),
            approvals_pending: self.approvals_pending.within(place),
            transitions: self.transitions.within(place),
            step_transitions: self.step_transitions.within(place),
            finished: self.finished.within(place),
            duration: self.duration.within(place),
            step_duration: self.step_duration.within(place),
            step_start_latency: self.step_start_latency.within(place),
            plan_duration: self.plan_duration.within(place),
            step_errors: self.step_errors.within(place),
            step_retries: self.step_retries.within(place),
            retry_backoff: self.retry_backoff.within(place),
            approval_latency: self.approval_latency.within(place),
            timeouts: self.timeouts.within(place),
        }
    }
}
