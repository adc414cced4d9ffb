//! Rows of the table of GPUs, each with the pod it makes. Owns no production code.

use serde_json::json;

use super::{bare, given, pod, with};

#[test]
fn no_gpu_asks_for_nothing() {
    insta::assert_snapshot!(pod(json!({})), @r#"{"containers":[{"name":"performer"}]}"#);
    insta::assert_snapshot!(pod(json!({"gpuCount": 0})), @r#"{"containers":[{"name":"performer"}]}"#);
}

#[test]
fn nvidia_count() {
    insta::assert_snapshot!(pod(json!({"gpuCount": 2})), @r#"{"containers":[{"name":"performer","resources":{"limits":{"nvidia.com/gpu":"2"},"requests":{"nvidia.com/gpu":"2"}}}],"tolerations":[{"effect":"NoSchedule","key":"nvidia.com/gpu","operator":"Exists"}]}"#);
}

#[test]
fn nvidia_model_form_and_memory() {
    insta::assert_snapshot!(pod(json!({"gpuType": "a100", "gpuCount": 2})), @r#"{"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"nvidia.com/gpu.product","operator":"In","values":["A100-80GB-PCIe","A100-PCIE-40GB","A100-SXM4-40GB","A100-SXM4-80GB","NVIDIA-A100-80GB-PCIe","NVIDIA-A100-PCIE-40GB","NVIDIA-A100-SXM4-40GB","NVIDIA-A100-SXM4-80GB"]}]}]}}},"containers":[{"name":"performer","resources":{"limits":{"nvidia.com/gpu":"2"},"requests":{"nvidia.com/gpu":"2"}}}],"tolerations":[{"effect":"NoSchedule","key":"nvidia.com/gpu","operator":"Exists"}]}"#);
    insta::assert_snapshot!(pod(json!({"gpuType": "A100-SXM4-40GB"})), @r#"{"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"nvidia.com/gpu.product","operator":"In","values":["A100-SXM4-40GB","A100-SXM4-80GB","NVIDIA-A100-SXM4-40GB","NVIDIA-A100-SXM4-80GB"]}]}]}}},"containers":[{"name":"performer","resources":{"limits":{"nvidia.com/gpu":"1"},"requests":{"nvidia.com/gpu":"1"}}}],"tolerations":[{"effect":"NoSchedule","key":"nvidia.com/gpu","operator":"Exists"}]}"#);
    insta::assert_snapshot!(pod(json!({"gpuType": "a100", "gpuMemoryGiB": 80})), @r#"{"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"nvidia.com/gpu.product","operator":"In","values":["A100-80GB-PCIe","A100-SXM4-80GB","NVIDIA-A100-80GB-PCIe","NVIDIA-A100-SXM4-80GB"]}]}]}}},"containers":[{"name":"performer","resources":{"limits":{"nvidia.com/gpu":"1"},"requests":{"nvidia.com/gpu":"1"}}}],"tolerations":[{"effect":"NoSchedule","key":"nvidia.com/gpu","operator":"Exists"}]}"#);
    insta::assert_snapshot!(pod(json!({"gpuType": "tesla-t4"})), @r#"{"containers":[{"name":"performer","resources":{"limits":{"nvidia.com/gpu":"1"},"requests":{"nvidia.com/gpu":"1"}}}],"nodeSelector":{"nvidia.com/gpu.product":"Tesla-T4"},"tolerations":[{"effect":"NoSchedule","key":"nvidia.com/gpu","operator":"Exists"}]}"#);
    insta::assert_snapshot!(pod(json!({"gpuType": "gh200"})), @r#"{"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"nvidia.com/gpu.product","operator":"In","values":["GH200-144G-HBM3e","GH200-480GB","NVIDIA-GH200-144G-HBM3e","NVIDIA-GH200-480GB"]}]}]}}},"containers":[{"name":"performer","resources":{"limits":{"nvidia.com/gpu":"1"},"requests":{"nvidia.com/gpu":"1"}}}],"tolerations":[{"effect":"NoSchedule","key":"nvidia.com/gpu","operator":"Exists"}]}"#);
}

#[test]
fn nvidia_memory_without_model() {
    insta::assert_snapshot!(pod(json!({"gpuMemoryGiB": 24})), @r#"{"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"nvidia.com/gpu.memory","operator":"Gt","values":["22118"]},{"key":"nvidia.com/gpu.memory","operator":"Lt","values":["4194305"]},{"key":"nvidia.com/gpu.replicas","operator":"DoesNotExist"},{"key":"nvidia.com/gpu.sharing-strategy","operator":"NotIn","values":["mps","time-slicing"]},{"key":"nvidia.com/gpu.slices.gi","operator":"DoesNotExist"},{"key":"nvidia.com/vgpu.present","operator":"NotIn","values":["true"]}]},{"matchExpressions":[{"key":"nvidia.com/gpu.memory","operator":"Gt","values":["22118"]},{"key":"nvidia.com/gpu.memory","operator":"Lt","values":["4194305"]},{"key":"nvidia.com/gpu.replicas","operator":"Lt","values":["2"]},{"key":"nvidia.com/gpu.sharing-strategy","operator":"NotIn","values":["mps","time-slicing"]},{"key":"nvidia.com/gpu.slices.gi","operator":"DoesNotExist"},{"key":"nvidia.com/vgpu.present","operator":"NotIn","values":["true"]}]}]}}},"containers":[{"name":"performer","resources":{"limits":{"nvidia.com/gpu":"1"},"requests":{"nvidia.com/gpu":"1"}}}],"tolerations":[{"effect":"NoSchedule","key":"nvidia.com/gpu","operator":"Exists"}]}"#);
}

#[test]
fn nvlink() {
    insta::assert_snapshot!(pod(json!({"gpuType": "a100-80gb", "gpuCount": 4, "nvlink": true})), @r#"{"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"nvidia.com/gpu.count","operator":"Gt","values":["3"]},{"key":"nvidia.com/gpu.product","operator":"In","values":["A100-SXM4-80GB","NVIDIA-A100-SXM4-80GB"]}]}]}}},"containers":[{"name":"performer","resources":{"limits":{"nvidia.com/gpu":"4"},"requests":{"nvidia.com/gpu":"4"}}}],"tolerations":[{"effect":"NoSchedule","key":"nvidia.com/gpu","operator":"Exists"}]}"#);
    insta::assert_snapshot!(pod(json!({"gpuType": "h100-nvlink"})), @r#"{"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"nvidia.com/gpu.product","operator":"In","values":["H100-80GB-HBM3","NVIDIA-H100-80GB-HBM3"]}]}]}}},"containers":[{"name":"performer","resources":{"limits":{"nvidia.com/gpu":"1"},"requests":{"nvidia.com/gpu":"1"}}}],"tolerations":[{"effect":"NoSchedule","key":"nvidia.com/gpu","operator":"Exists"}]}"#);
}

#[test]
fn connected_devices_of_other_vendors_are_reported_by_their_product_alone() {
    insta::assert_snapshot!(pod(json!({"gpuType": "amd", "gpuCount": 2, "nvlink": true, "gpuMemoryGiB": 200})), @r#"{"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"amd.com/gpu.product-name","operator":"In","values":["AMD_Instinct_MI325X","AMD_Instinct_MI325X_OAM","AMD_Instinct_MI325_OAM","AMD_Instinct_MI355X","AMD_Instinct_MI355X_OAM"]}]}]}}},"containers":[{"name":"performer","resources":{"limits":{"amd.com/gpu":"2"},"requests":{"amd.com/gpu":"2"}}}],"tolerations":[{"effect":"NoSchedule","key":"amd.com/gpu","operator":"Exists"}]}"#);
    insta::assert_snapshot!(pod(json!({"gpuType": "intel", "gpuCount": 3, "nvlink": true})), @r#"{"containers":[{"name":"performer","resources":{"limits":{"gpu.intel.com/i915":"3"},"requests":{"gpu.intel.com/i915":"3"}}}],"nodeSelector":{"gpu.intel.com/product":"Max_1550"},"tolerations":[{"effect":"NoSchedule","key":"gpu.intel.com/i915","operator":"Exists"}]}"#);
}

#[test]
fn connected_slices_are_not_counted_as_cards() {
    let slices = pod(json!({"gpuType": "a100-mig-1g.5gb", "gpuCount": 4, "nvlink": true}));
    assert!(slices.contains(r#""nvidia.com/mig-1g.5gb":"4""#) && slices.contains("A100-SXM4-40GB"), "{slices}");
    assert!(!slices.contains("nvidia.com/gpu.count") && !slices.contains("A100-PCIE"), "{slices}");
}

#[test]
fn mig_mixed() {
    insta::assert_snapshot!(pod(json!({"gpuType": "mig-1g.5gb", "gpuCount": 3})), @r#"{"containers":[{"name":"performer","resources":{"limits":{"nvidia.com/mig-1g.5gb":"3"},"requests":{"nvidia.com/mig-1g.5gb":"3"}}}],"tolerations":[{"effect":"NoSchedule","key":"nvidia.com/gpu","operator":"Exists"},{"effect":"NoSchedule","key":"nvidia.com/mig-1g.5gb","operator":"Exists"}]}"#);
    insta::assert_snapshot!(pod(json!({"gpuType": "a100-mig-1g.10gb+me"})), @r#"{"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"nvidia.com/gpu.product","operator":"In","values":["A100-80GB-PCIe","A100-PCIE-40GB","A100-SXM4-40GB","A100-SXM4-80GB","NVIDIA-A100-80GB-PCIe","NVIDIA-A100-PCIE-40GB","NVIDIA-A100-SXM4-40GB","NVIDIA-A100-SXM4-80GB"]}]}]}}},"containers":[{"name":"performer","resources":{"limits":{"nvidia.com/mig-1g.10gb.me":"1"},"requests":{"nvidia.com/mig-1g.10gb.me":"1"}}}],"tolerations":[{"effect":"NoSchedule","key":"nvidia.com/gpu","operator":"Exists"},{"effect":"NoSchedule","key":"nvidia.com/mig-1g.10gb.me","operator":"Exists"}]}"#);
}

#[test]
fn mig_single() {
    let single = json!({"gpu": {"migStrategy": "single"}});
    insta::assert_snapshot!(with(json!({"gpuType": "a100-mig-1g.5gb", "gpuCount": 2}), single.clone()), @r#"{"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"nvidia.com/gpu.product","operator":"In","values":["A100-PCIE-40GB-MIG-1g.5gb","A100-SXM4-40GB-MIG-1g.5gb","NVIDIA-A100-PCIE-40GB-MIG-1g.5gb","NVIDIA-A100-SXM4-40GB-MIG-1g.5gb"]}]}]}}},"containers":[{"name":"performer","resources":{"limits":{"nvidia.com/gpu":"2"},"requests":{"nvidia.com/gpu":"2"}}}],"tolerations":[{"effect":"NoSchedule","key":"nvidia.com/gpu","operator":"Exists"}]}"#);
    insta::assert_snapshot!(with(json!({"gpuType": "mig-3g.71gb"}), single), @r#"{"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"nvidia.com/gpu.product","operator":"In","values":["H200-MIG-3g.71gb","H200-NVL-MIG-3g.71gb","NVIDIA-H200-MIG-3g.71gb","NVIDIA-H200-NVL-MIG-3g.71gb"]}]}]}}},"containers":[{"name":"performer","resources":{"limits":{"nvidia.com/gpu":"1"},"requests":{"nvidia.com/gpu":"1"}}}],"tolerations":[{"effect":"NoSchedule","key":"nvidia.com/gpu","operator":"Exists"}]}"#);
}

#[test]
fn rows_of_amd() {
    insta::assert_snapshot!(pod(json!({"gpuType": "amd", "gpuCount": 8})), @r#"{"containers":[{"name":"performer","resources":{"limits":{"amd.com/gpu":"8"},"requests":{"amd.com/gpu":"8"}}}],"tolerations":[{"effect":"NoSchedule","key":"amd.com/gpu","operator":"Exists"}]}"#);
    insta::assert_snapshot!(pod(json!({"gpuType": "amd-mi300x"})), @r#"{"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"amd.com/gpu.product-name","operator":"In","values":["AMD_Instinct_MI300X","AMD_Instinct_MI300X_OAM"]}]}]}}},"containers":[{"name":"performer","resources":{"limits":{"amd.com/gpu":"1"},"requests":{"amd.com/gpu":"1"}}}],"tolerations":[{"effect":"NoSchedule","key":"amd.com/gpu","operator":"Exists"}]}"#);
    insta::assert_snapshot!(pod(json!({"gpuType": "amd", "gpuMemoryGiB": 200})), @r#"{"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"amd.com/gpu.product-name","operator":"In","values":["AMD_Instinct_MI325X","AMD_Instinct_MI325X_OAM","AMD_Instinct_MI325_OAM","AMD_Instinct_MI355X","AMD_Instinct_MI355X_OAM"]}]}]}}},"containers":[{"name":"performer","resources":{"limits":{"amd.com/gpu":"1"},"requests":{"amd.com/gpu":"1"}}}],"tolerations":[{"effect":"NoSchedule","key":"amd.com/gpu","operator":"Exists"}]}"#);
}

#[test]
fn intel() {
    insta::assert_snapshot!(pod(json!({"gpuType": "intel"})), @r#"{"containers":[{"name":"performer","resources":{"limits":{"gpu.intel.com/i915":"1"},"requests":{"gpu.intel.com/i915":"1"}}}],"tolerations":[{"effect":"NoSchedule","key":"gpu.intel.com/i915","operator":"Exists"}]}"#);
    let xe = json!({"gpu": {"vendors": {"intel": {"resource": "gpu.intel.com/xe"}}}});
    insta::assert_snapshot!(with(json!({"gpuType": "intel-flex-170", "gpuCount": 2}), xe), @r#"{"containers":[{"name":"performer","resources":{"limits":{"gpu.intel.com/xe":"2"},"requests":{"gpu.intel.com/xe":"2"}}}],"nodeSelector":{"gpu.intel.com/product":"Flex_170"},"tolerations":[{"effect":"NoSchedule","key":"gpu.intel.com/xe","operator":"Exists"}]}"#);
}

#[test]
fn label_families_are_alternatives_of_one_clause() {
    let several = json!({"gpu": {"labelFamilies": ["native", "gke", "karpenter"]}});
    insta::assert_snapshot!(with(json!({"gpuType": "l4"}), several.clone()), @r#"{"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"nvidia.com/gpu.product","operator":"In","values":["L4","NVIDIA-L4"]}]},{"matchExpressions":[{"key":"cloud.google.com/gke-accelerator","operator":"In","values":["nvidia-l4"]},{"key":"cloud.google.com/gke-gpu-sharing-strategy","operator":"DoesNotExist"},{"key":"cloud.google.com/gke-gpu-partition-size","operator":"DoesNotExist"}]},{"matchExpressions":[{"key":"karpenter.k8s.aws/instance-gpu-manufacturer","operator":"In","values":["nvidia"]},{"key":"karpenter.k8s.aws/instance-gpu-name","operator":"In","values":["l4"]},{"key":"karpenter.k8s.aws/instance-gpu-memory","operator":"Gt","values":["22118"]},{"key":"nvidia.com/gpu.sharing-strategy","operator":"NotIn","values":["mps","time-slicing"]},{"key":"nvidia.com/vgpu.present","operator":"NotIn","values":["true"]},{"key":"nvidia.com/gpu.slices.gi","operator":"DoesNotExist"},{"key":"nvidia.com/gpu.replicas","operator":"DoesNotExist"}]},{"matchExpressions":[{"key":"karpenter.k8s.aws/instance-gpu-manufacturer","operator":"In","values":["nvidia"]},{"key":"karpenter.k8s.aws/instance-gpu-name","operator":"In","values":["l4"]},{"key":"karpenter.k8s.aws/instance-gpu-memory","operator":"Gt","values":["22118"]},{"key":"nvidia.com/gpu.sharing-strategy","operator":"NotIn","values":["mps","time-slicing"]},{"key":"nvidia.com/vgpu.present","operator":"NotIn","values":["true"]},{"key":"nvidia.com/gpu.slices.gi","operator":"DoesNotExist"},{"key":"nvidia.com/gpu.replicas","operator":"Lt","values":["2"]}]}]}}},"containers":[{"name":"performer","resources":{"limits":{"nvidia.com/gpu":"1"},"requests":{"nvidia.com/gpu":"1"}}}],"tolerations":[{"effect":"NoSchedule","key":"nvidia.com/gpu","operator":"Exists"}]}"#);
    insta::assert_snapshot!(with(json!({"gpuCount": 1}), several.clone()), @r#"{"containers":[{"name":"performer","resources":{"limits":{"nvidia.com/gpu":"1"},"requests":{"nvidia.com/gpu":"1"}}}],"tolerations":[{"effect":"NoSchedule","key":"nvidia.com/gpu","operator":"Exists"}]}"#);
    // Google's and Karpenter's labels do not tell the form: only the vendor's own can say it.
    insta::assert_snapshot!(with(json!({"gpuType": "A100-SXM4-80GB"}), several.clone()), @r#"{"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"nvidia.com/gpu.product","operator":"In","values":["A100-SXM4-80GB","NVIDIA-A100-SXM4-80GB"]}]}]}}},"containers":[{"name":"performer","resources":{"limits":{"nvidia.com/gpu":"1"},"requests":{"nvidia.com/gpu":"1"}}}],"tolerations":[{"effect":"NoSchedule","key":"nvidia.com/gpu","operator":"Exists"}]}"#);
    insta::assert_snapshot!(with(json!({"gpuMemoryGiB": 80}), several), @r#"{"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"nvidia.com/gpu.memory","operator":"Gt","values":["73728"]},{"key":"nvidia.com/gpu.memory","operator":"Lt","values":["4194305"]},{"key":"nvidia.com/gpu.sharing-strategy","operator":"NotIn","values":["mps","time-slicing"]},{"key":"nvidia.com/vgpu.present","operator":"NotIn","values":["true"]},{"key":"nvidia.com/gpu.slices.gi","operator":"DoesNotExist"},{"key":"nvidia.com/gpu.replicas","operator":"DoesNotExist"}]},{"matchExpressions":[{"key":"nvidia.com/gpu.memory","operator":"Gt","values":["73728"]},{"key":"nvidia.com/gpu.memory","operator":"Lt","values":["4194305"]},{"key":"nvidia.com/gpu.sharing-strategy","operator":"NotIn","values":["mps","time-slicing"]},{"key":"nvidia.com/vgpu.present","operator":"NotIn","values":["true"]},{"key":"nvidia.com/gpu.slices.gi","operator":"DoesNotExist"},{"key":"nvidia.com/gpu.replicas","operator":"Lt","values":["2"]}]},{"matchExpressions":[{"key":"cloud.google.com/gke-accelerator","operator":"In","values":["nvidia-a100-80gb","nvidia-b200","nvidia-gb200","nvidia-gb300","nvidia-h100-80gb","nvidia-h100-mega-80gb","nvidia-h200-141gb","nvidia-rtx-pro-6000"]},{"key":"cloud.google.com/gke-gpu-sharing-strategy","operator":"DoesNotExist"},{"key":"cloud.google.com/gke-gpu-partition-size","operator":"DoesNotExist"}]},{"matchExpressions":[{"key":"karpenter.k8s.aws/instance-gpu-manufacturer","operator":"In","values":["nvidia"]},{"key":"karpenter.k8s.aws/instance-gpu-memory","operator":"Gt","values":["73728"]},{"key":"nvidia.com/gpu.sharing-strategy","operator":"NotIn","values":["mps","time-slicing"]},{"key":"nvidia.com/vgpu.present","operator":"NotIn","values":["true"]},{"key":"nvidia.com/gpu.slices.gi","operator":"DoesNotExist"},{"key":"nvidia.com/gpu.replicas","operator":"DoesNotExist"}]},{"matchExpressions":[{"key":"karpenter.k8s.aws/instance-gpu-manufacturer","operator":"In","values":["nvidia"]},{"key":"karpenter.k8s.aws/instance-gpu-memory","operator":"Gt","values":["73728"]},{"key":"nvidia.com/gpu.sharing-strategy","operator":"NotIn","values":["mps","time-slicing"]},{"key":"nvidia.com/vgpu.present","operator":"NotIn","values":["true"]},{"key":"nvidia.com/gpu.slices.gi","operator":"DoesNotExist"},{"key":"nvidia.com/gpu.replicas","operator":"Lt","values":["2"]}]}]}}},"containers":[{"name":"performer","resources":{"limits":{"nvidia.com/gpu":"1"},"requests":{"nvidia.com/gpu":"1"}}}],"tolerations":[{"effect":"NoSchedule","key":"nvidia.com/gpu","operator":"Exists"}]}"#);
    let gke = json!({"gpu": {"labelFamilies": ["gke"]}});
    insta::assert_snapshot!(with(json!({"gpuType": "a100-80gb"}), gke.clone()), @r#"{"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"cloud.google.com/gke-gpu-partition-size","operator":"DoesNotExist"},{"key":"cloud.google.com/gke-gpu-sharing-strategy","operator":"DoesNotExist"}]}]}}},"containers":[{"name":"performer","resources":{"limits":{"nvidia.com/gpu":"1"},"requests":{"nvidia.com/gpu":"1"}}}],"nodeSelector":{"cloud.google.com/gke-accelerator":"nvidia-a100-80gb"},"tolerations":[{"effect":"NoSchedule","key":"nvidia.com/gpu","operator":"Exists"}]}"#);
    let error = given(&bare(), json!({"gpuType": "mig-1g.5gb"}), gke).unwrap_err();
    insta::assert_snapshot!(error, @"nvidia-mig-1g.5gb is not available on kubernetes");
}

#[test]
fn a_runtime_class_of_a_vendor_only_where_the_table_names_one() {
    let file = json!({"gpu": {"vendors": {"nvidia": {"runtimeClass": "nvidia"}}}});
    insta::assert_snapshot!(with(json!({"gpuCount": 1}), file), @r#"{"containers":[{"name":"performer","resources":{"limits":{"nvidia.com/gpu":"1"},"requests":{"nvidia.com/gpu":"1"}}}],"runtimeClassName":"nvidia","tolerations":[{"effect":"NoSchedule","key":"nvidia.com/gpu","operator":"Exists"}]}"#);
}

#[test]
fn memory_that_no_product_of_a_vendor_has_is_refused() {
    let error = given(&bare(), json!({"gpuType": "intel", "gpuMemoryGiB": 500}), json!({})).unwrap_err();
    insta::assert_snapshot!(error, @"no intel has 500 GiB, the largest has 128 GiB");
}

#[test]
fn arch_and_labels_are_selectors() {
    insta::assert_snapshot!(pod(json!({"cpuArch": "arm64", "customLabels": {"example.com/rack": "r7"}})), @r#"{"containers":[{"name":"performer"}],"nodeSelector":{"example.com/rack":"r7","kubernetes.io/arch":"arm64"}}"#);
}
