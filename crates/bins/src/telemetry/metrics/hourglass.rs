//! Metrics of performers and executors. No label names an object.

use orlop_core::machine::performer::PerformerPhase;
use orlop_core::time::Time;
use orlop_k8s::hourglass::condition;
use orlop_k8s::hourglass::spec::{PerformerStatus, Retry};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;

use super::group::{Group, OWN};
use super::series::Series;

/// Seconds from 1 s to 2 h: what it takes until a pod serves. Images are large, and nodes come late.
fn rises() -> Histogram {
    Histogram::new([1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1200.0, 3600.0, 7200.0])
}

/// What happens to performers and executors, and how they stand.
#[derive(Debug)]
pub struct HourglassMetrics {
    /// Objects, by `controller` and `phase`.
    pub objects: Series<Gauge, 2>,
    /// Changes of their phase, by `controller`, `from` and `to`.
    pub transitions: Series<Counter, 3>,
    /// Executors that are degraded.
    pub executor_unready: Gauge,
    /// Objects of which somebody keeps changing a child, by `controller`.
    pub contended: Series<Gauge, 1>,
    /// Time from the creation of a performer until it first serves, in seconds.
    pub time_to_ready: Histogram,
    /// Duration of completed upgrades in seconds.
    pub upgrade_duration: Histogram,
    /// Finished upgrades, by `result`.
    pub upgrades: Series<Counter, 1>,
    /// Pods recreated, by `reason`.
    pub retries: Series<Counter, 1>,
    /// Performers without matching hardware, by `reason`.
    pub hardware_unavailable: Series<Gauge, 1>,
}

impl HourglassMetrics {
    pub(super) fn new(group: &mut Group) -> Self {
        Self {
            objects: group.series(
                "orlop_objects",
                "Performers and executors",
                ["controller", "phase"],
                OWN,
                Gauge::default,
            ),
            transitions: group.series(
                "orlop_phase_transitions",
                "Changes of the phase of performers and executors",
                ["controller", "from", "to"],
                OWN,
                Counter::default,
            ),
            executor_unready: group.single("orlop_executor_unready", "Executors that are degraded", Gauge::default()),
            contended: group.series(
                "orlop_contended",
                "Performers and executors with a child that another client keeps changing",
                ["controller"],
                OWN,
                Gauge::default,
            ),
            time_to_ready: group.single(
                "orlop_performer_time_to_ready_seconds",
                "Time from the creation of a performer until it first serves, in seconds",
                rises(),
            ),
            upgrade_duration: group.single(
                "orlop_performer_upgrade_duration_seconds",
                "Duration of completed upgrades in seconds",
                rises(),
            ),
            upgrades: group.series("orlop_performer_upgrades", "Finished upgrades", ["result"], OWN, Counter::default),
            retries: group.series("orlop_performer_retries", "Pods recreated", ["reason"], OWN, Counter::default),
            hardware_unavailable: group.series(
                "orlop_hardware_unavailable",
                "Performers without matching hardware",
                ["reason"],
                OWN,
                Gauge::default,
            ),
        }
    }
}

/// A performer as it was counted last. What was counted by an earlier process is that one's.
#[derive(Debug)]
pub struct PerformerMeter {
    known: PerformerStatus,
    /// Whether its first service is still to come.
    rises: bool,
    /// Whether the old pod gave way before the new one served.
    gave_way: bool,
}

impl PerformerMeter {
    /// A performer as it stands: what comes after this counts.
    #[must_use]
    pub fn new(status: PerformerStatus) -> Self {
        let rises = status.spec_hash.is_none() && status.phase != Some(PerformerPhase::Terminating);
        Self { known: status, rises, gave_way: false }
    }

    /// The status that was counted last.
    #[must_use]
    pub const fn status(&self) -> &PerformerStatus {
        &self.known
    }

    /// Why there is no hardware for it; none where there is.
    #[must_use]
    pub fn missing(&self) -> Option<&str> {
        let known = condition::of(&self.known.conditions, "HardwareAvailable")?;
        (known.status == "False").then_some(known.reason.as_str())
    }

    /// Counts what has changed.
    pub fn count(&mut self, metrics: &HourglassMetrics, created_at: Option<Time>, status: PerformerStatus) {
        if self.rises && status.ready == Some(true) {
            self.rises = false;
            observe(&metrics.time_to_ready, created_at, status.ready_time);
        }
        let retried = |retry: &Option<Retry>| retry.as_ref().map_or(0, |retry| retry.count);
        if let Some(retry) = status.retry.as_ref().filter(|retry| retry.count > retried(&self.known.retry)) {
            metrics.retries.of([&retry.reason]).inc();
        }
        self.upgrade(metrics, &status);
        self.known = status;
    }

    /// Counts the end of an upgrade.
    fn upgrade(&mut self, metrics: &HourglassMetrics, status: &PerformerStatus) {
        let known = &self.known;
        let served = known.spec_hash.as_ref();
        if status.failed_spec_hash.is_some() && status.failed_spec_hash != known.failed_spec_hash {
            metrics.upgrades.of(["rolled_back"]).inc();
            self.gave_way = false;
            return;
        }
        // One that was not lost has given way.
        self.gave_way |= known.active.is_some()
            && status.active.is_none()
            && status.candidate.is_some()
            && status.retry == known.retry;
        let Some(candidate) = known.candidate.as_ref().filter(|one| served.is_some_and(|hash| *hash != one.spec_hash))
        else {
            return;
        };
        if status.spec_hash.as_ref() == Some(&candidate.spec_hash) {
            metrics.upgrades.of([if self.gave_way { "recreated" } else { "completed" }]).inc();
            observe(&metrics.upgrade_duration, candidate.started_at, status.last_upgrade);
            self.gave_way = false;
        } else if status.candidate.as_ref().is_none_or(|next| next.spec_hash != candidate.spec_hash) {
            metrics.upgrades.of(["superseded"]).inc();
            self.gave_way &= status.candidate.is_some();
        }
    }
}

