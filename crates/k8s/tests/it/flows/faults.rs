//! Faults of a cluster and what people do to a flow under way: each has the outcome of the flow contract.

use std::time::Duration;

use orlop_core::time::Time;
use orlop_k8s::flow::Options;
use orlop_k8s::testing::{ApiServer, Fault, Match, Verb, What};
use serde_json::{Value, json};

use super::test_env::{TestEnv, step};

const STATUS: &str = "jobflows.workflow.kube-zen.io/status";

fn spec() -> Value {
    json!({"steps": [step("a", &[], json!({})), step("b", &["a"], json!({})), step("c", &["b"], json!({}))]})
}

fn slow(name: &str) -> Value {
    step(name, &[], json!({"fake/run-seconds": "60"}))
}

/// A flow under way: its Job is there, its pod runs.
async fn running(spec: Value) -> TestEnv {
    let mut env = TestEnv::new();
    env.submit("etl", spec);
    env.settle().await;
    env.server.jobs().run_for(std::time::Duration::from_secs(10));
    env.settle().await;
    assert_eq!(env.status("etl")["steps"][0]["phase"], "Running", "{}", env.status("etl"));
    env
}

fn reported(env: &TestEnv, reason: &str) -> usize {
    env.server.look_all("events.events.k8s.io").iter().filter(|event| event["reason"] == reason).count()
}

fn pods(env: &TestEnv) -> Vec<String> {
    let all = env.server.look_all("pods");
    all.iter().map(|pod| pod["metadata"]["name"].as_str().expect("a name").to_owned()).collect()
}

#[tokio::test]
async fn an_api_server_that_is_down_or_refuses_for_a_while_delays_the_flow_and_nothing_else() {
    for what in [
        What::Unreachable,
        What::DropAnswer,
        What::Timeout,
        What::TimeoutAfter,
        What::Refuse(429),
        What::Refuse(500),
        What::Refuse(502),
        What::Refuse(503),
    ] {
        for skip in [0, 3, 6] {
            let mut env = TestEnv::new();
            let when = Match { skip, times: 25, ..Match::any().by("admin") };
            env.server.faults().push(Fault { when, what: what.clone() });
            env.submit("etl", spec());
            env.run().await;
            assert_eq!(env.status("etl")["phase"], "Succeeded", "{what:?} after {skip}: {}", env.status("etl"));
            assert_eq!((env.status("etl")["retries"].as_i64().unwrap_or(0), env.jobs().len()), (0, 3), "{what:?}");
            assert!(env.server.faults().waiting() == 0, "{what:?} after {skip}: all of it has struck");
            env.check_jobs_once();
        }
    }
}

#[tokio::test]
async fn a_storm_of_conflicts_costs_requests_only() {
    let mut env = TestEnv::new();
    env.server.faults().push(Fault { when: Match::of(Verb::Patch, STATUS).times(40), what: What::Conflict });
    env.submit("etl", spec());
    env.run().await;
    assert_eq!(env.status("etl")["phase"], "Succeeded");
    let warnings = env.server.look_all("events.events.k8s.io").into_iter().filter(|event| event["type"] == "Warning");
    assert_eq!(warnings.count(), 0, "nobody is told of it");
    env.check_jobs_once();
}

#[tokio::test]
async fn a_full_quota_delays_a_step_until_there_is_room() {
    let mut env = TestEnv::new();
    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "jobs"},
        "spec": {"hard": {"count/jobs.batch": "1"}}});
    env.server.create("", "resourcequotas", "default", &quota).expect("a quota");
    let steps = json!([slow("a"), slow("b")]);
    env.submit("etl", json!({"steps": steps, "executionPolicy": {"jobRetention": "None"}}));
    env.settle().await;
    env.server.clock().advance(std::time::Duration::from_secs(2));
    env.run().await;
    let status = env.status("etl");
    assert_eq!((&status["phase"], &status["retries"]), (&json!("Succeeded"), &Value::Null), "{status}");
    let time = |step: usize, name: &str| -> Time {
        status["steps"][step][name].as_str().expect("a time").parse().expect("a time")
    };
    let waited = time(1, "startTime").since(time(0, "completionTime"));
    assert!(waited < Duration::from_secs(3), "b waits for the Job of a, not for its own time: {waited:?}");
    assert!(reported(&env, "QuotaExceeded") > 0);
    assert!(env.server.requests().iter().any(|asked| asked.resource == "jobs.batch" && asked.code == 403));
    env.check_jobs_once();
}

#[tokio::test]
async fn a_quota_that_the_own_ended_jobs_fill_says_so() {
    let mut env = TestEnv::new();
    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "jobs"},
        "spec": {"hard": {"count/jobs.batch": "1"}}});
    env.server.create("", "resourcequotas", "default", &quota).expect("a quota");
    env.submit("etl", json!({"steps": [step("a", &[], json!({})), step("b", &["a"], json!({}))]}));
    for _ in 0..5 {
        env.pass_time(Duration::from_secs(1)).await;
    }
    let status = env.status("etl");
    let (phase, message) = (&status["steps"][0]["phase"], status["steps"][1]["message"].as_str().unwrap_or_default());
    assert_eq!(phase, "Succeeded", "{status}");
    let end = message.split("limited: ").nth(1).unwrap_or(message);
    assert_eq!(
        end, "count/jobs.batch=1 (403); 1 ended Jobs of this flow count too: `jobRetention: None` deletes such Jobs",
        "{status}"
    );
}

