//! Reviews of an API server: whatever is asked, the answer is one that it understands, says why, and stays the same; what is
//! filled in is filled in once.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use orlop_core::time::Time;
use orlop_k8s::admission::{Answer, Settings, Webhook};
use serde_json::{Value, json};

use super::{first_line, text};

const OPERATIONS: [&str; 4] = ["CREATE", "UPDATE", "DELETE", "CONNECT"];
const KINDS: [(&str, &str); 2] = [("workflow.kube-zen.io", "JobFlow"), ("", "Pod")];
const USER: &str = "ann";

/// One byte that chooses who is asked what, then either a whole body, or the object and the one before it on two lines.
pub fn admission(bytes: &[u8]) {
    let Some((choice, rest)) = bytes.split_first() else { return };
    let choice = usize::from(*choice);
    let webhook = if choice.is_multiple_of(2) { Webhook::Validate } else { Webhook::Mutate };
    if choice / 2 % 4 == 3 {
        check(&ask(webhook, rest), None);
        return;
    }
    let Some(text) = text(rest) else { return };
    let (object, old) = first_line(text);
    let read = |text: &str| serde_json::from_str::<Value>(text).unwrap_or(Value::Null);
    let (object, old) = (read(object), read(old));
    let operation = OPERATIONS.get(choice / 8 % OPERATIONS.len()).copied().unwrap_or_default();
    let (group, kind) = KINDS.get(usize::from(choice >= 224)).copied().unwrap_or_default();
    let review = |object: &Value| {
        json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
            "uid": "u-1", "operation": operation, "userInfo": {"username": USER},
            "kind": {"group": group, "version": "v1alpha1", "kind": kind}, "object": object, "oldObject": old}})
        .to_string()
    };
    let answer = ask(webhook, review(&object).as_bytes());
    check(&answer, Some("u-1"));
    let response = answer.body.get("response").cloned().unwrap_or_default();
    if operation != "CREATE" && operation != "UPDATE" || kind == "Pod" {
        assert_eq!(response.get("allowed"), Some(&Value::Bool(true)), "nobody else's matters are refused");
    }
    if webhook == Webhook::Mutate {
        let once = patched(object, &response);
        let again = ask(webhook, review(&once).as_bytes());
        let twice = patched(once.clone(), again.body.get("response").unwrap_or(&Value::Null));
        assert_eq!(once, twice, "what is filled in is there");
        signed(&once, &old, operation);
    }
}

fn ask(webhook: Webhook, body: &[u8]) -> Answer {
    let now = Time::from_millis(1_800_000_000_000);
    let answer = webhook.answer(body, &Settings::default(), now);
    assert_eq!(answer, webhook.answer(body, &Settings::default(), now), "the same every time");
    answer
}

/// The form of an answer.
fn check(answer: &Answer, uid: Option<&str>) {
    if answer.code != 200 {
        assert!(answer.code == 400 && uid.is_none(), "{answer:?}");
        assert!(answer.body.as_str().is_some_and(|why| !why.is_empty()), "it says why");
        return;
    }
    let response = answer.body.get("response").cloned().unwrap_or_default();
    if let Some(uid) = uid {
        assert_eq!(response.get("uid").and_then(Value::as_str), Some(uid), "of this question");
    }
    let warnings = response.get("warnings").and_then(Value::as_array).cloned().unwrap_or_default();
    let lengths = warnings.iter().filter_map(Value::as_str).map(str::len);
    assert!(
        lengths.clone().all(|length| length <= 256) && lengths.sum::<usize>() <= 4096,
        "warnings are passed on whole"
    );
    match response.get("allowed") {
        Some(Value::Bool(true)) => assert!(response.get("status").is_none()),
        Some(Value::Bool(false)) => {
            let code = response.pointer("/status/code").and_then(Value::as_u64);
            assert!(matches!(code, Some(422 | 500)), "{response}");
            let message = response.pointer("/status/message").and_then(Value::as_str).unwrap_or_default();
            assert!(!message.is_empty() && response.get("patch").is_none(), "{response}");
        }
        _ => unreachable!("no verdict: {response}"),
    }
}

/// The object with what is filled in.
fn patched(mut object: Value, response: &Value) -> Value {
    let Some(patch) = response.get("patch").and_then(Value::as_str) else { return object };
    let operations = STANDARD.decode(patch).ok().and_then(|bytes| serde_json::from_slice::<Vec<Value>>(&bytes).ok());
    assert!(operations.is_some(), "a patch is a list in base64");
    for operation in operations.into_iter().flatten() {
        assert_eq!(operation.get("op"), Some(&json!("add")), "nothing is taken away");
        let path = operation.get("path").and_then(Value::as_str).unwrap_or_default();
        let (parent, name) = path.rsplit_once('/').unwrap_or_default();
        let parent = object.pointer_mut(parent).and_then(Value::as_object_mut);
        assert!(parent.is_some(), "a patch fits the object: {path}");
        let value = operation.get("value").cloned().unwrap_or_default();
        parent.map(|members| members.insert(name.replace("~1", "/").replace("~0", "~"), value));
    }
    object
}

/// Rule R20: beside every decision that an update brings stands who asked, and nobody else.
fn signed(object: &Value, old: &Value, operation: &str) {
    if operation != "UPDATE" {
        return;
    }
    let annotations = |object: &Value| object.pointer("/metadata/annotations").and_then(Value::as_object).cloned();
    let (new, old) = (annotations(object).unwrap_or_default(), annotations(old).unwrap_or_default());
    for (key, value) in &new {
        let Some(step) = key.strip_prefix("approved.workflow.kube-zen.io/") else { continue };
        if !value.is_string() || old.get(key) == Some(value) {
            continue;
        }
        let note =
            new.get(&format!("approval.workflow.kube-zen.io/{step}")).and_then(Value::as_str).unwrap_or_default();
        let note: Value = serde_json::from_str(note).unwrap_or_default();
        assert_eq!(note.get("by"), Some(&json!(USER)), "{key} is signed");
    }
}
