//! Attempts that are accepted and do not run: the reason is shown in the words of the cluster, and queues take no time from them.

use std::time::Duration;

use serde_json::{Value, json};

use super::bed::{Bed, step};

async fn wait(bed: &mut Bed, seconds: u64) {
    for _ in 0..seconds {
        bed.pass_time(Duration::from_secs(1)).await;
    }
}

/// A step whose pods wait for this.
fn stuck(reason: &str) -> Value {
    step("a", &[], json!({"fake/waiting-reason": reason}))
}

/// Somebody reports about an object.
fn report(bed: &Bed, about: &Value, reason: &str, note: &str) {
    let name = format!("{}.{}", about["metadata"]["name"].as_str().expect("a name"), reason.to_lowercase());
    let event = json!({"apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": name}, "type": "Warning",
        "reason": reason, "note": note, "action": "Create", "eventTime": "2026-01-01T00:00:05.000000Z",
        "reportingController": "job-controller", "reportingInstance": "one",
        "regarding": {"kind": "Job", "namespace": "default", "name": about["metadata"]["name"], "uid": about["metadata"]["uid"]}});
    bed.server.create("events.k8s.io", "events", "default", &event).expect("an event");
}

fn events(bed: &Bed, reason: &str) -> Vec<String> {
    let all = bed.server.look_all("events.events.k8s.io");
    let events = all.into_iter().filter(|event| event["reason"] == reason);
    events.map(|event| event["note"].as_str().unwrap_or_default().to_owned()).collect()
}

#[tokio::test]
async fn what_keeps_a_pod_from_running_is_told_within_half_a_minute() {
    for reason in ["ImagePullBackOff", "ErrImagePull", "CreateContainerConfigError"] {
        let mut bed = Bed::new();
        bed.submit("etl", json!({"steps": [stuck(reason)]}));
        wait(&mut bed, 14).await;
        assert!(bed.status("etl")["steps"][0]["waiting"].is_null(), "{}", bed.status("etl"));
        wait(&mut bed, 16).await;
        let status = bed.status("etl");
        let step_status = &status["steps"][0];
        assert_eq!(
            (&step_status["phase"], &step_status["waiting"]["on"]),
            (&json!("Running"), &json!("FirstPod")),
            "{status}"
        );
        assert_eq!(step_status["waiting"]["reason"], reason);
        assert_eq!(step_status["message"], format!("{reason}: container `main`: fake {reason}"));
        assert_eq!(events(&bed, "StepWaiting"), [format!("a: {reason}: container `main`: fake {reason}")]);
        let before = bed.writes().len();
        wait(&mut bed, 120).await;
        assert_eq!(bed.writes().len(), before, "what does not change is written once");
        bed.restart().await;
        wait(&mut bed, 90).await;
        assert_eq!(bed.writes().len(), before, "also to another leader");
    }
}

#[tokio::test]
async fn pods_that_no_node_takes_and_pods_that_cannot_be_made_are_told_of() {
    let mut bed = Bed::new();
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "small"},
        "status": {"allocatable": {"cpu": "1", "memory": "1Gi", "pods": "10"}, "conditions": [{"type": "Ready", "status": "True"}]}});
    bed.server.create("", "nodes", "", &node).expect("a node");
    let mut large = step("large", &[], json!({}));
    large["template"]["spec"]["template"]["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": "64"}});
    bed.submit("etl", json!({"steps": [large]}));
    wait(&mut bed, 30).await;
    let step_status = &bed.status("etl")["steps"][0];
    assert_eq!(step_status["waiting"]["reason"], "Unschedulable", "{step_status}");
    assert_eq!(step_status["message"], "Unschedulable: 0/1 nodes are available");

    let mut bed = Bed::new();
    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "few"}, "spec": {"hard": {"pods": "0"}}});
    bed.server.create("", "resourcequotas", "default", &quota).expect("a quota");
    bed.submit("etl", json!({"steps": [step("a", &[], json!({}))]}));
    bed.settle().await;
    report(&bed, &bed.jobs()[0], "FailedCreate", "Error creating: pods \"x\" is forbidden: exceeded quota: few");
    wait(&mut bed, 30).await;
    let step_status = &bed.status("etl")["steps"][0];
    assert_eq!(
        step_status["message"], "FailedCreate: Error creating: pods \"x\" is forbidden: exceeded quota: few",
        "{step_status}"
    );
}

