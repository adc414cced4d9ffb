//! An operator takes over what another version has begun. `releases` holds flows with their Jobs as former releases stored
//! them; a file stays for every later release.

use std::time::Duration;

use orlop_k8s::convert::spec_hash;
use orlop_k8s::flow::Options;
use orlop_k8s::testing::ApiServer;
use serde_json::{Value, json};

use super::test_env::{TestEnv, step};

const FLOWS: &str = "jobflows.workflow.kube-zen.io";

async fn wait(env: &mut TestEnv, seconds: u64) {
    for _ in 0..seconds {
        env.pass_time(Duration::from_secs(1)).await;
    }
}

/// Stricter than the operator that has begun the flows.
fn strict() -> Options {
    let mut options = Options::default();
    options.limits.strict = true;
    options.defaults.retry_limit = Some(0);
    options
}

fn conditions(env: &TestEnv, flow: &str) -> Vec<String> {
    let all = env.status(flow)["conditions"].as_array().cloned().unwrap_or_default();
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    all.iter().map(|condition| format!("{}={}", word(&condition["type"]), word(&condition["status"]))).collect()
}

#[tokio::test]
async fn a_flow_that_has_begun_is_not_judged_again_by_a_stricter_operator() {
    let mut env = TestEnv::with(ApiServer::new(), None, Options::default());
    let mut a = step("a", &[], json!({"fake/run-seconds": "20"}));
    // A field of a newer cluster: a warning here, refused by a strict operator.
    a["template"]["spec"]["template"]["spec"]["fieldOfANewerCluster"] = json!(true);
    env.submit("etl", json!({"steps": [a, step("b", &["a"], json!({}))]}));
    wait(&mut env, 3).await;
    env.restart_with(strict()).await;
    wait(&mut env, 30).await;
    assert_eq!(env.status("etl")["phase"], "Succeeded", "{}", env.status("etl"));
    assert_eq!(conditions(&env, "etl"), ["Completed=True", "Ready=True"]);
    env.submit("new", json!({"steps": [a_step_of_a_newer_cluster()]}));
    wait(&mut env, 3).await;
    assert_eq!(env.status("new")["phase"], "Failed", "what begins now is judged");
}

fn a_step_of_a_newer_cluster() -> Value {
    let mut a = step("a", &[], json!({}));
    a["template"]["spec"]["template"]["spec"]["fieldOfANewerCluster"] = json!(true);
    a
}

#[tokio::test]
async fn a_flow_that_this_version_cannot_plan_is_held_until_one_can() {
    let mut env = TestEnv::with(ApiServer::new(), None, Options::default());
    env.submit(
        "etl",
        json!({"steps": [step("a", &[], json!({"fake/run-seconds": "20"})), step("b", &["a"], json!({}))]}),
    );
    wait(&mut env, 3).await;
    let stored = env.server.look(FLOWS, "default", "etl").expect("the flow");
    // A newer version has begun it with a condition that this one does not read.
    let mut newer = stored.clone();
    newer["spec"]["steps"][1]["when"] = json!("newer.function()");
    newer["status"]["specHash"] = json!(spec_hash(&newer));
    env.server.restore(FLOWS, &newer).expect("it is stored");
    env.restart().await;
    wait(&mut env, 30).await;
    let status = env.status("etl");
    assert_eq!(status["phase"], "Suspended", "{status}");
    let message = status["message"].as_str().unwrap_or_default();
    assert!(message.contains("spec.steps[1].when: "), "{message}");
    assert!(conditions(&env, "etl").contains(&"NotUnderstood=True".to_owned()), "{status}");
    assert!(!status.to_string().contains("SpecChanged"), "nobody has changed it: {status}");
    let events =
        env.server.look_all("events.events.k8s.io").into_iter().filter(|event| event["reason"] == "NotUnderstood");
    assert_eq!(events.count(), 1);
    // The newer version takes over again: here the one that reads the spec as it was.
    let mut back = env.server.look(FLOWS, "default", "etl").expect("the flow");
    (back["spec"], back["status"]["specHash"]) = (stored["spec"].clone(), stored["status"]["specHash"].clone());
    env.server.restore(FLOWS, &back).expect("it is stored");
    env.restart().await;
    wait(&mut env, 10).await;
    assert_eq!(env.status("etl")["phase"], "Succeeded", "{}", env.status("etl"));
    assert!(conditions(&env, "etl").contains(&"NotUnderstood=False".to_owned()), "{}", env.status("etl"));
}

