//! What the controller of flows tells.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use orlop_core::event::FlowEvent;
use orlop_core::machine::flow::FlowPhase;
use orlop_core::named::Named as _;
use orlop_core::spec::status::FlowStatus;
use orlop_k8s::flow::{ControllerEvent, Key, Monitor};
use orlop_k8s::status::Level;

use super::LoopMonitor;
use crate::telemetry::metrics::{FlowCounts, Meter, OperatorMetrics};

/// What the controller of flows tells.
pub(in super::super) struct FlowMonitor {
    common: LoopMonitor,
    /// What was counted of each flow, its phase, and how it stands.
    flows: Mutex<BTreeMap<Key, (Meter, FlowPhase, FlowCounts)>>,
}

impl FlowMonitor {
    pub(super) fn new(common: LoopMonitor) -> Self {
        Self { common, flows: Mutex::default() }
    }

    fn metrics(&self) -> &OperatorMetrics {
        &self.common.metrics
    }

    fn shown(&self, flow: &Key, status: &FlowStatus, counts: bool) {
        let mut flows = self.flows();
        match flows.get_mut(flow).filter(|_| counts) {
            Some((meter, phase, stands)) => {
                self.common.moved(phase.as_str(), status.phase.as_str());
                meter.count(&self.metrics().flows_of(&flow.namespace), status);
                (*phase, *stands) = (status.phase, FlowCounts::of(status));
            }
            // What an earlier process has counted is that one's.
            None => drop(flows.insert(flow.clone(), (Meter::new(status), status.phase, FlowCounts::of(status)))),
        }
    }

    fn flows(&self) -> MutexGuard<'_, BTreeMap<Key, (Meter, FlowPhase, FlowCounts)>> {
        self.flows.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes what stands into the metrics. A place whose flows are gone stands at zero.
    pub(super) fn stand(&self) {
        let metrics = self.metrics();
        let mut places: BTreeMap<String, FlowCounts> =
            metrics.known_places().into_iter().map(|place| (place, FlowCounts::default())).collect();
        let mut all = FlowCounts::default();
        for (key, (_, _, stands)) in self.flows().iter().filter(|(_, (_, phase, _))| !phase.is_terminal()) {
            all.add(stands);
            places.entry(metrics.place(&key.namespace).to_owned()).or_default().add(stands);
        }
        self.common.stands(FlowPhase::ALL, |phase| all.in_phase(phase));
        for (place, stands) in &places {
            stands.show(&metrics.flows_of(place));
        }
    }

    fn forgotten(&self, flow: &Key) {
        self.flows().remove(flow);
    }
}

impl Monitor for FlowMonitor {
    fn now(&self) -> Duration {
        self.common.start.elapsed()
    }

    fn record(&self, event: ControllerEvent<'_>) {
        let metrics = &self.metrics().controllers;
        match event {
            ControllerEvent::Loop(event) => self.common.record(event),
            ControllerEvent::RequestFailed { class } => self.common.failed(class),
            ControllerEvent::Planned { namespace, took } => {
                self.metrics().flows_of(namespace).plan_duration.observe(took.as_secs_f64());
            }
            ControllerEvent::Opened { flow, status } => self.shown(flow, status, false),
            ControllerEvent::StatusChanged { flow, status } => self.shown(flow, status, true),
            ControllerEvent::Forgotten { flow } => self.forgotten(flow),
            ControllerEvent::StatusStored { level, bytes, stored, took } => {
                let result = if stored { "stored" } else { "refused" };
                metrics.status_writes.of([name(level), result]).inc();
                metrics.status_duration.observe(took.as_secs_f64());
                metrics.status_bytes.observe(bytes as f64);
            }
            ControllerEvent::EventApplied { event, took, fenced } => {
                metrics.events.of([word(event)]).inc();
                metrics.apply.observe(took.as_secs_f64());
                metrics.fenced.inc_by(u64::from(fenced));
            }
            ControllerEvent::Artifact { stored, store, bytes } => {
                let direction = if stored { "in" } else { "out" };
                metrics.artifact_bytes.of([direction, store]).inc_by(bytes);
            }
            ControllerEvent::EventLost => drop(metrics.events_lost.inc()),
            ControllerEvent::Started { namespace, waited } => {
                self.metrics().flows_of(namespace).step_start_latency.observe(waited.as_secs_f64());
            }
            _ => {}
        }
    }
}