fn observe(histogram: &Histogram, from: Option<Time>, to: Option<Time>) {
    if let (Some(from), Some(to)) = (from, to) {
        histogram.observe(to.since(from).as_secs_f64());
    }
}

#[cfg(test)]
mod tests {
    use orlop_k8s::hourglass::spec::{Candidate, Condition, Incarnation};

    use super::super::OperatorMetrics;
    use super::*;

    fn at(seconds: i64) -> Option<Time> {
        Some(Time::from_millis(seconds * 1000))
    }

    fn serves(hash: &str) -> PerformerStatus {
        let active = Incarnation { spec_hash: hash.to_owned(), ..Incarnation::default() };
        PerformerStatus {
            phase: Some(PerformerPhase::Running),
            spec_hash: Some(hash.to_owned()),
            active: Some(active),
            ready: Some(true),
            ready_time: at(30),
            ..PerformerStatus::default()
        }
    }

    fn upgrades(hash: &str) -> PerformerStatus {
        let candidate = Candidate { spec_hash: hash.to_owned(), started_at: at(100), ..Candidate::default() };
        PerformerStatus { candidate: Some(candidate), phase: Some(PerformerPhase::Upgrading), ..serves("one") }
    }

    /// What a way of statuses comes to, as lines that are not zero.
    fn counted(way: Vec<PerformerStatus>) -> String {
        let metrics = OperatorMetrics::new();
        let mut way = way.into_iter();
        let mut meter = PerformerMeter::new(way.next().unwrap());
        way.for_each(|status| meter.count(&metrics.hourglass, at(10), status));
        let text = metrics.text().unwrap();
        let mut lines: Vec<&str> = text.lines().filter(|line| line.starts_with("orlop_performer_")).collect();
        lines.retain(|line| !line.contains("_bucket") && !line.ends_with(" 0") && !line.ends_with(" 0.0"));
        // Series come in no particular order.
        lines.sort_unstable();
        lines.join("\n")
    }

    #[test]
    fn the_first_service_is_timed_from_the_creation_and_once() {
        let lines = counted(vec![PerformerStatus::default(), serves("one"), serves("one")]);
        insta::assert_snapshot!(lines, @"
        orlop_performer_time_to_ready_seconds_count 1
        orlop_performer_time_to_ready_seconds_sum 20.0
        ");
        assert_eq!(counted(vec![serves("one"), serves("one")]), "", "an earlier process has counted it");
    }

    #[test]
    fn upgrades_are_counted_by_how_they_end() {
        let done = PerformerStatus { last_upgrade: at(145), ..serves("two") };
        insta::assert_snapshot!(counted(vec![upgrades("two"), done.clone()]), @r#"
        orlop_performer_upgrade_duration_seconds_count 1
        orlop_performer_upgrade_duration_seconds_sum 45.0
        orlop_performer_upgrades_total{result="completed"} 1
        "#);
        let gave_way = PerformerStatus { active: None, ready: Some(false), ..upgrades("two") };
        let recreated = counted(vec![upgrades("two"), gave_way, done]);
        assert!(recreated.contains("{result=\"recreated\"} 1") && !recreated.contains("completed\""), "{recreated}");
        let failed = PerformerStatus { failed_spec_hash: Some("two".into()), ..serves("one") };
        assert_eq!(counted(vec![upgrades("two"), failed]), "orlop_performer_upgrades_total{result=\"rolled_back\"} 1");
        let superseded = "orlop_performer_upgrades_total{result=\"superseded\"} 1";
        assert_eq!(counted(vec![upgrades("two"), upgrades("three")]), superseded);
        assert_eq!(counted(vec![upgrades("two"), serves("one")]), superseded);
    }

    #[test]
    fn retries_are_counted_by_reason_and_missing_hardware_is_named() {
        let retries = |count, reason: &str| {
            let retry = Retry { count, reason: reason.to_owned(), next_retry_time: None };
            PerformerStatus { retry: Some(retry), ..serves("one") }
        };
        let lines =
            counted(vec![serves("one"), retries(1, "NodeLost"), retries(1, "NodeLost"), retries(2, "PodFailed")]);
        insta::assert_snapshot!(lines, @r#"
        orlop_performer_retries_total{reason="NodeLost"} 1
        orlop_performer_retries_total{reason="PodFailed"} 1
        "#);
        let said = |status: &str| Condition {
            kind: "HardwareAvailable".into(),
            status: status.into(),
            reason: "NoMatchingLabels".into(),
            ..Condition::default()
        };
        let with = |status| PerformerMeter::new(PerformerStatus { conditions: vec![said(status)], ..serves("one") });
        assert_eq!((with("False").missing(), with("True").missing()), (Some("NoMatchingLabels"), None));
    }
}
