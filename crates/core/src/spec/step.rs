//! A step of a flow and its inputs and outputs. Owns the fields; the template stays a JSON tree, byte for byte.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::artifact::{ArtifactInput, ArtifactOutput};
use super::meta::KeyRef;
use super::policy::RetryPolicy;

/// A node of the DAG.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Step {
    /// Name, unique in the flow.
    pub name: String,
    /// Job or Manual; default Job.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<StepKind>,
    /// Shown while a Manual step waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Labels and annotations of the Job itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<StepMetadata>,
    /// Steps that must be satisfied first, all of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dependencies: Vec<String>,
    /// The same as a boolean expression over steps and what became of them. Naming `<step>.Failed`, `.Completed`
    /// or `.AllFailed` keeps that failure from halting the flow; `<step>` stays unsatisfied by it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub depends: Option<String>,
    /// Condition, evaluated once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when: Option<String>,
    /// Whether its failure satisfies dependents and is tolerated; default false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub continue_on_failure: Option<bool>,
    /// How often it is tried again; default never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_policy: Option<RetryPolicy>,
    /// Limit of one attempt, or of the approval of a Manual step, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<i64>,
    /// Limit in seconds until a first pod of an attempt runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pending_timeout_seconds: Option<i64>,
    /// Limit of one attempt in milliseconds, where a pipeline asked for less than whole seconds. Never part of an
    /// object.
    #[serde(skip)]
    pub timeout_millis: Option<u64>,
    /// The `batch/v1` Job an attempt runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template: Option<Value>,
    /// Parameters and artifacts it takes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inputs: Option<Inputs>,
    /// Parameters and artifacts it gives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outputs: Option<Outputs>,
    /// Fan-out over these items.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub with_items: Option<Vec<Value>>,
    /// Fan-out over a JSON array known when the step becomes ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub with_param: Option<String>,
    /// Live instances of a fan-out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parallelism: Option<i32>,
    /// Whether a retried flow runs it again though it succeeded; default IfNeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rerun: Option<Rerun>,
}

impl Step {
    /// Whether a person decides it.
    #[must_use]
    pub fn is_manual(&self) -> bool {
        self.kind == Some(StepKind::Manual)
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

/// Kind of a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum StepKind {
    /// Runs a Job.
    #[default]
    Job,
    /// Waits for a person.
    Manual,
}

/// Whether a retried flow runs a step again though it succeeded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Rerun {
    /// Only when something before it runs again.
    #[default]
    IfNeeded,
    /// Always.
    Always,
}

/// Labels and annotations merged into the Job's own metadata.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StepMetadata {
    /// Labels.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Annotations.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

/// What a step takes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Inputs {
    /// Parameters.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parameters: Vec<InputParameter>,
    /// Artifacts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub artifacts: Vec<ArtifactInput>,
}

/// A parameter a step takes: exactly one of value and source.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct InputParameter {
    /// Name.
    pub name: String,
    /// Its value; an empty text is a value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// Where its value comes from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value_from: Option<InputValueFrom>,
}

/// Source of an input parameter: exactly one member.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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
    /// A fact of the flow itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flow: Option<FlowFact>,
}

/// A fact of the flow that a step may read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Outputs {
    /// Parameters.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parameters: Vec<OutputParameter>,
    /// Artifacts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub artifacts: Vec<ArtifactOutput>,
}

/// A parameter a step gives.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OutputParameter {
    /// Name.
    pub name: String,
    /// Where its value is read.
    pub value_from: OutputValueFrom,
    /// Its value where none is found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<String>,
}

/// Source of an output parameter: exactly one member.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OutputValueFrom {
    /// Path into the own attempt's document.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub json_path: Option<String>,
    /// File the step writes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
}
