//! From a spec to a plan. Owns what the engine depends on: unique names, known references, compiled conditions, an
//! acyclic graph.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use orlop_core::spec::flow::{FlowParameter, FlowSpec};
use orlop_core::spec::step::{InputParameter, Step};

use super::graph::{Edge, EdgeList, Graph};
use super::{FailureMeaning, FanOut, Plan, Policy, StepPlan};
use crate::code::Code;
use crate::depends::{self, Depends};
use crate::params::Path;
use crate::when::{self, Condition, Parameters, Scope, Secrecy, Steps};

/// Default limit of a `finally` attempt.
const FINALLY_TIMEOUT: Duration = Duration::from_secs(3600);

/// Errors that are told with the name that was meant.
pub(super) const SUGGESTED: usize = 100;

/// One reason why a spec cannot be planned.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {message}")]
pub struct PlanError {
    /// What kind of fault it is.
    pub code: Code,
    /// Field path.
    pub path: String,
    /// What is wrong and what to do.
    pub message: String,
    /// What would be right, where it is known.
    pub help: Option<String>,
}

/// All reasons why a spec cannot be planned, at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanErrors(Vec<PlanError>);

impl std::fmt::Display for PlanErrors {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (number, error) in self.0.iter().enumerate() {
            write!(f, "{}{error}", if number == 0 { "" } else { "; " })?;
        }
        Ok(())
    }
}

impl std::error::Error for PlanErrors {}

impl std::ops::Deref for PlanErrors {
    type Target = [PlanError];

    fn deref(&self) -> &[PlanError] {
        &self.0
    }
}

impl IntoIterator for PlanErrors {
    type Item = PlanError;
    type IntoIter = std::vec::IntoIter<PlanError>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

struct Builder<'a> {
    spec: &'a FlowSpec,
    index: BTreeMap<Arc<str>, u32>,
    scope: Steps<'a>,
    parameters: Parameters<'a>,
    edges: EdgeList,
    /// Steps, each with a step whose join names its failure.
    named: BTreeSet<(u32, u32)>,
    projections: BTreeMap<u32, Vec<String>>,
    /// Those of `projections`, to find them.
    projected: BTreeSet<(u32, &'a str)>,
    errors: Vec<PlanError>,
}

pub(super) fn build(spec: Arc<FlowSpec>) -> Result<Plan, PlanErrors> {
    let mut builder = Builder::new(&spec);
    let main = spec.steps.len();
    let mut steps = Vec::with_capacity(main + spec.finally.len());
    for (number, step) in spec.steps.iter().chain(&spec.finally).enumerate() {
        steps.push(builder.step(u32::try_from(number).unwrap_or(u32::MAX), step, number >= main));
    }
    builder.finish_edges();
    let Builder { index, edges, named, projections, mut errors, .. } = builder;
    set_failures(&mut steps, &edges, &named);
    for (step, paths) in projections {
        if let Some(step) = steps.get_mut(step as usize) {
            step.projections = paths;
        }
    }
    let graph = match Graph::freeze(steps.len(), &edges) {
        Ok(graph) => graph,
        Err(cycle) => {
            errors.push(cycle_error(&spec, &steps, &cycle));
            Graph::default()
        }
    };
    if !errors.is_empty() {
        return Err(PlanErrors(errors));
    }
    let policy = Policy::new(spec.execution_policy.as_ref());
    let heights = super::Ranks::new(&graph, main).height;
    Ok(Plan { steps, graph, index, heights, policy, spec })
}

fn cycle_error(spec: &FlowSpec, steps: &[StepPlan], cycle: &[u32]) -> PlanError {
    let name = |step: &u32| steps.get(*step as usize).map_or("", |step| step.name.as_ref());
    let mut names: Vec<&str> = cycle.iter().take(10).map(name).collect();
    if cycle.len() > 10 {
        names.push("\u{2026}");
    }
    let first = cycle.first().copied().unwrap_or(0);
    names.push(name(&first));
    PlanError {
        code: Code::Cycle,
        path: path(spec, first, "dependencies"),
        message: format!("steps wait for each other in a cycle: {}", names.join(" \u{2192} ")),
        help: Some("remove one of these dependencies or references".to_owned()),
    }
}

/// Field path of a member of a step.
pub(super) fn path(spec: &FlowSpec, step: u32, member: &str) -> String {
    let index = step as usize;
    match index.checked_sub(spec.steps.len()) {
        None => format!("spec.steps[{index}].{member}"),
        Some(index) => format!("spec.finally[{index}].{member}"),
    }
}

impl<'a> Builder<'a> {
    fn new(spec: &'a FlowSpec) -> Self {
        let mut builder = Self {
            spec,
            index: BTreeMap::new(),
            scope: Steps::new(),
            parameters: Parameters::new(),
            edges: Vec::new(),
            named: BTreeSet::new(),
            projections: BTreeMap::new(),
            projected: BTreeSet::new(),
            errors: Vec::new(),
        };
        for (number, step) in (0_u32..).zip(spec.steps.iter().chain(&spec.finally)) {
            let name: Arc<str> = Arc::from(step.name.as_str());
            if builder.index.insert(name, number).is_some() {
                let message = format!("step name `{}` is used twice", step.name);
                builder.fail(Code::Name, number, "name", message, Some("give every step a unique name".to_owned()));
            }
            builder.scope.declare(&step.name, step.output_parameters().iter().map(|output| output.name.as_str()));
        }
        for parameter in &spec.parameters {
            builder.parameters.declare(&parameter.name, flow_secrecy(parameter));
        }
        builder
    }

