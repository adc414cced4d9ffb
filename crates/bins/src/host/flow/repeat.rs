//! Retry from failed (rule R39): which steps of a finished flow run again, and what the others hand over. Owns the choice;
//! the new flow is submitted like any other, with these events first.

use std::collections::BTreeSet;

use orlop_core::attempt::{Address, StepIndex};
use orlop_core::event::FlowEvent;
use orlop_core::machine::step::{StepOutcome, StepState};
use orlop_core::spec::status::{ArtifactRecord, StepOutputs};
use orlop_core::spec::step::Rerun;
use orlop_dag::engine::{State, step_status};
use orlop_dag::plan::Plan;

use super::artifacts::imported_name;

/// The flow that is repeated.
#[derive(Clone, Copy)]
pub struct Parent<'a> {
    /// Its plan.
    pub plan: &'a Plan,
    /// Its state, terminal.
    pub state: &'a State,
}

/// Imports of everything that does not run again: steps that Succeeded or were Skipped/ConditionFalse, that nobody named
/// in `again`, that are unchanged, do not always run, and come after no step that runs again.
#[must_use]
pub fn imports(plan: &Plan, parent: Parent<'_>, again: &[String]) -> Vec<FlowEvent> {
    let rerun = rerun(plan, parent, again);
    let mut events = Vec::new();
    for step in 0..u32::try_from(plan.main_len()).unwrap_or(u32::MAX) {
        let at = Address::step(step);
        if rerun.contains(&step) {
            continue;
        }
        if let Some(source) = parent.plan.index_of(plan.name(at.step)) {
            events.push(FlowEvent::Import { at, outputs: Box::new(outputs(parent, source)) });
        }
    }
    events
}

/// Steps that run again, `finally` left aside.
fn rerun(plan: &Plan, parent: Parent<'_>, again: &[String]) -> BTreeSet<u32> {
    let main = u32::try_from(plan.main_len()).unwrap_or(u32::MAX);
    let mut rerun: BTreeSet<u32> = (0..main).filter(|step| itself(plan, parent, again, StepIndex(*step))).collect();
    // In topological order every step is seen after all it waits for.
    for step in plan.order() {
        if rerun.contains(step) {
            rerun.extend(
                plan.dependents(StepIndex(*step)).map(|(dependent, _)| dependent.0).filter(|step| *step < main),
            );
        }
    }
    rerun
}

fn itself(plan: &Plan, parent: Parent<'_>, again: &[String], step: StepIndex) -> bool {
    let name = plan.name(step);
    let Some(old) = parent.plan.index_of(name) else { return true };
    let (new_spec, old_spec) = (plan.step(step), parent.plan.step(old));
    let at = Address { step: old, item: None };
    let status = step_status(parent.plan, parent.state, at);
    let settled = parent.state.attempt(at).map(|(state, _)| state);
    let kept = match settled {
        Some(StepState::Done(StepOutcome::Succeeded)) => true,
        Some(StepState::Done(StepOutcome::Skipped)) => status.reason == "ConditionFalse",
        _ => false,
    };
    let always = new_spec.and_then(|step| step.rerun) == Some(Rerun::Always);
    !kept || always || new_spec != old_spec || again.iter().any(|wanted| wanted == name)
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
