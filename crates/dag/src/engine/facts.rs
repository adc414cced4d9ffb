//! Reading a run: what conditions, inputs and fan-out sources may ask of steps that are settled.

use std::borrow::Cow;

use orlop_core::attempt::Address;
use orlop_core::machine::Named as _;
use orlop_core::machine::step::{StepOutcome, StepState};
use orlop_core::spec::status::StepOutputs;
use orlop_core::spec::step::FlowFact;
use orlop_core::time::GoDuration;

use super::state::{Node, State};
use crate::params::{Counters, Document, InputSource, JsonPathRef, Lookup, QueryError, Scope, gather, input_source};
use crate::plan::Plan;
use crate::when::Facts;

/// Why a path into a step's document gives no value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The reference names no step.
    #[error("the path `{0}` names no step; write `<step>:$.path`")]
    NoStep(String),
    /// The path does not parse.
    #[error("the path `{path}` cannot be read: {message}")]
    Path {
        /// The path as written.
        path: String,
        /// What is wrong with it.
        message: String,
    },
    /// The step is not settled.
    #[error("step {0} is not settled")]
    Unsettled(String),
    /// Nothing is there.
    #[error("step {step} has nothing at `{path}`: {message}")]
    Missing {
        /// The step.
        step: String,
        /// The path.
        path: String,
        /// What was found instead.
        message: String,
    },
}

/// Reads `<step>:$.path` from what is recorded of a settled step: the value extracted when its attempt ended, its
/// outputs and phase, of a fan-out also its counters.
///
/// # Errors
/// When the step is unknown or not settled, or the path selects nothing.
pub fn read_path(plan: &Plan, state: &State, text: &str) -> Result<String, ReadError> {
    let unreadable =
        |error: &dyn std::fmt::Display| ReadError::Path { path: text.to_owned(), message: error.to_string() };
    let reference = JsonPathRef::parse(text).map_err(|error| unreadable(&error))?;
    let Some(name) = &reference.step else { return Err(ReadError::NoStep(text.to_owned())) };
    let name = name.as_str();
    let step = plan.index_of(name).ok_or_else(|| ReadError::NoStep(text.to_owned()))?;
    let at = Address { step, item: None };
    let settled = effective(plan, state, at);
    if !settled.state.is_settled() {
        return Err(ReadError::Unsettled(name.to_owned()));
    }
    let recorded = state.node(at).and_then(|node| node.outputs.as_deref());
    if let Some(value) = recorded.and_then(|outputs| outputs.projections.get(reference.path.as_str())) {
        return Ok(value.clone());
    }
    let missing = |error: QueryError| ReadError::Missing {
        step: name.to_owned(),
        path: reference.path.as_str().to_owned(),
        message: error.to_string(),
    };
    document(state, at, settled.state, recorded).query(&reference.path).map_err(missing)
}

/// What is recorded of a settled step, as a document.
fn document(state: &State, at: Address, settled: StepState, recorded: Option<&StepOutputs>) -> Document {
    match state.groups.get(&at.step.0) {
        Some(group) => {
            let names = recorded.map(|outputs| outputs.parameters.iter().map(|output| output.name.as_str()));
            let value = |node: &Node, name: &str| node.outputs.as_ref()?.parameter(name).map(str::to_owned);
            let arrays = names.into_iter().flatten().map(|name| {
                let values: Vec<Option<String>> = group.nodes.iter().map(|node| value(node, name)).collect();
                (name.to_owned(), gather(values.iter().map(Option::as_deref)))
            });
            let counts = state.index.groups.get(&at.step.0);
            let counters = Counters {
                active: 0,
                succeeded: counts.map_or(0, |counts| u64::from(counts.succeeded)),
                failed: counts.map_or(0, |counts| u64::from(counts.failed)),
            };
            Document::of_fan_out(settled.phase(), counters, arrays)
        }
        None => {
            let outputs = recorded.into_iter().flat_map(|outputs| &outputs.parameters);
            let job = serde_json::json!({});
            Document::of_attempt(settled.phase(), job)
                .with_outputs(outputs.map(|output| (output.name.clone(), output.value.clone())))
        }
    }
}

