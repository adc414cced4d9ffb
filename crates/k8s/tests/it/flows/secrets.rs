//! Secrets: read by nobody but the kubelet, unless the operator was told to.

use orlop_k8s::flow::{Options, SecretMode};
use orlop_k8s::testing::ApiServer;
use serde_json::{Value, json};

use super::test_env::{TestEnv, step};
use crate::shipped;

/// What stands for a secret.
const PLANTED: &str = "Planted-Secret-4711";

fn env(mode: SecretMode) -> TestEnv {
    TestEnv::with(ApiServer::new(), None, options(mode))
}

fn options(mode: SecretMode) -> Options {
    let mut options = Options::default();
    options.secrets = mode;
    options
}

fn vault(env: &TestEnv) {
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "vault"},
        "stringData": {"token": PLANTED, "other": "unused"}});
    env.server.create("", "secrets", "default", &secret).expect("a Secret");
}

fn spec(key: &str) -> Value {
    let mut uses = step("a", &[], json!({}));
    uses["inputs"] = json!({"parameters": [
        {"name": "token", "valueFrom": {"secretKeyRef": {"name": "vault", "key": key}}},
        {"name": "unused", "valueFrom": {"secretKeyRef": {"name": "nothing-like-this", "key": "k"}}}]});
    uses["retryPolicy"] = json!({"limit": 1, "backoff": {"type": "Fixed", "duration": "10s"}});
    let container = &mut uses["template"]["spec"]["template"]["spec"]["containers"][0];
    container["env"] = json!([{"name": "T", "value": "{{.parameters.token}}"}]);
    container["args"] = json!(["--token=${parameters.token}"]);
    json!({"steps": [uses]})
}

fn container(env: &TestEnv) -> Value {
    env.jobs().remove(0)["spec"]["template"]["spec"]["containers"][0].clone()
}

fn reads(env: &TestEnv) -> u64 {
    let asked = env.server.requests().into_iter().filter(|asked| asked.resource.starts_with("secrets"));
    asked.map(|asked| asked.count).sum()
}

#[tokio::test]
async fn no_secret_is_read_unless_it_was_asked_for() {
    let mut env = env(SecretMode::Env);
    vault(&env);
    env.submit("etl", spec("token"));
    env.run().await;
    assert_eq!((&env.status("etl")["phase"], reads(&env)), (&json!("Succeeded"), 0));
    let container = container(&env);
    assert!(!container.to_string().contains(PLANTED), "{container}");
    assert_eq!(container["args"], json!(["--token=$(ORLOP_SECRET_0)"]));
}

#[tokio::test]
async fn under_secret_mode_read_text_stands_in_the_job_and_nowhere_else() {
    let mut env = env(SecretMode::Read);
    vault(&env);
    env.submit("etl", spec("token"));
    env.run().await;
    let container = container(&env);
    assert_eq!(container["env"], json!([{"name": "T", "value": PLANTED}]));
    assert_eq!(container["args"], json!([format!("--token={PLANTED}")]));
    assert_eq!((&env.status("etl")["phase"], reads(&env)), (&json!("Succeeded"), 1), "only what the template names");
    for resource in ["jobflows.workflow.kube-zen.io", "events.events.k8s.io", "configmaps"] {
        let all = json!(env.server.look_all(resource)).to_string();
        assert!(!all.contains(PLANTED), "{resource}: {all}");
    }
}

#[tokio::test]
async fn a_secret_that_is_missing_fails_the_step_and_may_come_before_its_retry() {
    let mut env = env(SecretMode::Read);
    env.submit("etl", spec("token"));
    env.settle().await;
    let first = env.status("etl")["steps"][0].clone();
    assert_eq!((&first["phase"], &first["reason"]), (&json!("Failed"), &json!("RetryScheduled")), "{first}");
    vault(&env);
    env.run().await;
    assert_eq!(env.status("etl")["phase"], "Succeeded");

    let mut env = self::env(SecretMode::Read);
    vault(&env);
    env.submit("etl", spec("no-such-key"));
    env.run().await;
    let step = env.status("etl")["steps"][0].clone();
    assert_eq!((&step["phase"], &step["reason"]), (&json!("Failed"), &json!("ParameterUnresolved")));
    assert_eq!(step["message"], "parameter `token`: Secret `vault` has no key `no-such-key`");
    assert!(env.jobs().is_empty());
}

#[tokio::test]
async fn the_chart_gives_the_right_to_read_secrets_where_they_are_read_and_it_is_needed() {
    for rights in [vec!["jobflow", "secrets"], vec!["jobflow"]] {
        let server = ApiServer::new();
        let all: Vec<Value> = rights.iter().copied().flat_map(shipped::rules).collect();
        shipped::grant(&server, &all);
        let mut env = TestEnv::with(server, Some(shipped::ACCOUNT), options(SecretMode::Read));
        vault(&env);
        env.submit("etl", spec("token"));
        env.run().await;
        let status = env.status("etl");
        if rights.contains(&"secrets") {
            assert_eq!(status["phase"], "Succeeded", "{status}");
            continue;
        }
        let reported = status["steps"][0]["message"].as_str().expect("a message");
        assert_eq!(reported, "parameter `token`: Secret `vault`: the API server answers 403 Forbidden");
    }
}
