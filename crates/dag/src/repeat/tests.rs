//! Which steps of a finished flow run again, and what the others hand over.

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
    let state =
        init(&old, &FlowMeta { parameters: given(&[("env", "prod")]), ..FlowMeta::default() }, NOW, &mut Vec::new());
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
