//! What a job asks of a machine: resources, conditions and preferences. Owns their fields, defaults and reading; never
//! compares them with a machine.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;

use super::error::SpecErrors;
use super::read::{Object, Read, amount, deserialize_as_read, read_named, shown, wrong};
use crate::hardware::gpu::{ModelKey, Vendor};
use crate::hardware::placement::{LabelExpr, Operator};
use crate::quantity::Step;

/// How labels are compared, in the words of a job.
const COMPARISONS: [(&str, Operator); 6] = [
    ("in", Operator::In),
    ("notin", Operator::NotIn),
    ("exists", Operator::Exists),
    ("absent", Operator::DoesNotExist),
    ("gt", Operator::Gt),
    ("lt", Operator::Lt),
];

/// The word of a job for a comparison.
pub(super) fn comparison(op: Operator) -> &'static str {
    COMPARISONS.iter().find(|(_, known)| *known == op).map_or("", |(word, _)| word)
}

read_named!(Vendor);

/// A kind of GPU that would do; what is absent does not matter.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct GpuKind {
    /// Who makes it.
    pub vendor: Vendor,
    /// Its model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub model: Option<ModelKey>,
    /// Memory of one device in bytes, at least this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<Count>"))]
    pub memory_min: Option<u64>,
}

impl GpuKind {
    /// Whether a device of this vendor, model and memory (bytes) would do. A slice of one does only where its model is named.
    #[must_use]
    pub fn accepts(&self, vendor: Vendor, model: &ModelKey, memory_bytes: u64) -> bool {
        self.vendor == vendor
            && self.model.as_ref().map_or(!model.is_slice(), |wanted| wanted == model)
            && self.memory_min.is_none_or(|least| memory_bytes >= least)
    }
}

impl Read for ModelKey {
    fn read(value: &Value, path: &str, errors: &mut SpecErrors) -> Option<Self> {
        let text = String::read(value, path, errors)?;
        Self::new(text).map_err(|error| errors.add(path, error.to_string())).ok()
    }
}

pub(super) fn bytes(value: &Value, path: &str, errors: &mut SpecErrors) -> Option<u64> {
    amount(value, Step::One, path, errors)
}

impl Read for GpuKind {
    fn read(value: &Value, path: &str, errors: &mut SpecErrors) -> Option<Self> {
        let mut object = Object::new(value, path, errors)?;
        let vendor = object.or::<Option<Vendor>>("vendor", None, errors);
        let model = object.or("model", None, errors);
        let memory_min = object.by("memory_min", None, errors, |v, p, e| bytes(v, p, e).map(Some));
        if object.get("vendor").is_none() {
            errors.add(format!("{path}.vendor"), "is missing");
        }
        object.end(errors);
        Some(Self { vendor: vendor?, model, memory_min })
    }
}

/// Kinds of GPUs of which any would do, at most.
pub const KINDS_MAX: usize = 4;

/// Whole GPUs, all of one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(default, deny_unknown_fields))]
pub struct Gpus {
    /// How many.
    pub count: u32,
    /// Kinds that would do, at most 4; none = any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schemars(length(max = 4)))]
    pub any_of: Vec<GpuKind>,
}

impl Read for Gpus {
    fn read(value: &Value, path: &str, errors: &mut SpecErrors) -> Option<Self> {
        let mut object = Object::new(value, path, errors)?;
        let (count, any_of) = (object.or("count", 0, errors), object.or("any_of", Vec::new(), errors));
        object.end(errors);
        Some(Self { count, any_of })
    }
}

fn no_gpus(gpus: &Gpus) -> bool {
    *gpus == Gpus::default()
}

/// What one attempt (of a gang: one member) holds while it lives.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(default, deny_unknown_fields))]
pub struct Resources {
    /// Millicores; as text cores, such as `500m` or `2`.
    #[cfg_attr(feature = "schema", schemars(with = "Count"))]
    pub cpu_m: u64,
    /// Bytes; as text such as `1Gi`; 0 = unaccounted.
    #[cfg_attr(feature = "schema", schemars(with = "Count"))]
    pub memory_bytes: u64,
    /// Whole GPUs.
    #[serde(default, skip_serializing_if = "no_gpus")]
    pub gpus: Gpus,
    /// Counters by name that a worker advertises, at most 8.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[cfg_attr(feature = "schema", schemars(with = "BTreeMap<String, Count>", extend("maxProperties" = 8)))]
    pub extras: BTreeMap<String, u64>,
}

impl Default for Resources {
    /// One core and 256 Mi.
    fn default() -> Self {
        Self { cpu_m: 1000, memory_bytes: 256 << 20, gpus: Gpus::default(), extras: BTreeMap::new() }
    }
}

/// A number, or a text with a unit.
pub(super) struct Count(u64);

#[cfg(feature = "schema")]
crate::schema::written_out!(Count, {"type": ["integer", "string"], "minimum": 0});

impl Read for Count {
    fn read(value: &Value, path: &str, errors: &mut SpecErrors) -> Option<Self> {
        bytes(value, path, errors).map(Self)
    }
}

impl Read for Resources {
    fn read(value: &Value, path: &str, errors: &mut SpecErrors) -> Option<Self> {
        let default = Self::default();
        let mut object = Object::new(value, path, errors)?;
        let cores = |value: &Value, path: &str, errors: &mut SpecErrors| amount(value, Step::Milli, path, errors);
        let cpu_m = object.by("cpu_m", default.cpu_m, errors, cores);
        let memory_bytes = object.by("memory_bytes", default.memory_bytes, errors, bytes);
        let gpus = object.or("gpus", default.gpus, errors);
        let extras: BTreeMap<String, Count> = object.or("extras", BTreeMap::new(), errors);
        object.end(errors);
        let extras = extras.into_iter().map(|(name, Count(count))| (name, count)).collect();
        Some(Self { cpu_m, memory_bytes, gpus, extras })
    }
}

