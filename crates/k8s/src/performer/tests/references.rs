//! ConfigMaps and Secrets that variables are from: which changes of them start a new pod.

use serde_json::{Value, json};

use super::{INCARNATION, TestEnv, env, place, pods, running, selected, serves, spec};
use crate::api::Kind;
use crate::hourglass::tests::log;
use crate::shell::fake::refused;

/// A time after which everything is looked at again.
const RESYNC: u64 = 301;
/// What nobody may read.
const VALUE: &str = "dmFsdWUtb2YtdGhlLXRva2Vu";

fn referring() -> Value {
    let from = json!([
        {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "token", "key": "token"}}},
        {"name": "LEVEL", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "level"}}},
    ]);
    let mut spec = spec("good");
    spec["config"] = json!({"environmentFrom": from});
    spec
}

fn put(env: &TestEnv) {
    let secret = json!({"metadata": {"name": "token"}, "data": {"token": VALUE, "other": "eA=="}});
    env.server.put(Kind::Secret, secret);
    env.server.put(Kind::ConfigMap, json!({"metadata": {"name": "settings"}, "data": {"level": "info", "other": "x"}}));
}

fn serving(spec: Value) -> TestEnv {
    let mut env = env();
    put(&env);
    env.submit("avs", spec);
    env.rest();
    assert_eq!(place(&env), "Running/Running False/AsExpected");
    env
}

/// Everything was looked at again, and what followed is over.
fn later(env: &mut TestEnv) {
    env.wait(RESYNC);
    env.wait(60);
}

fn set(env: &TestEnv, kind: Kind, name: &str, key: &str, value: &str) {
    env.server.edit(kind, name, |object| object["data"][key] = json!(value));
}

fn generation(env: &TestEnv) -> u64 {
    env.status("avs")["referenceGeneration"].as_u64().unwrap_or_default()
}

#[test]
fn a_named_key_that_changes_starts_a_pod_by_an_ordinary_upgrade() {
    let mut env = serving(referring());
    let recorded = |env: &TestEnv| env.status("avs")["references"].as_array().map_or(0, Vec::len);
    assert_eq!((recorded(&env), generation(&env)), (2, 0));
    for (round, (kind, name, key)) in
        [(Kind::Secret, "token", "token"), (Kind::ConfigMap, "settings", "level")].into_iter().enumerate()
    {
        set(&env, kind, name, key, "bmV3");
        later(&mut env);
        assert!(serves(&env));
        let rounds = round + 1;
        assert_eq!((generation(&env), selected(&env)), (rounds as u64, (rounds + 1).to_string()), "{name}");
    }
    let pod = env.server.get(Kind::Pod, &pods(&env)[0]).unwrap();
    assert_eq!(pod["metadata"]["annotations"]["hourglass.eigenlayer.io/reference-generation"], "2");
}

#[test]
fn a_key_that_nobody_names_starts_nothing() {
    let mut env = serving(referring());
    set(&env, Kind::Secret, "token", "other", "eQ==");
    set(&env, Kind::ConfigMap, "settings", "other", "y");
    later(&mut env);
    assert_eq!((generation(&env), selected(&env).as_str()), (0, "1"));
    env.writes_nothing_more();
}

#[test]
fn another_operator_and_a_lost_status_start_nothing() {
    let mut env = serving(referring());
    set(&env, Kind::Secret, "token", "token", "bmV3");
    later(&mut env);
    assert_eq!((generation(&env), selected(&env).as_str()), (1, "2"));
    env.restart();
    env.rest();
    later(&mut env);
    assert_eq!((generation(&env), selected(&env).as_str()), (1, "2"), "another operator");
    env.server.edit(Kind::Performer, "avs", |object| object["status"] = json!({}));
    env.restart();
    env.rest();
    later(&mut env);
    assert_eq!((generation(&env), selected(&env).as_str()), (1, "2"), "a lost status");
}

/// The pod that serves loses its number, and with it all annotations.
fn lose_number(env: &mut TestEnv) {
    let [name] = <[String; 1]>::try_from(pods(env)).unwrap();
    env.server.edit(Kind::Pod, &name, |pod| {
        pod["metadata"]["labels"].as_object_mut().unwrap().remove(INCARNATION).unwrap();
        pod["metadata"]["annotations"] = json!({});
    });
    env.rest();
}

