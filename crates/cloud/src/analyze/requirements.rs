//! What a machine must have, field by field, with the evidence. Owns the value and its
//! JSON; the rules that fill it stand in `decide`.

use orlop_core::hardware::gpu::Vendor;
use serde::Serialize;

use super::fact::{Confidence, Fact, Feature};
use super::os::OsType;
use super::version::Version;

/// Where a value comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Evidence {
    /// The file, by its path in the repository.
    pub file: String,
    /// The line, counted from 1; 0 for the file as a whole.
    pub line: u32,
    /// The rule.
    pub rule: &'static str,
    /// The words, as data.
    pub quote: String,
}

impl From<&Fact> for Evidence {
    fn from(fact: &Fact) -> Self {
        Self { file: fact.file.clone(), line: fact.line, rule: fact.rule, quote: fact.quote.clone() }
    }
}

/// A field: its minimum, its wish, how sure both are and where they come from.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Need<T> {
    /// What nothing but the user lowers.
    pub hard: Option<T>,
    /// What is wanted; never less than the minimum.
    pub target: Option<T>,
    /// How sure the fact is that set it.
    pub confidence: Confidence,
    /// The facts behind it, the strongest first, at most ten.
    pub evidence: Vec<Evidence>,
}

/// Facts shown behind one field.
const MAX_EVIDENCE: usize = 10;

impl<T> Need<T> {
    /// A value that rests on nothing but a default.
    #[must_use]
    pub fn default_of(target: T) -> Self {
        Self { hard: None, target: Some(target), confidence: Confidence::Default, evidence: Vec::new() }
    }

    /// No value, and nothing known.
    #[must_use]
    pub const fn unknown() -> Self {
        Self { hard: None, target: None, confidence: Confidence::Default, evidence: Vec::new() }
    }

    /// A value with the facts behind it.
    pub(super) fn of(hard: Option<T>, target: Option<T>, facts: &[&Fact]) -> Self {
        let confidence = facts.iter().map(|fact| fact.confidence).max().unwrap_or(Confidence::Default);
        let mut sorted = facts.to_vec();
        sorted.sort_by_key(|fact| std::cmp::Reverse((fact.strength, fact.confidence)));
        Self { hard, target, confidence, evidence: sorted.into_iter().take(MAX_EVIDENCE).map(Evidence::from).collect() }
    }
}

/// What a machine must have. Cores are hardware threads, memory is in GiB, disk in GB, memory of a card in GB.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Requirements {
    /// Hardware threads.
    pub cpu_cores: Need<u32>,
    /// Memory in GiB.
    pub ram_gb: Need<u32>,
    /// Disk in GB.
    pub disk_gb: Need<u32>,
    /// Whether a GPU is needed.
    pub gpu_required: Need<bool>,
    /// How many cards.
    pub gpu_count: Need<u32>,
    /// Whose cards.
    pub gpu_vendor: Need<Vendor>,
    /// Memory of one card in GB.
    pub gpu_memory_gb: Need<u32>,
    /// Whether CUDA is needed.
    pub cuda_required: Need<bool>,
    /// Which CUDA, at least.
    pub cuda_version: Need<Version>,
    /// The compute capability of the oldest card of NVIDIA that is accepted.
    pub compute_capability: Need<Version>,
    /// Whether ROCm is needed.
    pub rocm_required: Need<bool>,
    /// The CPU architecture, `x86_64` or `aarch64`.
    pub arch: Need<&'static str>,
    /// The operating system.
    pub os_type: Need<OsType>,
    /// Its version, as it is written.
    pub os_version: Need<String>,
    /// Which Python.
    pub python_version: Need<Version>,
    /// Special hardware.
    pub features: Need<Vec<Feature>>,
    /// What people should read.
    pub special_requirements: Need<Vec<String>>,
    /// How long it is wanted, in hours.
    pub duration_hours: Need<u32>,
    /// What variants of files would ask for that were not chosen, one line a file, and makers that were not taken.
    pub alternatives: Vec<String>,
    /// What stands out: lines that try to give instructions, low confidence, old cards that are named.
    pub flags: Vec<String>,
}

/// The flag of requirements that rest on too little.
pub(crate) const LOW_CONFIDENCE: &str = "low confidence";
/// The flag of a repository in which nothing tells of the software, so that nobody knows whether it needs a GPU.
pub(crate) const GPU_UNKNOWN: &str = "gpu-unknown";
/// How the flag of a file begins that may say what is needed and is not understood.
pub const NOT_UNDERSTOOD: &str = "not-understood";
/// The flag of a repository that needs a TPU.
pub(crate) const TPU_NEEDED: &str = "TPU needed: no site has one";
/// The flag of a repository that names a card too old for present libraries.
pub(crate) const LEGACY_NAMED: &str = "legacy GPU named";

impl Requirements {
    /// Whether a GPU is needed, by evidence or wish.
    #[must_use]
    pub fn wants_gpu(&self) -> bool {
        self.gpu_required.target == Some(true)
    }

    /// Whether a flag is set.
    #[must_use]
    pub fn has_flag(&self, flag: &str) -> bool {
        self.flags.iter().any(|set| set == flag)
    }
}
