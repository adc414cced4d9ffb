//! Attempts that are accepted and do not run: the reason is shown in the words of the cluster, and queues take no time from them.

use std::time::Duration;

use serde_json::{Value, json};

use super::test_env::{TestEnv, step};

async fn wait(env: &mut TestEnv, seconds: u64) {
    for _ in 0..seconds {
        env.pass_time(Duration::from_secs(1)).await;
    }
}

/// A step whose pods wait for this.
fn stuck(reason: &str) -> Value {
    step("a", &[], json!({"fake/waiting-reason": reason}))
}

/// Somebody reports about an object.
fn report(env: &TestEnv, about: &Value, reason: &str, note: &str) {
    let name = format!("{}.{}", about["metadata"]["name"].as_str().expect("a name"), reason.to_lowercase());
    let event = json!({"apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": name}, "type": "Warning",
        "reason": reason, "note": note, "action": "Create", "eventTime": "2026-01-01T00:00:05.000000Z",
        "reportingController": "job-controller", "reportingInstance": "one",
        "regarding": {"kind": "Job", "namespace": "default", "name": about["metadata"]["name"], "uid": about["metadata"]["uid"]}});
    env.server.create("events.k8s.io", "events", "default", &event).expect("an event");
}

fn events(env: &TestEnv, reason: &str) -> Vec<String> {
    let all = env.server.look_all("events.events.k8s.io");
    let events = all.into_iter().filter(|event| event["reason"] == reason);
    events.map(|event| event["note"].as_str().unwrap_or_default().to_owned()).collect()
}

#[tokio::test]
async fn what_keeps_a_pod_from_running_is_reported_within_half_a_minute() {
    for reason in ["ImagePullBackOff", "ErrImagePull", "CreateContainerConfigError"] {
        let mut env = TestEnv::new();
        env.submit("etl", json!({"steps": [stuck(reason)]}));
        wait(&mut env, 14).await;
        assert!(env.status("etl")["steps"][0]["waiting"].is_null(), "{}", env.status("etl"));
        wait(&mut env, 16).await;
        let status = env.status("etl");
        let step_status = &status["steps"][0];
        assert_eq!(
            (&step_status["phase"], &step_status["waiting"]["on"]),
            (&json!("Running"), &json!("FirstPod")),
            "{status}"
        );
        assert_eq!(step_status["waiting"]["reason"], reason);
        assert_eq!(step_status["message"], format!("{reason}: container `main`: fake {reason}"));
        assert_eq!(events(&env, "StepWaiting"), [format!("a: {reason}: container `main`: fake {reason}")]);
        let before = env.writes().len();
        wait(&mut env, 120).await;
        assert_eq!(env.writes().len(), before, "what does not change is written once");
        env.restart().await;
        wait(&mut env, 90).await;
        assert_eq!(env.writes().len(), before, "also to another leader");
    }
}

#[tokio::test]
async fn pods_that_no_node_takes_and_pods_that_cannot_be_made_are_reported_of() {
    let mut env = TestEnv::new();
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "small"},
        "status": {"allocatable": {"cpu": "1", "memory": "1Gi", "pods": "10"}, "conditions": [{"type": "Ready", "status": "True"}]}});
    env.server.create("", "nodes", "", &node).expect("a node");
    let mut large = step("large", &[], json!({}));
    large["template"]["spec"]["template"]["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": "64"}});
    env.submit("etl", json!({"steps": [large]}));
    wait(&mut env, 30).await;
    let step_status = &env.status("etl")["steps"][0];
    assert_eq!(step_status["waiting"]["reason"], "Unschedulable", "{step_status}");
    assert_eq!(step_status["message"], "Unschedulable: 0/1 nodes are available");

    let mut env = TestEnv::new();
    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "few"}, "spec": {"hard": {"pods": "0"}}});
    env.server.create("", "resourcequotas", "default", &quota).expect("a quota");
    env.submit("etl", json!({"steps": [step("a", &[], json!({}))]}));
    env.settle().await;
    report(&env, &env.jobs()[0], "FailedCreate", "Error creating: pods \"x\" is forbidden: exceeded quota: few");
    wait(&mut env, 30).await;
    let step_status = &env.status("etl")["steps"][0];
    assert_eq!(
        step_status["message"], "FailedCreate: Error creating: pods \"x\" is forbidden: exceeded quota: few",
        "{step_status}"
    );
}

#[tokio::test]
async fn a_timeout_says_what_the_attempt_waited_for() {
    let mut env = TestEnv::new();
    let mut a = stuck("ImagePullBackOff");
    a["timeoutSeconds"] = json!(40);
    env.submit("etl", json!({"steps": [a]}));
    wait(&mut env, 60).await;
    let step_status = &env.status("etl")["steps"][0];
    assert_eq!((&step_status["phase"], &step_status["reason"]), (&json!("Failed"), &json!("Timeout")), "{step_status}");
    insta::assert_snapshot!(step_status["message"].as_str().unwrap_or_default(), @"the attempt took longer than 40s; it waited for its first pod: ImagePullBackOff: container `main`: fake ImagePullBackOff");
}

