//! Repeating a flow that has ended: which of its steps and instances run again in a new flow, and which results the new flow takes
//! over. Owns this choice; the new flow is submitted like any other and gets the events of [`imports`] first.
//!
//! ```
//! use std::collections::BTreeMap;
//! use orlop_core::attempt::Address;
//! use orlop_dag::prelude::*;
//! use orlop_dag::repeat::{Parent, Wanted, imports};
//! let plan = Plan::build(FlowSpec::new([Step::new("build"), Step::new("test").after(["build"])]).into())?;
//! let (mut effects, now) = (Vec::new(), Time::EPOCH);
//! let mut state = init(&plan, &FlowMeta::default(), now, &mut effects);
//! let (build, test) = (Address::step(0), Address::step(1));
//! for event in [
//!     FlowEvent::Admit,
//!     FlowEvent::AttemptAccepted { at: build, attempt: 1, reference: Default::default() },
//!     FlowEvent::AttemptSucceeded { at: build, attempt: 1, result: Box::default(), ended_at: now },
//!     FlowEvent::AttemptAccepted { at: test, attempt: 1, reference: Default::default() },
//!     FlowEvent::AttemptFailed {
//!         at: test, attempt: 1, reason: "NonZeroExit".into(), message: "exit code 1".into(), pods: vec![],
//!         result: Box::default(), ended_at: now,
//!     },
//! ] {
//!     apply(&plan, &mut state, &event, now, &mut effects);
//! }
//! // The new flow takes over the result of `build`, and runs `test` again.
//! let wanted = Wanted { steps: &[], parameters: &BTreeMap::new() };
//! let taken_over = imports(&plan, Parent { plan: &plan, state: &state }, wanted);
//! assert!(matches!(taken_over[..], [FlowEvent::Import { at, .. }] if at == build));
//! # Ok::<(), PlanErrors>(())
//! ```

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use orlop_core::attempt::{Address, StepIndex};
use orlop_core::event::FlowEvent;
use orlop_core::machine::flow::FlowPhase;
use orlop_core::machine::step::{StepOutcome, StepPhase, StepState};
use orlop_core::spec::status::{ArtifactRecord, StepOutputs};
use orlop_core::spec::step::{Rerun, Step};

use crate::attempt::imported_name;
use crate::engine::{State, step_status};
use crate::params::{InputSource, ItemsSource, input_source, names_in};
use crate::plan::Plan;

/// The flow that is repeated.
#[derive(Clone, Copy, Debug)]
pub struct Parent<'a> {
    /// Its plan.
    pub plan: &'a Plan,
    /// Its state; the flow has ended.
    pub state: &'a State,
}

impl Parent<'_> {
    fn succeeded(self, step: StepIndex) -> bool {
        let settled = self.state.attempt(Address { step, item: None });
        settled.is_some_and(|(state, _)| state == StepState::SUCCEEDED)
    }

    /// Values of parameters that were given at its submission and that the new plan still declares. Values that were written in the old
    /// spec are left out: those of the new spec count.
    #[must_use]
    pub fn given_parameters(self, plan: &Plan) -> BTreeMap<String, String> {
        let declared = |plan: &Plan, name: &str| plan.spec().parameters.iter().find(|one| one.name == name).cloned();
        let given = self.state.meta().parameters.iter().filter(|(name, value)| {
            let stood = declared(self.plan, name).is_some_and(|old| old.value.as_ref() == Some(value));
            !stood && declared(plan, name).is_some_and(|new| new.value_from.is_none())
        });
        given.map(|(name, value)| (name.clone(), value.clone())).collect()
    }

    /// Whether a step came out so that it need not run again.
    fn keeps(self, name: &str) -> bool {
        let Some(step) = self.plan.index_of(name) else { return false };
        let at = Address { step, item: None };
        match self.state.attempt(at).map(|(state, _)| state) {
            Some(StepState::Done(StepOutcome::Succeeded)) => true,
            Some(StepState::Done(StepOutcome::Skipped)) => {
                step_status(self.plan, self.state, at).reason == "ConditionFalse"
            }
            _ => false,
        }
    }
}

/// What a user asks of the new flow.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// Names of steps that run again, however they ended.
    pub steps: &'a [String],
    /// Values given for its parameters, in place of those in its spec.
    pub parameters: &'a BTreeMap<String, String>,
}