/// What a unit is, or by a halt has become.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Effective<'a> {
    pub(super) state: StepState,
    pub(super) reason: Option<&'a str>,
    /// Whether the halt made it so: nothing of this is recorded.
    pub(super) derived: bool,
}

/// The state of a unit with halts taken into account: what has not started by then is skipped.
pub(super) fn effective<'a>(plan: &Plan, state: &'a State, at: Address) -> Effective<'a> {
    let Some(node) = state.node(at) else {
        return Effective { state: StepState::Waiting, reason: None, derived: false };
    };
    let finally = plan.get(at.step.0).is_some_and(|step| step.finally);
    let cause = state.halted(finally).map(AsRef::as_ref);
    match cause {
        Some(cause) if matches!(node.state, StepState::Waiting | StepState::Queued | StepState::Awaiting) => {
            halted_unit(state, at, cause)
        }
        _ => Effective { state: node.state, reason: node.reason.as_deref(), derived: false },
    }
}

/// A halted fan-out is live while an instance is, and failed if one failed; all else has been skipped.
fn halted_unit<'a>(state: &'a State, at: Address, cause: &'a str) -> Effective<'a> {
    let of = |state, reason| Effective { state, reason, derived: true };
    match state.index.groups.get(&at.step.0).filter(|_| at.item.is_none()) {
        Some(counts) if counts.live > 0 => {
            // Instances that the halt has skipped have left Pending.
            let begun = counts.begun || counts.open > counts.live;
            let state = if begun { StepState::Active } else { StepState::Starting };
            of(state, None)
        }
        Some(counts) if counts.failed > 0 => {
            of(StepState::Done(StepOutcome::Failed), state.group_failure(at.step.0).map(AsRef::as_ref))
        }
        _ => of(StepState::Done(StepOutcome::Skipped), Some(cause)),
    }
}

/// The most failures that are listed.
const FAILURES: usize = 20;

/// A fact of the flow as text. Facts that are known in `finally` only are empty before.
#[must_use]
pub fn flow_fact(plan: &Plan, state: &State, fact: FlowFact) -> String {
    let flow = &state.flow;
    match fact {
        FlowFact::Outcome => outcome(state).unwrap_or_default().to_owned(),
        FlowFact::Failures if flow.outcome.is_none() => String::new(),
        FlowFact::Failures => failures(plan, state).to_string(),
        FlowFact::Duration => {
            flow.started.map(|started| GoDuration::new(flow.now.since(started)).to_string()).unwrap_or_default()
        }
        FlowFact::Name => flow.meta.name.clone(),
        // There is no page that could be named here.
        FlowFact::Url => String::new(),
    }
}

/// How the steps came out, once they have.
fn outcome(state: &State) -> Option<&'static str> {
    state.flow.outcome.as_ref().map(|outcome| if outcome.good { "Succeeded" } else { "Failed" })
}

/// The first steps and instances that failed, less those that a halt has cut off.
fn failures(plan: &Plan, state: &State) -> serde_json::Value {
    let main = u32::try_from(plan.main_len()).unwrap_or(u32::MAX);
    let units = (0..main).flat_map(|step| match state.groups.get(&step) {
        Some(group) if !group.nodes.is_empty() => {
            (0_u32..).zip(&group.nodes).map(|(item, _)| Address::instance(step, item)).collect()
        }
        _ => vec![Address::step(step)],
    });
    let failed =
        units.filter_map(|at| Some((at, state.node(at).filter(|node| node.failed() && !node.was_cancelled())?)));
    let listed = failed.take(FAILURES).map(|(at, node)| {
        serde_json::json!({
            "step": plan.instance_name(at),
            "reason": node.reason.as_deref().unwrap_or_default(),
            "message": node.message.as_deref().unwrap_or_default(),
        })
    });
    listed.collect()
}

/// A run as the condition of one unit sees it.
pub(super) struct View<'a> {
    plan: &'a Plan,
    state: &'a State,
    at: Address,
}

impl<'a> View<'a> {
    pub(super) fn new(plan: &'a Plan, state: &'a State, at: Address) -> Self {
        Self { plan, state, at }
    }

