//! A step of a flow and its inputs and outputs. Owns the fields; the template stays a JSON tree.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::artifact::{ArtifactInput, ArtifactOutput};
use super::meta::KeyRef;
use super::policy::RetryPolicy;

/// A node of the DAG.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(
    feature = "schema",
    schemars(extend("x-kubernetes-validations" = [{
        "rule": "self.type == 'Manual' || has(self.template)",
        "message": "a step of type Job needs a template",
    }]))
)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Step {
    /// Name of the step, a DNS subdomain, unique in the flow.
    #[cfg_attr(feature = "schema", schemars(length(min = 1, max = 253)))]
    pub name: String,
    /// Job runs a Job (the default), Manual waits for a person.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(extend("default" = "Job")))]
    pub kind: Option<StepKind>,
    /// Shown while a Manual step waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(length(max = 1024)))]
    pub message: Option<String>,
    /// Labels and annotations of the Job itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<StepMetadata>,
    /// Steps that must be satisfied first, all of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dependencies: Vec<String>,
    /// The same as a boolean expression over steps and their outcomes; excludes `dependencies`. Naming `<step>.Failed`,
    /// `.Completed` or `.AllFailed` keeps that failure from halting the flow; `<step>` stays unsatisfied by it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub depends: Option<String>,
    /// Condition, evaluated once when the step becomes ready; false skips the step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when: Option<String>,
    /// Whether its failure satisfies dependents and is tolerated; default false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub continue_on_failure: Option<bool>,
    /// How often it is tried again; default never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_policy: Option<RetryPolicy>,
    /// Limit of one attempt in seconds; on a Manual step the limit of the approval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 2592000)))]
    pub timeout_seconds: Option<i64>,
    /// Limit in seconds until a first pod of an attempt runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 2592000)))]
    pub pending_timeout_seconds: Option<i64>,
    /// Limit of one attempt in milliseconds, where a pipeline asked for less than whole seconds. Never part of an
    /// object.
    #[serde(skip)]
    pub timeout_millis: Option<u64>,
    /// The `batch/v1` Job that an attempt runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(schema_with = "job"))]
    pub template: Option<Value>,
    /// Parameters and artifacts it takes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inputs: Option<Inputs>,
    /// Parameters and artifacts it gives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outputs: Option<Outputs>,
    /// Runs one instance of the step for each of these items.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(length(max = 10000)))]
    pub with_items: Option<Vec<Value>>,
    /// Runs one instance for each item of a JSON array that is known when the step becomes ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub with_param: Option<String>,
    /// Live instances of a fan-out at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub parallelism: Option<i32>,
    /// Whether a retried flow runs it again though it succeeded; default IfNeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rerun: Option<Rerun>,
}

/// What a Job must have; the rest of it is kept as it is.
#[cfg(feature = "schema")]
fn job(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "type": "object",
        "properties": {
            "apiVersion": {"description": "Always batch/v1.", "type": "string", "enum": ["batch/v1"]},
            "kind": {"description": "Always Job.", "type": "string", "enum": ["Job"]},
            "metadata": {
                "description": "Labels and annotations of the Job; its name is that of the attempt.",
                "type": "object",
                "additionalProperties": true,
            },
            "spec": {"description": "The spec of the Job.", "type": "object", "additionalProperties": true},
        },
        "required": ["apiVersion", "kind", "spec"],
    })
}

impl Step {
    /// A step with a name. Without a [template](Step::template) it is a function of the program that runs the flow.
    ///
    /// ```
    /// use std::time::Duration;
    /// use orlop_core::spec::policy::RetryPolicy;
    /// use orlop_core::spec::step::Step;
    /// let step = Step::new("load")
    ///     .after(["fetch"])
    ///     .when("steps.fetch.outputs.rows != '0'")
    ///     .retry(RetryPolicy::fixed(2, Duration::from_millis(200)));
    /// assert_eq!(step.dependencies, ["fetch"]);
    /// ```
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), ..Self::default() }
    }

    /// A step that waits for the approval of a person, with the question.
    #[must_use]
    pub fn manual(name: impl Into<String>, message: impl Into<String>) -> Self {
        Self { kind: Some(StepKind::Manual), message: Some(message.into()), ..Self::new(name) }
    }

    /// The same step with the `batch/v1` Job that an attempt runs.
    #[must_use]
    pub fn template(mut self, job: Value) -> Self {
        self.template = Some(job);
        self
    }

    /// The same step, which waits for these steps too.
    #[must_use]
    pub fn after<N: Into<String>>(mut self, steps: impl IntoIterator<Item = N>) -> Self {
        self.dependencies.extend(steps.into_iter().map(Into::into));
        self
    }

    /// The same step, skipped where this condition is false when it becomes ready.
    #[must_use]
    pub fn when(mut self, condition: impl Into<String>) -> Self {
        self.when = Some(condition.into());
        self
    }

    /// The same step, tried again when it fails.
    #[must_use]
    pub fn retry(mut self, policy: RetryPolicy) -> Self {
        self.retry_policy = Some(policy);
        self
    }

    /// The same step, whose attempts may take this long.
    #[must_use]
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.timeout_seconds = Some(i64::try_from(millis_up(limit).div_ceil(1000)).unwrap_or(i64::MAX));
        self.timeout_millis = Some(millis_up(limit));
        self
    }

    /// The same step, whose failure satisfies what depends on it and does not fail the flow.
    #[must_use]
    pub fn tolerate(mut self) -> Self {
        self.continue_on_failure = Some(true);
        self
    }

    /// The same step with a parameter that it takes.
    #[must_use]
    pub fn input(mut self, input: InputParameter) -> Self {
        self.inputs.get_or_insert_default().parameters.push(input);
        self
    }

    /// The same step with a parameter that it gives.
    #[must_use]
    pub fn output(mut self, output: OutputParameter) -> Self {
        self.outputs.get_or_insert_default().parameters.push(output);
        self
    }

    /// The same step, run once for each item of a JSON list: `<step>:<path>`, such as `scan:$.outputs.files`, or a placeholder such as
    /// `${parameters.files}`.
    #[must_use]
    pub fn for_each(mut self, list: impl Into<String>) -> Self {
        self.with_param = Some(list.into());
        self
    }

    /// Whether it waits for the approval of a person.
    #[must_use]
    pub fn is_manual(&self) -> bool {
        self.kind == Some(StepKind::Manual)
    }

    /// Whether it is a function of the program that runs the flow: not a Manual step, and without a template.
    #[must_use]
    pub fn is_function(&self) -> bool {
        !self.is_manual() && self.template.is_none()
    }

    /// Whether it fans out.
    #[must_use]
    pub fn is_fan_out(&self) -> bool {
        self.with_items.is_some() || self.with_param.is_some()
    }

    /// Its input parameters.
    #[must_use]
    pub fn input_parameters(&self) -> &[InputParameter] {
        self.inputs.as_ref().map_or(&[], |inputs| &inputs.parameters)
    }

    /// Its input artifacts.
    #[must_use]
    pub fn input_artifacts(&self) -> &[ArtifactInput] {
        self.inputs.as_ref().map_or(&[], |inputs| &inputs.artifacts)
    }

    /// Its output parameters.
    #[must_use]
    pub fn output_parameters(&self) -> &[OutputParameter] {
        self.outputs.as_ref().map_or(&[], |outputs| &outputs.parameters)
    }

    /// Its output artifacts.
    #[must_use]
    pub fn output_artifacts(&self) -> &[ArtifactOutput] {
        self.outputs.as_ref().map_or(&[], |outputs| &outputs.artifacts)
    }
}

