//! Tests of what is shown about a need, and of what is said about a file that is wrong.

use orlop_core::hardware::Tables;

use super::dialect::Machines;
use super::{dialect, hosts, nodes, request, show};

const NODES: &str = r#"{"kind": "List", "items": [
  {"kind": "Node", "metadata": {"name": "cpu", "labels": {"kubernetes.io/arch": "amd64"}},
   "status": {"allocatable": {"cpu": "8"}, "conditions": [{"type": "Ready", "status": "True"}]}},
  {"kind": "Node", "metadata": {"name": "a100", "labels": {"kubernetes.io/arch": "amd64", "nvidia.com/gpu.present": "true",
     "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB", "nvidia.com/gpu.count": "8"}},
   "spec": {"taints": [{"key": "nvidia.com/gpu", "effect": "NoSchedule"}]},
   "status": {"allocatable": {"cpu": "64", "nvidia.com/gpu": "8"}, "conditions": [{"type": "Ready", "status": "True"}]}}
]}"#;

fn explained(file: &str, nodes: Option<&str>) -> Result<String, String> {
    let tables = Tables::default();
    let request = request::read("need.yaml", file, &tables).map_err(|failure| failure.message)?;
    let cluster = nodes.map(|text| nodes::read("nodes.json", text, &tables)).transpose().map_err(|f| f.message)?;
    Ok(show::text(&dialect::tell(&request, &tables, &Machines { cluster, ..Machines::default() })))
}

const SITE: &str = r#"{"items": [
  {"uid": "a", "node_type": "gpu_a100_nvlink", "architecture": {"platform_type": "x86_64", "smt_size": 64},
   "gpu": {"gpu": true, "gpu_count": 4, "gpu_vendor": "NVIDIA", "gpu_model": "A100"}},
  {"uid": "b", "node_type": "gpu_a100_nvlink", "disabled": true,
   "gpu": {"gpu": true, "gpu_count": 4, "gpu_vendor": "NVIDIA", "gpu_model": "A100"}},
  {"uid": "c", "node_type": "compute_skylake", "gpu": {"gpu": false}}
]}"#;

const HOST: &str = "
arch: amd64
free: {cpu: 8, memory: 32Gi}
devices:
- {id: GPU-0, vendor: nvidia, name: Tesla T4}
- {id: GPU-1, vendor: nvidia, name: A100-SXM4-40GB, nvlinkGroup: 0}
- {id: GPU-2, vendor: nvidia, name: A100-SXM4-40GB, nvlinkGroup: 0}
";

/// What is said of a site and of a Docker host.
fn beside(file: &str) -> dialect::Answer {
    let tables = Tables::default();
    let request = request::read("need.yaml", file, &tables).unwrap();
    let site = Some(hosts::catalog("site.json", SITE, &tables).unwrap());
    let docker = Some(hosts::inventory("host.yaml", HOST, &tables).unwrap());
    dialect::tell(&request, &tables, &Machines { cluster: None, site, docker })
}

