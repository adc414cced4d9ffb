//! Whether a machine fits, and every reason why not. Owns these values and their texts.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use super::device::DeviceNeed;
use super::machine::Machine;
use super::placement::{Alternative, Clause, LabelExpr, Taint};
use crate::resource::Lack;

/// The result for one machine.
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

/// A condition on labels that a machine does not meet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabelLack {
    /// The condition.
    pub asked: Clause,
    /// The labels of the machine that the condition is about.
    pub has: BTreeMap<String, String>,
}

impl LabelLack {
    /// What a machine with these labels lacks.
    #[must_use]
    pub fn new(asked: Clause, labels: &BTreeMap<String, String>) -> Self {
        let keys = asked.any_of.iter().flat_map(|one| &one.all_of).map(|expression| &expression.key);
        let has = keys.filter_map(|key| Some((key.clone(), labels.get(key)?.clone()))).collect();
        Self { asked, has }
    }
}

/// Values of a label that are said before the rest is counted.
const VALUES: usize = 6;

/// A condition with a few of its values.
fn shortened(expression: &LabelExpr) -> String {
    let more = expression.values.len().saturating_sub(VALUES);
    if more < 2 {
        return expression.to_string();
    }
    let few = LabelExpr { values: expression.values.iter().take(VALUES).cloned().collect(), ..expression.clone() };
    few.to_string().replace('}', &format!(" and {more} more}}"))
}

impl fmt::Display for LabelLack {
    /// Of several alternatives those that are about labels which the machine has, and what it has of them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reported = |one: &&Alternative| one.all_of.iter().any(|expression| self.has.contains_key(&expression.key));
        let mut about: Vec<&Alternative> = self.asked.any_of.iter().filter(reported).collect();
        if about.is_empty() {
            about = self.asked.any_of.iter().collect();
        }
        let one = |one: &Alternative| {
            let all: Vec<String> = one.all_of.iter().map(shortened).collect();
            if all.is_empty() { "anything".to_owned() } else { all.join(" and ") }
        };
        let any: Vec<String> = about.into_iter().map(one).collect();
        write!(f, "needs {}", if any.is_empty() { "nothing".to_owned() } else { any.join(", or ") })?;
        let has: Vec<String> = self.has.iter().map(|(key, value)| format!("{key} = {value}")).collect();
        if has.is_empty() { Ok(()) } else { write!(f, ", has {}", has.join(", ")) }
    }
}

/// A dimension in which a machine does not fit.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Failure {
    /// Its labels do not meet a clause.
    Label(LabelLack),
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
    pub(super) fn label(asked: Clause, machine: &Machine) -> Self {
        Self::Label(LabelLack::new(asked, &machine.labels))
    }

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
            Self::Label(lack) => write!(f, "{lack}"),
            Self::Taint(taint) => write!(f, "does not tolerate {taint}"),
            Self::Resource(lack) => write!(f, "{lack}"),
            Self::Device(lack) => write!(f, "needs {}, has {}", lack.asked, lack.has),
            Self::Arch { asked, has } => {
                write!(f, "needs CPU architecture {asked}, has {}", has.as_deref().unwrap_or("none named"))
            }
        }
    }
}
