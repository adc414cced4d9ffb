//! From the first pass to the last: children, updates, scale, failures, the end.

use orlop_core::machine::executor::MACHINE;
use serde_json::{Value, json};

use super::{Bed, bed, checksums, place, running, spec};
use crate::api::Kind;
use crate::hourglass::tests::steps::table;
use crate::hourglass::tests::{every_fault, host};

#[test]
fn children_are_what_the_contract_says() {
    let mut spec = spec();
    spec["replicas"] = json!(3);
    let bed = running(spec);
    for (kind, name) in [
        (Kind::Deployment, "exec"),
        (Kind::Service, "executor-exec"),
        (Kind::DisruptionBudget, "exec"),
        (Kind::ServiceAccount, "hourglass-executor"),
    ] {
        let mut object = bed.server.get(kind, name).unwrap();
        object.as_object_mut().unwrap().remove("status");
        object["metadata"]
            .as_object_mut()
            .unwrap()
            .retain(|name, _| matches!(name.as_str(), "name" | "labels" | "ownerReferences"));
        insta::assert_json_snapshot!(format!("child_{}", kind.name()), object);
    }
    let status = bed.status("exec");
    assert_eq!(
        (&status["replicas"], &status["readyReplicas"], &status["updatedReplicas"]),
        (&json!(3), &json!(3), &json!(3))
    );
    assert_eq!(status["selector"], "app=hourglass-executor,hourglass.eigenlayer.io/name=exec");
    assert_eq!(status["serviceName"], "executor-exec");
}

/// Everything but Secrets and the spec itself, as text.
fn shown(bed: &Bed) -> String {
    let kinds = [Kind::ConfigMap, Kind::Deployment, Kind::Service, Kind::Pod, Kind::Event, Kind::DisruptionBudget];
    let mut all: Vec<Value> = kinds.into_iter().flat_map(|kind| bed.server.list(kind)).collect();
    all.push(bed.status("exec"));
    json!(all).to_string()
}

#[test]
fn keys_and_credentials_are_in_the_secret_and_nowhere_else() {
    let mut bed = running(spec());
    bed.change("exec", |spec| spec["config"]["operatorKeys"]["bls"] = json!("SECOND-KEY"));
    bed.rest();
    let shown = shown(&bed);
    for secret in ["KEY-OF-THE-OPERATOR", "SECOND-KEY", "0123456789abcdef"] {
        assert!(!shown.contains(secret), "{secret}");
    }
    let secret = bed.server.get(Kind::Secret, "exec-secrets").unwrap();
    let mut names: Vec<&String> = secret["data"].as_object().unwrap().keys().collect();
    names.sort();
    assert_eq!(names, ["config.yaml", "executor-config.yaml", "operator-key.bls", "operator-key.ecdsa"]);
    let volumes = &bed.server.get(Kind::Deployment, "exec").unwrap()["spec"]["template"]["spec"]["volumes"];
    assert_eq!(volumes[0]["secret"]["secretName"], "exec-secrets");
}

#[test]
fn without_anything_to_hide_there_is_no_secret() {
    let mut spec = spec();
    spec["config"].as_object_mut().unwrap().remove("operatorKeys");
    spec["config"]["operatorKeysSecretRef"] = json!({"name": "mine"});
    spec["config"]["chains"][1]["rpc"] = json!("https://base.example");
    let mut bed = running(spec);
    assert!(bed.server.list(Kind::Secret).is_empty());
    bed.change("exec", |spec| spec["config"]["chains"][1]["rpc"] = json!("https://u:p@base.example"));
    bed.rest();
    assert_eq!(bed.server.list(Kind::Secret).len(), 1);
    bed.change("exec", |spec| spec["config"]["chains"][1]["rpc"] = json!("https://base.example"));
    bed.rest();
    assert!(bed.server.list(Kind::Secret).is_empty());
    bed.writes_nothing_more();
}

#[test]
fn a_new_configuration_rolls_the_pods_and_a_new_number_does_not() {
    let mut bed = running(spec());
    bed.writes_nothing_more();
    let before = (checksums(&bed), bed.status("exec")["lastConfigUpdate"].clone());
    bed.change("exec", |spec| spec["replicas"] = json!(3));
    bed.rest();
    assert_eq!((place(&bed).as_str(), checksums(&bed).len()), ("Running/Running False/AsExpected", 3));
    assert!(checksums(&bed).iter().all(|sum| *sum == before.0[0]));
    assert_eq!(bed.status("exec")["lastConfigUpdate"], before.1);
    assert!(bed.events().contains(&"Scaled".to_owned()) && bed.server.get(Kind::DisruptionBudget, "exec").is_some());
    bed.wait(60);
    bed.change("exec", |spec| spec["config"]["logLevel"] = json!("debug"));
    bed.rest();
    assert_eq!(place(&bed), "Running/Running False/AsExpected");
    assert!(checksums(&bed).len() == 3 && checksums(&bed).iter().all(|sum| *sum != before.0[0]));
    assert_ne!(bed.status("exec")["lastConfigUpdate"], before.1);
    assert!(bed.events().contains(&"ConfigUpdated".to_owned()));
    bed.change("exec", |spec| spec["replicas"] = json!(1));
    bed.rest();
    assert!(bed.server.get(Kind::DisruptionBudget, "exec").is_none());
    bed.writes_nothing_more();
}

