//! One case of the suite: a flow, what happens to it while it runs, and what must have come of it.

use std::collections::BTreeMap;

use orlop_core::machine::flow::FlowPhase;
use orlop_core::spec::flow::JobFlow;
use orlop_core::spec::status::{Decision, FlowStatus};
use orlop_core::testing::substrate::{Play, ScriptedSubstrate, When};
use serde_json::{Map, Value, json};

/// A case of the suite.
#[derive(Clone, Debug)]
pub struct Case {
    /// Name, also of the flow.
    pub name: &'static str,
    /// Values of flow parameters given at submission.
    pub parameters: BTreeMap<String, String>,
    /// What is done to the flow while it runs, in order.
    pub controls: Vec<(Trigger, Control)>,
    /// What must have come of it.
    pub expect: Expectation,
    spec: Value,
    plays: Vec<(When, Play)>,
}

/// What must have come of a flow.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Expectation {
    /// Phase of the flow.
    pub phase: FlowPhase,
    /// Reason of its condition `Failed`; empty where it has none.
    pub cause: String,
    /// `Phase/Reason` by step or instance.
    pub steps: BTreeMap<String, String>,
    /// Retries by step or instance.
    pub retries: BTreeMap<String, u32>,
    /// Outputs by `step.output`.
    pub outputs: BTreeMap<String, String>,
}

/// When a control is given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trigger {
    /// Before anything starts.
    AtStart,
    /// As soon as a step is in a phase, such as `Running`.
    When {
        /// Name of the step or instance.
        step: &'static str,
        /// Its phase.
        phase: &'static str,
    },
}

/// What is done to a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control {
    /// A Manual step is decided.
    Decide(&'static str, Decision),
    /// The flow is suspended, its attempts with it when `true`.
    Suspend(bool),
    /// The flow is resumed.
    Resume,
    /// The flow is asked to end gracefully.
    Stop,
    /// The flow is terminated.
    Terminate,
}

impl Case {
    /// A case that succeeds.
    pub(super) fn new(name: &'static str) -> Self {
        Self {
            name,
            parameters: BTreeMap::new(),
            controls: Vec::new(),
            expect: Expectation { phase: FlowPhase::Succeeded, ..Expectation::default() },
            spec: json!({"steps": []}),
            plays: Vec::new(),
        }
    }

    /// Adds a member of the spec.
    pub(super) fn with(mut self, member: &str, value: Value) -> Self {
        self.spec[member] = value;
        self
    }

    /// Sets a member of the execution policy.
    pub(super) fn policy(mut self, member: &str, value: Value) -> Self {
        if self.spec.get("executionPolicy").is_none() {
            self.spec["executionPolicy"] = json!({});
        }
        self.spec["executionPolicy"][member] = value;
        self
    }

    /// Adds a step that runs a script, with further members.
    pub(super) fn step(self, name: &str, script: &str, members: Value) -> Self {
        self.add("steps", name, Some(script), members)
    }

    /// Adds a step that finds its input `v` in the environment variable `V`.
    pub(super) fn reading(mut self, name: &str, script: &str, members: Value) -> Self {
        self = self.step(name, script, members);
        let last = self.spec.get_mut("steps").and_then(Value::as_array_mut).and_then(|steps| steps.last_mut());
        let env = last.and_then(|step| step.pointer_mut("/template/spec/template/spec/containers/0/env"));
        if let Some(env) = env.and_then(Value::as_array_mut) {
            env.push(json!({"name": "V", "value": "${parameters.v}"}));
        }
        self
    }

    /// Adds a Manual step.
    pub(super) fn manual(self, name: &str, members: Value) -> Self {
        self.add("steps", name, None, members)
    }

    /// Adds a step of `finally`.
    pub(super) fn finally(self, name: &str, script: &str, members: Value) -> Self {
        self.add("finally", name, Some(script), members)
    }

    fn add(mut self, part: &str, name: &str, script: Option<&str>, members: Value) -> Self {
        let mut step = Map::new();
        step.insert("name".to_owned(), json!(name));
        match script {
            Some(script) => {
                step.insert("template".to_owned(), template(script));
            }
            None => {
                step.insert("type".to_owned(), json!("Manual"));
            }
        }
        if let Value::Object(members) = members {
            step.extend(members);
        }
        if let Some(list) = self.spec.get_mut(part).and_then(Value::as_array_mut) {
            list.push(Value::Object(step));
        } else {
            self.spec[part] = json!([step]);
        }
        self
    }

