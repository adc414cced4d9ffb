//! The choice is sound and complete: the hosts that a reservation may give satisfy the need, and all that satisfy it may be given.
//! `PROPTEST_CASES` sets how many sites are tried.

use std::collections::{BTreeMap, BTreeSet};

use orlop_core::hardware::gpu::Catalogue;
use orlop_core::hardware::placement::{DeviceClass, Note};
use orlop_core::hardware::{
    GpuFacts, HardwareError, HardwareFacts, HardwareInput, Resolved, Resources, TeeKind, resolve, satisfies,
};
use orlop_core::resource::{Bytes, CpuMilli};
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

use super::super::{Choice, SiteNode, choose};
use super::{gpus, host, tables};

/// Types of hosts, what documents of them call their devices, which product that is, and whether they are connected.
const DEVICES: &[(&str, &str, &str, bool)] = &[
    ("gpu_v100", "V100", "Tesla V100-PCIE-16GB", false),
    ("gpu_v100_nvlink", "V100", "Tesla V100-SXM2-16GB", true),
    ("gpu_a100_pcie", "A100", "A100 80GB PCIe", false),
    ("gpu_a100_nvlink", "A100", "A100-SXM4-80GB", true),
    ("gpu_rtx_6000", "RTX 6000", "Quadro RTX 6000", false),
    ("gpu_k80", "Tesla K80", "Tesla K80", false),
    ("gpu_mi100", "MI100", "AMD Instinct MI100", false),
    ("compute_gigaio", "A100 80GB PCIe", "A100 80GB PCIe", false),
    ("compute_mixed", "A100-SXM4-40GB", "A100-SXM4-40GB", false),
    ("compute_mixed", "Tesla T4", "Tesla T4", false),
    ("compute_snp", "A30", "A30", false),
    ("", "Flex_170", "Flex_170", false),
];

/// A host as it is, an entry of devices as a separate machine.
#[derive(Clone, Debug)]
struct Host {
    usable: bool,
    entries: Vec<HardwareFacts>,
}

fn tees(node_type: &str) -> BTreeSet<TeeKind> {
    tables().node_types.get(node_type).map(|row| row.tees.clone()).unwrap_or_default()
}

fn entry(called: &str, product: &str, linked: bool, count: usize) -> (Value, Vec<GpuFacts>) {
    let (model, product) = Catalogue::built_in().product_named(product).unwrap();
    let facts = GpuFacts {
        nvlink_group: linked.then_some(0),
        ..GpuFacts::whole(model.vendor, called.to_owned(), product.memory_gib)
    };
    (gpus(json!(count), &model.vendor.to_string().to_uppercase(), called), vec![facts; count])
}

/// A document, and the host it is of.
fn any_host() -> impl Strategy<Value = (Value, Host)> {
    let devices = (select(DEVICES), proptest::option::weighted(0.2, select(DEVICES)), 1..5_usize);
    let plain = (select(&["compute_skylake", "compute_sgx", "compute_snp"][..]), prop::bool::weighted(0.3));
    let machine = (select(&[8_u64, 64][..]), any::<bool>(), select(&["r7", "r8"][..]), prop::bool::weighted(0.8));
    (devices, plain, machine).prop_map(|((first, second, count), (plain, no_gpu), (threads, is_arm, rack, usable))| {
        let (node_type, mut all) = if no_gpu {
            (plain, Vec::new())
        } else {
            let (node_type, called, product, linked) = first;
            // A second entry is of the same type, so the table's row must suit it as well.
            let other = second.filter(|other| other.0 == node_type);
            let entries =
                [Some((called, product, linked)), other.map(|(_, called, product, linked)| (called, product, linked))];
            (
                node_type,
                entries
                    .into_iter()
                    .flatten()
                    .map(|(called, product, linked)| entry(called, product, linked, count))
                    .collect(),
            )
        };
        let gpu = match all.as_slice() {
            [] => json!({"gpu": false}),
            [(only, _)] => only.clone(),
            several => several.iter().map(|(document, _)| document.clone()).collect(),
        };
        if all.is_empty() {
            all.push((Value::Null, Vec::new()));
        }
        let mut document = host("", node_type, gpu);
        document["architecture"] =
            json!({"platform_type": if is_arm { "aarch64" } else { "x86_64" }, "smt_size": threads});
        document["placement"]["rack"] = json!(rack);
        document["disabled"] = json!(!usable);
        let facts = |(_, gpus): (Value, Vec<GpuFacts>)| HardwareFacts {
            arch: if is_arm { "arm64" } else { "amd64" }.parse().unwrap(),
            cpu_milli: CpuMilli(threads * 1000),
            memory_bytes: Bytes(0),
            disk_bytes: Bytes(0),
            gpus,
            tees: tees(node_type),
            labels: BTreeMap::from([("placement.rack".to_owned(), rack.to_owned())]),
            taints: Vec::new(),
        };
        (document, Host { usable, entries: all.into_iter().map(facts).collect() })
    })
}

fn site() -> impl Strategy<Value = Vec<(Value, Host)>> {
    proptest::collection::vec(any_host(), 0..8).prop_map(|mut all| {
        for (at, (document, _)) in all.iter_mut().enumerate() {
            document["uid"] = json!(format!("host{at}"));
        }
        all
    })
}