/// Milliseconds, rounded up, at least one.
fn millis_up(span: Duration) -> u64 {
    u64::try_from(span.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX).max(1)
}

/// Kind of a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum StepKind {
    /// Runs a Job.
    #[default]
    Job,
    /// Waits for a person.
    Manual,
}

/// Whether a retried flow runs a step again though it succeeded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Rerun {
    /// Only when something before it runs again.
    #[default]
    IfNeeded,
    /// Always.
    Always,
}

/// Labels and annotations merged into the Job's own metadata.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StepMetadata {
    /// Labels of the Job, not of its pods.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Annotations of the Job, not of its pods.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

/// What a step takes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Inputs {
    /// Parameters the step takes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parameters: Vec<InputParameter>,
    /// Artifacts the step takes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub artifacts: Vec<ArtifactInput>,
}

/// A parameter a step takes: exactly one of value and source.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct InputParameter {
    /// Name: letters, digits, `-` and `.`, alphanumeric at both ends.
    pub name: String,
    /// Its value; an empty text is a value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// Where its value comes from; exactly one of value and valueFrom.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value_from: Option<InputValueFrom>,
}

impl InputParameter {
    /// A parameter that is this text.
    #[must_use]
    pub fn value(name: impl Into<String>, value: impl Into<String>) -> Self {
        Self { name: name.into(), value: Some(value.into()), value_from: None }
    }

    /// A parameter that is read from what an earlier step gave: `<step>:<path>`, such as `build:$.outputs.digest`.
    #[must_use]
    pub fn from_path(name: impl Into<String>, path: impl Into<String>) -> Self {
        let source = InputValueFrom { json_path: Some(path.into()), ..InputValueFrom::default() };
        Self { name: name.into(), value: None, value_from: Some(source) }
    }
}

/// Source of an input parameter: exactly one member.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct InputValueFrom {
    /// `<step>:<path>` into the document of an earlier step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub json_path: Option<String>,
    /// A key of a ConfigMap.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_map_key_ref: Option<KeyRef>,
    /// A key of a Secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_key_ref: Option<KeyRef>,
    /// A fact of the flow itself; outcome, failures and duration in finally only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flow: Option<FlowFact>,
}

/// A fact of the flow that a step may read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum FlowFact {
    /// How the steps came out: Succeeded or Failed; known in `finally`.
    Outcome,
    /// What failed, as a JSON list of `{step, reason, message}`; known in `finally`.
    Failures,
    /// How long the flow has run, in Go's syntax; known in `finally`.
    Duration,
    /// Its name.
    Name,
    /// Its page; empty where there is none.
    Url,
}

impl FlowFact {
    /// Whether it is known only when all steps are settled.
    #[must_use]
    pub const fn is_final(self) -> bool {
        matches!(self, Self::Outcome | Self::Failures | Self::Duration)
    }
}

/// What a step gives.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Outputs {
    /// Parameters the step gives.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parameters: Vec<OutputParameter>,
    /// Artifacts the step gives.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub artifacts: Vec<ArtifactOutput>,
}

/// A parameter a step gives.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OutputParameter {
    /// Name: letters, digits, `-` and `.`, alphanumeric at both ends.
    pub name: String,
    /// Where its value is read.
    pub value_from: OutputValueFrom,
    /// Its value where none is found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<String>,
}

impl OutputParameter {
    /// A parameter whose value the step writes into a file. A function has no files: any absolute path will do.
    #[must_use]
    pub fn file(name: impl Into<String>, path: impl Into<String>) -> Self {
        let value_from = OutputValueFrom { path: Some(path.into()), json_path: None };
        Self { name: name.into(), value_from, default: None }
    }
}

/// Source of an output parameter: exactly one member.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OutputValueFrom {
    /// Path into the own attempt's document.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub json_path: Option<String>,
    /// File the step writes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
}
