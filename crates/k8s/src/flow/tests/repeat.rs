//! Rule R39: a flow that repeats another takes over what succeeded there, before it begins, and whatever crashes.

use serde_json::{Value, json};

use super::server::Fault;
use super::test_env::{TestEnv, after, job};
use crate::api::Kind;

fn spec() -> Value {
    let mut first = job("a");
    first["outputs"] = json!({"parameters": [{"name": "count", "valueFrom": {"jsonPath": "$.succeeded"}}]});
    json!({"steps": [first, after("bad", &["a"]), after("last", &["bad"]), job("other")], "finally": [job("tidy")],
        "executionPolicy": {"failurePolicy": "Continue"}})
}

/// A flow that has failed, and the spec of one that repeats it.
fn failed() -> (TestEnv, Value) {
    let mut env = TestEnv::new();
    env.submit("etl", spec());
    env.run();
    assert_eq!(env.status("etl")["phase"], "Failed");
    let mut again = spec();
    let uid = &env.server.get(Kind::JobFlow, "etl").unwrap()["metadata"]["uid"];
    again["retryOf"] = json!({"name": "etl", "uid": uid});
    (env, again)
}

fn jobs_of(env: &TestEnv, flow: &str) -> Vec<String> {
    let prefix = format!("jobs {flow}-");
    let made = env.made().into_iter().filter_map(|name| Some(name.strip_prefix(&prefix)?.to_owned()));
    made.filter_map(|name| Some(name.split_once('-')?.0.to_owned())).collect()
}

#[test]
fn what_failed_runs_again_and_the_rest_is_taken_over_with_its_outputs() {
    let (mut env, again) = failed();
    env.submit("again", again);
    env.run();
    assert_eq!(jobs_of(&env, "again"), ["bad", "tidy"]);
    insta::assert_snapshot!(env.outcome("again"), @r#"
    Failed 5/5
    a Succeeded/Reused null {"parameters":[{"name":"count","value":"1"}]}
    bad Failed/BackoffLimitExceeded 1
    last Skipped/DependencyFailed null
    other Succeeded/Reused null
    tidy Succeeded/- 1
    "#);
}

#[test]
fn named_and_changed_steps_run_again_with_all_that_follows() {
    let (mut env, mut again) = failed();
    again["retryOf"]["steps"] = json!(["other"]);
    again["steps"][0]["timeoutSeconds"] = json!(60);
    env.submit("again", again);
    env.run();
    assert_eq!(jobs_of(&env, "again"), ["a", "bad", "other", "tidy"]);
}

/// Of a fan-out only the instance that failed runs again.
#[test]
fn of_a_fan_out_only_the_instances_that_failed_run_again() {
    let mut env = TestEnv::new();
    let mut fan = after("half", &["a"]);
    fan["withItems"] = json!(["x", "y", "z"]);
    let mut again =
        json!({"steps": [job("a"), fan, after("sum", &["half"])], "executionPolicy": {"failurePolicy": "Continue"}});
    env.submit("etl", again.clone());
    env.run();
    assert_eq!(env.status("etl")["phase"], "Failed");
    again["retryOf"] = json!({"name": "etl", "uid": &env.server.get(Kind::JobFlow, "etl").unwrap()["metadata"]["uid"]});
    env.submit("again", again);
    env.run();
    assert_eq!(jobs_of(&env, "again"), ["half"]);
    let outcome = env.outcome("again");
    assert!(outcome.contains("half-i0 Succeeded/Reused") && outcome.contains("half-i2 Succeeded/Reused"), "{outcome}");
}

#[test]
fn a_flow_that_succeeded_is_repeated_only_where_its_object_insists() {
    let mut env = TestEnv::new();
    let spec = json!({"steps": [job("a")], "finally": [job("tidy")]});
    env.submit("etl", spec.clone());
    env.run();
    assert_eq!(env.status("etl")["phase"], "Succeeded");
    let mut again = spec;
    again["retryOf"] = json!({"name": "etl", "uid": &env.server.get(Kind::JobFlow, "etl").unwrap()["metadata"]["uid"]});
    env.submit("again", again.clone());
    env.settle();
    let message = env.status("again")["message"].as_str().unwrap().to_owned();
    assert!(message.starts_with("retryOf: `etl` Succeeded") && message.contains("retryOf.force"), "{message}");
    again["retryOf"]["force"] = json!(true);
    env.submit("forced", again);
    env.run();
    assert_eq!(
        (env.status("forced")["phase"].as_str(), jobs_of(&env, "forced")),
        (Some("Succeeded"), vec!["tidy".to_owned()])
    );
}

#[test]
fn a_flow_that_cannot_be_repeated_is_refused_and_says_why() {
    let refused = |env: &mut TestEnv, spec: Value| {
        env.submit("again", spec);
        env.settle();
        let status = env.status("again");
        assert_eq!(status["phase"], "Failed", "{status}");
        assert!(jobs_of(env, "again").is_empty());
        env.server.remove(Kind::JobFlow, "again");
        env.settle();
        status["message"].as_str().unwrap().to_owned()
    };
    let (mut env, again) = failed();
    let mut other = again.clone();
    other["retryOf"]["uid"] = json!("0000");
    insta::assert_snapshot!(refused(&mut env, other), @"retryOf: flow `etl` is not the one of uid `0000`; name the uid it has now");
    let mut none = again.clone();
    none["retryOf"]["name"] = json!("elt");
    insta::assert_snapshot!(refused(&mut env, none), @"retryOf: flow `elt` not found in this namespace");
    env.endless = vec!["slow"];
    env.submit("slow", json!({"steps": [job("slow")]}));
    env.settle();
    let mut early = again;
    let uid = &env.server.get(Kind::JobFlow, "slow").unwrap()["metadata"]["uid"];
    early["retryOf"] = json!({"name": "slow", "uid": uid});
    insta::assert_snapshot!(refused(&mut env, early), @"retryOf: `slow` has not ended: it is Running; retry it when it has");
}

#[test]
fn a_crash_at_any_write_changes_nothing() {
    let (clean, again) = failed();
    let before = clean.writes().len();
    let run = |plan: Option<(Fault, usize)>| {
        let mut env = failed().0;
        if let Some((fault, behind)) = plan {
            env.server.store().faults.push(fault);
            env.stale.push_back(behind);
        }
        env.submit("again", again.clone());
        env.run();
        env
    };
    let clean = run(None);
    let writes = clean.writes().len();
    assert!(writes > before + 5, "{writes} writes, {before} of them before");
    for at in before..writes {
        for behind in [0, 2, 1_000] {
            for fault in [Fault::DieBefore(at), Fault::DieAfter(at), Fault::LoseAnswer(at)] {
                let reported = format!("{fault:?}, {behind} behind");
                let env = run(Some((fault, behind)));
                assert_eq!(env.outcome("again"), clean.outcome("again"), "{reported}");
                assert_eq!(env.made(), clean.made(), "{reported}");
                env.check_created_once();
            }
        }
    }
}
