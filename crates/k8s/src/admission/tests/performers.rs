//! Questions about performers.

use serde_json::{Value, json};

use super::super::{Answer, Settings, Webhook};
use super::{ask, now, said};

fn performer(spec: &Value) -> Value {
    let mut object = json!({"apiVersion": "hourglass.eigenlayer.io/v1alpha1", "kind": "Performer", "metadata": {"name": "p", "namespace": "n"},
        "spec": {"avsAddress": "0x1234567890abcdef1234567890abcdef12345678", "image": "i"}});
    spec.as_object().unwrap().iter().for_each(|(name, value)| object["spec"][name] = value.clone());
    object
}

fn create(spec: &Value) -> Answer {
    ask(Webhook::ValidatePerformer, "CREATE", (performer(spec), Value::Null))
}

fn warnings(answer: &Answer) -> Vec<&str> {
    let all = answer.body["response"]["warnings"].as_array();
    all.into_iter().flatten().filter_map(Value::as_str).collect()
}

#[test]
fn what_can_be_translated_is_stored() {
    for hardware in [
        json!({}),
        json!({"gpuType": "nvidia-a100", "gpuCount": 2, "nvlink": true}),
        json!({"teeType": "tdx", "teeRequired": true}),
        json!({"gpuType": "nvidia-h100", "gpuCount": 1, "allocation": "auto"}),
        json!({"gpuType": "nvidia-h100", "gpuCount": 1, "allocation": "dra"}),
    ] {
        let answer = create(&json!({ "hardwareRequirements": hardware }));
        assert_eq!((said(&answer).as_str(), warnings(&answer)), ("allowed", vec![]), "{hardware}");
    }
}

#[test]
fn what_cannot_be_translated_is_refused_with_what_to_do() {
    let refused = |spec: &Value| {
        let answer = create(spec);
        let details = &answer.body["response"]["status"]["details"];
        assert_eq!(
            (&details["kind"], &details["causes"][0]["field"]),
            (&json!("Performer"), &json!("spec")),
            "{details}"
        );
        said(&answer)
    };
    insta::assert_snapshot!(refused(&json!({"hardwareRequirements": {"gpuType": "nvidia-a1000-nvlink"}})), @"422 spec: unknown GPU model `a1000`, did you mean a100, h100, a800?; use a known model, for example `h100`, `a100`, `l4`, `t4`, `mi300x` [InvalidSpec]");
    insta::assert_snapshot!(refused(&json!({"hardwareRequirements": {"gpuType": "amd-mi300x", "gpuCount": 1}, "resources": {"limits": {"nvidia.com/gpu": "1"}}})), @"422 spec: resource nvidia.com/gpu is asked for, but the hardware asks for amd.com/gpu; remove the resource, hardwareRequirements asks for it [Conflict]");
    insta::assert_snapshot!(refused(&json!({"hardwareRequirements": {"teeType": "cca", "teeRequired": true}})), @"422 spec: cca is not available on kubernetes; drop the need, or run on another substrate: openstack, docker or fleet [InvalidSpec]");
    insta::assert_snapshot!(refused(&json!({"scheduling": {"nodeSelector": {"kubernetes.io/arch": "arm64"}}, "hardwareRequirements": {"teeType": "sgx", "teeRequired": true, "cpuArch": "amd64"}})), @"422 spec: label kubernetes.io/arch is asked to be arm64, but the hardware asks for amd64; remove the selector, or make it one of the values the hardware asks for [Conflict]");
    insta::assert_snapshot!(refused(&json!({"config": 7})), @"422 spec: cannot be read: invalid type: integer `7`, expected struct PerformerConfig [InvalidSpec]");
}

#[test]
fn an_affinity_that_is_none_is_refused() {
    for affinity in [json!("x"), json!(7), json!([1])] {
        let spec = json!({"scheduling": {"affinity": affinity, "nodeAffinity": {}}});
        assert!(said(&create(&spec)).starts_with("422 spec: "), "{affinity}: {}", said(&create(&spec)));
    }
}