/// A flow in the middle of everything: ended, running, waiting for a retry, suspended by its deadline's clock, not begun.
fn begun() -> Value {
    let mut flaky = step("flaky", &[], json!({"fake/exit-code": "7"}));
    flaky["retryPolicy"] = json!({"limit": 2, "backoff": {"type": "Fixed", "duration": "60s"}});
    flaky["continueOnFailure"] = json!(true);
    let mut many = step("many", &["first"], json!({"fake/run-seconds": "30"}));
    (many["withItems"], many["timeoutSeconds"]) = (json!(["x", "y"]), json!(300));
    let mut first = step("first", &[], json!({}));
    first["outputs"] = json!({"parameters": [{"name": "count", "valueFrom": {"jsonPath": "$.succeeded"}}]});
    let last = step("last", &["many", "flaky"], json!({}));
    json!({"steps": [first, flaky, many, {"name": "gate", "type": "Manual"}, last], "finally": [step("tidy", &[], json!({}))]})
}

/// Writes down what this release stores, where a variable says so: `UPDATE_RELEASE=NAME`.
#[tokio::test]
async fn a_release_can_be_written_down() {
    let mut env = TestEnv::with(ApiServer::new(), None, Options::default());
    env.submit("etl", begun());
    wait(&mut env, 5).await;
    // Pods are made anew by the double.
    let objects = json!({ FLOWS: env.server.look_all(FLOWS), "jobs.batch": env.jobs() });
    assert_eq!(
        (objects[FLOWS].as_array().map(Vec::len), env.status("etl")["phase"].as_str()),
        (Some(1), Some("Paused"))
    );
    if let Ok(name) = std::env::var("UPDATE_RELEASE") {
        let path = format!("{}/tests/it/flows/releases/{name}.json", env!("CARGO_MANIFEST_DIR"));
        let text = serde_json::to_string_pretty(&objects).expect("JSON");
        std::fs::write(path, text + "\n").expect("it is written");
    }
}

#[tokio::test]
async fn what_former_releases_have_begun_goes_on() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/flows/releases");
    let mut files: Vec<_> =
        std::fs::read_dir(folder).expect("releases").filter_map(|entry| Some(entry.ok()?.path())).collect();
    files.sort();
    assert!(!files.is_empty(), "no release is written down");
    for file in files {
        let text = std::fs::read_to_string(&file).expect("a file");
        let objects: Value = serde_json::from_str(&text).expect("JSON");
        for options in [Options::default(), strict()] {
            // Uids of what is made now are not those of what is stored.
            let mut env = TestEnv::with(ApiServer::seeded(7), None, options);
            for (resource, all) in objects.as_object().expect("objects") {
                for object in all.as_array().expect("a list") {
                    env.server.restore(resource, object).expect("it is stored");
                }
            }
            env.server.clock().advance(Duration::from_secs(10));
            env.restart().await;
            wait(&mut env, 60).await;
            let before = env.status("etl");
            assert_eq!(before["phase"], "Paused", "{file:?}: {before}");
            let approve = json!({"metadata": {"annotations": {"approved.workflow.kube-zen.io/gate": "true"}}});
            env.ask_of_flows("PATCH", "etl", &approve).await.expect("it is approved");
            wait(&mut env, 180).await;
            let status = env.status("etl");
            assert_eq!(status["phase"], "Succeeded", "{file:?}: {status}");
            assert!(!status.to_string().contains("SpecChanged"), "{file:?}: {status}");
            env.check_jobs_once();
        }
    }
}
