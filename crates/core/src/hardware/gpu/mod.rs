//! GPUs: vendors, models, forms, slices (MIG) and requests for them. Owns the types, which are the same for all substrates, and
//! their texts; the tables say how a cluster names a device.

mod catalogue;
pub(in crate::hardware) mod legal;
mod mig;
mod models;
mod name;
mod parse;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};

pub(crate) use catalogue::named_with;
pub use catalogue::{Catalogue, FamilyValue, Model, Product, Wanted};
pub use mig::{MediaExtensions, MigProfile};
pub use name::DeviceName;
pub use parse::parse_gpu_type;

use crate::id::text_id;
use crate::named::named_enum;

named_enum! {
    /// The vendor of a device.
    pub enum Vendor("GPU vendor") {
        /// NVIDIA.
        Nvidia = "nvidia",
        /// AMD.
        Amd = "amd",
        /// Intel.
        Intel = "intel",
    }
}

named_enum! {
    /// A word about a device's form; each one asked for must occur in the product's name.
    pub enum Form("GPU form word") {
        Sxm = "sxm",
        Sxm2 = "sxm2",
        Sxm3 = "sxm3",
        Sxm4 = "sxm4",
        Sxm5 = "sxm5",
        Sxm6 = "sxm6",
        Pcie = "pcie",
        Nvl = "nvl",
        Oam = "oam",
        Hbm2 = "hbm2",
        Hbm2e = "hbm2e",
        Hbm3 = "hbm3",
        Hbm3e = "hbm3e",
    }
}

named_enum! {
    /// How a device is asked for in Kubernetes; matters nowhere else.
    #[derive(Default)]
    pub enum Allocation("GPU allocation") {
        /// By an extended resource of a device plugin.
        #[default]
        DevicePlugin = "devicePlugin",
        /// By a resource claim.
        Dra = "dra",
        /// By a claim where the cluster serves it, else by an extended resource.
        Auto = "auto",
    }
}

text_id! {
    /// The key of a device model: 1 to 32 lower case letters and digits, for example `a100`.
    pub struct ModelKey(|text: &str| MODEL_KEY.check(text));
}

/// Devices that are the same to whoever counts them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuShape {
    /// Its vendor.
    pub vendor: Vendor,
    /// Its model.
    pub model: ModelKey,
    /// Memory of one device in bytes.
    pub memory_bytes: u64,
}

const MODEL_KEY: crate::id::Rule = crate::id::Rule {
    what: "GPU model",
    max: 32,
    inner: |ch| ch.is_ascii_lowercase() || ch.is_ascii_digit(),
    edge: |_| true,
    allowed: "lower case letters and digits",
    edges: "",
    separator: None,
};

/// A kind of device. What is not named does not matter.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct GpuType {
    /// Who makes it; absent, the vendor of the model or the configured default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vendor: Option<Vendor>,
    /// Its model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<ModelKey>,
    /// Its exact name, in place of the model, where no table knows it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<DeviceName>,
    /// Words that its product name must contain.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub form: BTreeSet<Form>,
    /// Nominal (data sheet) memory of one device in GiB, at least this; 1 to 4096. Never a sum. Beside a model and a slice that has less,
    /// of the card that the slice is of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_gib: Option<u32>,
    /// Slices in place of whole devices.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partition: Option<MigProfile>,
    /// All requested devices are connected by NVLink or the vendor's equal.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub nvlink: bool,
}

impl fmt::Display for GpuType {
    /// `<vendor>[-<model>][-<form>…][-<n>gb][-nvlink][-mig-<profile>]`, or `gpu` for any device; an exact name stands in place of the
    /// model.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut words: Vec<String> = Vec::new();
        words.extend(self.vendor.map(|vendor| vendor.to_string()));
        words.extend(self.model.as_ref().map(ToString::to_string));
        words.extend(self.name.as_ref().map(ToString::to_string));
        words.extend(self.form.iter().map(ToString::to_string));
        words.extend(self.memory_gib.map(|gib| format!("{gib}gb")));
        words.extend(self.nvlink.then(|| "nvlink".to_owned()));
        words.extend(self.partition.map(|profile| format!("mig-{profile}")));
        f.pad(&if words.is_empty() { "gpu".to_owned() } else { words.join("-") })
    }
}

/// Devices that are asked for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GpuNeed {
    /// How many devices, or slices with a partition; 1 to 1024.
    pub count: u32,
    /// Of which kind.
    #[serde(default)]
    pub kind: GpuType,
    /// How Kubernetes is asked for them.
    #[serde(default)]
    pub allocation: Allocation,
}

impl GpuNeed {
    /// The most devices one attempt may ask for.
    pub const MAX_COUNT: u32 = 1024;
}
