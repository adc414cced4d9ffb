//! Order: dependencies, conditions, joins, references, queues, fan-out.

use orlop_core::event::{AttemptResult, FlowEvent};
use orlop_core::machine::flow::FlowPhase;
use serde_json::json;

use super::support::Bench;

fn outputs(pairs: &[(&str, &str)]) -> AttemptResult {
    let outputs = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    AttemptResult { outputs, ..AttemptResult::default() }
}

#[test]
fn a_chain_runs_in_order_and_succeeds() {
    let mut flow = Bench::new(json!({"steps": [{"name": "b", "dependencies": ["a"]}, {"name": "a"}]}));
    assert_eq!(flow.started(), ["a#1"]);
    flow.accept("a");
    assert_eq!(flow.phase(), FlowPhase::Running);
    flow.succeed("a");
    assert_eq!(flow.started(), ["b#1"]);
    flow.accept("b");
    flow.succeed("b");
    assert_eq!(flow.phase(), FlowPhase::Succeeded);
    assert_eq!(flow.status().progress.summary, "2/2");
    assert!(flow.notices().contains(&"JobFlowCompleted"));
}

#[test]
fn false_condition_skips_and_satisfies() {
    let mut flow = Bench::new(json!({"steps": [
        {"name": "a"}, {"name": "b", "dependencies": ["a"], "when": "steps.a.phase == 'Failed'"}, {"name": "c", "dependencies": ["b"]}]}));
    flow.succeed("a");
    assert_eq!(flow.outcome("b"), "Skipped/ConditionFalse");
    assert_eq!(flow.started(), ["c#1"]);
    flow.succeed("c");
    assert_eq!(flow.phase(), FlowPhase::Succeeded);
}

#[test]
fn strict_skips_do_not_satisfy_and_do_not_fail() {
    let mut flow = Bench::new(json!({"executionPolicy": {"skipPolicy": "Strict"}, "steps": [
        {"name": "a"}, {"name": "b", "dependencies": ["a"], "when": "never"}, {"name": "c", "dependencies": ["b"]}]}));
    flow.succeed("a");
    assert_eq!(flow.outcome("c"), "Skipped/DependencySkipped");
    assert_eq!(flow.phase(), FlowPhase::Succeeded);
}

/// Steps become ready in order, and a failure under Continue does not stop others.
#[test]
fn skips_cascade_in_one_call() {
    let mut flow = Bench::new(json!({"executionPolicy": {"failurePolicy": "Continue"}, "steps": [
        {"name": "a"}, {"name": "b", "dependencies": ["a"]}, {"name": "c", "dependencies": ["b"]}, {"name": "d"}]}));
    flow.fail("a");
    assert_eq!(flow.outcome("b"), "Skipped/DependencyFailed");
    assert_eq!(flow.outcome("c"), "Skipped/DependencyFailed");
    flow.succeed("d");
    assert_eq!((flow.phase(), flow.cause().as_str()), (FlowPhase::Failed, "FlowFailed"));
}

#[test]
fn a_reference_orders_but_never_skips() {
    let mut flow = Bench::new(json!({"executionPolicy": {"failurePolicy": "Continue"}, "steps": [
        {"name": "a"}, {"name": "b", "when": "steps.a.phase == 'Failed'"}]}));
    assert_eq!(flow.started(), ["a#1"]);
    flow.fail("a");
    assert_eq!(flow.started(), ["b#1"]);
}

#[test]
fn condition_errors_fail_the_step() {
    let mut flow = Bench::new(json!({"steps": [
        {"name": "a", "outputs": {"parameters": [{"name": "n", "valueFrom": {"path": "/n"}}]}},
        {"name": "b", "dependencies": ["a"], "when": "int(steps.a.outputs.n) > 1"}]}));
    flow.succeed_with("a", outputs(&[("n", "many")]));
    assert_eq!(flow.outcome("b"), "Failed/ConditionError");
    assert_eq!(flow.phase(), FlowPhase::Failed);
}

#[test]
fn ready_steps_start_in_spec_order_within_parallelism() {
    let mut flow = Bench::new(json!({"executionPolicy": {"parallelism": 2}, "steps": [
        {"name": "c"}, {"name": "a"}, {"name": "b"}]}));
    assert_eq!(flow.started(), ["c#1", "a#1"]);
    flow.accept("a");
    flow.succeed("a");
    assert_eq!(flow.started(), ["b#1"]);
}

