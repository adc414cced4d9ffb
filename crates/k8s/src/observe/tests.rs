//! Jobs and pods as an API server shows them, and what the engine is told of them.

use std::sync::Arc;

use orlop_core::attempt::{FileTrouble, StepIndex};
use orlop_core::spec::flow::FlowSpec;
use orlop_dag::attempt::Subject;
use orlop_dag::params::Scope;

use super::*;

const NOW: Time = Time::from_millis(1_795_300_000_000);

fn plan(outputs: &Value) -> Plan {
    let template = json!({"spec": {"template": {"spec": {"containers": [{"name": "main"}]}}}});
    let spec: FlowSpec = serde_json::from_value(json!({"steps": [
        {"name": "a", "template": template, "outputs": {"parameters": outputs}},
        {"name": "b.c", "template": template, "withItems": [1, 2]},
    ], "executionPolicy": {"podFailurePolicy": {"rules": []}}}))
    .unwrap();
    Plan::build(Arc::new(spec)).unwrap()
}

fn meta() -> FlowMeta {
    FlowMeta { uid: "0123456789ab".into(), name: "etl".into(), namespace: "n".into(), ..FlowMeta::default() }
}

fn ended(kind: &str, status: &str) -> Value {
    json!({"spec": {"template": {"spec": {"containers": [{"name": "main"}, {"name": "side"}]}}}, "status": {
        "completionTime": "2026-11-21T10:00:00Z",
        "conditions": [
            {"type": "SuccessCriteriaMet", "status": "True"}, {"type": "FailureTarget", "status": "True"},
            {"type": kind, "status": status, "reason": "BackoffLimitExceeded", "message": "m", "lastTransitionTime": "2026-11-21T11:00:00Z"},
        ],
    }})
}

fn pod(name: &str, phase: &str, codes: &[(&str, i32)], message: Option<&str>) -> Value {
    let status = |(container, code): &(&str, i32)| {
        let mut ended =
            json!({"exitCode": code, "reason": "Error", "finishedAt": format!("2026-11-21T10:00:0{}Z", code % 10)});
        if let Some(message) = message {
            ended["message"] = json!(message);
        }
        json!({"name": container, "state": {"terminated": ended}})
    };
    json!({"metadata": {"name": name, "creationTimestamp": format!("2026-11-21T09:00:0{}Z", name.len())},
           "status": {"phase": phase, "containerStatuses": codes.iter().map(status).collect::<Vec<_>>()}})
}

fn left(pods: &[Value]) -> AttemptPods {
    AttemptPods { pods: pods.to_vec(), ..AttemptPods::default() }
}

#[test]
fn only_complete_and_failed_that_hold_end_an_attempt() {
    for (kind, status) in [("Complete", "False"), ("Failed", "Unknown"), ("Suspended", "True")] {
        assert_eq!(conclusion(&ended(kind, status)), None, "{kind} {status}");
    }
    for silent in [json!({}), json!({"status": {"succeeded": 1, "failed": 7, "active": 0}})] {
        assert_eq!(conclusion(&silent), None);
    }
    let complete = conclusion(&ended("Complete", "True")).unwrap();
    assert_eq!((complete.result, complete.at), (EndResult::Succeeded, "2026-11-21T10:00:00Z".parse().ok()));
    let failed = conclusion(&ended("Failed", "True")).unwrap();
    let result = EndResult::Failed { reason: "BackoffLimitExceeded".into(), message: "m".into() };
    assert_eq!((failed.result, failed.at), (result, "2026-11-21T11:00:00Z".parse().ok()));
}

#[test]
fn pods_are_asked_for_only_where_they_are_needed() {
    let needs = |outputs: Value, kind: &str| {
        let (plan, conclusion) = (plan(&outputs), conclusion(&ended(kind, "True")).unwrap());
        needs_pods(&plan, Address::step(0), &conclusion)
    };
    let output = |from: Value| json!([{"name": "p", "valueFrom": from}]);
    assert!(!needs(json!([]), "Complete") && needs(json!([]), "Failed"));
    assert!(!needs(output(json!({"jsonPath": "$.succeeded"})), "Complete"));
    assert!(needs(output(json!({"jsonPath": "$.termination.exitCode"})), "Complete"));
    assert!(needs(output(json!({"path": "/out"})), "Complete"));
}

#[test]
fn failed_pods_come_in_the_order_of_their_creation() {
    let pods = [
        pod("second", "Failed", &[("main", 3), ("side", 0)], None),
        pod("ok", "Succeeded", &[("main", 0)], None),
        pod("one", "Failed", &[("main", 2)], None),
        json!({"status": {"phase": "Failed"}}),
    ];
    let end = end(None, &ended("Failed", "True"), &left(&pods), conclusion(&ended("Failed", "True")).unwrap(), NOW);
    let codes: Vec<Vec<i32>> =
        end.failed_pods.iter().map(|pod| pod.containers.iter().map(|c| c.exit_code).collect()).collect();
    assert_eq!(codes, [vec![], vec![2], vec![3, 0]]);
}

