//! What is counted of a batch: collected while effects are taken in, and given to the metrics once at its end, so that the
//! hot path touches no shared counter.

use std::collections::BTreeMap;

use orlop_core::id::{JobId, TenantName};
use orlop_core::machine::job::JobState;
use orlop_core::task::{CancelReason, StartMode};
use orlop_scheduler::effect::{Effect, JobPart, Reason};
use prometheus_client::metrics::counter::Counter;

use super::Core;
use crate::telemetry::metrics::{Metrics, Series};

/// Bands as they are called outside.
pub(crate) const BANDS: [&str; 3] = ["high", "normal", "low"];
/// Verdicts in their fixed order.
const VERDICTS: [&str; 5] = ["unknown", "duplicate", "accepted", "adopted", "stale"];

/// What happened to the jobs of a tenant.
#[derive(Debug, Default)]
struct Jobs {
    submitted: u64,
    scheduled: u64,
    completed: u64,
    cancelled: u64,
    retried: u64,
    lost: u64,
    preempted: u64,
    failed: BTreeMap<String, u64>,
    /// Seconds from start to result, by outcome.
    ran: BTreeMap<&'static str, Vec<f64>>,
}

/// The counts of a batch.
#[derive(Debug, Default)]
pub(in super::super) struct BatchMetrics {
    tenants: BTreeMap<TenantName, Jobs>,
    /// Seconds from Queued to Assigned, by band.
    waited: [Vec<f64>; 3],
    /// Seconds from submit to start.
    started: Vec<f64>,
    prefilled: u64,
    placed: u64,
    preempted: u64,
    stopped: u64,
    blocked: u64,
    verdicts: [u64; 5],
    any: bool,
}

fn seconds(from: u64, to: u64) -> f64 {
    to.saturating_sub(from) as f64 / 1000.0
}

/// How many tasks a part has; an array as a whole has none of its own.
fn tasks(part: JobPart, array: bool) -> u64 {
    match part {
        JobPart::Whole => u64::from(!array),
        JobPart::Elements(first, last) => u64::from(last.saturating_sub(first)) + 1,
    }
}

impl Core {
    fn counts_of(&mut self, job: JobId) -> Option<&mut Jobs> {
        let tenant = &self.registry.jobs.get(job)?.spec.demand().tenant;
        self.counts.any = true;
        if !self.counts.tenants.contains_key(tenant) {
            self.counts.tenants.insert(tenant.clone(), Jobs::default());
        }
        self.counts.tenants.get_mut(tenant)
    }

    /// Counts an effect.
    pub(super) fn count(&mut self, effect: &Effect) {
        match effect {
            Effect::Admitted { job, elements } => {
                let elements = u64::from(*elements);
                self.totals.submitted += elements;
                if let Some(jobs) = self.counts_of(*job) {
                    jobs.submitted += elements;
                }
            }
            Effect::JobChanged { job, part, from, to, reason, .. } => {
                self.count_change(*job, *part, *from, *to, *reason);
            }
            Effect::Assign { attempt, start, .. } => {
                match start {
                    StartMode::Inherit => self.counts.prefilled += 1,
                    _ => self.counts.placed += 1,
                }
                if let Some(jobs) = self.counts_of(attempt.job) {
                    jobs.scheduled += 1;
                }
            }
            Effect::Lost { attempt, .. } => {
                if let Some(jobs) = self.counts_of(attempt.job) {
                    jobs.lost += 1;
                }
            }
            Effect::Cancel { why: CancelReason::Preempted, .. } => {
                self.counts.any = true;
                self.counts.preempted += 1;
            }
            Effect::Quota { stopped: true, .. } => {
                self.counts.any = true;
                self.counts.stopped += 1;
            }
            _ => {}
        }
    }

