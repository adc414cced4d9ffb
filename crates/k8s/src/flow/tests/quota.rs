//! Flows that quota holds up: what they say, and when they go on.

use serde_json::{Value, json};

use super::server::Fault;
use super::test_env::{TestEnv, job};
use crate::api::{ApiError, Kind};

fn refused(times: u32, kind: Kind) -> Fault {
    let quota = ApiError {
        code: Some(403),
        reason: "Forbidden".into(),
        message: "exceeded quota: jobs".into(),
        ..ApiError::default()
    };
    Fault::Refuse("create", kind, times, quota)
}

/// Another flow of the namespace has a Job under way; then quota refuses so much.
fn full(times: u32, kind: Kind) -> TestEnv {
    let mut env = TestEnv::new();
    env.endless = vec!["other", "etl"];
    env.submit("other", json!({"steps": [job("x"), job("y")]}));
    env.settle();
    env.server.store().faults.push(refused(times, kind));
    env
}

/// Names of Jobs of the flow, in order.
fn jobs(env: &TestEnv) -> Vec<String> {
    let names = env.server.list(Kind::Job).into_iter().map(|job| job["metadata"]["name"].as_str().unwrap().to_owned());
    names.filter_map(|name| Some(name.strip_prefix("etl-")?.split('-').next()?.to_owned())).collect()
}

fn other(env: &TestEnv, step: &str) -> String {
    let all = env.server.list(Kind::Job);
    let mut names = all.iter().map(|job| job["metadata"]["name"].as_str().unwrap());
    names.find(|name| name.starts_with(&format!("other-{step}-"))).unwrap().to_owned()
}

fn blocked(env: &TestEnv) -> Value {
    let status = env.status("etl");
    let all = status["conditions"].as_array().unwrap();
    let found = all.iter().find(|condition| condition["type"] == "Blocked").cloned().unwrap_or_default();
    json!([found["status"], found["reason"], found["message"], status["phase"], status["message"]])
}

#[test]
fn what_quota_refused_is_tried_as_soon_as_a_job_of_the_namespace_ends_or_goes() {
    for ends in [true, false] {
        let mut env = full(3, Kind::Job);
        env.submit("etl", json!({"steps": [job("a"), job("b"), job("c")]}));
        env.settle();
        assert!(jobs(&env).is_empty());
        let name = other(&env, "x");
        // No time goes by.
        if ends {
            env.end_job(&name, true);
        } else {
            env.server.remove(Kind::Job, &name);
        }
        env.settle();
        assert_eq!(jobs(&env), ["a", "b", "c"], "ended: {ends}");
    }
}

#[test]
fn where_there_is_still_no_room_one_start_is_tried_for_each_job_that_ends() {
    let mut env = full(4, Kind::Job);
    env.submit("etl", json!({"steps": [job("a"), job("b"), job("c")]}));
    env.settle();
    let name = other(&env, "x");
    env.end_job(&name, true);
    env.settle();
    assert!(jobs(&env).is_empty());
    let left = |env: &TestEnv| match &env.server.store().faults[0] {
        Fault::Refuse(_, _, times, _) => *times,
        other => panic!("{other:?}"),
    };
    assert_eq!(left(&env), 0, "a was asked for once more, b and c were not");
    let name = other(&env, "y");
    env.end_job(&name, true);
    env.settle();
    assert_eq!(jobs(&env), ["a", "b", "c"]);
}

#[test]
fn a_job_of_another_namespace_makes_no_room() {
    let mut env = full(1, Kind::Job);
    env.submit("etl", json!({"steps": [job("a")]}));
    env.settle();
    let mut elsewhere = env.server.list(Kind::Job).remove(0);
    elsewhere["metadata"]["namespace"] = json!("elsewhere");
    assert!(env.controller().job_deleted(&elsewhere).iter().all(|key| key.name != "etl"));
    let here = env.server.list(Kind::Job).remove(0);
    assert!(env.controller().job_deleted(&here).iter().any(|key| key.name == "etl"));
}

#[test]
fn a_flow_of_which_quota_refuses_all_is_blocked_and_says_so() {
    let mut env = full(2, Kind::Job);
    env.submit("etl", json!({"steps": [job("a")]}));
    env.settle();
    env.sleep(1);
    assert_eq!(
        blocked(&env),
        json!([
            "True",
            "QuotaExceeded",
            "creating the Job: exceeded quota: jobs (403)",
            "Pending",
            "creating the Job: exceeded quota: jobs (403)"
        ])
    );
    env.endless.clear();
    env.run();
    let shown = blocked(&env);
    assert_eq!((&shown[0], &shown[3]), (&json!("False"), &json!("Succeeded")), "{shown}");
}

#[test]
fn a_flow_whose_resources_quota_refuses_is_pending_and_says_so_until_there_is_room() {
    let mut env = full(1, Kind::Claim);
    let claim = json!({"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
    env.submit("etl", json!({"steps": [job("a")], "resourceTemplates": {"volumeClaimTemplates": [claim]}}));
    env.settle();
    env.sleep(1);
    let said = "creating the resources of the flow: exceeded quota: jobs (403)";
    assert_eq!(blocked(&env), json!(["True", "QuotaExceeded", said, "Pending", said]));
    let events = env.server.list(Kind::Event);
    assert!(events.iter().any(|event| event["reason"] == "QuotaExceeded" && event["type"] == "Warning"));
    let name = other(&env, "x");
    env.end_job(&name, true);
    env.settle();
    assert_eq!(jobs(&env), ["a"], "no time goes by");
}
