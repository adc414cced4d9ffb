//! Webhooks of the double: who is asked about what, and what becomes of answers, refusals and silence.

use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kube::api::{Patch, PatchParams, PostParams};
use orlop_k8s::testing::{ApiServer, Fault, Match, Reviewer, Verb, What};
use serde_json::{Value, json};

use super::{refusal, widget, widgets, with_widgets};

/// A configuration with one webhook about widgets.
fn configuration(kind: &str, change: impl FnOnce(&mut Value)) -> Value {
    let mut webhook = json!({"name": format!("{}.widgets.example.org", kind.to_lowercase()), "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "clientConfig": {"service": {"name": "w", "namespace": "system", "path": format!("/{}", kind.to_lowercase())}},
        "rules": [{"apiGroups": ["example.org"], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": ["widgets"]}]});
    change(&mut webhook);
    json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": format!("{kind}WebhookConfiguration"),
        "metadata": {"name": "w"}, "webhooks": [webhook]})
}

/// Reviews that were asked for.
type Seen = Arc<Mutex<Vec<Value>>>;

/// Answers with a response to each path; keeps what it was asked.
fn reviewer(answer: impl Fn(&str, &Value) -> Value + Send + Sync + 'static) -> (Reviewer, Seen) {
    let seen = Seen::default();
    let kept = Arc::clone(&seen);
    let reviewer: Reviewer = Arc::new(move |asked| {
        let request = &asked.review["request"];
        kept.lock().expect("no panic").push(request.clone());
        let mut response = answer(asked.path, request);
        if response["uid"].is_null() {
            response["uid"] = request["uid"].clone();
        }
        Ok(json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}))
    });
    (reviewer, seen)
}

fn patch(operations: &Value) -> Value {
    json!({"allowed": true, "patchType": "JSONPatch", "patch": STANDARD.encode(operations.to_string())})
}

fn register(server: &ApiServer, kind: &str, reviewer: &Reviewer, change: impl FnOnce(&mut Value)) {
    server.webhooks(&configuration(kind, change), reviewer).expect("a configuration");
}

#[tokio::test]
async fn what_mutates_is_asked_first_and_what_validates_sees_what_will_be_stored() {
    let server = with_widgets();
    let (reviewer, seen) = reviewer(|path, _| match path {
        "/mutating" => patch(&json!([{"op": "add", "path": "/spec/name", "value": "bob"}])),
        _ => json!({"allowed": true}),
    });
    register(&server, "Validating", &reviewer, |_| {});
    register(&server, "Mutating", &reviewer, |_| {});
    let widgets = widgets(server.client_named("ann"));
    let stored = widgets.create(&PostParams::default(), &widget("w", json!({"size": 1}))).await.expect("it is stored");
    assert_eq!(stored.data["spec"], json!({"size": 1, "mode": "Fast", "name": "bob"}));
    let seen = seen.lock().expect("no panic").clone();
    let reported = |request: &Value| [request["operation"].clone(), request["object"]["spec"]["name"].clone()];
    assert_eq!(
        seen.iter().map(reported).collect::<Vec<_>>(),
        [[json!("CREATE"), Value::Null], [json!("CREATE"), json!("bob")]]
    );
    assert_eq!(seen[0]["kind"], json!({"group": "example.org", "version": "v1", "kind": "Widget"}));
    let places = [&seen[0]["namespace"], &seen[0]["name"], &seen[0]["userInfo"]["username"], &seen[0]["oldObject"]];
    assert_eq!(places, [&json!("default"), &json!("w"), &json!("ann"), &Value::Null]);
}

#[tokio::test]
async fn a_patch_must_leave_what_the_schema_allows() {
    let server = with_widgets();
    let (reviewer, _) = reviewer(|_, _| patch(&json!([{"op": "add", "path": "/spec/size", "value": -1}])));
    register(&server, "Mutating", &reviewer, |_| {});
    let refused =
        refusal(widgets(server.client()).create(&PostParams::default(), &widget("w", json!({"size": 1}))).await);
    assert_eq!(refused.0, 422, "{refused:?}");
}

