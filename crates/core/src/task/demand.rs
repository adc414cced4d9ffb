//! What a job asks of the fleet: the part of its specification that placement, order and retries depend on.

use serde::{Deserialize, Serialize};

use crate::id::TenantName;
use crate::spec::job::{
    DEFAULT_GRACE_MS, DEFAULT_PRIORITY, Gang, Overlap, Prefer, Requires, Resources, Retry, Runtime,
};

/// The urgency of a job, 0 (most urgent) to 9; 5 unless said otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Priority(pub u8);

impl Priority {
    /// The least urgent.
    pub const LAST: Self = Self(9);

    /// The band it belongs to: High 0–3, Normal 4–7, Low 8–9.
    #[must_use]
    pub const fn band(self) -> Band {
        match self.0 {
            0..=3 => Band::High,
            4..=7 => Band::Normal,
            _ => Band::Low,
        }
    }

    /// Its place inside its band, 0 to 3.
    #[must_use]
    pub const fn step(self) -> usize {
        (self.0 & 3) as usize
    }
}

impl Default for Priority {
    fn default() -> Self {
        Self(DEFAULT_PRIORITY)
    }
}

/// A group of priorities with a guaranteed share of all placements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Band {
    /// Priorities 0 to 3.
    High,
    /// Priorities 4 to 7.
    Normal,
    /// Priorities 8 and 9.
    Low,
}

impl Band {
    /// All bands, the highest first.
    pub const ALL: [Self; 3] = [Self::High, Self::Normal, Self::Low];

    /// Its place among [`Band::ALL`].
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }
}

/// What a job asks of the fleet: the part of its specification that the scheduler reads. Commands, environment and artifacts are
/// no part of it, so many jobs share one.
///
/// ```
/// use orlop_core::task::{Band, Demand};
/// let demand = Demand::new("physics".parse()?);
/// assert_eq!((demand.priority.band(), demand.resources.cpu_m), (Band::Normal, 1000));
/// assert!(demand.check().is_ok());
/// # Ok::<(), orlop_core::id::IdError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Demand {
    /// Whose job it is.
    pub tenant: TenantName,
    /// How urgent it is among the tenant's jobs.
    #[serde(default)]
    pub priority: Priority,
    /// What each attempt holds.
    #[serde(default)]
    pub resources: Resources,
    /// How it is run.
    #[serde(default)]
    pub runtime: Runtime,
    /// Where it may run.
    #[serde(default)]
    pub requires: Requires,
    /// Where it would better run, at most 8.
    #[serde(default)]
    pub prefers: Vec<Prefer>,
    /// Wall limit of one attempt in milliseconds; 0 = none.
    #[serde(default)]
    pub timeout_ms: u64,
    /// How long an attempt probably takes, in milliseconds; a hint, never a promise.
    #[serde(default)]
    pub expected_ms: Option<u64>,
    /// From the request to end to the kill, in milliseconds.
    pub grace_ms: u64,
    /// How often it is tried again after its own failures, at most 100.
    #[serde(default)]
    pub retries: u32,
    /// Which failures, and when.
    #[serde(default)]
    pub retry: Retry,
    /// Members that start together.
    #[serde(default)]
    pub gang: Option<Gang>,
    /// Whether an attempt that is lost with its worker is followed by another one; else the job has failed.
    #[serde(default = "yes")]
    pub requeue_lost: bool,
    /// It may be ended for more urgent work.
    #[serde(default)]
    pub preemptible: bool,
    /// It may enter a draining worker.
    #[serde(default)]
    pub urgent: bool,
    /// Whether two attempts may run at once.
    #[serde(default)]
    pub overlap: Overlap,
}

const fn yes() -> bool {
    true
}

/// A demand that breaks a bound.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field} is {given}; use {allowed}")]
pub struct DemandError {
    /// The field.
    pub field: &'static str,
    /// What it holds.
    pub given: u64,
    /// What it may hold.
    pub allowed: &'static str,
}

impl Demand {
    /// The defaults for a job of `tenant`: one core, 256 Mi, priority 5, no limits, no retries.
    #[must_use]
    pub fn new(tenant: TenantName) -> Self {
        Self {
            tenant,
            priority: Priority::default(),
            resources: Resources::default(),
            runtime: Runtime::default(),
            requires: Requires::default(),
            prefers: Vec::new(),
            timeout_ms: 0,
            expected_ms: None,
            grace_ms: DEFAULT_GRACE_MS,
            retries: 0,
            retry: Retry::default(),
            gang: None,
            requeue_lost: true,
            preemptible: false,
            urgent: false,
            overlap: Overlap::default(),
        }
    }