fn input() -> impl Strategy<Value = Value> {
    let kinds = [
        "nvidia",
        "a100",
        "a100-80gb",
        "v100",
        "tesla-t4",
        "quadro-rtx-6000",
        "24gb",
        "80gb",
        "pcie",
        "a100-nvlink",
        "nvlink",
        "amd",
        "intel",
        "k80",
        "a100-mig-1g.10gb",
        "a100-mig-3g.40gb",
        "mig-1g.5gb",
        "a30-2g.12gb",
        "1g.6gb+me",
    ];
    let gpu = (proptest::option::weighted(0.8, select(kinds.to_vec())), proptest::option::weighted(0.5, 1..9_u32));
    let tee = proptest::option::weighted(0.15, select(&["sgx", "sev", "sev-snp"][..]));
    let rest =
        (proptest::option::weighted(0.2, select(&["amd64", "arm64"][..])), prop::bool::weighted(0.2), any::<bool>());
    (gpu, tee, rest).prop_map(|((kind, count), tee, (arch, in_rack, dra))| {
        let labels = if in_rack { json!({"placement.rack": "r7"}) } else { json!({}) };
        let allocation = if dra { "dra" } else { "devicePlugin" };
        json!({"gpuType": kind, "gpuCount": count, "teeType": tee, "cpuArch": arch, "customLabels": labels, "allocation": allocation})
    })
}

/// The host with its cards cut as they would be for the need.
fn cut(facts: &HardwareFacts, need: &Resolved) -> HardwareFacts {
    let mut facts = facts.clone();
    let Some(DeviceClass::Slice(profile)) = need.gpu.as_ref().map(|gpu| gpu.class) else { return facts };
    for gpu in &mut facts.gpus {
        let known = DEVICES.iter().find(|(_, called, _, _)| *called == gpu.model);
        let product = known.and_then(|(_, _, product, _)| Catalogue::built_in().product_named(product));
        let slices = product.map_or(0, |(_, product)| product.instances(profile));
        gpu.mig = BTreeMap::from([(profile, slices)]);
    }
    facts
}

/// The hosts that any of the filters may give.
fn given(choice: &Choice, site: &[(Value, Host)]) -> Vec<usize> {
    let is_meant = |filter: &Value, document: &Value| match filter[1].as_str() {
        Some("$node_type") => document["node_type"] == filter[2],
        Some("$uid") => document["uid"] == filter[2],
        _ => false,
    };
    let filters = choice.candidates.iter().map(|candidate| &candidate.filter);
    filters
        .flat_map(|filter| {
            site.iter()
                .enumerate()
                .filter(|(_, (document, host))| host.usable && is_meant(filter, document))
                .map(|(at, _)| at)
                .collect::<Vec<_>>()
        })
        .collect()
}

proptest! {
    #[test]
    fn the_hosts_that_are_chosen_are_those_that_satisfy_the_need(
        site in site(), input in input(), cpu_milli in select(&[0_u64, 8000, 8001, 64_000][..]),
    ) {
        let input: HardwareInput = serde_json::from_value(input).unwrap();
        let Ok(need) = input.requirements(&tables()).and_then(|needs| resolve(&needs, &tables())) else { return Ok(()) };
        let resources = Resources { cpu_milli: CpuMilli(cpu_milli), ..Resources::default() };
        let nodes: Vec<SiteNode> = site.iter().map(|(document, _)| SiteNode::read(document, &tables()).unwrap()).collect();
        let serves = |host: &Host| {
            host.usable && host.entries.iter().any(|facts| facts.cpu_milli.0 >= cpu_milli && satisfies(&cut(facts, &need), &need))
        };
        let fit: Vec<usize> = site.iter().enumerate().filter(|(_, (_, host))| serves(host)).map(|(at, _)| at).collect();
        match choose(&need, &resources, &tables(), &nodes) {
            Ok(choice) => {
                let mut given = given(&choice, &site);
                given.sort_unstable();
                // Each host is named once, and none that does not satisfy the need.
                prop_assert!(given.windows(2).all(|pair| pair[0] < pair[1]), "{:?}", choice.candidates);
                prop_assert!(given.iter().all(|at| fit.contains(at)), "{:?} of {fit:?}", choice.candidates);
                prop_assert!(choice.notes.contains(&Note::Narrowed) || given == fit, "{:?} of {fit:?}", choice.candidates);
                let order: Vec<_> = choice.candidates.iter().map(|one| (one.spare_gpu_gib, one.spare_threads, &one.name)).collect();
                prop_assert!(order.is_sorted(), "{order:?}");
            }
            Err(HardwareError::NoMatchingHardware { .. }) => {
                let slices = need.gpu.as_ref().is_some_and(|gpu| matches!(gpu.class, DeviceClass::Slice(_)));
                prop_assert!(slices || fit.is_empty(), "{fit:?}");
            }
            Err(error) => prop_assert!(matches!(error, HardwareError::UnsupportedOnSubstrate { .. }), "{error}"),
        }
    }
}
