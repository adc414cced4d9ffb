//! Flows from creation to deletion.

use serde_json::{Value, json};

use super::test_env::{TestEnv, step};

/// Fan-out, an ignored exit code, a retry, an output, `finally`, a claim.
pub(super) fn spec() -> Value {
    let mut many = step("many", &["first"], json!({}));
    many["withItems"] = json!(["x", "y"]);
    let mut shaky = step("shaky", &["first"], json!({"fake/exit-code": "7"}));
    shaky["retryPolicy"] = json!({"limit": 1, "backoff": {"type": "Fixed", "duration": "20s"}});
    shaky["continueOnFailure"] = json!(true);
    let mut first = step("first", &[], json!({}));
    first["outputs"] = json!({"parameters": [{"name": "count", "valueFrom": {"jsonPath": "$.succeeded"}}]});
    json!({
        "steps": [first, many, shaky, step("odd", &["first"], json!({"fake/exit-code": "42"})), step("last", &["many", "shaky", "odd"], json!({}))],
        "finally": [step("tidy", &[], json!({}))],
        "resourceTemplates": {"volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": {
            "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}]},
        "executionPolicy": {"podFailurePolicy": {"rules": [
            {"action": "Ignore", "onExitCodes": {"containerName": "main", "operator": "In", "values": [42]}}]}},
    })
}

#[tokio::test]
async fn a_flow_comes_to_its_end_and_is_never_written_again() {
    let mut env = TestEnv::new();
    env.submit("etl", spec());
    env.run().await;
    insta::assert_snapshot!(env.outcome("etl"), @r#"
    Succeeded 7/7
    first Succeeded/- 1 [{"name":"count","value":"1"}]
    many Succeeded/- null
    many-i0 Succeeded/- 1
    many-i1 Succeeded/- 1
    shaky Failed/BackoffLimitExceeded 2
    odd Succeeded/FailureIgnored 1
    last Succeeded/- 1
    tidy Succeeded/- 1
    "#);
    env.check_jobs_once();
    // What the definition does not declare would be gone.
    let status = env.status("etl");
    for field in
        ["startTime", "completionTime", "observedGeneration", "specHash", "retries", "resourceRefs", "conditions"]
    {
        assert!(!status[field].is_null(), "{field} in {status}");
    }
    let before = env.writes();
    assert!(before.iter().all(|write| write.code < 300), "no write was refused");
    env.restart().await;
    env.settle().await;
    assert_eq!(env.writes(), before);
    env.server.clock().advance(std::time::Duration::from_secs(86_400));
    env.restart().await;
    env.settle().await;
    assert!(env.server.look_all("jobflows.workflow.kube-zen.io").is_empty() && env.jobs().is_empty());
    assert!(env.server.look_all("persistentvolumeclaims").is_empty(), "what the flow owns goes with it");
}

#[tokio::test]
async fn a_second_pass_with_nothing_to_do_writes_nothing() {
    let mut env = TestEnv::new();
    env.submit(
        "etl",
        json!({"steps": [step("a", &[], json!({})), {"name": "gate", "type": "Manual", "dependencies": ["a"]}]}),
    );
    env.run().await;
    assert_eq!(env.status("etl")["phase"], "Paused");
    let before = env.writes();
    for _ in 0..3 {
        env.restart().await;
        env.settle().await;
    }
    assert_eq!(env.writes(), before);
}
