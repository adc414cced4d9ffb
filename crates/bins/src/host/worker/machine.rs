//! What this machine offers: CPUs, memory, GPUs, features. Never measures load.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use orlop_core::hardware::fleet::is_derived;
use orlop_core::hardware::gpu::{ModelKey, Vendor};
use orlop_core::hardware::{Arch, GpuFacts, HardwareFacts, TeeKind, derived};
use orlop_core::id::TenantName;
use orlop_core::resource::{Bytes, CpuMilli};
use orlop_scheduler::event::{Capabilities, GpuDevices, GpuUnit};
use orlop_scheduler::job::Runtime;

use super::gpus::Gpu;
use super::nvidia;

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
    offer.gpus.clone().unwrap_or_else(nvidia::detect)
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
        gpu_units: units(gpus),
        extras: offer.extras.clone(),
        labels: labels(offer, gpus),
        features,
        runtimes: runtimes.clone(),
        max_jobs: offer.max_jobs.unwrap_or_else(|| u32::try_from(cpus * 4).unwrap_or(u32::MAX)),
        tenants: offer.tenants.clone(),
    }
}

/// The labels people gave it, and those that follow from what it is. What people say under the
/// names of the latter does not count.
fn labels(offer: &Offer, gpus: &[Gpu]) -> BTreeMap<String, String> {
    let mut labels = offer.labels.clone();
    labels.retain(|key, _| !is_derived(key));
    let device = |gpu: &Gpu| {
        let memory_gib = u32::try_from(gpu.memory_bytes >> 30).unwrap_or(u32::MAX);
        let facts = GpuFacts::whole(gpu.device.vendor.parse().ok()?, gpu.model.clone(), memory_gib);
        // Whatever is connected with all others is of one group with them.
        Some(GpuFacts { nvlink_group: gpu.nvlink.then_some(0), ..facts })
    };
    if let Some(arch) = arch(std::env::consts::ARCH) {
        let facts = HardwareFacts {
            arch,
            cpu_milli: CpuMilli(0),
            memory_bytes: Bytes(0),
            disk_bytes: Bytes(0),
            gpus: gpus.iter().filter_map(device).collect(),
            tees: tees(Path::new("/dev")),
            labels: BTreeMap::new(),
            taints: Vec::new(),
        };
        labels.extend(derived(&facts));
    }
    labels
}

/// An architecture as this machine's compiler names it.
fn arch(name: &str) -> Option<Arch> {
    Some(match name {
        "x86_64" => Arch::Amd64,
        "aarch64" => Arch::Arm64,
        "powerpc64" => Arch::Ppc64le,
        "s390x" => Arch::S390x,
        "riscv64" => Arch::Riscv64,
        _ => return None,
    })
}

