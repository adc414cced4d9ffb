//! A document about a host of a site: nested, as the reference API writes it, or with dotted keys, as the reservation service does.
//! Owns how its fields are read in their many spellings, and which devices it tells of; every value is text that may be wrong.

use std::collections::BTreeSet;

use orlop_core::hardware::Device;
use orlop_core::hardware::gpu::{Catalogue, Vendor, Wanted};
use orlop_core::hardware::table::NodeType;
use orlop_core::named::Named as _;
use serde_json::Value;

/// The most devices of one entry.
const DEVICES: u64 = 1024;
/// The most disks of a host that are looked at.
const DISKS: usize = 64;
/// The most entries of devices.
const ENTRIES: usize = 64;

/// See the module.
#[derive(Clone, Copy)]
pub(crate) struct Document<'v>(pub(crate) &'v Value);

impl Document<'_> {
    /// What stands under a dotted key; numbers in it index lists.
    fn value(&self, key: &str) -> Option<&Value> {
        self.0.get(key).or_else(|| {
            key.split('.').try_fold(self.0, |value, part| match part.parse::<usize>() {
                Ok(index) if value.is_array() => value.get(index),
                _ => value.get(part),
            })
        })
    }

    /// A field as text.
    pub(crate) fn text(&self, key: &str) -> Option<String> {
        let text = match self.value(key)? {
            Value::String(text) => text.trim().to_owned(),
            scalar @ (Value::Bool(_) | Value::Number(_)) => scalar.to_string(),
            _ => return None,
        };
        (!text.is_empty() && text != "null" && text != "None").then_some(text)
    }

    /// A number, also where the document has it as text.
    pub(crate) fn number(&self, key: &str) -> Option<u64> {
        let text = self.text(key)?;
        let rounded = || text.parse::<f64>().ok().filter(|number| number.is_finite() && *number >= 0.0);
        text.parse().ok().or_else(|| rounded().map(|number| number as u64))
    }

    /// A truth, also where the document has it as text.
    pub(crate) fn truth(&self, key: &str) -> Option<bool> {
        match self.text(key)?.to_ascii_lowercase().as_str() {
            "true" | "1" | "yes" => Some(true),
            "false" | "0" | "no" => Some(false),
            _ => None,
        }
    }

    /// Whether the host can be reserved.
    pub(crate) fn is_usable(&self) -> bool {
        self.truth("reservable") != Some(false) && self.truth("disabled") != Some(true)
    }

    /// Bytes of its disks, the first one first.
    pub(crate) fn disks(&self) -> impl Iterator<Item = u64> {
        (0..DISKS).map_while(|at| self.number(&format!("storage_devices.{at}.size")))
    }

    /// The devices by entry, of which one alone must serve a need; a host without any has one entry of none. What the document does
    /// not say itself is at least what the table says of the host's type.
    pub(crate) fn devices(&self, row: &NodeType, catalogue: &Catalogue) -> Vec<Vec<Device>> {
        let is_there = |entry: &String| {
            self.value(entry).is_some()
                || ["gpu_model", "model"].iter().any(|key| self.text(&format!("{entry}.{key}")).is_some())
        };
        let listed: Vec<String> = (0..ENTRIES).map(|at| format!("gpu.{at}")).take_while(is_there).collect();
        let entries = if listed.is_empty() { vec!["gpu".to_owned()] } else { listed };
        entries.iter().map(|entry| self.entry(entry, row, catalogue)).collect()
    }

    fn entry(&self, entry: &str, row: &NodeType, catalogue: &Catalogue) -> Vec<Device> {
        let key = |name: &str| format!("{entry}.{name}");
        let model = self.text(&key("gpu_model")).or_else(|| self.text(&key("model")));
        if !self.truth(&key("gpu")).unwrap_or(model.is_some()) {
            return Vec::new();
        }
        // A node that names a model has one of it at least; a count that cannot be read is none.
        let count = match self.text(&key("gpu_count")) {
            Some(_) => self.number(&key("gpu_count")).unwrap_or(0).min(DEVICES),
            None => u64::from(model.is_some()),
        };
        let name = model.unwrap_or_default();
        let vendor = match self.text(&key("gpu_vendor")) {
            Some(text) => maker(&text),
            None => catalogue.parse(&name).ok().and_then(|read| read.vendor),
        };
        let Some(vendor) = vendor else { return Vec::new() };
        let mut device = Device::named(catalogue, vendor, &name);
        let can_be = sizes(&device, catalogue);
        // What the type says counts where the document names no device that cannot have it.
        let of_type = row.gpu_memory_gib.filter(|gib| device.model.is_none() || can_be.contains(gib));
        let least = of_type.or(can_be.first().copied());
        device.memory_gib = self.number(&key("gpu_memory")).and_then(gib).or(device.memory_gib).or(least);
        let linked = self.truth(&key("gpu_nvlink")).unwrap_or(row.nvlink);
        device.nvlink_group = linked.then_some(0);
        (0..count).map(|at| Device { id: at.to_string(), ..device.clone() }).collect()
    }
}

/// Who makes a device, as documents have it: `NVIDIA`, `NVIDIA Corporation`, `Advanced Micro Devices, Inc. [AMD/ATI]`.
fn maker(text: &str) -> Option<Vendor> {
    let text = text.to_ascii_lowercase();
    let named = |vendor: &&Vendor| text.contains(vendor.as_str());
    Vendor::ALL.iter().find(named).copied().or_else(|| text.contains("advanced micro").then_some(Vendor::Amd))
}

/// The sizes of memory that a device can have by its name, the least first; none where its model is not known.
fn sizes(device: &Device, catalogue: &Catalogue) -> BTreeSet<u32> {
    let (Some(model), Ok(read)) = (&device.model, catalogue.parse(&device.name)) else { return BTreeSet::new() };
    let wanted = Wanted { model: Some(model), form: Some(&read.form), ..Wanted::default() };
    catalogue.products(device.vendor, wanted).iter().map(|product| product.memory_gib).collect()
}

/// GiB of an amount that is in bytes, or in GiB where it is too small for that.
fn gib(amount: u64) -> Option<u32> {
    let gib = if amount > 1 << 20 { amount >> 30 } else { amount };
    u32::try_from(gib).ok()
}
