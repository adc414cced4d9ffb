//! Questions of an API server and the answers to them, as chapter 5.3 words them.

mod performers;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use orlop_core::time::Time;
use serde_json::{Value, json};

use super::{Answer, BODY_MAX, Settings, Subject, Webhook};

pub(super) fn now() -> Time {
    "2026-11-22T10:00:00Z".parse().unwrap()
}

fn flow(change: impl FnOnce(&mut Value)) -> Value {
    let mut flow = json!({"apiVersion": "workflow.kube-zen.io/v1alpha1", "kind": "JobFlow",
        "metadata": {"name": "f", "namespace": "n"}, "spec": {"steps": [{"name": "gate", "type": "Manual"}]}});
    change(&mut flow);
    flow
}

fn started(change: impl FnOnce(&mut Value)) -> Value {
    flow(|flow| {
        flow["status"] = json!({"phase": "Running", "startTime": "2026-11-22T09:00:00Z"});
        change(flow);
    })
}

pub(super) fn ask(webhook: Webhook, operation: &str, objects: (Value, Value)) -> Answer {
    let Subject { group, kind, .. } = webhook.subject();
    let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": "u-1", "operation": operation, "userInfo": {"username": "ann", "groups": ["g"]},
        "kind": {"group": group, "version": "v1alpha1", "kind": kind},
        "object": objects.0, "oldObject": objects.1}});
    let answer = webhook.answer(review.to_string().as_bytes(), &Settings::default(), now());
    assert_eq!((answer.code, &answer.body["response"]["uid"]), (200, &json!("u-1")));
    answer
}

fn create(object: Value) -> Answer {
    ask(Webhook::Validate, "CREATE", (object, Value::Null))
}

fn update(old: Value, new: Value) -> Answer {
    ask(Webhook::Validate, "UPDATE", (new, old))
}

/// What people read of a refusal.
pub(super) fn said(answer: &Answer) -> String {
    let response = &answer.body["response"];
    if response["allowed"] == true {
        return "allowed".to_owned();
    }
    format!("{} {}", response["status"]["code"], response["status"]["message"].as_str().unwrap())
}

fn patch(answer: &Answer) -> Value {
    let Some(patch) = answer.body["response"]["patch"].as_str() else { return Value::Null };
    assert_eq!(answer.body["response"]["patchType"], "JSONPatch");
    serde_json::from_slice(&STANDARD.decode(patch).unwrap()).unwrap()
}

fn annotate(flow: &mut Value, key: &str, value: &str) {
    flow["metadata"]["annotations"][format!("{key}.workflow.kube-zen.io/gate")] = json!(value);
}

#[test]
fn a_body_that_cannot_be_read_is_400_and_says_why() {
    let answer = |body: &str| Webhook::Validate.answer(body.as_bytes(), &Settings::default(), now());
    for body in ["", "{", "[]", "{\"apiVersion\":\"admission.k8s.io/v1\",\"kind\":\"AdmissionReview\"}"] {
        assert_eq!(answer(body).code, 400, "{body}");
    }
    let old = answer("{\"apiVersion\":\"admission.k8s.io/v1beta1\",\"kind\":\"AdmissionReview\"}");
    insta::assert_snapshot!(old.body.as_str().unwrap(), @"AdmissionReview of admission.k8s.io/v1beta1 is not understood; let the webhook ask in AdmissionReview of admission.k8s.io/v1");
    assert_eq!(answer(&" ".repeat(BODY_MAX + 1)).code, 413);
    assert_eq!(Webhook::of("/validate-jobflow"), Some(Webhook::Validate));
    assert_eq!(Webhook::of("/mutate-jobflow"), Some(Webhook::Mutate));
    assert_eq!(Webhook::of("/validate-jobflow/"), None);
}

