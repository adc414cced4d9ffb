//! A bench for engine tests: steps from short texts, a substrate that accepts at once, and questions about the result.

use std::sync::Arc;
use std::time::Duration;

use orlop_core::attempt::{Address, ContainerEnd, PodEnd};
use orlop_core::effect::FlowEffect;
use orlop_core::event::{AttemptResult, FlowEvent};
use orlop_core::machine::flow::FlowPhase;
use orlop_core::spec::flow::FlowSpec;
use orlop_core::spec::meta::ObjectReference;
use orlop_core::spec::status::{FlowStatus, StepStatus, WaitsOn};
use orlop_core::time::Time;
use serde_json::{Value, json};

use crate::engine::{FlowMeta, State, apply, init, next_deadline, restore, snapshot, view};
use crate::plan::Plan;

pub(super) struct Bench {
    pub(super) plan: Plan,
    pub(super) state: State,
    pub(super) now: Time,
    pub(super) effects: Vec<FlowEffect>,
}

/// A spec from JSON; steps without a template get one.
pub(super) fn spec(mut value: Value) -> FlowSpec {
    for part in ["steps", "finally"] {
        for step in value.get_mut(part).and_then(Value::as_array_mut).into_iter().flatten() {
            if step.get("type").is_none() && step.get("template").is_none() {
                step["template"] = json!({"apiVersion": "batch/v1", "kind": "Job", "spec": {}});
            }
        }
    }
    serde_json::from_value(value).expect("the test's spec fits the types")
}

impl Bench {
    /// Plans, begins and admits a flow.
    pub(super) fn new(value: Value) -> Self {
        let mut bench = Self::unadmitted(value);
        bench.tell(FlowEvent::Admit);
        bench
    }

    pub(super) fn unadmitted(value: Value) -> Self {
        Self::with_meta(
            value,
            FlowMeta { uid: "uid-1".into(), name: "flow".into(), namespace: "default".into(), ..FlowMeta::default() },
        )
    }

    pub(super) fn with_meta(value: Value, meta: FlowMeta) -> Self {
        let plan = Plan::build(Arc::new(spec(value))).expect("the test's spec plans");
        let now = Time::from_millis(1_000_000);
        let mut effects = Vec::new();
        let state = init(&plan, &meta, now, &mut effects);
        Self { plan, state, now, effects }
    }

    pub(super) fn tell(&mut self, event: FlowEvent) {
        self.effects.clear();
        apply(&self.plan, &mut self.state, &event, self.now, &mut self.effects);
        let again = restore(&self.plan, &snapshot(&self.state)).expect("a snapshot restores");
        assert_eq!(snapshot(&again), snapshot(&self.state));
        self.state.sanity_check(&self.plan).unwrap_or_else(|error| panic!("after {event:?}: {error}"));
        assert_eq!(next_deadline(&again), next_deadline(&self.state), "deadline after {event:?}");
    }

    pub(super) fn wait(&mut self, seconds: u64) {
        self.now = self.now.plus(Duration::from_secs(seconds));
        self.tell(FlowEvent::Tick);
    }

    pub(super) fn at(&self, name: &str) -> Address {
        self.plan.address_of(name).unwrap_or_else(|| panic!("no step {name}"))
    }

    fn attempt(&self, name: &str) -> u32 {
        self.state.attempt(self.at(name)).map_or(0, |(_, attempt)| attempt)
    }

    pub(super) fn accept(&mut self, name: &str) {
        let (at, attempt) = (self.at(name), self.attempt(name));
        let reference = ObjectReference { kind: "Process".into(), name: name.into(), ..ObjectReference::default() };
        self.tell(FlowEvent::AttemptAccepted { at, attempt, reference });
    }

    pub(super) fn succeed(&mut self, name: &str) {
        self.succeed_with(name, AttemptResult::default());
    }

    pub(super) fn succeed_with(&mut self, name: &str, result: AttemptResult) {
        let (at, attempt, ended_at) = (self.at(name), self.attempt(name), self.now);
        self.tell(FlowEvent::AttemptSucceeded { at, attempt, result: Box::new(result), ended_at });
    }

    pub(super) fn fail(&mut self, name: &str) {
        self.fail_with(name, 1);
    }

    pub(super) fn fail_with(&mut self, name: &str, exit_code: i32) {
        let (at, attempt, ended_at) = (self.at(name), self.attempt(name), self.now);
        self.tell(FlowEvent::AttemptFailed {
            at,
            attempt,
            reason: "NonZeroExit".into(),
            message: format!("exit code {exit_code}"),
            pods: vec![PodEnd { containers: vec![ContainerEnd { name: "main".into(), exit_code }] }],
            result: Box::default(),
            ended_at,
        });
    }

    /// Its attempt waits, or does no more.
    pub(super) fn queue(&mut self, name: &str, on: Option<WaitsOn>) {
        let (at, attempt, since) = (self.at(name), self.attempt(name), self.now);
        let (reason, message) = (on.map(|on| format!("{on:?}")).unwrap_or_default(), String::new());
        self.tell(FlowEvent::AttemptWaiting { at, attempt, on, reason, message, since });
    }

    pub(super) fn confirm(&mut self, name: &str) {
        let (at, attempt, ended_at) = (self.at(name), self.attempt(name), self.now);
        self.tell(FlowEvent::CancelConfirmed { at, attempt, ended_at });
    }

    pub(super) fn lose(&mut self, name: &str) {
        let (at, attempt, ended_at) = (self.at(name), self.attempt(name), self.now);
        self.tell(FlowEvent::AttemptLost { at, attempt, message: "the host is gone".into(), ended_at });
    }

    pub(super) fn status(&self) -> FlowStatus {
        view(&self.plan, &self.state, 0..usize::MAX).status
    }

    pub(super) fn step(&self, name: &str) -> StepStatus {
        self.status().steps.into_iter().find(|step| step.name == name).unwrap_or_else(|| panic!("no record of {name}"))
    }

    /// `Phase/Reason` of a step.
    pub(super) fn outcome(&self, name: &str) -> String {
        let step = self.step(name);
        if step.reason.is_empty() { step.phase.to_string() } else { format!("{}/{}", step.phase, step.reason) }
    }

    pub(super) fn phase(&self) -> FlowPhase {
        self.state.phase()
    }

    /// Reason of the condition `Failed`.
    pub(super) fn cause(&self) -> String {
        let failed = self.status().conditions.into_iter().find(|condition| condition.kind == "Failed");
        failed.map(|condition| condition.reason).unwrap_or_default()
    }

    /// Names of attempts started by the last event, as `name#attempt`.
    pub(super) fn started(&self) -> Vec<String> {
        let starts = self.effects.iter().filter_map(|effect| match effect {
            FlowEffect::StartAttempt { at, attempt, .. } => Some(format!("{}#{attempt}", self.plan.instance_name(*at))),
            _ => None,
        });
        starts.collect()
    }

    /// Names of attempts cancelled by the last event, with causes.
    pub(super) fn cancelled(&self) -> Vec<String> {
        let cancels = self.effects.iter().filter_map(|effect| match effect {
            FlowEffect::CancelAttempt { at, cause, .. } => Some(format!("{}:{cause}", self.plan.instance_name(*at))),
            _ => None,
        });
        cancels.collect()
    }

    /// Reasons of notices of the last event.
    pub(super) fn notices(&self) -> Vec<&str> {
        let notices = self.effects.iter().filter_map(|effect| match effect {
            FlowEffect::RecordEvent(notice) => Some(notice.reason.as_str()),
            _ => None,
        });
        notices.collect()
    }
}
