//! Retry from failed (rule R39): which steps of a finished flow run again, and what the others hand over. Owns the choice;
//! the new flow is submitted like any other, with these events first.

use std::collections::BTreeSet;

use orlop_core::attempt::{Address, StepIndex};
use orlop_core::event::FlowEvent;
use orlop_core::machine::step::{StepOutcome, StepState};
use orlop_core::spec::status::{ArtifactRecord, StepOutputs};
use orlop_core::spec::step::Rerun;

use crate::attempt::imported_name;
use crate::engine::{State, step_status};
use crate::plan::Plan;

/// The flow that is repeated.
#[derive(Clone, Copy, Debug)]
pub struct Parent<'a> {
    /// Its plan.
    pub plan: &'a Plan,
    /// Its state, terminal.
    pub state: &'a State,
}

impl Parent<'_> {
    fn succeeded(self, step: StepIndex) -> bool {
        let settled = self.state.attempt(Address { step, item: None });
        settled.is_some_and(|(state, _)| state == StepState::SUCCEEDED)
    }
}

/// Imports of everything that does not run again: steps that Succeeded, that nobody named in `again`, that are unchanged,
/// do not always run, and come after no step that runs again. A step whose condition was false is not imported: it would
/// count as Succeeded. It does not make its dependents run again either; its condition is asked again.
#[must_use]
pub fn imports(plan: &Plan, parent: Parent<'_>, again: &[String]) -> Vec<FlowEvent> {
    let rerun = rerun(plan, parent, again);
    let mut events = Vec::new();
    for step in 0..u32::try_from(plan.main_len()).unwrap_or(u32::MAX) {
        let at = Address::step(step);
        let source = parent.plan.index_of(plan.name(at.step)).filter(|_| !rerun.contains(&step));
        if let Some(source) = source.filter(|source| parent.succeeded(*source)) {
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use orlop_core::effect::FlowEffect;
    use orlop_core::time::Time;
    use serde_json::{Value, json};

    use super::*;
    use crate::engine::{FlowMeta, apply, init};

    const NOW: Time = Time::from_millis(1_000_000);

    fn plan(steps: Value) -> Plan {
        let mut spec = json!({ "steps": steps, "executionPolicy": {"failurePolicy": "Continue"} });
        for step in spec["steps"].as_array_mut().unwrap() {
            step["template"] = json!({"apiVersion": "batch/v1", "kind": "Job", "spec": {}});
        }
        Plan::build(Arc::new(serde_json::from_value(spec).unwrap())).unwrap()
    }

    /// Runs a flow to its end; steps named `bad…` fail.
    fn run(plan: &Plan) -> State {
        let mut effects = Vec::new();
        let mut state = init(plan, &FlowMeta::default(), NOW, &mut effects);
        apply(plan, &mut state, &FlowEvent::Admit, NOW, &mut effects);
        while let Some(effect) = effects.pop() {
            let FlowEffect::StartAttempt { at, attempt, .. } = effect else { continue };
            let event = if plan.name(at.step).starts_with("bad") {
                FlowEvent::AttemptGone { at, attempt, ended_at: NOW }
            } else {
                FlowEvent::AttemptSucceeded { at, attempt, result: Box::default(), ended_at: NOW }
            };
            apply(plan, &mut state, &event, NOW, &mut effects);
        }
        assert!(state.phase().is_terminal());
        state
    }

    /// Names of the steps that are handed over.
    fn kept(new: &Plan, old: &Plan, again: &[&str]) -> Vec<String> {
        let state = run(old);
        let again: Vec<String> = again.iter().map(ToString::to_string).collect();
        let events = imports(new, Parent { plan: old, state: &state }, &again);
        let step = |event: &FlowEvent| match event {
            FlowEvent::Import { at, .. } => new.name(at.step).to_owned(),
            other => panic!("not an import: {other:?}"),
        };
        events.iter().map(step).collect()
    }

    fn chain() -> Value {
        json!([
            {"name": "a"}, {"name": "b", "dependencies": ["a"]}, {"name": "c", "dependencies": ["b"]},
            {"name": "bad", "dependencies": ["a"]}, {"name": "after", "dependencies": ["bad"]}, {"name": "other"},
        ])
    }

    #[test]
    fn r39_what_failed_and_what_follows_runs_again() {
        let flow = plan(chain());
        assert_eq!(kept(&flow, &flow, &[]), ["a", "b", "c", "other"]);
    }

    #[test]
    fn r39_named_steps_run_again_with_all_that_follows() {
        let flow = plan(chain());
        assert_eq!(kept(&flow, &flow, &["b"]), ["a", "other"]);
        assert_eq!(kept(&flow, &flow, &["a"]), ["other"]);
    }

    #[test]
    fn r39_changed_steps_new_steps_and_those_that_always_run_are_not_imported() {
        let old = plan(chain());
        let mut steps = chain();
        steps[1]["timeoutSeconds"] = json!(7);
        steps[5]["rerun"] = json!("Always");
        steps.as_array_mut().unwrap().push(json!({"name": "new"}));
        assert_eq!(kept(&plan(steps.clone()), &old, &[]), ["a"]);
        // Always is a property of the step, also where nothing else has changed.
        let always = plan(steps);
        assert_eq!(kept(&always, &always, &[]), ["a", "b", "c", "new"]);
    }

    #[test]
    fn r39_a_step_whose_condition_was_false_is_asked_again_and_its_dependents_stay() {
        let flow = plan(json!([
            {"name": "never", "when": "false"}, {"name": "next", "dependencies": ["never"]}, {"name": "bad"},
        ]));
        assert_eq!(kept(&flow, &flow, &[]), ["next"]);
    }
}
