//! What this machine offers: CPUs, memory, GPUs, features. Owns finding it out and what the agent keeps for itself; never
//! measures load.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use orlop_cloud::runtime::worker::GpuDevice;
use orlop_core::hardware::gpu::{ModelKey, Vendor, parse_gpu_type};
use orlop_core::id::TenantName;
use orlop_scheduler::event::{Capabilities, GpuDevices};
use orlop_scheduler::job::Runtime;

use super::gpus::Gpu;

/// Kept for the agent and the system, at least.
const MEMORY_KEPT: u64 = 256 << 20;

/// What may be said about the machine instead of finding it out.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Offer {
    /// Millicores; none: all CPUs.
    pub cpu_m: Option<u64>,
    /// Bytes; none: all memory but max(256 Mi, 5 %).
    pub memory_bytes: Option<u64>,
    /// GPUs; none: those that are found.
    pub gpus: Option<Vec<Gpu>>,
    /// Counters by name.
    pub extras: BTreeMap<String, u64>,
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// The most attempts at once; none: four for each logical CPU.
    pub max_jobs: Option<u32>,
    /// Whose jobs are taken; none = everybody's.
    pub tenants: BTreeSet<TenantName>,
}

impl Offer {
    /// One of several equal parts of this machine, for as many workers on it; all of it where there is one part. GPUs are
    /// whole: they are dealt out in turn.
    #[must_use]
    pub fn part(number: usize, of: usize) -> Self {
        let whole = Self::default();
        if of <= 1 {
            return whole;
        }
        let found = gpus(&whole);
        let all = capabilities(&whole, &found, &BTreeSet::new());
        let parts = of as u64;
        Self {
            cpu_m: Some((all.cpu_m / parts).max(1)),
            memory_bytes: Some(all.memory_bytes / parts),
            gpus: Some(found.into_iter().skip(number).step_by(of).collect()),
            max_jobs: Some(u32::try_from(u64::from(all.max_jobs).div_ceil(parts)).unwrap_or(u32::MAX)),
            ..whole
        }
    }
}

/// The GPUs of this machine.
#[must_use]
pub fn gpus(offer: &Offer) -> Vec<Gpu> {
    offer.gpus.clone().unwrap_or_else(|| nvidia(Path::new("/proc/driver/nvidia/gpus")))
}

/// What the worker advertises.
#[must_use]
pub fn capabilities(offer: &Offer, gpus: &[Gpu], runtimes: &BTreeSet<Runtime>) -> Capabilities {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    let memory = memory_total();
    let kept = MEMORY_KEPT.max(memory / 20);
    let mut features: BTreeSet<String> = BTreeSet::new();
    if runtimes.contains(&Runtime::Docker) {
        features.insert("docker".to_owned());
    }
    if Path::new("/sys/fs/cgroup/cgroup.controllers").exists() {
        features.insert("cgroup2".to_owned());
    }
    if Path::new("/dev/sev-guest").exists() {
        features.insert("tee:sev-snp".to_owned());
    }
    Capabilities {
        cpu_m: offer.cpu_m.unwrap_or(cpus * 1000),
        memory_bytes: offer.memory_bytes.unwrap_or_else(|| memory.saturating_sub(kept)),
        gpus: by_kind(gpus),
        extras: offer.extras.clone(),
        labels: offer.labels.clone(),
        features,
        runtimes: runtimes.clone(),
        max_jobs: offer.max_jobs.unwrap_or_else(|| u32::try_from(cpus * 4).unwrap_or(u32::MAX)),
        tenants: offer.tenants.clone(),
    }
}

/// Devices counted by kind. Those of makers or models that have no name here are not offered.
fn by_kind(gpus: &[Gpu]) -> Vec<GpuDevices> {
    let mut counts: BTreeMap<(&str, &str, u64), u32> = BTreeMap::new();
    for gpu in gpus {
        *counts.entry((&gpu.device.vendor, &gpu.model, gpu.memory_bytes)).or_default() += 1;
    }
    let named = counts.into_iter().filter_map(|((vendor, model, memory_bytes), count)| {
        let vendor: Vendor = vendor.parse().ok()?;
        Some(GpuDevices { vendor, model: ModelKey::new(model).ok()?, memory_bytes, count })
    });
    named.collect()
}

