//! Claims on devices (dynamic resource allocation). Owns the conditions in CEL, one for each need, each guarded by a check
//! that the device tells about it.

use std::collections::BTreeSet;

use crate::hardware::device::{DeviceClaim, DeviceClass};
use crate::hardware::gpu::{Catalogue, Vendor, Wanted};
use crate::hardware::table::{ClassName, VendorWords};
use crate::hardware::{HardwareError, ResolvedGpu, Substrate, gpu::Product};

/// The class of devices that a need claims; none where the vendor has no such one.
#[must_use]
pub fn device_class<'w>(need: &ResolvedGpu, words: &'w VendorWords) -> Option<&'w ClassName> {
    match need.class {
        DeviceClass::Slice(_) => words.slice_class.as_ref(),
        DeviceClass::Unit | DeviceClass::Whole | DeviceClass::Confidential => Some(&words.device_class),
    }
}

/// The claim of a need.
pub(super) fn claim(
    need: &ResolvedGpu,
    words: &VendorWords,
    catalogue: &Catalogue,
) -> Result<DeviceClaim, HardwareError> {
    let domain = words.device_class.as_str();
    let mut selectors = Vec::new();
    let class = device_class(need, words);
    let class = class.ok_or_else(|| HardwareError::MigNotSupported { device: need.vendor.to_string() })?;
    match need.class {
        DeviceClass::Slice(profile) => {
            selectors.push(attribute(domain, "profile", &format!("== {}", quoted(&profile.to_string()))));
        }
        DeviceClass::Unit | DeviceClass::Whole | DeviceClass::Confidential => {
            let whole = words.whole_type.as_ref();
            selectors.extend(whole.map(|whole| attribute(domain, "type", &format!("== {}", quoted(whole.as_str())))));
        }
    }
    let sliced = matches!(need.class, DeviceClass::Slice(_));
    if need.kind.name.is_some() && need.kind.nvlink {
        return Err(unsupported(need, "no claim gives the links of a device whose model is not in the tables"));
    }
    if let Some(name) = &need.kind.name {
        selectors.push(one_of(words, name.claim_names(need.vendor)));
        // A name that nobody knows may be that of a share; where memory is asked for, this is said beside it.
        let may_be_share = need.vendor == Vendor::Nvidia && need.kind.memory_gib.is_none();
        selectors.extend(may_be_share.then(|| undivided(domain)));
    }
    match (&need.products, need.kind.memory_gib.filter(|_| !sliced)) {
        (Some(named), _) => selectors.push(products(need.vendor, words, named)),
        (None, Some(gib)) if need.vendor == Vendor::Nvidia => {
            selectors.push(memory(domain, catalogue.threshold_mib(need.vendor, gib)));
            selectors.push(undivided(domain));
        }
        (None, Some(_)) if need.kind.name.is_some() => {
            return Err(unsupported(need, "no device of this vendor publishes its memory in claims"));
        }
        (None, Some(asked)) => {
            let large = catalogue.products(need.vendor, Wanted { memory_gib: Some(asked), ..Wanted::default() });
            if large.is_empty() {
                let (model, largest) = (need.vendor.to_string(), catalogue.largest(need.vendor, None));
                return Err(HardwareError::NoVariantWithMemory { model, asked, largest });
            }
            selectors.push(products(need.vendor, words, &large));
        }
        (None, None) => {}
    }
    Ok(DeviceClaim { class: class.to_string(), count: need.count, selectors })
}

fn unsupported(need: &ResolvedGpu, why: &str) -> HardwareError {
    let what = format!("{} ({why})", need.kind);
    HardwareError::UnsupportedOnSubstrate { substrate: Substrate::Kubernetes, what }
}

/// A text in CEL.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

fn attribute(domain: &str, name: &str, condition: &str) -> String {
    let all = format!("device.attributes[{}]", quoted(domain));
    format!("{} in {all} && {all}.{name} {condition}", quoted(name))
}

fn memory(domain: &str, threshold_mib: u64) -> String {
    let all = format!("device.capacity[{}]", quoted(domain));
    let least = quoted(&format!("{}Mi", threshold_mib.saturating_add(1)));
    format!("\"memory\" in {all} && {all}.memory.compareTo(quantity({least})) >= 0")
}

/// That a device is no share of one that a hypervisor divides: the brands of such shares begin alike.
fn undivided(domain: &str) -> String {
    let all = format!("device.attributes[{}]", quoted(domain));
    format!("!(\"brand\" in {all}) || !{all}.brand.startsWith(\"NvidiaV\")")
}

/// What the driver of a vendor calls a product.
fn names(vendor: Vendor, product: &str) -> Vec<String> {
    match vendor {
        Vendor::Nvidia if !product.starts_with("NVIDIA") => vec![format!("NVIDIA {product}"), product.to_owned()],
        Vendor::Nvidia => vec![product.to_owned()],
        // As their labels have them.
        Vendor::Amd => vec![product.replace(' ', "_")],
        Vendor::Intel => vec![product.replace('_', " ")],
    }
}

fn products(vendor: Vendor, words: &VendorWords, products: &[Product]) -> String {
    let names = products.iter().flat_map(|product| names(vendor, &product.name));
    one_of(words, names.collect())
}

/// That a device bears one of these names.
fn one_of(words: &VendorWords, names: BTreeSet<String>) -> String {
    let names: Vec<String> = names.iter().map(|name| quoted(name)).collect();
    attribute(words.device_class.as_str(), words.product_attribute.as_str(), &format!("in [{}]", names.join(", ")))
}