    fn count_change(&mut self, job: JobId, part: JobPart, from: JobState, to: JobState, reason: Reason) {
        let Some(live) = self.registry.jobs.get(job) else { return };
        if tracing::enabled!(target: "orlop::jobs", tracing::Level::DEBUG) {
            let client = live.client.as_deref();
            tracing::debug!(
                target: "orlop::jobs",
                %job,
                ?part,
                tenant = %live.spec.demand().tenant,
                epoch = %self.epoch,
                correlation_id = client.and_then(|client| client.correlation_id.as_deref()),
                trace_id = client.and_then(|client| client.traceparent.as_deref()).and_then(|text| text.split('-').nth(1)),
                reason = reason.word(),
                "{from} to {to}"
            );
        }
        let (count, band) = (tasks(part, live.array), live.spec.demand().priority.band().index());
        let gated = |state: JobState| matches!(state, JobState::Pending | JobState::Backoff);
        if let Some(sum) = self.gated.get_mut(band) {
            *sum = if gated(from) { sum.saturating_sub(count) } else { *sum };
            *sum += if gated(to) && from != to { count } else { 0 };
        }
        // A result can come before the word that the attempt has started.
        let unheard = from == JobState::Assigned && to.is_terminal() && to != JobState::Cancelled;
        self.totals.started += if to == JobState::Running && from != to || unheard { count } else { 0 };
        self.totals.ended += if to.is_terminal() && !from.is_terminal() { count } else { 0 };
        if matches!(to, JobState::Assigned | JobState::Running) {
            self.count_start(job, part, band, to);
        }
        let Some(jobs) = self.counts_of(job) else { return };
        match to {
            JobState::Completed => jobs.completed += count,
            JobState::Cancelled => jobs.cancelled += count,
            JobState::Failed | JobState::TimedOut if count > 0 => {
                let reason = reason.word().unwrap_or("exit").to_owned();
                *jobs.failed.entry(reason).or_default() += count;
            }
            JobState::Backoff => jobs.retried += count,
            JobState::Queued if reason == Reason::Preempted => jobs.preempted += count,
            _ => {}
        }
    }

    /// How long a task waited for its first attempt. A later one waits since a time that nobody keeps.
    fn count_start(&mut self, job: JobId, part: JobPart, band: usize, to: JobState) {
        let element = match part {
            JobPart::Whole => None,
            JobPart::Elements(first, last) if first == last => Some(first),
            JobPart::Elements(..) => return,
        };
        let Some(view) = self.scheduler.job(job, element).filter(|view| view.attempt == 1) else { return };
        let waited = seconds(view.submitted, self.now);
        if to == JobState::Running {
            self.counts.started.push(waited);
        } else if let Some(all) = self.counts.waited.get_mut(band) {
            all.push(waited);
        }
    }

    /// Counts a verdict.
    pub(super) fn count_verdict(&mut self, verdict: usize) {
        self.counts.any = true;
        if let Some(sum) = self.counts.verdicts.get_mut(verdict) {
            *sum += 1;
        }
    }

    /// Counts how long an attempt ran whose result counts.
    pub(super) fn count_run(&mut self, job: JobId, outcome: &'static str, seconds: f64) {
        if let Some(jobs) = self.counts_of(job) {
            jobs.ran.entry(outcome).or_default().push(seconds);
        }
    }

    /// Counts classes that a round found to fit nowhere.
    pub(super) fn count_blocked(&mut self, classes: u32) {
        self.counts.any |= classes > 0;
        self.counts.blocked += u64::from(classes);
    }

    /// Gives what was counted to the metrics.
    pub(super) fn report_counts(&mut self) {
        if std::mem::take(&mut self.counts.any) {
            std::mem::take(&mut self.counts).report(&self.metrics);
        }
    }
}

fn add(series: &Series<Counter, 1>, name: &str, count: u64) {
    if count > 0 {
        series.of([name]).inc_by(count);
    }
}

impl BatchMetrics {
    fn report(self, metrics: &Metrics) {
        for (tenant, jobs) in &self.tenants {
            jobs.report(metrics, tenant.as_str());
        }
        for (band, waited) in BANDS.into_iter().zip(&self.waited).filter(|(_, waited)| !waited.is_empty()) {
            let all = metrics.jobs.queue_wait.of([band]);
            waited.iter().for_each(|seconds| all.observe(*seconds));
        }
        self.started.iter().for_each(|seconds| metrics.jobs.submit_to_start.observe(*seconds));
        let results = [
            ("placed", self.placed),
            ("prefilled", self.prefilled),
            ("preempted", self.preempted),
            ("quota", self.stopped),
            ("blocked", self.blocked),
        ];
        results.into_iter().for_each(|(name, count)| add(&metrics.scheduler.decisions, name, count));
        let verdicts = VERDICTS.into_iter().zip(self.verdicts);
        verdicts.for_each(|(name, count)| add(&metrics.scheduler.verdicts, name, count));
    }
}

impl Jobs {
    fn report(&self, metrics: &Metrics, tenant: &str) {
        let all = &metrics.jobs;
        for (series, count) in [
            (&all.submitted, self.submitted),
            (&all.scheduled, self.scheduled),
            (&all.completed, self.completed),
            (&all.cancelled, self.cancelled),
            (&all.retried, self.retried),
            (&all.lost, self.lost),
            (&all.preempted, self.preempted),
        ] {
            add(series, tenant, count);
        }
        for (reason, count) in &self.failed {
            all.failed.of([tenant, reason]).inc_by(*count);
        }
        for (outcome, seconds) in &self.ran {
            let ran = all.execution_duration.of([tenant, outcome]);
            seconds.iter().for_each(|seconds| ran.observe(*seconds));
        }
    }
}
