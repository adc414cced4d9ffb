//! Devices in a placement: by labels and extended resources, by claims, or by a list of devices. Owns which of these a
//! need takes on a substrate.

use std::collections::BTreeSet;

use super::{claim, instances, label, unsupported};
use crate::hardware::device::{DeviceClass, DeviceNeed, DeviceSource};
use crate::hardware::gpu::{Allocation, Vendor, Wanted};
use crate::hardware::placement::{Alternative, Clause, LabelExpr, Placement, RuntimeNeed, Toleration};
use crate::hardware::table::{LabelFamily, MigStrategy, VendorWords};
use crate::hardware::vocabulary::{GpuWords, Vocabulary};
use crate::hardware::{HardwareError, ResolvedGpu};
use crate::quantity::Quantity;
use crate::resource::ResourceName;

/// What everything else that runs for NVIDIA's devices tolerates as well.
const NVIDIA: &str = "nvidia.com/gpu";

/// Asks for devices.
pub(super) fn require(
    placement: &mut Placement,
    need: &ResolvedGpu,
    vocabulary: &Vocabulary,
) -> Result<(), HardwareError> {
    placement.tolerations.extend(vocabulary.gpu_tolerations.iter().cloned());
    match &vocabulary.gpu {
        GpuWords::Inventory => {
            placement.device = Some(device(need, DeviceSource::Inventory));
            Ok(())
        }
        GpuWords::Labels { vendors, families, mig_strategy, .. } => {
            let words = vendors.get(&need.vendor).ok_or_else(|| unsupported(vocabulary, kind(need)))?;
            if need.vendor == Vendor::Nvidia {
                placement.tolerations.push(Toleration::of_key(NVIDIA));
            }
            if need.allocation == Allocation::Dra {
                placement.device = Some(device(need, DeviceSource::Inventory));
                placement.claims.push(claim::claim(need, words, &vocabulary.catalogue)?);
                return Ok(());
            }
            placement.device = Some(device(need, DeviceSource::Labels));
            resource(placement, need, words, (vocabulary, *mig_strategy))?;
            if placement.runtime.is_none() {
                placement.runtime = words.runtime_class.as_ref().map(|class| RuntimeNeed {
                    name: class.to_string(),
                    accepted: BTreeSet::new(),
                    any: true,
                });
            }
            labels(placement, need, (words, families, *mig_strategy), vocabulary)
        }
    }
}

/// The devices asked for, in a few words.
fn kind(need: &ResolvedGpu) -> String {
    need.kind.to_string()
}

fn device(need: &ResolvedGpu, source: DeviceSource) -> DeviceNeed {
    DeviceNeed {
        vendor: need.vendor,
        class: need.class,
        count: need.count,
        model: need.kind.model.clone(),
        name: need.kind.name.clone(),
        form: need.kind.form.clone(),
        products: need.products.iter().flatten().map(|product| product.name.clone()).collect(),
        memory_gib: need.kind.memory_gib,
        nvlink: need.kind.nvlink,
        source,
    }
}

/// The extended resource, and leave beside its taint.
fn resource(
    placement: &mut Placement,
    need: &ResolvedGpu,
    words: &VendorWords,
    (vocabulary, strategy): (&Vocabulary, MigStrategy),
) -> Result<(), HardwareError> {
    let none = || unsupported(vocabulary, kind(need));
    let name = match need.class {
        DeviceClass::Slice(profile) if strategy == MigStrategy::Mixed => {
            ResourceName::new(format!("nvidia.com/mig-{}", profile.resource_name())).ok()
        }
        DeviceClass::Confidential => confidential(placement, need, vocabulary)?,
        _ => words.resource.clone(),
    };
    let name = name.ok_or_else(none)?;
    let count = Quantity::from_count(u64::from(need.count)).round_up(name.step()).unwrap_or(u64::MAX);
    placement.tolerations.push(Toleration::of_key(name.as_str()));
    let count = count.max(placement.resources.get(name.as_str()));
    placement.resources.set(name, count);
    Ok(())
}