#[test]
fn the_filter_of_a_reservation_and_the_request_for_devices_are_reported() {
    let answer = beside("gpuType: a100\ngpuCount: 2\nnvlink: true\n");
    let text = show::text(&answer);
    let parts: Vec<&str> = text.split("\n\n").filter(|part| !part.starts_with("kube")).collect();
    insta::assert_snapshot!(parts.join("\n\n"), @r#"
    asked for
      gpu       2 × nvidia-a100-nvlink (whole)
      products  A100-SXM4-40GB, A100-SXM4-80GB

    openstack
      devices  2 nvidia a100 GPUs, NVLink
      reserve  ["=","$node_type","gpu_a100_nvlink"]

    docker
      DeviceRequests  [{"Capabilities":[["gpu"]],"DeviceIDs":["GPU-1","GPU-2"],"Driver":"nvidia"}]

    fleet
      devices  2 nvidia a100 GPUs, NVLink
      job      {"resources":{"cpu_m":1000,"memory_bytes":268435456,"gpus":{"count":2,"any_of":[{"vendor":"nvidia","model":"a100"}]}},"requires":{"labels":[{"key":"orlop/gpu-nvlink","op":"in","values":["true"]}]},"prefer":[]}

    hosts: 1 of 3 fit
      a  fits
      b  cannot be reserved
      c  needs 2 nvidia a100 GPUs, NVLink, has 0
    "#);
    let json = serde_json::to_value(&answer).unwrap();
    assert_eq!(json["openstack"]["reserve"][0]["filter"], serde_json::json!(["=", "$node_type", "gpu_a100_nvlink"]));
    let none = beside("gpuType: h100\n");
    assert!(none.judged().all(|hosts| hosts.iter().all(|host| !host.fits)) && none.judged().count() == 1);
    insta::assert_snapshot!(show::text(&none).split("\n\n").skip(2).collect::<Vec<_>>().join("\n\n"), @r#"
    openstack
      devices  1 nvidia h100 GPU

    docker
      refused  no machine fits; docker: needs 1 nvidia h100 GPU, has 0
      help     wait for capacity, or ask for less

    fleet
      devices  1 nvidia h100 GPU
      job      {"resources":{"cpu_m":1000,"memory_bytes":268435456,"gpus":{"count":1,"any_of":[{"vendor":"nvidia","model":"h100"}]}},"requires":{},"prefer":[]}

    hosts: 0 of 3 fit
      a  needs 1 nvidia h100 GPU, has 0
      b  cannot be reserved
      c  needs 1 nvidia h100 GPU, has 0
    "#);
}

#[test]
fn files_of_hosts_that_cannot_be_read_say_why() {
    let tables = Tables::default();
    let catalog = |text| hosts::catalog("site.json", text, &tables).unwrap_err().message;
    let inventory = |text| hosts::inventory("host.yaml", text, &tables).unwrap_err().message;
    insta::assert_snapshot!(catalog("[]"), @"site.json holds no host; give the node documents of the site's reference API");
    insta::assert_snapshot!(catalog("[{node_type: x}]"), @"site.json: the node document has no `uid`");
    insta::assert_snapshot!(inventory("free: {cpu: 8}"), @"host.yaml: the inventory of the host cannot be read: missing field `arch`");
    insta::assert_snapshot!(inventory("arch: amd64\nfree: {cpu: lots}"), @"host.yaml: the inventory of the host cannot be read: free: resource cpu: quantity `lots` has no digits; write a number with an optional suffix, for example `500m` or `1.5Gi`");
    insta::assert_snapshot!(inventory("arch: amd64\nfree: {}\ngpus: []"), @"host.yaml: the inventory of the host cannot be read: unknown field `gpus`, expected one of `arch`, `devices`, `deviceNodes`, `runtimes`, `labels`, `free`, `limitsDisk`");
    insta::assert_snapshot!(inventory("a: 1\n---\nb: 2"), @"host.yaml must hold exactly one inventory");
}

#[test]
fn a_need_is_reported_in_every_dialect_and_against_nodes() {
    insta::assert_snapshot!(explained("gpuType: A100-SXM4-40GB\ngpuCount: 2\nnvlink: true\n", Some(NODES)).unwrap(), @r#"
    asked for
      gpu       2 × nvidia-a100-sxm4-40gb-nvlink (whole)
      products  A100-SXM4-40GB, A100-SXM4-80GB

    kubernetes
      affinity     {"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"nvidia.com/gpu.count","operator":"Gt","values":["1"]},{"key":"nvidia.com/gpu.product","operator":"In","values":["A100-SXM4-40GB","A100-SXM4-80GB","NVIDIA-A100-SXM4-40GB","NVIDIA-A100-SXM4-80GB"]}]}]}}}
      tolerations  [{"effect":"NoSchedule","key":"nvidia.com/gpu","operator":"Exists"}]
      resources    {"limits":{"nvidia.com/gpu":"2"},"requests":{"nvidia.com/gpu":"2"}}

    openstack
      devices  2 nvidia a100 sxm4 GPUs, 40 GiB or more, NVLink

    docker
      refused  GPU `nvidia-a100-sxm4-40gb-nvlink` can only be chosen with an inventory of the host
      help     give the host's inventory, or ask for a count alone, for example `gpuCount: 1`

    fleet
      devices  2 nvidia a100 sxm4 GPUs, 40 GiB or more, NVLink
      job      refused: a job of `nvidia-a100-sxm4-40gb-nvlink`: jobs name models only, so it is not available on fleet

    nodes: 1 of 2 fit
      a100  fits
      cpu   needs nvidia.com/gpu.count > 1 and nvidia.com/gpu.product in {A100-SXM4-40GB, A100-SXM4-80GB, NVIDIA-A100-SXM4-40GB, NVIDIA-A100-SXM4-80GB}; nvidia.com/gpu: needs 2, has 0
    "#);
}

#[test]
fn a_performer_brings_its_scheduling_and_resources() {
    let file = "kind: Performer\nspec:\n  hardwareRequirements: {teeType: tdx}\n  scheduling: {nodeSelector: {zone: a}}\n  resources: {requests: {cpu: 2}}\n";
    insta::assert_snapshot!(explained(file, None).unwrap(), @r#"
    asked for
      tee   required tdx
      arch  amd64

    kubernetes
      nodeSelector      {"kubernetes.io/arch":"amd64","zone":"a"}
      affinity          {"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"intel.feature.node.kubernetes.io/tdx","operator":"In","values":["true"]}]},{"matchExpressions":[{"key":"feature.node.kubernetes.io/cpu-security.tdx.enabled","operator":"In","values":["true"]}]}]}}}
      tolerations       [{"effect":"NoSchedule","key":"tdx","operator":"Exists"}]
      runtimeClassName  kata-qemu-tdx
      resources         {"requests":{"cpu":2}}

    openstack
      refused  tdx is not available on openstack
      help     drop the need, or run on another substrate: kubernetes, docker or fleet

    docker
      refused  tdx can only be chosen with an inventory of the host
      help     give the host's inventory, or ask for a count alone, for example `gpuCount: 1`

    fleet
      needs      orlop/arch = amd64
      needs      orlop/tee-tdx = true
      resources  cpu 2
      job        {"resources":{"cpu_m":2000,"memory_bytes":268435456},"requires":{"labels":[{"key":"orlop/arch","op":"in","values":["amd64"]},{"key":"orlop/tee-tdx","op":"in","values":["true"]}]},"prefer":[]}
    "#);
}

#[test]
fn what_is_wrong_is_reported_with_its_line() {
    let error = |text| explained(text, None).unwrap_err();
    insta::assert_snapshot!(error("gpuCount: 2\ngpuType: a1000-nvlink\n"), @"
    error[hardware]: unknown GPU model `a1000`, did you mean a100, h100, a800?
     --> need.yaml:2:10
      |
    2 | gpuType: a1000-nvlink
      |          ^^^^^^^^^^^^
      = field: gpuType
      = help: use a known model, for example `h100`, `a100`, `l4`, `t4`, `mi300x`

    1 error
    ");
    insta::assert_snapshot!(error("kind: Performer\nspec:\n  image: i\n  hardware: {gpuType: a100}\n"), @r"
    error[hardware]: unknown field `hardware`, expected one of `avsAddress`, `config`, `executorRef`, `hardwareRequirements`, `image`, `imagePullPolicy`, `imagePullSecrets`, `resources`, `rollOnReferenceChange`, `scheduling`, `securityProfile`, `upgrade`, `version`
     --> need.yaml:4:3
      |
    4 |   hardware: {gpuType: a100}
      |   ^^^^^^^^
      = field: spec.hardware

    1 error
    ");
    insta::assert_snapshot!(error("kind: Performer\nspce:\n  image: i\n").lines().next().unwrap(), @"error[hardware]: unknown field `spce`, expected one of `apiVersion`, `kind`, `metadata`, `spec`, `status`, `avsAddress`, `config`, `executorRef`, `hardwareRequirements`, `image`, `imagePullPolicy`, `imagePullSecrets`, `resources`, `rollOnReferenceChange`, `scheduling`, `securityProfile`, `upgrade`, `version`");
    insta::assert_snapshot!(error("kind: JobFlow\nspec:\n  steps: []\n"), @r"
    error[hardware]: a JobFlow has no hardware requirements
     --> need.yaml:1:7
      |
    1 | kind: JobFlow
      |       ^^^^^^^
      = field: kind
      = help: give a Performer, or the fields of its hardwareRequirements alone

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
    insta::assert_snapshot!(explained("{}", Some("kind: Pod")).unwrap_err(), @"nodes.json holds no node; `kubectl get nodes -o json` writes those of a cluster");
}

/// Nodes of a cluster that hands devices out by claims, with such amounts of them besides.
fn claiming(amounts: &str) -> String {
    let slice = |version: &str| {
        format!(
            r#"{{"kind": "ResourceSlice", "apiVersion": "resource.k8s.io/{version}", "metadata": {{"name": "s"}}, "spec": {{
            "driver": "gpu.nvidia.com", "nodeName": "a100", "devices": [{{"name": "gpu-0", "attributes": {{
            "type": {{"string": "gpu"}}, "productName": {{"string": "NVIDIA A100-SXM4-40GB"}}}}}}]}}}}"#
        )
    };
    format!(
        r#"{{"items": [{}, {}, {{"kind": "DeviceClass", "apiVersion": "resource.k8s.io/v1", "metadata": {{"name": "gpu.nvidia.com"}}}},
        {{"kind": "Node", "metadata": {{"name": "a100"}}, "status": {{"allocatable": {{{amounts}}},
        "conditions": [{{"type": "Ready", "status": "True"}}]}}}}]}}"#,
        slice("v1"),
        slice("v1beta2"),
    )
}

#[test]
fn how_devices_are_asked_for_is_chosen_as_the_operator_chooses() {
    let auto = |amounts: &str, count: u32| {
        explained(&format!("gpuType: a100\ngpuCount: {count}\nallocation: auto\n"), Some(&claiming(amounts))).unwrap()
    };
    let claimed = auto("", 1);
    assert!(claimed.contains("resourceClaims") && claimed.ends_with("  a100  fits\n"), "{claimed}");
    // The same slice in two versions is one device.
    let two = auto("", 2);
    assert!(two.ends_with("  a100  needs 2 nvidia a100 GPUs, has 1\n"), "{two}");
    for advertised in [r#""nvidia.com/gpu": "1""#, r#""nvidia.com/mig-1g.5gb": "1""#] {
        let plugged = auto(advertised, 1);
        assert!(plugged.contains("nvidia.com/gpu.product") && !plugged.contains("resourceClaims"), "{plugged}");
    }
    let nobody = explained("gpuType: a100\nallocation: auto\n", None).unwrap();
    assert!(nobody.contains("nvidia.com/gpu.product"), "{nobody}");
}

#[test]
fn a_class_that_does_not_exist_is_on_no_node() {
    use orlop_k8s::api::Kind;

    let tables = Tables::default();
    let judged = |need: &str, listed: Option<Kind>| {
        let request = request::read("need.yaml", need, &tables).unwrap();
        let mut cluster = nodes::read("nodes.json", NODES, &tables).unwrap();
        listed.into_iter().for_each(|kind| cluster.listed(kind));
        let answer = dialect::tell(&request, &tables, &Machines { cluster: Some(cluster), ..Machines::default() });
        let nodes = answer.nodes.unwrap();
        let why = nodes[1].reasons.iter().map(|reason| reason.message.clone()).collect::<Vec<_>>().join("; ");
        (nodes.iter().filter(|node| node.fits).count(), why)
    };
    let kata = "kind: Performer\nspec:\n  scheduling: {runtimeClass: kata}\n  resources: {requests: {cpu: 2}}\n";
    assert_eq!(judged(kata, None).0, 1, "nobody knows which there are");
    insta::assert_snapshot!(judged(kata, Some(Kind::RuntimeClass)).1, @"runtime class `kata` does not exist; install it");
    assert_eq!(judged(kata, Some(Kind::RuntimeClass)).0, 0);
    let claim = "gpuCount: 1\nallocation: dra\n";
    insta::assert_snapshot!(judged(claim, Some(Kind::DeviceClass)).1, @"needs 1 nvidia GPU, has 0; device class `gpu.nvidia.com` does not exist; install its driver");
}

#[test]
fn a_model_that_no_table_knows_is_matched_by_its_exact_name_and_says_so() {
    let nodes = NODES.replace("NVIDIA-A100-SXM4-40GB", "NVIDIA-RTX-5880-Ada-Generation");
    insta::assert_snapshot!(explained("gpuType: NVIDIA RTX 5880 Ada Generation\n", Some(&nodes)).unwrap(), @r#"
    asked for
      gpu      1 × nvidia-RTX 5880 Ada Generation (whole)
      warning  model `RTX 5880 Ada Generation` is not in Orlop's tables; it is matched by its exact name among devices of nvidia

    kubernetes
      affinity     {"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"nvidia.com/gpu.product","operator":"In","values":["NVIDIA-RTX-5880-Ada-Generation","RTX-5880-Ada-Generation"]},{"key":"nvidia.com/gpu.replicas","operator":"DoesNotExist"},{"key":"nvidia.com/gpu.sharing-strategy","operator":"NotIn","values":["mps","time-slicing"]},{"key":"nvidia.com/gpu.slices.gi","operator":"DoesNotExist"},{"key":"nvidia.com/vgpu.present","operator":"NotIn","values":["true"]}]},{"matchExpressions":[{"key":"nvidia.com/gpu.product","operator":"In","values":["NVIDIA-RTX-5880-Ada-Generation","RTX-5880-Ada-Generation"]},{"key":"nvidia.com/gpu.replicas","operator":"Lt","values":["2"]},{"key":"nvidia.com/gpu.sharing-strategy","operator":"NotIn","values":["mps","time-slicing"]},{"key":"nvidia.com/gpu.slices.gi","operator":"DoesNotExist"},{"key":"nvidia.com/vgpu.present","operator":"NotIn","values":["true"]}]}]}}}
      tolerations  [{"effect":"NoSchedule","key":"nvidia.com/gpu","operator":"Exists"}]
      resources    {"limits":{"nvidia.com/gpu":"1"},"requests":{"nvidia.com/gpu":"1"}}

    openstack
      devices  1 nvidia `RTX 5880 Ada Generation` GPU

    docker
      refused  GPU `nvidia-RTX 5880 Ada Generation` can only be chosen with an inventory of the host
      help     give the host's inventory, or ask for a count alone, for example `gpuCount: 1`

    fleet
      devices  1 nvidia `RTX 5880 Ada Generation` GPU
      job      refused: a job of `nvidia-RTX 5880 Ada Generation`: jobs name models that tables know, so it is not available on fleet

    nodes: 1 of 2 fit
      a100  fits
      cpu   needs nvidia.com/gpu.product in {NVIDIA-RTX-5880-Ada-Generation, RTX-5880-Ada-Generation} and nvidia.com/gpu.replicas is not set and nvidia.com/gpu.sharing-strategy not in {mps, time-slicing} and nvidia.com/gpu.slices.gi is not set and nvidia.com/vgpu.present not in {true}, or nvidia.com/gpu.product in {NVIDIA-RTX-5880-Ada-Generation, RTX-5880-Ada-Generation} and nvidia.com/gpu.replicas < 2 and nvidia.com/gpu.sharing-strategy not in {mps, time-slicing} and nvidia.com/gpu.slices.gi is not set and nvidia.com/vgpu.present not in {true}; nvidia.com/gpu: needs 1, has 0
    "#);
}

#[test]
fn the_families_of_labels_are_those_that_nodes_bear() {
    let nodes = NODES
        .replace("nvidia.com/gpu.product", "cloud.google.com/gke-accelerator")
        .replace("NVIDIA-A100-SXM4-40GB", "nvidia-tesla-a100");
    let text = explained("gpuType: a100-40gb\n", Some(&nodes)).unwrap();
    let parts: Vec<&str> =
        text.split("\n\n").filter(|part| part.starts_with("kube") || part.starts_with("nodes")).collect();
    insta::assert_snapshot!(parts.join("\n\n"), @r#"
    kubernetes
      affinity     {"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"nvidia.com/gpu.product","operator":"In","values":["A100-80GB-PCIe","A100-PCIE-40GB","A100-SXM4-40GB","A100-SXM4-80GB","NVIDIA-A100-80GB-PCIe","NVIDIA-A100-PCIE-40GB","NVIDIA-A100-SXM4-40GB","NVIDIA-A100-SXM4-80GB"]}]},{"matchExpressions":[{"key":"cloud.google.com/gke-accelerator","operator":"In","values":["nvidia-a100-80gb","nvidia-tesla-a100"]},{"key":"cloud.google.com/gke-gpu-sharing-strategy","operator":"DoesNotExist"},{"key":"cloud.google.com/gke-gpu-partition-size","operator":"DoesNotExist"}]}]}}}
      tolerations  [{"effect":"NoSchedule","key":"nvidia.com/gpu","operator":"Exists"}]
      resources    {"limits":{"nvidia.com/gpu":"1"},"requests":{"nvidia.com/gpu":"1"}}
      labels of    native, gke

    nodes: 1 of 2 fit
      a100  fits
      cpu   needs nvidia.com/gpu.product in {A100-80GB-PCIe, A100-PCIE-40GB, A100-SXM4-40GB, A100-SXM4-80GB, NVIDIA-A100-80GB-PCIe, NVIDIA-A100-PCIE-40GB and 2 more}, or cloud.google.com/gke-accelerator in {nvidia-a100-80gb, nvidia-tesla-a100} and cloud.google.com/gke-gpu-sharing-strategy is not set and cloud.google.com/gke-gpu-partition-size is not set; nvidia.com/gpu: needs 1, has 0
    "#);
}
