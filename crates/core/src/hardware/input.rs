//! What users write about hardware, and what it means. Owns defaults and
//! contradictions within the request; machines are not its matter.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::gpu::{Allocation, GpuNeed, GpuType};
use super::{Arch, HardwareError, HardwareRequirements, Tables, TeeLevel, TeeNeed, parse_tee_type};

/// A request as users write it, field by field. What is absent does not matter.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct HardwareInput {
    /// A kind of device, any usual text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpu_type: Option<String>,
    /// How many devices, 0 to 1024.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpu_count: Option<i32>,
    /// Nominal memory of one device in GiB, at least this.
    #[serde(rename = "gpuMemoryGiB", skip_serializing_if = "Option::is_none")]
    pub gpu_memory_gib: Option<u32>,
    /// Devices connected by NVLink or the vendor's equal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nvlink: Option<bool>,
    /// Whether a trusted execution environment is required, or only better.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tee_required: Option<bool>,
    /// Which one, any usual text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tee_type: Option<String>,
    /// The CPU architecture.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_arch: Option<Arch>,
    /// How Kubernetes is asked for devices.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allocation: Option<Allocation>,
    /// Labels the machine must have, with exactly these values.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub custom_labels: BTreeMap<String, String>,
}

/// What the text of a type asks for.
struct RequestedType {
    kind: GpuType,
    /// How many, where the text says so: `H100:8`.
    count: Option<i64>,
}

impl RequestedType {
    /// A number behind a colon, or before or behind an `x`, is a count where the whole text names no known device.
    fn read(text: &str, tables: &Tables) -> Result<Self, HardwareError> {
        let catalogue = &tables.catalogue;
        if catalogue.parse(text).is_err()
            && let Some((kind, count, is_apart)) = counted(text)
        {
            // `MI250X2` may be two of one model or one of none.
            let is_open = !is_apart && catalogue.parse(&format!("{kind}x")).is_ok();
            let kind = match catalogue.parse(kind) {
                _ if is_open => None,
                Ok(known) => Some(known),
                // Digits that no blank or colon sets off may be of a name.
                Err(_) if is_apart => Some(catalogue.ask(kind)?),
                Err(_) => None,
            };
            if let Some(kind) = kind {
                return Ok(Self { kind, count: Some(count) });
            }
        }
        Ok(Self { kind: catalogue.ask(text)?, count: None })
    }
}

/// A text without the count in it, the count, and whether something sets the count off from the rest; none where there is none.
fn counted(text: &str) -> Option<(&str, i64, bool)> {
    let text = text.trim_ascii();
    let times = |ch: char| matches!(ch, 'x' | 'X' | '*');
    let number = |digits: &str| digits.parse().unwrap_or(i64::MAX);
    let is_digit = |ch: char| ch.is_ascii_digit();
    let behind = text.trim_end_matches(is_digit);
    if behind.len() < text.len() {
        let count = number(&text[behind.len()..]);
        if let Some(kind) = behind.trim_ascii_end().strip_suffix(':') {
            return Some((kind, count, true));
        }
        if let Some(kind) = behind.trim_ascii_end().strip_suffix(times) {
            let is_apart = kind.ends_with(' ');
            return Some((kind.trim_ascii_end(), count, is_apart));
        }
    }
    let before = text.trim_start_matches(is_digit);
    let kind = before.trim_ascii_start().strip_prefix(times).filter(|_| before.len() < text.len())?;
    Some((kind.trim_ascii_start(), number(&text[..text.len() - before.len()]), kind.starts_with(' ')))
}

impl HardwareInput {
    /// What is required, with defaults filled in.
    ///
    /// # Errors
    /// A text that cannot be read, a count that contradicts the type, a required environment without a kind.
    pub fn requirements(&self, tables: &Tables) -> Result<HardwareRequirements, HardwareError> {
        Ok(HardwareRequirements {
            gpu: self.gpu(tables)?,
            tee: self.tee()?,
            arch: self.cpu_arch,
            labels: self.custom_labels.clone(),
        })
    }

    fn gpu(&self, tables: &Tables) -> Result<Option<GpuNeed>, HardwareError> {
        let described = self.gpu_type.is_some() || self.gpu_memory_gib.is_some() || self.nvlink == Some(true);
        let max = GpuNeed::MAX_COUNT;
        let asked = self.gpu_type.as_deref().map(|text| RequestedType::read(text, tables)).transpose()?;
        let said = asked.as_ref().and_then(|asked| asked.count);
        if let (Some(said), Some(given)) = (said, self.gpu_count)
            && said != i64::from(given)
        {
            return Err(HardwareError::CountDiffers { said, given: given.into() });
        }
        let count = match self.gpu_count.map(i64::from).or(said) {
            None if described => 1,
            None => return Ok(None),
            Some(0) if described => {
                let kind = self.gpu_type.as_deref().unwrap_or("gpu").chars().take(64).collect();
                return Err(HardwareError::CountZeroWithType { kind });
            }
            Some(0) => return Ok(None),
            Some(given) => {
                let count = u32::try_from(given).ok().filter(|count| *count <= max);
                count.ok_or(HardwareError::CountOutOfRange { given, max })?
            }
        };
        let mut kind = asked.map(|asked| asked.kind).unwrap_or_default();
        if let Some(gib) = self.gpu_memory_gib.filter(|gib| !(1..=4096).contains(gib)) {
            return Err(HardwareError::MemoryOutOfRange { given: gib.to_string() });
        }
        if let (Some(profile), Some(asked)) = (kind.partition, self.gpu_memory_gib)
            && asked > u32::from(profile.memory_gb)
        {
            // The field is about what is asked for, which is the slice.
            let (model, largest) = (format!("slice {profile}"), u32::from(profile.memory_gb));
            return Err(HardwareError::NoVariantWithMemory { model, asked, largest });
        }
        kind.memory_gib = kind.memory_gib.max(self.gpu_memory_gib);
        kind.nvlink |= self.nvlink == Some(true);
        Ok(Some(GpuNeed { count, kind, allocation: self.allocation.unwrap_or_default() }))
    }

    fn tee(&self) -> Result<Option<TeeNeed>, HardwareError> {
        let Some(text) = &self.tee_type else {
            return if self.tee_required == Some(true) { Err(HardwareError::TeeTypeMissing) } else { Ok(None) };
        };
        let level = if self.tee_required == Some(false) { TeeLevel::Preferred } else { TeeLevel::Required };
        Ok(Some(TeeNeed { kind: parse_tee_type(text)?, level }))
    }
}