#[test]
fn a_failure_that_every_dependent_names_is_tolerated_and_satisfies_nobody() {
    let mut flow = Bench::new(json!({"steps": [
        {"name": "a"}, {"name": "b"}, {"name": "c", "depends": "a.Failed && b"}, {"name": "d", "depends": "a.Completed && a"}]}));
    flow.fail("a");
    assert_eq!(flow.phase(), FlowPhase::Running);
    assert_eq!(flow.outcome("d"), "Skipped/DependsFalse");
    flow.succeed("b");
    assert_eq!(flow.started(), ["c#1"]);
    flow.succeed("c");
    assert_eq!(flow.phase(), FlowPhase::Succeeded);
    let status = flow.status();
    let tolerated = status.conditions.iter().find(|condition| condition.kind == "FailuresTolerated").unwrap();
    assert_eq!(tolerated.message, "a");
}

/// A handler changes nothing for anybody else, under every failure policy.
#[test]
fn a_handler_of_a_failure_runs_and_other_dependents_do_not() {
    for policy in ["FailFast", "CancelRunning", "Continue"] {
        let mut flow = Bench::new(json!({"executionPolicy": {"failurePolicy": policy}, "steps": [
            {"name": "deploy"},
            {"name": "promote", "dependencies": ["deploy"]},
            {"name": "announce", "depends": "deploy"},
            {"name": "audit", "depends": "deploy.Succeeded || deploy"},
            {"name": "alert", "depends": "deploy.Failed"},
            {"name": "after", "dependencies": ["alert"]}]}));
        flow.fail("deploy");
        assert_eq!(flow.started(), ["alert#1"], "{policy}");
        for name in ["promote", "announce", "audit"] {
            assert_eq!(flow.outcome(name), "Skipped/DependencyFailed", "{policy} {name}");
        }
        flow.succeed("alert");
        flow.succeed("after");
        assert_eq!((flow.phase(), flow.cause().as_str()), (FlowPhase::Failed, "FlowFailed"), "{policy}");
        assert!(flow.status().conditions.iter().all(|condition| condition.kind != "FailuresTolerated"));
    }
}

/// What else is the failure of a step with dependents that name it, or with none.
#[test]
fn who_names_a_failure_decides_whether_the_flow_tolerates_it() {
    for (dependents, outcome) in [
        (json!([]), FlowPhase::Failed),
        (json!([{"name": "b", "depends": "a.Failed"}]), FlowPhase::Succeeded),
        (
            json!([{"name": "b", "depends": "a.AllFailed"}, {"name": "c", "depends": "a || !a.Completed"}]),
            FlowPhase::Succeeded,
        ),
        (json!([{"name": "b", "depends": "a.Failed"}, {"name": "c", "depends": "!a.Succeeded"}]), FlowPhase::Failed),
        (json!([{"name": "b", "depends": "a.Skipped || a.Omitted || a.AnySucceeded"}]), FlowPhase::Failed),
        // A reference only orders: who reads the step does not depend on it.
        (
            json!([{"name": "b", "depends": "a.Failed"}, {"name": "c", "when": "steps.a.phase == 'Failed'"}]),
            FlowPhase::Succeeded,
        ),
    ] {
        let mut steps = vec![json!({"name": "a"})];
        steps.extend(dependents.as_array().unwrap().iter().cloned());
        let mut flow = Bench::new(json!({"steps": steps}));
        flow.fail("a");
        while let Some(name) =
            flow.status().steps.iter().find(|step| step.reason == "Starting").map(|step| step.name.clone())
        {
            flow.succeed(&name);
        }
        assert_eq!(flow.phase(), outcome, "{dependents}");
    }
}

/// A diamond with a join on either outcome of one side: what needs both sides' success does not run after a failure.
#[test]
fn a_diamond_of_joins_runs_what_its_outcome_asks_for() {
    for fails in [false, true] {
        let mut flow = Bench::new(json!({"steps": [
            {"name": "a"}, {"name": "b", "depends": "a"}, {"name": "c", "depends": "a"},
            {"name": "either", "depends": "b.Succeeded || (c && (b.Failed || b.Skipped))"},
            {"name": "both", "depends": "b && c"}]}));
        flow.succeed("a");
        flow.succeed("c");
        let (outcome, started): (_, &[&str]) = match fails {
            true => ("Skipped/DependencyFailed", &["either#1"]),
            false => ("Pending/Starting", &["either#1", "both#1"]),
        };
        if fails {
            flow.fail("b");
        } else {
            flow.succeed("b");
        }
        assert_eq!(
            (flow.started(), flow.outcome("both").as_str()),
            (started.iter().map(|s| (*s).to_owned()).collect(), outcome)
        );
    }
}