#[test]
fn none_ready_for_a_minute_is_a_failure_and_some_ready_is_not() {
    let mut two = spec();
    two["replicas"] = json!(2);
    let mut bed = running(two);
    let unready = |bed: &Bed, count: usize| {
        for pod in bed.server.list(Kind::Pod).iter().take(count) {
            let name = pod["metadata"]["name"].as_str().unwrap().to_owned();
            bed.server.edit(Kind::Pod, &name, |pod| {
                pod["status"]["containerStatuses"][0]["state"] = json!({"waiting": {"reason": "CrashLoopBackOff"}});
                pod["status"]["conditions"] = json!([]);
            });
        }
    };
    unready(&bed, 1);
    bed.wait(120);
    assert_eq!(place(&bed), "Running/Running True/ReplicasUnavailable");
    unready(&bed, 2);
    bed.rest();
    assert_eq!(place(&bed), "Running/Running True/ReplicasUnavailable");
    bed.wait(61);
    assert_eq!(place(&bed), "Failed/Failed True/ReplicasUnavailable");
    bed.writes_nothing_more();
}

#[test]
fn what_is_deleted_or_changed_by_others_is_put_right() {
    let mut bed = running(spec());
    bed.server.edit(Kind::ConfigMap, "exec-config", |config| config["data"]["config.yaml"] = json!("changed"));
    bed.server.edit(Kind::Deployment, "exec", |deployment| {
        deployment["spec"]["template"]["spec"]["containers"][0]["image"] = json!("changed");
    });
    bed.rest();
    assert_eq!(place(&bed), "Running/Running False/AsExpected");
    let deployment = bed.server.get(Kind::Deployment, "exec").unwrap();
    assert_eq!(deployment["spec"]["template"]["spec"]["containers"][0]["image"], "executor:1");
    bed.server.remove(Kind::Deployment, "exec");
    bed.rest();
    assert_eq!(place(&bed), "Running/Running False/AsExpected");
    // Nobody tells of ConfigMaps: they are looked at again in their time.
    bed.wait(301);
    let config = bed.server.get(Kind::ConfigMap, "exec-config").unwrap();
    assert_ne!(config["data"]["config.yaml"], "changed");
    bed.writes_nothing_more();
}

#[test]
fn the_end_goes_child_by_child() {
    let mut two = spec();
    two["replicas"] = json!(2);
    let mut bed = running(two);
    let before = bed.writes().len();
    bed.server.request_deletion(Kind::Executor, "exec");
    bed.rest();
    assert!(bed.server.list(Kind::Executor).is_empty() && bed.server.list(Kind::Deployment).is_empty());
    assert_eq!(bed.server.list(Kind::ServiceAccount).len(), 1, "the account is nobody's");
    let order: Vec<String> =
        bed.writes()[before..].iter().filter(|write| write.starts_with("delete")).cloned().collect();
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
    let play = |bed: &mut Bed| {
        bed.show(Kind::Node, host("node-1", json!({}), json!({})));
        bed.submit("exec", spec());
        bed.wait(5);
        bed.change("exec", |spec| {
            spec["config"]["logLevel"] = json!("debug");
            spec["replicas"] = json!(2);
        });
        bed.wait(5);
    };
    let writes = every_fault(play, |bed| format!("{} {:?}", place(bed), checksums(bed)));
    assert!(writes > 20, "{writes}");
    let gone = |bed: &mut Bed| {
        play(bed);
        bed.server.request_deletion(Kind::Executor, "exec");
        bed.wait(5);
    };
    every_fault(gone, |bed| {
        format!("{:?}", [Kind::Executor, Kind::Deployment, Kind::Secret].map(|kind| bed.server.list(kind).len()))
    });
}

#[test]
fn an_end_that_nobody_has_asked_for_is_not_believed() {
    for state in ["Terminating", "Cleanup", "Gone"] {
        for lost in [false, true] {
            let mut bed = running(spec());
            let made = bed.created().len();
            let ended = |bed: &Bed| {
                bed.server.edit(Kind::Executor, "exec", |executor| {
                    executor["status"]["phase"] = json!("Terminating");
                    executor["status"]["state"] = json!(state);
                });
            };
            ended(&bed);
            if lost {
                bed.server.remove(Kind::ConfigMap, "exec-config");
            }
            bed.wait(301);
            assert_eq!(place(&bed), "Running/Running False/AsExpected", "{state}");
            assert_eq!((bed.failures(), bed.created().len() - made), (Vec::new(), usize::from(lost)), "{state}");
            let strange: Vec<_> = bed.steps().difference(&table(&MACHINE)).copied().collect();
            assert_eq!(strange, [], "{state}");
            bed.server.request_deletion(Kind::Executor, "exec");
            ended(&bed);
            bed.wait(400);
            assert!(bed.server.list(Kind::Executor).is_empty() && bed.failures().is_empty(), "{state}");
        }
    }
}

#[test]
fn a_pod_starts_a_pass_of_its_executor_also_where_a_label_cannot_hold_the_name() {
    for name in ["exec".to_owned(), "e".repeat(80)] {
        let mut bed = bed();
        bed.submit(&name, spec());
        // The Deployment reports, makes its pod, and the pod is bound: the last of these is news of the pod alone.
        bed.few_steps(3);
        assert_eq!(bed.place(&name), "Creating/PodCreation False/AsExpected", "{name}");
    }
}