#[tokio::test]
async fn the_wait_for_a_first_pod_has_a_limit_of_its_own() {
    let mut env = TestEnv::new();
    let mut a = stuck("ErrImagePull");
    (a["timeoutSeconds"], a["pendingTimeoutSeconds"]) = (json!(5), json!(20));
    a["retryPolicy"] = json!({"limit": 1, "backoff": {"type": "Fixed", "duration": "1s"}});
    env.submit("etl", json!({"steps": [a]}));
    wait(&mut env, 19).await;
    assert_eq!(env.status("etl")["steps"][0]["phase"], "Running", "{}", env.status("etl"));
    wait(&mut env, 4).await;
    assert_eq!(env.status("etl")["steps"][0]["attempt"], 2, "{}", env.status("etl"));
    wait(&mut env, 40).await;
    let step_status = &env.status("etl")["steps"][0];
    assert_eq!(
        (&step_status["phase"], &step_status["reason"]),
        (&json!("Failed"), &json!("PendingTimeout")),
        "{step_status}"
    );
    // Where a pod runs, only its own time counts.
    let mut env = TestEnv::new();
    let mut b = step("b", &[], json!({"fake/start-seconds": "10", "fake/run-seconds": "4"}));
    (b["timeoutSeconds"], b["pendingTimeoutSeconds"]) = (json!(6), json!(20));
    env.submit("etl", json!({"steps": [b]}));
    wait(&mut env, 20).await;
    let step_status = &env.status("etl")["steps"][0];
    assert_eq!(
        (&step_status["phase"], &step_status["waitedSeconds"]),
        (&json!("Succeeded"), &json!(10)),
        "{step_status}"
    );
}

#[tokio::test]
async fn the_limit_for_a_first_pod_begins_anew_when_the_flow_is_resumed() {
    // Suspended while the first pod starts, and while it runs; a controller that resumed its Job may not have lived to see it.
    for (start, run, timeout, resumed) in [("15", "4", 6, false), ("10", "8", 12, false), ("15", "4", 6, true)] {
        let mut env = TestEnv::new();
        let mut a = step("a", &[], json!({"fake/start-seconds": start, "fake/run-seconds": run}));
        (a["timeoutSeconds"], a["pendingTimeoutSeconds"]) = (json!(timeout), json!(20));
        env.submit("etl", json!({"steps": [a]}));
        wait(&mut env, 12).await;
        for suspended in [true, false] {
            let change = json!({"spec": {"suspend": suspended, "suspendMode": "Suspend"}});
            env.ask_of_flows("PATCH", "etl", &change).await.expect("the server takes the change");
            if resumed && !suspended {
                let path = format!("jobs/{}", env.jobs()[0]["metadata"]["name"].as_str().expect("a name"));
                env.ask("PATCH", "apis/batch/v1", &path, &json!({"spec": {"suspend": false}})).await.expect("it runs");
                env.restart().await;
            }
            wait(&mut env, 5).await;
        }
        wait(&mut env, 25).await;
        assert_eq!(env.status("etl")["steps"][0]["phase"], "Succeeded", "{}", env.status("etl"));
    }
}

#[tokio::test]
async fn time_in_a_queue_does_not_count_against_the_timeout() {
    for restarts in [false, true] {
        let mut env = TestEnv::new();
        let mut a = step("a", &[], json!({"fake/run-seconds": "4"}));
        a["timeoutSeconds"] = json!(6);
        a["template"]["spec"]["suspend"] = json!(true);
        env.submit("etl", json!({"steps": [a]}));
        wait(&mut env, 30).await;
        let step_status = &env.status("etl")["steps"][0];
        assert_eq!(
            (&step_status["phase"], &step_status["waiting"]["on"]),
            (&json!("Running"), &json!("Suspended")),
            "{step_status}"
        );
        assert!(step_status["message"].as_str().unwrap_or_default().contains("such as a queue"), "{step_status}");
        if restarts {
            env.restart().await;
        }
        let name = env.jobs()[0]["metadata"]["name"].as_str().expect("a name").to_owned();
        let path = format!("jobs/{name}");
        env.ask("PATCH", "apis/batch/v1", &path, &json!({"spec": {"suspend": false}})).await.expect("it is let run");
        wait(&mut env, 8).await;
        let step_status = &env.status("etl")["steps"][0];
        assert_eq!(step_status["phase"], "Succeeded", "{step_status}");
        assert!(step_status["waitedSeconds"].as_u64().unwrap_or(0) >= 29, "{step_status}");
    }
}
