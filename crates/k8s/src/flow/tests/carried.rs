//! Flows whose files the helper moves: what a step hands to the next, and what people hear of what cannot be handed on.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use orlop_core::name::sha256_hex;
use serde_json::{Value, json};

use super::super::{Options, SecretMode};
use super::test_env::{TestEnv, after, job};
use crate::api::Kind;
use crate::render::helper::{HelperOptions, Tokens};

fn env() -> TestEnv {
    let helper = HelperOptions::new("orlop-helper", "http://o:9444", Tokens::new(|| "token".to_owned()));
    TestEnv::with_options(Options { helper: Some(helper), ..Options::default() })
}

/// Two steps: the second takes what the first gives.
fn spec() -> Value {
    let mut make = job("make");
    make["outputs"] = json!({"parameters": [{"name": "rows", "valueFrom": {"path": "/rows"}}],
        "artifacts": [{"name": "model", "path": "/model"}]});
    let mut take = after("take", &["make"]);
    take["inputs"] = json!({"parameters": [{"name": "rows", "valueFrom": {"jsonPath": "make:$.outputs.rows"}}],
        "artifacts": [{"name": "model", "from": "make/model", "path": "/in/model"}]});
    take["template"]["spec"]["template"]["spec"]["containers"][0]["args"] = json!(["{{.parameters.rows}}"]);
    json!({"steps": [make, take]})
}

/// The pod of the Job under way ends with this report.
fn report(env: &mut TestEnv, stored: bool) {
    let report = json!({"v": 1, "parameters": {"rows": "42"},
        "artifacts": [{"name": "model", "sizeBytes": 5, "sha256": "ab", "packing": ".tar", "stored": stored}]});
    say(env, &report);
}

fn say(env: &mut TestEnv, report: &Value) {
    env.settle();
    let job = env.server.list(Kind::Job).into_iter().find(|job| job["status"]["conditions"].is_null()).unwrap();
    let name = job["metadata"]["name"].as_str().unwrap();
    let ended = json!({"terminated": {"exitCode": 0, "message": report.to_string()}});
    env.server.put(
        Kind::Pod,
        json!({"metadata": {"name": name, "labels": {"batch.kubernetes.io/job-name": name}},
            "status": {"phase": "Succeeded", "containerStatuses": [{"name": "main", "state": ended}]}}),
    );
    env.end_job(name, true);
}

