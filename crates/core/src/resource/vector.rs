//! Vectors of resources by name: what a job asks for, what a machine or a quota has. Owns exact arithmetic, fit and
//! dominant share; never places anything.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::amount::{Bytes, CpuMilli};
use super::name::{CPU, MEMORY, ResourceName};
use super::share::Share;
use crate::id::IdError;
use crate::quantity::{Quantity, QuantityError, Step};

/// Which way an amount that is no whole number of steps is rounded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rounding {
    /// Up, for requests: a job gets at least what it asks for.
    Up,
    /// Down, for capacities: no more is given than there is.
    Down,
}

/// A map of resources that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ResourceError {
    /// A key is not a resource name.
    #[error(transparent)]
    Name(#[from] IdError),
    /// A value is not an amount.
    #[error("resource {name}: {source}")]
    Quantity {
        /// The resource.
        name: ResourceName,
        /// What is wrong with it.
        source: QuantityError,
    },
    /// An amount is below zero.
    #[error("resource {name}: `{given}` is below zero; use 0 or more")]
    Negative {
        /// The resource.
        name: ResourceName,
        /// The amount.
        given: Quantity,
    },
}

/// A resource of which there is not enough.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lack {
    /// The resource.
    pub name: ResourceName,
    /// What is asked for, in steps of the resource.
    pub asked: u64,
    /// What there is, in steps of the resource.
    pub has: u64,
}

impl fmt::Display for Lack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (asked, has) = (quantity(&self.name, self.asked), quantity(&self.name, self.has));
        write!(f, "{}: needs {asked}, has {has}", self.name)
    }
}

/// Amounts by resource name, each in the steps of its name; what is not named is zero.
///
/// In JSON it is the map of Kubernetes, `{"cpu": "1500m", "memory": "1Gi"}`.
///
/// ```
/// use orlop_core::resource::{ResourceVector, Rounding};
/// let job = ResourceVector::parse([("cpu", "0.5"), ("memory", "1Gi")], Rounding::Up)?;
/// let node = ResourceVector::parse([("cpu", "4"), ("memory", "512Mi")], Rounding::Down)?;
/// assert!(!job.fits(&node));
/// assert_eq!(job.lacking(&node)[0].to_string(), "memory: needs 1Gi, has 512Mi");
/// # Ok::<(), orlop_core::resource::ResourceError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ResourceVector {
    /// Without zeros, so that equal vectors have equal maps.
    amounts: BTreeMap<ResourceName, u64>,
}

fn quantity(name: &ResourceName, steps: u64) -> Quantity {
    match name.step() {
        Step::One => Bytes(steps).quantity(),
        step => Quantity::from_steps(steps, step),
    }
}

impl ResourceVector {
    /// Nothing of anything.
    #[must_use]
    pub const fn new() -> Self {
        Self { amounts: BTreeMap::new() }
    }

    /// Reads a requests, limits, capacity or quota map; of a name given twice the amounts add up.
    ///
    /// # Errors
    /// A key is no resource name, a value is no quantity or below zero; the error names the key.
    pub fn parse<K: AsRef<str>, V: AsRef<str>>(
        map: impl IntoIterator<Item = (K, V)>,
        rounding: Rounding,
    ) -> Result<Self, ResourceError> {
        let mut vector = Self::new();
        for (key, value) in map {
            let name = ResourceName::new(key.as_ref())?;
            match value.as_ref().parse() {
                Ok(quantity) => vector.count(name, quantity, rounding)?,
                Err(source) => return Err(ResourceError::Quantity { name, source }),
            }
        }
        Ok(vector)
    }

    /// Counts amounts that are already read; of a name given twice the amounts add up.
    ///
    /// # Errors
    /// A key is no resource name, or an amount is below zero; the error names the key.
    pub fn from_quantities<K: AsRef<str>>(
        map: impl IntoIterator<Item = (K, Quantity)>,
        rounding: Rounding,
    ) -> Result<Self, ResourceError> {
        let mut vector = Self::new();
        for (key, quantity) in map {
            vector.count(ResourceName::new(key.as_ref())?, quantity, rounding)?;
        }
        Ok(vector)
    }

    fn count(&mut self, name: ResourceName, given: Quantity, rounding: Rounding) -> Result<(), ResourceError> {
        let steps = match rounding {
            Rounding::Up => given.round_up(name.step()),
            Rounding::Down => given.round_down(name.step()),
        };
        let Some(steps) = steps else {
            return Err(ResourceError::Negative { name, given });
        };
        let sum = self.get(name.as_str()).saturating_add(steps);
        self.set(name, sum);
        Ok(())
    }

    /// The amounts as a map of Kubernetes.
    #[must_use]
    pub fn to_quantities(&self) -> BTreeMap<String, Quantity> {
        self.amounts.iter().map(|(name, steps)| (name.to_string(), quantity(name, *steps))).collect()
    }

