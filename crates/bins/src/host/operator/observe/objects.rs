//! What the controllers of performers and executors tell.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use orlop_core::machine::executor::{ExecutorPhase, ExecutorState};
use orlop_core::machine::performer::{PerformerPhase, PerformerState};
use orlop_core::named::Named;
use orlop_core::time::Time;
use orlop_k8s::hourglass::condition;
use orlop_k8s::hourglass::controller::{ControllerEvent, Monitor};
use orlop_k8s::hourglass::plan::Step;
use orlop_k8s::hourglass::spec::{ExecutorStatus, PerformerStatus};
use orlop_k8s::shell::Key;
use serde_json::Value;

use super::super::Which;
use super::LoopMonitor;
use crate::telemetry::metrics::PerformerMeter;

/// Reasons for which there is no hardware.
const MISSING: [&str; 5] =
    ["NoMatchingLabels", "InsufficientAllocatable", "UntoleratedTaint", "RuntimeClassMissing", "DeviceClassMissing"];

/// What stands of one object.
enum TrackedObject {
    Performer(Box<PerformerMeter>),
    Executor { phase: Option<ExecutorPhase>, unready: bool, contended: bool },
}

impl TrackedObject {
    /// Whether somebody keeps changing a child of it.
    fn is_contended(&self) -> bool {
        match self {
            Self::Executor { contended, .. } => *contended,
            Self::Performer(meter) => {
                condition::of(&meter.status().conditions, "Contended").is_some_and(|known| known.status == "True")
            }
        }
    }
}

/// See the module.
pub(in super::super) struct ObjectMonitor {
    common: LoopMonitor,
    objects: Mutex<BTreeMap<Key, TrackedObject>>,
}

impl ObjectMonitor {
    pub(super) fn new(common: LoopMonitor) -> Self {
        Self { common, objects: Mutex::default() }
    }

    fn objects(&self) -> MutexGuard<'_, BTreeMap<Key, TrackedObject>> {
        self.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn observed(&self, key: &Key, created_at: Option<Time>, status: &Value) {
        let mut objects = self.objects();
        if self.common.which == Which::Executor {
            objects.insert(key.clone(), executor(status));
            return;
        }
        // One that cannot be read stands as if it had none, as it does for the controller.
        let status: PerformerStatus = serde_json::from_value(status.clone()).unwrap_or_default();
        match objects.get_mut(key) {
            Some(TrackedObject::Performer(meter)) if *meter.status() == status => {}
            Some(TrackedObject::Performer(meter)) => meter.count(&self.common.metrics.hourglass, created_at, status),
            _ => drop(objects.insert(key.clone(), TrackedObject::Performer(Box::new(PerformerMeter::new(status))))),
        }
    }

    fn stepped(&self, key: &Key, step: &Step) {
        tracing::info!(controller = self.common.which.name(), object = %key, from = step.from, to = step.to, "steps");
        let phase = |state: &str| match self.common.which {
            Which::Executor => ExecutorState::from_name(state)?.phase().map(Named::as_str),
            _ => PerformerState::from_name(state)?.phase().map(Named::as_str),
        };
        // What has no phase is not there: not yet, or not any more.
        let name = |state: Option<&str>| state.and_then(phase).unwrap_or("none");
        self.common.moved(name(step.from), name(Some(step.to)));
    }

    /// Takes what stands into the metrics.
    pub(super) fn stand(&self) {
        let objects = self.objects();
        let performers = || {
            objects.values().filter_map(|known| match known {
                TrackedObject::Performer(meter) => Some(meter),
                TrackedObject::Executor { .. } => None,
            })
        };
        let count = |holds: &dyn Fn(&TrackedObject) -> bool| {
            i64::try_from(objects.values().filter(|known| holds(known)).count()).unwrap_or(i64::MAX)
        };
        let metrics = &self.common.metrics.hourglass;
        metrics.contended.of([self.common.which.name()]).set(count(&TrackedObject::is_contended));
        if self.common.which == Which::Executor {
            self.common.stands(ExecutorPhase::ALL, |wanted| {
                count(&|known| matches!(known, TrackedObject::Executor { phase, .. } if *phase == Some(wanted)))
            });
            metrics
                .executor_unready
                .set(count(&|known| matches!(known, TrackedObject::Executor { unready: true, .. })));
            return;
        }
        self.common.stands(PerformerPhase::ALL, |wanted| {
            count(&|known| matches!(known, TrackedObject::Performer(meter) if meter.status().phase == Some(wanted)))
        });
        for reason in MISSING {
            let missing = performers().filter(|meter| meter.missing() == Some(reason)).count();
            metrics.hardware_unavailable.of([reason]).set(i64::try_from(missing).unwrap_or(i64::MAX));
        }
    }
}

