//! What names and sizes of devices in a table may be: each ends up in a label, a claim or a comparison. Owns these rules only.

use serde::de::{Deserialize, Deserializer, Error};

use super::Product;
use crate::hardware::table::ValueName;
use crate::id::label_value;

/// The most nominal memory of one device, in GiB.
const MEMORY_MAX: u32 = 4096;
/// The longest value of a label, in bytes.
const VALUE_MAX: usize = 63;

/// Reads the name of a product: what labels make of it is legal, also with its maker before it.
pub(in crate::hardware) fn product<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let name = String::deserialize(deserializer)?;
    let text = name.replace(' ', "-");
    let legal = text.parse::<ValueName>().and_then(|_| label_value(&format!("NVIDIA-{text}")));
    legal.map_err(|error| D::Error::custom(error.about("product name"))).map(|()| name)
}

/// Reads products, of which those with slices have labels for them.
pub(in crate::hardware) fn products<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Product>, D::Error> {
    let all = Vec::<Product>::deserialize(deserializer)?;
    for Product { name, mig, .. } in &all {
        let Some(profile) = mig.iter().map(|profile| profile.resource_name().len()).max() else { continue };
        let max = VALUE_MAX.saturating_sub("NVIDIA--MIG-.me.all".len() + profile);
        if name.len() > max {
            let len = name.len();
            let message = format!(
                "product name `{name}` is not valid: it is {len} bytes long, at most {max} are allowed with its slices"
            );
            return Err(D::Error::custom(message));
        }
    }
    Ok(all)
}

/// Reads the value of a label.
pub(in crate::hardware) fn value<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    ValueName::deserialize(deserializer).map(String::from)
}

/// Reads the value of a label, where there is one.
pub(in crate::hardware) fn some_value<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    Ok(Option::<ValueName>::deserialize(deserializer)?.map(String::from))
}

/// Reads nominal memory of one device in GiB.
pub(in crate::hardware) fn memory<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    in_bounds(u32::deserialize(deserializer)?)
}

/// Reads nominal memory of one device in GiB, where it is said.
pub(in crate::hardware) fn some_memory<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u32>, D::Error> {
    Option::<u32>::deserialize(deserializer)?.map(in_bounds).transpose()
}

fn in_bounds<E: Error>(gib: u32) -> Result<u32, E> {
    let is_memory = (1..=MEMORY_MAX).contains(&gib);
    let refused = || E::custom(format!("memory of {gib} GiB is out of range; use 1 to {MEMORY_MAX}"));
    is_memory.then_some(gib).ok_or_else(refused)
}
