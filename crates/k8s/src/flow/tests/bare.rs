//! Flows without a plan: what people and metrics hear of them, and that they end where people say so.

use std::sync::{Arc, Mutex};

use futures::FutureExt as _;
use serde_json::{Value, json};

use super::super::{Clock, Controller, ControllerEvent, Monitor, Options};
use super::bed::{Bed, after, job};
use super::server::{Server, TestClock};
use crate::api::Kind;

fn told(bed: &Bed) -> Vec<String> {
    let word = |event: &Value, name: &str| event[name].as_str().unwrap().to_owned();
    let events = bed.server.list(Kind::Event);
    let mut all: Vec<String> = events
        .iter()
        .map(|event| format!("{} {}: {}", word(event, "type"), word(event, "reason"), word(event, "note")))
        .collect();
    all.sort();
    all
}

#[test]
fn people_hear_why_a_flow_was_refused() {
    let mut bed = Bed::new();
    bed.submit("etl", json!({"steps": [job("a"), job("a")]}));
    bed.run();
    insta::assert_snapshot!(told(&bed).join("\n"), @"
    Warning JobFlowFailed: ValidationFailed: spec.steps[1].name: the name `a` is that of spec.steps[0] already
    Warning ValidationFailed: spec.steps[1].name: the name `a` is that of spec.steps[0] already
    ");
    let mut bed = Bed::new();
    bed.submit("etl", json!({"steps": [after("a", &["b"]), after("b", &["a"])]}));
    bed.run();
    insta::assert_snapshot!(told(&bed).join("\n"), @"
    Warning JobFlowFailed: DAGCycle: spec.steps[0].dependencies: steps wait for each other in a cycle: a → b → a
    Warning ValidationFailed: spec.steps[0].dependencies: steps wait for each other in a cycle: a → b → a
    ");
}

#[test]
fn a_refused_flow_goes_when_its_time_to_live_is_over() {
    let mut bed = Bed::new();
    bed.submit("etl", json!({"steps": [job("a"), job("a")], "executionPolicy": {"ttlSecondsAfterFinished": 60}}));
    bed.run();
    assert_eq!(bed.status("etl")["phase"], "Failed");
    bed.sleep(59);
    assert!(bed.server.get(Kind::JobFlow, "etl").is_some());
    bed.sleep(1);
    assert!(bed.server.get(Kind::JobFlow, "etl").is_none());
}

#[test]
fn the_operators_time_to_live_holds_where_no_webhook_writes_it_into_flows() {
    let mut options = Options::default();
    options.defaults.ttl_seconds = Some(60);
    let mut bed = Bed::with_options(options);
    bed.submit("etl", json!({"steps": [job("a")]}));
    bed.run();
    bed.sleep(50);
    assert!(bed.server.get(Kind::JobFlow, "etl").is_some());
    bed.sleep(20);
    assert!(bed.server.get(Kind::JobFlow, "etl").is_none());
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
fn changed() -> Bed {
    let mut bed = Bed::new();
    bed.endless = vec!["etl"];
    bed.submit("etl", json!({"steps": [job("a"), after("b", &["a"])]}));
    bed.run();
    bed.server.edit(Kind::JobFlow, "etl", |flow| flow["spec"]["steps"][1]["name"] = json!("c"));
    bed.restart();
    bed.settle();
    assert_eq!(bed.status("etl")["phase"], "Suspended");
    bed
}

#[test]
fn people_hear_once_that_a_changed_spec_holds_a_flow_after_a_restart() {
    let mut bed = changed();
    bed.restart();
    bed.settle();
    let about = told(&bed).into_iter().filter(|line| line.contains("SpecChanged")).collect::<Vec<_>>();
    insta::assert_snapshot!(about.join("\n"), @"Warning SpecChanged: the spec was changed after the start; restore it to go on");
}

#[test]
fn a_flow_that_a_changed_spec_holds_can_be_told_to_end() {
    let mut bed = changed();
    assert_eq!(bed.server.list(Kind::Job).len(), 1);
    bed.server.edit(Kind::JobFlow, "etl", |flow| flow["spec"]["stop"] = json!("Terminate"));
    bed.settle();
    assert!(bed.server.list(Kind::Job).is_empty(), "its Job is ended");
    insta::assert_snapshot!(bed.outcome("etl"), @"
    Failed 2/2
    a Failed/Terminated 1
    b Skipped/Terminated null
    ");
    let status = bed.status("etl");
    let failed = status["conditions"].as_array().unwrap().iter().find(|known| known["type"] == "Failed").unwrap();
    assert_eq!((&failed["status"], &failed["reason"]), (&json!("True"), &json!("Terminated")));
    let about = told(&bed).into_iter().filter(|line| line.contains("Stopped") || line.contains("Failed"));
    insta::assert_snapshot!(about.collect::<Vec<_>>().join("\n"), @"
    Normal FlowStopped: the flow was told to end: Terminated
    Warning JobFlowFailed: Terminated: the flow was told to end while it was held
    ");
    let writes = bed.writes().len();
    bed.restart();
    bed.settle();
    assert_eq!(bed.writes().len(), writes, "a finished flow is never written again");
}

#[test]
fn a_held_flow_ends_when_another_takes_its_place_also_after_a_restart() {
    let mut bed = changed();
    let policy = json!({"concurrencyKey": "one", "concurrencyPolicy": "Replace"});
    bed.server.edit(Kind::JobFlow, "etl", |flow| flow["spec"]["executionPolicy"] = policy.clone());
    bed.restart();
    bed.submit("next", json!({"steps": [job("a")], "executionPolicy": policy}));
    bed.settle();
    bed.sleep(10);
    assert_eq!(
        (bed.status("etl")["phase"].as_str(), bed.status("next")["phase"].as_str()),
        (Some("Failed"), Some("Running"))
    );
    assert!(bed.outcome("etl").contains("Failed/Replaced"), "{}", bed.outcome("etl"));
}

#[test]
fn a_held_flow_that_is_to_end_gracefully_ends_when_nothing_of_it_runs() {
    let mut bed = changed();
    bed.server.edit(Kind::JobFlow, "etl", |flow| flow["spec"]["stop"] = json!("Graceful"));
    bed.settle();
    assert_eq!((bed.status("etl")["phase"].as_str(), bed.server.list(Kind::Job).len()), (Some("Suspended"), 1));
    let name = bed.server.list(Kind::Job)[0]["metadata"]["name"].as_str().unwrap().to_owned();
    bed.end_job(&name, true);
    bed.settle();
    assert_eq!(bed.status("etl")["phase"], "Failed", "{}", bed.status("etl"));
}

#[test]
fn a_held_flow_says_which_steps_have_ended_meanwhile_and_goes_on_from_there() {
    let mut bed = changed();
    let name = bed.server.list(Kind::Job)[0]["metadata"]["name"].as_str().unwrap().to_owned();
    bed.end_job(&name, true);
    bed.settle();
    let message = bed.status("etl")["message"].as_str().unwrap_or_default().to_owned();
    assert!(message.ends_with("; Jobs of these steps have ended meanwhile: a"), "{message}");
    bed.server.edit(Kind::JobFlow, "etl", |flow| flow["spec"]["steps"][1]["name"] = json!("b"));
    bed.endless.clear();
    bed.run();
    assert_eq!(bed.status("etl")["phase"], "Succeeded", "{}", bed.outcome("etl"));
}