    fn settled(&self, step: &str) -> Option<Effective<'a>> {
        let at = Address { step: self.plan.index_of(step)?, item: None };
        Some(effective(self.plan, self.state, at)).filter(|unit| unit.state.is_settled())
    }

    fn recorded(&self, step: &str) -> Option<&'a Node> {
        self.state.node(Address { step: self.plan.index_of(step)?, item: None })
    }

    /// The scope of everything that is known without asking anybody.
    fn scope(&self) -> Scope {
        let mut scope = Scope::new();
        for (name, value) in &self.state.flow.meta.parameters {
            scope.bind(name.clone(), value.clone());
        }
        for input in
            self.plan.step(self.at.step).map(orlop_core::spec::step::Step::input_parameters).unwrap_or_default()
        {
            if let Some(value) = self.input(&input.name) {
                scope.bind(input.name.clone(), value);
            }
        }
        if let (Some(item), Some(index)) = (self.state.item(self.plan, self.at), self.at.item) {
            scope.set_instance(item.clone(), index as usize);
        }
        scope
    }

    fn input(&self, name: &str) -> Option<String> {
        let inputs = self.plan.step(self.at.step)?.input_parameters();
        let input = inputs.iter().find(|input| input.name == name)?;
        match input_source(input).ok()? {
            InputSource::Value(text) => Some(text.to_owned()),
            InputSource::Flow(fact) => Some(flow_fact(self.plan, self.state, fact)),
            InputSource::Path(path) => read_path(self.plan, self.state, &path.to_string()).ok(),
            _ => None,
        }
    }
}

/// A message with the placeholders that are known substituted.
pub(super) fn substitute_message(plan: &Plan, state: &State, at: Address, text: &str) -> String {
    let scope = View::new(plan, state, at).scope();
    scope.fill(text).map_or_else(|_| text.to_owned(), Cow::into_owned)
}

impl Facts for View<'_> {
    fn step_phase(&self, step: &str) -> Option<&str> {
        self.settled(step).map(|unit| match unit.state {
            StepState::Done(outcome) => outcome.as_str(),
            _ => "Pending",
        })
    }

    fn step_reason(&self, step: &str) -> Option<&str> {
        self.settled(step)?.reason
    }

    fn step_message(&self, step: &str) -> Option<&str> {
        self.settled(step)?;
        self.recorded(step)?.message.as_deref()
    }

    fn step_retry_count(&self, step: &str) -> Option<u32> {
        self.settled(step)?;
        self.recorded(step).map(|node| node.retries)
    }

    fn output(&self, step: &str, output: &str) -> Option<Cow<'_, str>> {
        self.recorded(step)?.outputs.as_ref()?.parameter(output).map(Cow::Borrowed)
    }

    fn parameter(&self, name: &str) -> Option<Cow<'_, str>> {
        if let (Some(item), Some(index)) = (self.state.item(self.plan, self.at), self.at.item) {
            let mut scope = Scope::new();
            scope.set_instance(item.clone(), index as usize);
            if let Lookup::Plain(text) = scope.lookup(name) {
                return Some(Cow::Owned(text.into_owned()));
            }
        }
        let input = self.input(name).map(Cow::Owned);
        input.or_else(|| self.state.flow.meta.parameters.get(name).map(|text| Cow::Borrowed(text.as_str())))
    }

    fn flow_name(&self) -> &str {
        &self.state.flow.meta.name
    }

    fn flow_namespace(&self) -> &str {
        &self.state.flow.meta.namespace
    }

    fn flow_uid(&self) -> &str {
        &self.state.flow.meta.uid
    }

    fn flow_phase(&self) -> &str {
        self.state.flow.phase.as_str()
    }

    fn flow_outcome(&self) -> Option<&str> {
        outcome(self.state)
    }

    fn flow_label(&self, key: &str) -> Option<&str> {
        self.state.flow.meta.labels.get(key).map(String::as_str)
    }

    fn flow_annotation(&self, key: &str) -> Option<&str> {
        self.state.flow.meta.annotations.get(key).map(String::as_str)
    }
}
