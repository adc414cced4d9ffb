//! The laws of the hardware model over random needs, machines and users. `PROPTEST_CASES`
//! sets how many of each. Owns the generators; the laws stand beside.

mod merging;
mod translating;
mod users;

use std::collections::{BTreeMap, BTreeSet};

use proptest::collection::{btree_map, btree_set, vec};
use proptest::prelude::*;
use proptest::sample::select;

use super::facts::{GpuFacts, HardwareFacts};
use super::gpu::{Allocation, Catalogue, Product, Vendor};
use super::table::{LabelFamily, MigStrategy};
use super::{Arch, HardwareError, HardwareInput, Resolved, Substrate, Tables, TeeKind, Vocabulary, resolve};
use crate::named::Named;
use crate::resource::{Bytes, CpuMilli};

/// Texts of devices, of which several name the same.
const TYPES: &[&str] = &[
    "nvidia",
    "a100",
    "A100-SXM4-40GB",
    "a100-80gb",
    "a100-sxm4-80gb-nvlink",
    "NVIDIA H100 80GB HBM3",
    "h100-nvl",
    "h100-nvlink",
    "gh200",
    "t4",
    "v100-sxm2",
    "v100-32gb",
    "h200",
    "b200",
    "24gb",
    "80gb",
    "sxm4",
    "nvlink",
    "mig-1g.5gb",
    "a100-mig-1g.5gb",
    "a100-mig-3g.40gb",
    "a30-1g.6gb",
    "1g.10gb+me",
    "amd",
    "mi300x",
    "amd-64gb",
    "intel",
    "intel-flex-170",
    "intel-16gb",
    "gpu",
    "RTX 5880 Ada Generation",
    "NVIDIA-RTX-5880-Ada-Generation",
    "AMD Instinct MI400X",
    "intel-Max_1750",
    "voodoo",
    "mig",
    "quadro-amd",
    "",
];

const TEES: &[&str] = &["sgx", "tdx", "sev", "sev-es", "amd_sev_snp", "se", "cca", "what"];

const LABELS: [&str; 3] = ["zone", "example.com/rack", "team"];

fn labels() -> impl Strategy<Value = BTreeMap<String, String>> {
    let key = prop_oneof![9 => select(&LABELS[..]).prop_map(str::to_owned), 1 => "\\PC{0,8}"];
    let value = prop_oneof![9 => select(&["a", "b", "true"][..]).prop_map(str::to_owned), 1 => "\\PC{0,8}"];
    btree_map(key, value, 0..2)
}

fn maybe<T: Clone + std::fmt::Debug + 'static>(all: &'static [T], weight: f64) -> impl Strategy<Value = Option<T>> {
    proptest::option::weighted(weight, select(all))
}

pub(super) fn input() -> impl Strategy<Value = HardwareInput> {
    let gpu = (
        maybe(TYPES, 0.7),
        maybe(&[0_i32, 1, 1, 2, 3, 8, 1024, 2000, -1], 0.5),
        maybe(&[1_u32, 5, 16, 24, 40, 80, 96, 200, 5000], 0.15),
        maybe(&[true, false], 0.2),
    );
    let tee = (maybe(&[true, false], 0.3), maybe(TEES, 0.3), maybe(Arch::ALL, 0.15));
    (gpu, tee, labels(), maybe(Allocation::ALL, 0.6)).prop_map(
        |((kind, gpu_count, gpu_memory_gib, nvlink), (tee_required, tee, cpu_arch), labels, allocation)| {
            HardwareInput {
                gpu_type: kind.map(str::to_owned),
                gpu_count,
                gpu_memory_gib,
                nvlink,
                tee_required,
                tee_type: tee.map(str::to_owned),
                cpu_arch,
                allocation,
                custom_labels: labels,
            }
        },
    )
}

pub(super) fn resolved(input: &HardwareInput, tables: &Tables) -> Result<Resolved, HardwareError> {
    resolve(&input.requirements(tables)?, tables)
}

