//! Tests of what the other families of labels can say of devices, and what they cannot. Owns no production code.

use serde_json::{Value, json};

use super::place;
use crate::hardware::{HardwareInput, Resources, Substrate, Tables, resolve};

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
fn s1_4_what_googles_labels_say() {
    let said = |input| told_by("gke", input);
    insta::assert_snapshot!(said(json!({"gpuCount": 2})), @"cloud.google.com/gke-accelerator is set");
    insta::assert_snapshot!(said(json!({"gpuType": "a100"})), @"cloud.google.com/gke-accelerator in {nvidia-a100-80gb, nvidia-tesla-a100}; cloud.google.com/gke-gpu-partition-size is not set; cloud.google.com/gke-gpu-sharing-strategy is not set");
    insta::assert_snapshot!(said(json!({"gpuType": "a100-80gb"})), @"cloud.google.com/gke-accelerator = nvidia-a100-80gb; cloud.google.com/gke-gpu-partition-size is not set; cloud.google.com/gke-gpu-sharing-strategy is not set");
    insta::assert_snapshot!(said(json!({"gpuMemoryGiB": 100})), @"cloud.google.com/gke-accelerator in {nvidia-b200, nvidia-gb200, nvidia-gb300, nvidia-h200-141gb}; cloud.google.com/gke-gpu-partition-size is not set; cloud.google.com/gke-gpu-sharing-strategy is not set");
    insta::assert_snapshot!(said(json!({"gpuType": "b200", "gpuCount": 8, "nvlink": true})), @"cloud.google.com/gke-accelerator = nvidia-b200; cloud.google.com/gke-gpu-partition-size is not set; cloud.google.com/gke-gpu-sharing-strategy is not set");
    // A label that stands for other products too cannot say it.
    insta::assert_snapshot!(said(json!({"gpuType": "a100-pcie"})), @"nvidia-a100-pcie cannot be had on kubernetes");
    insta::assert_snapshot!(said(json!({"gpuType": "v100-32gb"})), @"nvidia-v100-32gb cannot be had on kubernetes");
    insta::assert_snapshot!(said(json!({"gpuType": "mig-1g.5gb"})), @"nvidia-mig-1g.5gb cannot be had on kubernetes");
    insta::assert_snapshot!(said(json!({"gpuType": "amd"})), @"amd cannot be had on kubernetes");
    insta::assert_snapshot!(said(json!({"gpuType": "h100", "teeType": "tdx"})), @"nvidia-h100 in a confidential virtual machine (the hardware configuration says nothing of h100 in `confidentialGpu.resourceByModel` or `confidentialGpu.productLabels`) cannot be had on kubernetes");
}

#[test]
fn s1_4_what_karpenters_labels_say() {
    let said = |input| told_by("karpenter", input);
    insta::assert_snapshot!(said(json!({"gpuCount": 2})), @"karpenter.k8s.aws/instance-gpu-manufacturer = nvidia");
    insta::assert_snapshot!(said(json!({"gpuType": "a100"})), @"karpenter.k8s.aws/instance-gpu-manufacturer = nvidia; karpenter.k8s.aws/instance-gpu-name = a100; nvidia.com/gpu.replicas is not set, or nvidia.com/gpu.replicas < 2; nvidia.com/gpu.sharing-strategy not in {mps, time-slicing}; nvidia.com/gpu.slices.gi is not set; nvidia.com/vgpu.present not in {true}");
    insta::assert_snapshot!(said(json!({"gpuType": "a100-80gb"})), @"karpenter.k8s.aws/instance-gpu-manufacturer = nvidia; karpenter.k8s.aws/instance-gpu-memory > 73728; karpenter.k8s.aws/instance-gpu-name = a100; nvidia.com/gpu.replicas is not set, or nvidia.com/gpu.replicas < 2; nvidia.com/gpu.sharing-strategy not in {mps, time-slicing}; nvidia.com/gpu.slices.gi is not set; nvidia.com/vgpu.present not in {true}");
    insta::assert_snapshot!(said(json!({"gpuMemoryGiB": 24})), @"karpenter.k8s.aws/instance-gpu-manufacturer = nvidia; karpenter.k8s.aws/instance-gpu-memory > 22118; nvidia.com/gpu.replicas is not set, or nvidia.com/gpu.replicas < 2; nvidia.com/gpu.sharing-strategy not in {mps, time-slicing}; nvidia.com/gpu.slices.gi is not set; nvidia.com/vgpu.present not in {true}");
    insta::assert_snapshot!(said(json!({"gpuType": "b200", "gpuCount": 8, "nvlink": true})), @"karpenter.k8s.aws/instance-gpu-count > 7; karpenter.k8s.aws/instance-gpu-manufacturer = nvidia; karpenter.k8s.aws/instance-gpu-memory > 165888; karpenter.k8s.aws/instance-gpu-name = b200; nvidia.com/gpu.replicas is not set, or nvidia.com/gpu.replicas < 2; nvidia.com/gpu.sharing-strategy not in {mps, time-slicing}; nvidia.com/gpu.slices.gi is not set; nvidia.com/vgpu.present not in {true}");
    insta::assert_snapshot!(said(json!({"gpuType": "a100-sxm4"})), @"nvidia-a100-sxm4 cannot be had on kubernetes");
    insta::assert_snapshot!(said(json!({"gpuType": "l40"})), @"nvidia-l40-48gb cannot be had on kubernetes");
    insta::assert_snapshot!(said(json!({"gpuType": "mig-1g.5gb"})), @"nvidia-mig-1g.5gb cannot be had on kubernetes");
    insta::assert_snapshot!(said(json!({"gpuType": "intel"})), @"intel cannot be had on kubernetes");
}