#[tokio::test]
async fn a_timeout_says_what_the_attempt_waited_for() {
    let mut bed = Bed::new();
    let mut a = stuck("ImagePullBackOff");
    a["timeoutSeconds"] = json!(40);
    bed.submit("etl", json!({"steps": [a]}));
    wait(&mut bed, 60).await;
    let step_status = &bed.status("etl")["steps"][0];
    assert_eq!((&step_status["phase"], &step_status["reason"]), (&json!("Failed"), &json!("Timeout")), "{step_status}");
    insta::assert_snapshot!(step_status["message"].as_str().unwrap_or_default(), @"the attempt took longer than 40s; it waited for its first pod: ImagePullBackOff: container `main`: fake ImagePullBackOff");
}

#[tokio::test]
async fn the_wait_for_a_first_pod_has_a_limit_of_its_own() {
    let mut bed = Bed::new();
    let mut a = stuck("ErrImagePull");
    (a["timeoutSeconds"], a["pendingTimeoutSeconds"]) = (json!(5), json!(20));
    a["retryPolicy"] = json!({"limit": 1, "backoff": {"type": "Fixed", "duration": "1s"}});
    bed.submit("etl", json!({"steps": [a]}));
    wait(&mut bed, 19).await;
    assert_eq!(bed.status("etl")["steps"][0]["phase"], "Running", "{}", bed.status("etl"));
    wait(&mut bed, 4).await;
    assert_eq!(bed.status("etl")["steps"][0]["attempt"], 2, "{}", bed.status("etl"));
    wait(&mut bed, 40).await;
    let step_status = &bed.status("etl")["steps"][0];
    assert_eq!(
        (&step_status["phase"], &step_status["reason"]),
        (&json!("Failed"), &json!("PendingTimeout")),
        "{step_status}"
    );
    // Where a pod runs, only its own time counts.
    let mut bed = Bed::new();
    let mut b = step("b", &[], json!({"fake/start-seconds": "10", "fake/run-seconds": "4"}));
    (b["timeoutSeconds"], b["pendingTimeoutSeconds"]) = (json!(6), json!(20));
    bed.submit("etl", json!({"steps": [b]}));
    wait(&mut bed, 20).await;
    let step_status = &bed.status("etl")["steps"][0];
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
        let mut bed = Bed::new();
        let mut a = step("a", &[], json!({"fake/start-seconds": start, "fake/run-seconds": run}));
        (a["timeoutSeconds"], a["pendingTimeoutSeconds"]) = (json!(timeout), json!(20));
        bed.submit("etl", json!({"steps": [a]}));
        wait(&mut bed, 12).await;
        for suspended in [true, false] {
            let change = json!({"spec": {"suspend": suspended, "suspendMode": "Suspend"}});
            bed.ask_of_flows("PATCH", "etl", &change).await.expect("the server takes the change");
            if resumed && !suspended {
                let path = format!("jobs/{}", bed.jobs()[0]["metadata"]["name"].as_str().expect("a name"));
                bed.ask("PATCH", "apis/batch/v1", &path, &json!({"spec": {"suspend": false}})).await.expect("it runs");
                bed.restart().await;
            }
            wait(&mut bed, 5).await;
        }
        wait(&mut bed, 25).await;
        assert_eq!(bed.status("etl")["steps"][0]["phase"], "Succeeded", "{}", bed.status("etl"));
    }
}

#[tokio::test]
async fn time_in_a_queue_does_not_count_against_the_timeout() {
    for restarts in [false, true] {
        let mut bed = Bed::new();
        let mut a = step("a", &[], json!({"fake/run-seconds": "4"}));
        a["timeoutSeconds"] = json!(6);
        a["template"]["spec"]["suspend"] = json!(true);
        bed.submit("etl", json!({"steps": [a]}));
        wait(&mut bed, 30).await;
        let step_status = &bed.status("etl")["steps"][0];
        assert_eq!(
            (&step_status["phase"], &step_status["waiting"]["on"]),
            (&json!("Running"), &json!("Suspended")),
            "{step_status}"
        );
        assert!(step_status["message"].as_str().unwrap_or_default().contains("such as a queue"), "{step_status}");
        if restarts {
            bed.restart().await;
        }
        let name = bed.jobs()[0]["metadata"]["name"].as_str().expect("a name").to_owned();
        let path = format!("jobs/{name}");
        bed.ask("PATCH", "apis/batch/v1", &path, &json!({"spec": {"suspend": false}})).await.expect("it is let run");
        wait(&mut bed, 8).await;
        let step_status = &bed.status("etl")["steps"][0];
        assert_eq!(step_status["phase"], "Succeeded", "{step_status}");
        assert!(step_status["waitedSeconds"].as_u64().unwrap_or(0) >= 29, "{step_status}");
    }
}
