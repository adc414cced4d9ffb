//! Tests of the choice on a catalogue, row by row.

use orlop_core::hardware::{Device, HardwareError, HardwareInput, Resolved, Resources, Tables, resolve};
use serde_json::{Value, json};

use super::{SiteNode, choose};

mod laws;
mod sites;

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
    chosen_of(&site(), input, resources)
}

fn chosen_of(site: &[Value], input: Value, resources: &Resources) -> String {
    let nodes: Vec<SiteNode> = site.iter().map(|document| SiteNode::read(document, &tables()).unwrap()).collect();
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
fn gpus_by_vendor_model_count_and_memory_of_the_type() {
    insta::assert_snapshot!(of(json!({"gpuCount": 1})), @r#"["=","$node_type","gpu_rtx_6000"] ["=","$node_type","gpu_mixed"] ["=","$node_type","gpu_v100"] ["=","$node_type","gpu_v100_nvlink"] ["=","$uid","giga2"] ["=","$node_type","gpu_a100_nvlink"] ["=","$node_type","gpu_a100_pcie"]"#);
    insta::assert_snapshot!(of(json!({"gpuType": "amd", "gpuCount": 2})), @r#"["=","$node_type","gpu_mi100"]"#);
    insta::assert_snapshot!(of(json!({"gpuType": "a100", "gpuCount": 4, "gpuMemoryGiB": 80})), @r#"["=","$node_type","gpu_a100_nvlink"] ["=","$node_type","gpu_a100_pcie"]"#);
    insta::assert_snapshot!(of(json!({"gpuType": "quadro-rtx-6000"})), @r#"["=","$node_type","gpu_rtx_6000"]"#);
    insta::assert_snapshot!(of(json!({"gpuMemoryGiB": 80})), @r#"["=","$uid","giga2"] ["=","$node_type","gpu_a100_nvlink"] ["=","$node_type","gpu_a100_pcie"]"#);
}

#[test]
fn each_type_says_what_its_documents_leave_out() {
    let reported = |node_type: &str, gpu: Value| {
        let node = SiteNode::read(&host("u", node_type, gpu), &tables()).unwrap();
        let of =
            |device: &Device| format!("{} {:?} {}", device.vendor, device.memory_gib, device.nvlink_group.is_some());
        node.entries.iter().flatten().map(of).collect::<Vec<_>>().join(", ")
    };
    for (node_type, vendor, expected) in [
        ("gpu_rtx_6000", "NVIDIA", "nvidia Some(24) false"),
        ("gpu_a100_pcie", "NVIDIA", "nvidia Some(80) false"),
        ("gpu_a100_nvlink", "NVIDIA", "nvidia Some(80) true"),
        ("gpu_v100", "NVIDIA", "nvidia Some(16) false"),
        ("gpu_v100_nvlink", "NVIDIA", "nvidia Some(16) true"),
        ("gpu_p100", "NVIDIA", "nvidia Some(16) false"),
        ("gpu_p100_nvlink", "NVIDIA", "nvidia Some(16) true"),
        ("gpu_k80", "NVIDIA", "nvidia Some(12) false"),
        ("gpu_m40", "NVIDIA", "nvidia Some(12) false"),
        ("gpu_mi100", "AMD", "amd Some(32) false"),
        ("compute_gigaio", "NVIDIA", "nvidia None false"),
        ("compute_of_no_row", "NVIDIA", "nvidia None false"),
    ] {
        let mut silent = json!({"gpu": true, "gpu_count": 1, "gpu_vendor": vendor});
        assert_eq!(reported(node_type, silent.clone()), expected, "{node_type}");
        // What the document says itself counts, whatever the table says.
        silent["gpu_memory"] = json!(7_u64 << 30);
        silent["gpu_nvlink"] = json!(true);
        assert_eq!(
            reported(node_type, silent.clone()),
            format!("{} Some(7) true", vendor.to_lowercase()),
            "{node_type}"
        );
        silent["gpu_nvlink"] = json!("False");
        assert!(reported(node_type, silent.clone()).ends_with("false"), "{node_type}");
        silent["gpu"] = json!(false);
        assert_eq!(reported(node_type, silent), "", "{node_type}");
    }
    let named = |model: &str| reported("gpu_k80", json!({"gpu": "True", "gpu_count": "2", "gpu_model": model}));
    assert_eq!(named("Tesla K80"), "nvidia Some(12) false, nvidia Some(12) false");
    assert_eq!(named("Tesla M40 24GB"), "nvidia Some(24) false, nvidia Some(24) false");
    // What the document names is not what hosts of this type have as a rule.
    assert_eq!(named("GA100GL [A30 PCIe]"), "nvidia Some(24) false, nvidia Some(24) false");
    assert_eq!(named("GA100 [A100 PCIe]"), "nvidia Some(40) false, nvidia Some(40) false");
    // Nobody says who makes it.
    assert_eq!(named("voodoo"), "");
}

#[test]
fn a_device_that_no_table_knows_is_found_by_its_exact_name() {
    let plain = Resources::default();
    let of = |model: &str| host("u", "gpu_new", gpus(json!(2), "NVIDIA", model));
    let filter = r#"["=","$node_type","gpu_new"]"#;
    for model in ["RTX 5880 Ada", "NVIDIA RTX 5880 Ada", "AD102GL [RTX 5880 Ada]"] {
        assert_eq!(
            chosen_of(&[of(model)], json!({"gpuType": "RTX 5880 Ada", "gpuCount": 2}), &plain),
            filter,
            "{model}"
        );
    }
    let site = [of("RTX 5880 Ada 2")];
    insta::assert_snapshot!(chosen_of(&site, json!({"gpuType": "RTX 5880 Ada"}), &plain), @"no machine fits; u: needs 1 nvidia `RTX 5880 Ada` GPU, has 0");
    // Its memory counts where the document tells it.
    let mut reported = of("RTX 5880 Ada");
    let asked = json!({"gpuType": "RTX 5880 Ada", "gpuMemoryGiB": 48});
    assert_ne!(chosen_of(std::slice::from_ref(&reported), asked.clone(), &plain), filter);
    reported["gpu"]["gpu_memory"] = json!(48);
    assert_eq!(chosen_of(&[reported], asked, &plain), filter);
}

#[test]
fn hosts_that_cannot_be_reserved_do_not_count() {
    let on = |change: Value| {
        let mut document = host("u", "gpu_mi100", gpus(json!(2), "AMD", "MI100"));
        document.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        chosen_of(&[document], json!({"gpuType": "amd"}), &Resources::default())
    };
    for usable in
        [json!({}), json!({"reservable": true, "disabled": false}), json!({"reservable": "True", "disabled": null})]
    {
        assert_eq!(on(usable.clone()), r#"["=","$node_type","gpu_mi100"]"#, "{usable}");
    }
    for unusable in [
        json!({"reservable": false}),
        json!({"reservable": "False"}),
        json!({"disabled": true}),
        json!({"disabled": "true"}),
        json!({"reservable": true, "disabled": true}),
    ] {
        assert_eq!(on(unusable.clone()), "no machine fits", "{unusable}");
    }
}

#[test]
fn the_tightest_host_comes_first_by_gpu_memory_then_threads_then_name() {
    let of = |uid: &str, count: u32, model: &str, threads: u32| {
        let mut document = host(uid, &format!("type_{uid}"), gpus(json!(count), "NVIDIA", model));
        document["architecture"]["smt_size"] = json!(threads);
        document
    };
    let site = [
        of("a", 8, "Tesla T4", 8),
        of("b", 2, "A100-SXM4-80GB", 16),
        of("c", 1, "A30", 64),
        of("d", 2, "Tesla T4", 16),
        of("e", 2, "Tesla T4", 16),
        of("f", 1, "Quadro RTX 5000", 128),
        of("g", 1, "Quadro RTX 5000", 96),
    ];
    let resources: Resources = serde_json::from_value(json!({"cpuMilli": 7001})).unwrap();
    let order =
        |input| chosen_of(&site, input, &resources).replace(r#"["=","$node_type","type_"#, "").replace("\"]", "");
    assert_eq!(order(json!({"gpuCount": 1})), "g f c d e a b");
    assert_eq!(order(json!({"gpuMemoryGiB": 24})), "c b");
    // A part of the type takes part alone, by its own name.
    let mut some = site.to_vec();
    some[1]["node_type"] = json!("type_c");
    let filters = chosen_of(&some, json!({"gpuType": "a30"}), &resources);
    assert_eq!(filters, r#"["=","$uid","c"]"#);
    some[1]["reservable"] = json!(false);
    assert_eq!(chosen_of(&some, json!({"gpuType": "a30"}), &resources), r#"["=","$node_type","type_c"]"#);
    some[2]["node_type"] = json!("");
    assert_eq!(chosen_of(&some, json!({"gpuType": "a30"}), &resources), filters);
}

#[test]
fn a_host_without_devices_serves_what_needs_none() {
    for gpu in [json!([]), json!({}), Value::Null] {
        let filters =
            chosen_of(&[host("u", "compute", gpu.clone())], json!({"cpuArch": "amd64"}), &Resources::default());
        assert_eq!(filters, r#"["=","$node_type","compute"]"#, "{gpu}");
    }
}

#[test]
fn documents_say_nothing_of_what_only_the_table_says() {
    let mut document = host("u", "compute", Value::Null);
    document["orlop/tee-sgx"] = json!(true);
    assert_eq!(
        chosen_of(&[document], json!({"teeType": "sgx"}), &Resources::default()),
        "no machine fits; u: needs orlop/tee-sgx = true"
    );
}

#[test]
fn nvlink_is_reported_by_the_type() {
    insta::assert_snapshot!(of(json!({"gpuType": "v100", "gpuCount": 4, "nvlink": true})), @r#"["=","$node_type","gpu_v100_nvlink"]"#);
}

#[test]
fn slices_ask_for_enough_whole_cards() {
    insta::assert_snapshot!(of(json!({"gpuType": "a100-mig-3g.40gb", "gpuCount": 8})), @r#"["=","$node_type","gpu_a100_nvlink"] ["=","$node_type","gpu_a100_pcie"] Narrowed"#);
    insta::assert_snapshot!(of(json!({"gpuType": "a100-mig-3g.40gb", "gpuCount": 9})), @"no machine fits; a100n: needs 9 mig-3g.40gb nvidia a100 slices, has 8; a100p: needs 9 mig-3g.40gb nvidia a100 slices, has 8; arm: needs 9 mig-3g.40gb nvidia a100 slices, has 0");
}

#[test]
fn one_entry_alone_serves_the_need() {
    insta::assert_snapshot!(of(json!({"gpuType": "tesla-t4"})), @r#"["=","$node_type","gpu_mixed"]"#);
    insta::assert_snapshot!(of(json!({"gpuType": "tesla-t4", "gpuCount": 2})), @"no machine fits; a100n: needs 2 nvidia t4 GPUs, 16 GiB or more, has 0; a100p: needs 2 nvidia t4 GPUs, 16 GiB or more, has 0; arm: needs 2 nvidia t4 GPUs, 16 GiB or more, has 0");
}

#[test]
fn hosts_are_named_where_only_some_of_a_type_fit() {
    insta::assert_snapshot!(of(json!({"gpuType": "A100 80GB PCIe"})), @r#"["=","$uid","giga2"]"#);
}

#[test]
fn a_need_never_falls_back() {
    insta::assert_snapshot!(of(json!({"gpuType": "h100"})), @"no machine fits; a100n: needs 1 nvidia h100 GPU, has 0; a100p: needs 1 nvidia h100 GPU, has 0; arm: needs 1 nvidia h100 GPU, has 0");
    insta::assert_snapshot!(of(json!({"gpuType": "intel"})), @"no machine fits; a100n: needs 1 intel GPU, has 0; a100p: needs 1 intel GPU, has 0; arm: needs 1 intel GPU, has 0");
}

#[test]
fn tees_only_where_the_table_lists_them() {
    insta::assert_snapshot!(of(json!({"teeType": "sgx"})), @r#"["=","$node_type","compute_sgx"]"#);
    insta::assert_snapshot!(of(json!({"teeType": "sev"})), @r#"["=","$node_type","compute_snp"]"#);
    insta::assert_snapshot!(of(json!({"teeType": "tdx"})), @"tdx is not available on openstack");
    insta::assert_snapshot!(of(json!({"teeType": "sev-snp", "gpuCount": 1})), @"sev-snp with GPUs is not available on openstack");
}

#[test]
fn cpu_memory_disk_arch_and_any_flattened_key() {
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
fn what_fits_nowhere_waits_for_capacity() {
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