/// What stands of an executor: it is ready when pods are, and nothing is wrong.
fn executor(status: &Value) -> TrackedObject {
    let status: ExecutorStatus = serde_json::from_value(status.clone()).unwrap_or_default();
    let is = |kind, wanted| condition::of(&status.conditions, kind).is_some_and(|known| known.status == wanted);
    let ready = is("Available", "True") && is("Degraded", "False");
    let unready = !ready && status.phase != Some(ExecutorPhase::Terminating);
    TrackedObject::Executor { phase: status.phase, unready, contended: is("Contended", "True") }
}

impl Monitor for ObjectMonitor {
    fn now(&self) -> Duration {
        self.common.start.elapsed()
    }

    fn record(&self, event: ControllerEvent<'_>) {
        match event {
            ControllerEvent::Loop(event) => self.common.record(event),
            ControllerEvent::RequestFailed { class } => self.common.failed(&class.to_string()),
            ControllerEvent::Observed { key, created_at, status } => self.observed(key, created_at, status),
            ControllerEvent::Transitioned { key, step } => self.stepped(key, step),
            ControllerEvent::Forgotten { key } => drop(self.objects().remove(key)),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use orlop_core::error::Class;
    use orlop_k8s::shell::LoopEvent;
    use orlop_k8s::shell::lease::Term;
    use serde_json::json;

    use super::super::super::OperatorHealth;
    use super::super::Monitors;
    use super::*;
    use crate::telemetry::metrics::OperatorMetrics;

    fn condition(kind: &str, status: &str, reason: &str) -> Value {
        json!({"type": kind, "status": status, "reason": reason, "message": "m"})
    }

    #[test]
    fn a_pass_counts_by_its_result_and_a_failure_by_its_class() {
        let metrics = Arc::new(OperatorMetrics::new());
        let monitors = Monitors::new(&metrics, &OperatorHealth::new(&Which::ALL, Term::default(), false));
        for failed in [false, true, false] {
            monitors
                .performers
                .record(ControllerEvent::Loop(LoopEvent::Reconciled { took: Duration::from_millis(1), failed }));
        }
        monitors.performers.record(ControllerEvent::RequestFailed { class: Class::Denied });
        let text = metrics.text().unwrap();
        for line in [
            "orlop_reconcile_total{controller=\"performer\",result=\"done\"} 2",
            "orlop_reconcile_total{controller=\"performer\",result=\"failed\"} 1",
            "orlop_reconcile_duration_seconds_count{controller=\"performer\"} 3",
            "orlop_reconcile_errors_total{controller=\"performer\",class=\"denied\"} 1",
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
    }

    #[test]
    fn what_stands_is_what_the_last_statuses_show() {
        let metrics = Arc::new(OperatorMetrics::new());
        let monitors = Monitors::new(&metrics, &OperatorHealth::new(&Which::ALL, Term::default(), false));
        let key = Key { namespace: "n".into(), name: "avs".into() };
        let shown = |monitor: &ObjectMonitor, status: Value| {
            monitor.record(ControllerEvent::Observed { key: &key, created_at: None, status: &status });
        };
        let missing = condition("HardwareAvailable", "False", "NoMatchingLabels");
        let contended = condition("Contended", "True", "FieldRewritten");
        shown(&monitors.performers, json!({"phase": "Failed", "conditions": [missing, contended]}));
        shown(&monitors.executors, json!({"phase": "Running", "conditions": [condition("Available", "True", "r")]}));
        let step = Step { from: Some("PodCreation"), to: "Failed" };
        monitors.performers.record(ControllerEvent::Transitioned { key: &key, step: &step });
        monitors.performers.record(ControllerEvent::Transitioned {
            key: &key,
            step: &Step { from: Some("PodCreation"), to: "Scheduling" },
        });
        monitors
            .executors
            .record(ControllerEvent::Transitioned { key: &key, step: &Step { from: None, to: "Pending" } });
        monitors.stand();
        let text = metrics.text().unwrap();
        for line in [
            "orlop_objects{controller=\"performer\",phase=\"Failed\"} 1",
            "orlop_objects{controller=\"executor\",phase=\"Running\"} 1",
            "orlop_hardware_unavailable{reason=\"NoMatchingLabels\"} 1",
            "orlop_executor_unready 1",
            "orlop_contended{controller=\"performer\"} 1",
            "orlop_contended{controller=\"executor\"} 0",
            "orlop_phase_transitions_total{controller=\"performer\",from=\"Creating\",to=\"Failed\"} 1",
            "orlop_phase_transitions_total{controller=\"executor\",from=\"none\",to=\"Pending\"} 1",
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
        assert!(!text.contains("from=\"Creating\",to=\"Creating\""), "a step within a phase is no change of it");
        let well = [condition("Available", "True", "r"), condition("Degraded", "False", "AsExpected")];
        shown(&monitors.executors, json!({"phase": "Running", "conditions": well}));
        monitors.performers.record(ControllerEvent::Forgotten { key: &key });
        monitors.stand();
        let text = metrics.text().unwrap();
        assert!(text.contains("orlop_executor_unready 0"), "{text}");
        assert!(text.contains("orlop_objects{controller=\"performer\",phase=\"Failed\"} 0"), "{text}");
    }

    /// The table: name, type, labels.
    const TABLE: &str = "
        orlop_reconcile_total counter controller result
        orlop_reconcile_duration_seconds histogram controller
        orlop_reconcile_errors_total counter controller class
        orlop_api_writes_total counter controller kind verb
        orlop_workqueue_depth gauge controller
        orlop_leader gauge
        orlop_watch_restarts_total counter kind
        orlop_build_info gauge version
        orlop_objects gauge controller phase
        orlop_phase_transitions_total counter controller from to
        orlop_executor_unready gauge
        orlop_contended gauge controller
        orlop_performer_time_to_ready_seconds histogram
        orlop_performer_upgrade_duration_seconds histogram
        orlop_performer_upgrades_total counter result
        orlop_performer_retries_total counter reason
        orlop_hardware_unavailable gauge reason";

    #[test]
    fn every_metric_of_the_contract_has_its_name_type_and_labels() {
        let metrics = Arc::new(OperatorMetrics::new());
        let monitors = Monitors::new(&metrics, &OperatorHealth::new(&Which::ALL, Term::default(), false));
        let key = Key { namespace: "n".into(), name: "avs".into() };
        let performers = &monitors.performers;
        performers.record(ControllerEvent::Loop(LoopEvent::Heartbeat { depth: 1 }));
        performers
            .record(ControllerEvent::Loop(LoopEvent::Reconciled { took: Duration::from_millis(1), failed: true }));
        performers.record(ControllerEvent::RequestFailed { class: Class::Denied });
        performers.record(ControllerEvent::Loop(LoopEvent::WatchRestarted { resource: "pods" }));
        performers.record(ControllerEvent::Transitioned { key: &key, step: &Step { from: None, to: "Pending" } });
        metrics.kube.writes.of(["performer", "pods", "create"]).inc();
        metrics.hourglass.upgrades.of(["completed"]).inc();
        metrics.hourglass.retries.of(["NodeLost"]).inc();
        monitors.stand();
        let text = metrics.text().unwrap();
        for row in TABLE.trim().lines() {
            let mut words = row.split_whitespace();
            let (name, kind) = (words.next().unwrap(), words.next().unwrap());
            let stem = name.strip_suffix("_total").unwrap_or(name);
            let said = text.lines().find_map(|line| line.strip_prefix(&format!("# TYPE {stem} ")));
            assert_eq!(said, Some(kind), "{name}");
            let shown = if kind == "histogram" { format!("{name}_count") } else { name.to_owned() };
            let series = text.lines().find_map(|line| line.strip_prefix(&shown)?.split_once(' '));
            let (labels, _) = series.unwrap_or_else(|| panic!("{name} is not in\n{text}"));
            let labels: Vec<&str> = labels
                .trim_matches(['{', '}'])
                .split(',')
                .filter_map(|pair| pair.split_once('=').map(|(label, _)| label))
                .collect();
            assert_eq!(labels, words.collect::<Vec<_>>(), "{name}");
        }
    }
}
