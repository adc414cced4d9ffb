//! From pipeline to flow, member by member. Owns the table.

use std::collections::{BTreeMap, BTreeSet};

use orlop_core::spec::flow::{FlowParameter, FlowSpec, JobFlow};
use orlop_core::spec::policy::{ConcurrencyPolicy, DEFAULT_BACKOFF_LIMIT, ExecutionPolicy, FailurePolicy, RetryPolicy};
use orlop_core::spec::step;
use serde_json::{Map, Value, json};

use super::names::{Names, prefix, slug};
use super::{Job, Pipeline, Resources, Step};
use crate::code::Code;
use crate::manifest::path::Path;
use crate::manifest::schema::nearest;
use crate::manifest::violation::{Note, Violations, shown};

/// Timeout where none is given, in milliseconds.
const TIMEOUT_MILLIS: u64 = 300_000;
/// Annotation with the name as it was written.
const ORIGINAL_NAME: &str = "workflow.kube-zen.io/original-name";
/// Annotation with the description.
const DESCRIPTION: &str = "workflow.kube-zen.io/description";

/// The flow of a pipeline, as far as it can be made, and the names its fields have in the pipeline.
pub(super) fn convert(pipeline: &Pipeline, found: &mut Violations) -> (JobFlow, Names) {
    let names = Names::new(pipeline);
    let slugs = step_names(pipeline, found);
    let list = Path::ROOT.field("steps");
    let steps =
        pipeline.steps.iter().enumerate().map(|(index, step)| convert_step(step, &slugs, &list.index(index), found));
    let spec = FlowSpec {
        steps: steps.collect(),
        execution_policy: Some(policy(pipeline)),
        parameters: variables(pipeline),
        ..FlowSpec::default()
    };
    let mut flow = JobFlow::new("", spec);
    if slug(&pipeline.name).is_empty() {
        found.error(Code::Pipeline, &Path::ROOT.field("name"), || {
            (format!("the name {} has no letter a–z and no digit", shown(&pipeline.name)), "use at least one")
        });
    } else {
        flow.metadata.generate_name = Some(prefix(&pipeline.name));
    }
    let annotations = &mut flow.metadata.annotations;
    annotations.insert(ORIGINAL_NAME.to_owned(), pipeline.name.clone());
    if let Some(description) = &pipeline.description {
        annotations.insert(DESCRIPTION.to_owned(), description.clone());
    }
    (flow, names)
}

/// Names of steps as written, and as they are called in the flow.
fn step_names<'p>(pipeline: &'p Pipeline, found: &mut Violations) -> BTreeMap<&'p str, String> {
    let list = Path::ROOT.field("steps");
    let mut slugs: BTreeMap<String, &str> = BTreeMap::new();
    let mut names = BTreeMap::new();
    for (index, step) in pipeline.steps.iter().enumerate() {
        let item = list.index(index);
        let path = item.field("name");
        let short = slug(&step.name);
        if short.is_empty() {
            found.error(Code::Pipeline, &path, || {
                (format!("the step name {} has no letter a–z and no digit", shown(&step.name)), "use at least one")
            });
        } else if let Some(first) = slugs.insert(short.clone(), &step.name) {
            found.error(Code::Pipeline, &path, || {
                let message = if first == step.name {
                    format!("two steps are called {}", shown(first))
                } else {
                    format!(
                        "the steps {} and {} are both called {} in the flow",
                        shown(first),
                        shown(&step.name),
                        shown(&short)
                    )
                };
                (message, "rename one of them; case and signs do not count")
            });
        }
        names.insert(step.name.as_str(), short);
    }
    names
}

fn variables(pipeline: &Pipeline) -> Vec<FlowParameter> {
    let parameter = |(name, value): (&String, &String)| FlowParameter {
        name: name.clone(),
        value: Some(value.clone()),
        ..FlowParameter::default()
    };
    pipeline.variables.iter().map(parameter).collect()
}

fn policy(pipeline: &Pipeline) -> ExecutionPolicy {
    let retries =
        pipeline.steps.iter().fold(0_i32, |sum, step| sum.saturating_add(step.job_spec.retries.unwrap_or(0).max(0)));
    ExecutionPolicy {
        concurrency_policy: Some(ConcurrencyPolicy::Allow),
        backoff_limit: Some(retries.max(DEFAULT_BACKOFF_LIMIT)),
        failure_policy: Some(FailurePolicy::FailFast),
        ..ExecutionPolicy::default()
    }
}

fn convert_step(step: &Step, slugs: &BTreeMap<&str, String>, path: &Path<'_>, found: &mut Violations) -> step::Step {
    let mut dependencies = Vec::new();
    let list = path.field("depends_on");
    for (index, name) in step.depends_on.iter().enumerate() {
        match slugs.get(name.as_str()) {
            Some(short) => dependencies.push(short.clone()),
            None => found.error(Code::Pipeline, &list.index(index), || {
                let help = nearest(name, slugs.keys().copied()).map(|guess| format!("did you mean `{guess}`?"));
                Note::new(format!("there is no step {}", shown(name)), help)
            }),
        }
    }
    let job = &step.job_spec;
    let path = path.field("job_spec");
    let millis =
        count(job.timeout_ms, &path.field("timeout_ms"), found).filter(|millis| *millis > 0).unwrap_or(TIMEOUT_MILLIS);
    let retries = count(job.retries.map(i64::from), &path.field("retries"), found).filter(|retries| *retries > 0);
    step::Step {
        name: slug(&step.name),
        dependencies,
        timeout_seconds: Some(i64::try_from(millis.div_ceil(1000)).unwrap_or(i64::MAX)),
        timeout_millis: Some(millis),
        retry_policy: retries.map(|_| RetryPolicy { limit: job.retries, backoff: None }),
        template: Some(template(job, &path, found)),
        ..step::Step::default()
    }
}

