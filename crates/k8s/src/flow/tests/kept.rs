//! What a flow keeps over changes around it and over controllers: values of its parameters, orders, what people hear when the
//! server says no.

use serde_json::{Value, json};

use super::server::{Fault, refused};
use super::test_env::{TestEnv, after, job};
use crate::api::Kind;

fn settings(region: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"region": region}})
}

/// Two steps of which the second says a parameter that comes from a ConfigMap, and one that does not.
fn with_parameters() -> Value {
    let mut b = after("b", &["a"]);
    let command = json!(["echo", "${parameters.region} ${parameters.word}"]);
    b["template"]["spec"]["template"]["spec"]["containers"][0]["command"] = command;
    let region = json!({"name": "region", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "region"}}});
    json!({"steps": [job("a"), b], "parameters": [region, {"name": "word", "value": "x"}]})
}

/// What the second step was told.
fn reported(env: &TestEnv) -> Value {
    let jobs = env.server.list(Kind::Job);
    let b = jobs.iter().find(|job| job["metadata"]["name"].as_str().unwrap().starts_with("etl-b"));
    b.map(|job| job["spec"]["template"]["spec"]["containers"][0]["command"][1].clone()).unwrap_or_default()
}

#[test]
fn values_of_parameters_are_those_the_flow_began_with_whatever_becomes_of_their_source() {
    for (restart, gone) in [(false, false), (true, false), (false, true), (true, true)] {
        let mut env = TestEnv::new();
        env.endless = vec!["etl-a"];
        env.server.put(Kind::ConfigMap, settings("north"));
        env.submit("etl", with_parameters());
        env.run();
        if gone {
            env.server.remove(Kind::ConfigMap, "settings");
        } else {
            env.server.edit(Kind::ConfigMap, "settings", |map| map["data"]["region"] = json!("south"));
        }
        if restart {
            env.restart();
        }
        env.endless.clear();
        env.run();
        assert_eq!(
            (env.status("etl")["phase"].as_str(), reported(&env)),
            (Some("Succeeded"), json!("north x")),
            "{restart} {gone}"
        );
        env.check_created_once();
    }
}

#[test]
fn a_flow_whose_parameters_cannot_be_read_is_refused_with_the_reason() {
    let mut env = TestEnv::new();
    env.submit("etl", with_parameters());
    env.run();
    let message = env.status("etl")["message"].as_str().unwrap_or_default().to_owned();
    insta::assert_snapshot!(message, @"parameter `region`: ConfigMap `settings` does not exist; create it, or mark the reference `optional: true`");
}

#[test]
fn a_flow_that_began_under_a_version_that_kept_no_parameters_loses_only_those_that_are_gone() {
    let mut env = TestEnv::new();
    env.endless = vec!["etl-a"];
    env.server.put(Kind::ConfigMap, settings("north"));
    let mut spec = with_parameters();
    spec["steps"][1]["template"]["spec"]["template"]["spec"]["containers"][0]["command"][1] =
        json!("${parameters.word}");
    env.submit("etl", spec);
    env.run();
    for map in env.server.list(Kind::ConfigMap) {
        env.server.remove(Kind::ConfigMap, map["metadata"]["name"].as_str().unwrap());
    }
    env.restart();
    env.endless.clear();
    env.run();
    assert_eq!((env.status("etl")["phase"].as_str(), reported(&env)), (Some("Succeeded"), json!("x")));
}

#[test]
fn an_order_to_make_place_is_kept_where_somebody_writes_the_status_in_between() {
    let policy = |policy: &str| json!({"concurrencyKey": "nightly", "concurrencyPolicy": policy});
    let mut env = TestEnv::new();
    env.endless = vec!["first"];
    env.submit("first", json!({"steps": [job("a")], "executionPolicy": policy("Forbid")}));
    env.run();
    env.submit("second", json!({"steps": [job("a")], "executionPolicy": policy("Replace")}));
    // The order is taken, and what came of it is not stored: no watch has told yet that the status is another one.
    let until = env.history();
    env.server.edit(Kind::JobFlow, "first", |flow| flow["status"]["message"] = json!("somebody was here"));
    env.settle_seeing(until);
    env.run();
    let ends = ["first", "second"].map(|flow| env.status(flow)["phase"].as_str().unwrap().to_owned());
    assert_eq!(ends, ["Failed", "Succeeded"]);
}