#[tokio::test]
async fn without_the_webhook_nothing_new_begins_and_what_has_begun_goes_on() {
    let mut env = running(json!({"steps": [slow("a"), step("b", &["a"], json!({}))]})).await;
    env.server.faults().push(Fault { when: Match { times: 0, ..Match::write() }, what: What::WebhooksDown });
    let object = json!({"apiVersion": "workflow.kube-zen.io/v1alpha1", "kind": "JobFlow", "metadata": {"name": "late"}, "spec": spec()});
    let refused = env.ask_of_flows("POST", "", &object).await.expect_err("nobody answers for it");
    assert!(refused.contains("failed calling webhook"), "{refused}");
    env.run().await;
    assert_eq!(env.status("etl")["phase"], "Succeeded");
}

#[tokio::test]
async fn a_job_that_somebody_deletes_is_missing_and_its_step_is_tried_again_where_it_may() {
    for (limit, phase, reason) in [(0, "Failed", json!("JobMissing")), (1, "Succeeded", Value::Null)] {
        let mut a = slow("a");
        a["retryPolicy"] = json!({"limit": limit});
        let mut env = running(json!({"steps": [a]})).await;
        let job = env.jobs().remove(0)["metadata"]["name"].as_str().expect("a name").to_owned();
        let options = json!({"propagationPolicy": "Background"});
        env.ask("DELETE", "apis/batch/v1", &format!("jobs/{job}"), &options).await.expect("it is deleted");
        env.run().await;
        let status = env.status("etl");
        assert_eq!((&status["phase"], &status["steps"][0]["reason"]), (&json!(phase), &reason), "{status}");
        env.check_jobs_once();
    }
}

#[tokio::test]
async fn a_foreign_job_of_our_name_is_left_alone_and_fails_the_step() {
    let mut env = TestEnv::new();
    env.submit("etl", spec());
    let uid =
        env.server.look("jobflows.workflow.kube-zen.io", "default", "etl").expect("a flow")["metadata"]["uid"].clone();
    let name = format!("etl-a-{}", &uid.as_str().expect("a uid")[..8]);
    let mut foreign = step("x", &[], json!({"fake/run-seconds": "inf"}))["template"].clone();
    foreign["metadata"] = json!({"name": name, "labels": {"whose": "theirs"}});
    env.server.create("batch", "jobs", "default", &foreign).expect("a Job");
    env.run().await;
    let status = env.status("etl");
    assert_eq!(
        (&status["phase"], &status["steps"][0]["reason"]),
        (&json!("Failed"), &json!("NameConflict")),
        "{status}"
    );
    assert_eq!(reported(&env, "NameConflict"), 1);
    let left = env.jobs();
    assert_eq!((left.len(), &left[0]["metadata"]["labels"]["whose"]), (1, &json!("theirs")));
    assert!(left[0]["metadata"]["deletionTimestamp"].is_null() && left[0]["status"]["failed"].is_null());
}

#[tokio::test]
async fn pods_that_are_evicted_and_nodes_that_are_lost_are_the_jobs_own_matter() {
    for lost in [false, true] {
        let mut a = slow("a");
        a["template"]["spec"]["backoffLimit"] = json!(3);
        let mut env = TestEnv::new();
        for node in ["one", "two"] {
            let object = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": node}, "status": {
                "allocatable": {"cpu": "8", "memory": "64Gi", "pods": "110"}, "conditions": [{"type": "Ready", "status": "True"}]}});
            env.server.create("", "nodes", "", &object).expect("a node");
        }
        env.submit("etl", json!({"steps": [a]}));
        env.settle().await;
        env.server.jobs().run_for(std::time::Duration::from_secs(10));
        env.settle().await;
        let first = pods(&env);
        assert_eq!(first.len(), 1);
        if lost {
            let node = env.server.look("pods", "default", &first[0]).expect("a pod")["spec"]["nodeName"].clone();
            env.server.jobs().lose_node(node.as_str().expect("a node"));
            env.settle().await;
            assert_eq!(env.status("etl")["steps"][0]["phase"], "Running", "nobody knows yet");
            env.server.jobs().remove_node(node.as_str().expect("a node"));
        } else {
            assert!(env.server.jobs().evict("default", &first[0]));
        }
        env.run().await;
        let status = env.status("etl");
        let step = &status["steps"][0];
        assert_eq!((&status["phase"], &step["attempt"]), (&json!("Succeeded"), &json!(1)), "lost: {lost}: {status}");
        assert_eq!((env.jobs().len(), &status["retries"]), (1, &Value::Null), "one Job, another pod");
    }
}