/// The resource of devices that are passed through to a confidential virtual machine. Their nodes have no labels of
/// products: a model is told by a resource or by labels of its own, as the tables say, and is never left out.
fn confidential(
    placement: &mut Placement,
    need: &ResolvedGpu,
    vocabulary: &Vocabulary,
) -> Result<Option<ResourceName>, HardwareError> {
    let words = vocabulary.confidential.as_ref().ok_or_else(|| unsupported(vocabulary, kind(need)))?;
    placement.required.push(LabelExpr::equal(words.ready.as_str(), "true").into());
    if need.products.is_none() && need.kind.name.is_none() && need.kind.memory_gib.is_none() {
        return Ok(words.resource.clone());
    }
    let without = |why: String| {
        let what = format!("{} in a confidential virtual machine ({why})", kind(need));
        Err(unsupported(vocabulary, what))
    };
    if need.kind.name.is_some() {
        return without(
            "its nodes do not publish the name of a device; name a model of the hardware configuration".to_owned(),
        );
    }
    let Some(model) = &need.kind.model else {
        return without("its nodes do not publish the memory of a device; name a model".to_owned());
    };
    let all = vocabulary.catalogue.products(need.vendor, Wanted { model: Some(model), ..Wanted::default() });
    if need.products.as_ref() != Some(&all) {
        return without(format!("its nodes do not publish the forms and sizes of {model}; name the model alone"));
    }
    if let Some(resource) = words.resource_by_model.get(model) {
        return Ok(Some(resource.clone()));
    }
    let Some(labels) = words.product_labels.get(model).filter(|labels| !labels.is_empty()) else {
        let (resources, labels) = ("confidentialGpu.resourceByModel", "confidentialGpu.productLabels");
        return without(format!("the hardware configuration does not list {model} in `{resources}` or `{labels}`"));
    };
    placement.required.extend(labels.iter().map(|(key, value)| LabelExpr::equal(key.as_str(), value.as_str()).into()));
    Ok(words.resource.clone())
}

/// What labels must say. One family's conditions are clauses of their own, which become selectors where they are plain;
/// of several families each that can say the whole need is an alternative.
fn labels(
    placement: &mut Placement,
    need: &ResolvedGpu,
    (words, families, strategy): (&VendorWords, &BTreeSet<LabelFamily>, MigStrategy),
    vocabulary: &Vocabulary,
) -> Result<(), HardwareError> {
    if need.class == DeviceClass::Confidential {
        return Ok(());
    }
    let catalogue = &vocabulary.catalogue;
    let mut said: Vec<Vec<LabelExpr>> = Vec::new();
    for family in families {
        let all = match family {
            LabelFamily::Native => label::native(need, words, catalogue, strategy),
            LabelFamily::Gke => label::gke(need, catalogue),
            LabelFamily::Karpenter => label::instance(&label::KARPENTER, need, catalogue),
            LabelFamily::Eks => label::instance(&label::EKS, need, catalogue),
            LabelFamily::InstanceType => instances::types(need, catalogue),
        };
        said.extend(all);
    }
    // Where the resource says it all, labels need not say that there are devices: clusters without the vendor's operator have none.
    if said.iter().any(Vec::is_empty) {
        return Ok(());
    }
    match said.len() {
        0 => Err(nobody_says(need, vocabulary)),
        1 => {
            let all = said.pop().unwrap_or_default();
            if let Some(once) = label::counted_once(&all) {
                let any_of = once.into_iter().map(|one| Alternative { all_of: vec![one] }).collect();
                placement.required.push(Clause { any_of });
            }
            placement.required.extend(all.into_iter().map(Clause::from));
            Ok(())
        }
        _ => {
            let any_of = said.into_iter().flat_map(alternatives).collect();
            placement.required.push(Clause { any_of });
            Ok(())
        }
    }
}

/// The conditions of a family as alternatives, one for each way in which devices are counted once.
fn alternatives(all: Vec<LabelExpr>) -> Vec<Alternative> {
    let Some(once) = label::counted_once(&all) else { return vec![Alternative { all_of: all }] };
    once.into_iter().map(|one| Alternative { all_of: all.iter().cloned().chain([one]).collect() }).collect()
}

/// Why no family can say a need: no product is that large, or there is no word for it.
fn nobody_says(need: &ResolvedGpu, vocabulary: &Vocabulary) -> HardwareError {
    let catalogue = &vocabulary.catalogue;
    if let Some(name) = &need.kind.name {
        let why = if need.kind.memory_gib.is_some() || need.kind.nvlink {
            "no label gives the memory or the links of a device whose model is not in the tables"
        } else if name.label_values(need.vendor).is_empty() {
            "its name is not a valid label value"
        } else {
            "the label families in use name devices from their own lists"
        };
        return unsupported(vocabulary, format!("{} ({why})", kind(need)));
    }
    if let (None, Some(asked)) = (&need.products, need.kind.memory_gib)
        && catalogue.products(need.vendor, Wanted { memory_gib: Some(asked), ..Wanted::default() }).is_empty()
    {
        let largest = catalogue.largest(need.vendor, None);
        return HardwareError::NoVariantWithMemory { model: need.vendor.to_string(), asked, largest };
    }
    unsupported(vocabulary, kind(need))
}
