//! What is looked for in a catalogue: the requirements of a repository, with what the user sets instead of them, higher or lower.

use orlop_core::hardware::Arch;
use orlop_core::hardware::gpu::Vendor;

use crate::analyze::requirements::LEGACY_NAMED;
use crate::analyze::{Feature, Requirements, Version};

/// A minimum and a wish; the wish may be relaxed down to the minimum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    /// What nothing lowers.
    pub least: u32,
    /// The desired state.
    pub wish: u32,
}

impl Range {
    /// A value that is both.
    #[must_use]
    pub const fn exactly(value: u32) -> Self {
        Self { least: value, wish: value }
    }
}

/// A need for cards.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GpuNeed {
    /// Who makes them; never relaxed.
    pub vendor: Vendor,
    /// How many.
    pub count: Range,
    /// Memory of one in GB; never relaxed.
    pub memory_gb: u32,
    /// The CUDA they must run.
    pub cuda: Option<Version>,
    /// The compute capability that code is compiled for, at least.
    pub capability: Option<Version>,
    /// Whether cards too old for present libraries are accepted.
    pub legacy: bool,
}

/// What is looked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Needs {
    /// The CPU architecture; never relaxed.
    pub arch: Arch,
    /// Cards, if any.
    pub gpu: Option<GpuNeed>,
    /// Hardware threads.
    pub cores: Range,
    /// Memory in GiB.
    pub ram_gib: Range,
    /// Disk in GB.
    pub disk_gb: Range,
    /// Special hardware; never relaxed.
    pub features: Vec<Feature>,
}

/// What the user sets in place of the requirements; none: as the requirements say.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Overrides {
    /// Hardware threads.
    pub cores: Option<u32>,
    /// Memory in GiB.
    pub ram_gib: Option<u32>,
    /// Disk in GB.
    pub disk_gb: Option<u32>,
    /// Number of GPU cards.
    pub gpu_count: Option<u32>,
    /// Memory of one card in GB.
    pub vram_gb: Option<u32>,
    /// Vendor of the cards.
    pub gpu_vendor: Option<Vendor>,
    /// No GPU is needed, whatever the requirements say.
    pub no_gpu: bool,
    /// Whether cards too old for present libraries are accepted.
    pub allow_legacy: bool,
    /// The CPU architecture.
    pub arch: Option<Arch>,
    /// Required special hardware that is not needed after all.
    pub without: Vec<Feature>,
}

impl Needs {
    /// Joins requirements and what the user says.
    #[must_use]
    pub fn of(requirements: &Requirements, overrides: &Overrides) -> Self {
        let range = |need: &crate::analyze::Need<u32>, said: Option<u32>| match said {
            Some(value) => Range::exactly(value),
            None => {
                let least = need.hard.unwrap_or(0);
                Range { least, wish: need.target.unwrap_or(0).max(least) }
            }
        };
        let arm = requirements.arch.target == Some("aarch64");
        let features = requirements.features.target.clone().unwrap_or_default();
        let gpu = gpu(requirements, overrides);
        Self {
            arch: overrides.arch.unwrap_or(if arm { Arch::Arm64 } else { Arch::Amd64 }),
            cores: range(&requirements.cpu_cores, overrides.cores),
            ram_gib: range(&requirements.ram_gb, overrides.ram_gib),
            disk_gb: range(&requirements.disk_gb, overrides.disk_gb),
            features: features
                .into_iter()
                .filter(|feature| gpu.is_some() || *feature != Feature::Nvlink)
                .filter(|feature| !overrides.without.contains(feature))
                .collect(),
            gpu,
        }
    }
}

fn gpu(requirements: &Requirements, overrides: &Overrides) -> Option<GpuNeed> {
    let said = overrides.gpu_count.is_some_and(|count| count > 0)
        || overrides.vram_gb.is_some()
        || overrides.gpu_vendor.is_some();
    if overrides.no_gpu || overrides.gpu_count == Some(0) || !(said || requirements.wants_gpu()) {
        return None;
    }
    let count = match overrides.gpu_count {
        Some(count) => Range::exactly(count),
        None => {
            let least = requirements.gpu_count.hard.unwrap_or(1).max(1);
            Range { least, wish: requirements.gpu_count.target.unwrap_or(1).max(least) }
        }
    };
    let vendor = overrides.gpu_vendor.or(requirements.gpu_vendor.target).unwrap_or(Vendor::Nvidia);
    Some(GpuNeed {
        vendor,
        count,
        memory_gb: overrides.vram_gb.or(requirements.gpu_memory_gb.target).unwrap_or(8),
        cuda: requirements.cuda_version.target.filter(|_| vendor == Vendor::Nvidia),
        capability: requirements.compute_capability.target.filter(|_| vendor == Vendor::Nvidia),
        legacy: overrides.allow_legacy || requirements.has_flag(LEGACY_NAMED),
    })
}
