//! Tries of steps: how many, and how long between them.

use serde_json::Value;

use super::{apply, ended, jobs, object};
use crate::flows::test_env::TestEnv;

fn time(value: &Value) -> i64 {
    let text = value.as_str().unwrap_or_else(|| panic!("{value} is no time"));
    text.parse::<jiff::Timestamp>().expect("a time").as_second()
}

/// Seconds from the end of each try of a step to the beginning of the next.
fn waits(env: &TestEnv, step: &str) -> Vec<i64> {
    let jobs = jobs(env, step);
    let ended = |job: &Value| {
        let conditions = job["status"]["conditions"].as_array().expect("conditions");
        let failed = conditions.iter().find(|condition| condition["type"] == "Failed").expect("it has failed");
        time(&failed["lastTransitionTime"])
    };
    jobs.windows(2).map(|two| time(&two[1]["metadata"]["creationTimestamp"]) - ended(&two[0])).collect()
}

#[tokio::test]
async fn the_time_between_tries_grows_as_its_type_says() {
    let env = ended("retries").await;
    insta::assert_snapshot!(env.outcome("retries"), @"
    Succeeded 4/4
    doubling Failed/BackoffLimitExceeded 4
    growing Failed/BackoffLimitExceeded 4
    steady Failed/BackoffLimitExceeded 3
    usual Failed/BackoffLimitExceeded 4
    ");
    assert_eq!(waits(&env, "doubling"), [10, 20, 40]);
    assert_eq!(waits(&env, "growing"), [10, 20, 30]);
    assert_eq!(waits(&env, "steady"), [10, 10]);
    assert_eq!(waits(&env, "usual"), [60, 120, 240], "three tries more, and a factor of two");
    assert_eq!(env.status("retries")["retries"], 11);
}

#[tokio::test]
async fn the_backoff_limit_of_a_flow_counts_the_tries_of_all_its_steps() {
    let mut manifest = object("retries");
    manifest["spec"]["executionPolicy"]["backoffLimit"] = 2.into();
    // One step that may be tried three times more, and one that has used up a try of the flow's already.
    let steps = manifest["spec"]["steps"].as_array_mut().expect("steps");
    steps.truncate(2);
    steps[1]["retryPolicy"]["limit"] = 1.into();
    steps[1]["dependencies"] = serde_json::json!(["doubling"]);
    steps[0]["retryPolicy"]["limit"] = 1.into();
    let mut env = TestEnv::new();
    apply(&env, &manifest).await;
    env.run().await;
    assert_eq!((&env.status("retries")["phase"], env.jobs().len()), (&"Succeeded".into(), 4), "two tries are allowed");
    manifest["spec"]["executionPolicy"]["backoffLimit"] = 1.into();
    let mut env = TestEnv::new();
    apply(&env, &manifest).await;
    env.run().await;
    let status = env.status("retries");
    assert_eq!((&status["phase"], &status["retries"], env.jobs().len()), (&"Failed".into(), &1.into(), 3));
    assert_eq!(status["conditions"][0]["reason"], "BackoffLimitExceeded");
}