#[test]
fn the_file_of_an_output_is_the_message_of_the_pod_that_speaks_for_the_job() {
    let output = json!([{"name": "p", "valueFrom": {"path": "/out"}}]);
    let content = |pods: &[Value], kind: &str| {
        let (plan, job) = (plan(&output), ended(kind, "True"));
        let end = end(plan.step(StepIndex(0)), &job, &left(pods), conclusion(&job).unwrap(), NOW);
        end.files.into_iter().next().map(|file| file.content)
    };
    let mut second = pod("second", "Succeeded", &[("main", 0)], Some("of index 1\n\n"));
    second["metadata"]["annotations"] = json!({INDEX: "1"});
    let mut third = pod("third", "Succeeded", &[("main", 0)], Some("of index 2"));
    third["metadata"]["labels"] = json!({INDEX: "2"});
    assert_eq!(content(&[third, second], "Complete"), Some(Ok("of index 1\n".into())));
    let failed = [pod("a", "Failed", &[("main", 1)], Some("first")), pod("b", "Failed", &[("main", 2)], Some("last"))];
    assert_eq!(content(&failed, "Failed"), Some(Ok("last".into())));
    let long = [pod("a", "Succeeded", &[("main", 0)], Some(&"x".repeat(4096)))];
    assert_eq!(content(&long, "Complete"), Some(Err(FileTrouble::TooLarge)));
    assert_eq!(content(&[pod("a", "Succeeded", &[("main", 0)], None)], "Complete"), None);
    assert_eq!(content(&[], "Complete"), None);
}

#[test]
fn the_document_is_the_job_with_its_termination() {
    let job = ended("Complete", "True");
    let pods = [pod("a", "Succeeded", &[("side", 9), ("main", 0)], Some("{\"loss\":0.7}"))];
    let end = end(None, &job, &left(&pods), conclusion(&job).unwrap(), NOW);
    assert_eq!(end.document["termination"]["json"]["loss"], 0.7);
    assert_eq!(end.document["status"], job["status"]);
    assert_eq!(end.ended_at, "2026-11-21T10:00:00Z".parse().unwrap());
}

#[test]
fn jobs_are_known_by_annotation_label_and_name() {
    let (plan, meta) = (plan(&json!([])), meta());
    let at = Address::instance(1, 1);
    let (name, mut job) = Subject { plan: &plan, meta: &meta, at, attempt: 2 }.job(&Scope::new()).unwrap();
    job["metadata"]["annotations"][INSTANCE] = json!("b.c-i1");
    job["metadata"]["uid"] = json!("j1");
    let seen = attempt(&plan, &meta, &job).unwrap();
    assert_eq!((seen.at, seen.attempt, seen.reference.name.as_str()), (at, 2, name.as_str()));
    assert_eq!((seen.reference.kind.as_str(), seen.reference.uid.as_str()), ("Job", "j1"));
    for (path, value) in
        [("/metadata/name", json!("other")), ("/metadata/labels", json!({})), ("/metadata/annotations", json!({}))]
    {
        let mut wrong = job.clone();
        *wrong.pointer_mut(path).unwrap() = value;
        assert_eq!(attempt(&plan, &meta, &wrong), None, "{path}");
    }
}

#[test]
fn owners_are_distinguished_by_uid() {
    let owned = |uid: &str| {
        json!({"metadata": {"ownerReferences": [
        {"kind": "Other", "uid": "u1"}, {"kind": "JobFlow", "name": "f", "uid": uid, "controller": true}]}})
    };
    assert_eq!(owner(&owned("u1"), "u1"), Ownership::Ours);
    assert_eq!(owner(&owned("u2"), "u1"), Ownership::Foreign("JobFlow `f` with uid u2".into()));
    assert_eq!(owner(&json!({}), "u1"), Ownership::Foreign("nobody".into()));
}

const INDEX: &str = "batch.kubernetes.io/job-completion-index";

/// A Job whose files the helper moves, and a plan of it.
fn carried(kind: &str) -> (Value, Plan) {
    let mut job = ended(kind, "True");
    let places = json!({"v": 1, "reports": true, "token": "t", "artifacts": {"model": {"kind": "configmap", "ref": "etl-a-model/model"}}});
    job["metadata"] = json!({"annotations": {"workflow.kube-zen.io/helper": places.to_string()}});
    let template = json!({"spec": {"template": {"spec": {"containers": [{"name": "main"}]}}}});
    let spec: FlowSpec = serde_json::from_value(json!({"steps": [{"name": "a", "template": template, "outputs": {
        "parameters": [{"name": "one", "valueFrom": {"path": "/one"}}, {"name": "said", "valueFrom": {"jsonPath": "$.termination.message"}}],
        "artifacts": [{"name": "model", "path": "/model"}, {"name": "big", "path": "/big", "optional": true}]}}]}))
    .unwrap();
    (job, Plan::build(Arc::new(spec)).unwrap())
}

