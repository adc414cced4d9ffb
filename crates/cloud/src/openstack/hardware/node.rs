//! A node document of a site's catalogue, read as machines. Owns which keys count, and what the table of node types adds to
//! them.

use std::collections::BTreeMap;

use orlop_core::hardware::fleet::is_derived;
use orlop_core::hardware::gpu::{Catalogue, MigProfile, Wanted};
use orlop_core::hardware::vocabulary::tee_label;
use orlop_core::hardware::{Device, Machine, Tables, TeeKind};
use orlop_core::named::Named as _;
use orlop_core::resource::{ResourceName, ResourceVector};
use serde_json::Value;

use super::document::Document;

/// How deep and how large a document may be.
const DEPTH: usize = 16;
const KEYS: usize = 4096;

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

impl SiteNode {
    /// Reads a node document.
    ///
    /// # Errors
    /// It does not say of which host it is, or is too large.
    pub fn read(document: &Value, tables: &Tables) -> Result<Self, NodeError> {
        let fields = Document(document);
        let text = |name: &str| fields.text(name).unwrap_or_default();
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
        let threads = fields.number("architecture.smt_size").unwrap_or(0);
        Ok(Self {
            entries: fields.devices(&row, &tables.catalogue),
            allocatable: allocatable(fields, threads),
            usable: fields.is_usable(),
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
fn allocatable(fields: Document<'_>, threads: u64) -> ResourceVector {
    let amounts = [
        ("cpu", threads.saturating_mul(1000)),
        ("memory", fields.number("main_memory.ram_size").unwrap_or(0)),
        ("ephemeral-storage", fields.disks().max().unwrap_or(0)),
    ];
    let mut all = ResourceVector::new();
    for (name, amount) in amounts {
        if let Ok(name) = ResourceName::new(name) {
            all.set(name, amount);
        }
    }
    all
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
