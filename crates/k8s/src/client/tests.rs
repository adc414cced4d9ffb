//! Verbs about flows against the API server double.

use std::collections::BTreeMap;

use orlop_core::error::Class;
use orlop_core::spec::flow::{JobFlow, StopMode, SuspendMode};
use orlop_core::spec::status::Decision;
use serde_json::{Value, json};

use super::{ApprovalDecision, FlowClient, KEY, NewFlow, RetryOptions};
use crate::api::{ApiError, Client, Kind, PAGE, Request};
use crate::testing::{ApiServer, Fault, Match, Verb, What};

const FLOWS: &str = "jobflows.workflow.kube-zen.io";

fn world() -> (ApiServer, FlowClient<Client>) {
    let server = ApiServer::new();
    server.install(&crate::crd::job_flow()).unwrap();
    let flows = FlowClient::new(Client::new(server.client()), "default");
    (server, flows)
}

fn flow(name: &str, spec: Value) -> JobFlow {
    JobFlow::new(name, serde_json::from_value(spec).unwrap())
}

fn gates() -> Value {
    json!({"steps": [{"name": "gate", "type": "Manual"}, {"name": "other", "type": "Manual", "dependencies": ["gate"]}]})
}

fn new(name: &str, spec: Value, key: &str) -> NewFlow {
    NewFlow { flow: flow(name, spec), parameters: BTreeMap::new(), key: key.to_owned() }
}

fn look(server: &ApiServer, name: &str) -> Value {
    server.look(FLOWS, "default", name).unwrap()
}

/// Writes a status as the controller does.
async fn report(server: &ApiServer, name: &str, status: Value) {
    let api = Client::new(server.client());
    let request = Request::patch_status("default", name, json!({ "status": status }));
    crate::api::Api::send(&api, &request).await.unwrap();
}

#[tokio::test]
async fn a_submission_takes_effect_once_by_its_key() {
    let (server, flows) = world();
    let first = flows.create(new("etl", gates(), "k1")).await.unwrap();
    let again = flows.create(new("etl", gates(), "k1")).await.unwrap();
    assert_eq!(first.metadata.uid, again.metadata.uid);
    assert_eq!(look(&server, "etl")["metadata"]["annotations"][KEY], "k1");
    let other = flows.create(new("etl", gates(), "k2")).await.unwrap_err();
    assert_eq!(other.class, Class::Exists);
    assert!(other.to_string().contains("there is a flow `etl` in namespace `default` (uid "), "{other}");
}

#[tokio::test]
async fn a_lost_answer_makes_no_second_flow_and_is_found_again() {
    let (server, flows) = world();
    server.faults().push(Fault { when: Match::of(Verb::Create, FLOWS), what: What::DropAnswer });
    let made = flows.create(new("etl", gates(), "k1")).await.unwrap();
    assert_eq!(server.look_all(FLOWS).len(), 1);
    assert_eq!(made.metadata.uid.as_deref(), look(&server, "etl")["metadata"]["uid"].as_str());
}