/// A number that must not be negative.
fn count(value: Option<i64>, path: &Path<'_>, found: &mut Violations) -> Option<u64> {
    let value = value?;
    let count = u64::try_from(value).ok();
    if count.is_none() {
        found.error(Code::Pipeline, path, || (format!("{value} is negative"), "use 0 or more; 0 means the default"));
    }
    count
}

fn template(job: &Job, path: &Path<'_>, found: &mut Violations) -> Value {
    if job.command.is_empty() {
        found.error(Code::Pipeline, &path.field("command"), || {
            ("the command is empty", "list the program and its arguments; there is no shell around them")
        });
    }
    let mut container = Map::new();
    container.insert("name".to_owned(), json!("main"));
    if let Some(image) = &job.image {
        container.insert("image".to_owned(), json!(image));
    }
    container.insert("command".to_owned(), json!(job.command));
    let (env, sources) = environment(job, path, found);
    for (field, list) in [("env", env), ("envFrom", sources)] {
        if !list.is_empty() {
            container.insert(field.to_owned(), Value::Array(list));
        }
    }
    let amounts = resources(&job.resources, &path.field("resources"), found);
    if !amounts.is_empty() {
        container.insert("resources".to_owned(), json!({"requests": amounts, "limits": amounts}));
    }
    let pod = object([("restartPolicy", "Never".into()), ("containers", Value::Array(vec![Value::Object(container)]))]);
    let job = object([("backoffLimit", 0.into()), ("template", object([("spec", pod)]))]);
    object([("apiVersion", "batch/v1".into()), ("kind", "Job".into()), ("spec", job)])
}

/// A mapping of members, which are moved and not copied.
fn object<const N: usize>(members: [(&str, Value); N]) -> Value {
    Value::Object(members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}

fn resources(resources: &Resources, path: &Path<'_>, found: &mut Violations) -> Map<String, Value> {
    let table = [
        ("cpu", "m", resources.cpu_m, "cpu_m"),
        ("memory", "Mi", resources.memory_mb, "memory_mb"),
        ("nvidia.com/gpu", "", resources.gpu, "gpu"),
    ];
    let mut amounts = Map::new();
    for (name, unit, value, field) in table {
        if let Some(amount) = count(value, &path.field(field), found).filter(|amount| *amount > 0) {
            amounts.insert(name.to_owned(), json!(format!("{amount}{unit}")));
        }
    }
    amounts
}

/// Variables by name, then those from secrets in their order; and whole secrets.
fn environment(job: &Job, path: &Path<'_>, found: &mut Violations) -> (Vec<Value>, Vec<Value>) {
    let (vars, list) = (path.field("env"), path.field("secret_refs"));
    let (mut env, mut sources) = (Vec::new(), Vec::new());
    let mut names: BTreeSet<String> = job.env.keys().cloned().collect();
    for (name, value) in &job.env {
        variable_name(name, &vars.field(name), found);
        env.push(object([("name", name.as_str().into()), ("value", value.as_str().into())]));
    }
    for (index, reference) in job.secret_refs.iter().enumerate() {
        let path = list.index(index);
        match SecretRef::read(reference) {
            None => found.error(Code::Pipeline, &path, || {
                let help = "write `secret` for all its keys, `secret/key`, or `ENV=secret/key`";
                (format!("{} names no secret", shown(reference)), help)
            }),
            Some(SecretRef::All(secret)) => sources.push(object([("secretRef", object([("name", secret.into())]))])),
            Some(SecretRef::Key { name, secret, key }) => {
                variable_name(&name, &path, found);
                if !names.insert(name.clone()) {
                    found.error(Code::Pipeline, &path, || {
                        (format!("the variable {} is set twice", shown(&name)), "write OTHER_NAME=secret/key")
                    });
                }
                let key = object([("name", secret.into()), ("key", key.into())]);
                env.push(object([("name", name.into()), ("valueFrom", object([("secretKeyRef", key)]))]));
            }
        }
    }
    (env, sources)
}

fn variable_name(name: &str, path: &Path<'_>, found: &mut Violations) {
    if name.is_empty() || name.contains(['=', '\0']) {
        found.error(Code::Pipeline, path, || {
            (format!("{} is not a valid variable name", shown(name)), "use letters, digits and `_`")
        });
    }
}

/// A member of `secret_refs`.
enum SecretRef<'r> {
    All(&'r str),
    Key { name: String, secret: &'r str, key: &'r str },
}

impl<'r> SecretRef<'r> {
    fn read(text: &'r str) -> Option<Self> {
        let (name, source) = text.split_once('=').map_or((None, text), |(name, source)| (Some(name), source));
        match (name, source.split_once('/')) {
            (None, None) if !source.is_empty() => Some(Self::All(source)),
            (name, Some((secret, key))) if !secret.is_empty() && !key.is_empty() => {
                let upper = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
                let name = name.map_or_else(|| key.chars().map(upper).collect(), str::to_owned);
                Some(Self::Key { name, secret, key })
            }
            _ => None,
        }
    }
}
