//! Tests of the host configuration, row by row, and that no host is taken that does not satisfy the need.

use std::collections::BTreeSet;

use bollard::models::HostConfig;
use orlop_core::hardware::gpu::{Catalogue, Vendor};
use orlop_core::hardware::placement::DeviceClass;
use orlop_core::hardware::{
    Device, GpuFacts, HardwareFacts, HardwareInput, Resolved, Resources, Substrate, Tables, describe, resolve,
    satisfies,
};
use orlop_core::resource::{Bytes, CpuMilli, ResourceVector, Rounding};
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

use super::{Inventory, host_config};

fn tables(file: Value) -> Tables {
    Tables::default().overlaid(serde_json::from_value(file).unwrap())
}

fn need(input: Value) -> Resolved {
    let (input, tables): (HardwareInput, _) = (serde_json::from_value(input).unwrap(), Tables::default());
    resolve(&input.requirements(&tables).unwrap(), &tables).unwrap()
}

fn device(vendor: &str, id: &str, name: &str) -> Device {
    Device { id: id.to_owned(), ..Device::named(Catalogue::built_in(), vendor.parse().unwrap(), name) }
}

fn nodes(paths: &str) -> BTreeSet<String> {
    paths.split_whitespace().map(str::to_owned).collect()
}

fn inventory() -> Inventory {
    let mut sliced = device("nvidia", "GPU-3", "NVIDIA A100-SXM4-40GB");
    sliced.slices.insert("1g.5gb".parse().unwrap(), vec!["MIG-a".into(), "MIG-b".into()]);
    let linked = |id| Device { nvlink_group: Some(0), ..device("nvidia", id, "NVIDIA A100-SXM4-40GB") };
    let taken = Device { taken: true, ..device("nvidia", "GPU-4", "Tesla T4") };
    Inventory {
        arch: "amd64".parse().unwrap(),
        devices: vec![
            device("nvidia", "GPU-0", "Tesla T4"),
            linked("GPU-1"),
            linked("GPU-2"),
            sliced,
            taken,
            device("amd", "renderD128", "AMD Instinct MI210"),
            device("intel", "renderD129", "Flex_170"),
        ],
        device_nodes: nodes("/dev/kfd /dev/dri/renderD128 /dev/dri/renderD129 /dev/sgx_enclave /dev/sgx_provision"),
        runtimes: ["runc".to_owned(), "io.containerd.kata-qemu-tdx.v2".to_owned()].into(),
        labels: [("rack".to_owned(), "r7".to_owned())].into(),
        free: ResourceVector::parse([("cpu", "8"), ("memory", "32Gi"), ("ephemeral-storage", "100Gi")], Rounding::Down)
            .unwrap(),
        limits_disk: true,
    }
}

fn on(inventory: Option<&Inventory>, input: Value, resources: Value, file: Value) -> String {
    let resources: Resources = serde_json::from_value(resources).unwrap();
    match host_config(&need(input), &resources, &tables(file), inventory) {
        Ok(config) => serde_json::to_string(&config).unwrap(),
        Err(error) => error.to_string(),
    }
}

fn of(input: Value) -> String {
    on(Some(&inventory()), input, json!({}), json!({}))
}