    fn fail(&mut self, code: Code, step: u32, member: &str, message: String, help: Option<String>) {
        let path = path(self.spec, step, member);
        self.errors.push(PlanError { code, path, message, help });
    }

    /// The step that was meant, for the first errors only: nobody reads more of them.
    fn suggestion(&self, name: &str) -> Option<String> {
        if self.errors.len() < SUGGESTED { self.scope.suggestion(name) } else { None }
    }

    fn step(&mut self, number: u32, step: &'a Step, finally: bool) -> StepPlan {
        let join = self.join(number, step, finally);
        let condition = self.condition(number, step, finally);
        self.references(number, step, finally);
        let given = step.timeout_millis.map(Duration::from_millis).or_else(|| seconds(step.timeout_seconds));
        StepPlan {
            name: Arc::from(step.name.as_str()),
            manual: step.is_manual(),
            finally,
            failure: FailureMeaning { satisfies: step.continue_on_failure == Some(true), ..FailureMeaning::default() },
            retry: step.retry_policy.as_ref().map(|policy| Box::new((policy.retries(), policy.formula()))),
            timeout: given.or(finally.then_some(FINALLY_TIMEOUT)),
            pending: seconds(step.pending_timeout_seconds),
            join,
            condition,
            fan_out: fan_out(step),
            projections: Vec::new(),
            forget_after: step.template.as_ref().and_then(template_ttl),
        }
    }

    /// Edges of `dependencies`, or the compiled `depends` with its edges.
    fn join(&mut self, number: u32, step: &'a Step, finally: bool) -> Option<Box<Depends>> {
        let Some(source) = &step.depends else {
            for (at, name) in step.dependencies.iter().enumerate() {
                self.depend(number, name, finally, &format!("dependencies[{at}]"));
            }
            return None;
        };
        match depends::compile(source, &self.scope) {
            Ok(join) => {
                for name in join.references() {
                    self.depend(number, name, finally, "depends");
                }
                let named = join.named_failures().filter_map(|name| self.index.get(name).copied());
                self.named.extend(named.map(|source| (source, number)));
                Some(Box::new(join))
            }
            Err(error) => {
                self.fail(Code::Reference, number, "depends", error.to_string(), error.help().map(str::to_owned));
                None
            }
        }
    }

    fn depend(&mut self, number: u32, name: &str, finally: bool, member: &str) {
        match self.index.get(name).copied() {
            Some(source) if self.is_finally(source) == finally => self.edges.push((source, Edge::new(number, false))),
            Some(_) => {
                let message =
                    format!("`{name}` cannot be a dependency: `steps` and `finally` wait for their own steps only");
                let help = "steps of `finally` run after all others anyway";
                self.fail(Code::Reference, number, member, message, Some(help.to_owned()));
            }
            None => {
                let message = format!("there is no step `{name}`");
                let near = self.suggestion(name);
                self.fail(Code::Reference, number, member, message, near);
            }
        }
    }

    fn is_finally(&self, step: u32) -> bool {
        step as usize >= self.spec.steps.len()
    }

    /// An edge that only orders. A `finally` step may read every main step: these are settled before it.
    fn refer(&mut self, number: u32, name: &str, finally: bool, member: &str) {
        match self.index.get(name).copied() {
            Some(source) if self.is_finally(source) == finally => self.edges.push((source, Edge::new(number, true))),
            Some(_) if finally => {}
            Some(_) => {
                let message = format!("`{name}` is a `finally` step and runs after this one");
                self.fail(Code::Reference, number, member, message, None);
            }
            None => {
                let message = format!("there is no step `{name}`");
                let near = self.suggestion(name);
                self.fail(Code::Reference, number, member, message, near);
            }
        }
    }

