//! Tests of what the other families of labels can say of devices, and what they cannot. Owns no production code.

use serde_json::{Value, json};

use super::place;
use crate::hardware::{HardwareInput, Machine, Resources, Substrate, Tables, TablesFile, resolve};

/// What labels must say of a need where one family tells of devices.
fn told_by(family: &str, input: Value) -> String {
    let file = json!({"gpu": {"labelFamilies": [family]}});
    let tables = Tables::default().overlaid(serde_json::from_value(file).unwrap());
    let input: HardwareInput = serde_json::from_value(input).unwrap();
    let need = resolve(&input.requirements(&tables).unwrap(), &tables).unwrap();
    match place(&need, &Resources::default(), &tables.vocabulary(Substrate::Kubernetes)) {
        Ok(placement) => placement.required.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "),
        Err(error) => error.to_string(),
    }
}

#[test]
fn what_googles_labels_say() {
    let said = |input| told_by("gke", input);
    insta::assert_snapshot!(said(json!({"gpuCount": 2})), @"cloud.google.com/gke-accelerator is set");
    insta::assert_snapshot!(said(json!({"gpuType": "a100"})), @"cloud.google.com/gke-accelerator in {nvidia-a100-80gb, nvidia-tesla-a100}; cloud.google.com/gke-gpu-partition-size is not set; cloud.google.com/gke-gpu-sharing-strategy is not set");
    insta::assert_snapshot!(said(json!({"gpuType": "a100-80gb"})), @"cloud.google.com/gke-accelerator = nvidia-a100-80gb; cloud.google.com/gke-gpu-partition-size is not set; cloud.google.com/gke-gpu-sharing-strategy is not set");
    insta::assert_snapshot!(said(json!({"gpuMemoryGiB": 100})), @"cloud.google.com/gke-accelerator in {nvidia-b200, nvidia-gb200, nvidia-gb300, nvidia-h200-141gb}; cloud.google.com/gke-gpu-partition-size is not set; cloud.google.com/gke-gpu-sharing-strategy is not set");
    insta::assert_snapshot!(said(json!({"gpuType": "b200", "gpuCount": 8, "nvlink": true})), @"cloud.google.com/gke-accelerator = nvidia-b200; cloud.google.com/gke-gpu-partition-size is not set; cloud.google.com/gke-gpu-sharing-strategy is not set");
    // A label that stands for other products too cannot say it.
    insta::assert_snapshot!(said(json!({"gpuType": "a100-pcie"})), @"nvidia-a100-pcie is not available on kubernetes");
    insta::assert_snapshot!(said(json!({"gpuType": "v100-32gb"})), @"nvidia-v100-32gb is not available on kubernetes");
    insta::assert_snapshot!(said(json!({"gpuType": "mig-1g.5gb"})), @"nvidia-mig-1g.5gb is not available on kubernetes");
    insta::assert_snapshot!(said(json!({"gpuType": "amd"})), @"amd is not available on kubernetes");
    insta::assert_snapshot!(said(json!({"gpuType": "h100", "teeType": "tdx"})), @"nvidia-h100 in a confidential virtual machine (the hardware configuration does not list h100 in `confidentialGpu.resourceByModel` or `confidentialGpu.productLabels`) is not available on kubernetes");
}

