//! Retry from failed: which steps and instances of a finished flow run again, and what the others hand over. Owns the choice;
//! the new flow is submitted like any other, with these events first.

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
    /// Its state, terminal.
    pub state: &'a State,
}

impl Parent<'_> {
    fn succeeded(self, step: StepIndex) -> bool {
        let settled = self.state.attempt(Address { step, item: None });
        settled.is_some_and(|(state, _)| state == StepState::SUCCEEDED)
    }

    /// Values of parameters that were given for it and that a changed spec still declares; values that stood in the old spec
    /// are left to the new one.
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

/// What is asked of the new flow.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// Steps that run again, whatever became of them.
    pub steps: &'a [String],
    /// Values given for its parameters, in place of those in its spec.
    pub parameters: &'a BTreeMap<String, String>,
}

/// Whether a flow may be repeated: it has ended, and where it Succeeded somebody names steps or insists.
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

/// What to say of a step to be repeated that a flow does not have: an instance of a fan-out is no step.
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

/// Whether a flow may take the place of another in a retry: some step of it was one of the other.
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

/// Imports of everything that does not run again: steps that Succeeded, that nobody named, that are unchanged, that read no
/// parameter whose value has changed, do not always run, and come after no step that runs again; of a fan-out that runs again only because it failed or was skipped, the
/// instances that Succeeded. A step whose condition was false is not imported: it would count as Succeeded. It does not make
/// its dependents run again either; its condition is asked again.
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

    /// Runs a flow to its end; steps named `bad…` and items `bad` fail, and every list that is read is `[1, "bad"]`.
    fn run(plan: &Plan) -> State {
        let mut effects = Vec::new();
        let mut state = init(plan, &FlowMeta::default(), NOW, &mut effects);
        apply(plan, &mut state, &FlowEvent::Admit, NOW, &mut effects);
        while let Some(effect) = effects.pop() {
            let event = match effect {
                FlowEffect::StartAttempt { at, attempt, item } => {
                    let bad = item.is_some_and(|item| *item == "bad");
                    if bad || plan.name(at.step).starts_with("bad") {
                        FlowEvent::AttemptGone { at, attempt, ended_at: NOW }
                    } else {
                        FlowEvent::AttemptSucceeded { at, attempt, result: Box::default(), ended_at: NOW }
                    }
                }
                FlowEffect::ResolveItems { step } => {
                    let items = Ok(vec![json!(1), json!("bad")]);
                    FlowEvent::ItemsResolved { at: Address { step, item: None }, items }
                }
                _ => continue,
            };
            apply(plan, &mut state, &event, NOW, &mut effects);
        }
        assert!(state.phase().is_terminal());
        state
    }

    /// Names of the steps and instances that are handed over.
    fn kept(new: &Plan, old: &Plan, again: &[&str]) -> Vec<String> {
        handed_over(new, old, again, &[])
    }

    fn handed_over(new: &Plan, old: &Plan, again: &[&str], parameters: &[(&str, &str)]) -> Vec<String> {
        let state = run(old);
        let steps: Vec<String> = again.iter().map(ToString::to_string).collect();
        let parameters = parameters.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let wanted = Wanted { steps: &steps, parameters: &parameters };
        let events = imports(new, Parent { plan: old, state: &state }, wanted);
        let step = |event: &FlowEvent| match event {
            FlowEvent::Import { at, .. } => new.instance_name(*at),
            other => panic!("not an import: {other:?}"),
        };
        events.iter().map(step).collect()
    }

    #[test]
    fn an_instance_that_is_named_for_a_step_leads_to_its_step() {
        let known = |step: &str| matches!(step, "tests" | "a");
        for form in ["tests-i3", "tests[3]", "tests-i3 (3.9)", "tests (3.9)"] {
            let reported = no_step("etl", form, known);
            assert!(
                reported.contains(&format!("`{form}` is an instance of step `tests`"))
                    && reported.contains("`--step tests`"),
                "{reported}"
            );
        }
        for form in ["nothing", "other-i3", "tests-ix", "b-i3"] {
            assert_eq!(no_step("etl", form, known), format!("flow `etl` has no step `{form}`"));
        }
    }

    #[test]
    fn of_a_fan_out_over_the_same_list_only_what_did_not_succeed_runs_again() {
        let fan = |items: Value| json!([{"name": "fan", "withItems": items}, {"name": "sum", "dependencies": ["fan"]}]);
        let old = plan(fan(json!(["a", "bad", "c"])));
        assert_eq!(kept(&old, &old, &[]), ["fan-i0", "fan-i2"]);
        assert_eq!(kept(&old, &old, &["fan"]), [""; 0], "a named step runs again as a whole");
        assert_eq!(kept(&plan(fan(json!(["a", "bad", "c", "d"]))), &old, &[]), [""; 0], "another list");
        let mut changed = fan(json!(["a", "bad", "c"]));
        changed[0]["timeoutSeconds"] = json!(9);
        assert_eq!(kept(&plan(changed), &old, &[]), [""; 0], "another step");
        let below = plan(
            json!([{"name": "bad"}, {"name": "list"}, {"name": "fan", "withItems": ["a", "bad"], "when": "steps.bad.phase == 'Failed'"},
            {"name": "other", "withParam": "list:$.outputs.l"}]),
        );
        assert_eq!(kept(&below, &below, &[]), ["list", "other-i0"], "what comes after a step that runs again does too");
        assert_eq!(kept(&below, &below, &["list"]), [""; 0]);
    }

    #[test]
    fn a_list_of_a_parameter_is_the_same_where_its_value_is() {
        let spec = |value: &str, steps: Value| {
            let mut spec = json!({"steps": steps, "parameters": [{"name": "l", "value": value}], "executionPolicy": {"failurePolicy": "Continue"}});
            for step in spec["steps"].as_array_mut().unwrap() {
                step["template"] = json!({"apiVersion": "batch/v1", "kind": "Job", "spec": {}});
            }
            Plan::build(Arc::new(serde_json::from_value(spec).unwrap())).unwrap()
        };
        let steps = json!([{"name": "fan", "withParam": "{{parameters.l}}"}]);
        let old = spec("[1,2]", steps.clone());
        assert_eq!(kept(&old, &old, &[]), ["fan-i0"]);
        assert_eq!(handed_over(&old, &old, &[], &[("l", "[1,2]")]), ["fan-i0"]);
        assert_eq!(handed_over(&old, &old, &[], &[("l", "[2,1]")]), [""; 0]);
        assert_eq!(kept(&spec("[3]", steps), &old, &[]), [""; 0]);
    }

    #[test]
    fn a_flow_without_any_step_of_the_old_one_is_another() {
        let (old, other) = (plan(chain()), plan(json!([{"name": "x"}, {"name": "y"}])));
        insta::assert_snapshot!(is_of("f", &other, &old).unwrap_err(), @"no step of it is a step of `f`: it is another flow; run it by itself, without a retry");
        assert_eq!(is_of("f", &plan(json!([{"name": "x"}, {"name": "c"}])), &old), Ok(()));
    }

    #[test]
    fn steps_that_read_a_parameter_whose_value_has_changed_run_again() {
        let spec = |version: &str, key: &str| {
            let template = |text: &str| {
                json!({"apiVersion": "batch/v1", "kind": "Job", "spec": {"template": {"spec": {
                    "containers": [{"name": "main", "image": "i", "command": ["echo", text]}]}}}})
            };
            let from = json!({"name": "from", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": key}}});
            let parameters = json!([{"name": "version", "value": version}, {"name": "env"}, from]);
            let steps = json!([
                {"name": "build", "template": template("${parameters.version}")},
                {"name": "ship", "dependencies": ["build"], "template": template("x")},
                {"name": "ask", "type": "Manual", "message": "to ${parameters.env}?"},
                {"name": "if", "when": "parameters.env == 'prod'", "template": template("x")},
                {"name": "take", "template": template("${parameters.from}")},
                {"name": "other", "template": template("y")},
                {"name": "bad", "template": template("z")},
            ]);
            let policy = json!({"failurePolicy": "Continue"});
            let spec = json!({"steps": steps, "parameters": parameters, "executionPolicy": policy});
            Plan::build(Arc::new(serde_json::from_value(spec).unwrap())).unwrap()
        };
        let names = |plan: &Plan, changed: &BTreeSet<&str>| -> Vec<String> {
            let all = (0..u32::try_from(plan.main_len()).unwrap()).map(StepIndex);
            let read = all.filter(|step| reads(plan.step(*step).unwrap(), changed));
            read.map(|step| plan.name(step).to_owned()).collect()
        };
        let old = spec("1", "k");
        let state = init(
            &old,
            &FlowMeta { parameters: given(&[("env", "prod")]), ..FlowMeta::default() },
            NOW,
            &mut Vec::new(),
        );
        let changed = |new: &Plan, parameters: &[(&str, &str)]| {
            let parameters = given(parameters);
            let wanted = Wanted { steps: &[], parameters: &parameters };
            names(new, &changed_parameters(new, Parent { plan: &old, state: &state }, wanted))
        };
        assert_eq!(changed(&old, &[("env", "prod")]), [""; 0]);
        assert_eq!(changed(&old, &[("env", "prod"), ("version", "9")]), ["build"]);
        assert_eq!(changed(&spec("9", "k"), &[("env", "prod")]), ["build"], "another value in the file");
        assert_eq!(changed(&old, &[("env", "staging")]), ["ask", "if"]);
        assert_eq!(changed(&spec("1", "other"), &[("env", "prod")]), ["take"]);
    }

    fn given(parameters: &[(&str, &str)]) -> BTreeMap<String, String> {
        parameters.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn a_flow_that_succeeded_or_goes_on_is_not_repeated_by_mistake() {
        insta::assert_snapshot!(may_repeat("f", FlowPhase::Running, &[], true).unwrap_err(), @"`f` has not ended: it is Running; retry it when it has");
        insta::assert_snapshot!(may_repeat("f", FlowPhase::Succeeded, &[], false).unwrap_err(), @"`f` Succeeded, so there is nothing to retry; name steps to run again with --step (`retryOf.steps`), or repeat it all the same, its `finally` included, with --force (`retryOf.force`)");
        let named = ["a".to_owned()];
        for (phase, steps, force) in [
            (FlowPhase::Failed, &[][..], false),
            (FlowPhase::Succeeded, &named[..], false),
            (FlowPhase::Succeeded, &[][..], true),
        ] {
            assert_eq!(may_repeat("f", phase, steps, force), Ok(()));
        }
    }

    fn chain() -> Value {
        json!([
            {"name": "a"}, {"name": "b", "dependencies": ["a"]}, {"name": "c", "dependencies": ["b"]},
            {"name": "bad", "dependencies": ["a"]}, {"name": "after", "dependencies": ["bad"]}, {"name": "other"},
        ])
    }

    #[test]
    fn what_failed_and_what_follows_runs_again() {
        let flow = plan(chain());
        assert_eq!(kept(&flow, &flow, &[]), ["a", "b", "c", "other"]);
    }

    #[test]
    fn named_steps_run_again_with_all_that_follows() {
        let flow = plan(chain());
        assert_eq!(kept(&flow, &flow, &["b"]), ["a", "other"]);
        assert_eq!(kept(&flow, &flow, &["a"]), ["other"]);
    }

    #[test]
    fn changed_steps_new_steps_and_those_that_always_run_are_not_imported() {
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
    fn a_step_whose_condition_was_false_is_asked_again_and_its_dependents_stay() {
        let flow = plan(json!([
            {"name": "never", "when": "false"}, {"name": "next", "dependencies": ["never"]}, {"name": "bad"},
        ]));
        assert_eq!(kept(&flow, &flow, &[]), ["next"]);
    }
}