#[test]
fn instances_have_their_own_life_and_give_arrays() {
    let mut flow = Bench::new(json!({"steps": [
        {"name": "fan", "withItems": [1, {"n": 2}, "x"], "parallelism": 2,
         "outputs": {"parameters": [{"name": "v", "valueFrom": {"path": "/v"}}]}},
        {"name": "sum", "dependencies": ["fan"]}]}));
    assert_eq!(flow.started(), ["fan-i0#1", "fan-i1#1"]);
    flow.accept("fan-i1");
    flow.succeed_with("fan-i1", outputs(&[("v", "two")]));
    assert_eq!(flow.started(), ["fan-i2#1"]);
    flow.succeed_with("fan-i0", outputs(&[("v", "one")]));
    flow.succeed_with("fan-i2", outputs(&[("v", "\"three\"")]));
    assert_eq!(flow.step("fan").outputs.unwrap().parameter("v"), Some(r#"["one","two","\"three\""]"#));
    assert_eq!(flow.started(), ["sum#1"]);
    assert_eq!(flow.status().progress.total_steps, 4);
}

#[test]
fn empty_lists_succeed_and_conditions_may_read_items() {
    let mut flow = Bench::new(json!({"steps": [
        {"name": "none", "withItems": []},
        {"name": "some", "withItems": ["a", "b"], "when": "parameters.item == 'b'"}]}));
    assert_eq!(flow.outcome("none"), "Succeeded/EmptyFanOut");
    assert_eq!(flow.started(), ["some-i1#1"]);
    assert_eq!(flow.outcome("some-i0"), "Skipped/ConditionFalse");
    flow.succeed("some-i1");
    assert_eq!(flow.phase(), FlowPhase::Succeeded);
}

#[test]
fn items_of_a_parameter_come_from_the_driver() {
    let mut flow = Bench::new(json!({"steps": [
        {"name": "list", "outputs": {"parameters": [{"name": "l", "valueFrom": {"path": "/l"}}]}},
        {"name": "fan", "withParam": "list:$.outputs.l"}]}));
    flow.succeed_with("list", outputs(&[("l", "[5]")]));
    let fan = flow.at("fan");
    flow.tell(FlowEvent::ItemsResolved { at: fan, items: Ok(vec![json!(5)]) });
    assert_eq!(flow.started(), ["fan-i0#1"]);
    flow.tell(FlowEvent::ItemsResolved { at: fan, items: Ok(vec![json!(5), json!(6)]) });
    assert_eq!(flow.status().progress.total_steps, 2);
    flow.succeed("fan-i0");
    assert_eq!(flow.phase(), FlowPhase::Succeeded);
}

#[test]
fn an_untolerated_instance_failure_fails_the_group() {
    let mut flow = Bench::new(
        json!({"steps": [{"name": "fan", "withItems": [1, 2, 3], "parallelism": 1}, {"name": "after", "dependencies": ["fan"]}]}),
    );
    flow.fail("fan-i0");
    assert_eq!(flow.phase(), FlowPhase::Failed);
    assert_eq!(flow.outcome("fan-i2"), "Skipped/FlowFailed");
    assert_eq!(flow.outcome("fan"), "Failed/NonZeroExit");
    assert_eq!(flow.status().progress.summary, "4/4");
}

#[test]
fn a_chain_of_200_000_skips_does_not_overflow() {
    let mut steps = vec![json!({"name": "s0"})];
    steps.extend((1..200_000).map(|n| json!({"name": format!("s{n}"), "dependencies": [format!("s{}", n - 1)]})));
    let plan = crate::plan::Plan::build(std::sync::Arc::new(super::support::spec(
        json!({"executionPolicy": {"failurePolicy": "Continue"}, "steps": steps}),
    )))
    .unwrap();
    let mut out = Vec::new();
    let now = orlop_core::time::Time::EPOCH;
    let mut state = crate::engine::init(&plan, &crate::engine::FlowMeta::default(), now, &mut out);
    crate::engine::apply(&plan, &mut state, &FlowEvent::Admit, now, &mut out);
    let event = FlowEvent::AttemptFailed {
        at: orlop_core::attempt::Address::step(0),
        attempt: 1,
        reason: "NonZeroExit".into(),
        message: String::new(),
        pods: Vec::new(),
        result: Box::default(),
        ended_at: now,
    };
    crate::engine::apply(&plan, &mut state, &event, now, &mut out);
    assert_eq!(state.phase(), FlowPhase::Failed);
    let status = crate::engine::view(&plan, &state, 0..0).status;
    assert_eq!(status.progress.skipped_steps, 199_999);
}
