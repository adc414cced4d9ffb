//! Where work may run: conditions on labels, tolerated taints, resources and devices of one machine. Owns these values and
//! whether a machine meets them; other modules derive them, and adapters write them for a substrate.
//!
//! ```
//! use std::collections::BTreeMap;
//! use orlop_core::hardware::placement::{LabelExpr, Operator};
//! let condition = LabelExpr::new("gpu", Operator::In, ["a100", "h100"]);
//! let labels = BTreeMap::from([("gpu".to_owned(), "h100".to_owned())]);
//! assert!(condition.matches(&labels) && !LabelExpr::equal("gpu", "l4").matches(&labels));
//! assert_eq!(condition.to_string(), "gpu in {a100, h100}");
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};

use super::TeeKind;
pub use super::device::{DeviceClaim, DeviceClass, DeviceNeed, DeviceSource};
use super::machine::Machine;
use super::verdict::{Failure, MachineFit};
use crate::named::named_enum;
use crate::resource::ResourceVector;

named_enum! {
    /// How a label is compared.
    pub enum Operator("label operator") {
        /// The key is there with one of the values.
        In,
        /// The key is absent, or has none of the values.
        NotIn,
        /// The key is there.
        Exists,
        /// The key is absent.
        DoesNotExist,
        /// The value is a whole number greater than the given one.
        Gt,
        /// The value is a whole number less than the given one.
        Lt,
    }
}

/// A condition on one label.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LabelExpr {
    /// The label's key.
    pub key: String,
    /// How it is compared.
    pub op: Operator,
    /// With what; sorted, exactly one for Gt and Lt, none for Exists and DoesNotExist.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub values: BTreeSet<String>,
}

impl fmt::Display for LabelExpr {
    /// As explanations say it: `gpu in {a100, h100}`, `memory > 73728`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let values = self.values.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
        match self.op {
            Operator::In if self.values.len() == 1 => write!(f, "{} = {values}", self.key),
            Operator::In => write!(f, "{} in {{{values}}}", self.key),
            Operator::NotIn => write!(f, "{} not in {{{values}}}", self.key),
            Operator::Exists => write!(f, "{} is set", self.key),
            Operator::DoesNotExist => write!(f, "{} is not set", self.key),
            Operator::Gt => write!(f, "{} > {values}", self.key),
            Operator::Lt => write!(f, "{} < {values}", self.key),
        }
    }
}

impl LabelExpr {
    /// A condition with any values.
    #[must_use]
    pub fn new<V: Into<String>>(key: impl Into<String>, op: Operator, values: impl IntoIterator<Item = V>) -> Self {
        Self { key: key.into(), op, values: values.into_iter().map(Into::into).collect() }
    }

    /// The key is there with exactly this value.
    #[must_use]
    pub fn equal(key: impl Into<String>, value: impl Into<String>) -> Self {
        Self::new(key, Operator::In, [value.into()])
    }

    /// The one value the key must have, if there is only one.
    #[must_use]
    pub fn equality(&self) -> Option<&str> {
        let only = self.values.first().filter(|_| self.values.len() == 1 && self.op == Operator::In);
        only.map(String::as_str)
    }

    /// Whether labels meet the condition. Gt and Lt compare signed decimal integers of 64 bits; anything else does not
    /// match.
    #[must_use]
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        let value = labels.get(&self.key);
        match self.op {
            Operator::In => value.is_some_and(|value| self.values.contains(value)),
            Operator::NotIn => value.is_none_or(|value| !self.values.contains(value)),
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
            Operator::Gt => self.numbers(value).is_some_and(|(has, bound)| has > bound),
            Operator::Lt => self.numbers(value).is_some_and(|(has, bound)| has < bound),
        }
    }

    fn numbers(&self, value: Option<&String>) -> Option<(i64, i64)> {
        let bound = self.values.first().filter(|_| self.values.len() == 1)?;
        Some((value?.parse().ok()?, bound.parse().ok()?))
    }
}

/// Conditions that hold together.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Alternative {
    /// The conditions, all of which must hold; empty: it always holds.
    pub all_of: Vec<LabelExpr>,
}

impl Alternative {
    /// Whether labels meet all conditions.
    #[must_use]
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.all_of.iter().all(|expression| expression.matches(labels))
    }
}

/// Alternatives of which one must hold.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Clause {
    /// The alternatives, one of which must hold; empty: it never holds.
    pub any_of: Vec<Alternative>,
}

impl From<LabelExpr> for Clause {
    fn from(expression: LabelExpr) -> Self {
        Self { any_of: vec![Alternative { all_of: vec![expression] }] }
    }
}

impl fmt::Display for Alternative {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all: Vec<String> = self.all_of.iter().map(ToString::to_string).collect();
        f.pad(&if all.is_empty() { "anything".to_owned() } else { all.join(" and ") })
    }
}

impl fmt::Display for Clause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let any: Vec<String> = self.any_of.iter().map(ToString::to_string).collect();
        f.pad(&if any.is_empty() { "nothing".to_owned() } else { any.join(", or ") })
    }
}

impl Clause {
    /// Its one condition, if it is one.
    #[must_use]
    pub fn only(&self) -> Option<&LabelExpr> {
        match self.any_of.as_slice() {
            [Alternative { all_of }] if all_of.len() == 1 => all_of.first(),
            _ => None,
        }
    }