#[test]
fn an_exact_name_is_asked_of_the_products_label_or_refused() {
    let said = |input| told_by("native", input);
    let named = |name: &str| json!({"gpuType": name});
    insta::assert_snapshot!(said(named("RTX 5880 Ada")), @"nvidia.com/gpu.product in {NVIDIA-RTX-5880-Ada, RTX-5880-Ada}; nvidia.com/gpu.replicas is not set, or nvidia.com/gpu.replicas < 2; nvidia.com/gpu.sharing-strategy not in {mps, time-slicing}; nvidia.com/gpu.slices.gi is not set; nvidia.com/vgpu.present not in {true}");
    insta::assert_snapshot!(said(json!({"gpuType": "RTX 5880 Ada", "gpuMemoryGiB": 48})), @"nvidia.com/gpu.memory > 44236; nvidia.com/gpu.memory < 4194305; nvidia.com/gpu.product in {NVIDIA-RTX-5880-Ada, RTX-5880-Ada}; nvidia.com/gpu.replicas is not set, or nvidia.com/gpu.replicas < 2; nvidia.com/gpu.sharing-strategy not in {mps, time-slicing}; nvidia.com/gpu.slices.gi is not set; nvidia.com/vgpu.present not in {true}");
    insta::assert_snapshot!(said(named("AMD Instinct MI400X")), @"amd.com/gpu.product-name in {AMD_Instinct_MI400X, Instinct_MI400X}");
    insta::assert_snapshot!(said(named("intel-Max_1750")), @"gpu.intel.com/product = Max_1750");
    insta::assert_snapshot!(said(json!({"gpuType": "RTX 5880 Ada", "nvlink": true})), @"nvidia-RTX 5880 Ada-nvlink (no label gives the memory or the links of a device whose model is not in the tables) is not available on kubernetes");
    insta::assert_snapshot!(said(json!({"gpuType": "AMD Instinct MI400X", "gpuMemoryGiB": 192})), @"amd-Instinct MI400X-192gb (no label gives the memory or the links of a device whose model is not in the tables) is not available on kubernetes");
    insta::assert_snapshot!(said(named("Foo (2 Tile)")), @"nvidia-Foo (2 Tile) (its name is not a valid label value) is not available on kubernetes");
    insta::assert_snapshot!(said(json!({"gpuType": "RTX 5880 Ada", "teeType": "tdx"})), @"nvidia-RTX 5880 Ada in a confidential virtual machine (its nodes do not publish the name of a device; name a model of the hardware configuration) is not available on kubernetes");
    insta::assert_snapshot!(told_by("gke", named("RTX 5880 Ada")), @"nvidia-RTX 5880 Ada (the label families in use name devices from their own lists) is not available on kubernetes");
    insta::assert_snapshot!(told_by("karpenter", named("RTX 5880 Ada")), @"nvidia-RTX 5880 Ada (the label families in use name devices from their own lists) is not available on kubernetes");
    insta::assert_snapshot!(said(json!({"gpuType": "RTX 5880 Ada", "allocation": "dra", "nvlink": true})), @"nvidia-RTX 5880 Ada-nvlink (no claim gives the links of a device whose model is not in the tables) is not available on kubernetes");
}

#[test]
fn what_the_types_of_rented_machines_say() {
    let said = |input| told_by("instanceType", input);
    insta::assert_snapshot!(said(json!({"gpuCount": 2})), @"");
    insta::assert_snapshot!(said(json!({"gpuType": "a100-sxm4-80gb"})), @"node.kubernetes.io/instance-type in {Standard_ND96amsr_A100_v4, p4de.24xlarge}; nvidia.com/gpu.replicas is not set, or nvidia.com/gpu.replicas < 2; nvidia.com/gpu.sharing-strategy not in {mps, time-slicing}; nvidia.com/gpu.slices.gi is not set; nvidia.com/vgpu.present not in {true}");
    insta::assert_snapshot!(said(json!({"gpuType": "h100", "gpuCount": 2, "nvlink": true})), @"node.kubernetes.io/instance-type in {Standard_ND96isr_H100_v5, p5.48xlarge}; nvidia.com/gpu.replicas is not set, or nvidia.com/gpu.replicas < 2; nvidia.com/gpu.sharing-strategy not in {mps, time-slicing}; nvidia.com/gpu.slices.gi is not set; nvidia.com/vgpu.present not in {true}");
    insta::assert_snapshot!(said(json!({"gpuMemoryGiB": 141})), @"node.kubernetes.io/instance-type in {Standard_ND96isr_H200_v5, p5e.48xlarge, p5en.48xlarge, p6-b200.48xlarge, p6-b300.48xlarge}; nvidia.com/gpu.replicas is not set, or nvidia.com/gpu.replicas < 2; nvidia.com/gpu.sharing-strategy not in {mps, time-slicing}; nvidia.com/gpu.slices.gi is not set; nvidia.com/vgpu.present not in {true}");
    insta::assert_snapshot!(said(json!({"gpuType": "b300", "gpuCount": 8})), @"node.kubernetes.io/instance-type = p6-b300.48xlarge; nvidia.com/gpu.replicas is not set, or nvidia.com/gpu.replicas < 2; nvidia.com/gpu.sharing-strategy not in {mps, time-slicing}; nvidia.com/gpu.slices.gi is not set; nvidia.com/vgpu.present not in {true}");
    insta::assert_snapshot!(said(json!({"gpuType": "a30"})), @"nvidia-a30-24gb is not available on kubernetes");
    insta::assert_snapshot!(said(json!({"gpuType": "mig-1g.5gb"})), @"nvidia-mig-1g.5gb is not available on kubernetes");
    insta::assert_snapshot!(said(json!({"gpuType": "RTX 5880 Ada"})), @"nvidia-RTX 5880 Ada (the label families in use name devices from their own lists) is not available on kubernetes");
}

