//! A node document of a site's catalogue, read as machines. Owns which keys count, and what the table of node types adds to
//! them.

use std::collections::{BTreeMap, BTreeSet};

use orlop_core::hardware::fleet::is_derived;
use orlop_core::hardware::gpu::{Catalogue, MigProfile, Vendor, Wanted};
use orlop_core::hardware::table::NodeType;
use orlop_core::hardware::vocabulary::tee_label;
use orlop_core::hardware::{Device, Machine, Tables, TeeKind};
use orlop_core::named::Named as _;
use orlop_core::resource::{ResourceName, ResourceVector};
use serde_json::Value;

/// How deep and how large a document may be.
const DEPTH: usize = 16;
const KEYS: usize = 4096;
/// The most devices of one entry.
const DEVICES: u64 = 1024;

/// A node document that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NodeError {
    /// It does not say which host it is of.
    #[error("the node document has no `uid`")]
    NoUid,
    /// It is nested too deep, or has too many keys.
    #[error("the node document of {uid} has more than {KEYS} keys or {DEPTH} levels")]
    TooLarge {
        /// The host.
        uid: String,
    },
}

/// A host of a site.
#[derive(Clone, Debug, PartialEq)]
pub struct SiteNode {
    /// The host's id.
    pub uid: String,
    /// Its type.
    pub node_type: String,
    /// Whether it can be reserved.
    pub usable: bool,
    /// Its flattened document, and what the table says of its type.
    pub labels: BTreeMap<String, String>,
    /// Hardware threads.
    pub threads: u64,
    /// What it offers.
    pub allocatable: ResourceVector,
    /// Its devices by entry; one entry alone must serve a need.
    pub entries: Vec<Vec<Device>>,
}

/// The text of a scalar.
fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Bool(_) | Value::Number(_) => Some(value.to_string()),
        _ => None,
    }
}

/// Keys of a document with all their parts, joined by dots. None past the bounds.
fn flatten(document: &Value) -> Option<BTreeMap<String, String>> {
    let mut flat = BTreeMap::new();
    let mut open: Vec<(String, &Value, usize)> = vec![(String::new(), document, 0)];
    while let Some((prefix, value, depth)) = open.pop() {
        if depth > DEPTH || flat.len() + open.len() > KEYS {
            return None;
        }
        let key = |part: &str| if prefix.is_empty() { part.to_owned() } else { format!("{prefix}.{part}") };
        match value {
            Value::Object(members) => open.extend(members.iter().map(|(part, value)| (key(part), value, depth + 1))),
            Value::Array(entries) => {
                let numbered = entries.iter().enumerate();
                open.extend(numbered.map(|(at, value)| (key(&at.to_string()), value, depth + 1)));
            }
            other => flat.extend(scalar(other).map(|text| (prefix, text))),
        }
    }
    Some(flat)
}

/// A number, also where the document has it as text.
fn number(value: Option<&Value>) -> Option<u64> {
    match value? {
        Value::Number(number) => number.as_u64(),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    }
}

/// A truth, also where the document has it as text.
fn truth(value: Option<&Value>) -> Option<bool> {
    match value? {
        Value::Bool(truth) => Some(*truth),
        Value::String(text) => text.trim().to_ascii_lowercase().parse().ok(),
        _ => None,
    }
}

impl SiteNode {
    /// Reads a node document.
    ///
    /// # Errors
    /// It does not say of which host it is, or is too large.
    pub fn read(document: &Value, tables: &Tables) -> Result<Self, NodeError> {
        let text = |name: &str| document.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let uid = text("uid");
        if uid.is_empty() {
            return Err(NodeError::NoUid);
        }
        let node_type = text("node_type");
        let mut labels = flatten(document).ok_or_else(|| NodeError::TooLarge { uid: uid.clone() })?;
        // What the table says of a type no document can say itself.
        labels.retain(|key, _| !is_derived(key));
        let row = tables.node_types.get(&node_type).cloned().unwrap_or_default();
        for kind in TeeKind::ALL.iter().filter(|asked| row.tees.iter().any(|has| has.serves(**asked))) {
            labels.insert(tee_label(*kind), "true".to_owned());
        }
        let gpu = document.get("gpu").unwrap_or(&Value::Null);
        // A host without any device is judged as well, by one entry that has none.
        let entries: Vec<&Value> = match gpu {
            Value::Array(entries) if !entries.is_empty() => entries.iter().collect(),
            entry => vec![entry],
        };
        let threads = number(document.pointer("/architecture/smt_size")).unwrap_or(0);
        let usable = truth(document.get("reservable")) != Some(false) && truth(document.get("disabled")) != Some(true);
        Ok(Self {
            entries: entries.into_iter().map(|entry| devices(entry, &row, &tables.catalogue)).collect(),
            allocatable: allocatable(document, threads),
            usable,
            uid,
            node_type,
            labels,
            threads,
        })
    }

