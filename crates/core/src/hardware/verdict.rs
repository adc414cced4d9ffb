//! Whether a machine fits, and every dimension in which it does not. Owns the wording of explanations.

use std::fmt;

use serde::Serialize;

use super::device::DeviceNeed;
use super::machine::Machine;
use super::placement::{Clause, LabelExpr, Taint};
use crate::resource::Lack;

/// What is said about one machine.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub struct MachineFit {
    /// The machine.
    pub machine: String,
    /// Every dimension in which it does not fit.
    pub failures: Vec<Failure>,
}

impl MachineFit {
    /// Whether it fits.
    #[must_use]
    pub fn fits(&self) -> bool {
        self.failures.is_empty()
    }

    /// The verdicts that come nearest to a fit, at most three: the fewest failing dimensions, then by name.
    #[must_use]
    pub fn nearest(verdicts: impl IntoIterator<Item = Self>) -> Vec<Self> {
        let mut misses: Vec<Self> = verdicts.into_iter().filter(|verdict| !verdict.fits()).collect();
        misses.sort_by(|a, b| (a.failures.len(), &a.machine).cmp(&(b.failures.len(), &b.machine)));
        misses.truncate(3);
        misses
    }
}

impl fmt::Display for MachineFit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.fits() {
            return write!(f, "{} fits", self.machine);
        }
        let why: Vec<String> = self.failures.iter().map(ToString::to_string).collect();
        write!(f, "{}: {}", self.machine, why.join(", "))
    }
}

/// Devices of which there are not enough.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DeviceLack {
    /// What is asked for.
    pub asked: DeviceNeed,
    /// How many of that kind one group of the machine's devices has.
    pub has: usize,
}

/// A dimension in which a machine does not fit.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Failure {
    /// Its labels do not meet a clause.
    Label(Clause),
    /// It keeps this work away.
    Taint(Taint),
    /// It has too little of a resource.
    Resource(Lack),
    /// It has too few devices of the kind.
    Device(DeviceLack),
    /// Its CPUs are of another architecture.
    Arch {
        /// The one asked for.
        asked: String,
        /// Its own, where it tells.
        has: Option<String>,
    },
}

impl Failure {
    pub(super) fn arch(asked: &LabelExpr, machine: &Machine) -> Self {
        let values: Vec<&str> = asked.values.iter().map(String::as_str).collect();
        Self::Arch { asked: values.join(" or "), has: machine.labels.get(&asked.key).cloned() }
    }

    /// The dimension, in one word: `Label`, `Taint`, `Resource`, `Device`, `Arch`.
    #[must_use]
    pub const fn dimension(&self) -> &'static str {
        match self {
            Self::Label(_) => "Label",
            Self::Taint(_) => "Taint",
            Self::Resource(_) => "Resource",
            Self::Device(_) => "Device",
            Self::Arch { .. } => "Arch",
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Label(clause) => write!(f, "needs {clause}"),
            Self::Taint(taint) => write!(f, "does not tolerate {taint}"),
            Self::Resource(lack) => write!(f, "{lack}"),
            Self::Device(lack) => write!(f, "needs {}, has {}", lack.asked, lack.has),
            Self::Arch { asked, has } => {
                write!(f, "needs CPU architecture {asked}, has {}", has.as_deref().unwrap_or("none named"))
            }
        }
    }
}