#[test]
fn families_are_chosen_by_what_nodes_bear_beside_the_vendors_own() {
    let chosen = |file: Value, labels: &[(&str, &str)]| {
        let tables = Tables::default().overlaid(serde_json::from_value(json!({"gpu": file})).unwrap());
        let node = |(key, value): &(&str, &str)| Machine {
            labels: [((*key).to_owned(), (*value).to_owned())].into(),
            ..Machine::default()
        };
        let nodes: Vec<Machine> = labels.iter().map(node).collect();
        let words = tables.vocabulary(Substrate::Kubernetes);
        let families: Vec<String> = words.on(nodes.iter()).families().map(|one| one.to_string()).collect();
        families.join(" ")
    };
    let auto = || json!({"labelFamilies": "auto"});
    let (gke, eks) = (("cloud.google.com/gke-accelerator", "nvidia-l4"), ("eks.amazonaws.com/instance-gpu-name", "t4"));
    let rented = ("node.kubernetes.io/instance-type", "Standard_NC24ads_A100_v4");
    assert_eq!(chosen(json!({}), &[]), "native", "autoscaled clusters have no such node yet");
    assert_eq!(chosen(auto(), &[("node.kubernetes.io/instance-type", "m5.large")]), "native");
    assert_eq!(chosen(auto(), &[gke]), "native gke");
    assert_eq!(chosen(json!({}), &[eks, rented]), "native eks instanceType");
    assert_eq!(chosen(auto(), &[("karpenter.k8s.aws/instance-gpu-name", "t4"), gke]), "native gke karpenter");
    assert_eq!(
        chosen(json!({"labelFamilies": ["karpenter"]}), &[gke, rented]),
        "karpenter",
        "what is named counts alone"
    );
    let wrong = serde_json::from_value::<TablesFile>(json!({"gpu": {"labelFamilies": "gke"}})).unwrap_err();
    insta::assert_snapshot!(wrong, @r#"invalid value: string "gke", expected `auto`, or a list of GPU label families"#);
}

#[test]
fn what_karpenters_labels_say() {
    let said = |input| told_by("karpenter", input);
    insta::assert_snapshot!(said(json!({"gpuCount": 2})), @"karpenter.k8s.aws/instance-gpu-manufacturer = nvidia");
    insta::assert_snapshot!(said(json!({"gpuType": "a100"})), @"karpenter.k8s.aws/instance-gpu-manufacturer = nvidia; karpenter.k8s.aws/instance-gpu-name = a100; nvidia.com/gpu.replicas is not set, or nvidia.com/gpu.replicas < 2; nvidia.com/gpu.sharing-strategy not in {mps, time-slicing}; nvidia.com/gpu.slices.gi is not set; nvidia.com/vgpu.present not in {true}");
    insta::assert_snapshot!(said(json!({"gpuType": "a100-80gb"})), @"karpenter.k8s.aws/instance-gpu-manufacturer = nvidia; karpenter.k8s.aws/instance-gpu-memory > 73728; karpenter.k8s.aws/instance-gpu-name = a100; nvidia.com/gpu.replicas is not set, or nvidia.com/gpu.replicas < 2; nvidia.com/gpu.sharing-strategy not in {mps, time-slicing}; nvidia.com/gpu.slices.gi is not set; nvidia.com/vgpu.present not in {true}");
    insta::assert_snapshot!(said(json!({"gpuMemoryGiB": 24})), @"karpenter.k8s.aws/instance-gpu-manufacturer = nvidia; karpenter.k8s.aws/instance-gpu-memory > 22118; nvidia.com/gpu.replicas is not set, or nvidia.com/gpu.replicas < 2; nvidia.com/gpu.sharing-strategy not in {mps, time-slicing}; nvidia.com/gpu.slices.gi is not set; nvidia.com/vgpu.present not in {true}");
    insta::assert_snapshot!(said(json!({"gpuType": "b200", "gpuCount": 8, "nvlink": true})), @"karpenter.k8s.aws/instance-gpu-count > 7; karpenter.k8s.aws/instance-gpu-manufacturer = nvidia; karpenter.k8s.aws/instance-gpu-memory > 165888; karpenter.k8s.aws/instance-gpu-name = b200; nvidia.com/gpu.replicas is not set, or nvidia.com/gpu.replicas < 2; nvidia.com/gpu.sharing-strategy not in {mps, time-slicing}; nvidia.com/gpu.slices.gi is not set; nvidia.com/vgpu.present not in {true}");
    insta::assert_snapshot!(said(json!({"gpuType": "a100-sxm4"})), @"nvidia-a100-sxm4 is not available on kubernetes");
    insta::assert_snapshot!(said(json!({"gpuType": "l40"})), @"nvidia-l40-48gb is not available on kubernetes");
    insta::assert_snapshot!(said(json!({"gpuType": "mig-1g.5gb"})), @"nvidia-mig-1g.5gb is not available on kubernetes");
    insta::assert_snapshot!(said(json!({"gpuType": "intel"})), @"intel is not available on kubernetes");
}
