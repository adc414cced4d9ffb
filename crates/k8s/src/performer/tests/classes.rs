//! Runtime classes: one that does not exist yet, one that goes where the spec does not.

use serde_json::{Value, json};

use super::{Bed, bed, place, pods, running, serves};
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
        let mut bed = bed();
        bed.show(Kind::Node, tdx_host());
        bed.list(Kind::RuntimeClass);
        bed.submit("avs", spec);
        bed.rest();
        assert_eq!(bed.condition("avs", "HardwareAvailable"), "False/RuntimeClassMissing", "{name}");
        assert_eq!((place(&bed).as_str(), pods(&bed).len()), ("Failed/Failed True/HardwareUnavailable", 0), "{name}");
        assert_eq!(bed.status("avs")["candidate"]["incarnation"], 1, "its number is reserved");
        bed.writes_nothing_more();
        bed.show(Kind::RuntimeClass, class("another", json!({})));
        bed.rest();
        assert_eq!(pods(&bed).len(), 0, "that is not the one");
        bed.show(Kind::RuntimeClass, class(name, json!({})));
        bed.rest();
        assert_eq!((place(&bed).as_str(), serves(&bed)), ("Running/Running False/AsExpected", true), "{name}");
        assert_eq!(bed.status("avs")["active"]["incarnation"], 1, "under the reserved number");
        assert_eq!(bed.server.get(Kind::Pod, "performer-avs").unwrap()["spec"]["runtimeClassName"], name);
        bed.writes_nothing_more();
    }
}

#[test]
fn runtime_classes_that_may_not_be_read_defer_nothing() {
    let mut bed = bed();
    bed.submit("avs", with(json!({"runtimeClass": "kata"})));
    bed.rest();
    assert_eq!(place(&bed), "Running/Running False/AsExpected");
}

#[test]
fn the_selector_of_a_runtime_class_against_the_merged_one_is_a_conflict() {
    let mut bed = bed();
    bed.show(Kind::Node, host("node-2", json!({"pool": "b"}), json!({})));
    bed.show(Kind::RuntimeClass, class("kata", json!({"pool": "a"})));
    bed.submit("avs", with(json!({"runtimeClass": "kata", "nodeSelector": {"pool": "b"}})));
    bed.rest();
    assert_eq!((place(&bed).as_str(), pods(&bed).len()), ("Failed/Failed True/Conflict", 0));
    assert_eq!(bed.condition("avs", "Progressing"), "False/WaitingForChange");
    insta::assert_snapshot!(bed.status("avs")["conditions"][3]["message"].as_str().unwrap(), @"runtime class `kata` runs on nodes with pool=a, but the spec asks for pool=b; remove the selector, or name another runtime class");
    assert!(bed.events().contains(&"Conflict".to_owned()));
    bed.writes_nothing_more();
    // The class is somebody else's: once it goes elsewhere, nothing is in the way.
    bed.show(Kind::RuntimeClass, class("kata", json!({"pool": "b"})));
    bed.rest();
    assert_eq!(place(&bed), "Running/Running False/AsExpected");
    bed.writes_nothing_more();
}

#[test]
fn a_runtime_class_that_comes_to_contradict_what_serves_changes_nothing_of_it() {
    let mut bed = Bed::new();
    bed.show(Kind::Node, host("node-2", json!({"pool": "b"}), json!({})));
    bed.show(Kind::RuntimeClass, class("kata", json!({})));
    bed.submit("avs", with(json!({"runtimeClass": "kata", "nodeSelector": {"pool": "b"}})));
    bed.rest();
    assert!(serves(&bed));
    bed.show(Kind::RuntimeClass, class("kata", json!({"pool": "a"})));
    bed.rest();
    assert_eq!((place(&bed).as_str(), serves(&bed)), ("Failed/Failed True/Conflict", true));
    assert_eq!((bed.status("avs")["ready"].clone(), pods(&bed).len()), (json!(true), 1));
    bed.writes_nothing_more();
}

#[test]
fn selector_and_tolerations_of_a_runtime_class_count_where_hardware_is_looked_for() {
    let spec = json!({"avsAddress": super::ADDRESS, "image": "well", "hardwareRequirements": {"teeType": "tdx"}});
    let mut bed = Bed::new();
    let mut tainted = tdx_host();
    tainted["spec"]["taints"] = json!([{"key": "kata", "effect": "NoSchedule"}]);
    bed.show(Kind::Node, tainted);
    bed.show(Kind::RuntimeClass, class("kata-qemu-tdx", json!({"pool": "elsewhere"})));
    bed.submit("avs", spec);
    bed.rest();
    assert_eq!(bed.condition("avs", "HardwareAvailable"), "False/NoMatchingLabels");
    bed.show(Kind::RuntimeClass, class("kata-qemu-tdx", json!({"pool": "tee"})));
    bed.rest();
    assert_eq!(bed.condition("avs", "HardwareAvailable"), "False/UntoleratedTaint");
    let mut tolerant = class("kata-qemu-tdx", json!({"pool": "tee"}));
    tolerant["scheduling"]["tolerations"] = json!([{"key": "kata", "operator": "Exists"}]);
    bed.show(Kind::RuntimeClass, tolerant);
    bed.rest();
    assert_eq!(bed.condition("avs", "HardwareAvailable"), "True/NodesMatch");
}

#[test]
fn a_new_runtime_class_that_is_missing_leaves_what_serves_alone() {
    let mut bed = running(with(json!({})));
    bed.list(Kind::RuntimeClass);
    bed.change("avs", |spec| spec["scheduling"] = json!({"runtimeClass": "kata"}));
    bed.rest();
    assert_eq!((place(&bed).as_str(), serves(&bed)), ("Upgrading/PodRecreation False/AsExpected", true));
    assert_eq!(
        (bed.condition("avs", "HardwareAvailable").as_str(), pods(&bed).len()),
        ("False/RuntimeClassMissing", 1)
    );
    bed.show(Kind::RuntimeClass, class("kata", json!({})));
    bed.wait(60);
    assert_eq!((place(&bed).as_str(), pods(&bed).len()), ("Running/Running False/AsExpected", 1));
}