    /// How much of `name`, in steps of that resource; zero if it is not named.
    #[must_use]
    pub fn get(&self, name: &str) -> u64 {
        self.amounts.get(name).copied().unwrap_or(0)
    }

    /// Sets how much of `name`, in steps of that resource.
    pub fn set(&mut self, name: ResourceName, steps: u64) {
        if steps == 0 {
            self.amounts.remove(&name);
        } else {
            self.amounts.insert(name, steps);
        }
    }

    /// CPU in millicores.
    #[must_use]
    pub fn cpu(&self) -> CpuMilli {
        CpuMilli(self.get(CPU))
    }

    /// Memory in bytes.
    #[must_use]
    pub fn memory(&self) -> Bytes {
        Bytes(self.get(MEMORY))
    }

    /// The amounts above zero in steps of each resource, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&ResourceName, u64)> {
        self.amounts.iter().map(|(name, steps)| (name, *steps))
    }

    /// Whether it is nothing of anything.
    #[must_use]
    pub fn is_zero(&self) -> bool {
        self.amounts.is_empty()
    }

    /// Sum, or `None` if an amount passes `u64::MAX` steps.
    #[must_use]
    pub fn checked_add(&self, other: &Self) -> Option<Self> {
        let mut sum = self.clone();
        for (name, steps) in other.iter() {
            sum.set(name.clone(), self.get(name.as_str()).checked_add(steps)?);
        }
        Some(sum)
    }

    /// Sum, each amount at most `u64::MAX` steps.
    #[must_use]
    pub fn saturating_add(&self, other: &Self) -> Self {
        let mut sum = self.clone();
        for (name, steps) in other.iter() {
            sum.set(name.clone(), self.get(name.as_str()).saturating_add(steps));
        }
        sum
    }

    /// Difference, or `None` if an amount would fall below zero: exactly when `other` does not fit.
    #[must_use]
    pub fn checked_sub(&self, other: &Self) -> Option<Self> {
        let mut rest = self.clone();
        for (name, steps) in other.iter() {
            rest.set(name.clone(), self.get(name.as_str()).checked_sub(steps)?);
        }
        Some(rest)
    }

    /// Difference, each amount at least zero.
    #[must_use]
    pub fn saturating_sub(&self, other: &Self) -> Self {
        let mut rest = self.clone();
        for (name, steps) in other.iter() {
            rest.set(name.clone(), self.get(name.as_str()).saturating_sub(steps));
        }
        rest
    }

    /// Per name the larger amount, as requests from several sources are merged.
    #[must_use]
    pub fn larger_of(&self, other: &Self) -> Self {
        let mut larger = self.clone();
        for (name, steps) in other.iter() {
            larger.set(name.clone(), self.get(name.as_str()).max(steps));
        }
        larger
    }

    /// Product with a number of pieces, each amount at most `u64::MAX` steps.
    #[must_use]
    pub fn saturating_mul(&self, pieces: u64) -> Self {
        let mut product = Self::new();
        for (name, steps) in self.iter() {
            product.set(name.clone(), steps.saturating_mul(pieces));
        }
        product
    }

    /// Whether there is enough of everything in `free`.
    #[must_use]
    pub fn fits(&self, free: &Self) -> bool {
        self.iter().all(|(name, steps)| steps <= free.get(name.as_str()))
    }

    /// Every resource of which there is not enough in `free`, by name; empty exactly when it fits.
    #[must_use]
    pub fn lacking(&self, free: &Self) -> Vec<Lack> {
        let asked = self.iter().map(|(name, asked)| Lack { name: name.clone(), asked, has: free.get(name.as_str()) });
        asked.filter(|lack| lack.asked > lack.has).collect()
    }

    /// The greatest share of any resource in `total` (dominant resource fairness, Ghodsi et al. 2011), exact.
    ///
    /// Infinite if something is asked for of which `total` has nothing.
    #[must_use]
    pub fn dominant_share(&self, total: &Self) -> Share {
        self.iter().map(|(name, steps)| Share::new(steps, total.get(name.as_str()))).max().unwrap_or_default()
    }
}

impl fmt::Display for ResourceVector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts: Vec<String> = self.iter().map(|(name, steps)| format!("{name} {}", quantity(name, steps))).collect();
        f.pad(&if parts.is_empty() { "nothing".to_owned() } else { parts.join(", ") })
    }
}

impl Serialize for ResourceVector {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter().map(|(name, steps)| (name, quantity(name, steps))))
    }
}

impl<'de> Deserialize<'de> for ResourceVector {
    /// Amounts between two steps are rounded up, as requests; capacities are read with `parse`.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let map = BTreeMap::<String, Quantity>::deserialize(deserializer)?;
        Self::from_quantities(map, Rounding::Up).map_err(serde::de::Error::custom)
    }
}