/// Whether a flow may be repeated: it has ended, and where it Succeeded, `steps` is not empty or `force` is set.
///
/// # Errors
/// A sentence for people, with what to do.
pub fn may_repeat(name: &str, phase: FlowPhase, steps: &[String], force: bool) -> Result<(), String> {
    if !phase.is_terminal() {
        return Err(format!("`{name}` has not ended: it is {phase}; retry it when it has"));
    }
    if phase == FlowPhase::Succeeded && steps.is_empty() && !force {
        return Err(format!(
            "`{name}` Succeeded, so there is nothing to retry; name steps to run again with --step (`retryOf.steps`), \
             or repeat it all the same, its `finally` included, with --force (`retryOf.force`)"
        ));
    }
    Ok(())
}

/// The message about a step to be repeated that the flow does not have, with a remark where it names an instance of a fan-out.
#[must_use]
pub fn no_step(flow: &str, step: &str, is_fan_out: impl Fn(&str) -> bool) -> String {
    let (name, item) = step.split_once(" (").unwrap_or((step, ""));
    let bracket = name.strip_suffix(']').and_then(|name| name.split_once('['));
    let of = bracket.or_else(|| name.rsplit_once("-i")).or((!item.is_empty()).then_some((name, "")));
    let number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    match of.filter(|(fan_out, item)| number(item) && is_fan_out(fan_out)) {
        Some((fan_out, _)) => format!(
            "`{step}` is an instance of step `{fan_out}`, and steps are named: `--step {fan_out}` runs all its instances again; \
             those that failed run again without being named"
        ),
        None => format!("flow `{flow}` has no step `{step}`"),
    }
}

/// Whether a flow with a changed spec may be a repetition of another one: they have at least one step in common.
///
/// # Errors
/// A sentence for people, with what to do.
pub fn is_of(name: &str, plan: &Plan, parent: &Plan) -> Result<(), String> {
    let shared = (0..plan.main_len()).filter_map(|step| u32::try_from(step).ok());
    if shared.into_iter().any(|step| parent.index_of(plan.name(StepIndex(step))).is_some()) {
        return Ok(());
    }
    Err(format!("no step of it is a step of `{name}`: it is another flow; run it by itself, without a retry"))
}

/// The events that import results into the new flow, one for each step that does not run again. A step does not run again if all
/// of this holds: it Succeeded; it is not in [`Wanted::steps`]; it is unchanged and reads no parameter whose value has changed; it
/// has not `rerun: Always`; and no step before it runs again.
///
/// Of a fan-out step that runs again only because it failed or was skipped, the instances that Succeeded are imported. A step whose
/// condition was false is not imported, since it would count as Succeeded; its condition is evaluated again, and its dependents
/// need not run again because of it.
#[must_use]
pub fn imports(plan: &Plan, parent: Parent<'_>, wanted: Wanted<'_>) -> Vec<FlowEvent> {
    let choice = Choice::new(plan, parent, wanted);
    let mut events = Vec::new();
    for step in 0..u32::try_from(plan.main_len()).unwrap_or(u32::MAX) {
        let Some(source) = parent.plan.index_of(plan.name(StepIndex(step))) else { continue };
        if choice.unfinished.contains(&step) {
            events.extend(succeeded_instances(parent, source).map(|(item, outputs)| FlowEvent::Import {
                at: Address::instance(step, item),
                outputs: Box::new(outputs),
            }));
        } else if !choice.rerun.contains(&step) && parent.succeeded(source) {
            events.push(FlowEvent::Import { at: Address::step(step), outputs: Box::new(outputs(parent, source)) });
        }
    }
    events
}

/// Steps that run again, `finally` left aside.
struct Choice {
    rerun: BTreeSet<u32>,
    /// Fan-outs among them that run again only because they failed or were skipped, over the same list.
    unfinished: BTreeSet<u32>,
}

impl Choice {
    fn new(plan: &Plan, parent: Parent<'_>, wanted: Wanted<'_>) -> Self {
        let main = u32::try_from(plan.main_len()).unwrap_or(u32::MAX);
        let mut choice = Self { rerun: BTreeSet::new(), unfinished: BTreeSet::new() };
        let changed = changed_parameters(plan, parent, wanted);
        for step in 0..main {
            let index = StepIndex(step);
            let anew =
                runs_anew(plan, parent, wanted, index) || plan.step(index).is_some_and(|step| reads(step, &changed));
            if anew || !parent.keeps(plan.name(index)) {
                choice.rerun.insert(step);
            }
            if !anew && choice.rerun.contains(&step) && has_same_list(plan, parent, wanted, index) {
                choice.unfinished.insert(step);
            }
        }
        // In topological order every step is seen after all it waits for.
        for step in plan.order().iter().filter(|step| **step < main) {
            if choice.rerun.contains(step) {
                for (StepIndex(dependent), _) in plan.dependents(StepIndex(*step)) {
                    choice.unfinished.remove(&dependent);
                    choice.rerun.insert(dependent);
                }
            }
        }
        choice
    }
}

