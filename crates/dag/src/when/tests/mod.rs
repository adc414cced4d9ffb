//! Tests of the `when` language, one file for each part of it. Here: the flow that the tests decide about.

mod expressions;
mod functions;
mod hostile;
mod oracle;
mod placeholders;
mod references;
mod refusals;
mod templates;

use super::*;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// A settled step of the test flow.
#[derive(Debug, Clone, Copy)]
struct Settled {
    phase: &'static str,
    reason: &'static str,
    message: &'static str,
    retries: u32,
}

/// The run that conditions of the tests read.
#[derive(Debug)]
pub(super) struct Run {
    steps: BTreeMap<&'static str, Settled>,
    outputs: BTreeMap<(&'static str, &'static str), String>,
    parameters: BTreeMap<&'static str, String>,
    outcome: Option<&'static str>,
}

impl Run {
    fn new() -> Self {
        let done = Settled { phase: "Succeeded", reason: "", message: "", retries: 0 };
        let failed = Settled { phase: "Failed", reason: "Timeout", message: "took \"too\" long", retries: 2 };
        let steps = [("build", done), ("build-image", failed), ("a.b", done), ("a", failed), ("a.phase", done)];
        let outputs = [
            (("build", "digest"), "sha256:ab"),
            (("build", "score"), "0.7"),
            (("build", "count"), "12"),
            (("build", "count-max"), "40"),
            (("build", "v.1"), "dotted"),
            (("build", "json"), r#"{"a":{"b":1}}"#),
        ];
        let parameters = [
            ("env", "prod"),
            ("replicas", "3"),
            ("my-flag", "true"),
            ("a.b", "dotted"),
            ("evil", "' || true || '"),
            ("braces", "{{.JobFlow.Name}}"),
            ("item", r#"{"name":"x"}"#),
            ("item.name", "x"),
            ("index", "7"),
        ];
        Self {
            steps: steps.into_iter().collect(),
            outputs: outputs.into_iter().map(|(key, value)| (key, value.to_owned())).collect(),
            parameters: parameters.into_iter().map(|(key, value)| (key, value.to_owned())).collect(),
            outcome: Some("Failed"),
        }
    }
}

impl Facts for Run {
    fn step_phase(&self, step: &str) -> Option<&str> {
        self.steps.get(step).map(|step| step.phase)
    }
    fn step_reason(&self, step: &str) -> Option<&str> {
        self.steps.get(step).map(|step| step.reason).filter(|reason| !reason.is_empty())
    }
    fn step_message(&self, step: &str) -> Option<&str> {
        self.steps.get(step).map(|step| step.message)
    }
    fn step_retry_count(&self, step: &str) -> Option<u32> {
        self.steps.get(step).map(|step| step.retries)
    }
    fn output(&self, step: &str, output: &str) -> Option<Cow<'_, str>> {
        let found = self.outputs.iter().find(|((s, o), _)| *s == step && *o == output);
        found.map(|(_, value)| Cow::Borrowed(value.as_str()))
    }
    fn parameter(&self, name: &str) -> Option<Cow<'_, str>> {
        self.parameters.get(name).map(|value| Cow::Borrowed(value.as_str()))
    }
    fn flow_name(&self) -> &'static str {
        "nightly"
    }
    fn flow_namespace(&self) -> &'static str {
        "ml"
    }
    fn flow_uid(&self) -> &'static str {
        "0f0e"
    }
    fn flow_phase(&self) -> &'static str {
        "Running"
    }
    fn flow_outcome(&self) -> Option<&str> {
        self.outcome
    }
    fn flow_label(&self, key: &str) -> Option<&str> {
        (key == "team" || key == "app.io/tier").then_some("core")
    }
    fn flow_annotation(&self, key: &str) -> Option<&str> {
        (key == "note").then_some("true")
    }
}

/// Compiles in a scope that declares everything [`Run`] holds, and a little more.
pub(super) fn compiled(source: &str) -> Result<Condition, SourceError> {
    let steps: Steps<'_> = [
        ("build", vec!["digest", "score", "count", "count-max", "v.1", "json", "absent"]),
        ("build-image", vec![]),
        ("a", vec!["x"]),
        ("a.b", vec![]),
        ("a.phase", vec![]),
        ("unsettled", vec![]),
    ]
    .into_iter()
    .collect();
    let flow: Parameters<'_> =
        ["env", "replicas", "my-flag", "unresolved"].into_iter().map(|name| (name, Secrecy::Plain)).collect();
    let inputs: Parameters<'_> =
        [("a.b", Secrecy::Plain), ("evil", Secrecy::Plain), ("braces", Secrecy::Plain), ("token", Secrecy::Secret)]
            .into_iter()
            .collect();
    let scope = Scope::new(&steps).flow_parameters(&flow).inputs(&inputs).in_fan_out().in_finally();
    compile(source, &scope)
}

/// The decision of a condition that must compile.
pub(super) fn decided(source: &str) -> Result<bool, EvalError> {
    match compiled(source) {
        Ok(condition) => condition.eval(&Run::new()),
        Err(error) => panic!("{source}: {}", error.point_out(source)),
    }
}

/// Holds the decisions of several conditions.
pub(super) fn assert_decides(cases: &[(&str, bool)]) {
    for (source, expected) in cases {
        assert_eq!(decided(source).as_ref(), Ok(expected), "{source}");
    }
}

/// The picture of a refusal.
pub(super) fn refusal(source: &str) -> String {
    match compiled(source) {
        Ok(condition) => panic!("{source} was accepted: {condition:?}"),
        Err(error) => error.point_out(source),
    }
}

/// The message of a run-time error.
pub(super) fn run_error(source: &str) -> String {
    match decided(source) {
        Ok(value) => panic!("{source} gave {value}"),
        Err(error) => error.to_string(),
    }
}

/// The refusals of several conditions, a line each.
pub(super) fn refusals(sources: &[&str]) -> String {
    let line = |source: &&str| match compiled(source) {
        Ok(condition) => panic!("{source} was accepted: {condition:?}"),
        Err(error) => format!("{source:?}: {error}\n"),
    };
    sources.iter().map(line).collect()
}