#[test]
fn a_pod_that_is_adopted_without_a_number_gets_the_annotations_of_one_that_is_created() {
    let mut env = serving(referring());
    set(&env, Kind::Secret, "token", "token", "bmV3");
    later(&mut env);
    assert_eq!((generation(&env), selected(&env).as_str()), (1, "2"));
    let annotations = |env: &TestEnv| env.server.list(Kind::Pod).remove(0)["metadata"]["annotations"].clone();
    let before = annotations(&env);
    lose_number(&mut env);
    assert_eq!(annotations(&env), before);
    env.server.edit(Kind::Performer, "avs", |object| object["status"] = json!({}));
    env.restart();
    env.rest();
    later(&mut env);
    assert_eq!((generation(&env), selected(&env).as_str()), (1, "2"), "a lost status starts no pod");
}

#[test]
fn what_is_missing_keeps_its_last_version() {
    let mut env = serving(referring());
    let secret = env.server.get(Kind::Secret, "token").unwrap();
    env.server.remove(Kind::Secret, "token");
    later(&mut env);
    assert_eq!((generation(&env), selected(&env).as_str()), (0, "1"));
    let data = secret["data"].clone();
    env.server.put(Kind::Secret, json!({"metadata": {"name": "token"}, "data": data}));
    later(&mut env);
    assert_eq!((generation(&env), selected(&env).as_str()), (0, "1"), "it is back with the same contents");
}

#[test]
fn what_may_not_be_read_is_reported_once_and_holds_nothing_up() {
    let mut env = env();
    put(&env);
    env.refuse("get", Kind::Secret, 9, refused(403, "Forbidden"));
    env.submit("avs", referring());
    env.rest();
    later(&mut env);
    assert_eq!((place(&env).as_str(), env.event_count("ReferenceForbidden")), ("Running/Running False/AsExpected", 1));
    set(&env, Kind::ConfigMap, "settings", "level", "debug");
    later(&mut env);
    assert_eq!((generation(&env), selected(&env).as_str(), env.event_count("ReferenceForbidden")), (1, "2", 1));
}

#[test]
fn who_does_not_want_it_is_left_alone() {
    let mut spec = referring();
    spec["rollOnReferenceChange"] = json!(false);
    let mut env = serving(spec);
    assert_eq!(env.status("avs").get("references"), None, "nothing is read");
    set(&env, Kind::Secret, "token", "token", "bmV3");
    later(&mut env);
    assert_eq!((generation(&env), selected(&env).as_str()), (0, "1"));
    env.change("avs", |spec| spec["rollOnReferenceChange"] = json!(true));
    env.rest();
    assert_eq!((generation(&env), selected(&env).as_str()), (0, "1"), "nobody knows what was before");
    set(&env, Kind::Secret, "token", "token", "bmV3ZXI=");
    later(&mut env);
    assert_eq!(generation(&env), 1);
}

#[test]
fn values_are_in_no_status_event_annotation_or_log() {
    let mut all = Vec::new();
    let said = log::lines(|| {
        let mut env = serving(referring());
        set(&env, Kind::Secret, "token", "token", &VALUE[4..]);
        later(&mut env);
        assert_eq!(generation(&env), 1);
        let kinds = [Kind::Performer, Kind::Pod, Kind::Service, Kind::Revision, Kind::Event];
        all.extend(kinds.into_iter().flat_map(|kind| env.server.list(kind)).map(|object| object.to_string()));
    });
    all.extend(said);
    let leaks: Vec<&String> = all.iter().filter(|text| text.contains(&VALUE[4..])).collect();
    assert!(leaks.is_empty(), "{leaks:?}");
}

#[test]
fn performers_without_references_read_neither() {
    let mut env = env();
    env.refuse("get", Kind::Secret, 1, refused(500, "InternalError"));
    env.refuse("get", Kind::ConfigMap, 1, refused(500, "InternalError"));
    env.submit("avs", spec("good"));
    env.rest();
    assert_eq!((place(&env).as_str(), env.failures().len()), ("Running/Running False/AsExpected", 0));
    drop(running(spec("good")));
}