#[test]
fn a_refusal_is_422_and_lists_all_violations_with_their_fields() {
    let answer = create(flow(|flow| {
        flow["spec"]["steps"] =
            json!([{"name": "a", "type": "Manual", "dependencies": ["b"]}, {"name": "a", "type": "Manual"}]);
    }));
    insta::assert_snapshot!(said(&answer), @"
    422 spec.steps[0].dependencies[0]: there is no step `b` [dependency]
    spec.steps[1].name: the name `a` is that of spec.steps[0] already (rename one of them) [value]
    ");
    let status = &answer.body["response"]["status"];
    let causes = status["details"]["causes"].as_array().unwrap();
    assert_eq!(causes.len(), said(&answer).lines().count());
    assert_eq!((&status["reason"], &causes[0]["reason"]), (&json!("Invalid"), &json!("FieldValueInvalid")));
    assert!(causes.iter().all(|cause| cause["field"].as_str().unwrap().starts_with("spec.steps")), "{causes:?}");
}

#[test]
fn what_does_not_refuse_is_a_warning() {
    let answer = update(started(|_| {}), started(|flow| annotate(flow, "approved", "yes")));
    assert_eq!(said(&answer), "allowed");
    insta::assert_snapshot!(answer.body["response"]["warnings"][0].as_str().unwrap(), @r#"metadata.annotations["approved.workflow.kube-zen.io/gate"]: `yes` decides nothing (write `true` or `rejected`) [approval]"#);
    let many = super::review::short((0..100).map(|_| "ä".repeat(300)));
    assert!(many.iter().all(|warning| warning.len() <= 256) && many.iter().map(String::len).sum::<usize>() <= 4096);
    assert!(many.len() >= 16);
}

#[test]
fn deletion_other_operations_subresources_and_other_kinds_are_allowed() {
    let broken = flow(|flow| flow["spec"] = json!({"steps": []}));
    assert_ne!(said(&create(broken.clone())), "allowed");
    for operation in ["DELETE", "CONNECT"] {
        assert_eq!(said(&ask(Webhook::Validate, operation, (Value::Null, broken.clone()))), "allowed");
    }
    let mut review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {"uid": "u-1", "operation": "UPDATE",
        "subResource": "status", "kind": {"group": "workflow.kube-zen.io", "kind": "JobFlow"}, "object": broken, "oldObject": broken}});
    let ask = |review: &Value| Webhook::Validate.answer(review.to_string().as_bytes(), &Settings::default(), now());
    assert_eq!(said(&ask(&review)), "allowed");
    review["request"]["subResource"] = json!("");
    review["request"]["kind"] = json!({"kind": "Pod"});
    let other = ask(&review);
    assert_eq!(said(&other), "allowed");
    assert_eq!(
        other.body["response"]["warnings"],
        json!(["Pod of `` is not checked here; let the webhook ask about JobFlows only"])
    );
}

#[test]
fn a_warning_about_another_kind_is_no_longer_than_what_is_passed_on() {
    let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {"uid": "u-1", "operation": "CREATE", "kind": {"group": "g".repeat(900), "kind": "K"}}});
    let answer = Webhook::Validate.answer(review.to_string().as_bytes(), &Settings::default(), now());
    assert!(answer.body["response"]["warnings"][0].as_str().unwrap().len() <= 256);
}

#[test]
fn a_started_spec_does_not_change_but_for_its_orders() {
    let ordered = started(|flow| {
        flow["spec"]["suspend"] = json!(true);
        flow["spec"]["suspendMode"] = json!("Drain");
        flow["spec"]["stop"] = json!("Graceful");
    });
    assert_eq!(said(&update(started(|_| {}), ordered.clone())), "allowed");
    let edited = |flow: &mut Value| flow["spec"]["steps"][0]["message"] = json!("now?");
    insta::assert_snapshot!(said(&update(started(|_| {}), started(edited))), @"422 spec.steps[0].message: the flow has started, so its spec does not change (restore the field; only suspend, suspendMode and stop may change) [immutable]");
    assert_eq!(said(&update(flow(|_| {}), flow(edited))), "allowed");
    insta::assert_snapshot!(said(&update(ordered, started(|_| {}))), @"422 spec.stop: the order to stop (Graceful) is taken back (leave it; repeat the flow with a retry instead) [value]");
}

#[test]
fn holds_where_the_stored_object_cannot_be_read() {
    let old = |flow: &mut Value| flow["spec"]["steps"][0]["timeoutSeconds"] = json!(-1);
    let mended = started(|flow| flow["spec"]["steps"][0]["timeoutSeconds"] = json!(5));
    insta::assert_snapshot!(said(&update(started(old), mended.clone())), @"422 spec: the flow has started, so its spec does not change (only suspend, suspendMode and stop may change) [immutable]");
    assert_eq!(said(&update(flow(old), flow(|flow| flow["spec"] = mended["spec"].clone()))), "allowed");
}

#[test]
fn an_update_is_not_held_against_what_was_stored_already() {
    let old = |flow: &mut Value| flow["spec"]["steps"][0]["timeoutSeconds"] = json!(-1);
    let labelled = |flow: &mut Value| {
        old(flow);
        flow["metadata"]["finalizers"] = json!([]);
        flow["spec"]["stop"] = json!("Terminate");
    };
    assert_eq!(said(&update(started(old), started(labelled))), "allowed");
    let worse = |flow: &mut Value| {
        old(flow);
        flow["spec"]["executionPolicy"] = json!({"backoffLimit": -2});
    };
    insta::assert_snapshot!(said(&update(flow(old), flow(worse))), @"422 spec.executionPolicy.backoffLimit: -2 is too small (use 0 or more) [value]");
}

#[test]
fn metadata_of_a_flow_that_is_over_may_change_as_people_like() {
    let over = |flow: &mut Value| flow["status"] = json!({"phase": "Succeeded", "startTime": "2026-11-22T09:00:00Z"});
    let decided = flow(|flow| {
        over(flow);
        annotate(flow, "approved", "true");
    });
    let taken_back = flow(over);
    assert_eq!(said(&update(decided.clone(), taken_back)), "allowed");
    let edited = flow(|flow| {
        over(flow);
        flow["spec"]["steps"][0]["message"] = json!("why?");
    });
    assert_ne!(said(&update(decided, edited)), "allowed");
}