#[tokio::test]
async fn a_job_that_is_suspended_has_another_pod_when_it_is_resumed() {
    let mut env = running(json!({"steps": [slow("a")]})).await;
    let first = pods(&env);
    env.ask_of_flows("PATCH", "etl", &json!({"spec": {"suspend": true, "suspendMode": "Suspend"}}))
        .await
        .expect("held");
    env.settle().await;
    assert_eq!((&env.status("etl")["phase"], pods(&env).len()), (&json!("Suspended"), 0));
    env.ask_of_flows("PATCH", "etl", &json!({"spec": {"suspend": false}})).await.expect("resumed");
    env.run().await;
    let status = env.status("etl");
    assert_eq!((&status["phase"], &status["steps"][0]["attempt"]), (&json!("Succeeded"), &json!(1)), "{status}");
    assert!(env.jobs().len() == 1 && pods(&env).len() == 1 && pods(&env) != first, "one Job, another pod");
}

#[tokio::test]
async fn an_edited_spec_is_refused_and_where_nobody_refuses_it_the_flow_is_held() {
    let edit = json!({"spec": {"executionPolicy": {"backoffLimit": 99}}});
    let env = running(json!({"steps": [slow("a")]})).await;
    let refused = env.ask_of_flows("PATCH", "etl", &edit).await.expect_err("it has begun");
    assert!(refused.contains("executionPolicy"), "{refused}");

    let mut env = TestEnv::with(ApiServer::new(), None, Options::default());
    let first = json!({"backoffLimit": 6, "concurrencyPolicy": "Forbid", "ttlSecondsAfterFinished": 86_400});
    env.submit("etl", json!({"steps": [slow("a"), step("b", &["a"], json!({}))], "executionPolicy": first}));
    env.settle().await;
    env.ask_of_flows("PATCH", "etl", &edit).await.expect("nobody is asked");
    env.run().await;
    let held = env.status("etl");
    let changed = |status: &Value| {
        let all = status["conditions"].as_array().cloned().unwrap_or_default();
        all.into_iter()
            .find(|condition| condition["type"] == "SpecChanged")
            .map(|condition| condition["status"].clone())
    };
    assert_eq!((&held["phase"], changed(&held)), (&json!("Suspended"), Some(json!("True"))), "{held}");
    assert_eq!((env.jobs().len(), &held["steps"][0]["phase"]), (1, &json!("Succeeded")), "what was live finishes");
    env.ask_of_flows("PATCH", "etl", &json!({"spec": {"executionPolicy": first}})).await.expect("it is restored");
    env.run().await;
    let status = env.status("etl");
    assert_eq!((&status["phase"], env.jobs().len()), (&json!("Succeeded"), 2), "{status}");
}

#[tokio::test]
async fn a_namespace_that_goes_takes_its_flows_with_it() {
    let mut env = TestEnv::new();
    env.server.namespace("team");
    let object = json!({"apiVersion": "workflow.kube-zen.io/v1alpha1", "kind": "JobFlow", "metadata": {"name": "etl"},
        "spec": {"steps": [slow("a"), step("b", &["a"], json!({}))]}});
    env.server.create("workflow.kube-zen.io", "jobflows", "team", &object).expect("a flow");
    env.settle().await;
    assert_eq!(env.jobs().len(), 1);
    let request = http::Request::delete("/api/v1/namespaces/team").body(Vec::new()).expect("a request");
    env.server.client_named("user").request::<Value>(request).await.expect("it is deleted");
    env.server.jobs().run_for(std::time::Duration::from_secs(120));
    env.settle().await;
    assert!(env.server.look_all("jobflows.workflow.kube-zen.io").is_empty() && env.jobs().is_empty());
    let before = env.writes().len();
    env.server.clock().advance(std::time::Duration::from_secs(3_600));
    env.settle().await;
    assert_eq!(env.writes().len(), before, "nothing is asked for what is gone");
}

#[tokio::test]
async fn an_approval_counts_of_which_only_a_conflict_tells() {
    let mut env = TestEnv::new();
    let gate = json!({"name": "gate", "type": "Manual"});
    env.submit("etl", json!({"steps": [gate, step("b", &["gate"], json!({}))]}));
    env.run().await;
    assert_eq!(env.status("etl")["phase"], "Paused");
    env.ask_of_flows("PATCH", "etl", &json!({"spec": {"suspend": true}})).await.expect("held");
    env.deliver();
    // While the controller writes that the flow is held, before any watch has shown it.
    let approve = json!({"metadata": {"annotations": {"approved.workflow.kube-zen.io/gate": "true"}}});
    env.ask_of_flows("PATCH", "etl", &approve).await.expect("decided");
    assert!(env.pass().await);
    assert!(env.server.requests().iter().any(|asked| asked.client == "admin" && asked.code == 409), "a conflict");
    env.settle().await;
    let status = env.status("etl");
    assert_eq!(
        (&status["phase"], &status["steps"][0]["phase"]),
        (&json!("Suspended"), &json!("Succeeded")),
        "{status}"
    );
}
