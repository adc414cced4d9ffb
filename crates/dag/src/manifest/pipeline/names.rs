//! Names of pipelines: the slugs that become object and step names, and the way back from fields of the flow to those of
//! the pipeline.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::Pipeline;
use crate::manifest::path::{FieldPath, Segment};
use crate::manifest::violation::{FieldPart, Violations};

/// Characters of a pipeline's slug that its flows' names keep.
const SLUG_MAX: usize = 50;

/// The name in lower case, other characters than a–z and 0–9 as `-`, without `-` at both ends.
///
/// ```
/// assert_eq!(orlop_dag::manifest::pipeline::slug(" Nightly ETL (v2) "), "nightly-etl--v2");
/// ```
#[must_use]
pub fn slug(name: &str) -> String {
    let keep = |c: char| if c.is_ascii_lowercase() || c.is_ascii_digit() { c } else { '-' };
    let text: String = name.chars().flat_map(char::to_lowercase).map(keep).collect();
    text.trim_matches('-').to_owned()
}

/// What the names of a pipeline's flows begin with: its slug, cut to 50 characters, and a dash.
pub(super) fn prefix(name: &str) -> String {
    let mut text = slug(name);
    text.truncate(SLUG_MAX);
    text.push('-');
    text
}

/// Name of the flow of one execution of a pipeline: its slug and the first 8 characters of the execution's id.
///
/// ```
/// use orlop_dag::manifest::pipeline::flow_name;
/// assert_eq!(flow_name("Nightly ETL", "0b9c2f7e-13aa"), "nightly-etl-0b9c2f7e");
/// ```
#[must_use]
pub fn flow_name(pipeline: &str, execution: &str) -> String {
    let mut text = prefix(pipeline);
    text.extend(execution.chars().take(8));
    text
}

/// What the fields of a flow are called in the pipeline it was made of; nothing for flows that were not.
#[derive(Clone, Debug, Default)]
pub(in crate::manifest) struct Names {
    /// Step names of the flow, and as written.
    originals: BTreeMap<String, String>,
    variables: Vec<String>,
    /// Variables of every step's container.
    environments: Option<Vec<Environment>>,
}

/// Where the items of a container's `env` and `envFrom` stand in the pipeline.
#[derive(Clone, Debug, Default)]
struct Environment {
    env: Vec<Segment>,
    sources: Vec<usize>,
}

impl Names {
    pub(super) fn new(pipeline: &Pipeline) -> Self {
        let environment = |step: &super::Step| {
            let job = &step.job_spec;
            let mut known = Environment::default();
            known.env.extend(job.env.keys().map(|name| Segment::Field(Cow::Owned(name.clone()))));
            for (index, reference) in job.secret_refs.iter().enumerate() {
                if reference.contains('/') {
                    known.env.push(Segment::Index(index));
                } else {
                    known.sources.push(index);
                }
            }
            known
        };
        Self {
            originals: pipeline.steps.iter().map(|step| (slug(&step.name), step.name.clone())).collect(),
            variables: pipeline.variables.keys().cloned().collect(),
            environments: Some(pipeline.steps.iter().map(environment).collect()),
        }
    }

    /// The name of a step as written.
    pub(in crate::manifest) fn original(&self, step: &str) -> Option<&str> {
        self.originals.get(step).map(String::as_str)
    }

    /// Gives violations of the flow the paths of the pipeline.
    pub(in crate::manifest) fn translate(&self, violations: &mut Violations) {
        let Some(environments) = &self.environments else { return };
        for violation in violations.iter_mut() {
            let segments = violation.path.segments();
            if matches!(segments.first(), Some(Segment::Field(name)) if name == "spec" || name == "metadata") {
                violation.path = self.path(segments, environments);
                violation.part = FieldPart::Value;
            }
        }
    }

    fn path(&self, segments: &[Segment], environments: &[Environment]) -> FieldPath {
        let field = |at: usize| match segments.get(at) {
            Some(Segment::Field(name)) => Some(name.as_ref()),
            _ => None,
        };
        let index = |at: usize| match segments.get(at) {
            Some(Segment::Index(index)) => Some(*index),
            _ => None,
        };
        let mut path = Vec::new();
        match (field(0), field(1), index(2)) {
            (Some("metadata"), ..) => path.push(named("name")),
            (_, Some("parameters"), at) => {
                path.push(named("variables"));
                let variable = at.and_then(|at| self.variables.get(at));
                path.extend(variable.map(|name| Segment::Field(Cow::Owned(name.clone()))));
            }
            (_, Some("steps"), at) => {
                path.push(named("steps"));
                path.extend(at.map(Segment::Index));
                let rest = segments.get(3..).unwrap_or(&[]);
                step_path(rest, at.and_then(|at| environments.get(at)), &mut path);
            }
            _ => {}
        }
        FieldPath::new(path)
    }
}

fn named(name: &'static str) -> Segment {
    Segment::Field(Cow::Borrowed(name))
}

/// The member of a pipeline's step that a field of the flow's step was made of.
fn step_path(rest: &[Segment], environment: Option<&Environment>, path: &mut Vec<Segment>) {
    let fields: Vec<&str> = rest
        .iter()
        .filter_map(|segment| match segment {
            Segment::Field(name) => Some(name.as_ref()),
            Segment::Index(_) => None,
        })
        .collect();
    let last = rest.iter().rev().find_map(|segment| match segment {
        Segment::Index(index) => Some(*index),
        Segment::Field(_) => None,
    });
    match fields.as_slice() {
        ["name", ..] => path.push(named("name")),
        ["dependencies", ..] => {
            path.push(named("depends_on"));
            path.extend(last.map(Segment::Index));
        }
        ["timeoutSeconds", ..] => path.extend([named("job_spec"), named("timeout_ms")]),
        ["retryPolicy", ..] => path.extend([named("job_spec"), named("retries")]),
        ["template", "spec", "template", "spec", "containers", inner @ ..] => {
            path.push(named("job_spec"));
            container_path(inner, rest.get(7).zip(environment), path);
        }
        _ => {}
    }
}

fn container_path(inner: &[&str], item: Option<(&Segment, &Environment)>, path: &mut Vec<Segment>) {
    match inner {
        ["image", ..] => path.push(named("image")),
        ["command", ..] => path.push(named("command")),
        ["resources", rest @ ..] => {
            path.push(named("resources"));
            path.extend(match rest.get(1) {
                Some(&"cpu") => Some(named("cpu_m")),
                Some(&"memory") => Some(named("memory_mb")),
                Some(_) => Some(named("gpu")),
                None => None,
            });
        }
        [list @ ("env" | "envFrom"), ..] => {
            let Some((Segment::Index(at), known)) = item else { return };
            let place = if *list == "env" {
                known.env.get(*at).cloned()
            } else {
                known.sources.get(*at).copied().map(Segment::Index)
            };
            match place {
                Some(Segment::Field(name)) => path.extend([named("env"), Segment::Field(name)]),
                Some(index) => path.extend([named("secret_refs"), index]),
                None => {}
            }
        }
        _ => {}
    }
}