    /// Says how the double plays attempts of a step; the first that matches counts.
    pub(super) fn play(mut self, when: When, play: Play) -> Self {
        self.plays.push((when, play));
        self
    }

    /// Something is done to the flow.
    pub(super) fn control(mut self, trigger: Trigger, control: Control) -> Self {
        self.controls.push((trigger, control));
        self
    }

    /// A parameter given at submission.
    pub(super) fn parameter(mut self, name: &str, value: &str) -> Self {
        self.parameters.insert(name.to_owned(), value.to_owned());
        self
    }

    /// The flow fails for a cause.
    pub(super) fn fails(mut self, cause: &str) -> Self {
        self.expect.phase = FlowPhase::Failed;
        self.expect.cause = cause.to_owned();
        self
    }

    /// Expects `Phase/Reason` of steps.
    pub(super) fn ends(mut self, steps: &[(&str, &str)]) -> Self {
        self.expect.steps.extend(steps.iter().map(|(name, outcome)| ((*name).to_owned(), (*outcome).to_owned())));
        self
    }

    /// Expects a number of retries.
    pub(super) fn retried(mut self, step: &str, retries: u32) -> Self {
        self.expect.retries.insert(step.to_owned(), retries);
        self
    }

    /// Expects an output.
    pub(super) fn gives(mut self, step: &str, output: &str, value: &str) -> Self {
        self.expect.outputs.insert(format!("{step}.{output}"), value.to_owned());
        self
    }

    /// The flow, its containers running `image`.
    ///
    /// # Errors
    /// When the case itself is not a flow, which is a fault of the suite.
    pub fn flow(&self, image: &str) -> Result<JobFlow, serde_json::Error> {
        let text = self.spec.to_string().replace("{image}", image);
        Ok(JobFlow::new(self.name, serde_json::from_str(&text)?))
    }

    /// Teaches the double what this case's attempts do.
    pub fn teach(&self, substrate: &ScriptedSubstrate) {
        for (when, play) in &self.plays {
            substrate.script(when.clone(), play.clone());
        }
    }

    /// What a final status has that this case does not expect, or lacks.
    #[must_use]
    pub fn differences(&self, status: &FlowStatus, ran: bool) -> Vec<String> {
        let mut found = Vec::new();
        let mut compare = |what: String, expected: &str, actual: &str| {
            if expected != actual {
                found.push(format!("{}: {what} is `{actual}`, expected `{expected}`", self.name));
            }
        };
        let failed = status.conditions.iter().find(|condition| condition.kind == "Failed");
        compare("the phase".into(), &self.expect.phase.to_string(), &status.phase.to_string());
        compare("the cause".into(), &self.expect.cause, failed.map_or("", |condition| &condition.reason));
        let record = |name: &str| status.steps.iter().find(|step| step.name == name).cloned().unwrap_or_default();
        for (name, expected) in &self.expect.steps {
            let step = record(name);
            let actual =
                if step.reason.is_empty() { step.phase.to_string() } else { format!("{}/{}", step.phase, step.reason) };
            compare(format!("step {name}"), expected, &actual);
        }
        for (name, expected) in &self.expect.retries {
            compare(format!("retryCount of {name}"), &expected.to_string(), &record(name).retry_count.to_string());
        }
        for (path, expected) in self.expect.outputs.iter().filter(|_| ran) {
            let (name, output) = path.split_once('.').unwrap_or((path, ""));
            let outputs = record(name).outputs.unwrap_or_default();
            compare(format!("output {path}"), expected, outputs.parameter(output).unwrap_or("(none)"));
        }
        found
    }
}

/// A Job whose container `main` runs a script; the number of the attempt is in `ATTEMPT`.
fn template(script: &str) -> Value {
    let attempt = json!({"name": "ATTEMPT", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['workflow.kube-zen.io/attempt']"}}});
    let container = json!({"name": "main", "image": "{image}", "command": ["/bin/sh", "-c", script], "env": [attempt]});
    job(json!({"containers": [container], "terminationGracePeriodSeconds": 2}))
}

/// A Job around a pod.
pub(super) fn job(pod: Value) -> Value {
    json!({"apiVersion": "batch/v1", "kind": "Job", "spec": {"template": {"spec": pod}}})
}
