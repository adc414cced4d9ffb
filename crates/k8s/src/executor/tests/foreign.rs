//! Objects of others under the names of ours, and names of any length.

use orlop_core::id::{dns1123_label, dns1123_subdomain, label_value};
use serde_json::{Value, json};

use super::{TestEnv, env, place, running, spec};
use crate::api::Kind;
use crate::value::{items, text, texts};

fn many() -> Value {
    let mut spec = spec();
    spec["replicas"] = json!(2);
    spec
}

#[test]
fn what_belongs_to_others_is_never_touched() {
    let other = json!([{"kind": "HourglassExecutor", "name": "exec", "uid": "another", "controller": true}]);
    let ours = json!({"app": "hourglass-executor", super::super::NAME: "exec"});
    for (kind, name) in [
        (Kind::ConfigMap, "exec-config"),
        (Kind::Secret, "exec-secrets"),
        (Kind::Deployment, "exec"),
        (Kind::DisruptionBudget, "exec"),
        (Kind::Service, "executor-exec"),
    ] {
        for (labels, owner) in [(json!({}), json!([])), (ours.clone(), other.clone())] {
            let mut env = env();
            let theirs = json!({"metadata": {"name": name, "labels": labels, "ownerReferences": owner},
                "data": {"mine": "1"}, "spec": {"template": {"spec": {"containers": [{"name": "theirs"}]}}}});
            let theirs = env.server.put(kind, theirs);
            env.submit("exec", many());
            env.settle();
            assert_eq!(place(&env), "Failed/Failed True/Conflict", "{kind:?}");
            assert_eq!(env.condition("exec", "Progressing"), "False/WaitingForChange");
            assert!(env.events().contains(&"Conflict".to_owned()));
            let made = env.created();
            let made: Vec<_> = made.iter().filter(|made| !made.starts_with("hourglass")).collect();
            assert_eq!(made.len(), 1, "nothing else is made: {made:?}");
            env.server.request_deletion(Kind::Executor, "exec");
            env.settle();
            assert!(env.server.list(Kind::Executor).is_empty());
            assert_eq!(env.server.get(kind, name), Some(theirs), "{kind:?}");
        }
    }
}

#[test]
fn what_is_in_the_way_is_asked_for_again_and_all_is_made_once_it_is_gone() {
    let mut env = env();
    env.server.put(Kind::DisruptionBudget, json!({"metadata": {"name": "exec"}}));
    env.submit("exec", many());
    env.rest();
    env.writes_nothing_more();
    env.server.remove(Kind::DisruptionBudget, "exec");
    env.wait(61);
    assert_eq!(place(&env), "Running/Running False/AsExpected");
}

#[test]
fn a_foreign_budget_is_no_matter_of_one_replica() {
    let mut env = env();
    let theirs =
        env.server.put(Kind::DisruptionBudget, json!({"metadata": {"name": "exec"}, "spec": {"maxUnavailable": 0}}));
    env.submit("exec", spec());
    env.rest();
    assert_eq!(place(&env), "Running/Running False/AsExpected");
    env.change("exec", |spec| spec["replicas"] = json!(2));
    env.rest();
    assert_eq!(place(&env), "Failed/Failed True/Conflict");
    env.change("exec", |spec| spec["replicas"] = json!(1));
    env.wait(61);
    assert_eq!(place(&env), "Running/Running False/AsExpected");
    assert_eq!(env.server.get(Kind::DisruptionBudget, "exec"), Some(theirs), "it is not ours to remove");
}

#[test]
fn a_conflict_leaves_pods_that_serve_alone() {
    let mut env = running(many());
    let before: Vec<String> = env.server.list(Kind::Pod).iter().map(|pod| text(pod, "/metadata/name")).collect();
    env.server.remove(Kind::Service, "executor-exec");
    env.server.put(Kind::Service, json!({"metadata": {"name": "executor-exec"}}));
    env.rest();
    assert_eq!(place(&env), "Failed/Failed True/Conflict");
    let after: Vec<String> = env.server.list(Kind::Pod).iter().map(|pod| text(pod, "/metadata/name")).collect();
    assert_eq!(after, before);
}

#[test]
fn an_account_that_is_there_is_neither_changed_nor_owned_nor_removed() {
    let mut env = env();
    let theirs = json!({"metadata": {"name": "hourglass-executor", "annotations": {"role": "theirs"}}});
    let theirs = env.server.put(Kind::ServiceAccount, theirs);
    env.submit("exec", spec());
    env.rest();
    assert_eq!(place(&env), "Running/Running False/AsExpected");
    env.server.request_deletion(Kind::Executor, "exec");
    env.rest();
    assert!(env.server.list(Kind::Executor).is_empty());
    assert_eq!(env.server.get(Kind::ServiceAccount, "hourglass-executor"), Some(theirs));
}

const CHILDREN: [Kind; 5] = [Kind::ConfigMap, Kind::Secret, Kind::Deployment, Kind::DisruptionBudget, Kind::Service];

/// Every label, selector and name of a child, and what its pods refer to.
fn is_legal(env: &TestEnv, kind: Kind) {
    for object in env.server.list(kind) {
        let name = text(&object, "/metadata/name");
        assert!(dns1123_subdomain(&name).is_ok(), "{kind:?}: {name}");
        if kind == Kind::Service {
            assert!(dns1123_label(&name).is_ok() && name.starts_with(|c: char| c.is_ascii_lowercase()), "{name}");
        }
        for path in ["/metadata/labels", "/spec/selector/matchLabels", "/spec/template/metadata/labels"] {
            for (key, value) in texts(&object, path) {
                assert!(label_value(&value).is_ok(), "{kind:?} {path} {key}: {value}");
            }
        }
        for volume in items(&object, "/spec/template/spec/volumes") {
            let secret = volume["secret"]["secretName"].as_str();
            let config = volume["configMap"]["name"].as_str();
            let there = |kind, name: &str| env.server.get(kind, name).is_some();
            assert!(secret.is_none_or(|name| there(Kind::Secret, name)), "{volume}");
            assert!(config.is_none_or(|name| there(Kind::ConfigMap, name)), "{volume}");
        }
    }
}

#[test]
fn executors_of_any_legal_name_have_legal_children_of_their_own() {
    let long = |last: &str| format!("{}.{last}", "a".repeat(251));
    let names = [
        "a".repeat(63),
        "a".repeat(64),
        "a".repeat(230),
        "a".repeat(231),
        long("x"),
        long("y"),
        "a.b".to_owned(),
        "a-b".to_owned(),
    ];
    let mut env = env();
    for (count, name) in names.iter().enumerate() {
        assert!(dns1123_subdomain(name).is_ok() && name.len() <= 253, "{name}");
        env.submit(name, many());
        env.rest();
        assert_eq!(env.status(name)["phase"], "Running", "{name}: {}", env.status(name));
        for kind in CHILDREN {
            assert_eq!(env.server.list(kind).len(), count + 1, "{kind:?} of {name} is one of its own");
            is_legal(&env, kind);
        }
        let selector = env.status(name)["selector"].as_str().unwrap().to_owned();
        assert!(selector.split(',').all(|part| label_value(part.split_once('=').unwrap().1).is_ok()), "{selector}");
        assert_eq!(env.status(name)["readyReplicas"], 2, "pods are told apart");
    }
    env.writes_nothing_more();
    for name in &names {
        env.server.request_deletion(Kind::Executor, name);
    }
    env.rest();
    assert!(CHILDREN.iter().all(|kind| env.server.list(*kind).is_empty()));
}
