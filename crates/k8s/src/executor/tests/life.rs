//! From the first pass to the last: children, updates, scale, failures, the end.

use orlop_core::machine::executor::MACHINE;
use serde_json::{Value, json};

use super::{TestEnv, checksums, env, place, running, spec};
use crate::api::Kind;
use crate::hourglass::tests::steps::table;
use crate::hourglass::tests::{every_fault, host};

#[test]
fn children_are_what_the_contract_says() {
    let mut spec = spec();
    spec["replicas"] = json!(3);
    let env = running(spec);
    for (kind, name) in [
        (Kind::Deployment, "exec"),
        (Kind::Service, "executor-exec"),
        (Kind::DisruptionBudget, "exec"),
        (Kind::ServiceAccount, "hourglass-executor"),
    ] {
        let mut object = env.server.get(kind, name).unwrap();
        object.as_object_mut().unwrap().remove("status");
        object["metadata"]
            .as_object_mut()
            .unwrap()
            .retain(|name, _| matches!(name.as_str(), "name" | "labels" | "ownerReferences"));
        insta::assert_json_snapshot!(format!("child_{}", kind.name()), object);
    }
    let status = env.status("exec");
    assert_eq!(
        (&status["replicas"], &status["readyReplicas"], &status["updatedReplicas"]),
        (&json!(3), &json!(3), &json!(3))
    );
    assert_eq!(status["selector"], "app=hourglass-executor,hourglass.eigenlayer.io/name=exec");
    assert_eq!(status["serviceName"], "executor-exec");
}

/// Everything but Secrets and the spec itself, as text.
fn shown(env: &TestEnv) -> String {
    let kinds = [Kind::ConfigMap, Kind::Deployment, Kind::Service, Kind::Pod, Kind::Event, Kind::DisruptionBudget];
    let mut all: Vec<Value> = kinds.into_iter().flat_map(|kind| env.server.list(kind)).collect();
    all.push(env.status("exec"));
    json!(all).to_string()
}

#[test]
fn keys_and_credentials_are_in_the_secret_and_nowhere_else() {
    let mut env = running(spec());
    env.change("exec", |spec| spec["config"]["operatorKeys"]["bls"] = json!("SECOND-KEY"));
    env.rest();
    let shown = shown(&env);
    for secret in ["KEY-OF-THE-OPERATOR", "SECOND-KEY", "0123456789abcdef"] {
        assert!(!shown.contains(secret), "{secret}");
    }
    let secret = env.server.get(Kind::Secret, "exec-secrets").unwrap();
    let mut names: Vec<&String> = secret["data"].as_object().unwrap().keys().collect();
    names.sort();
    assert_eq!(names, ["config.yaml", "executor-config.yaml", "operator-key.bls", "operator-key.ecdsa"]);
    let volumes = &env.server.get(Kind::Deployment, "exec").unwrap()["spec"]["template"]["spec"]["volumes"];
    assert_eq!(volumes[0]["secret"]["secretName"], "exec-secrets");
}

#[test]
fn without_anything_to_hide_there_is_no_secret() {
    let mut spec = spec();
    spec["config"].as_object_mut().unwrap().remove("operatorKeys");
    spec["config"]["operatorKeysSecretRef"] = json!({"name": "mine"});
    spec["config"]["chains"][1]["rpc"] = json!("https://base.example");
    let mut env = running(spec);
    assert!(env.server.list(Kind::Secret).is_empty());
    env.change("exec", |spec| spec["config"]["chains"][1]["rpc"] = json!("https://u:p@base.example"));
    env.rest();
    assert_eq!(env.server.list(Kind::Secret).len(), 1);
    env.change("exec", |spec| spec["config"]["chains"][1]["rpc"] = json!("https://base.example"));
    env.rest();
    assert!(env.server.list(Kind::Secret).is_empty());
    env.writes_nothing_more();
}

#[test]
fn a_new_configuration_rolls_the_pods_and_a_new_number_does_not() {
    let mut env = running(spec());
    env.writes_nothing_more();
    let before = (checksums(&env), env.status("exec")["lastConfigUpdate"].clone());
    env.change("exec", |spec| spec["replicas"] = json!(3));
    env.rest();
    assert_eq!((place(&env).as_str(), checksums(&env).len()), ("Running/Running False/AsExpected", 3));
    assert!(checksums(&env).iter().all(|sum| *sum == before.0[0]));
    assert_eq!(env.status("exec")["lastConfigUpdate"], before.1);
    assert!(env.events().contains(&"Scaled".to_owned()) && env.server.get(Kind::DisruptionBudget, "exec").is_some());
    env.wait(60);
    env.change("exec", |spec| spec["config"]["logLevel"] = json!("debug"));
    env.rest();
    assert_eq!(place(&env), "Running/Running False/AsExpected");
    assert!(checksums(&env).len() == 3 && checksums(&env).iter().all(|sum| *sum != before.0[0]));
    assert_ne!(env.status("exec")["lastConfigUpdate"], before.1);
    assert!(env.events().contains(&"ConfigUpdated".to_owned()));
    env.change("exec", |spec| spec["replicas"] = json!(1));
    env.rest();
    assert!(env.server.get(Kind::DisruptionBudget, "exec").is_none());
    env.writes_nothing_more();
}

