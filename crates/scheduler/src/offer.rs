//! What a worker offers: amounts, devices, counters, labels. Owns the values, how they are built and what makes an offer
//! useless; places nothing.

use std::collections::{BTreeMap, BTreeSet};

use orlop_core::hardware::gpu::{ModelKey, Vendor};
use orlop_core::id::TenantName;
use serde::{Deserialize, Serialize};

use crate::job::Runtime;

/// Devices of one kind that a worker has.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct GpuDevices {
    /// Their vendor.
    pub vendor: Vendor,
    /// Their model.
    pub model: ModelKey,
    /// Memory of one device in bytes.
    pub memory_bytes: u64,
    /// How many.
    pub count: u32,
}

/// A text that names no kind of device.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{given}` names no kind of GPU: {problem}; write it as <vendor>/<model>, for example nvidia/a100")]
pub struct GpuKindError {
    /// The text, cut to 64 characters.
    pub given: String,
    /// What is wrong with it.
    pub problem: String,
}

impl GpuDevices {
    /// `count` devices of a kind, written `<vendor>/<model>`, with `memory_bytes` bytes of memory each.
    ///
    /// ```
    /// use orlop_scheduler::event::GpuDevices;
    ///
    /// let devices = GpuDevices::new("nvidia/a100", 80 << 30, 8)?;
    /// assert_eq!((devices.model.as_str(), devices.count), ("a100", 8));
    /// assert_eq!(
    ///     GpuDevices::new("a100", 80 << 30, 8).unwrap_err().to_string(),
    ///     "`a100` names no kind of GPU: it has no `/`; write it as <vendor>/<model>, for example nvidia/a100"
    /// );
    /// # Ok::<(), orlop_scheduler::event::GpuKindError>(())
    /// ```
    ///
    /// # Errors
    /// The text names no vendor that is known, or no model.
    pub fn new(kind: &str, memory_bytes: u64, count: u32) -> Result<Self, GpuKindError> {
        let wrong = |problem: String| GpuKindError { given: kind.chars().take(64).collect(), problem };
        let (vendor, model) = kind.split_once('/').ok_or_else(|| wrong("it has no `/`".to_owned()))?;
        let vendor = vendor.parse::<Vendor>().map_err(|error| wrong(error.to_string()))?;
        let model = ModelKey::new(model).map_err(|error| wrong(error.to_string()))?;
        Ok(Self { vendor, model, memory_bytes, count })
    }
}

/// One device of a worker or one slice of it, for those who look at the worker; what is placed is counted by kind.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct GpuUnit {
    /// Its vendor.
    pub vendor: Vendor,
    /// Its model.
    pub model: ModelKey,
    /// Its number; of a slice, that of its device.
    pub index: u32,
    /// Its UUID.
    pub uuid: String,
}

/// What a worker offers to jobs: the resources of its machine without those it keeps for itself. [`Capabilities::new`] gives an offer
/// that takes jobs; the default is an empty one, which takes none.
///
/// ```
/// use orlop_scheduler::event::{Capabilities, GpuDevices};
///
/// let offer = Capabilities::new(64_000, 512 << 30)
///     .gpus(GpuDevices::new("nvidia/a100", 80 << 30, 8)?)
///     .extra("licence", 3)
///     .label("zone", "b")
///     .max_jobs(100);
/// assert_eq!(offer.check(), Ok(()));
/// assert_eq!(
///     Capabilities::default().check().unwrap_err().to_string(),
///     "`cpu_m` is 0, so that no job fits; offer 1 or more"
/// );
/// # Ok::<(), orlop_scheduler::event::GpuKindError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Capabilities {
    /// Millicores.
    pub cpu_m: u64,
    /// Bytes.
    pub memory_bytes: u64,
    /// Devices by kind.
    #[serde(default)]
    pub gpus: Vec<GpuDevices>,
    /// Devices and slices one by one, those of which the UUID is known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gpu_units: Vec<GpuUnit>,
    /// Counters by name.
    #[serde(default)]
    pub extras: BTreeMap<String, u64>,
    /// Labels, at most 64.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// Features.
    #[serde(default)]
    pub features: BTreeSet<String>,
    /// How it can run jobs.
    pub runtimes: BTreeSet<Runtime>,
    /// The most attempts at once.
    pub max_jobs: u32,
    /// Whose jobs it takes; none = everybody's.
    #[serde(default)]
    pub tenants: BTreeSet<TenantName>,
}

/// An offer that no job fits, whatever it asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{field}` is {given}, so that no job fits; offer {remedy}")]
pub struct OfferError {
    /// The field.
    pub field: &'static str,
    /// What it holds.
    pub given: &'static str,
    /// What to put there.
    pub remedy: &'static str,
}

impl Capabilities {
    /// An offer of millicores and bytes of memory: for jobs that run as processes, of all tenants, and as many at once as fit.
    #[must_use]
    pub fn new(cpu_m: u64, memory_bytes: u64) -> Self {
        Self { cpu_m, memory_bytes, runtimes: [Runtime::default()].into(), max_jobs: u32::MAX, ..Self::default() }
    }

    /// With these devices too.
    #[must_use]
    pub fn gpus(mut self, devices: GpuDevices) -> Self {
        self.gpus.push(devices);
        self
    }

    /// With an amount of a counter, for example licences or bytes of a disk.
    #[must_use]
    pub fn extra(mut self, name: impl Into<String>, amount: u64) -> Self {
        self.extras.insert(name.into(), amount);
        self
    }

    /// With a label, by which jobs choose.
    #[must_use]
    pub fn label(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels.insert(key.into(), value.into());
        self
    }

    /// With a feature, which jobs may require.
    #[must_use]
    pub fn feature(mut self, name: impl Into<String>) -> Self {
        self.features.insert(name.into());
        self
    }

    /// Running jobs in these ways, and in no other.
    #[must_use]
    pub fn runtimes(mut self, runtimes: impl IntoIterator<Item = Runtime>) -> Self {
        self.runtimes = runtimes.into_iter().collect();
        self
    }

    /// With at most `most` attempts at once.
    #[must_use]
    pub fn max_jobs(mut self, most: u32) -> Self {
        self.max_jobs = most;
        self
    }

    /// For jobs of this tenant only, and of others that are added in the same way.
    #[must_use]
    pub fn tenant(mut self, name: TenantName) -> Self {
        self.tenants.insert(name);
        self
    }

    /// Whether any job could ever run there.
    ///
    /// # Errors
    /// The first field that rules out every job. A worker that registers by events may offer so little, for as long as it
    /// likes; one that [joins](crate::engine::Scheduler::join) may not.
    pub fn check(&self) -> Result<(), OfferError> {
        let rules = [
            (self.cpu_m == 0, "cpu_m", "0", "1 or more"),
            (self.max_jobs == 0, "max_jobs", "0", "1 or more"),
            (self.runtimes.is_empty(), "runtimes", "empty", "at least one, for example Process"),
        ];
        match rules.into_iter().find(|(broken, ..)| *broken) {
            Some((_, field, given, remedy)) => Err(OfferError { field, given, remedy }),
            None => Ok(()),
        }
    }
}
