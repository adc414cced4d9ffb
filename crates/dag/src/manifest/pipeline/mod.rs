//! The pipeline form: a shorter document that becomes the same flow. Owns its members, defaults and names;
//! checks of the flow itself are those of every flow.

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

/// A pipeline as it is written.
#[derive(Debug, Deserialize)]
struct Pipeline {
    name: String,
    description: Option<String>,
    #[serde(default)]
    variables: BTreeMap<String, String>,
    steps: Vec<Step>,
}

#[derive(Debug, Deserialize)]
struct Step {
    name: String,
    #[serde(default)]
    depends_on: Vec<String>,
    job_spec: Job,
}

#[derive(Debug, Deserialize)]
struct Job {
    image: Option<String>,
    command: Vec<String>,
    #[serde(default)]
    resources: Resources,
    timeout_ms: Option<i64>,
    retries: Option<i32>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    #[serde(default)]
    secret_refs: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
struct Resources {
    cpu_m: Option<i64>,
    memory_mb: Option<i64>,
    gpu: Option<i64>,
}

/// The flow of a pipeline and the names its fields have there, with everything wrong with it.
pub(super) fn read(root: Node<'_>, limits: &Limits) -> (Option<(JobFlow, Names)>, Violations) {
    let mut found = Violations::new();
    let form = Expected { rule: "8", unknown: Severity::Error, aliases: ALIASES, hints: HINTS };
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
            found.error("8", &Path::ROOT, || format!("the document is no pipeline: {error}"));
            (None, found)
        }
    }
}
