//! What is counted of flows, from one status to the next.

use std::collections::{BTreeMap, BTreeSet};

use orlop_core::machine::flow::FlowPhase;
use orlop_core::machine::step::StepPhase;
use orlop_core::name::instance;
use orlop_core::spec::flow::FlowSpec;
use orlop_core::spec::status::{FlowStatus, StepStatus};
use orlop_core::spec::step::Step;
use orlop_core::time::Time;
use orlop_dag::engine::last_word;

use super::FlowMetrics;

/// A flow as it was counted last. What was counted by an earlier server is that one's.
#[derive(Debug)]
pub struct Meter {
    phase: FlowPhase,
    steps: BTreeMap<String, (StepPhase, u32)>,
    /// The steps each step waits for, where statuses are all there is to tell how long steps wait.
    after: BTreeMap<String, Vec<String>>,
}

/// The steps each step of a flow waits for. Those named in an expression are what its words name.
fn dependencies(spec: &FlowSpec) -> BTreeMap<String, Vec<String>> {
    let all = || spec.steps.iter().chain(&spec.finally);
    let names: BTreeSet<&str> = all().map(|step| step.name.as_str()).collect();
    let of = |step: &Step| {
        let words = step.depends.as_deref().unwrap_or_default();
        let words = words.split(|c: char| !c.is_ascii_alphanumeric() && c != '-').filter(|word| names.contains(word));
        step.dependencies.iter().map(String::as_str).chain(words).map(str::to_owned).collect()
    };
    all().map(|step| (step.name.clone(), of(step))).collect()
}

/// The one word for how a flow ended badly; none for the others.
fn cause(status: &FlowStatus) -> &str {
    let failed = status.conditions.iter().find(|condition| condition.kind == "Failed");
    failed.map_or("", |condition| condition.reason.as_str())
}

/// Whether a record is that of a fan-out whose instances follow: they count in its place.
pub(super) fn is_group(steps: &[StepStatus], at: usize) -> bool {
    let Some(step) = steps.get(at).filter(|step| step.instances.is_some()) else { return false };
    steps.get(at.saturating_add(1)).is_some_and(|next| next.name == instance(&step.name, 0))
}

/// Why an attempt failed: where a retry is scheduled the reason only says that, and the message has the word.
fn why(step: &StepStatus) -> &str {
    let last = if step.reason == "RetryScheduled" { last_word(&step.message) } else { "" };
    if last.is_empty() { &step.reason } else { last }
}

fn seconds(from: Option<Time>, to: Option<Time>) -> Option<f64> {
    Some(to?.since(from?).as_secs_f64())
}

impl Meter {
    /// A flow as it stands: what comes after this counts.
    #[must_use]
    pub fn new(status: &FlowStatus) -> Self {
        let steps = status.steps.iter().map(|step| (step.name.clone(), (step.phase, step.retry_count)));
        Self { phase: status.phase, steps: steps.collect(), after: BTreeMap::new() }
    }

    /// The same of a flow whose starts are reported by nobody: how long steps waited is seen by their statuses.
    #[must_use]
    pub fn with_waits(spec: &FlowSpec, status: &FlowStatus) -> Self {
        Self { after: dependencies(spec), ..Self::new(status) }
    }

    /// Seconds from when a step may run until its first attempt was accepted.
    fn latency(&self, status: &FlowStatus, step: &StepStatus) -> Option<f64> {
        let after = self.after.get(&step.name).filter(|_| step.attempt == 1)?;
        let done = status.steps.iter().filter(|known| after.contains(&known.name));
        let ready = done.filter_map(|known| known.completion_time).max().or(status.start_time);
        seconds(ready, step.start_time)
    }

    /// Counts what has changed.
    pub fn count(&mut self, metrics: &FlowMetrics, status: &FlowStatus) {
        if self.phase != status.phase {
            let (from, to) = (self.phase.to_string(), status.phase.to_string());
            metrics.transitions.of([&from, &to]).inc();
            self.phase = status.phase;
            if status.phase.is_terminal() {
                let reason = cause(status);
                metrics.finished.of([&to, reason]).inc();
                if let Some(took) = seconds(status.start_time, status.completion_time) {
                    metrics.duration.of([&to, reason]).observe(took);
                }
                if reason == "ActiveDeadlineExceeded" {
                    metrics.timeouts.of(["flow"]).inc();
                }
            }
        }
        for (at, step) in status.steps.iter().enumerate() {
            if is_group(&status.steps, at) {
                continue;
            }
            let starts = step.phase != StepPhase::Pending
                && self.steps.get(&step.name).is_none_or(|(before, _)| *before == StepPhase::Pending);
            if let Some(waited) = starts.then(|| self.latency(status, step)).flatten() {
                metrics.step_start_latency.observe(waited);
            }
            self.step(metrics, step);
        }
    }

