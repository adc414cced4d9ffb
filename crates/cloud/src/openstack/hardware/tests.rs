//! Tests of the choice on a catalogue, row by row. Owns no production code.

use orlop_core::hardware::{HardwareError, HardwareInput, Resolved, Resources, Tables, resolve};
use serde_json::{Value, json};

use super::{SiteNode, choose};

fn tables() -> Tables {
    let file =
        json!({"openstack": {"nodeTypes": {"compute_sgx": {"tees": ["sgx"]}, "compute_snp": {"tees": ["sev-snp"]}}}});
    Tables::default().overlaid(serde_json::from_value(file).unwrap())
}

fn host(uid: &str, node_type: &str, gpu: Value) -> Value {
    json!({
        "uid": uid, "node_type": node_type, "gpu": gpu,
        "architecture": {"platform_type": "x86_64", "smt_size": 64},
        "main_memory": {"ram_size": 137_438_953_472_u64},
        "storage_devices": [{"size": 500_000_000_000_u64}, {"size": "2000000000000"}],
        "infiniband": true, "placement": {"rack": "r7"},
    })
}

fn gpus(count: Value, vendor: &str, model: &str) -> Value {
    json!({"gpu": true, "gpu_count": count, "gpu_vendor": vendor, "gpu_model": model})
}

fn site() -> Vec<Value> {
    let mut arm = host("arm", "compute_arm64", json!({"gpu": false}));
    arm["architecture"]["platform_type"] = json!("aarch64");
    let mut taken = host("gone", "gpu_h100", gpus(json!(8), "NVIDIA", "H100 80GB HBM3"));
    taken["reservable"] = json!("False");
    vec![
        host("cpu1", "compute_cascadelake", json!({"gpu": false})),
        host("rtx1", "gpu_rtx_6000", gpus(json!(1), "NVIDIA", "RTX 6000")),
        host("rtx2", "gpu_rtx_6000", gpus(json!(1), "NVIDIA", "RTX 6000")),
        host("v100", "gpu_v100", gpus(json!("4"), "NVIDIA", "V100")),
        host("v100n", "gpu_v100_nvlink", gpus(json!(4), "NVIDIA", "V100")),
        host("a100p", "gpu_a100_pcie", gpus(json!(4), "NVIDIA", "A100")),
        host("a100n", "gpu_a100_nvlink", gpus(json!(4), "NVIDIA", "A100")),
        host("mi100", "gpu_mi100", gpus(json!(2), "AMD", "MI100")),
        host("giga1", "compute_gigaio", json!({"gpu": false})),
        host("giga2", "compute_gigaio", gpus(json!(1), "NVIDIA", "A100 80GB PCIe")),
        host("mixed", "gpu_mixed", json!([gpus(json!(1), "NVIDIA", "Tesla T4"), gpus(json!(1), "NVIDIA", "Tesla T4")])),
        host("sgx", "compute_sgx", Value::Null),
        host("snp", "compute_snp", Value::Null),
        arm,
        taken,
    ]
}

fn need(input: Value) -> Resolved {
    let input: HardwareInput = serde_json::from_value(input).unwrap();
    resolve(&input.requirements(&tables()).unwrap(), &tables()).unwrap()
}

fn chosen(input: Value, resources: &Resources) -> String {
    let nodes: Vec<SiteNode> = site().iter().map(|document| SiteNode::read(document, &tables()).unwrap()).collect();
    match choose(&need(input), resources, &tables(), &nodes) {
        Ok(choice) => {
            let all: Vec<String> = choice.candidates.iter().map(|candidate| candidate.filter.to_string()).collect();
            let notes: Vec<String> = choice.notes.iter().map(|note| format!(" {note}")).collect();
            format!("{}{}", all.join(" "), notes.concat())
        }
        Err(error) => error.to_string(),
    }
}

fn of(input: Value) -> String {
    chosen(input, &Resources::default())
}