const fn name(level: Level) -> &'static str {
    match level {
        Level::Inline => "0",
        Level::Packed => "1",
        Level::Spilled => "2",
    }
}

/// The one word for what the engine is given.
const fn word(event: &FlowEvent) -> &'static str {
    match event {
        FlowEvent::Admit => "Admit",
        FlowEvent::Blocked { .. } => "Blocked",
        FlowEvent::ResourcesReady { .. } => "ResourcesReady",
        FlowEvent::ResourcesFailed { .. } => "ResourcesFailed",
        FlowEvent::AttemptAccepted { .. } => "AttemptAccepted",
        FlowEvent::AttemptDelayed { .. } => "AttemptDelayed",
        FlowEvent::AttemptRefused { .. } => "AttemptRefused",
        FlowEvent::AttemptSucceeded { .. } => "AttemptSucceeded",
        FlowEvent::AttemptFailed { .. } => "AttemptFailed",
        FlowEvent::AttemptGone { .. } => "AttemptGone",
        FlowEvent::AttemptLost { .. } => "AttemptLost",
        FlowEvent::AttemptWaiting { .. } => "AttemptWaiting",
        FlowEvent::CancelBlocked { .. } => "CancelBlocked",
        FlowEvent::GoneConfirmed { .. } => "GoneConfirmed",
        FlowEvent::CancelConfirmed { .. } => "CancelConfirmed",
        FlowEvent::ItemsResolved { .. } => "ItemsResolved",
        FlowEvent::Approval { .. } => "Approval",
        FlowEvent::SetSuspend { .. } => "SetSuspend",
        FlowEvent::Stop { .. } => "Stop",
        FlowEvent::Hold { .. } => "Hold",
        FlowEvent::Import { .. } => "Import",
        FlowEvent::FinalStatusWritten => "FinalStatusWritten",
        FlowEvent::Tick => "Tick",
        _ => "Other",
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use orlop_core::machine::step::StepPhase;
    use orlop_core::spec::status::StepStatus;
    use orlop_k8s::shell::lease::Term;

    use super::super::super::{OperatorHealth, Which};
    use super::*;
    use crate::telemetry::metrics::Telling;

    #[test]
    fn bytes_of_artifacts_are_counted_by_where_they_go_and_by_store() {
        let metrics = Arc::new(OperatorMetrics::new());
        let health = OperatorHealth::new(&Which::ALL, Term::default(), false);
        let monitor = FlowMonitor::new(LoopMonitor::new(Which::JobFlow, Arc::clone(&metrics), health));
        for (stored, store, bytes) in [(true, "s3", 5), (true, "s3", 7), (false, "s3", 5), (true, "configmap", 1)] {
            monitor.record(ControllerEvent::Artifact { stored, store, bytes });
        }
        let text = metrics.text().unwrap();
        let mut lines: Vec<&str> = text.lines().filter(|line| line.starts_with("orlop_artifact_bytes_total")).collect();
        lines.sort_unstable();
        insta::assert_snapshot!(lines.join("\n"), @r#"
        orlop_artifact_bytes_total{direction="in",store="configmap"} 1
        orlop_artifact_bytes_total{direction="in",store="s3"} 12
        orlop_artifact_bytes_total{direction="out",store="s3"} 5
        "#);
    }

    #[test]
    fn what_stands_is_what_the_last_statuses_show() {
        let metrics = Arc::new(OperatorMetrics::new());
        let health = OperatorHealth::new(&Which::ALL, Term::default(), false);
        let monitor = FlowMonitor::new(LoopMonitor::new(Which::JobFlow, Arc::clone(&metrics), health));
        let key = |name: &str| Key { namespace: "n".into(), name: name.into() };
        let status = |phase, step| FlowStatus {
            phase,
            steps: vec![StepStatus { name: "s".into(), phase: step, ..StepStatus::default() }],
            ..FlowStatus::default()
        };
        let (a, b) = (key("a"), key("b"));
        monitor.record(ControllerEvent::Opened { flow: &a, status: &FlowStatus::default() });
        monitor.record(ControllerEvent::StatusChanged {
            flow: &a,
            status: &status(FlowPhase::Running, StepPhase::Running),
        });
        monitor.record(ControllerEvent::Opened {
            flow: &b,
            status: &status(FlowPhase::Paused, StepPhase::PendingApproval),
        });
        monitor.stand();
        let text = metrics.text().unwrap();
        let has = |line: &str| assert!(text.contains(line), "{line} is not in\n{text}");
        has("orlop_flows{phase=\"Running\"} 1");
        has("orlop_steps{phase=\"PendingApproval\"} 1");
        has("orlop_live_attempts 1");
        has("orlop_objects{controller=\"jobflow\",phase=\"Running\"} 1");
        has("orlop_phase_transitions_total{controller=\"jobflow\",from=\"Pending\",to=\"Running\"} 1");
        has("orlop_flow_phase_transitions_total{from=\"Pending\",to=\"Running\"} 1");
        monitor.record(ControllerEvent::Forgotten { flow: &a });
        monitor.record(ControllerEvent::Forgotten { flow: &b });
        monitor.stand();
        let text = metrics.text().unwrap();
        assert!(text.contains("orlop_flows{phase=\"Running\"} 0") && text.contains("orlop_live_attempts 0"), "{text}");
    }

    #[test]
    fn flows_stand_in_their_namespaces_where_that_is_asked_for() {
        let metrics = Arc::new(OperatorMetrics::telling(Telling { namespaces: true, ..Telling::default() }));
        let health = OperatorHealth::new(&Which::ALL, Term::default(), false);
        let monitor = FlowMonitor::new(LoopMonitor::new(Which::JobFlow, Arc::clone(&metrics), health));
        let flow = |namespace: &str| Key { namespace: namespace.into(), name: "etl".into() };
        let steps = vec![StepStatus { name: "s".into(), phase: StepPhase::Running, ..StepStatus::default() }];
        let running = FlowStatus { phase: FlowPhase::Running, steps, ..FlowStatus::default() };
        for namespace in ["physics", "labs"] {
            monitor.record(ControllerEvent::Opened { flow: &flow(namespace), status: &FlowStatus::default() });
            monitor.record(ControllerEvent::StatusChanged { flow: &flow(namespace), status: &running });
        }
        monitor.record(ControllerEvent::Planned { namespace: "labs", took: Duration::from_millis(3) });
        monitor.record(ControllerEvent::Started { namespace: "labs", waited: Duration::from_secs(2) });
        monitor.stand();
        monitor.record(ControllerEvent::Forgotten { flow: &flow("physics") });
        monitor.stand();
        let text = metrics.text().unwrap();
        for line in [
            "orlop_flows{namespace=\"labs\",phase=\"Running\"} 1",
            "orlop_flows{namespace=\"physics\",phase=\"Running\"} 0",
            "orlop_live_attempts{namespace=\"labs\"} 1",
            "orlop_live_attempts{namespace=\"physics\"} 0",
            "orlop_flow_phase_transitions_total{namespace=\"physics\",from=\"Pending\",to=\"Running\"} 1",
            "orlop_step_start_latency_seconds_sum{namespace=\"labs\"} 2.0",
            "orlop_plan_duration_seconds_count{namespace=\"labs\"} 1",
            "orlop_objects{controller=\"jobflow\",phase=\"Running\"} 1",
        ] {
            assert!(text.lines().any(|known| known == line), "{line} is not in\n{text}");
        }
    }
}