fn end_of(kind: &str, message: &str) -> AttemptEnd {
    let ((job, plan), failed) = (carried(kind), kind == "Failed");
    let conclusion = conclusion(&job).unwrap();
    assert!(needs_pods(&plan, Address::step(0), &conclusion));
    let (phase, code) = if failed { ("Failed", 3) } else { ("Succeeded", 0) };
    let pods = [pod("p", phase, &[("main", code)], Some(message))];
    end(plan.step(StepIndex(0)), &job, &left(&pods), conclusion, NOW)
}

#[test]
fn the_report_of_the_helper_gives_parameters_artifacts_and_the_message_of_the_command() {
    let report = json!({"v": 1, "message": "own words", "parameters": {"one": "1", "strange": "x"}, "artifacts": [
        {"name": "model", "sizeBytes": 5, "sha256": "ab", "packing": ".tar", "stored": true},
        {"name": "big", "sizeBytes": 5_000_000, "sha256": "cd", "stored": false},
        {"name": "of-somebody-else", "sizeBytes": 1, "sha256": "ef", "stored": true},
    ]});
    let end = end_of("Complete", &report.to_string());
    assert_eq!((end.result, &end.document["termination"]["message"]), (EndResult::Succeeded, &json!("own words")));
    let one = end.files.iter().find(|file| file.name == "one").unwrap();
    assert_eq!(one.content, Ok("1".to_owned()));
    let kept: Vec<_> =
        end.artifacts.iter().map(|artifact| (artifact.name.as_str(), artifact.location.clone())).collect();
    let [("model", Some(model)), ("big", None)] = kept.as_slice() else { panic!("{kept:?}") };
    assert_eq!((model.kind.as_str(), model.reference.as_str()), ("configmap", "etl-a-model/model#.tar"));
    assert_eq!((model.size_bytes, model.sha256.as_str()), (5, "ab"));
}

#[test]
fn a_success_whose_report_is_absent_full_or_strange_is_none() {
    let reported = |message: &str| match end_of("Complete", message).result {
        EndResult::Failed { reason, message } => format!("{reason}: {message}"),
        other => panic!("{other:?}"),
    };
    let troubled = |reason: &str| json!({"v": 1, "trouble": {"reason": reason, "message": "m"}}).to_string();
    let lines = [
        reported(""),
        reported("all done"),
        reported(r#"{"v":7}"#),
        reported(&"x".repeat(4096)),
        reported(&troubled("OutputTooLarge")),
        reported(&troubled("Succeeded")),
    ];
    insta::assert_snapshot!(lines.join("\n"));
}

#[test]
fn a_failure_stays_what_it_is_whatever_the_helper_says() {
    let failed = EndResult::Failed { reason: "BackoffLimitExceeded".into(), message: "m".into() };
    let report = json!({"v": 1, "message": "why", "parameters": {"one": "1"}, "trouble": {"reason": "OutputMissing", "message": "x"}});
    let end = end_of("Failed", &report.to_string());
    assert_eq!((&end.result, end.files.len()), (&failed, 1));
    let end = end_of("Failed", "killed");
    assert_eq!((&end.result, &end.document["termination"]["message"]), (&failed, &json!("killed")));
}

#[test]
fn inputs_that_could_not_be_fetched_are_the_reason() {
    let (job, plan) = carried("Failed");
    let report =
        json!({"v": 1, "trouble": {"reason": "ArtifactUnavailable", "message": "input artifact x is not available"}});
    let reason_of = |message: &str, started: bool, code: i32| {
        let mut pod = pod("p", "Failed", &[("main", 1)], None);
        if started {
            pod["status"]["containerStatuses"][0]["state"]["terminated"]["startedAt"] = json!("2026-11-21T10:00:00Z");
        }
        let state = json!({"terminated": {"exitCode": code, "message": message}});
        pod["status"]["initContainerStatuses"] = json!([{"name": "orlop-in", "state": state}]);
        let end = end(plan.step(StepIndex(0)), &job, &left(&[pod]), conclusion(&job).unwrap(), NOW);
        match end.result {
            EndResult::Failed { reason, message } => format!("{reason}: {message}"),
            other => panic!("{other:?}"),
        }
    };
    let reason = |message: &str, started: bool| reason_of(message, started, 70);
    assert_eq!(reason(&report.to_string(), false), "ArtifactUnavailable: input artifact x is not available");
    assert_eq!(
        reason("", false),
        "ArtifactUnavailable: the helper that fetches inputs ended with exit code 70; see its log"
    );
    assert_eq!(reason(&report.to_string(), true), "BackoffLimitExceeded: m", "the command was what failed");
    assert_eq!(reason_of("", false, 143), "BackoffLimitExceeded: m", "the helper was killed");
    assert_eq!(reason_of(&report.to_string(), false, 143), "ArtifactUnavailable: input artifact x is not available");
}
