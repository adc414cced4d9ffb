//! Nodes, slices and runtime classes as machines, and the condition that follows. Owns no production code.

use orlop_core::hardware::gpu::Catalogue;
use serde_json::{Value, json};

use super::{bare, given};
use crate::hardware::{Node, availability, node, runtime_class, slices};

fn gpu_node(name: &str, product: &str, gpus: u32) -> Value {
    json!({
        "metadata": {"name": name, "labels": {
            "kubernetes.io/arch": "amd64", "nvidia.com/gpu.present": "true", "nvidia.com/gpu.product": product,
        }},
        "spec": {"taints": [{"key": "nvidia.com/gpu", "effect": "NoSchedule"}, {"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}]},
        "status": {"allocatable": {"cpu": "8", "memory": "32Gi", "nvidia.com/gpu": gpus.to_string()}, "conditions": [{"type": "Ready", "status": "True"}]},
    })
}

fn nodes(objects: &[Value]) -> Vec<Node> {
    objects.iter().map(|object| node(object).unwrap()).collect()
}

#[test]
fn a_node_is_its_labels_lasting_taints_and_what_it_offers() {
    let read = node(&gpu_node("n1", "Tesla-T4", 2)).unwrap();
    assert_eq!((read.ready, read.schedulable, read.machine.taints.len()), (true, true, 1));
    assert_eq!(read.machine.allocatable.to_string(), "cpu 8, memory 32Gi, nvidia.com/gpu 2");
    let mut cordoned = gpu_node("n1", "Tesla-T4", 2);
    cordoned["spec"]["unschedulable"] = json!(true);
    cordoned["status"]["conditions"][0]["status"] = json!("Unknown");
    let read = node(&cordoned).unwrap();
    assert_eq!((read.ready, read.schedulable), (false, false));
    insta::assert_snapshot!(node(&json!({"kind": "Node"})).unwrap_err(), @"metadata.name: is missing");
}

#[test]
fn the_condition_counts_what_excludes_nodes() {
    let (_, merged) = given(&bare(), json!({"gpuType": "a100", "gpuCount": 2}), json!({})).unwrap();
    let said = |objects: &[Value]| {
        let said = availability(&merged, &nodes(objects));
        let all: Vec<String> = said.verdicts.iter().map(ToString::to_string).collect();
        format!("{} {} {}\n{}", said.available, said.reason.as_str(), said.message, all.join("\n"))
    };
    let mut tainted = gpu_node("n3", "Tesla-T4", 0);
    tainted["spec"]["taints"][0]["key"] = json!("busy");
    insta::assert_snapshot!(said(&[gpu_node("n1", "Tesla-T4", 4), gpu_node("n2", "NVIDIA-A100-SXM4-40GB", 1), tainted]), @r"
    false NoMatchingLabels 0 of 3 nodes match: NoMatchingLabels 2, InsufficientAllocatable 2, UntoleratedTaint 1
    n1: needs nvidia.com/gpu.product in {A100-80GB-PCIe, A100-PCIE-40GB, A100-SXM4-40GB, A100-SXM4-80GB, NVIDIA-A100-80GB-PCIe, NVIDIA-A100-PCIE-40GB and 2 more}, has nvidia.com/gpu.product = Tesla-T4
    n2: nvidia.com/gpu: needs 2, has 1
    n3: needs nvidia.com/gpu.product in {A100-80GB-PCIe, A100-PCIE-40GB, A100-SXM4-40GB, A100-SXM4-80GB, NVIDIA-A100-80GB-PCIe, NVIDIA-A100-PCIE-40GB and 2 more}, has nvidia.com/gpu.product = Tesla-T4, does not tolerate busy:NoSchedule, nvidia.com/gpu: needs 2, has 0
    ");
    insta::assert_snapshot!(said(&[gpu_node("n2", "NVIDIA-A100-SXM4-40GB", 2)]), @r"
    true NodesMatch 1 of 1 nodes match
    n2 fits
    ");
    insta::assert_snapshot!(said(&[]), @"false NoMatchingLabels 0 of 0 nodes match");
}

#[test]
fn a_runtime_class_counts_for_fit() {
    let class = runtime_class(&json!({"scheduling": {
        "nodeSelector": {"katacontainers.io/kata-runtime": "true"}, "tolerations": [{"key": "kata", "operator": "Exists"}],
    }}))
    .unwrap();
    let (_, merged) = given(&bare(), json!({"cpuArch": "amd64"}), json!({})).unwrap();
    let merged = merged.under(&class).unwrap();
    assert!(!availability(&merged, &nodes(&[gpu_node("n", "x", 1)])).available);
    let conflict = runtime_class(&json!({"scheduling": {"nodeSelector": {"kubernetes.io/arch": "arm64"}}})).unwrap();
    insta::assert_snapshot!(merged.under(&conflict).unwrap_err(), @"label kubernetes.io/arch is asked to be amd64, but the hardware asks for arm64");
}

#[test]
fn slices_of_a_node_are_its_devices() {
    let slice = json!({"spec": {"driver": "gpu.nvidia.com", "nodeName": "n1", "devices": [
        {"name": "gpu-0", "attributes": {"type": {"string": "gpu"}, "productName": {"string": "NVIDIA A100-SXM4-40GB"}},
         "capacity": {"memory": {"value": "40Gi"}}},
        {"name": "gpu-1-mig-0", "basic": {"attributes": {"profile": {"string": "1g.5gb"}, "productName": {"string": "NVIDIA A100-SXM4-40GB"}}}},
    ]}});
    let (name, devices) = slices(&slice, Catalogue::built_in()).unwrap();
    assert_eq!(
        (name.as_str(), devices.len(), devices[0].memory_gib, devices[0].nvlink_group),
        ("n1", 2, Some(40), Some(0))
    );
    let mut with_devices = node(&gpu_node("n1", "x", 0)).unwrap();
    with_devices.machine.devices = devices;
    let fits = |input: Value| {
        let (_, merged) = given(&bare(), input, json!({})).unwrap();
        availability(&merged, std::slice::from_ref(&with_devices)).available
    };
    assert!(fits(json!({"gpuType": "a100", "allocation": "dra"})));
    assert!(fits(json!({"gpuType": "mig-1g.5gb", "allocation": "dra"})));
    assert!(!fits(json!({"gpuType": "a100", "gpuCount": 2, "allocation": "dra"})));
    assert!(!fits(json!({"gpuType": "a100-80gb", "allocation": "dra"})));
    assert_eq!(slices(&json!({"spec": {"driver": "other", "nodeName": "n"}}), Catalogue::built_in()), None);
}

#[test]
fn only_nodes_that_are_ready_and_take_pods_count() {
    let (_, merged) = given(&bare(), json!({"gpuType": "t4"}), json!({})).unwrap();
    let mut cordoned = gpu_node("n1", "Tesla-T4", 1);
    cordoned["spec"]["unschedulable"] = json!(true);
    let mut unready = gpu_node("n2", "Tesla-T4", 1);
    unready["status"]["conditions"][0]["status"] = json!("False");
    let both = [cordoned, unready];
    let said = availability(&merged, &nodes(&both));
    assert_eq!((said.available, said.message.as_str()), (false, "0 of 0 nodes match"));
    let more = [both.to_vec(), vec![gpu_node("n3", "Tesla-T4", 1)]].concat();
    let said = availability(&merged, &nodes(&more));
    assert_eq!((said.available, said.message.as_str()), (true, "1 of 1 nodes match"));
}

#[test]
fn memory_of_a_device_without_a_known_name_is_what_its_slice_says() {
    let fits = |driver: &str, capacity: Value, asked: u32| {
        let vendor = if driver == "gpu.nvidia.com" { "nvidia" } else { "amd" };
        let device = json!({"name": "gpu-0", "attributes": {"type": {"string": "gpu"}, "productName": {"string": "NVIDIA X1"}},
            "capacity": {"memory": capacity}});
        let slice = json!({"spec": {"driver": driver, "nodeName": "n1", "devices": [device]}});
        let mut there = node(&gpu_node("n1", "x", 0)).unwrap();
        there.machine.devices = slices(&slice, Catalogue::built_in()).unwrap().1;
        let input = json!({"gpuType": vendor, "gpuMemoryGiB": asked, "allocation": "dra"});
        let (_, merged) = given(&bare(), input, json!({})).unwrap();
        availability(&merged, &[there]).available
    };
    // As the claim compares: more than T(80) = 73728 MiB, and no more than T(94) = 86630 MiB.
    for (capacity, asked, wanted) in [
        (json!({"value": "81559Mi"}), 80, true),
        (json!("81559Mi"), 80, true),
        (json!({"value": "81559Mi"}), 94, false),
        (json!({"value": "73728Mi"}), 80, false),
        (json!({"value": "73729Mi"}), 80, true),
        (json!({"value": "lots"}), 80, false),
        (json!(7), 80, false),
    ] {
        assert_eq!(fits("gpu.nvidia.com", capacity.clone(), asked), wanted, "{capacity} {asked}");
    }
    assert!(!fits("gpu.amd.com", json!({"value": "300Gi"}), 64), "a claim on those names their products");
}
