//! Where work may run, in words of no substrate (Hourglass contract, section 1.2). Owns the neutral value and the meaning
//! of its expressions, taints and tolerations; deriving and rendering it is the translations' work.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::gpu::Vendor;
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

impl LabelExpr {
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
    /// All of these; none of them asks nothing.
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
    /// One of these; a clause without any is never met.
    pub any_of: Vec<Alternative>,
}

impl Clause {
    /// Whether labels meet one alternative.
    #[must_use]
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.any_of.iter().any(|alternative| alternative.matches(labels))
    }
}

/// Conditions that are better met than not.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Preference {
    /// How much better, 1 to 100.
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

/// A mark of a machine that keeps work away.
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

/// Leave to be placed beside a taint.
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
    /// Leave beside any `NoSchedule` taint with this key, as every device asked for gives.
    #[must_use]
    pub fn of_key(key: impl Into<String>) -> Self {
        Self { key: Some(key.into()), value: None, effect: Some(TaintEffect::NoSchedule) }
    }

    /// Whether it gives leave beside `taint`.
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
    /// Other classes that will do.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub accepted: BTreeSet<String>,
}

/// Devices as a substrate hands them out.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DeviceNeed {
    /// Who makes them.
    pub vendor: Vendor,
    /// Their class: a whole device, a slice, a confidential device.
    pub class: String,
    /// How many.
    pub count: u32,
    /// Products that will do; empty, any.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub products: BTreeSet<String>,
    /// Nominal memory of one in GiB, at least this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_gib: Option<u32>,
    /// Whether they are connected by NVLink or the vendor's equal.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub nvlink: bool,
}

/// A claim on devices, where a substrate hands them out by claims.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DeviceClaim {
    /// The device class.
    pub class: String,
    /// How many devices, exactly.
    pub count: u32,
    /// Conditions on each device, in CEL.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub selectors: Vec<String>,
}

named_enum! {
    /// What a user should know about a translation.
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
    /// Clauses that must all be met.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub required: Vec<Clause>,
    /// Conditions that are better met than not.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub preferred: Vec<Preference>,
    /// Taints that do not matter.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tolerations: Vec<Toleration>,
    /// Requests, which equal limits.
    #[serde(skip_serializing_if = "ResourceVector::is_zero")]
    pub resources: ResourceVector,
    /// The runtime.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runtime: Option<RuntimeNeed>,
    /// What the runtime itself takes; counts for fit and quota, never rendered.
    #[serde(skip_serializing_if = "ResourceVector::is_zero")]
    pub overhead: ResourceVector,
    /// Devices.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<DeviceNeed>,
    /// Claims.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub claims: Vec<DeviceClaim>,
    /// What a user should know.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub notes: BTreeSet<Note>,
}

impl Placement {
    /// Whether labels meet every required clause.
    #[must_use]
    pub fn admits_labels(&self, labels: &BTreeMap<String, String>) -> bool {
        self.required.iter().all(|clause| clause.matches(labels))
    }