#[test]
fn cpu_memory_and_disk() {
    let some = json!({"cpuMilli": 1500, "memoryBytes": 1_073_741_824, "diskBytes": 1000});
    insta::assert_snapshot!(on(Some(&inventory()), json!({}), some.clone(), json!({})), @r#"{"Memory":1073741824,"MemorySwap":1073741824,"NanoCpus":1500000000,"StorageOpt":{"size":"1000"}}"#);
    let mut plain = some.clone();
    plain["diskBytes"] = json!(0);
    insta::assert_snapshot!(on(None, json!({}), plain.clone(), json!({})), @r#"{"Memory":1073741824,"MemorySwap":1073741824,"NanoCpus":1500000000}"#);
    let unlimited = Inventory { limits_disk: false, ..inventory() };
    assert_eq!(on(Some(&unlimited), json!({}), some, json!({})), on(None, json!({}), plain, json!({})));
    let too_much = json!({"cpuMilli": 8001, "memoryBytes": 40_000_000_000_u64});
    insta::assert_snapshot!(on(Some(&inventory()), json!({}), too_much, json!({})), @"no machine fits; docker: cpu: needs 8001m, has 8, memory: needs 39062500Ki, has 32Gi");
    insta::assert_snapshot!(on(Some(&inventory()), json!({}), json!({"diskBytes": 200_000_000_000_u64}), json!({})), @"no machine fits; docker: ephemeral-storage: needs 195312500Ki, has 100Gi");
}

#[test]
fn nvidia_devices_in_ascending_order() {
    insta::assert_snapshot!(of(json!({"gpuCount": 2})), @r#"{"DeviceRequests":[{"Driver":"nvidia","DeviceIDs":["GPU-0","GPU-1"],"Capabilities":[["gpu"]]}]}"#);
    insta::assert_snapshot!(of(json!({"gpuType": "a100", "gpuCount": 2, "nvlink": true})), @r#"{"DeviceRequests":[{"Driver":"nvidia","DeviceIDs":["GPU-1","GPU-2"],"Capabilities":[["gpu"]]}]}"#);
    insta::assert_snapshot!(of(json!({"gpuType": "t4", "gpuCount": 2})), @"no machine fits; docker: needs 2 nvidia t4 GPUs, 16 GiB or more, has 1");
    insta::assert_snapshot!(on(Some(&inventory()), json!({"gpuMemoryGiB": 40}), json!({}), json!({"docker": {"cdi": true}})), @r#"{"DeviceRequests":[{"Driver":"cdi","DeviceIDs":["nvidia.com/gpu=GPU-1"]}]}"#);
}

#[test]
fn mig_instances() {
    insta::assert_snapshot!(of(json!({"gpuType": "mig-1g.5gb", "gpuCount": 2})), @r#"{"DeviceRequests":[{"Driver":"nvidia","DeviceIDs":["MIG-a","MIG-b"],"Capabilities":[["gpu"]]}]}"#);
    insta::assert_snapshot!(on(Some(&inventory()), json!({"gpuType": "mig-1g.5gb", "gpuCount": 2}), json!({}), json!({"docker": {"cdi": true}})), @r#"{"DeviceRequests":[{"Driver":"cdi","DeviceIDs":["nvidia.com/gpu=MIG-a","nvidia.com/gpu=MIG-b"]}]}"#);
    insta::assert_snapshot!(of(json!({"gpuType": "mig-1g.5gb", "gpuCount": 3})), @"no machine fits; docker: needs 3 mig-1g.5gb nvidia slices, has 2");
    insta::assert_snapshot!(of(json!({"gpuType": "mig-3g.20gb"})), @"no machine fits; docker: needs 1 mig-3g.20gb nvidia slice, has 0");
}

#[test]
fn devices_without_their_nodes_are_not_given() {
    let with = |paths: &str, input: Value| {
        on(Some(&Inventory { device_nodes: nodes(paths), ..inventory() }), input, json!({}), json!({}))
    };
    let amd = || json!({"gpuType": "amd"});
    assert_eq!(with("/dev/kfd /dev/dri/renderD128", amd()), of(amd()));
    insta::assert_snapshot!(with("/dev/dri/renderD128 /dev/dri/renderD129", amd()), @"no machine fits; docker: needs 1 amd GPU, has 0");
    insta::assert_snapshot!(with("/dev/kfd /dev/dri/renderD129", amd()), @"no machine fits; docker: needs 1 amd GPU, has 0");
    let intel = || json!({"gpuType": "intel"});
    assert_eq!(with("/dev/dri/renderD129", intel()), of(intel()));
    insta::assert_snapshot!(with("/dev/kfd /dev/dri/renderD128", intel()), @"no machine fits; docker: needs 1 intel GPU, has 0");
    // NVIDIA's own runtime brings the nodes of its devices.
    assert_eq!(with("", json!({"gpuType": "t4"})), of(json!({"gpuType": "t4"})));
    insta::assert_snapshot!(with("/dev/sgx_provision", json!({"teeType": "sgx"})), @"no machine fits; docker: needs orlop/tee-sgx = true");
    let host = Inventory { device_nodes: nodes("/dev/sgx_enclave"), ..inventory() };
    insta::assert_snapshot!(on(Some(&host), json!({"teeType": "sgx"}), json!({}), json!({"docker": {"sgxProvision": true}})), @"no machine fits; docker: needs orlop/tee-sgx = true");
}

#[test]
fn labels_of_the_daemon_say_nothing_of_what_is_derived() {
    let labels = ["orlop/tee-sgx", "orlop/tee-tdx", "orlop/arch"].map(|key| (key.to_owned(), "true".to_owned()));
    let host = Inventory { labels: labels.into(), device_nodes: nodes(""), ..inventory() };
    insta::assert_snapshot!(on(Some(&host), json!({"teeType": "sgx"}), json!({}), json!({})), @"no machine fits; docker: needs orlop/tee-sgx = true");
    assert_eq!(on(Some(&host), json!({"cpuArch": "amd64"}), json!({}), json!({})), "{}");
}

#[test]
fn amd_intel_and_sgx_by_device_nodes() {
    insta::assert_snapshot!(of(json!({"gpuType": "mi210"})), @r#"{"Devices":[{"PathOnHost":"/dev/kfd","PathInContainer":"/dev/kfd","CgroupPermissions":"rwm"},{"PathOnHost":"/dev/dri/renderD128","PathInContainer":"/dev/dri/renderD128","CgroupPermissions":"rwm"}],"GroupAdd":["video","render"]}"#);
    insta::assert_snapshot!(of(json!({"gpuType": "intel"})), @r#"{"Devices":[{"PathOnHost":"/dev/dri/renderD129","PathInContainer":"/dev/dri/renderD129","CgroupPermissions":"rwm"}],"GroupAdd":["render"]}"#);
    insta::assert_snapshot!(of(json!({"teeType": "sgx"})), @r#"{"Devices":[{"PathOnHost":"/dev/sgx_enclave","PathInContainer":"/dev/sgx_enclave","CgroupPermissions":"rwm"}]}"#);
    insta::assert_snapshot!(on(Some(&inventory()), json!({"teeType": "sgx"}), json!({}), json!({"docker": {"sgxProvision": true}})), @r#"{"Devices":[{"PathOnHost":"/dev/sgx_enclave","PathInContainer":"/dev/sgx_enclave","CgroupPermissions":"rwm"},{"PathOnHost":"/dev/sgx_provision","PathInContainer":"/dev/sgx_provision","CgroupPermissions":"rwm"}]}"#);
}

#[test]
fn virtual_machines_by_a_registered_runtime() {
    insta::assert_snapshot!(of(json!({"teeType": "tdx"})), @r#"{"Runtime":"io.containerd.kata-qemu-tdx.v2"}"#);
    insta::assert_snapshot!(of(json!({"teeType": "sev-snp"})), @"sev-snp: runtime io.containerd.kata-qemu-snp.v2 is not registered and is not available on docker");
    insta::assert_snapshot!(of(json!({"teeType": "sev"})), @"sev: runtime io.containerd.kata-qemu-snp.v2 is not registered and is not available on docker");
    insta::assert_snapshot!(of(json!({"teeType": "tdx", "gpuCount": 1})), @"tdx with GPUs is not available on docker");
    insta::assert_snapshot!(of(json!({"teeType": "cca"})), @"cca is not available on docker");
    let all = ["tdx", "snp", "se"].map(|name| format!("io.containerd.kata-qemu-{name}.v2"));
    let of_arch = |arch: &str, kind: &str| {
        let host = Inventory { runtimes: all.clone().into(), arch: arch.parse().unwrap(), ..inventory() };
        on(Some(&host), json!({"teeType": kind}), json!({}), json!({}))
    };
    insta::assert_snapshot!(of_arch("amd64", "sev-snp"), @r#"{"Runtime":"io.containerd.kata-qemu-snp.v2"}"#);
    assert_eq!(of_arch("amd64", "sev-es"), of_arch("amd64", "sev-snp"));
    assert_eq!(of_arch("amd64", "sev"), of_arch("amd64", "sev-snp"));
    insta::assert_snapshot!(of_arch("s390x", "se"), @r#"{"Runtime":"io.containerd.kata-qemu-se.v2"}"#);
    insta::assert_snapshot!(of_arch("arm64", "tdx"), @"no machine fits; docker: needs CPU architecture amd64, has arm64");
    let file = json!({"docker": {"runtimes": {"cca": "kata-cca"}}});
    insta::assert_snapshot!(on(Some(&inventory()), json!({"teeType": "cca"}), json!({}), file), @"cca: runtime kata-cca is not registered and is not available on docker");
}

#[test]
fn arch_and_labels_are_those_of_the_daemon() {
    assert_eq!(of(json!({"cpuArch": "amd64", "customLabels": {"rack": "r7"}})), "{}");
    insta::assert_snapshot!(of(json!({"cpuArch": "arm64", "customLabels": {"rack": "r8"}})), @"no machine fits; docker: needs CPU architecture arm64, has amd64, needs rack = r8, has rack = r7");
    // Preferences and tolerations have no effect.
    assert_eq!(of(json!({"teeType": "tdx", "teeRequired": false})), "{}");
}

#[test]
fn without_inventory_only_a_bare_count() {
    let bare = |input| on(None, input, json!({}), json!({}));
    insta::assert_snapshot!(bare(json!({"gpuCount": 2})), @r#"{"DeviceRequests":[{"Driver":"nvidia","Count":2,"Capabilities":[["gpu"]]}]}"#);
    insta::assert_snapshot!(bare(json!({"gpuType": "t4"})), @"GPU `nvidia-t4-16gb` can only be chosen with an inventory of the host");
    insta::assert_snapshot!(bare(json!({"gpuType": "amd"})), @"GPU `amd` can only be chosen with an inventory of the host");
    insta::assert_snapshot!(bare(json!({"gpuMemoryGiB": 8})), @"GPU `nvidia-8gb` can only be chosen with an inventory of the host");
    insta::assert_snapshot!(bare(json!({"gpuType": "mig-1g.5gb"})), @"GPU `nvidia-mig-1g.5gb` can only be chosen with an inventory of the host");
    insta::assert_snapshot!(bare(json!({"gpuCount": 2, "nvlink": true})), @"GPU `nvidia-nvlink` can only be chosen with an inventory of the host");
    insta::assert_snapshot!(bare(json!({"cpuArch": "amd64"})), @"CPU architecture amd64 can only be chosen with an inventory of the host");
    assert_eq!(bare(json!({"gpuType": "nvidia", "gpuCount": 2})), bare(json!({"gpuCount": 2})));
    assert_eq!(bare(json!({"teeType": "sgx", "teeRequired": false})), "{}");
    insta::assert_snapshot!(bare(json!({"teeType": "sgx"})), @"sgx can only be chosen with an inventory of the host");
    insta::assert_snapshot!(bare(json!({"customLabels": {"rack": "r7"}})), @"label rack can only be chosen with an inventory of the host");
    let plain = |resources| on(None, json!({}), resources, json!({}));
    insta::assert_snapshot!(plain(json!({"diskBytes": 1000})), @"a disk of 1000 bytes can only be chosen with an inventory of the host");
    insta::assert_snapshot!(plain(json!({"extended": {"example.com/fpga": "1"}})), @"resource example.com/fpga can only be chosen with an inventory of the host");
}

/// The devices that a configuration gives a container, slices as devices that have no others, and how many they are.
fn chosen(config: &HostConfig, facts: &HardwareFacts) -> (Vec<GpuFacts>, u32) {
    let requested = config.device_requests.iter().flatten().flat_map(|request| request.device_ids.iter().flatten());
    let opened =
        config.devices.iter().flatten().filter_map(|device| device.path_on_host.as_deref()?.strip_prefix("/dev/dri/"));
    let (mut gpus, mut given) = (Vec::new(), 0);
    for id in requested.map(String::as_str).chain(opened) {
        let mut parts = id.split(':');
        let mut gpu = facts.gpus[parts.next().unwrap().parse::<usize>().unwrap()].clone();
        gpu.mig = parts.next().map(|profile| (profile.parse().unwrap(), 1)).into_iter().collect();
        gpus.push(gpu);
        given += 1;
    }
    (gpus, given)
}

proptest! {
    #[test]
    fn a_host_that_is_taken_satisfies_the_need(
        kind in select(&["nvidia", "t4", "a100-80gb", "a100-nvlink", "24gb", "mig-1g.5gb", "amd", "mi210", "flex170"][..]),
        count in 1..4_i64, names in proptest::collection::vec(select(&["Tesla T4", "A100-SXM4-40GB", "A100-SXM4-80GB", "AMD Instinct MI210", "Flex_170"][..]), 0..5),
        cut in any::<bool>(), kfd in any::<bool>(), tee in proptest::option::of(select(&["sgx", "tdx"][..])),
    ) {
        let gpus = names.iter().map(|name| {
            let (model, product) = Catalogue::built_in().product_named(name).unwrap();
            let mig = product.mig.first().filter(|_| cut).map(|profile| (*profile, 2));
            GpuFacts {
                vendor: model.vendor, model: product.name.clone(), memory_gib: product.memory_gib, mig: mig.into_iter().collect(),
                nvlink_group: product.nvlink.then_some(0), users: 1, confidential: false,
            }
        });
        let facts = HardwareFacts {
            arch: "amd64".parse().unwrap(), cpu_milli: CpuMilli(1), memory_bytes: Bytes(1), disk_bytes: Bytes(1),
            gpus: gpus.collect(), tees: Default::default(), labels: Default::default(), taints: Vec::new(),
        };
        let machine = describe(&facts, &Tables::default().vocabulary(Substrate::Docker));
        let render = (0..facts.gpus.len()).map(|at| format!("/dev/dri/{at}"));
        let device_nodes = render.chain(kfd.then(|| "/dev/kfd".to_owned())).collect();
        let host = Inventory { devices: machine.devices, device_nodes, runtimes: Default::default(), ..inventory() };
        let input: HardwareInput =
            serde_json::from_value(json!({"gpuType": kind, "gpuCount": count, "teeType": tee, "teeRequired": tee.map(|_| true)})).unwrap();
        let needs = input.requirements(&Tables::default()).and_then(|needs| resolve(&needs, &Tables::default()));
        let Ok(need) = needs else { return Ok(()) };
        let has_nodes = |gpu: &GpuFacts| kfd || gpu.vendor != Vendor::Amd;
        match host_config(&need, &Resources::default(), &Tables::default(), Some(&host)) {
            Ok(config) => {
                // What the container gets serves the need by itself, and is no more than was asked for.
                let (gpus, given) = chosen(&config, &facts);
                prop_assert!(satisfies(&HardwareFacts { gpus, ..facts.clone() }, &need), "{config:?}");
                prop_assert_eq!(given, need.gpu.as_ref().map_or(0, |gpu| gpu.count));
            }
            // Slices are no devices of a bare count here, though they may be elsewhere.
            Err(_) if cut && need.gpu.as_ref().is_some_and(|gpu| gpu.class == DeviceClass::Unit) => {}
            Err(error) => {
                let gpus = facts.gpus.iter().filter(|gpu| has_nodes(gpu)).cloned().collect();
                prop_assert!(!satisfies(&HardwareFacts { gpus, ..facts.clone() }, &need), "{error}");
            }
        }
    }
}

#[test]
fn a_device_that_no_table_knows_is_chosen_by_its_exact_name() {
    let mut host = inventory();
    host.devices.push(device("nvidia", "GPU-5", "NVIDIA RTX 5880 Ada Generation"));
    let chosen = |kind: &str| {
        let config =
            host_config(&need(json!({"gpuType": kind})), &Resources::default(), &Tables::default(), Some(&host));
        config.map(|config| config.device_requests.unwrap_or_default().remove(0).device_ids.unwrap_or_default())
    };
    assert_eq!(chosen("RTX 5880 Ada Generation").unwrap(), ["GPU-5"]);
    insta::assert_snapshot!(chosen("RTX 5880 Ada").unwrap_err(), @"no machine fits; docker: needs 1 nvidia `RTX 5880 Ada` GPU, has 0");
}