    fn condition(&mut self, number: u32, step: &'a Step, finally: bool) -> Option<Box<Condition>> {
        let source = step.when.as_deref()?;
        if matches!(source.trim(), "" | "always" | "true") {
            return None;
        }
        let mut inputs = Parameters::new();
        for input in step.input_parameters() {
            inputs.declare(&input.name, input_secrecy(input));
        }
        let mut scope = Scope::new(&self.scope).flow_parameters(&self.parameters).inputs(&inputs);
        if step.is_fan_out() {
            scope = scope.in_fan_out();
        }
        if finally {
            scope = scope.in_finally();
        }
        match when::compile(source, &scope).and_then(Condition::decidable) {
            Ok(condition) => {
                let steps: Vec<String> = condition.references().steps().map(str::to_owned).collect();
                for name in steps {
                    self.refer(number, &name, finally, "when");
                }
                Some(Box::new(condition))
            }
            Err(error) => {
                self.fail(Code::Reference, number, "when", error.to_string(), error.help().map(str::to_owned));
                None
            }
        }
    }

    /// References of inputs and of the fan-out source.
    fn references(&mut self, number: u32, step: &'a Step, finally: bool) {
        for (at, input) in step.input_parameters().iter().enumerate() {
            let path = input.value_from.as_ref().and_then(|source| source.json_path.as_deref());
            if let Some((source, path)) = path.and_then(split_reference) {
                self.project(number, source, path, finally, &format!("inputs.parameters[{at}].valueFrom.jsonPath"));
            }
        }
        for (at, input) in step.input_artifacts().iter().enumerate() {
            if let Some((source, _)) = input.source() {
                self.refer(number, source, finally, &format!("inputs.artifacts[{at}].from"));
            }
        }
        if let Some((source, path)) = step.with_param.as_deref().and_then(split_reference) {
            self.project(number, source, path, finally, "withParam");
        }
    }

    fn project(&mut self, number: u32, source: &str, path: &'a str, finally: bool, member: &str) {
        self.refer(number, source, finally, member);
        // What a step has recorded by name is read there, and not recorded twice.
        if Path::parse(path).is_ok_and(|path| path.first_member() == Some("outputs")) {
            return;
        }
        if let Some(source) = self.index.get(source).copied()
            && self.projected.insert((source, path))
        {
            self.projections.entry(source).or_default().push(path.to_owned());
        }
    }

    /// Sorts the edges and drops duplicates; an edge that needs satisfaction also orders.
    fn finish_edges(&mut self) {
        self.edges.sort_unstable_by_key(|(source, edge)| (*source, edge.target(), edge.is_reference()));
        self.edges.dedup_by_key(|(source, edge)| (*source, edge.target()));
    }
}

/// What the failure of each step means: a dependent that does not name it leaves it untolerated.
fn set_failures(steps: &mut [StepPlan], edges: &EdgeList, named: &BTreeSet<(u32, u32)>) {
    let mut unnamed = vec![false; steps.len()];
    for (source, edge) in edges.iter().filter(|(_, edge)| !edge.is_reference()) {
        if let Some(unnamed) = unnamed.get_mut(*source as usize) {
            *unnamed |= !named.contains(&(*source, edge.target()));
        }
    }
    for (source, _) in named {
        if let Some(step) = steps.get_mut(*source as usize) {
            step.failure.named = true;
        }
    }
    for (step, unnamed) in steps.iter_mut().zip(unnamed) {
        step.failure.tolerated = step.failure.satisfies || (step.failure.named && !unnamed);
    }
}

/// A JSONPath reference with a step prefix as step and path; absent where there is no prefix.
pub(crate) fn split_reference(text: &str) -> Option<(&str, &str)> {
    if text.trim_start().starts_with('$') {
        return None;
    }
    let (step, path) = text.split_once(':')?;
    let path = path.trim();
    path.starts_with('$').then_some((step.trim(), path))
}

fn fan_out(step: &Step) -> Option<Box<FanOut>> {
    step.is_fan_out().then(|| {
        Box::new(FanOut {
            listed: step.with_items.as_ref().map(|items| u32::try_from(items.len()).unwrap_or(u32::MAX)),
            parallelism: step.parallelism.and_then(|n| u32::try_from(n).ok()).filter(|n| *n > 0),
        })
    })
}

fn seconds(value: Option<i64>) -> Option<Duration> {
    value.and_then(|value| u64::try_from(value).ok()).filter(|value| *value > 0).map(Duration::from_secs)
}

fn template_ttl(template: &serde_json::Value) -> Option<Duration> {
    template.get("spec")?.get("ttlSecondsAfterFinished")?.as_u64().map(Duration::from_secs)
}

fn flow_secrecy(parameter: &FlowParameter) -> Secrecy {
    match parameter.value_from.as_ref().and_then(|source| source.secret_key_ref.as_ref()) {
        Some(_) => Secrecy::Secret,
        None => Secrecy::Plain,
    }
}

/// Whether a condition may read an input of a step.
pub(crate) fn input_secrecy(parameter: &InputParameter) -> Secrecy {
    match parameter.value_from.as_ref() {
        Some(source) if source.secret_key_ref.is_some() => Secrecy::Secret,
        Some(source) if source.config_map_key_ref.is_some() => Secrecy::Late,
        _ => Secrecy::Plain,
    }
}