    /// Taints that keep this work away: those that keep work away at all and are not tolerated.
    pub fn untolerated<'a>(&'a self, taints: &'a [Taint]) -> impl Iterator<Item = &'a Taint> {
        taints.iter().filter(|taint| {
            taint.effect != TaintEffect::PreferNoSchedule
                && !self.tolerations.iter().any(|toleration| toleration.tolerates(taint))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels<const N: usize>(pairs: [(&str, &str); N]) -> BTreeMap<String, String> {
        pairs.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
    }

    fn expression(key: &str, op: Operator, values: &[&str]) -> LabelExpr {
        LabelExpr { key: key.to_owned(), op, values: values.iter().map(|value| (*value).to_owned()).collect() }
    }

    #[test]
    fn s1_2_in_exists_gt_lt_need_the_key_and_their_opposites_hold_without_it() {
        let has = labels([("gpu", "a100"), ("memory", "81920")]);
        let none = labels([]);
        let cases = [
            (expression("gpu", Operator::In, &["a100", "h100"]), true, false),
            (expression("gpu", Operator::NotIn, &["a100"]), false, true),
            (expression("gpu", Operator::NotIn, &["t4"]), true, true),
            (expression("gpu", Operator::Exists, &[]), true, false),
            (expression("gpu", Operator::DoesNotExist, &[]), false, true),
            (expression("memory", Operator::Gt, &["73728"]), true, false),
            (expression("memory", Operator::Gt, &["81920"]), false, false),
            (expression("memory", Operator::Lt, &["81921"]), true, false),
            (expression("gpu", Operator::Gt, &["1"]), false, false),
            (expression("memory", Operator::Gt, &["-1"]), true, false),
            (expression("memory", Operator::Gt, &["1", "2"]), false, false),
            (expression("memory", Operator::Lt, &["9223372036854775808"]), false, false),
        ];
        for (expression, with, without) in cases {
            assert_eq!((expression.matches(&has), expression.matches(&none)), (with, without), "{expression:?}");
        }
    }

    #[test]
    fn s1_2_clauses_are_anded_and_their_alternatives_ored() {
        let is = |key: &str| Alternative { all_of: vec![expression(key, Operator::Exists, &[])] };
        let placement = Placement {
            required: vec![Clause { any_of: vec![is("a"), is("b")] }, Clause { any_of: vec![is("c")] }],
            ..Placement::default()
        };
        assert!(placement.admits_labels(&labels([("b", ""), ("c", "")])));
        assert!(!placement.admits_labels(&labels([("a", ""), ("b", "")])));
        assert!(Placement::default().admits_labels(&labels([])));
        assert!(!Clause::default().matches(&labels([])));
        assert!(Alternative::default().matches(&labels([])));
    }

    #[test]
    fn s1_5_every_noschedule_and_noexecute_taint_must_be_tolerated() {
        let taint = |key: &str, effect| Taint { key: key.to_owned(), value: "x".to_owned(), effect };
        let taints = [
            taint("nvidia.com/gpu", TaintEffect::NoSchedule),
            taint("nvidia.com/gpu", TaintEffect::NoExecute),
            taint("busy", TaintEffect::PreferNoSchedule),
        ];
        let placement = Placement { tolerations: vec![Toleration::of_key("nvidia.com/gpu")], ..Placement::default() };
        assert_eq!(placement.untolerated(&taints).collect::<Vec<_>>(), [&taints[1]]);
        let any = Placement { tolerations: vec![Toleration::default()], ..Placement::default() };
        assert_eq!(any.untolerated(&taints).count(), 0);
        let other = Toleration { value: Some("y".to_owned()), ..Toleration::of_key("nvidia.com/gpu") };
        assert!(!other.tolerates(&taints[0]));
    }

    #[test]
    fn json_reads_back() {
        let placement = Placement {
            required: vec![Clause {
                any_of: vec![Alternative { all_of: vec![expression("a", Operator::In, &["b"])] }],
            }],
            preferred: vec![Preference { weight: 50, alternative: Alternative::default() }],
            tolerations: vec![Toleration::of_key("k")],
            notes: BTreeSet::from([Note::Narrowed]),
            ..Placement::default()
        };
        let json = serde_json::to_string(&placement).unwrap();
        insta::assert_snapshot!(json, @r#"{"required":[{"anyOf":[{"allOf":[{"key":"a","op":"In","values":["b"]}]}]}],"preferred":[{"weight":50,"alternative":{"allOf":[]}}],"tolerations":[{"key":"k","effect":"NoSchedule"}],"notes":["Narrowed"]}"#);
        assert_eq!(serde_json::from_str::<Placement>(&json).unwrap(), placement);
        assert_eq!(serde_json::to_string(&Placement::default()).unwrap(), "{}");
    }
}
