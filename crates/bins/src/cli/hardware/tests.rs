//! Tests of what is told about a need, and of what is said about a file that is wrong. Owns no production code.

use orlop_core::hardware::Tables;

use super::{dialect, nodes, request, show};

const NODES: &str = r#"{"kind": "List", "items": [
  {"kind": "Node", "metadata": {"name": "cpu", "labels": {"kubernetes.io/arch": "amd64"}},
   "status": {"allocatable": {"cpu": "8"}, "conditions": [{"type": "Ready", "status": "True"}]}},
  {"kind": "Node", "metadata": {"name": "a100", "labels": {"kubernetes.io/arch": "amd64", "nvidia.com/gpu.present": "true",
     "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB", "nvidia.com/gpu.count": "8"}},
   "spec": {"taints": [{"key": "nvidia.com/gpu", "effect": "NoSchedule"}]},
   "status": {"allocatable": {"cpu": "64", "nvidia.com/gpu": "8"}, "conditions": [{"type": "Ready", "status": "True"}]}}
]}"#;

fn told(file: &str, nodes: Option<&str>) -> Result<String, String> {
    let tables = Tables::default();
    let request = request::read("need.yaml", file, &tables).map_err(|failure| failure.message)?;
    let cluster = nodes.map(|text| nodes::read("nodes.json", text, &tables)).transpose().map_err(|f| f.message)?;
    Ok(show::text(&dialect::tell(&request, &tables, cluster.as_ref())))
}

#[test]
fn a_need_is_told_in_every_dialect_and_against_nodes() {
    insta::assert_snapshot!(told("gpuType: A100-SXM4-40GB\ngpuCount: 2\nnvlink: true\n", Some(NODES)).unwrap(), @r#"
    asked for
      gpu       2 × nvidia-a100-sxm4-40gb-nvlink (whole)
      products  A100-SXM4-40GB, A100-SXM4-80GB

    kubernetes
      nodeSelector  {"nvidia.com/gpu.present":"true"}
      affinity      {"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"nvidia.com/gpu.count","operator":"Gt","values":["1"]},{"key":"nvidia.com/gpu.product","operator":"In","values":["A100-SXM4-40GB","A100-SXM4-80GB","NVIDIA-A100-SXM4-40GB","NVIDIA-A100-SXM4-80GB"]}]}]}}}
      tolerations   [{"key":"nvidia.com/gpu","operator":"Exists","effect":"NoSchedule"}]
      resources     {"requests":{"nvidia.com/gpu":"2"},"limits":{"nvidia.com/gpu":"2"}}

    openstack
      devices  2 nvidia a100 sxm4 GPUs, 40 GiB or more, NVLink

    docker
      refused  GPU `nvidia-a100-sxm4-40gb-nvlink` can only be chosen with an inventory of the host
      help     give the host's inventory, or ask for a count alone

    fleet
      devices  2 nvidia a100 sxm4 GPUs, 40 GiB or more, NVLink
      job      refused: a job of `nvidia-a100-sxm4-40gb-nvlink`: jobs name models only, so it cannot be had on fleet

    nodes: 1 of 2 fit
      a100  fits
      cpu   needs nvidia.com/gpu.present = true; needs nvidia.com/gpu.count > 1 and nvidia.com/gpu.product in {A100-SXM4-40GB, A100-SXM4-80GB, NVIDIA-A100-SXM4-40GB, NVIDIA-A100-SXM4-80GB}; nvidia.com/gpu: needs 2, has 0
    "#);
}

#[test]
fn a_performer_brings_its_scheduling_and_resources() {
    let file = "kind: Performer\nspec:\n  hardwareRequirements: {teeType: tdx}\n  scheduling: {nodeSelector: {zone: a}}\n  resources: {requests: {cpu: 2}}\n";
    insta::assert_snapshot!(told(file, None).unwrap(), @r#"
    asked for
      tee   required tdx
      arch  amd64

    kubernetes
      nodeSelector      {"kubernetes.io/arch":"amd64","zone":"a"}
      affinity          {"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"intel.feature.node.kubernetes.io/tdx","operator":"In","values":["true"]}]},{"matchExpressions":[{"key":"feature.node.kubernetes.io/cpu-security.tdx.enabled","operator":"In","values":["true"]}]}]}}}
      tolerations       [{"key":"tdx","operator":"Exists","effect":"NoSchedule"}]
      runtimeClassName  kata-qemu-tdx
      resources         {"requests":{"cpu":2}}

    openstack
      refused  tdx cannot be had on openstack
      help     drop the need, or run on another substrate

    docker
      refused  tdx can only be chosen with an inventory of the host
      help     give the host's inventory, or ask for a count alone

    fleet
      needs      orlop/arch = amd64
      needs      orlop/tee-tdx = true
      resources  cpu 2
      job        {"resources":{"cpu_m":2000,"memory_bytes":268435456},"requires":{"labels":[{"key":"orlop/arch","op":"in","values":["amd64"]},{"key":"orlop/tee-tdx","op":"in","values":["true"]}]},"prefer":[]}
    "#);
}

#[test]
fn what_is_wrong_is_told_with_its_line() {
    let error = |text| told(text, None).unwrap_err();
    insta::assert_snapshot!(error("gpuCount: 2\ngpuType: a1000\n"), @r"
    error[hardware]: unknown GPU model `a1000`, did you mean a100, h100, a10?
     --> need.yaml:2:10
      |
    2 | gpuType: a1000
      |          ^^^^^
      = field: gpuType
      = help: use a known model, for example `h100`, `a100`, `l4`, `t4`, `mi300x`

    1 error
    ");
    insta::assert_snapshot!(error("kind: Performer\nspec:\n  hardwareRequirements:\n    gpuTyp: a100\n    gpuCount: many\n"), @r#"
    error[hardware]: unknown field `gpuTyp`, expected one of `gpuType`, `gpuCount`, `gpuMemoryGiB`, `nvlink`, `teeRequired`, `teeType`, `cpuArch`, `allocation`, `customLabels`
     --> need.yaml:4:5
      |
    4 |     gpuTyp: a100
      |     ^^^^^^
      = field: spec.hardwareRequirements.gpuTyp

    error[hardware]: invalid type: string "many", expected i32
     --> need.yaml:5:15
      |
    5 |     gpuCount: many
      |               ^^^^
      = field: spec.hardwareRequirements.gpuCount

    2 errors
    "#);
    insta::assert_snapshot!(error("gpuCount: [\n"), @r"
    error[syntax]: the text is neither YAML nor JSON: unclosed bracket '['
     --> need.yaml:1:11
      |
    1 | gpuCount: [
      |           ^
      = help: close the bracket; the file may be cut off

    1 error
    ");
    insta::assert_snapshot!(error("teeRequired: true\n"), @r"
    error[hardware]: teeRequired is true, but teeType is missing
     --> need.yaml:1:1
      |
    1 | teeRequired: true
      | ^^^^^^^^^^^
      = field: teeType
      = help: use one of sgx, tdx, sev, sev-es, sev-snp, se, cca

    1 error
    ");
    insta::assert_snapshot!(told("{}", Some("kind: Pod")).unwrap_err(), @"nodes.json holds no node; `kubectl get nodes -o json` writes those of a cluster");
}