/// Products that the texts above name, so that machines often fit.
fn product() -> impl Strategy<Value = (Vendor, Product)> {
    let wanted =
        ["a100", "h100", "h200", "gh200", "b200", "t4", "v100", "a30", "mi300x", "mi210", "flex170", "max1550"];
    let mut all = Vec::new();
    for model in &Catalogue::built_in().models {
        if wanted.contains(&model.key.as_str()) {
            all.extend(model.products.iter().map(|product| (model.vendor, product.clone())));
        }
    }
    // And some that no table knows.
    for (vendor, name) in
        [(Vendor::Nvidia, "RTX 5880 Ada Generation"), (Vendor::Amd, "AMD Instinct MI400X"), (Vendor::Intel, "Max_1750")]
    {
        let product = Product { name: name.to_owned(), memory_gib: 48, nvlink: true, ..Product::default() };
        all.extend(vec![(vendor, product); 3]);
    }
    select(all)
}

fn gpu() -> impl Strategy<Value = GpuFacts> {
    let cut = (any::<prop::sample::Index>(), 1..4_u32, prop::bool::weighted(0.3));
    let use_of = (prop_oneof![8 => Just(1_u32), 1 => Just(4)], prop::bool::weighted(0.2));
    (product(), cut, use_of).prop_map(|((vendor, product), (profile, slices, is_cut), (users, confidential))| {
        let profiles: Vec<_> = product.mig.iter().copied().collect();
        let mig = if is_cut && !profiles.is_empty() && !confidential {
            BTreeMap::from([(profiles[profile.index(profiles.len())], slices)])
        } else {
            BTreeMap::new()
        };
        let confidential = confidential && vendor == Vendor::Nvidia;
        GpuFacts {
            vendor,
            model: product.name,
            memory_gib: product.memory_gib,
            mig,
            nvlink_group: product.nvlink.then_some(0),
            users: if confidential { 1 } else { users },
            confidential,
        }
    })
}

fn machine(gpus: impl Strategy<Value = Vec<GpuFacts>>) -> impl Strategy<Value = HardwareFacts> {
    let known = btree_map(select(&LABELS[..]), select(&["a", "b", "true"][..]), 0..3);
    (select(Arch::ALL), gpus, btree_set(select(TeeKind::ALL), 0..4), known).prop_map(|(arch, gpus, tees, labels)| {
        let tees: BTreeSet<TeeKind> = tees.into_iter().filter(|kind| kind.arch() == arch).collect();
        HardwareFacts {
            arch,
            cpu_milli: CpuMilli(64_000),
            memory_bytes: Bytes(512 << 30),
            disk_bytes: Bytes(1 << 40),
            gpus,
            tees,
            labels: labels.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect(),
            taints: Vec::new(),
        }
    })
}

/// A node: all its devices are alike, as labels can tell.
pub(super) fn node() -> impl Strategy<Value = HardwareFacts> {
    machine((gpu(), 0..9_usize).prop_map(|(gpu, count)| vec![gpu; count]))
}

/// A worker: any devices beside each other, in any groups.
pub(super) fn worker() -> impl Strategy<Value = HardwareFacts> {
    let grouped = (gpu(), proptest::option::of(0..2_u32)).prop_map(|(gpu, group)| {
        let nvlink_group = group.filter(|_| gpu.nvlink_group.is_some());
        GpuFacts { nvlink_group, ..gpu }
    });
    machine(vec(grouped, 0..5))
}

/// Tables of clusters of several kinds.
pub(super) fn tables() -> impl Strategy<Value = Tables> {
    let families = btree_set(select(LabelFamily::ALL), 1..4);
    (families, select(MigStrategy::ALL), prop::bool::ANY).prop_map(|(families, strategy, restored)| {
        let mut tables = Tables::default();
        tables.families.gpu = families;
        tables.families.mig_strategy = strategy;
        if restored {
            let file = serde_json::json!({"tee": {"kinds": {
                "sev": {"labels": {"nfd": ["feature.node.kubernetes.io/cpu-security.sev.enabled"]}, "runtimeClass": "kata-qemu-sev"},
                "cca": {"labels": {"rule": ["arm.feature.node.kubernetes.io/cca"]}},
            }}});
            tables = tables.overlaid(serde_json::from_value(file).unwrap());
        }
        tables
    })
}

pub(super) fn substrates(tables: &Tables) -> Vec<Vocabulary> {
    Substrate::ALL.iter().map(|substrate| tables.vocabulary(*substrate)).collect()
}
