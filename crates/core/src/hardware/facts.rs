//! The hardware of a machine, independent of the substrate, and whether it satisfies a request. The translations are tested
//! against [`satisfies`], which is written without them.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::device::DeviceClass;
use super::gpu::{Catalogue, Form, MigProfile, Vendor};
use super::placement::Taint;
use super::{Arch, Resolved, ResolvedGpu, TeeKind};
use crate::named::Named as _;
use crate::resource::{Bytes, CpuMilli};

/// A machine, as a worker of the fleet reports it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HardwareFacts {
    /// Its CPU architecture.
    pub arch: Arch,
    /// CPU in millicores.
    pub cpu_milli: CpuMilli,
    /// Memory in bytes.
    pub memory_bytes: Bytes,
    /// Scratch disk in bytes.
    #[serde(default)]
    pub disk_bytes: Bytes,
    /// Its devices.
    #[serde(default)]
    pub gpus: Vec<GpuFacts>,
    /// Its trusted execution environments.
    #[serde(default)]
    pub tees: BTreeSet<TeeKind>,
    /// Labels people gave it.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// Taints, which keep work away that does not tolerate them.
    #[serde(default)]
    pub taints: Vec<Taint>,
}

impl HardwareFacts {
    /// A machine without devices.
    #[must_use]
    pub const fn new(arch: Arch, cpu_milli: CpuMilli, memory_bytes: Bytes) -> Self {
        Self {
            arch,
            cpu_milli,
            memory_bytes,
            disk_bytes: Bytes::ZERO,
            gpus: Vec::new(),
            tees: BTreeSet::new(),
            labels: BTreeMap::new(),
            taints: Vec::new(),
        }
    }
}

/// A device of such a machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GpuFacts {
    /// Its vendor.
    pub vendor: Vendor,
    /// Its product name.
    pub model: String,
    /// Its nominal memory in GiB.
    pub memory_gib: u32,
    /// Free slices by profile; a device with slices is not whole.
    #[serde(default)]
    pub mig: BTreeMap<MigProfile, u32>,
    /// The group it is connected with by NVLink or the vendor's equal.
    #[serde(default)]
    pub nvlink_group: Option<u32>,
    /// How many users share it; 1 for a device of one's own.
    #[serde(default = "alone")]
    pub users: u32,
    /// Whether it works within trusted execution environments only.
    #[serde(default)]
    pub confidential: bool,
}

impl GpuFacts {
    /// A device that is not shared, without slices and not connected to others.
    #[must_use]
    pub fn whole(vendor: Vendor, model: String, memory_gib: u32) -> Self {
        let (mig, nvlink_group, users, confidential) = (BTreeMap::new(), None, alone(), false);
        Self { vendor, model, memory_gib, mig, nvlink_group, users, confidential }
    }
}

const fn alone() -> u32 {
    1
}

/// Whether a machine has the devices, environment, architecture and labels that are asked for. Does not look at CPU, memory, disk
/// and taints.
#[must_use]
pub fn satisfies(facts: &HardwareFacts, resolved: &Resolved) -> bool {
    let arch = resolved.arch.is_none_or(|arch| arch == facts.arch);
    let labels = resolved.labels.iter().all(|(key, value)| facts.labels.get(key) == Some(value));
    let tee = resolved.required_tee().is_none_or(|asked| facts.tees.iter().any(|has| has.serves(asked)));
    arch && labels && tee && resolved.gpu.as_ref().is_none_or(|need| has_devices(facts, need))
}

/// How many of the devices asked for one device is.
fn counts(gpu: &GpuFacts, need: &ResolvedGpu) -> u32 {
    let read = Catalogue::built_in().parse(&gpu.model);
    let known = Catalogue::built_in().product_named(&gpu.model).map(|(_, product)| &product.forms);
    let model = need.kind.model.is_none() || read.ok().and_then(|read| read.model) == need.kind.model;
    let name = gpu.model.to_ascii_lowercase();
    let is_known = |word: &Form| {
        let of_kind = |form: &Form| form == word || (*word == Form::Sxm && form.as_str().starts_with("sxm"));
        known.is_some_and(|forms| forms.iter().any(of_kind))
    };
    let form = need.kind.form.iter().all(|word: &Form| name.contains(word.as_str()) || is_known(word));
    let memory = need.kind.memory_gib.is_none_or(|asked| gpu.memory_gib >= asked);
    let named = need.kind.name.as_ref().is_none_or(|name| name.is_of(gpu.vendor, &gpu.model));
    if gpu.vendor != need.vendor || !model || !named || !form {
        return 0;
    }
    let mine = gpu.users == 1;
    let whole = gpu.mig.is_empty();
    let units = if whole { gpu.users } else { gpu.mig.values().sum() };
    match need.class {
        DeviceClass::Unit if !gpu.confidential => units,
        DeviceClass::Whole if whole && mine && memory && !gpu.confidential => 1,
        DeviceClass::Confidential if whole && mine && memory && gpu.confidential => 1,
        DeviceClass::Slice(profile)
            if (mine || need.products.is_none())
                && (memory || need.kind.memory_gib.is_some_and(|asked| asked <= u32::from(profile.memory_gb))) =>
        {
            gpu.mig.get(&profile).copied().unwrap_or(0)
        }
        _ => 0,
    }
}

fn has_devices(facts: &HardwareFacts, need: &ResolvedGpu) -> bool {
    if !need.kind.nvlink {
        return facts.gpus.iter().map(|gpu| counts(gpu, need)).fold(0, u32::saturating_add) >= need.count;
    }
    let mut groups: BTreeMap<u32, u32> = BTreeMap::new();
    for gpu in &facts.gpus {
        if let Some(group) = gpu.nvlink_group {
            let sum = groups.entry(group).or_default();
            *sum = sum.saturating_add(counts(gpu, need));
        }
    }
    groups.values().any(|sum| *sum >= need.count)
}
