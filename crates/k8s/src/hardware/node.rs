//! Nodes, slices of devices and runtime classes, read as what decides about fit. Owns which of their fields count.

use orlop_core::hardware::gpu::{Catalogue, Vendor};
use orlop_core::hardware::merge::RuntimeClass;
use orlop_core::hardware::placement::{Taint, TaintEffect};
use orlop_core::hardware::{Device, Machine};
use orlop_core::quantity::Quantity;
use serde_json::Value;

use super::affinity::PodError;
use super::affinity::{list, text, toleration};
use super::user::amounts;

/// The most nominal memory that can be asked for, in GiB.
const MEMORY_MAX: u32 = 4096;
/// How brands of devices begin that are shares of a hypervisor's.
const VIRTUAL: &str = "NvidiaV";
/// A prefix of taints that come and go with a node's health.
const TRANSIENT: &str = "node.kubernetes.io/";

/// A node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// What it offers.
    pub machine: Machine,
    /// Whether it is ready.
    pub ready: bool,
    /// Whether pods may be bound to it.
    pub schedulable: bool,
}

fn texts(object: &Value, pointer: &str) -> std::collections::BTreeMap<String, String> {
    let members = object.pointer(pointer).and_then(Value::as_object);
    let pairs = members.into_iter().flatten();
    pairs.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
}

/// Reads a node. Taints that come and go with its health do not count; its condition does.
///
/// # Errors
/// A field of another form than Kubernetes gives.
pub fn node(object: &Value) -> Result<Node, PodError> {
    let name = object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
    let missing = |path: &str| PodError::new(path, "is missing");
    if name.is_empty() {
        return Err(missing("metadata.name"));
    }
    let (spec, status) = (object.get("spec").unwrap_or(&Value::Null), object.get("status").unwrap_or(&Value::Null));
    let mut taints = Vec::new();
    for (at, value) in list(spec, "taints", "spec")?.iter().enumerate() {
        let path = format!("spec.taints[{at}]");
        let key = text(value, "key", &path)?.ok_or_else(|| missing(&path))?;
        let effect = text(value, "effect", &path)?.ok_or_else(|| missing(&path))?;
        let effect: TaintEffect = effect
            .parse()
            .map_err(|error: orlop_core::named::UnknownName| PodError::new(path.clone(), error.to_string()))?;
        if !key.starts_with(TRANSIENT) {
            let value = text(value, "value", &path)?.unwrap_or_default().to_owned();
            taints.push(Taint { key: key.to_owned(), value, effect });
        }
    }
    let is_ready = |condition: &Value| {
        let says = |name: &str, value: &str| condition.get(name).and_then(Value::as_str) == Some(value);
        says("type", "Ready") && says("status", "True")
    };
    Ok(Node {
        machine: Machine {
            name: name.to_owned(),
            labels: texts(object, "/metadata/labels"),
            taints,
            allocatable: amounts(status, "allocatable", "status")?,
            devices: Vec::new(),
        },
        ready: list(status, "conditions", "status")?.iter().any(is_ready),
        schedulable: spec.get("unschedulable").and_then(Value::as_bool) != Some(true),
    })
}

/// Reads a runtime class.
///
/// # Errors
/// A field of another form than Kubernetes gives.
pub fn runtime_class(object: &Value) -> Result<RuntimeClass, PodError> {
    let scheduling = object.get("scheduling").unwrap_or(&Value::Null);
    let tolerations = list(scheduling, "tolerations", "scheduling")?.iter().enumerate();
    let read = tolerations.map(|(at, value)| toleration(value, &format!("scheduling.tolerations[{at}]")));
    Ok(RuntimeClass {
        node_selector: texts(object, "/scheduling/nodeSelector"),
        tolerations: read.collect::<Result<_, _>>()?,
    })
}

/// Reads a ResourceSlice: the node it is of, and its devices as far as they are GPUs of a known vendor. A slice of no one
/// node gives nothing, for a claim on it says nothing about a node.
#[must_use]
pub fn slices(object: &Value, catalogue: &Catalogue) -> Option<(String, Vec<Device>)> {
    let spec = object.get("spec")?;
    let node = spec.get("nodeName")?.as_str()?;
    let vendor = match spec.get("driver")?.as_str()? {
        "gpu.nvidia.com" => Vendor::Nvidia,
        "gpu.amd.com" => Vendor::Amd,
        "gpu.intel.com" => Vendor::Intel,
        _ => return None,
    };
    let entries = spec.get("devices").and_then(Value::as_array).into_iter().flatten();
    Some((node.to_owned(), entries.filter_map(|entry| device(entry, vendor, catalogue)).collect()))
}

fn device(entry: &Value, vendor: Vendor, catalogue: &Catalogue) -> Option<Device> {
    let id = entry.get("name")?.as_str()?.to_owned();
    // Older versions of the API keep what a device tells one level deeper.
    let reported = entry.get("basic").unwrap_or(entry);
    let attribute = |name: &str| reported.pointer(&format!("/attributes/{name}/string")).and_then(Value::as_str);
    // A part of a device, or one that is passed through, is none of what is asked for as a whole.
    let claimable: &[&str] = match vendor {
        Vendor::Nvidia => &["gpu", "mig"],
        Vendor::Amd => &["amdgpu"],
        Vendor::Intel => &[],
    };
    if !claimable.is_empty() && attribute("type").is_some_and(|kind| !claimable.contains(&kind)) {
        return None;
    }
    let name = attribute(if vendor == Vendor::Intel { "model" } else { "productName" }).unwrap_or_default();
    let mut device = Device { id: id.clone(), ..Device::named(catalogue, vendor, name) };
    if let Some((_, product)) = catalogue.product_named(name).filter(|(model, _)| model.vendor == vendor) {
        device.nvlink_group = product.nvlink.then_some(0);
    }
    // Older versions of the API give the amount itself.
    let memory = reported
        .pointer("/capacity/memory/value")
        .or_else(|| reported.pointer("/capacity/memory"))
        .and_then(Value::as_str);
    if vendor == Vendor::Nvidia {
        // Claims compare what the slice says; a share of a device has no memory of its own that they ask for.
        let is_share = attribute("brand").is_some_and(|brand| brand.starts_with(VIRTUAL));
        let said = memory.filter(|_| !is_share).and_then(|memory| nominal(memory, catalogue));
        device.memory_gib = said.map(|gib| device.memory_gib.unwrap_or(gib));
    }
    if let Some(profile) = attribute("profile").and_then(|profile| profile.parse().ok()) {
        device.slices.insert(profile, vec![id]);
    }
    Some(device)
}

/// The most nominal memory in GiB that a claim may ask for and still get a device of so much usable memory.
fn nominal(usable: &str, catalogue: &Catalogue) -> Option<u32> {
    let mib = usable.parse::<Quantity>().ok()?.bytes()? >> 20;
    (1..=MEMORY_MAX).rev().find(|gib| mib > catalogue.threshold_mib(Vendor::Nvidia, *gib))
}