#[test]
fn what_a_step_reports_is_handed_to_the_next_one() {
    let mut env = env();
    env.submit("etl", spec());
    report(&mut env, true);
    env.run();
    insta::assert_snapshot!(env.outcome("etl"), @r#"
    Succeeded 2/2
    make Succeeded/- 1 {"artifacts":[{"location":{"kind":"configmap","ref":"etl-make-model/model#.tar","sha256":"ab","sizeBytes":5},"name":"model","path":"/model"}],"parameters":[{"name":"rows","value":"42"}]}
    take Succeeded/- 1
    "#);
    let jobs = env.server.list(Kind::Job);
    let take = jobs.iter().find(|job| job["metadata"]["name"].as_str().unwrap().contains("take")).unwrap();
    let pod = &take["spec"]["template"]["spec"];
    assert_eq!(pod["containers"][0]["args"], json!(["42"]));
    let sources = pod["volumes"].as_array().unwrap().iter().find_map(|volume| volume.get("projected"));
    assert_eq!(sources.unwrap()["sources"][0]["configMap"]["name"], "etl-make-model");
    assert!(!env.status("etl").to_string().contains("token"));
}

#[test]
fn an_artifact_too_large_for_its_store_is_reported_and_misses_only_whoever_takes_it() {
    let mut env = env();
    env.submit("etl", spec());
    report(&mut env, false);
    env.run();
    insta::assert_snapshot!(env.outcome("etl"), @r#"
    Failed 2/2
    make Succeeded/- 1 {"artifacts":[{"name":"model","path":"/model"}],"parameters":[{"name":"rows","value":"42"}]}
    take Failed/ArtifactUnavailable 1
    "#);
    let events = env.server.list(Kind::Event);
    let reported: Vec<&Value> = events.iter().filter(|event| event["reason"] == "ArtifactTooLarge").collect();
    assert_eq!((reported.len(), &reported[0]["type"]), (1, &json!("Warning")));
    insta::assert_snapshot!(reported[0]["note"].as_str().unwrap(), @"make: artifact `model` is larger than the 1048576 bytes that a ConfigMap keeps and is not stored; use an artifactStore");
}

#[test]
fn outputs_larger_than_a_message_come_through_the_operator() {
    let long = "x".repeat(10_000);
    let whole = json!({"v": 1, "message": "own", "parameters": {"rows": long}}).to_string();
    let content = json!({"sizeBytes": whole.len(), "sha256": sha256_hex(whole.as_bytes(), 64)});
    let end = |kept: Option<&str>| {
        let mut env = env();
        let mut spec = spec();
        spec["steps"] = json!([spec["steps"][0]]);
        spec["steps"][0]["outputs"]["artifacts"] = json!([]);
        spec["steps"][0]["outputs"]["parameters"] = json!([
            {"name": "rows", "valueFrom": {"path": "/rows"}},
            {"name": "said", "valueFrom": {"jsonPath": "$.termination.message"}},
            {"name": "none", "valueFrom": {"path": "/none"}, "default": "-"},
        ]);
        env.submit("etl", spec);
        if let Some(kept) = kept {
            let data = json!({".report": STANDARD.encode(kept)});
            env.server.put(Kind::ConfigMap, json!({"metadata": {"name": "etl-make-orlop-report"}, "binaryData": data}));
        }
        say(&mut env, &json!({"v": 1, "elsewhere": content}));
        env.run();
        env.status("etl")["steps"][0].clone()
    };
    let step = end(Some(&whole));
    let values = &step["outputs"]["parameters"];
    assert_eq!(
        (&values[0]["value"], &values[1]["value"], &values[2]["value"]),
        (&json!(long), &json!("own"), &json!("-"))
    );
    for other in [None, Some("{}")] {
        let step = end(other);
        assert_eq!((&step["phase"], &step["reason"]), (&json!("Failed"), &json!("OutputMissing")), "{step}");
    }
}

#[test]
fn without_a_store_a_flow_that_needs_one_is_refused() {
    let mut env = TestEnv::new();
    env.submit("etl", spec());
    env.run();
    let status = env.status("etl");
    assert_eq!((&status["phase"], &status["conditions"][0]["reason"]), (&json!("Failed"), &json!("ValidationFailed")));
    insta::assert_snapshot!(status["message"].as_str().unwrap(), @"spec.steps[0].outputs: the step `make` has artifacts, and this operator was started without --helper-image and --artifact-url, so nothing moves them; spec.steps[1].inputs: the step `take` has artifacts, and this operator was started without --helper-image and --artifact-url, so nothing moves them");
    assert!(env.server.list(Kind::Job).is_empty());
}

#[test]
fn a_flow_that_has_begun_goes_on_where_the_operator_has_no_helper_any_more() {
    let mut env = env();
    env.submit("etl", spec());
    env.settle();
    env.options.helper = None;
    env.restart();
    report(&mut env, true);
    env.run();
    let step = &env.status("etl")["steps"][1];
    assert_eq!((&step["phase"], &step["reason"]), (&json!("Failed"), &json!("TemplateInvalid")), "{step}");
    assert!(step["message"].as_str().unwrap().contains("--helper-image"), "{step}");
}

#[test]
fn a_store_on_a_claim_template_is_the_claim_of_the_flow() {
    let mut env = env();
    env.endless = vec!["etl"];
    let mut spec = spec();
    spec["artifactStore"] = json!({"persistentVolumeClaim": {"claimName": "data"}});
    spec["resourceTemplates"] = json!({"volumeClaimTemplates": [{"metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}}}]});
    env.submit("etl", spec);
    env.run();
    let job = env.server.list(Kind::Job).remove(0).to_string();
    assert!(job.contains(r#""claimName":"etl-data""#) && !job.contains(r#""claimName":"data""#), "{job}");
}

#[test]
fn a_secret_that_a_download_names_is_read_and_written_as_text_where_that_was_asked_for() {
    let helper = HelperOptions::new("orlop-helper", "http://o:9444", Tokens::new(|| "token".to_owned()));
    let mut env =
        TestEnv::with_options(Options { helper: Some(helper), secrets: SecretMode::Read, ..Options::default() });
    env.server.put(Kind::Secret, json!({"metadata": {"name": "vault"}, "data": {"t": STANDARD.encode("planted")}}));
    let mut step = job("a");
    step["inputs"] = json!({
        "parameters": [{"name": "key", "valueFrom": {"secretKeyRef": {"name": "vault", "key": "t"}}}],
        "artifacts": [{"name": "data", "http": {"url": "https://example.org/a", "headers": {"Authorization": "Bearer ${parameters.key}"}}}],
    });
    env.submit("etl", json!({"steps": [step]}));
    env.settle();
    let step = &env.status("etl")["steps"][0];
    assert_eq!(step["phase"], "Running", "{step}");
    let job = env.server.list(Kind::Job).remove(0).to_string();
    assert!(job.contains("Bearer planted"), "{job}");
}
