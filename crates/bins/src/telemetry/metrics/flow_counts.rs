//! How flows stand, counted from their statuses when it is asked for.

use std::collections::BTreeMap;

use orlop_core::machine::flow::FlowPhase;
use orlop_core::machine::step::StepPhase;
use orlop_core::named::Named as _;
use orlop_core::spec::status::{ConditionStatus, FlowStatus, WaitsOn};

use super::{FlowMetrics, is_group};

/// How one or many flows stand.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FlowCounts {
    flows: BTreeMap<FlowPhase, i64>,
    steps: BTreeMap<StepPhase, i64>,
    /// Steps that wait for a worker, or for a slot of their flow.
    ready: i64,
    /// Attempts that were accepted and do not run yet, by what they wait for.
    waiting: BTreeMap<&'static str, i64>,
    /// Flows with a cancelled attempt that has not ended.
    blocked: i64,
}

impl FlowCounts {
    /// One flow, with its steps; a fan-out counts as its instances.
    #[must_use]
    pub fn of(status: &FlowStatus) -> Self {
        let mut counts = Self { flows: BTreeMap::from([(status.phase, 1)]), ..Self::default() };
        let each = status.steps.iter().enumerate();
        for (_, step) in each.filter(|(at, _)| !is_group(&status.steps, *at)) {
            *counts.steps.entry(step.phase).or_default() += 1;
            counts.ready += i64::from(step.phase == StepPhase::Pending && step.reason == "Queued");
            if let Some(waiting) = &step.waiting {
                *counts.waiting.entry(name(waiting.on)).or_default() += 1;
            }
        }
        let mut conditions = status.conditions.iter();
        let blocked = conditions.any(|known| known.kind == "CancelBlocked" && known.status == ConditionStatus::True);
        counts.blocked = i64::from(blocked);
        counts
    }

    /// Adds other flows.
    pub fn add(&mut self, other: &Self) {
        for (phase, count) in &other.flows {
            *self.flows.entry(*phase).or_default() += count;
        }
        for (phase, count) in &other.steps {
            *self.steps.entry(*phase).or_default() += count;
        }
        self.ready += other.ready;
        for (on, count) in &other.waiting {
            *self.waiting.entry(on).or_default() += count;
        }
        self.blocked += other.blocked;
    }

    /// Flows in a phase.
    #[must_use]
    pub fn in_phase(&self, phase: FlowPhase) -> i64 {
        self.flows.get(&phase).copied().unwrap_or_default()
    }

    /// Has metrics stand at this.
    pub fn show(&self, metrics: &FlowMetrics) {
        for phase in FlowPhase::ALL.iter().filter(|phase| !phase.is_terminal()) {
            metrics.flows.of([phase.as_str()]).set(self.in_phase(*phase));
        }
        let steps = |phase: StepPhase| self.steps.get(&phase).copied().unwrap_or_default();
        for phase in StepPhase::ALL {
            metrics.steps.of([phase.as_str()]).set(steps(*phase));
        }
        metrics.live_attempts.set(steps(StepPhase::Running));
        metrics.approvals_pending.set(steps(StepPhase::PendingApproval));
        metrics.ready.set(self.ready);
        for on in [WaitsOn::Suspended, WaitsOn::FirstPod, WaitsOn::Runtime, WaitsOn::NextPod].map(name) {
            metrics.waiting.of([on]).set(self.waiting.get(on).copied().unwrap_or_default());
        }
        metrics.cancels_blocked.set(self.blocked);
    }
}

const fn name(on: WaitsOn) -> &'static str {
    match on {
        WaitsOn::Suspended => "Suspended",
        WaitsOn::FirstPod => "FirstPod",
        WaitsOn::Runtime => "Runtime",
        WaitsOn::NextPod => "NextPod",
    }
}

#[cfg(test)]
mod tests {
    use orlop_core::spec::status::{Condition, InstanceCounts, StepStatus, Waiting};

    use super::*;

    #[test]
    fn a_fan_out_stands_as_its_instances() {
        let step = |name: &str, instances| StepStatus {
            name: name.to_owned(),
            phase: StepPhase::Running,
            instances,
            ..StepStatus::default()
        };
        let counts = InstanceCounts { total: 2, running: 2, ..InstanceCounts::default() };
        let steps = vec![step("many", Some(counts)), step("many-i0", None), step("many-i1", None)];
        let mut counts = FlowCounts::of(&FlowStatus { steps, ..FlowStatus::default() });
        assert_eq!(counts.steps, BTreeMap::from([(StepPhase::Running, 2)]));
        counts.add(&counts.clone());
        assert_eq!((counts.in_phase(FlowPhase::Pending), &counts.steps[&StepPhase::Running]), (2, &4));
    }

    #[test]
    fn what_waits_and_what_is_not_gone_is_counted() {
        let waiting = |on| StepStatus {
            phase: StepPhase::Running,
            waiting: Some(Waiting { on, reason: String::new(), message: String::new(), since: None }),
            ..StepStatus::default()
        };
        let steps = vec![waiting(WaitsOn::FirstPod), waiting(WaitsOn::FirstPod), waiting(WaitsOn::Suspended)];
        let blocked = Condition {
            kind: "CancelBlocked".to_owned(),
            status: ConditionStatus::True,
            last_transition_time: None,
            reason: String::new(),
            message: String::new(),
        };
        let mut counts = FlowCounts::of(&FlowStatus { steps, conditions: vec![blocked], ..FlowStatus::default() });
        counts.add(&FlowCounts::of(&FlowStatus::default()));
        let metrics = crate::telemetry::metrics::Metrics::new();
        counts.show(&metrics.flows);
        let text = metrics.text().unwrap();
        for line in [
            "orlop_attempts_waiting{on=\"FirstPod\"} 2",
            "orlop_attempts_waiting{on=\"Suspended\"} 1",
            "orlop_cancels_blocked 1",
        ] {
            assert!(text.contains(line), "{line} is not in {text}");
        }
    }
}