    /// Checks every bound that placement relies on.
    ///
    /// # Errors
    /// The first field that is out of its bounds.
    pub fn check(&self) -> Result<(), DemandError> {
        let size = |len: usize| u64::try_from(len).unwrap_or(u64::MAX);
        let gang = self.gang.as_ref();
        let weights = self.prefers.iter().map(|prefer| u64::from(prefer.weight));
        let bounds = [
            ("priority", u64::from(self.priority.0), 0, 9, "0 to 9"),
            ("resources.cpu_m", self.resources.cpu_m, 1, u64::MAX, "1 or more"),
            ("resources.gpus.any_of", size(self.resources.gpus.any_of.len()), 0, 4, "at most 4 kinds"),
            ("resources.extras", size(self.resources.extras.len()), 0, 8, "at most 8 counters"),
            ("requires.labels", size(self.requires.labels.len()), 0, 64, "at most 64 conditions"),
            ("requires.features", size(self.requires.features.len()), 0, 64, "at most 64 features"),
            ("prefers", size(self.prefers.len()), 0, 8, "at most 8 conditions"),
            ("prefers.weight", weights.clone().max().unwrap_or(1), 1, 100, "1 to 100"),
            ("prefers.weight", weights.min().unwrap_or(1), 1, 100, "1 to 100"),
            ("retries", u64::from(self.retries), 0, 100, "at most 100"),
            ("retry.factor", u64::from(self.retry.factor_milli), 1000, u64::MAX, "1 or more"),
            ("retry.jitter", u64::from(self.retry.jitter_milli), 0, 1000, "0 to 1"),
            ("gang.size", gang.map_or(2, |gang| u64::from(gang.size)), 2, 4096, "2 to 4096 members"),
            (
                "gang.max_per_worker",
                gang.and_then(|gang| gang.max_per_worker).map_or(1, u64::from),
                1,
                4096,
                "1 or more",
            ),
        ];
        match bounds.into_iter().find(|(_, given, least, most, _)| given < least || given > most) {
            Some((field, given, _, _, allowed)) => Err(DemandError { field, given, allowed }),
            None => Ok(()),
        }
    }

    /// Whether an attempt of this job may inherit the slot of one of the other: same tenant, resources, requirements and
    /// runtime, and neither is a gang.
    #[must_use]
    pub fn inherits_from(&self, other: &Self) -> bool {
        let shape = |spec: &Self| (spec.tenant.clone(), spec.resources.clone(), spec.requires.clone(), spec.runtime);
        self.gang.is_none() && other.gang.is_none() && shape(self) == shape(other)
    }

    /// Attempts that one start of it makes: the members of a gang, else 1.
    #[must_use]
    pub fn members(&self) -> u32 {
        self.gang.as_ref().map_or(1, |gang| gang.size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn priorities_fall_into_three_bands() {
        let bands: Vec<Band> = (0..=9).map(|number| Priority(number).band()).collect();
        assert_eq!(bands.iter().filter(|band| **band == Band::High).count(), 4);
        assert_eq!((bands[3], bands[4], bands[7], bands[8]), (Band::High, Band::Normal, Band::Normal, Band::Low));
    }

    #[test]
    fn bounds_are_named_with_what_is_allowed() {
        let spec = Demand::new("t".parse().unwrap());
        assert_eq!(spec.check(), Ok(()));
        let wrong = Demand { priority: Priority(10), ..spec.clone() };
        insta::assert_snapshot!(wrong.check().unwrap_err(), @"priority is 10; use 0 to 9");
        let mut wrong = spec.clone();
        wrong.resources.cpu_m = 0;
        insta::assert_snapshot!(wrong.check().unwrap_err(), @"resources.cpu_m is 0; use 1 or more");
        let gang = Gang { size: 1, max_per_worker: None, same_label: None };
        insta::assert_snapshot!(Demand { gang: Some(gang), ..spec }.check().unwrap_err(), @"gang.size is 1; use 2 to 4096 members");
    }
}