/// Whether a step runs again whatever became of it: it is new, changed, named, or always runs.
fn runs_anew(plan: &Plan, parent: Parent<'_>, wanted: Wanted<'_>, step: StepIndex) -> bool {
    let name = plan.name(step);
    let Some(old) = parent.plan.index_of(name) else { return true };
    let (new_spec, old_spec) = (plan.step(step), parent.plan.step(old));
    let always = new_spec.and_then(|step| step.rerun) == Some(Rerun::Always);
    always || new_spec != old_spec || wanted.steps.iter().any(|wanted| wanted == name)
}

/// Parameters of the flow that have another value than they had, or another source.
fn changed_parameters<'p>(plan: &'p Plan, parent: Parent<'_>, wanted: Wanted<'_>) -> BTreeSet<&'p str> {
    let changed = plan.spec().parameters.iter().filter(|new| {
        let old = parent.plan.spec().parameters.iter().find(|old| old.name == new.name);
        if new.value_from.is_some() {
            return old.is_none_or(|old| old.value_from != new.value_from);
        }
        let before = value_of(parent.plan, &parent.state.meta().parameters, &new.name);
        value_of(plan, wanted.parameters, &new.name) != before
    });
    changed.map(|parameter| parameter.name.as_str()).collect()
}

/// Whether a step reads one of these parameters anywhere: in its template, its inputs, its condition, its list or the message
/// of an approval.
fn reads(step: &Step, parameters: &BTreeSet<&str>) -> bool {
    if parameters.is_empty() {
        return false;
    }
    let tree = serde_json::to_value(step).unwrap_or_default();
    let in_condition = |name: &str| {
        let words =
            step.when.iter().flat_map(|when| when.split(|c: char| !c.is_alphanumeric() && !matches!(c, '_' | '-')));
        words.into_iter().any(|word| word == name)
    };
    let used = names_in(&tree);
    parameters.iter().any(|name| used.contains(name) || in_condition(name))
}

/// Whether an unchanged step fans out over the list of the old flow: one of the spec, of a step that does not run again (else
/// neither does this), or of a parameter that has the same value.
fn has_same_list(plan: &Plan, parent: Parent<'_>, wanted: Wanted<'_>, step: StepIndex) -> bool {
    let Some(spec) = plan.step(step).filter(|spec| spec.is_fan_out()) else { return false };
    let Some(source) = &spec.with_param else { return true };
    let name = match ItemsSource::parse(source) {
        Ok(ItemsSource::Path(_)) => return true,
        Ok(ItemsSource::Parameter(name)) => name,
        Err(_) => return false,
    };
    if let Some(input) = spec.input_parameters().iter().find(|input| input.name == name) {
        return matches!(input_source(input), Ok(InputSource::Value(_) | InputSource::Path(_)));
    }
    let value = value_of(plan, wanted.parameters, &name);
    value.is_some() && value == value_of(parent.plan, &parent.state.meta().parameters, &name)
}

/// The value of a flow parameter, where it is given or stands in the spec.
fn value_of<'a>(plan: &'a Plan, given: &'a BTreeMap<String, String>, name: &str) -> Option<&'a String> {
    let declared = || plan.spec().parameters.iter().find(|parameter| parameter.name == name)?.value.as_ref();
    given.get(name).or_else(declared)
}

/// What the instances of a fan-out hand over that Succeeded.
fn succeeded_instances(parent: Parent<'_>, step: StepIndex) -> impl Iterator<Item = (u32, StepOutputs)> {
    let total =
        step_status(parent.plan, parent.state, Address { step, item: None }).instances.map_or(0, |all| all.total);
    (0..total).filter_map(move |item| {
        let status = step_status(parent.plan, parent.state, Address { step, item: Some(item) });
        (status.phase == StepPhase::Succeeded).then(|| (item, status.outputs.unwrap_or_default()))
    })
}

/// What a step hands over. The artifacts of a fan-out's instances go under names of their own.
fn outputs(parent: Parent<'_>, step: StepIndex) -> StepOutputs {
    let status = step_status(parent.plan, parent.state, Address { step, item: None });
    let mut outputs = status.outputs.unwrap_or_default();
    for item in 0..status.instances.map_or(0, |counts| counts.total) {
        let instance = step_status(parent.plan, parent.state, Address { step, item: Some(item) });
        let records = instance.outputs.into_iter().flat_map(|outputs| outputs.artifacts);
        outputs.artifacts.extend(records.map(|record| {
            let name = imported_name(&record.name, item);
            ArtifactRecord { name, ..record }
        }));
    }
    outputs
}