#[test]
fn what_may_surprise_is_a_warning() {
    let variable = json!({"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}});
    let config = json!({"environment": {"A": "1"}, "environmentFrom": [variable]});
    let twice = create(&json!({ "config": config }));
    assert_eq!(warnings(&twice), ["DuplicateEnvironment: environmentFrom wins over environment for A"]);
    let narrowed = create(&json!({"hardwareRequirements": {"teeType": "sev", "teeRequired": true}}));
    assert_eq!(
        warnings(&narrowed),
        ["Narrowed: fewer nodes match than requested: the cluster has no labels for the rest"]
    );
    let named = create(&json!({"hardwareRequirements": {"gpuType": "nvidia-a1000"}}));
    insta::assert_snapshot!(warnings(&named).join("; "), @"UnknownGpuModel: model `a1000` is not in Orlop's tables; it is matched by its exact name among devices of nvidia; did you mean a100, h100, a800?");
    let class = json!({"hardwareRequirements": {"teeType": "sgx", "teeRequired": true}, "scheduling": {"runtimeClass": "mine"}});
    assert_eq!(
        warnings(&create(&class)),
        ["RuntimeClassOverridden: the runtime class of the spec overrides the derived one"]
    );
}

#[test]
fn an_update_is_not_held_against_what_is_stored() {
    let wrong = performer(&json!({"hardwareRequirements": {"gpuType": "nonsense-nvlink"}}));
    let mut labelled = wrong.clone();
    labelled["metadata"]["labels"] = json!({"a": "b"});
    let update =
        |old: &Value, new: &Value| said(&ask(Webhook::ValidatePerformer, "UPDATE", (new.clone(), old.clone())));
    assert_eq!(update(&wrong, &labelled), "allowed");
    let mut other = wrong.clone();
    other["spec"]["image"] = json!("j");
    assert!(update(&wrong, &other).starts_with("422 spec: "), "another spec is asked about");
    other["metadata"]["deletionTimestamp"] = json!("2026-11-22T10:00:00Z");
    assert_eq!(update(&wrong, &other), "allowed", "the way out stays open");
}

#[test]
fn nothing_else_is_asked_there_and_the_tables_of_the_operator_count() {
    let flow = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {"uid": "1", "operation": "CREATE",
        "kind": {"group": "workflow.kube-zen.io", "version": "v1alpha1", "kind": "JobFlow"}, "object": {}}});
    let answer = Webhook::ValidatePerformer.answer(flow.to_string().as_bytes(), &Settings::default(), now());
    assert_eq!(
        warnings(&answer),
        ["JobFlow of `workflow.kube-zen.io` is not checked here; let the webhook ask about Performers only"]
    );
    let file = "gpu: {models: {mine: {vendor: nvidia, products: [{name: MINE 9000, memoryGib: 24}]}}}";
    let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {"uid": "1", "operation": "CREATE",
        "kind": {"group": "hourglass.eigenlayer.io", "version": "v1alpha1", "kind": "Performer"},
        "object": performer(&json!({"hardwareRequirements": {"gpuType": "nvidia-mine"}}))}});
    let mut settings = Settings::default();
    let reported = |settings: &Settings| {
        let answer = Webhook::ValidatePerformer.answer(review.to_string().as_bytes(), settings, now());
        assert_eq!(answer.body["response"]["allowed"], true);
        warnings(&answer).join("; ")
    };
    insta::assert_snapshot!(reported(&settings), @"UnknownGpuModel: model `mine` is not in Orlop's tables; it is matched by its exact name among devices of nvidia; did you mean mi60, mi50?");
    let laid = serde_saphyr::from_str(file).unwrap();
    settings.hourglass = crate::hourglass::Config::with_tables(orlop_core::hardware::Tables::default().overlaid(laid));
    assert_eq!(reported(&settings), "");
}