/// Bytes of memory of this machine.
pub(super) fn memory_total() -> u64 {
    meminfo("MemTotal:")
}

/// A line of `/proc/meminfo`, in bytes.
pub(super) fn meminfo(name: &str) -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.split_ascii_whitespace().next()?.parse().ok());
    value.unwrap_or(0_u64).saturating_mul(1024)
}

/// The GPUs that NVIDIA's driver tells of, in its order. Memory is not told there; that of a known product is in its name.
fn nvidia(folder: &Path) -> Vec<Gpu> {
    let mut found: Vec<(u32, String)> = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let text = fs::read_to_string(entry.path().join("information")).unwrap_or_default();
        let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name).map(str::trim));
        let minor = field("Device Minor:").and_then(|minor| minor.parse().ok());
        let model = field("Model:").map(|model| model.to_lowercase().replace(' ', "-"));
        found.extend(minor.zip(model));
    }
    found.sort();
    let gpu = |(index, name): (u32, String)| {
        let read = parse_gpu_type(&name).unwrap_or_default();
        let model = read.model.map_or_else(|| name.trim_start_matches("nvidia-").to_owned(), String::from);
        let memory_bytes = read.memory_gib.map_or(0, |gib| u64::from(gib) << 30);
        Gpu { device: GpuDevice { vendor: "nvidia".to_owned(), index }, model, memory_bytes }
    };
    found.into_iter().map(gpu).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s12_what_is_offered_is_the_machine_less_the_reserve() {
        let found = capabilities(&Offer::default(), &[], &BTreeSet::from([Runtime::Process]));
        let total = memory_total();
        assert_eq!(found.memory_bytes, total - MEMORY_KEPT.max(total / 20));
        assert!(found.cpu_m >= 1000 && u64::from(found.max_jobs) == found.cpu_m / 1000 * 4);
        let offer = Offer { cpu_m: Some(500), memory_bytes: Some(7), max_jobs: Some(1), ..Offer::default() };
        let said = capabilities(&offer, &[], &BTreeSet::new());
        assert_eq!((said.cpu_m, said.memory_bytes, said.max_jobs), (500, 7, 1));
    }

    #[test]
    fn s10_parts_of_a_machine_are_no_more_than_it() {
        let whole = capabilities(&Offer::default(), &[], &BTreeSet::new());
        assert_eq!(capabilities(&Offer::part(0, 1), &[], &BTreeSet::new()), whole);
        let parts: Vec<_> = (0..3).map(|number| capabilities(&Offer::part(number, 3), &[], &BTreeSet::new())).collect();
        assert!(parts.iter().map(|part| part.cpu_m).sum::<u64>() <= whole.cpu_m);
        assert!(parts.iter().map(|part| part.memory_bytes).sum::<u64>() <= whole.memory_bytes);
        assert!(parts.iter().all(|part| part.cpu_m > 0 && part.max_jobs > 0));
    }

    #[test]
    fn gpus_of_nvidia_are_found_in_the_order_of_their_numbers() {
        let dir = tempfile::tempdir().unwrap();
        for (name, minor, model) in [
            ("0000:01:00.0", 1, "NVIDIA H100"),
            ("0000:02:00.0", 0, "NVIDIA H100"),
            ("0000:03:00.0", 2, "NVIDIA A100-SXM4-40GB"),
            ("0000:04:00.0", 3, "NVIDIA Voodoo 5"),
        ] {
            fs::create_dir(dir.path().join(name)).unwrap();
            let text = format!("Model: \t\t {model}\nIRQ: 1\nDevice Minor: \t {minor}\n");
            fs::write(dir.path().join(name).join("information"), text).unwrap();
        }
        let found = nvidia(dir.path());
        assert_eq!(found.iter().map(|gpu| gpu.device.index).collect::<Vec<_>>(), [0, 1, 2, 3]);
        assert_eq!((found[0].model.as_str(), found[0].memory_bytes), ("h100", 0));
        // A product's name is its model and its nominal memory; a name that no model has stands as it is.
        assert_eq!((found[2].model.as_str(), found[2].memory_bytes), ("a100", 40 << 30));
        assert_eq!((found[3].model.as_str(), found[3].memory_bytes), ("voodoo-5", 0));
        assert_eq!(by_kind(&found).iter().map(|kind| kind.count).collect::<Vec<_>>(), [1, 2]);
    }
}
