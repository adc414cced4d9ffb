//! From requirements to a need without gaps or contradictions. Owns what follows from
//! device tables and from trusted execution; substrates are not its matter.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::device::DeviceClass;
use super::gpu::{Allocation, Catalogue, GpuNeed, GpuType, Product, Vendor, Wanted};
use super::{Arch, HardwareError, HardwareRequirements, Tables, TeeKind, TeeLevel, TeeNeed};
use crate::id::{label_key, label_value};

/// Devices that are needed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ResolvedGpu {
    /// How many.
    pub count: u32,
    /// Their vendor.
    pub vendor: Vendor,
    /// What one of them is.
    pub class: DeviceClass,
    /// The rest of what is said about them; its vendor is the same.
    pub kind: GpuType,
    /// Known products that will do; absent where neither model nor form nor NVLink is named, or where it is an exact name, so that
    /// others may too.
    pub products: Option<Vec<Product>>,
    /// How Kubernetes is asked for them.
    pub allocation: Allocation,
}

/// What is needed of a machine.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Resolved {
    /// Devices.
    pub gpu: Option<ResolvedGpu>,
    /// A trusted execution environment.
    pub tee: Option<TeeNeed>,
    /// The CPU architecture.
    pub arch: Option<Arch>,
    /// Labels.
    pub labels: BTreeMap<String, String>,
}

impl Resolved {
    /// The trusted execution environment without which it will not do.
    #[must_use]
    pub fn required_tee(&self) -> Option<TeeKind> {
        self.tee.filter(|need| need.level == TeeLevel::Required).map(|need| need.kind)
    }
}

/// Resolves requirements.
///
/// # Errors
/// A need that contradicts itself or the tables, or an illegal label.
pub fn resolve(requirements: &HardwareRequirements, tables: &Tables) -> Result<Resolved, HardwareError> {
    for (key, value) in &requirements.labels {
        label_key(key).map_err(HardwareError::IllegalLabelKey)?;
        label_value(value).map_err(|fault| HardwareError::IllegalLabelValue { key: key.clone(), fault })?;
    }
    if let (Some(tee), Some(asked)) = (requirements.tee, requirements.arch) {
        let (kind, implied) = (tee.kind, tee.kind.arch());
        if implied != asked {
            return Err(HardwareError::ArchContradiction { kind, implied, asked });
        }
    }
    let mut resolved =
        Resolved { gpu: None, tee: requirements.tee, arch: requirements.arch, labels: requirements.labels.clone() };
    let tee = resolved.required_tee();
    resolved.arch = resolved.arch.or(tee.map(TeeKind::arch));
    let gpu = requirements.gpu.as_ref().map(|need| gpu(need, tables)).transpose()?;
    resolved.gpu = match (gpu, tee.filter(|kind| kind.is_vm())) {
        (Some(gpu), Some(kind)) => Some(confidential(gpu, kind, tables)?),
        (gpu, _) => gpu,
    };
    Ok(resolved)
}