#[tokio::test]
async fn parameters_are_written_into_the_spec_and_checked() {
    let (server, flows) = world();
    let spec = json!({"steps": gates()["steps"], "parameters": [
        {"name": "env", "enum": ["dev", "prod"]}, {"name": "size", "value": "5"},
        {"name": "token", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]});
    let with = |values: &[(&str, &str)]| NewFlow {
        parameters: values.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
        ..new("p", spec.clone(), "k")
    };
    let mut reported = Vec::new();
    for values in [&[][..], &[("env", "test")], &[("env", "dev"), ("sise", "1")], &[("env", "dev"), ("token", "x")]] {
        let error = flows.create(with(values)).await.unwrap_err();
        assert_eq!(error.class, Class::Invalid);
        reported.push(error.to_string());
    }
    insta::assert_snapshot!(reported.join("\n"), @"
    parameter `env` needs a value
    parameter `env` cannot be `test`; give one of dev, prod
    the flow has no parameter `sise`; it has env, size, token
    parameter `token` is a secret and cannot be given as text; put it where Secrets are looked up
    ");
    flows.create(with(&[("env", "prod"), ("size", "7")])).await.unwrap();
    let parameters = &look(&server, "p")["spec"]["parameters"];
    assert_eq!((&parameters[0]["value"], &parameters[1]["value"]), (&json!("prod"), &json!("7")));
}

#[tokio::test]
async fn a_flow_that_breaks_a_rule_is_not_even_sent() {
    let (server, flows) = world();
    let twice = json!({"steps": [{"name": "a", "type": "Manual"}, {"name": "a", "type": "Manual"}]});
    let error = flows.create(new("twice", twice, "k")).await.unwrap_err();
    assert_eq!(error.class, Class::Invalid, "{error}");
    assert!(server.writes().is_empty() && server.look_all(FLOWS).is_empty());
}

fn decided(step: &str, decision: Decision) -> ApprovalDecision<'_> {
    ApprovalDecision { step, decision, by: Some("ada"), reason: Some("looks good") }
}

#[tokio::test]
async fn a_decision_is_an_annotation_and_final() {
    let (server, flows) = world();
    flows.create(new("f", gates(), "k")).await.unwrap();
    flows.decide("f", &decided("gate", Decision::Approved)).await.unwrap();
    let annotations = look(&server, "f")["metadata"]["annotations"].clone();
    assert_eq!(annotations["approved.workflow.kube-zen.io/gate"], "true");
    let note: Value =
        serde_json::from_str(annotations["approval.workflow.kube-zen.io/gate"].as_str().unwrap()).unwrap();
    assert_eq!(note, json!({"by": "ada", "reason": "looks good"}));
    let before = server.writes().len();
    flows.decide("f", &decided("gate", Decision::Approved)).await.unwrap();
    assert_eq!(server.writes().len(), before, "the same decision again changes nothing");
    let mut reported = Vec::new();
    for (step, decision) in [("gate", Decision::Rejected), ("none", Decision::Approved)] {
        reported.push(flows.decide("f", &decided(step, decision)).await.unwrap_err().to_string());
    }
    reported.push(flows.decide("g", &decided("gate", Decision::Approved)).await.unwrap_err().to_string());
    report(&server, "f", json!({"phase": "Running", "steps": [{"name": "other", "phase": "Skipped"}]})).await;
    reported.push(flows.decide("f", &decided("other", Decision::Approved)).await.unwrap_err().to_string());
    report(&server, "f", json!({"phase": "Failed", "steps": null})).await;
    reported.push(flows.decide("f", &decided("other", Decision::Approved)).await.unwrap_err().to_string());
    insta::assert_snapshot!(reported.join("\n"), @"
    there is already a decision about step `gate` of flow `f`
    flow `f` has no step `none`; its Manual steps are gate, other
    there is no flow `g` in namespace `default`
    step `other` of flow `f` has ended: it is Skipped
    flow `f` has ended: it is Failed; nothing can change it
    ");
}

#[tokio::test]
async fn a_decision_is_written_again_when_something_else_changed_meanwhile() {
    let (server, flows) = world();
    flows.create(new("f", gates(), "k")).await.unwrap();
    server.faults().push(Fault { when: Match::of(Verb::Patch, FLOWS), what: What::Conflict });
    flows.decide("f", &decided("gate", Decision::Rejected)).await.unwrap();
    assert_eq!(look(&server, "f")["metadata"]["annotations"]["approved.workflow.kube-zen.io/gate"], "rejected");
}

#[tokio::test]
async fn orders_change_the_spec_until_the_flow_has_ended() {
    let (server, flows) = world();
    flows.create(new("f", gates(), "k")).await.unwrap();
    flows.suspend("f", Some(SuspendMode::Suspend)).await.unwrap();
    assert_eq!(
        (&look(&server, "f")["spec"]["suspend"], &look(&server, "f")["spec"]["suspendMode"]),
        (&json!(true), &json!("Suspend"))
    );
    flows.resume("f").await.unwrap();
    assert_eq!(look(&server, "f")["spec"]["suspend"], json!(false));
    flows.stop("f", StopMode::Terminate).await.unwrap();
    flows.stop("f", StopMode::Graceful).await.unwrap();
    assert_eq!(look(&server, "f")["spec"]["stop"], "Terminate", "it never goes back");
    report(&server, "f", json!({"phase": "Failed"})).await;
    for ended in [flows.resume("f").await, flows.stop("f", StopMode::Terminate).await] {
        let refused = ended.unwrap_err();
        assert_eq!(refused.class, Class::Conflict);
        assert_eq!(refused.message, "flow `f` has ended: it is Failed; nothing can change it");
    }
    assert_eq!(flows.resume("g").await.unwrap_err().class, Class::NotFound);
}

#[tokio::test]
async fn a_repetition_is_a_new_flow_with_the_first_free_number() {
    let (server, flows) = world();
    let mut first = new("f", gates(), "k");
    first.flow.metadata.labels.insert("team".to_owned(), "x".to_owned());
    first.flow.spec.suspend = Some(true);
    let old = flows.create(first).await.unwrap();
    flows.decide("f", &decided("gate", Decision::Rejected)).await.unwrap();
    let again = |name: Option<&str>, steps: &[&str], key: &str| RetryOptions {
        name: name.map(str::to_owned),
        steps: steps.iter().map(|step| (*step).to_owned()).collect(),
        key: key.to_owned(),
        ..RetryOptions::default()
    };
    let early = flows.repeat("f", again(None, &[], "a")).await.unwrap_err();
    assert_eq!(early.to_string(), "`f` has not ended: it is Pending; retry it when it has");
    report(&server, "f", json!({"phase": "Failed"})).await;
    assert_eq!(
        flows.repeat("f", again(None, &["no"], "a")).await.unwrap_err().to_string(),
        "flow `f` has no step `no`"
    );
    let second = flows.repeat("f", again(None, &["other"], "a")).await.unwrap();
    let third = flows.repeat("f", again(None, &[], "b")).await.unwrap();
    assert_eq!((second.metadata.name.as_str(), third.metadata.name.as_str()), ("f-r2", "f-r3"));
    assert_eq!(
        flows.repeat("f", again(None, &["other"], "a")).await.unwrap().metadata.uid,
        second.metadata.uid,
        "one a key"
    );
    let stored = look(&server, "f-r2");
    assert_eq!(stored["spec"]["retryOf"], json!({"name": "f", "uid": old.metadata.uid, "steps": ["other"]}));
    assert_eq!(stored["metadata"]["labels"], json!({"team": "x"}));
    assert_eq!(stored["metadata"]["annotations"], json!({KEY: "a"}), "decisions are not repeated");
    assert!(stored["spec"].get("suspend").is_none());
    assert_eq!(flows.repeat("f", again(Some("f-r2"), &[], "c")).await.unwrap_err().class, Class::Exists);
    report(&server, "f-r2", json!({"phase": "Failed"})).await;
    assert_eq!(flows.repeat("f-r2", again(None, &[], "d")).await.unwrap().metadata.name, "f-r4");
}

#[tokio::test]
async fn lists_are_by_age_and_a_deletion_is_of_one_flow_only() {
    let (server, flows) = world();
    for name in ["z", "a"] {
        let mut new = new(name, gates(), name);
        new.flow.metadata.labels.insert("name".to_owned(), name.to_owned());
        flows.create(new).await.unwrap();
        server.clock().advance(std::time::Duration::from_secs(5));
    }
    let names = |list: Vec<JobFlow>| list.into_iter().map(|flow| flow.metadata.name).collect::<Vec<_>>();
    assert_eq!(names(flows.list(&[]).await.unwrap()), ["z", "a"]);
    let found = flows.list(&[("name".to_owned(), "a".to_owned())]).await.unwrap();
    assert_eq!(names(found.clone()), ["a"]);
    let mut another = found[0].clone();
    another.metadata.uid = Some("another".to_owned());
    assert_eq!(flows.delete(&another).await.unwrap_err().class, Class::Conflict);
    flows.delete(&found[0]).await.unwrap();
    assert_eq!(flows.delete(&found[0]).await.unwrap_err().class, Class::NotFound);
    assert_eq!(flows.get("a").await.unwrap_err().to_string(), "there is no flow `a` in namespace `default`");
}

/// So many flows that a list of them has three pages.
fn many(server: &ApiServer) -> usize {
    let count = 2 * PAGE as usize + 1;
    for number in 0..count {
        let object = json!({"apiVersion": "workflow.kube-zen.io/v1alpha1", "kind": "JobFlow",
            "metadata": {"name": format!("f-{number:05}")}, "spec": {"steps": [{"name": "gate", "type": "Manual"}]}});
        server.create("workflow.kube-zen.io", "jobflows", "default", &object).unwrap();
    }
    count
}

fn lists(server: &ApiServer, code: u16) -> u64 {
    let asked = server.requests().into_iter().filter(|asked| asked.verb == Verb::List && asked.code == code);
    asked.map(|asked| asked.count).sum()
}

#[tokio::test]
async fn a_list_of_more_than_a_page_is_whole() {
    let (server, flows) = world();
    let count = many(&server);
    let listed = flows.list(&[]).await.unwrap();
    let names: std::collections::BTreeSet<&str> = listed.iter().map(|flow| flow.metadata.name.as_str()).collect();
    assert_eq!((listed.len(), names.len(), lists(&server, 200)), (count, count, 3));
}

#[tokio::test]
async fn a_list_that_has_become_too_old_is_begun_again_once() {
    let (server, flows) = world();
    let count = many(&server);
    let second = Match::of(Verb::List, FLOWS).nth(2);
    server.faults().push(Fault { when: second, what: What::Refuse(410) });
    let listed = flows.list(&[]).await.unwrap();
    assert_eq!((listed.len(), lists(&server, 410)), (count, 1));
    // A server that forgets all the time is not asked for ever.
    server.forget_records();
    let always = Fault { when: Match::of(Verb::List, FLOWS).times(0), what: What::Refuse(410) };
    server.faults().push(always);
    let error = flows.list(&[]).await.unwrap_err();
    assert!(ApiError::of(&error).is_some_and(|source| source.code == Some(410)), "{error}");
    assert_eq!(lists(&server, 410), 2);
}

#[tokio::test]
async fn a_flow_that_nobody_can_run_is_listed_and_cannot_be_read() {
    let (server, flows) = world();
    let object = json!({"apiVersion": "workflow.kube-zen.io/v1alpha1", "kind": "JobFlow", "metadata": {"name": "cycle"},
        "spec": {"steps": [{"name": "a", "type": "Manual", "dependencies": ["a"]}]}});
    server.create("workflow.kube-zen.io", "jobflows", "default", &object).unwrap();
    assert_eq!(flows.list(&[]).await.unwrap()[0].metadata.name, "cycle");
    let error = flows.get("cycle").await.unwrap_err();
    insta::assert_snapshot!(error, @"flow `cycle` cannot be read: spec.steps[0].dependencies: steps wait for each other in a cycle: a → a");
}

/// A spec of so many steps that their records are stored elsewhere, and the status of a time: (object's status, its pieces).
async fn spill(server: &ApiServer, flow: &JobFlow, message: &str) -> crate::status::Stored {
    use crate::status::{Level, Names, PendingStatus, SizeLimits, arrange};
    let metadata = &flow.metadata;
    let uid = metadata.uid.as_deref().unwrap();
    let steps =
        [("gate", "Succeeded"), ("other", "Skipped")].map(|(name, phase)| json!({"name": name, "phase": phase}));
    let draft = PendingStatus {
        whole: serde_json::from_value(json!({"phase": "Running", "message": message, "steps": steps})).unwrap(),
        revision: 1,
        names: Names { spec: &flow.spec, flow: &metadata.name, namespace: "default", uid },
        other_bytes: 0,
        least: Level::Spilled,
        refs: Vec::new(),
    };
    let stored = arrange(draft, SizeLimits::default()).unwrap();
    assert_eq!(stored.level, Level::Spilled);
    let owner = orlop_core::ports::substrate::FlowOwner {
        uid: uid.to_owned(),
        name: metadata.name.clone(),
        namespace: "default".to_owned(),
    };
    let api = Client::new(server.client());
    for piece in &stored.before {
        let object = crate::render::state(piece, &owner).unwrap();
        crate::api::Api::send(&api, &Request::create(Kind::ConfigMap, object)).await.unwrap();
    }
    report(server, &metadata.name, serde_json::to_value(&stored.status).unwrap()).await;
    stored
}

#[tokio::test]
async fn records_are_read_wherever_they_are_and_an_old_status_is_distinguished_from_a_broken_one() {
    let (server, flows) = world();
    let made = flows.create(new("f", gates(), "k")).await.unwrap();
    let stored = spill(&server, &made, "one").await;
    let read = flows.get("f").await.unwrap().status.unwrap();
    assert_eq!((read.steps.len(), read.steps[1].phase.to_string().as_str()), (2, "Skipped"));
    assert!(flows.find("f").await.unwrap().status.unwrap().steps.len() < 2, "the object alone shows less");
    // The pieces of a status that has been replaced are gone.
    for piece in &stored.before {
        let request = Request::delete(Kind::ConfigMap, "default", &piece.name, None);
        crate::api::Api::send(&Client::new(server.client()), &request).await.unwrap();
    }
    let error = flows.get("f").await.unwrap_err();
    assert!(super::is_moving(&error) && error.class == Class::Transient, "{error}");
    flows.find("f").await.unwrap();
    flows.delete(&flows.find("f").await.unwrap()).await.unwrap();
}

#[tokio::test]
async fn who_may_not_is_reported_and_nobody_is_asked_twice() {
    let (server, _) = world();
    let flows = FlowClient::new(Client::new(server.client_as("nobody")), "default");
    let error = flows.get("f").await.unwrap_err();
    assert_eq!(error.class, Class::Denied, "{error}");
}