    /// The host as machines, one for each entry of devices, cut into slices of a profile where slices are asked for.
    pub(super) fn machines(&self, partition: Option<MigProfile>, catalogue: &Catalogue) -> Vec<Machine> {
        let machine = |entry: &Vec<Device>| Machine {
            name: self.uid.clone(),
            labels: self.labels.clone(),
            taints: Vec::new(),
            allocatable: self.allocatable.clone(),
            devices: entry.iter().map(|device| sliced(device, partition, catalogue)).collect(),
        };
        self.entries.iter().map(machine).collect()
    }
}

/// What work can have of a host.
fn allocatable(document: &Value, threads: u64) -> ResourceVector {
    let disks = document.get("storage_devices").and_then(Value::as_array);
    let largest = disks.into_iter().flatten().filter_map(|disk| number(disk.get("size"))).max();
    let amounts = [
        ("cpu", threads.saturating_mul(1000)),
        ("memory", number(document.pointer("/main_memory/ram_size")).unwrap_or(0)),
        ("ephemeral-storage", largest.unwrap_or(0)),
    ];
    let mut all = ResourceVector::new();
    for (name, amount) in amounts {
        if let Ok(name) = ResourceName::new(name) {
            all.set(name, amount);
        }
    }
    all
}

/// The devices of one entry. What it does not say itself is at least what the table says of the type.
fn devices(entry: &Value, row: &NodeType, catalogue: &Catalogue) -> Vec<Device> {
    if truth(entry.get("gpu")) != Some(true) {
        return Vec::new();
    }
    let count = number(entry.get("gpu_count")).unwrap_or(0).min(DEVICES);
    let name = entry.get("gpu_model").and_then(Value::as_str).unwrap_or_default();
    let vendor = match entry.get("gpu_vendor").and_then(Value::as_str) {
        Some(text) => maker(text),
        None => catalogue.parse(name).ok().and_then(|read| read.vendor),
    };
    let Some(vendor) = vendor else { return Vec::new() };
    let mut device = Device::named(catalogue, vendor, name);
    let can_be = products(&device, catalogue);
    // What the type says counts where the document names no device that cannot have it.
    let of_type = row.gpu_memory_gib.filter(|gib| device.model.is_none() || can_be.contains(gib));
    let least = of_type.or(can_be.first().copied());
    device.memory_gib = number(entry.get("gpu_memory")).and_then(gib).or(device.memory_gib).or(least);
    let linked = truth(entry.get("gpu_nvlink")).unwrap_or(row.nvlink);
    device.nvlink_group = linked.then_some(0);
    (0..count).map(|at| Device { id: at.to_string(), ..device.clone() }).collect()
}

/// Who makes a device, as documents have it: `NVIDIA`, `NVIDIA Corporation`, `Advanced Micro Devices, Inc. [AMD/ATI]`.
fn maker(text: &str) -> Option<Vendor> {
    let text = text.to_ascii_lowercase();
    let makers =
        [("nvidia", Vendor::Nvidia), ("amd", Vendor::Amd), ("advanced micro", Vendor::Amd), ("intel", Vendor::Intel)];
    makers.into_iter().find(|(word, _)| text.contains(word)).map(|(_, vendor)| vendor)
}

/// The sizes of memory that a device can have by its name, the least first; none where its model is not known.
fn products(device: &Device, catalogue: &Catalogue) -> BTreeSet<u32> {
    let (Some(model), Ok(read)) = (&device.model, catalogue.parse(&device.name)) else { return BTreeSet::new() };
    let wanted = Wanted { model: Some(model), form: Some(&read.form), ..Wanted::default() };
    catalogue.products(device.vendor, wanted).iter().map(|product| product.memory_gib).collect()
}

/// GiB of an amount that is in bytes, or in GiB where it is too small for that.
fn gib(amount: u64) -> Option<u32> {
    let gib = if amount > 1 << 20 { amount >> 30 } else { amount };
    u32::try_from(gib).ok()
}

/// A whole card as the slices it can be cut into. Where its product is not known, every product it may be must be able to.
fn sliced(device: &Device, partition: Option<MigProfile>, catalogue: &Catalogue) -> Device {
    let mut device = device.clone();
    let Some(profile) = partition else { return device };
    let (Some(model), Some(memory)) = (&device.model, device.memory_gib) else { return device };
    let wanted = Wanted { model: Some(model), ..Wanted::default() };
    let may_be = catalogue.products(device.vendor, wanted).into_iter().filter(|product| product.memory_gib == memory);
    let instances = may_be.map(|product| product.instances(profile)).min().unwrap_or(0);
    if instances > 0 {
        let ids = (0..instances).map(|slice| format!("{}:{slice}", device.id)).collect();
        device.slices.insert(profile, ids);
    }
    device
}