#[tokio::test]
async fn a_refusal_has_the_code_and_the_words_of_the_webhook() {
    let server = with_widgets();
    let (reviewer, seen) = reviewer(|_, request| {
        let bad = request["object"]["spec"]["size"] == 7;
        let status = json!({"code": 422, "message": "seven is bad", "details": {"causes": [{"field": "spec.size"}]}});
        if bad { json!({"allowed": false, "status": status}) } else { json!({"allowed": true}) }
    });
    register(&server, "Validating", &reviewer, |_| {});
    let widgets = widgets(server.client());
    let (code, reason, message) =
        refusal(widgets.create(&PostParams::default(), &widget("w", json!({"size": 7}))).await);
    assert_eq!((code, reason.as_str()), (422, "Invalid"));
    assert_eq!(message, "admission webhook \"validating.widgets.example.org\" denied the request: seven is bad");
    widgets.create(&PostParams::default(), &widget("w", json!({"size": 6}))).await.expect("it is stored");
    let merge = Patch::Merge(json!({"spec": {"size": 7}}));
    assert_eq!(refusal(widgets.patch("w", &PatchParams::default(), &merge).await).0, 422);
    let last = seen.lock().expect("no panic").last().cloned().expect("it was asked");
    assert_eq!((&last["operation"], &last["oldObject"]["spec"]["size"]), (&json!("UPDATE"), &json!(6)));
    // Statuses are no widgets.
    let before = seen.lock().expect("no panic").len();
    let status = Patch::Merge(json!({"status": {"phase": "Good"}}));
    widgets.patch_status("w", &PatchParams::default(), &status).await.expect("it is stored");
    assert_eq!(seen.lock().expect("no panic").len(), before);
}

#[tokio::test]
async fn silence_refuses_or_not_as_the_failure_policy_says() {
    for (policy, code) in [("Fail", 500), ("Ignore", 201)] {
        let server = with_widgets();
        let (reviewer, _) = reviewer(|_, _| json!({"allowed": true, "uid": "another"}));
        register(&server, "Validating", &reviewer, |webhook| webhook["failurePolicy"] = json!(policy));
        let (good, _) = self::reviewer(|_, _| json!({"allowed": true}));
        register(&server, "Mutating", &good, |webhook| webhook["failurePolicy"] = json!(policy));
        let widgets = widgets(server.client());
        let done = widgets.create(&PostParams::default(), &widget("w", json!({"size": 1}))).await;
        assert_eq!(done.is_ok(), code == 201, "an answer to another question is none: {done:?}");
        server.faults().push(Fault { when: Match::of(Verb::Create, "widgets"), what: What::WebhooksDown });
        let done = widgets.create(&PostParams::default(), &widget("x", json!({"size": 1}))).await;
        assert_eq!(done.is_ok(), code == 201, "{done:?}");
        if code == 500 {
            let (code, _, message) = refusal(done);
            assert_eq!(code, 500);
            assert_eq!(
                message,
                "Internal error occurred: failed calling webhook \"mutating.widgets.example.org\": failed to call webhook: \
                Post \"https://w.system.svc:443/mutating?timeout=10s\": dial tcp: connect: connection refused"
            );
        }
    }
}