    /// Whether labels meet one alternative.
    #[must_use]
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.any_of.iter().any(|alternative| alternative.matches(labels))
    }
}

/// Conditions that are preferred but not required.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Preference {
    /// Weight of the preference, 1 to 100.
    pub weight: u8,
    /// The conditions.
    pub alternative: Alternative,
}

named_enum! {
    /// What a taint does to work that does not tolerate it.
    pub enum TaintEffect("taint effect") {
        /// It is not placed there.
        NoSchedule,
        /// It is placed elsewhere if possible.
        PreferNoSchedule,
        /// It is not placed there, and leaves.
        NoExecute,
    }
}

/// A taint of a machine, which keeps work away that does not tolerate it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Taint {
    /// Its key.
    pub key: String,
    /// Its value.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub value: String,
    /// What it does.
    pub effect: TaintEffect,
}

impl fmt::Display for Taint {
    /// `key=value:Effect`, as `kubectl` writes it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = if self.value.is_empty() { String::new() } else { format!("={}", self.value) };
        write!(f, "{}{value}:{}", self.key, self.effect)
    }
}

/// A toleration: work with it may be placed on machines with the taint.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Toleration {
    /// The taint's key; absent, any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The taint's value; absent, any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// The taint's effect; absent, any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<TaintEffect>,
}

impl Toleration {
    /// Tolerates any `NoSchedule` taint with this key, as every request for a device does.
    #[must_use]
    pub fn of_key(key: impl Into<String>) -> Self {
        Self { key: Some(key.into()), value: None, effect: Some(TaintEffect::NoSchedule) }
    }

    /// Whether it tolerates `taint`.
    #[must_use]
    pub fn tolerates(&self, taint: &Taint) -> bool {
        self.key.as_ref().is_none_or(|key| *key == taint.key)
            && self.value.as_ref().is_none_or(|value| *value == taint.value)
            && self.effect.is_none_or(|effect| effect == taint.effect)
    }
}

/// The runtime a container must be started by.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RuntimeNeed {
    /// Its class.
    pub name: String,
    /// Other classes that are accepted.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub accepted: BTreeSet<String>,
    /// Whether any other class that the user names is accepted as well.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub any: bool,
}

named_enum! {
    /// A remark about a translation for the user.
    pub enum Note("placement note") {
        /// The substrate could only express a narrower need: fewer machines fit than could.
        Narrowed,
        /// The user's runtime class took the place of the derived one.
        RuntimeClassOverridden,
    }
}

/// Where work may run. Everything in it is sorted, so equal needs give equal placements.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Placement {
    /// The CPU architecture, as the substrate labels it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arch: Option<LabelExpr>,
    /// The trusted execution environment that is required.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tee: Option<TeeKind>,
    /// Clauses that must all be met.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub required: Vec<Clause>,
    /// Conditions that are preferred but not required.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub preferred: Vec<Preference>,
    /// Taints that are tolerated.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tolerations: Vec<Toleration>,
    /// Resources to request; limits are the same.
    #[serde(skip_serializing_if = "ResourceVector::is_zero")]
    pub resources: ResourceVector,
    /// The runtime.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runtime: Option<RuntimeNeed>,
    /// Resources that the runtime itself uses; they count for fit and quota and are never written into a pod.
    #[serde(skip_serializing_if = "ResourceVector::is_zero")]
    pub overhead: ResourceVector,
    /// Devices.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<DeviceNeed>,
    /// Claims.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub claims: Vec<DeviceClaim>,
    /// Remarks for the user.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub notes: BTreeSet<Note>,
}

impl Placement {
    /// Whether labels meet every required clause.
    #[must_use]
    pub fn admits_labels(&self, labels: &BTreeMap<String, String>) -> bool {
        self.required.iter().all(|clause| clause.matches(labels))
    }

    /// Whether a machine fits, and every reason why it does not.
    pub fn check(&self, machine: &Machine) -> MachineFit {
        let mut failures = Vec::new();
        if let Some(arch) = self.arch.as_ref().filter(|arch| !arch.matches(&machine.labels)) {
            failures.push(Failure::arch(arch, machine));
        }
        let unmet = self.required.iter().filter(|clause| !clause.matches(&machine.labels));
        failures.extend(unmet.map(|clause| Failure::label(clause.clone(), machine)));
        failures.extend(untolerated(&self.tolerations, &machine.taints).cloned().map(Failure::Taint));
        let asked = self.resources.saturating_add(&self.overhead);
        failures.extend(asked.lacking(&machine.allocatable).into_iter().map(Failure::Resource));
        failures.extend(self.device.as_ref().and_then(|need| need.lack(&machine.devices)).map(Failure::Device));
        MachineFit { machine: machine.name.clone(), failures }
    }

    /// Taints that keep this work away: those with an effect that keeps work away, and that are not tolerated.
    pub fn untolerated<'a>(&'a self, taints: &'a [Taint]) -> impl Iterator<Item = &'a Taint> {
        untolerated(&self.tolerations, taints)
    }
}

/// Taints that keep work with these tolerations away.
pub(super) fn untolerated<'a>(
    tolerations: &'a [Toleration],
    taints: &'a [Taint],
) -> impl Iterator<Item = &'a Taint> + use<'a> {
    taints.iter().filter(|taint| {
        taint.effect != TaintEffect::PreferNoSchedule
            && !tolerations.iter().any(|toleration| toleration.tolerates(taint))
    })
}

#[cfg(test)]
mod tests;
