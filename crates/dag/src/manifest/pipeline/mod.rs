//! Pipelines: a shorter form of manifest, which is converted into a JobFlow. Owns its members, defaults and names; the flow is checked
//! by the same rules as any other.

mod convert;
mod names;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use orlop_core::spec::flow::JobFlow;
use serde::Deserialize;

pub(super) use names::Names;
pub use names::{flow_name, slug};

use super::decode::decode;
use super::graph;
use super::path::Path;
use super::schema::{Expected, Walk};
use super::source::Node;
use super::validate::{Limits, validate};
use super::violation::{Severity, Violations};
use crate::code::Code;

/// Names of other tools for members of pipelines.
const ALIASES: &[(&str, &str)] = &[
    ("args", "command"),
    ("dependencies", "depends_on"),
    ("dependsOn", "depends_on"),
    ("jobSpec", "job_spec"),
    ("needs", "depends_on"),
    ("parameters", "variables"),
    ("secrets", "secret_refs"),
    ("timeout", "timeout_ms"),
    ("timeout_seconds", "timeout_ms"),
];

/// What to write for members of other products that no one member is here.
const HINTS: &[(&str, &str)] = &[
    ("finally", "steps that run at the end are for the long form: `kind: JobFlow` with `spec.finally`"),
    ("retry", "write it as job_spec: {retries: N}"),
    ("run", "write it as job_spec: {command: [sh, -c, '...']}"),
    ("script", "write it as job_spec: {command: [sh, -c, '...']}"),
];

/// Steps in an order, in a shorter form than a JobFlow.
#[derive(Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(transform = extensible))]
struct Pipeline {
    /// Name of the pipeline; the name of its flow is made from it.
    name: String,
    /// What it is for.
    description: Option<String>,
    /// Parameters with their values, which every step can read.
    #[serde(default)]
    variables: BTreeMap<String, String>,
    /// The steps of the pipeline.
    steps: Vec<Step>,
}

/// A step of a pipeline.
#[derive(Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "PipelineStep", transform = extensible))]
struct Step {
    /// Name, unique in the pipeline; case and signs do not count.
    name: String,
    /// Steps that must have succeeded first, all of them.
    #[serde(default)]
    depends_on: Vec<String>,
    /// What the step runs.
    job_spec: Job,
}

/// What a step of a pipeline runs.
#[derive(Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "PipelineJob", transform = extensible))]
struct Job {
    /// The image of its container; without one it runs as a process, which a cluster does not take.
    image: Option<String>,
    /// The program and its arguments, never passed through a shell.
    #[cfg_attr(feature = "schema", schemars(length(min = 1)))]
    command: Vec<String>,
    /// What it needs of a machine.
    #[serde(default)]
    resources: Resources,
    /// Limit of one attempt in milliseconds; default 300000.
    #[cfg_attr(feature = "schema", schemars(range(min = 0)))]
    timeout_ms: Option<i64>,
    /// How often it is tried again after a failure; default 0.
    #[cfg_attr(feature = "schema", schemars(range(min = 0)))]
    retries: Option<i32>,
    /// Variables of its environment.
    #[serde(default)]
    env: BTreeMap<String, String>,
    /// Secrets it gets as variables: `secret` for all its keys, `secret/key`, or `ENV=secret/key`.
    #[serde(default)]
    secret_refs: Vec<String>,
}

/// What a step of a pipeline needs of a machine.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "PipelineResources", transform = extensible))]
struct Resources {
    /// CPU in thousandths of a core; 0 means that none is asked for.
    #[cfg_attr(feature = "schema", schemars(range(min = 0)))]
    cpu_m: Option<i64>,
    /// Memory in MiB; 0 means that none is asked for.
    #[cfg_attr(feature = "schema", schemars(range(min = 0)))]
    memory_mb: Option<i64>,
    /// GPUs; 0 means none.
    #[cfg_attr(feature = "schema", schemars(range(min = 0)))]
    gpu: Option<i64>,
}

/// Members whose names begin with `x-` are for users, no others are taken.
#[cfg(feature = "schema")]
fn extensible(schema: &mut schemars::Schema) {
    schema.insert("patternProperties".to_owned(), serde_json::json!({"^x-": true}));
    schema.insert("additionalProperties".to_owned(), false.into());
}

/// The JSON schema of pipelines.
#[cfg(feature = "schema")]
#[must_use]
pub fn schema() -> serde_json::Value {
    orlop_core::schema::of::<Pipeline>()
}

/// The flow of a pipeline and the names its fields have there, with everything wrong with it.
pub(super) fn read(root: Node<'_>, limits: &Limits) -> (Option<(JobFlow, Names)>, Violations) {
    let mut found = Violations::new();
    let form = Expected { code: Code::Pipeline, unknown: Severity::Error, aliases: ALIASES, hints: HINTS };
    let misfits = Walk::new(form, &mut found).check(root, "Pipeline", &Path::ROOT);
    if misfits.fatal {
        return (None, found);
    }
    match decode::<Pipeline>(root, &misfits.marks) {
        Ok(pipeline) => {
            let (mut flow, names) = convert::convert(&pipeline, &mut found);
            if !found.has_errors() {
                let limits = Limits { image_optional: limits.image_optional || !limits.kubernetes, ..limits.clone() };
                let mut rules = validate(&flow, &limits);
                flow.spec = graph::check(flow.spec, &mut rules);
                names.translate(&mut rules);
                found.append(rules);
            }
            (Some((flow, names)), found)
        }
        Err(error) => {
            found.error(Code::Pipeline, &Path::ROOT, || format!("the document is not a pipeline: {error}"));
            (None, found)
        }
    }
}
