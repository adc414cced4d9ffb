//! Flows without a plan: what people and metrics hear of them, and that they end where people say so.

use std::sync::{Arc, Mutex};

use futures::FutureExt as _;
use serde_json::{Value, json};

use super::super::{Clock, Controller, ControllerEvent, Monitor, Options};
use super::server::{Server, TestClock};
use super::test_env::{TestEnv, after, job};
use crate::api::Kind;

fn reported(env: &TestEnv) -> Vec<String> {
    let word = |event: &Value, name: &str| event[name].as_str().unwrap().to_owned();
    let events = env.server.list(Kind::Event);
    let mut all: Vec<String> = events
        .iter()
        .map(|event| format!("{} {}: {}", word(event, "type"), word(event, "reason"), word(event, "note")))
        .collect();
    all.sort();
    all
}

#[test]
fn people_hear_why_a_flow_was_refused() {
    let mut env = TestEnv::new();
    env.submit("etl", json!({"steps": [job("a"), job("a")]}));
    env.run();
    insta::assert_snapshot!(reported(&env).join("\n"), @"
    Warning JobFlowFailed: ValidationFailed: spec.steps[1].name: the name `a` is that of spec.steps[0] already
    Warning ValidationFailed: spec.steps[1].name: the name `a` is that of spec.steps[0] already
    ");
    let mut env = TestEnv::new();
    env.submit("etl", json!({"steps": [after("a", &["b"]), after("b", &["a"])]}));
    env.run();
    insta::assert_snapshot!(reported(&env).join("\n"), @"
    Warning JobFlowFailed: DAGCycle: spec.steps[0].dependencies: steps wait for each other in a cycle: a → b → a
    Warning ValidationFailed: spec.steps[0].dependencies: steps wait for each other in a cycle: a → b → a
    ");
}

#[test]
fn a_refused_flow_goes_when_its_time_to_live_is_over() {
    let mut env = TestEnv::new();
    env.submit("etl", json!({"steps": [job("a"), job("a")], "executionPolicy": {"ttlSecondsAfterFinished": 60}}));
    env.run();
    assert_eq!(env.status("etl")["phase"], "Failed");
    env.sleep(59);
    assert!(env.server.get(Kind::JobFlow, "etl").is_some());
    env.sleep(1);
    assert!(env.server.get(Kind::JobFlow, "etl").is_none());
}

#[test]
fn the_operators_time_to_live_holds_where_no_webhook_writes_it_into_flows() {
    let mut options = Options::default();
    options.defaults.ttl_seconds = Some(60);
    let mut env = TestEnv::with_options(options);
    env.submit("etl", json!({"steps": [job("a")]}));
    env.run();
    env.sleep(50);
    assert!(env.server.get(Kind::JobFlow, "etl").is_some());
    env.sleep(20);
    assert!(env.server.get(Kind::JobFlow, "etl").is_none());
}

/// What a controller shows of flows.
#[derive(Default)]
struct Shown(Mutex<Vec<String>>);

impl Monitor for Shown {
    fn record(&self, event: ControllerEvent<'_>) {
        let line = match event {
            ControllerEvent::Opened { flow, status } => format!("opened {} {}", flow.name, status.phase),
            ControllerEvent::StatusChanged { flow, status } => format!("shown {} {}", flow.name, status.phase),
            _ => return,
        };
        self.0.lock().unwrap().push(line);
    }
}

#[test]
fn a_refused_flow_is_counted_as_one_that_has_ended() {
    let clock = Arc::new(TestClock::new());
    let server = Server::new(Arc::clone(&clock));
    let shown = Arc::new(Shown::default());
    let controller = Controller::new(server.clone(), clock as Arc<dyn Clock>, Options::default())
        .measured(Arc::clone(&shown) as Arc<dyn Monitor>);
    let flow = server.put(
        Kind::JobFlow,
        json!({"apiVersion": "workflow.kube-zen.io/v1alpha1", "kind": "JobFlow",
        "metadata": {"name": "etl"}, "spec": {"steps": [job("a"), job("a")]}}),
    );
    let key = controller.flow_applied(&flow).remove(0);
    let _ = controller.reconcile(&key).now_or_never().unwrap();
    assert_eq!(*shown.0.lock().unwrap(), ["opened etl Pending", "shown etl Failed"]);
}

/// A flow under way whose spec was changed while no controller was there.
fn changed() -> TestEnv {
    let mut env = TestEnv::new();
    env.endless = vec!["etl"];
    env.submit("etl", json!({"steps": [job("a"), after("b", &["a"])]}));
    env.run();
    env.server.edit(Kind::JobFlow, "etl", |flow| flow["spec"]["steps"][1]["name"] = json!("c"));
    env.restart();
    env.settle();
    assert_eq!(env.status("etl")["phase"], "Suspended");
    env
}

#[test]
fn people_hear_once_that_a_changed_spec_holds_a_flow_after_a_restart() {
    let mut env = changed();
    env.restart();
    env.settle();
    let about = reported(&env).into_iter().filter(|line| line.contains("SpecChanged")).collect::<Vec<_>>();
    insta::assert_snapshot!(about.join("\n"), @"Warning SpecChanged: the spec was changed after the start; restore it to go on");
}

#[test]
fn a_flow_that_a_changed_spec_holds_can_be_told_to_end() {
    let mut env = changed();
    assert_eq!(env.server.list(Kind::Job).len(), 1);
    env.server.edit(Kind::JobFlow, "etl", |flow| flow["spec"]["stop"] = json!("Terminate"));
    env.settle();
    assert!(env.server.list(Kind::Job).is_empty(), "its Job is ended");
    insta::assert_snapshot!(env.outcome("etl"), @"
    Failed 2/2
    a Failed/Terminated 1
    b Skipped/Terminated null
    ");
    let status = env.status("etl");
    let failed = status["conditions"].as_array().unwrap().iter().find(|known| known["type"] == "Failed").unwrap();
    assert_eq!((&failed["status"], &failed["reason"]), (&json!("True"), &json!("Terminated")));
    let about = reported(&env).into_iter().filter(|line| line.contains("Stopped") || line.contains("Failed"));
    insta::assert_snapshot!(about.collect::<Vec<_>>().join("\n"), @"
    Normal FlowStopped: the flow was asked to stop: Terminated
    Warning JobFlowFailed: Terminated: the flow was asked to stop while it was held
    ");
    let writes = env.writes().len();
    env.restart();
    env.settle();
    assert_eq!(env.writes().len(), writes, "a finished flow is never written again");
}

#[test]
fn a_held_flow_ends_when_another_takes_its_place_also_after_a_restart() {
    let mut env = changed();
    let policy = json!({"concurrencyKey": "one", "concurrencyPolicy": "Replace"});
    env.server.edit(Kind::JobFlow, "etl", |flow| flow["spec"]["executionPolicy"] = policy.clone());
    env.restart();
    env.submit("next", json!({"steps": [job("a")], "executionPolicy": policy}));
    env.settle();
    env.sleep(10);
    assert_eq!(
        (env.status("etl")["phase"].as_str(), env.status("next")["phase"].as_str()),
        (Some("Failed"), Some("Running"))
    );
    assert!(env.outcome("etl").contains("Failed/Replaced"), "{}", env.outcome("etl"));
}

#[test]
fn a_held_flow_that_is_to_end_gracefully_ends_when_nothing_of_it_runs() {
    let mut env = changed();
    env.server.edit(Kind::JobFlow, "etl", |flow| flow["spec"]["stop"] = json!("Graceful"));
    env.settle();
    assert_eq!((env.status("etl")["phase"].as_str(), env.server.list(Kind::Job).len()), (Some("Suspended"), 1));
    let name = env.server.list(Kind::Job)[0]["metadata"]["name"].as_str().unwrap().to_owned();
    env.end_job(&name, true);
    env.settle();
    assert_eq!(env.status("etl")["phase"], "Failed", "{}", env.status("etl"));
}

#[test]
fn a_held_flow_says_which_steps_have_ended_meanwhile_and_goes_on_from_there() {
    let mut env = changed();
    let name = env.server.list(Kind::Job)[0]["metadata"]["name"].as_str().unwrap().to_owned();
    env.end_job(&name, true);
    env.settle();
    let message = env.status("etl")["message"].as_str().unwrap_or_default().to_owned();
    assert!(message.ends_with("; Jobs of these steps have ended meanwhile: a"), "{message}");
    env.server.edit(Kind::JobFlow, "etl", |flow| flow["spec"]["steps"][1]["name"] = json!("b"));
    env.endless.clear();
    env.run();
    assert_eq!(env.status("etl")["phase"], "Succeeded", "{}", env.outcome("etl"));
}