fn gpu(need: &GpuNeed, tables: &Tables) -> Result<ResolvedGpu, HardwareError> {
    let max = GpuNeed::MAX_COUNT;
    if need.count == 0 || need.count > max {
        return Err(HardwareError::CountOutOfRange { given: i64::from(need.count), max });
    }
    let catalogue = &tables.catalogue;
    let mut kind = need.kind.clone();
    let made_by = kind.model.as_ref().and_then(|key| catalogue.model(key.as_str())).map(|model| model.vendor);
    if let (Some(key), None) = (&kind.model, made_by) {
        return Err(HardwareError::UnknownGpuModel { input: key.to_string(), nearest: Vec::new() });
    }
    if let Some(name) =
        kind.name.as_ref().filter(|_| made_by.is_some() || !kind.form.is_empty() || kind.partition.is_some())
    {
        return Err(HardwareError::NameWithMore { name: name.to_string() });
    }
    let sliced = kind.partition.map(|_| Vendor::Nvidia);
    let vendor = kind.vendor.or(made_by).or(sliced).unwrap_or(tables.default_vendor);
    if let Some((made_by, key)) = made_by.zip(kind.model.as_ref()).filter(|(made_by, _)| *made_by != vendor) {
        return Err(HardwareError::VendorMismatch { model: key.to_string(), made_by, asked: vendor });
    }
    kind.vendor = Some(vendor);
    // Of a device that is asked for by its exact name no product is known.
    let named = kind.name.is_none() && (kind.model.is_some() || !kind.form.is_empty() || kind.nvlink);
    let products = if named { Some(products(vendor, &kind, catalogue)?) } else { None };
    let class = match kind.partition {
        Some(profile) => {
            if vendor != Vendor::Nvidia {
                return Err(HardwareError::MigNotSupported { device: vendor.to_string() });
            }
            let (asked, largest) = (kind.memory_gib.unwrap_or(0), u32::from(profile.memory_gb));
            // Beside a model it is said of the card.
            if asked > largest && kind.model.is_none() {
                let model = format!("slice {profile}");
                return Err(HardwareError::NoVariantWithMemory { model, asked, largest });
            }
            DeviceClass::Slice(profile)
        }
        None if named || kind.name.is_some() || kind.memory_gib.is_some() => DeviceClass::Whole,
        None => DeviceClass::Unit,
    };
    Ok(ResolvedGpu { count: need.count, vendor, class, kind, products, allocation: need.allocation })
}

/// The products that will do, or why there are none.
fn products(vendor: Vendor, kind: &GpuType, catalogue: &Catalogue) -> Result<Vec<Product>, HardwareError> {
    let all = Wanted {
        model: kind.model.as_ref(),
        form: Some(&kind.form),
        memory_gib: kind.memory_gib,
        nvlink: kind.nvlink,
        partition: kind.partition,
    };
    let found = catalogue.products(vendor, all);
    if !found.is_empty() {
        return Ok(found);
    }
    let model = kind.model.as_ref().map_or_else(|| vendor.to_string(), ToString::to_string);
    let variants = catalogue.products(vendor, Wanted { memory_gib: None, partition: None, ..all });
    if variants.is_empty() {
        let nvlink = kind.nvlink.then(|| "nvlink".to_owned());
        let words: Vec<String> = kind.form.iter().map(ToString::to_string).chain(nvlink).collect();
        return Err(HardwareError::NoSuchVariant { model, asked: words.join(" ") });
    }
    if let Some(profile) = kind.partition {
        let known: std::collections::BTreeSet<_> = variants.iter().flat_map(|product| &product.mig).collect();
        let known: Vec<String> = known.into_iter().map(ToString::to_string).collect();
        return Err(if known.is_empty() {
            HardwareError::MigNotSupported { device: model }
        } else {
            HardwareError::NoSuchMigProfile { device: model, asked: profile.to_string(), known: known.join(", ") }
        });
    }
    let largest = variants.iter().map(|product| product.memory_gib).max().unwrap_or(0);
    Err(HardwareError::NoVariantWithMemory { model, asked: kind.memory_gib.unwrap_or(0), largest })
}

/// Devices within a virtual machine of a trusted execution environment.
fn confidential(gpu: ResolvedGpu, kind: TeeKind, tables: &Tables) -> Result<ResolvedGpu, HardwareError> {
    let max = tables.confidential.max_devices;
    let refuse = |why: &str| {
        let what = format!("{kind} with GPUs takes whole NVIDIA devices, at most {max}, by the device plugin: {why}");
        Err(HardwareError::UnsupportedCombination { what })
    };
    if gpu.vendor != Vendor::Nvidia {
        return refuse(&format!("{} devices are asked for", gpu.vendor));
    }
    if let DeviceClass::Slice(profile) = gpu.class {
        return refuse(&format!("slices {profile} are asked for"));
    }
    if gpu.count > max {
        return refuse(&format!("{} are asked for", gpu.count));
    }
    if gpu.allocation == Allocation::Dra {
        return refuse("claims are asked for");
    }
    Ok(ResolvedGpu { class: DeviceClass::Confidential, allocation: Allocation::DevicePlugin, ..gpu })
}

#[cfg(test)]
mod tests;
