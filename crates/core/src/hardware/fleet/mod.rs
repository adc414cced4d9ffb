//! A hardware request for the fleet's own workers: whether a worker satisfies it, and its translation into the fields of a job,
//! by which the scheduler places it.

use std::collections::BTreeMap;

use super::device::DeviceClass;
use super::facts::HardwareFacts;
use super::gpu::{Catalogue, MigProfile, ModelKey};
use super::vocabulary::{FLEET, Substrate, Vocabulary, tee_label};
use super::{HardwareError, Machine, MachineFit, Resolved, describe, place};
use crate::hardware::Resources as Plain;
use crate::hardware::placement::LabelExpr;
use crate::spec::job::{GpuKind, Gpus, KINDS_MAX, Prefer, Requires, Resources};

/// The counter of scratch disk that a worker advertises, in bytes.
pub(crate) const DISK: &str = "disk";

/// Whether workers derive a label from their hardware, so that nobody else may set it: it begins with `orlop/`.
#[must_use]
pub fn is_derived(key: &str) -> bool {
    key.starts_with(FLEET)
}

/// Refuses labels that a worker derives itself.
///
/// # Errors
/// A label under `orlop/`.
pub fn check_labels(labels: &BTreeMap<String, String>) -> Result<(), HardwareError> {
    match labels.keys().find(|key| is_derived(key)) {
        Some(key) => Err(HardwareError::ReservedLabel { key: key.clone() }),
        None => Ok(()),
    }
}

/// Whether a worker could ever satisfy a request, and every reason why not.
///
/// # Errors
/// The request cannot be expressed for the fleet.
pub fn judge(
    facts: &HardwareFacts,
    resolved: &Resolved,
    resources: &Plain,
    vocabulary: &Vocabulary,
) -> Result<MachineFit, HardwareError> {
    let machine: Machine = describe(facts, vocabulary);
    Ok(place(resolved, resources, vocabulary)?.check(&machine))
}

/// The fields of a job that say where it runs.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct FleetNeed {
    /// Amounts and devices.
    pub resources: Resources,
    /// Conditions on labels and features.
    pub requires: Requires,
    /// Preferences.
    pub prefer: Vec<Prefer>,
}

/// A request as fields of a job. A job can ask for whole devices by vendor, model and memory, and for slices of a model; the rest
/// becomes conditions on labels that workers derive, and is refused where no label tells it of the same devices.
///
/// # Errors
/// Form words, slices of a profile that no model or too many have, shared or confidential devices and extended resources of
/// devices, which the fields of a job cannot express.
pub fn demand(resolved: &Resolved, resources: &Plain) -> Result<FleetNeed, HardwareError> {
    let default = Resources::default();
    let mut need = FleetNeed {
        resources: Resources {
            cpu_m: if resources.cpu_milli.is_zero() { default.cpu_m } else { resources.cpu_milli.0 },
            memory_bytes: if resources.memory_bytes.is_zero() {
                default.memory_bytes
            } else {
                resources.memory_bytes.0
            },
            gpus: Gpus::default(),
            extras: extras(resources)?,
        },
        requires: Requires::default(),
        prefer: Vec::new(),
    };
    let labels = &mut need.requires.labels;
    labels.extend(resolved.arch.map(|arch| LabelExpr::equal(format!("{FLEET}arch"), arch.to_string())));
    labels.extend(resolved.labels.iter().map(|(key, value)| LabelExpr::equal(key.clone(), value.clone())));
    match (resolved.tee, resolved.required_tee()) {
        (_, Some(kind)) => labels.push(LabelExpr::equal(tee_label(kind), "true".to_owned())),
        (Some(wanted), None) => {
            need.prefer.push(Prefer { label: LabelExpr::equal(tee_label(wanted.kind), "true".to_owned()), weight: 50 });
        }
        (None, None) => {}
    }
    if let Some(gpu) = &resolved.gpu {
        let refuse = |what: String| HardwareError::UnsupportedOnSubstrate { substrate: Substrate::Fleet, what };
        let named = gpu.kind.model.as_ref();
        let models: Vec<Option<ModelKey>> = match gpu.class {
            DeviceClass::Unit | DeviceClass::Whole => vec![named.cloned()],
            DeviceClass::Slice(profile) => slices(profile, named).into_iter().map(Some).collect(),
            DeviceClass::Confidential => Vec::new(),
        };
        if !(1..=KINDS_MAX).contains(&models.len()) {
            return Err(refuse(format!("a job of {} devices", gpu.class)));
        }
        if !gpu.kind.form.is_empty() {
            return Err(refuse(format!("a job of `{}`: jobs name models only, so it", gpu.kind)));
        }
        if gpu.kind.name.is_some() {
            return Err(refuse(format!("a job of `{}`: jobs name models that tables know, so it", gpu.kind)));
        }
        if let (DeviceClass::Slice(profile), Some(gib)) = (gpu.class, gpu.kind.memory_gib)
            && gib > u32::from(profile.memory_gb)
        {
            return Err(refuse(format!("a job of `{}`: jobs name no card of a slice, so it", gpu.kind)));
        }
        if gpu.kind.nvlink {
            // The label says that all devices of the worker are one group, so any of them are connected.
            labels.push(LabelExpr::equal(format!("{FLEET}gpu-nvlink"), "true".to_owned()));
        }
        let memory_min = gpu.kind.memory_gib.map(|gib| u64::from(gib) << 30);
        let kind = |model| GpuKind { vendor: gpu.vendor, model, memory_min };
        need.resources.gpus = Gpus { count: gpu.count, any_of: models.into_iter().map(kind).collect() };
    }
    Ok(need)
}

/// The keys of slices of a profile: of a model, or of all that can be cut so.
fn slices(profile: MigProfile, named: Option<&ModelKey>) -> Vec<ModelKey> {
    let all = Catalogue::built_in().models.iter();
    let can =
        all.filter(|model| model.products.iter().any(|product| product.has_profile(profile))).map(|model| &model.key);
    let of: Vec<&ModelKey> = named.map_or_else(|| can.collect(), |model| vec![model]);
    of.into_iter().filter_map(|model| profile.model_key(model.as_str())).collect()
}

/// Counters by name: scratch disk, and whole numbers of anything else but devices.
fn extras(resources: &Plain) -> Result<BTreeMap<String, u64>, HardwareError> {
    let mut all = BTreeMap::new();
    if !resources.disk_bytes.is_zero() {
        all.insert(DISK.to_owned(), resources.disk_bytes.0);
    }
    for (name, quantity) in resources.extended.to_quantities() {
        if super::merge::is_gpu(&name) {
            let what = format!("resource {name}");
            return Err(HardwareError::UnsupportedOnSubstrate { substrate: Substrate::Fleet, what });
        }
        all.insert(name, quantity.count().unwrap_or(u64::MAX));
    }
    Ok(all)
}

#[cfg(test)]
mod tests;