#[tokio::test]
async fn only_the_namespaces_that_are_selected_are_asked_about() {
    let server = with_widgets();
    server.namespace("other");
    let (reviewer, seen) = reviewer(|_, _| json!({"allowed": true, "warnings": ["mind"]}));
    let selector =
        json!({"matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["other"]}]});
    register(&server, "Validating", &reviewer, |webhook| webhook["namespaceSelector"] = selector);
    widgets(server.client())
        .create(&PostParams::default(), &widget("w", json!({"size": 1})))
        .await
        .expect("it is stored");
    assert_eq!(seen.lock().expect("no panic").len(), 0);
    let mut body = serde_json::to_value(widget("w", json!({"size": 1}))).expect("JSON");
    body["metadata"]["namespace"] = json!("other");
    server.create("example.org", "widgets", "other", &body).expect("it is stored");
    assert_eq!(seen.lock().expect("no panic").len(), 1);
}

#[test]
fn configurations_that_a_server_refuses_are_refused() {
    let server = ApiServer::new();
    let (reviewer, _) = reviewer(|_, _| json!({"allowed": true}));
    let wrong = |change: &dyn Fn(&mut Value)| {
        server.webhooks(&configuration("Validating", change), &reviewer).expect_err("it is wrong")
    };
    let reported = [
        wrong(&|webhook| webhook["name"] = json!("short.name")),
        wrong(&|webhook| webhook["sideEffects"] = json!("Some")),
        wrong(&|webhook| webhook["admissionReviewVersions"] = json!(["v1beta1"])),
        wrong(&|webhook| webhook["rules"][0]["operations"] = json!(["PATCH"])),
        wrong(&|webhook| webhook["timeoutSeconds"] = json!(31)),
        wrong(&|webhook| webhook["clientConfig"] = json!({})),
        wrong(&|webhook| webhook["failurePolicy"] = json!("Perhaps")),
        wrong(&|webhook| webhook["rule"] = json!([])),
    ];
    insta::assert_snapshot!(reported.join("\n"), @"
    webhook short.name: its name has fewer than three parts
    webhook validating.widgets.example.org: sideEffects must be None or NoneOnDryRun
    webhook validating.widgets.example.org: it does not take v1
    webhook validating.widgets.example.org: an operation is not known
    webhook validating.widgets.example.org: timeoutSeconds must be 1 to 30
    webhook validating.widgets.example.org: it needs either a service or a url
    unknown variant `Perhaps`, expected `Fail` or `Ignore`
    unknown field `rule`, expected one of `name`, `clientConfig`, `rules`, `failurePolicy`, `matchPolicy`, `namespaceSelector`, `sideEffects`, `timeoutSeconds`, `admissionReviewVersions`, `reinvocationPolicy`, `matchConditions`
    ");
}

#[tokio::test]
async fn conditions_say_whether_a_webhook_is_asked_at_all() {
    let server = with_widgets();
    let (reviewer, seen) = reviewer(|_, _| json!({"allowed": true}));
    let condition = |text: &str| json!([{"name": "c", "expression": text}]);
    register(&server, "Validating", &reviewer, |webhook| {
        webhook["matchConditions"] = condition("request.operation == 'CREATE' || object.spec != oldObject.spec");
    });
    let wrong = configuration("Validating", |webhook| webhook["matchConditions"] = condition("object.spec =="));
    let refused = server.webhooks(&wrong, &reviewer).expect_err("it is no expression");
    assert!(refused.contains("compilation failed"), "{refused}");
    let widgets = widgets(server.client_named("ann"));
    widgets.create(&PostParams::default(), &widget("w", json!({"size": 1}))).await.expect("it is stored");
    let asked = || seen.lock().expect("no panic").len();
    assert_eq!(asked(), 1);
    let patch = async |body: Value| {
        widgets.patch("w", &PatchParams::default(), &Patch::Merge(body)).await.expect("it is changed");
    };
    patch(json!({"metadata": {"labels": {"a": "b"}}})).await;
    assert_eq!(asked(), 1, "its spec is as it was");
    patch(json!({"spec": {"size": 2}})).await;
    assert_eq!(asked(), 2);
    // What cannot be decided stops the write, unless nobody insists.
    for (policy, stored) in [("Fail", false), ("Ignore", true)] {
        let server = with_widgets();
        register(&server, "Validating", &reviewer, |webhook| {
            webhook["matchConditions"] = condition("object.nothing.here == 1");
            webhook["failurePolicy"] = json!(policy);
        });
        let widgets = self::widgets(server.client_named("ann"));
        let made = widgets.create(&PostParams::default(), &widget("w", json!({"size": 1}))).await;
        assert_eq!(made.is_ok(), stored, "{policy}");
    }
    assert_eq!(asked(), 2);
}