#[test]
fn a_job_that_may_not_be_deleted_is_reported_with_the_words_of_the_server_and_can_be_confirmed_gone() {
    let mut env = TestEnv::new();
    env.endless = vec!["etl-a"];
    let mut step = job("a");
    step["timeoutSeconds"] = json!(60);
    env.submit("etl", json!({"steps": [step]}));
    let mut no = refused(403, "Forbidden");
    no.message = "policy keep-jobs denies it".to_owned();
    env.server.store().faults.push(Fault::Refuse("delete", Kind::Job, 1000, no));
    env.settle();
    for _ in 0..40 {
        env.sleep(10);
    }
    let status = env.status("etl");
    let mut all = status["conditions"].as_array().unwrap().iter();
    let blocked = all.find(|condition| condition["type"] == "CancelBlocked").unwrap_or(&Value::Null);
    assert_eq!(blocked["status"], "True", "{status}");
    let message = blocked["message"].as_str().unwrap();
    assert!(message.contains("its Job cannot be deleted: policy keep-jobs denies it (403)"), "{message}");
    env.server.edit(Kind::JobFlow, "etl", |flow| {
        flow["metadata"]["annotations"] = json!({"gone.workflow.kube-zen.io/a": "1"});
    });
    env.settle();
    env.sleep(60);
    assert_eq!(env.status("etl")["phase"], "Failed", "{}", env.status("etl"));
}

#[test]
fn a_flow_says_why_it_does_not_begin_where_nobody_may_read_who_holds_its_key_and_still_obeys() {
    let mut env = TestEnv::with_fault(Fault::Refuse("list", Kind::Pod, 1000, refused(403, "Forbidden")));
    let policy = json!({"concurrencyKey": "nightly"});
    env.submit("etl", json!({"steps": [job("a")], "executionPolicy": policy}));
    env.settle();
    env.sleep(5);
    let status = env.status("etl");
    assert!(
        status["message"].as_str().is_some_and(|message| message.contains("holds the concurrency key")),
        "{status}"
    );
    env.server.edit(Kind::JobFlow, "etl", |flow| flow["spec"]["stop"] = json!("Terminate"));
    env.settle();
    env.sleep(5);
    assert_eq!(env.status("etl")["phase"], "Failed", "{}", env.status("etl"));
}

#[test]
fn a_suspension_that_the_server_refuses_is_reported_and_tried_again() {
    let mut env = TestEnv::new();
    env.endless = vec!["etl-a"];
    env.submit("etl", json!({"steps": [job("a")]}));
    env.run();
    env.server.store().faults.push(Fault::Refuse("patch", Kind::Job, 3, refused(403, "Forbidden")));
    env.server.edit(Kind::JobFlow, "etl", |flow| {
        flow["spec"]["suspend"] = json!(true);
        flow["spec"]["suspendMode"] = json!("Suspend");
    });
    env.settle();
    let events = env.server.list(Kind::Event);
    let reported = events.iter().filter(|event| event["reason"] == "SuspendFailed").collect::<Vec<_>>();
    assert_eq!(reported.len(), 1, "{events:?}");
    assert!(
        reported[0]["note"].as_str().unwrap().starts_with("a: the Job cannot be suspended, it keeps running: "),
        "{reported:?}"
    );
    for _ in 0..6 {
        env.sleep(10);
    }
    assert_eq!(env.server.list(Kind::Job)[0]["spec"]["suspend"], true);
}