    fn step(&mut self, metrics: &FlowMetrics, step: &StepStatus) {
        let known = self.steps.get(&step.name).copied().unwrap_or_default();
        let (before, retries) = known;
        if known == (step.phase, step.retry_count) {
            return;
        }
        self.steps.insert(step.name.clone(), (step.phase, step.retry_count));
        metrics.step_retries.inc_by(u64::from(step.retry_count.saturating_sub(retries)));
        if before == step.phase {
            return;
        }
        metrics.step_transitions.of([&before.to_string(), &step.phase.to_string()]).inc();
        if before == StepPhase::PendingApproval {
            if let Some(took) = seconds(step.start_time, step.completion_time) {
                metrics.approval_latency.observe(took);
            }
            if step.reason == "ApprovalTimedOut" {
                metrics.timeouts.of(["approval"]).inc();
            }
            return;
        }
        let reason = why(step);
        let result = match (step.phase, reason) {
            (StepPhase::Succeeded, _) => "success",
            (StepPhase::Failed, "Timeout" | "PendingTimeout") => "timeout",
            (StepPhase::Failed, _) => "failure",
            _ => return,
        };
        if let Some(took) = seconds(step.start_time, step.completion_time) {
            metrics.step_duration.of([result]).observe(took);
        }
        if step.phase == StepPhase::Failed {
            metrics.step_errors.of([reason]).inc();
            match reason {
                "Timeout" => drop(metrics.timeouts.of(["step"]).inc()),
                "PendingTimeout" => drop(metrics.timeouts.of(["pending"]).inc()),
                _ => {}
            }
            if let Some(wait) = seconds(step.completion_time, step.next_retry_time) {
                metrics.retry_backoff.observe(wait);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use orlop_core::spec::status::InstanceCounts;

    use super::super::Metrics;

    use super::*;

    fn status(phase: FlowPhase, steps: Vec<StepStatus>) -> FlowStatus {
        let at = |seconds: i64| Some(Time::from_millis(seconds * 1000));
        let completion_time = phase.is_terminal().then(|| at(9)).flatten();
        FlowStatus { phase, steps, start_time: at(1), completion_time, ..FlowStatus::default() }
    }

    fn step(phase: StepPhase, reason: &str, retry_count: u32) -> StepStatus {
        let at = |seconds: i64| Some(Time::from_millis(seconds * 1000));
        let retry = (reason == "RetryScheduled").then(|| at(6)).flatten();
        StepStatus {
            name: "s".to_owned(),
            phase,
            reason: reason.to_owned(),
            retry_count,
            start_time: at(2),
            completion_time: at(4),
            next_retry_time: retry,
            ..StepStatus::default()
        }
    }

    #[test]
    fn each_change_is_counted_once() {
        let metrics = Metrics::new();
        let first = status(FlowPhase::Running, vec![step(StepPhase::Running, "", 0)]);
        let mut meter = Meter::new(&first);
        let mut tell = |status: &FlowStatus| meter.count(&metrics.flows, status);
        tell(&first);
        let failed = status(FlowPhase::Running, vec![step(StepPhase::Failed, "RetryScheduled", 0)]);
        tell(&failed);
        tell(&failed);
        tell(&status(FlowPhase::Running, vec![step(StepPhase::Running, "", 1)]));
        tell(&status(FlowPhase::Succeeded, vec![step(StepPhase::Succeeded, "", 1)]));
        let text = metrics.text().unwrap();
        for line in [
            "orlop_flow_phase_transitions_total{from=\"Running\",to=\"Succeeded\"} 1",
            "orlop_flows_finished_total{outcome=\"Succeeded\",reason=\"\"} 1",
            "orlop_flow_duration_seconds_sum{outcome=\"Succeeded\",reason=\"\"} 8.0",
            "orlop_step_phase_transitions_total{from=\"Running\",to=\"Failed\"} 1",
            "orlop_step_errors_total{reason=\"RetryScheduled\"} 1",
            "orlop_step_retries_total 1",
            "orlop_step_retry_backoff_seconds_sum 2.0",
            "orlop_step_duration_seconds_count{result=\"success\"} 1",
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
    }

    #[test]
    fn latency_counts_from_the_last_step_that_was_waited_for() {
        let metrics = Metrics::new();
        let named = |name: &str, after: &[&str], depends: Option<&str>| Step {
            name: name.to_owned(),
            dependencies: after.iter().map(|name| (*name).to_owned()).collect(),
            depends: depends.map(str::to_owned),
            ..Step::default()
        };
        let steps = vec![named("a", &[], None), named("b", &["a"], None), named("c", &[], Some("a.Succeeded && !b"))];
        let spec = FlowSpec { steps, ..FlowSpec::default() };
        let at = |seconds: i64| Some(Time::from_millis(seconds * 1000));
        let step = |name: &str, phase, start_time, completion_time, attempt| StepStatus {
            name: name.to_owned(),
            phase,
            start_time,
            completion_time,
            attempt,
            ..StepStatus::default()
        };
        let mut meter = Meter::with_waits(&spec, &status(FlowPhase::Pending, Vec::new()));
        let sum = || {
            let text = metrics.text().unwrap();
            let line = text.lines().find(|line| line.starts_with("orlop_step_start_latency_seconds_sum")).unwrap();
            line.rsplit_once(' ').unwrap().1.parse::<f64>().unwrap()
        };
        let (waits, runs, done) = (StepPhase::Pending, StepPhase::Running, StepPhase::Succeeded);
        // The flow starts at 1 s.
        let first = vec![step("a", runs, at(3), None, 1), step("b", waits, None, None, 0)];
        meter.count(&metrics.flows, &status(FlowPhase::Running, first));
        assert!((sum() - 2.0).abs() < 1e-9, "{}", sum());
        let second = vec![step("a", done, at(3), at(4), 1), step("b", runs, at(9), None, 1)];
        meter.count(&metrics.flows, &status(FlowPhase::Running, second));
        assert!((sum() - 7.0).abs() < 1e-9, "{}", sum());
        // One that is over before it is looked at counts; a second attempt does not.
        let third = vec![step("b", done, at(9), at(10), 2), step("c", done, at(11), at(12), 1)];
        meter.count(&metrics.flows, &status(FlowPhase::Running, third));
        assert!((sum() - 8.0).abs() < 1e-9, "{}", sum());
    }

    #[test]
    fn an_attempt_that_took_too_long_counts_as_such_though_it_is_tried_again() {
        let metrics = Metrics::new();
        let mut meter = Meter::new(&status(FlowPhase::Running, vec![step(StepPhase::Running, "", 0)]));
        let mut failed = step(StepPhase::Failed, "RetryScheduled", 0);
        failed.message = "Timeout: the attempt took longer than 1m0s".to_owned();
        meter.count(&metrics.flows, &status(FlowPhase::Running, vec![failed]));
        let text = metrics.text().unwrap();
        for line in [
            "orlop_timeouts_total{type=\"step\"} 1",
            "orlop_step_errors_total{reason=\"Timeout\"} 1",
            "orlop_step_duration_seconds_count{result=\"timeout\"} 1",
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
    }

    #[test]
    fn a_fan_out_counts_as_its_instances() {
        let metrics = Metrics::new();
        let mut meter = Meter::new(&status(FlowPhase::Running, Vec::new()));
        let named = |name: &str, instances| StepStatus {
            name: name.to_owned(),
            instances,
            ..step(StepPhase::Succeeded, "", 0)
        };
        let counts = InstanceCounts { total: 2, succeeded: 2, ..InstanceCounts::default() };
        let steps = vec![
            named("s", Some(counts)),
            named("s-i0", None),
            named("s-i1", None),
            named("empty", Some(InstanceCounts::default())),
        ];
        assert_eq!((0..4).map(|at| is_group(&steps, at)).collect::<Vec<_>>(), [true, false, false, false]);
        meter.count(&metrics.flows, &status(FlowPhase::Running, steps));
        let text = metrics.text().unwrap();
        assert!(text.contains("orlop_step_duration_seconds_count{result=\"success\"} 3"), "{text}");
    }

    #[test]
    fn approvals_and_timeouts_have_counts_of_their_own() {
        let metrics = Metrics::new();
        let waits = status(FlowPhase::Paused, vec![step(StepPhase::PendingApproval, "", 0)]);
        let mut meter = Meter::new(&waits);
        meter.count(&metrics.flows, &status(FlowPhase::Running, vec![step(StepPhase::Failed, "ApprovalTimedOut", 0)]));
        let text = metrics.text().unwrap();
        assert!(text.contains("orlop_approval_latency_seconds_sum 2.0"), "{text}");
        assert!(text.contains("orlop_timeouts_total{type=\"approval\"} 1"), "{text}");
    }
}
