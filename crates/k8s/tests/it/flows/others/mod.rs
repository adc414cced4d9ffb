//! Manifests as people write them for other controllers of this API: taken as they are, stored as they are, and done what
//! the documentation of these controllers says. Owns the manifests beside it and how they come to the server.

mod ends;
mod given;
mod people;
mod tries;

use orlop_dag::manifest::{Limits, Options};
use orlop_k8s::convert;
use serde_json::{Value, json};

use super::test_env::TestEnv;

/// The manifests, by the name of their flow.
const ALL: [(&str, &str); 8] = [
    ("harvest", include_str!("harvest.yaml")),
    ("retries", include_str!("retries.yaml")),
    ("limits", include_str!("limits.yaml")),
    ("codes", include_str!("codes.yaml")),
    ("conditions", include_str!("conditions.yaml")),
    ("gate", include_str!("gate.yaml")),
    ("supplies", include_str!("supplies.yaml")),
    ("nightly-1", include_str!("nightly.yaml")),
];

/// The object of a manifest, as `kubectl apply` sends it.
fn object(name: &str) -> Value {
    let (_, text) = ALL.iter().find(|(known, _)| *known == name).expect("a manifest of that name");
    serde_saphyr::from_str(text).expect("YAML")
}

/// Somebody applies an object; the webhooks are asked about it.
async fn apply(env: &TestEnv, object: &Value) -> Value {
    env.ask_of_flows("POST", "", object).await.expect("the server takes the flow")
}

/// Somebody annotates a flow.
async fn annotate(env: &TestEnv, flow: &str, key: &str, value: &str) -> Result<Value, String> {
    env.ask_of_flows("PATCH", flow, &json!({"metadata": {"annotations": {key: value}}})).await
}

/// The flow of a manifest, at its end.
async fn ended(name: &str) -> TestEnv {
    let mut env = TestEnv::new();
    apply(&env, &object(name)).await;
    env.run().await;
    env.check_jobs_once();
    env
}

/// The Jobs of a step, in the order of their attempts.
fn jobs(env: &TestEnv, step: &str) -> Vec<Value> {
    let mut jobs = env.jobs();
    jobs.retain(|job| job["metadata"]["labels"]["workflow.kube-zen.io/step"] == step);
    jobs.sort_by_key(|job| job["metadata"]["labels"]["workflow.kube-zen.io/attempt"].as_str().map(str::to_owned));
    jobs
}

#[tokio::test]
async fn manifests_for_other_controllers_are_taken_and_stored_as_they_are() {
    for (name, text) in ALL {
        let reading = orlop_dag::manifest::read(name, text, &Options::new(Limits::kubernetes()));
        let reading = reading.unwrap_or_else(|report| panic!("{name}: {report}"));
        assert_eq!(reading.manifests.len(), 1, "{name}");
        let sent = object(name);
        let read = convert::read(&sent, &Limits::kubernetes()).unwrap_or_else(|found| panic!("{name}: {found:?}"));
        assert!(read.unknown.is_empty(), "{name}: nothing is pruned of {:?}", read.unknown);

        let stored = apply(&TestEnv::new(), &sent).await;
        let mut wanted = sent["spec"].clone();
        let policy = &mut wanted["executionPolicy"];
        for (member, usual) in [
            ("concurrencyPolicy", json!("Forbid")),
            ("ttlSecondsAfterFinished", json!(86_400)),
            ("backoffLimit", json!(6)),
        ] {
            if policy[member].is_null() {
                policy[member] = usual;
            }
        }
        for step in wanted["steps"].as_array_mut().expect("steps") {
            if step["type"].is_null() {
                step["type"] = json!("Job");
            }
        }
        assert_eq!(stored["spec"], wanted, "{name}: only documented defaults are filled in");
    }
}