#[test]
fn a_status_that_cannot_be_read_is_reported_once_and_keeps_the_key_of_its_flow() {
    let policy = json!({"concurrencyKey": "nightly"});
    let mut env = TestEnv::new();
    env.endless = vec!["first"];
    env.submit("first", json!({"steps": [job("a")], "executionPolicy": policy}));
    env.run();
    env.server.edit(Kind::JobFlow, "first", |flow| flow["status"]["steps"][0]["phase"] = json!("OfALaterVersion"));
    env.restart();
    env.submit("second", json!({"steps": [job("a")], "executionPolicy": policy}));
    env.settle();
    for _ in 0..10 {
        env.sleep(60);
    }
    assert!(env.status("second")["startTime"].is_null(), "{}", env.status("second"));
    let events = env.server.list(Kind::Event);
    let reported: Vec<&str> = events
        .iter()
        .filter(|event| event["reason"] == "NotUnderstood")
        .filter_map(|event| event["note"].as_str())
        .collect();
    assert_eq!(reported.len(), 1, "{reported:?}");
    assert!(reported[0].starts_with("the stored status cannot be read: "), "{reported:?}");
}

/// A flow whose records of steps are in a ConfigMap, which somebody deletes while no controller is there.
fn without_records() -> (TestEnv, Value) {
    let mut env = TestEnv::new();
    env.endless = vec!["etl-a"];
    env.submit("etl", json!({"steps": [job("a"), after("b", &["a"])]}));
    env.settle();
    let too_large = Fault::Refuse("patch", Kind::JobFlow, 2, refused(413, "RequestEntityTooLarge"));
    env.server.store().faults.push(too_large);
    env.server.edit(Kind::JobFlow, "etl", |flow| {
        (flow["spec"]["suspend"], flow["spec"]["suspendMode"]) = (json!(true), json!("Drain"));
    });
    env.run();
    env.server.edit(Kind::JobFlow, "etl", |flow| flow["spec"]["suspend"] = json!(false));
    env.run();
    let map = env.server.list(Kind::ConfigMap).remove(0);
    env.server.remove(Kind::ConfigMap, map["metadata"]["name"].as_str().unwrap());
    env.restart();
    env.settle();
    (env, map)
}

#[test]
fn a_flow_whose_records_are_gone_says_so_and_can_be_terminated() {
    let (mut env, map) = without_records();
    let status = env.status("etl");
    let name = map["metadata"]["name"].as_str().unwrap();
    let fault = format!("ConfigMap `{name}` with step records is missing or was changed");
    assert_eq!(status["phase"], "Suspended");
    assert!(status["message"].as_str().unwrap().contains(&fault), "{status}");
    let mut all = status["conditions"].as_array().unwrap().iter();
    assert!(all.any(|known| known["type"] == "NotUnderstood" && known["status"] == "True"), "{status}");
    assert!(env.server.list(Kind::Event).iter().any(|event| event["reason"] == "NotUnderstood"));
    env.server.edit(Kind::JobFlow, "etl", |flow| flow["spec"]["stop"] = json!("Terminate"));
    env.settle();
    env.sleep(10);
    assert_eq!((env.status("etl")["phase"].as_str(), env.server.list(Kind::Job).len()), (Some("Failed"), 0));
}

#[test]
fn a_flow_whose_records_come_back_goes_on() {
    let (mut env, mut map) = without_records();
    map["metadata"].as_object_mut().unwrap().remove("resourceVersion");
    env.server.put(Kind::ConfigMap, map);
    env.endless.clear();
    env.restart();
    env.run();
    assert_eq!(env.status("etl")["phase"], "Succeeded", "{}", env.status("etl"));
    let jobs = env.made().into_iter().filter(|name| name.starts_with("jobs ")).collect::<Vec<_>>();
    assert_eq!(jobs, ["jobs etl-a-00000001", "jobs etl-b-00000001"]);
}

#[test]
fn an_expired_flow_that_cannot_be_deleted_is_tried_again_with_growing_pauses() {
    let mut env = TestEnv::new();
    env.submit("etl", json!({"steps": [job("a")], "executionPolicy": {"ttlSecondsAfterFinished": 10}}));
    env.run();
    let left = |env: &TestEnv| match &env.server.store().faults[0] {
        Fault::Refuse(_, _, times, _) => 1000 - times,
        other => panic!("{other:?}"),
    };
    env.server.store().faults.push(Fault::Refuse("delete", Kind::JobFlow, 1000, refused(503, "ServiceUnavailable")));
    for _ in 0..600 {
        env.sleep(1);
    }
    assert!((5..25).contains(&left(&env)), "{} tries in ten minutes", left(&env));
}
