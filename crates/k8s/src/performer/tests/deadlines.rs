//! How long something may take, and what a new try inherits.

use serde_json::{Value, json};

use super::{TestEnv, another, place, pods, running, selected, serves, spec};
use crate::api::Kind;

fn upgrade(env: &mut TestEnv, habit: &'static str) {
    env.images.insert("bad".into(), habit);
    another(env, "bad", json!({"progressDeadlineSeconds": 30}));
    env.rest();
}

fn fail_last(env: &mut TestEnv) {
    let name = env.status("avs")["candidate"]["podName"].as_str().unwrap().to_owned();
    env.server.edit(Kind::Pod, &name, |pod| pod["status"]["phase"] = json!("Failed"));
    env.rest();
}

#[test]
fn an_image_may_be_pulled_for_an_hour_where_there_is_no_error() {
    let mut env = running(spec("well"));
    upgrade(&mut env, "pulls");
    env.wait(3590);
    assert_eq!((place(&env).as_str(), pods(&env).len()), ("Upgrading/PodRecreation False/AsExpected", 2));
    env.wait(20);
    assert_eq!((place(&env).as_str(), selected(&env).as_str()), ("Running/Running True/UpgradeFailed", "1"));
}

#[test]
fn a_longer_deadline_than_an_hour_holds_for_pulling_too() {
    let mut env = running(spec("well"));
    upgrade(&mut env, "pulls");
    env.change("avs", |spec| spec["upgrade"]["progressDeadlineSeconds"] = json!(7200));
    env.wait(7100);
    assert_eq!(place(&env), "Upgrading/PodRecreation False/AsExpected");
    env.wait(110);
    assert_eq!(place(&env), "Running/Running True/UpgradeFailed");
}

#[test]
fn an_image_that_cannot_be_pulled_has_the_usual_time() {
    let mut env = running(spec("well"));
    upgrade(&mut env, "ImagePullBackOff");
    assert_eq!(place(&env), "Upgrading/PodRecreation True/ImagePullFailed");
    env.wait(29);
    assert_eq!(pods(&env).len(), 2);
    env.wait(2);
    assert_eq!(place(&env), "Running/Running True/UpgradeFailed");
}

#[test]
fn a_candidate_that_is_made_again_inherits_when_it_started_and_its_steps_do_not_count_again() {
    let mut env = running(spec("well"));
    upgrade(&mut env, "never");
    let first = env.status("avs")["candidate"].clone();
    assert!(first["startedAt"].is_string() && first["progressedAt"].is_string(), "{first}");
    env.wait(15);
    fail_last(&mut env);
    // Ten seconds after the failure there is another one, which comes as far as the first.
    env.wait(12);
    let second = env.status("avs")["candidate"].clone();
    assert_eq!((&first["incarnation"], &second["incarnation"]), (&json!(2), &json!(3)));
    for member in ["specHash", "startedAt", "progressedAt"] {
        assert_eq!(second[member], first[member], "{member}");
    }
    assert_eq!((place(&env).as_str(), serves(&env)), ("Upgrading/PodRecreation False/AsExpected", true));
    env.wait(2);
    assert_eq!(place(&env), "Upgrading/PodRecreation False/AsExpected", "not yet");
    env.wait(2);
    assert_eq!(place(&env), "Running/Running True/UpgradeFailed", "30 s after the last step that was new");
}

#[test]
fn a_candidate_of_another_spec_begins_anew() {
    let mut env = running(spec("well"));
    upgrade(&mut env, "never");
    let first = env.status("avs")["candidate"].clone();
    env.images.insert("worse".into(), "never");
    env.wait(15);
    env.change("avs", |spec| spec["image"] = json!("worse"));
    env.rest();
    let second = env.status("avs")["candidate"].clone();
    assert_ne!((&second["specHash"], &second["startedAt"]), (&first["specHash"], &first["startedAt"]));
    env.wait(29);
    assert_eq!(place(&env), "Upgrading/PodRecreation False/AsExpected");
    env.wait(2);
    assert_eq!(place(&env), "Running/Running True/UpgradeFailed");
}

#[test]
fn another_spec_is_tried_at_once_and_its_failures_are_counted_from_the_first() {
    let mut env = running(spec("well"));
    for _ in 0..3 {
        let name = pods(&env).pop().unwrap();
        env.server.edit(Kind::Pod, &name, |pod| pod["status"]["phase"] = json!("Failed"));
        env.rest();
        if env.status("avs")["retry"]["count"] != 3 {
            env.wait(60);
        }
    }
    assert_eq!(
        (place(&env).as_str(), env.status("avs")["retry"]["count"].clone()),
        ("Failed/Failed True/PodFailed", json!(3))
    );
    env.change("avs", |spec| spec["image"] = json!("other"));
    env.rest();
    assert_eq!((place(&env).as_str(), serves(&env)), ("Running/Running False/AsExpected", true), "without a wait");
    assert_eq!(env.status("avs")["retry"], Value::Null);
    let name = pods(&env).pop().unwrap();
    env.server.edit(Kind::Pod, &name, |pod| pod["status"]["phase"] = json!("Failed"));
    env.rest();
    assert_eq!(env.status("avs")["retry"]["count"], 1);
}

#[test]
fn ready_for_ten_minutes_forgets_failures_and_less_does_not() {
    let mut env = running(spec("well"));
    let fail = |env: &mut TestEnv| {
        let name = pods(env).pop().unwrap();
        env.server.edit(Kind::Pod, &name, |pod| pod["status"]["phase"] = json!("Failed"));
        env.rest();
    };
    fail(&mut env);
    env.wait(11 + 590);
    fail(&mut env);
    assert_eq!(env.status("avs")["retry"]["count"], 2);
    env.wait(21 + 601);
    fail(&mut env);
    assert_eq!(env.status("avs")["retry"]["count"], 1);
}