/// Trusted execution that this machine offers to programs: those whose device is there.
fn tees(devices: &Path) -> BTreeSet<TeeKind> {
    let known = [("sgx_enclave", TeeKind::Sgx), ("tdx_guest", TeeKind::Tdx), ("sev-guest", TeeKind::SevSnp)];
    known.into_iter().filter(|(device, _)| devices.join(device).exists()).map(|(_, kind)| kind).collect()
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

/// Devices one by one, those of which the UUID is known.
fn units(gpus: &[Gpu]) -> Vec<GpuUnit> {
    let unit = |gpu: &Gpu| {
        let (vendor, model) = (gpu.device.vendor.parse().ok()?, ModelKey::new(gpu.model.as_str()).ok()?);
        Some(GpuUnit { vendor, model, index: gpu.device.index, uuid: gpu.uuid.clone()? })
    };
    gpus.iter().filter_map(unit).collect()
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

#[cfg(test)]
mod tests {
    use orlop_cloud::runtime::worker::GpuDevice;
    use orlop_core::hardware::fleet::demand;
    use orlop_core::hardware::{HardwareInput, Resources, Tables, resolve};

    use super::*;

    #[test]
    fn what_is_offered_is_the_machine_less_the_reserve() {
        let found = capabilities(&Offer::default(), &[], &BTreeSet::from([Runtime::Process]));
        let total = memory_total();
        assert_eq!(found.memory_bytes, total - MEMORY_KEPT.max(total / 20));
        assert!(found.cpu_m >= 1000 && u64::from(found.max_jobs) == found.cpu_m / 1000 * 4);
        let offer = Offer { cpu_m: Some(500), memory_bytes: Some(7), max_jobs: Some(1), ..Offer::default() };
        let said = capabilities(&offer, &[], &BTreeSet::new());
        assert_eq!((said.cpu_m, said.memory_bytes, said.max_jobs), (500, 7, 1));
    }

    #[test]
    fn parts_of_a_machine_are_no_more_than_it() {
        let whole = capabilities(&Offer::default(), &[], &BTreeSet::new());
        assert_eq!(capabilities(&Offer::part(0, 1), &[], &BTreeSet::new()), whole);
        let parts: Vec<_> = (0..3).map(|number| capabilities(&Offer::part(number, 3), &[], &BTreeSet::new())).collect();
        assert!(parts.iter().map(|part| part.cpu_m).sum::<u64>() <= whole.cpu_m);
        assert!(parts.iter().map(|part| part.memory_bytes).sum::<u64>() <= whole.memory_bytes);
        assert!(parts.iter().all(|part| part.cpu_m > 0 && part.max_jobs > 0));
    }

    #[test]
    fn labels_follow_from_hardware_so_that_rendered_needs_match() {
        let gpu = |index| Gpu {
            device: GpuDevice::numbered("nvidia", index),
            model: "a100".to_owned(),
            uuid: None,
            memory_bytes: 40 << 30,
            nvlink: true,
        };
        let said = [("zone", "a"), ("orlop/gpu-count", "99"), ("orlop/tee-tdx", "true")];
        let labels = said.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        let found = capabilities(&Offer { labels, ..Offer::default() }, &[gpu(0), gpu(1)], &BTreeSet::new());
        let label = |key: &str| found.labels.get(key).map(String::as_str);
        assert_eq!((label("zone"), label("orlop/gpu-count")), (Some("a"), Some("2")), "nobody says more than there is");
        assert_eq!((label("orlop/gpu-vendor"), label("orlop/gpu-model")), (Some("nvidia"), Some("a100")));
        assert_eq!((label("orlop/gpu-memory-gib"), label("orlop/gpu-nvlink")), (Some("40"), Some("true")));
        let apart = [Gpu { nvlink: false, ..gpu(0) }, Gpu { nvlink: false, ..gpu(1) }];
        let apart = capabilities(&Offer::default(), &apart, &BTreeSet::new());
        assert_eq!(apart.labels.get("orlop/gpu-nvlink"), None, "nobody says that they are connected");
        assert_eq!(label("orlop/tee-tdx").is_some(), Path::new("/dev/tdx_guest").exists());
        // What a need is rendered to finds the worker, by every one of its labels.
        let arch = arch(std::env::consts::ARCH).unwrap();
        let input = serde_json::json!({"cpuArch": arch.to_string(), "gpuType": "a100", "gpuCount": 2, "nvlink": true,
            "customLabels": {"zone": "a"}});
        let input: HardwareInput = serde_json::from_value(input).unwrap();
        let needs = input.requirements(&Tables::default()).unwrap();
        let need = demand(&resolve(&needs, &Tables::default()).unwrap(), &Resources::default()).unwrap();
        assert_eq!(need.requires.labels.len(), 3, "{:?}", need.requires);
        assert!(need.requires.labels.iter().all(|need| need.matches(&found.labels)), "{:?}", found.labels);
    }

    #[test]
    fn trusted_execution_is_what_has_a_device() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("sgx_enclave"), "").unwrap();
        fs::write(dir.path().join("sev-guest"), "").unwrap();
        assert_eq!(tees(dir.path()), BTreeSet::from([TeeKind::Sgx, TeeKind::SevSnp]));
        assert_eq!((arch("x86_64"), arch("aarch64"), arch("pdp11")), (Some(Arch::Amd64), Some(Arch::Arm64), None));
    }
}