#[test]
fn a_decision_names_a_manual_step_stays_and_is_taken_by_whoever_asks() {
    let approved = |by: Option<&'static str>| {
        started(move |flow| {
            annotate(flow, "approved", "true");
            if let Some(by) = by {
                annotate(flow, "approval", &json!({"by": by, "at": "2026-11-22T10:00:00Z"}).to_string());
            }
        })
    };
    let before = || started(|_| {});
    assert_eq!(said(&update(before(), approved(None))), "allowed");
    assert_eq!(said(&update(before(), approved(Some("ann")))), "allowed");
    insta::assert_snapshot!(said(&update(before(), approved(Some("bob")))), @r#"422 metadata.annotations["approval.workflow.kube-zen.io/gate"]: `by` is not `ann`, who sends the request (leave the annotation out: it is written for you) [approval]"#);
    let garbled = started(|flow| annotate(flow, "approval", "bob"));
    assert!(said(&update(before(), garbled)).starts_with("422 "));
    insta::assert_snapshot!(said(&update(approved(Some("bob")), approved(None))), @r#"422 metadata.annotations["approval.workflow.kube-zen.io/gate"]: the name of the decision maker is removed (leave it while the decision stands) [approval]"#);
    // What somebody else has signed earlier does not stand in the way of another change.
    let mut labelled = approved(Some("bob"));
    labelled["metadata"]["labels"] = json!({"a": "b"});
    assert_eq!(said(&update(approved(Some("bob")), labelled)), "allowed");
    assert!(said(&update(approved(None), before())).starts_with("422 "));
    let other = started(|flow| flow["metadata"]["annotations"]["approved.workflow.kube-zen.io/gat"] = json!("true"));
    assert!(said(&update(before(), other)).contains("did you mean"));
    // Nobody signs for another when a flow is created.
    let forged = flow(|flow| annotate(flow, "approval", "{\"by\": \"bob\"}"));
    assert!(said(&create(forged)).starts_with("422 "));
}

#[test]
fn creation_fills_in_the_three_that_are_missing_and_nothing_more() {
    let filled = |policy: Option<Value>| {
        let object = flow(|flow| {
            if let Some(policy) = policy {
                flow["spec"]["executionPolicy"] = policy;
            }
        });
        patch(&ask(Webhook::Mutate, "CREATE", (object, Value::Null)))
    };
    let whole = json!([{"op": "add", "path": "/spec/executionPolicy",
        "value": {"concurrencyPolicy": "Forbid", "ttlSecondsAfterFinished": 86_400, "backoffLimit": 6}}]);
    assert_eq!(filled(None), whole);
    assert_eq!(filled(Some(json!({}))), whole);
    assert_eq!(filled(Some(Value::Null)), whole);
    let some = json!([{"op": "add", "path": "/spec/executionPolicy/concurrencyPolicy", "value": "Forbid"},
        {"op": "add", "path": "/spec/executionPolicy/backoffLimit", "value": 6}]);
    assert_eq!(filled(Some(json!({"ttlSecondsAfterFinished": 5}))), some);
    let all = json!({"concurrencyPolicy": "Allow", "ttlSecondsAfterFinished": 0, "backoffLimit": 0});
    assert_eq!(filled(Some(all)), Value::Null);
    for odd in [json!([]), json!("x")] {
        assert_eq!(filled(Some(odd)), Value::Null);
    }
    let none = flow(|flow| flow["spec"] = json!(5));
    assert_eq!(patch(&ask(Webhook::Mutate, "CREATE", (none, Value::Null))), Value::Null);
}

#[test]
fn an_update_is_signed_with_the_name_of_whoever_asks() {
    let stamped = |old: Value, new: Value| patch(&ask(Webhook::Mutate, "UPDATE", (new, old)));
    let approved = |note: Option<&'static str>| {
        started(move |flow| {
            annotate(flow, "approved", "true");
            if let Some(note) = note {
                annotate(flow, "approval", note);
            }
        })
    };
    let expect = |note: &str| json!([{"op": "add", "path": "/metadata/annotations/approval.workflow.kube-zen.io~1gate", "value": note}]);
    assert_eq!(stamped(started(|_| {}), started(|flow| flow["spec"]["suspend"] = json!(true))), Value::Null);
    assert_eq!(stamped(started(|_| {}), approved(None)), expect(r#"{"at":"2026-11-22T10:00:00Z","by":"ann"}"#));
    let reported = approved(Some(r#"{"by":"bob","reason":"fine"}"#));
    assert_eq!(
        stamped(started(|_| {}), reported.clone()),
        expect(r#"{"at":"2026-11-22T10:00:00Z","by":"ann","reason":"fine"}"#)
    );
    // Signed before; another label is no decision.
    let mut labelled = reported.clone();
    labelled["metadata"]["labels"] = json!({"a": "b"});
    assert_eq!(stamped(reported, labelled), Value::Null);
}

#[test]
fn what_is_stamped_is_allowed_afterwards() {
    let (old, mut new) = (started(|_| {}), started(|flow| annotate(flow, "approved", "rejected")));
    let patch = patch(&ask(Webhook::Mutate, "UPDATE", (new.clone(), old.clone())));
    annotate(&mut new, "approval", patch[0]["value"].as_str().unwrap());
    assert_eq!(said(&update(old, new)), "allowed");
}
