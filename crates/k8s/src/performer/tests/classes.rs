//! Runtime classes: one that does not exist yet, one that goes where the spec does not.

use serde_json::{Value, json};

use super::{TestEnv, env, place, pods, running, serves};
use crate::api::Kind;
use crate::hourglass::tests::host;

fn class(name: &str, selector: Value) -> Value {
    json!({"metadata": {"name": name, "uid": name}, "handler": name, "scheduling": {"nodeSelector": selector}})
}

fn with(scheduling: Value) -> Value {
    json!({"avsAddress": super::ADDRESS, "image": "well", "scheduling": scheduling})
}

fn tdx_host() -> Value {
    let labels = json!({"intel.feature.node.kubernetes.io/tdx": "true", "kubernetes.io/arch": "amd64", "pool": "tee"});
    host("tdx-1", labels, json!({"cpu": "16"}))
}

#[test]
fn a_missing_runtime_class_defers_the_pod_until_it_appears() {
    let tee = json!({"avsAddress": super::ADDRESS, "image": "well", "hardwareRequirements": {"teeType": "tdx"}});
    for (spec, name) in [(with(json!({"runtimeClass": "kata"})), "kata"), (tee, "kata-qemu-tdx")] {
        let mut env = env();
        env.add(Kind::Node, tdx_host());
        env.list(Kind::RuntimeClass);
        env.submit("avs", spec);
        env.rest();
        assert_eq!(env.condition("avs", "HardwareAvailable"), "False/RuntimeClassMissing", "{name}");
        assert_eq!((place(&env).as_str(), pods(&env).len()), ("Failed/Failed True/HardwareUnavailable", 0), "{name}");
        assert_eq!(env.status("avs")["candidate"]["incarnation"], 1, "its number is reserved");
        env.writes_nothing_more();
        env.add(Kind::RuntimeClass, class("another", json!({})));
        env.rest();
        assert_eq!(pods(&env).len(), 0, "that is not the one");
        env.add(Kind::RuntimeClass, class(name, json!({})));
        env.rest();
        assert_eq!((place(&env).as_str(), serves(&env)), ("Running/Running False/AsExpected", true), "{name}");
        assert_eq!(env.status("avs")["active"]["incarnation"], 1, "under the reserved number");
        assert_eq!(env.server.get(Kind::Pod, "performer-avs").unwrap()["spec"]["runtimeClassName"], name);
        env.writes_nothing_more();
    }
}

#[test]
fn runtime_classes_that_may_not_be_read_defer_nothing() {
    let mut env = env();
    env.submit("avs", with(json!({"runtimeClass": "kata"})));
    env.rest();
    assert_eq!(place(&env), "Running/Running False/AsExpected");
}

#[test]
fn the_selector_of_a_runtime_class_against_the_merged_one_is_a_conflict() {
    let mut env = env();
    env.add(Kind::Node, host("node-2", json!({"pool": "b"}), json!({})));
    env.add(Kind::RuntimeClass, class("kata", json!({"pool": "a"})));
    env.submit("avs", with(json!({"runtimeClass": "kata", "nodeSelector": {"pool": "b"}})));
    env.rest();
    assert_eq!((place(&env).as_str(), pods(&env).len()), ("Failed/Failed True/Conflict", 0));
    assert_eq!(env.condition("avs", "Progressing"), "False/WaitingForChange");
    insta::assert_snapshot!(env.status("avs")["conditions"][3]["message"].as_str().unwrap(), @"runtime class `kata` runs on nodes with pool=a, but the spec asks for pool=b; remove the selector, or name another runtime class");
    assert!(env.events().contains(&"Conflict".to_owned()));
    env.writes_nothing_more();
    // The class is somebody else's: once it goes elsewhere, nothing is in the way.
    env.add(Kind::RuntimeClass, class("kata", json!({"pool": "b"})));
    env.rest();
    assert_eq!(place(&env), "Running/Running False/AsExpected");
    env.writes_nothing_more();
}

#[test]
fn a_runtime_class_that_comes_to_contradict_what_serves_changes_nothing_of_it() {
    let mut env = TestEnv::new();
    env.add(Kind::Node, host("node-2", json!({"pool": "b"}), json!({})));
    env.add(Kind::RuntimeClass, class("kata", json!({})));
    env.submit("avs", with(json!({"runtimeClass": "kata", "nodeSelector": {"pool": "b"}})));
    env.rest();
    assert!(serves(&env));
    env.add(Kind::RuntimeClass, class("kata", json!({"pool": "a"})));
    env.rest();
    assert_eq!((place(&env).as_str(), serves(&env)), ("Failed/Failed True/Conflict", true));
    assert_eq!((env.status("avs")["ready"].clone(), pods(&env).len()), (json!(true), 1));
    env.writes_nothing_more();
}

#[test]
fn selector_and_tolerations_of_a_runtime_class_count_where_hardware_is_looked_for() {
    let spec = json!({"avsAddress": super::ADDRESS, "image": "well", "hardwareRequirements": {"teeType": "tdx"}});
    let mut env = TestEnv::new();
    let mut tainted = tdx_host();
    tainted["spec"]["taints"] = json!([{"key": "kata", "effect": "NoSchedule"}]);
    env.add(Kind::Node, tainted);
    env.add(Kind::RuntimeClass, class("kata-qemu-tdx", json!({"pool": "elsewhere"})));
    env.submit("avs", spec);
    env.rest();
    assert_eq!(env.condition("avs", "HardwareAvailable"), "False/NoMatchingLabels");
    env.add(Kind::RuntimeClass, class("kata-qemu-tdx", json!({"pool": "tee"})));
    env.rest();
    assert_eq!(env.condition("avs", "HardwareAvailable"), "False/UntoleratedTaint");
    let mut tolerant = class("kata-qemu-tdx", json!({"pool": "tee"}));
    tolerant["scheduling"]["tolerations"] = json!([{"key": "kata", "operator": "Exists"}]);
    env.add(Kind::RuntimeClass, tolerant);
    env.rest();
    assert_eq!(env.condition("avs", "HardwareAvailable"), "True/NodesMatch");
}

#[test]
fn a_new_runtime_class_that_is_missing_leaves_what_serves_alone() {
    let mut env = running(with(json!({})));
    env.list(Kind::RuntimeClass);
    env.change("avs", |spec| spec["scheduling"] = json!({"runtimeClass": "kata"}));
    env.rest();
    assert_eq!((place(&env).as_str(), serves(&env)), ("Upgrading/PodRecreation False/AsExpected", true));
    assert_eq!(
        (env.condition("avs", "HardwareAvailable").as_str(), pods(&env).len()),
        ("False/RuntimeClassMissing", 1)
    );
    env.add(Kind::RuntimeClass, class("kata", json!({})));
    env.wait(60);
    assert_eq!((place(&env).as_str(), pods(&env).len()), ("Running/Running False/AsExpected", 1));
}