#[test]
fn none_ready_for_a_minute_is_a_failure_and_some_ready_is_not() {
    let mut two = spec();
    two["replicas"] = json!(2);
    let mut env = running(two);
    let unready = |env: &TestEnv, count: usize| {
        for pod in env.server.list(Kind::Pod).iter().take(count) {
            let name = pod["metadata"]["name"].as_str().unwrap().to_owned();
            env.server.edit(Kind::Pod, &name, |pod| {
                pod["status"]["containerStatuses"][0]["state"] = json!({"waiting": {"reason": "CrashLoopBackOff"}});
                pod["status"]["conditions"] = json!([]);
            });
        }
    };
    unready(&env, 1);
    env.wait(120);
    assert_eq!(place(&env), "Running/Running True/ReplicasUnavailable");
    unready(&env, 2);
    env.rest();
    assert_eq!(place(&env), "Running/Running True/ReplicasUnavailable");
    env.wait(61);
    assert_eq!(place(&env), "Failed/Failed True/ReplicasUnavailable");
    env.writes_nothing_more();
}

#[test]
fn what_is_deleted_or_changed_by_others_is_put_right() {
    let mut env = running(spec());
    env.server.edit(Kind::ConfigMap, "exec-config", |config| config["data"]["config.yaml"] = json!("changed"));
    env.server.edit(Kind::Deployment, "exec", |deployment| {
        deployment["spec"]["template"]["spec"]["containers"][0]["image"] = json!("changed");
    });
    env.rest();
    assert_eq!(place(&env), "Running/Running False/AsExpected");
    let deployment = env.server.get(Kind::Deployment, "exec").unwrap();
    assert_eq!(deployment["spec"]["template"]["spec"]["containers"][0]["image"], "executor:1");
    env.server.remove(Kind::Deployment, "exec");
    env.rest();
    assert_eq!(place(&env), "Running/Running False/AsExpected");
    // Nobody tells of ConfigMaps: they are looked at again in their time.
    env.wait(301);
    let config = env.server.get(Kind::ConfigMap, "exec-config").unwrap();
    assert_ne!(config["data"]["config.yaml"], "changed");
    env.writes_nothing_more();
}

#[test]
fn the_end_goes_child_by_child() {
    let mut two = spec();
    two["replicas"] = json!(2);
    let mut env = running(two);
    let before = env.writes().len();
    env.server.request_deletion(Kind::Executor, "exec");
    env.rest();
    assert!(env.server.list(Kind::Executor).is_empty() && env.server.list(Kind::Deployment).is_empty());
    assert_eq!(env.server.list(Kind::ServiceAccount).len(), 1, "the account is nobody's");
    let order: Vec<String> =
        env.writes()[before..].iter().filter(|write| write.starts_with("delete")).cloned().collect();
    insta::assert_snapshot!(order.join("\n"), @"
    delete services default/executor-exec
    delete poddisruptionbudgets default/exec
    delete deployments default/exec
    delete configmaps default/exec-config
    delete secrets default/exec-secrets
    ");
}

#[test]
fn a_crash_at_every_write_changes_nothing() {
    let play = |env: &mut TestEnv| {
        env.add(Kind::Node, host("node-1", json!({}), json!({})));
        env.submit("exec", spec());
        env.wait(5);
        env.change("exec", |spec| {
            spec["config"]["logLevel"] = json!("debug");
            spec["replicas"] = json!(2);
        });
        env.wait(5);
    };
    let writes = every_fault(play, |env| format!("{} {:?}", place(env), checksums(env)));
    assert!(writes > 20, "{writes}");
    let gone = |env: &mut TestEnv| {
        play(env);
        env.server.request_deletion(Kind::Executor, "exec");
        env.wait(5);
    };
    every_fault(gone, |env| {
        format!("{:?}", [Kind::Executor, Kind::Deployment, Kind::Secret].map(|kind| env.server.list(kind).len()))
    });
}

#[test]
fn an_end_that_nobody_has_asked_for_is_not_believed() {
    for state in ["Terminating", "Cleanup", "Gone"] {
        for lost in [false, true] {
            let mut env = running(spec());
            let made = env.created().len();
            let ended = |env: &TestEnv| {
                env.server.edit(Kind::Executor, "exec", |executor| {
                    executor["status"]["phase"] = json!("Terminating");
                    executor["status"]["state"] = json!(state);
                });
            };
            ended(&env);
            if lost {
                env.server.remove(Kind::ConfigMap, "exec-config");
            }
            env.wait(301);
            assert_eq!(place(&env), "Running/Running False/AsExpected", "{state}");
            assert_eq!((env.failures(), env.created().len() - made), (Vec::new(), usize::from(lost)), "{state}");
            let strange: Vec<_> = env.steps().difference(&table(&MACHINE)).copied().collect();
            assert_eq!(strange, [], "{state}");
            env.server.request_deletion(Kind::Executor, "exec");
            ended(&env);
            env.wait(400);
            assert!(env.server.list(Kind::Executor).is_empty() && env.failures().is_empty(), "{state}");
        }
    }
}

#[test]
fn a_pod_starts_a_pass_of_its_executor_also_where_a_label_cannot_hold_the_name() {
    for name in ["exec".to_owned(), "e".repeat(80)] {
        let mut env = env();
        env.submit(&name, spec());
        // The Deployment reports, makes its pod, and the pod is bound: the last of these is news of the pod alone.
        env.few_steps(3);
        assert_eq!(env.place(&name), "Creating/PodCreation False/AsExpected", "{name}");
    }
}
