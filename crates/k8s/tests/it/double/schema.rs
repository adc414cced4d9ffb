//! Custom resources: pruning, defaults, checks, rules.

use kube::api::{Patch, PatchParams, PostParams, ValidationDirective};
use serde_json::{Value, json};

use super::{refusal, widget, widgets, with_widgets};

/// What the server says of a spec.
async fn says(spec: Value) -> String {
    let widgets = widgets(with_widgets().client());
    let (code, reason, message) = refusal(widgets.create(&PostParams::default(), &widget("a", spec)).await);
    assert_eq!((code, reason.as_str()), (422, "Invalid"));
    message
}

#[tokio::test]
async fn unknown_fields_go_and_defaults_come() {
    let widgets = widgets(with_widgets().client());
    let spec = json!({"size": 1, "strange": 1, "open": {"x": {"y": 1}}, "labels": {"a": "b"}, "note": null, "mode": null,
        "parts": [{"name": "p", "other": 1}]});
    let made = widgets.create(&PostParams::default(), &widget("a", spec)).await.expect("created");
    assert_eq!(
        made.data["spec"],
        json!({"size": 1, "open": {"x": {"y": 1}}, "labels": {"a": "b"}, "note": null, "parts": [{"name": "p", "count": 1}], "mode": "Fast"})
    );
}

#[tokio::test]
async fn strict_validation_refuses_unknown_fields() {
    let widgets = widgets(with_widgets().client());
    let params = PatchParams {
        field_manager: Some("m".to_owned()),
        field_validation: Some(ValidationDirective::Strict),
        ..PatchParams::default()
    };
    let patch = Patch::Apply(widget("a", json!({"size": 1, "strange": 1, "parts": [{"name": "p", "other": 1}]})));
    let (code, _, message) = refusal(widgets.patch("a", &params, &patch).await);
    assert_eq!(code, 400);
    assert!(message.contains("unknown field \"spec.strange\""), "{message}");
    assert!(message.contains("unknown field \"spec.parts[0].other\""), "{message}");
}

#[tokio::test]
async fn every_violation_has_its_words() {
    insta::assert_snapshot!(says(json!({})).await, @r#"Widget.example.org "a" is invalid: [spec.size: Required value, <nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation]"#);
    insta::assert_snapshot!(says(json!({"size": "1"})).await, @r#"Widget.example.org "a" is invalid: [spec.size: Invalid value: "string": spec.size in body must be of type integer: "string", .spec.size: Invalid value: 0: .spec.size accessor error: 1 is of the type string, expected int64, <nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation]"#);
    insta::assert_snapshot!(says(json!({"size": -1})).await, @r#"Widget.example.org "a" is invalid: [spec.size: Invalid value: -1: spec.size in body should be greater than or equal to 0, .spec.size: Invalid value: -1: should be a non-negative integer]"#);
    insta::assert_snapshot!(says(json!({"size": 1, "mode": "Odd"})).await, @r#"Widget.example.org "a" is invalid: [spec.mode: Unsupported value: "Odd": supported values: "Fast", "Slow", <nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation]"#);
    insta::assert_snapshot!(says(json!({"size": 1, "name": "ABCDEFG"})).await, @r#"Widget.example.org "a" is invalid: [spec.name: Too long: may not be more than 5 bytes, <nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation]"#);
    insta::assert_snapshot!(says(json!({"size": 1, "parts": [{"name": "p"}, {"name": "p"}]})).await, @r#"Widget.example.org "a" is invalid: spec.parts[1]: Duplicate value: {"name":"p"}"#);
    insta::assert_snapshot!(says(json!({"size": 1, "tags": ["t", "t"]})).await, @r#"Widget.example.org "a" is invalid: spec.tags[1]: Duplicate value: "t""#);
    insta::assert_snapshot!(says(json!({"size": 1, "parts": [{"name": "p", "count": 10}]})).await, @r#"Widget.example.org "a" is invalid: spec.parts[0]: Invalid value: many need a kind"#);
}

#[tokio::test]
async fn rules_compare_with_what_was_before() {
    let widgets = widgets(with_widgets().client());
    widgets.create(&PostParams::default(), &widget("a", json!({"size": 1, "name": "x"}))).await.expect("created");
    let rename = Patch::Merge(json!({"spec": {"name": "y"}}));
    let (code, _, message) = refusal(widgets.patch("a", &PatchParams::default(), &rename).await);
    assert_eq!(code, 422);
    assert_eq!(message, "Widget.example.org \"a\" is invalid: spec.name: Invalid value: the name stays");
    widgets.patch("a", &PatchParams::default(), &Patch::Merge(json!({"spec": {"size": 2}}))).await.expect("patched");
}