/// A condition on one label of a worker as a job writes it.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "LabelCondition", deny_unknown_fields))]
struct Written<'a> {
    /// The label's key.
    key: &'a str,
    /// How it is compared.
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>", extend("enum" = COMPARISONS.map(|(word, _)| word), "default" = "in")))]
    op: &'static str,
    /// With what; numbers and booleans need no quotes. Several for in and notin, one for gt and lt.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<Vec<Scalar>>"))]
    values: Option<&'a BTreeSet<String>>,
}

impl<'a> Written<'a> {
    fn of(label: &'a LabelExpr) -> Self {
        let values = Some(&label.values).filter(|values| !values.is_empty());
        Self { key: &label.key, op: comparison(label.op), values }
    }
}

fn write_label<S: Serializer>(label: &LabelExpr, serializer: S) -> Result<S::Ok, S::Error> {
    Written::of(label).serialize(serializer)
}

fn write_labels<S: Serializer>(labels: &[LabelExpr], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(labels.iter().map(Written::of))
}

/// The text of a scalar: labels such as `true` or `80` need no quotes.
pub(super) struct Scalar(String);

#[cfg(feature = "schema")]
crate::schema::written_out!(Scalar, {"type": ["string", "number", "boolean"]});

impl Read for Scalar {
    fn read(value: &Value, path: &str, errors: &mut SpecErrors) -> Option<Self> {
        match value {
            Value::String(text) => Some(Self(text.clone())),
            Value::Number(_) | Value::Bool(_) => Some(Self(value.to_string())),
            other => wrong(other, path, "a text", errors),
        }
    }
}

/// A map of texts whose values need no quotes.
pub(super) fn texts(value: &Value, path: &str, errors: &mut SpecErrors) -> Option<BTreeMap<String, String>> {
    let map: BTreeMap<String, Scalar> = Read::read(value, path, errors)?;
    Some(map.into_iter().map(|(key, Scalar(text))| (key, text)).collect())
}

impl Read for Operator {
    fn read(value: &Value, path: &str, errors: &mut SpecErrors) -> Option<Self> {
        let text = String::read(value, path, errors)?;
        let found = COMPARISONS.iter().find(|(word, _)| word.eq_ignore_ascii_case(&text));
        if found.is_none() {
            errors.add(
                path,
                format!("unknown label comparison `{}`, use in, notin, exists, absent, gt or lt", shown(&text)),
            );
        }
        found.map(|(_, op)| *op)
    }
}

impl Read for LabelExpr {
    fn read(value: &Value, path: &str, errors: &mut SpecErrors) -> Option<Self> {
        let mut object = Object::new(value, path, errors)?;
        let (key, op) = (object.need("key", errors), object.or("op", Operator::In, errors));
        let values: Vec<Scalar> = object.or("values", Vec::new(), errors);
        object.end(errors);
        Some(Self { key, op, values: values.into_iter().map(|Scalar(text)| text).collect() })
    }
}

/// What a worker must be like; all of it must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(default, deny_unknown_fields))]
pub struct Requires {
    /// Conditions on its labels.
    #[serde(serialize_with = "write_labels", skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<Written<'static>>"))]
    pub labels: Vec<LabelExpr>,
    /// Features it must have, such as `cgroup2`.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub features: BTreeSet<String>,
}

impl Read for Requires {
    fn read(value: &Value, path: &str, errors: &mut SpecErrors) -> Option<Self> {
        let mut object = Object::new(value, path, errors)?;
        let labels = object.or("labels", Vec::new(), errors);
        let features = object.or("features", BTreeSet::new(), errors);
        object.end(errors);
        Some(Self { labels, features })
    }
}

/// A condition that ranks workers and never filters them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct Prefer {
    /// The condition.
    #[serde(serialize_with = "write_label")]
    #[cfg_attr(feature = "schema", schemars(with = "Written<'static>"))]
    pub label: LabelExpr,
    /// Its weight, 1 to 100.
    #[cfg_attr(feature = "schema", schemars(with = "Option<u8>", range(min = 1, max = 100), extend("default" = 1)))]
    pub weight: u8,
}

impl Read for Prefer {
    fn read(value: &Value, path: &str, errors: &mut SpecErrors) -> Option<Self> {
        let mut object = Object::new(value, path, errors)?;
        if object.get("label").is_none() {
            errors.add(format!("{path}.label"), "is missing");
        }
        let label = object.by("label", None, errors, |v, p, e| LabelExpr::read(v, p, e).map(Some));
        let weight = object.or("weight", 1, errors);
        object.end(errors);
        Some(Self { label: label?, weight })
    }
}

deserialize_as_read!(Requires, Prefer);

/// The variable that says how many units of a counter an attempt holds: `ORLOP_EXTRA_` and the counter's name in upper case, with `_`
/// for whatever is no letter or digit. The one that says which units ends with `_UNITS` behind it.
#[must_use]
pub fn extra_variable(name: &str) -> String {
    let plain = |ch: char| if ch.is_ascii_alphanumeric() { ch.to_ascii_uppercase() } else { '_' };
    format!("ORLOP_EXTRA_{}", name.chars().map(plain).collect::<String>())
}
