//! A bench for hosts: flows from JSON, a scripted substrate, a journal in memory, virtual time.

use std::collections::BTreeMap;
use std::sync::Arc;

use orlop_core::error::Problem;
use orlop_core::spec::flow::JobFlow;
use orlop_core::spec::status::{FlowStatus, StepStatus};
use orlop_core::testing::substrate::Call;
use orlop_core::testing::{MemoryJournal, ScriptedSubstrate};
use orlop_core::time::Time;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::host::flow::{Clock, FlowHost, HostParts, Left, Submission};

pub(super) const UID: &str = "0123abcd-0000-4000-8000-000000000000";

/// The clock of the test's runtime, which stands still while anything can be done.
pub(super) struct TestClock(pub(super) Instant);

impl Clock for TestClock {
    fn now(&self) -> Time {
        Time::from_millis(1_700_000_000_000).plus(self.0.elapsed())
    }
}

pub(super) struct Bench {
    pub(super) substrate: ScriptedSubstrate,
    pub(super) journal: MemoryJournal,
    pub(super) clock: Arc<TestClock>,
}

/// A Job whose container has the given members.
pub(super) fn job(container: Value) -> Value {
    let mut main = json!({"name": "main", "image": "busybox", "command": ["true"]});
    for (key, value) in container.as_object().into_iter().flatten() {
        main[key] = value.clone();
    }
    json!({"apiVersion": "batch/v1", "kind": "Job", "spec": {"template": {"spec": {"containers": [main]}}}})
}

/// A flow from JSON; Job steps without a template get one.
pub(super) fn flow(mut spec: Value) -> JobFlow {
    for part in ["steps", "finally"] {
        for step in spec.get_mut(part).and_then(Value::as_array_mut).into_iter().flatten() {
            if step.get("type").is_none() && step.get("template").is_none() {
                step["template"] = job(json!({}));
            }
        }
    }
    JobFlow::new("etl", serde_json::from_value(spec).unwrap())
}

impl Bench {
    pub(super) fn new() -> Self {
        let clock = Arc::new(TestClock(Instant::now()));
        Self { substrate: ScriptedSubstrate::new(), journal: MemoryJournal::new(), clock }
    }

    pub(super) fn parts(&self) -> HostParts {
        let parts = HostParts::new(Arc::new(self.substrate.clone()), Arc::new(self.journal.clone()));
        HostParts { clock: Arc::clone(&self.clock) as Arc<dyn Clock>, ..parts }
    }

    /// The parts of the next host, after the first is gone.
    pub(super) fn next_parts(&self) -> HostParts {
        HostParts { substrate: Arc::new(self.substrate.reconnect()), ..self.parts() }
    }

    pub(super) async fn submit(&self, spec: Value) -> FlowHost {
        FlowHost::submit(self.parts(), Submission::new(flow(spec), UID), Vec::new()).await.unwrap()
    }

    /// Runs a flow to its end.
    pub(super) async fn run(&self, spec: Value) -> FlowStatus {
        let mut host = self.submit(spec).await;
        assert_eq!(host.run().await.unwrap(), Left::Ended);
        host.status()
    }

    pub(super) async fn submit_with(&self, spec: Value, parameters: &[(&str, &str)]) -> Result<FlowHost, Problem> {
        let pair = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let parameters: BTreeMap<String, String> = parameters.iter().map(pair).collect();
        let submission = Submission { parameters, ..Submission::new(flow(spec), UID) };
        FlowHost::submit(self.parts(), submission, Vec::new()).await
    }

    /// Calls of the substrate so far, one a line, without the flow's uid.
    pub(super) fn calls(&self) -> String {
        let calls = self.substrate.take_calls();
        let text = |call: &Call| call.to_string().replace(&format!("{UID}/"), "");
        calls.iter().map(text).collect::<Vec<_>>().join("\n")
    }
}

/// Steps with phase, reason and attempt, one a line.
pub(super) fn outcome(status: &FlowStatus) -> String {
    let line = |step: &StepStatus| {
        let reason = if step.reason.is_empty() { String::new() } else { format!("/{}", step.reason) };
        format!("{} {}{reason} {}", step.name, step.phase, step.attempt)
    };
    let mut lines = vec![status.phase.to_string()];
    lines.extend(status.steps.iter().map(line));
    lines.join("\n")
}