#[test]
fn s1_5_gpus_by_vendor_model_count_and_memory_of_the_type() {
    insta::assert_snapshot!(of(json!({"gpuCount": 1})), @r#"["=","$node_type","gpu_rtx_6000"] ["=","$node_type","gpu_mixed"] ["=","$node_type","gpu_v100"] ["=","$node_type","gpu_v100_nvlink"] ["=","$uid","giga2"] ["=","$node_type","gpu_a100_nvlink"] ["=","$node_type","gpu_a100_pcie"]"#);
    insta::assert_snapshot!(of(json!({"gpuType": "amd", "gpuCount": 2})), @r#"["=","$node_type","gpu_mi100"]"#);
    insta::assert_snapshot!(of(json!({"gpuType": "a100", "gpuCount": 4, "gpuMemoryGiB": 80})), @r#"["=","$node_type","gpu_a100_nvlink"] ["=","$node_type","gpu_a100_pcie"]"#);
    insta::assert_snapshot!(of(json!({"gpuType": "quadro-rtx-6000"})), @r#"["=","$node_type","gpu_rtx_6000"]"#);
    insta::assert_snapshot!(of(json!({"gpuMemoryGiB": 80})), @r#"["=","$uid","giga2"] ["=","$node_type","gpu_a100_nvlink"] ["=","$node_type","gpu_a100_pcie"]"#);
}

#[test]
fn s1_5_nvlink_is_told_by_the_type() {
    insta::assert_snapshot!(of(json!({"gpuType": "v100", "gpuCount": 4, "nvlink": true})), @r#"["=","$node_type","gpu_v100_nvlink"]"#);
}

#[test]
fn s1_5_slices_ask_for_enough_whole_cards() {
    insta::assert_snapshot!(of(json!({"gpuType": "a100-mig-3g.40gb", "gpuCount": 8})), @r#"["=","$node_type","gpu_a100_nvlink"] ["=","$node_type","gpu_a100_pcie"] Narrowed"#);
    insta::assert_snapshot!(of(json!({"gpuType": "a100-mig-3g.40gb", "gpuCount": 9})), @"no machine fits; a100n: needs 9 mig-3g.40gb nvidia a100 slices, has 8; a100p: needs 9 mig-3g.40gb nvidia a100 slices, has 8; arm: needs 9 mig-3g.40gb nvidia a100 slices, has 0");
}

#[test]
fn s1_5_one_entry_alone_serves_the_need() {
    insta::assert_snapshot!(of(json!({"gpuType": "tesla-t4"})), @r#"["=","$node_type","gpu_mixed"]"#);
    insta::assert_snapshot!(of(json!({"gpuType": "tesla-t4", "gpuCount": 2})), @"no machine fits; a100n: needs 2 nvidia t4 GPUs, 16 GiB or more, has 0; a100p: needs 2 nvidia t4 GPUs, 16 GiB or more, has 0; arm: needs 2 nvidia t4 GPUs, 16 GiB or more, has 0");
}

#[test]
fn s1_5_hosts_are_named_where_only_some_of_a_type_fit() {
    insta::assert_snapshot!(of(json!({"gpuType": "A100 80GB PCIe"})), @r#"["=","$uid","giga2"]"#);
}

#[test]
fn s1_5_a_need_never_falls_back() {
    insta::assert_snapshot!(of(json!({"gpuType": "h100"})), @"no machine fits; a100n: needs 1 nvidia h100 GPU, has 0; a100p: needs 1 nvidia h100 GPU, has 0; arm: needs 1 nvidia h100 GPU, has 0");
    insta::assert_snapshot!(of(json!({"gpuType": "intel"})), @"no machine fits; a100n: needs 1 intel GPU, has 0; a100p: needs 1 intel GPU, has 0; arm: needs 1 intel GPU, has 0");
}

#[test]
fn s1_5_tees_only_where_the_table_lists_them() {
    insta::assert_snapshot!(of(json!({"teeType": "sgx"})), @r#"["=","$node_type","compute_sgx"]"#);
    insta::assert_snapshot!(of(json!({"teeType": "sev"})), @r#"["=","$node_type","compute_snp"]"#);
    insta::assert_snapshot!(of(json!({"teeType": "tdx"})), @"tdx cannot be had on openstack");
    insta::assert_snapshot!(of(json!({"teeType": "sev-snp", "gpuCount": 1})), @"sev-snp with GPUs cannot be had on openstack");
}

#[test]
fn s1_5_cpu_memory_disk_arch_and_any_flattened_key() {
    insta::assert_snapshot!(of(json!({"cpuArch": "arm64"})), @r#"["=","$node_type","compute_arm64"]"#);
    insta::assert_snapshot!(of(json!({"customLabels": {"placement.rack": "r7", "infiniband": "true", "node_type": "gpu_mi100"}})), @r#"["=","$node_type","gpu_mi100"]"#);
    let resources: Resources = serde_json::from_value(
        json!({"cpuMilli": 64000, "memoryBytes": 137_438_953_472_u64, "diskBytes": 2_000_000_000_000_u64}),
    )
    .unwrap();
    assert!(!chosen(json!({"gpuType": "amd"}), &resources).contains("no machine"));
    let resources: Resources =
        serde_json::from_value(json!({"cpuMilli": 64001, "diskBytes": 2_000_000_000_001_u64})).unwrap();
    insta::assert_snapshot!(chosen(json!({"gpuType": "amd"}), &resources), @"no machine fits; mi100: cpu: needs 64001m, has 64, ephemeral-storage: needs 2000000000001, has 1953125000Ki; a100n: cpu: needs 64001m, has 64, ephemeral-storage: needs 2000000000001, has 1953125000Ki, needs 1 amd GPU, has 0; a100p: cpu: needs 64001m, has 64, ephemeral-storage: needs 2000000000001, has 1953125000Ki, needs 1 amd GPU, has 0");
}

#[test]
fn s1_5_what_fits_nowhere_waits_for_capacity() {
    let error = choose(&need(json!({"gpuType": "h100"})), &Resources::default(), &tables(), &[]).unwrap_err();
    assert_eq!(error, HardwareError::NoMatchingHardware { best: Vec::new() });
    assert_eq!(error.class(), orlop_core::error::Class::Capacity);
}

#[test]
fn documents_of_no_host_or_without_end_are_refused() {
    assert!(SiteNode::read(&json!({"node_type": "x"}), &tables()).is_err());
    let mut deep = json!(1);
    for _ in 0..100 {
        deep = json!({"a": deep});
    }
    insta::assert_snapshot!(SiteNode::read(&json!({"uid": "u", "x": deep}), &tables()).unwrap_err(), @"the node document of u has more than 4096 keys or 16 levels");
}
