//! Devices as a need and as a claim: what is asked for, in which class, and who vouches for it. Owns the values; matching
//! them with a machine's devices is the inventory's matter.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::HardwareError;
use super::gpu::{DeviceName, Form, MigProfile, ModelKey, Vendor};
use crate::named::named_enum;

/// What one of the devices asked for is. Text: `unit`, `whole`, `mig-<profile>`, `confidential`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DeviceClass {
    /// Whatever the substrate counts as one: a device, or a share of one.
    Unit,
    /// A whole device, not shared with other work.
    Whole,
    /// A slice.
    Slice(MigProfile),
    /// A whole device within a trusted execution environment.
    Confidential,
}

impl fmt::Display for DeviceClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unit => f.pad("unit"),
            Self::Whole => f.pad("whole"),
            Self::Slice(profile) => f.pad(&format!("mig-{profile}")),
            Self::Confidential => f.pad("confidential"),
        }
    }
}

impl FromStr for DeviceClass {
    type Err = HardwareError;

    fn from_str(text: &str) -> Result<Self, HardwareError> {
        match text {
            "unit" => Ok(Self::Unit),
            "whole" => Ok(Self::Whole),
            "confidential" => Ok(Self::Confidential),
            slice => slice.strip_prefix("mig-").unwrap_or(slice).parse().map(Self::Slice),
        }
    }
}

impl Serialize for DeviceClass {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for DeviceClass {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

named_enum! {
    /// How it is known that a machine has the devices.
    pub enum DeviceSource("device source") {
        /// Its labels and resources, which the placement asks for beside the devices.
        Labels = "labels",
        /// A list of its devices.
        Inventory = "inventory",
    }
}

/// Devices as a substrate hands them out.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DeviceNeed {
    /// Their vendor.
    pub vendor: Vendor,
    /// What one of them is.
    pub class: DeviceClass,
    /// How many.
    pub count: u32,
    /// Their model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<ModelKey>,
    /// Their exact name, where no table knows their model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<DeviceName>,
    /// Words that their names must have.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub form: BTreeSet<Form>,
    /// Known products that are accepted; empty: any.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub products: BTreeSet<String>,
    /// Nominal memory of one in GiB, at least this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_gib: Option<u32>,
    /// Whether they are connected by NVLink or the vendor's equal.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub nvlink: bool,
    /// How it is known that a machine has them.
    pub source: DeviceSource,
}

impl fmt::Display for DeviceNeed {
    /// As an explanation says it: `2 nvidia a100 sxm4 GPUs, 80 GiB or more, NVLink`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.count)?;
        match self.class {
            DeviceClass::Unit | DeviceClass::Whole => {}
            DeviceClass::Slice(_) | DeviceClass::Confidential => write!(f, "{} ", self.class)?,
        }
        write!(f, "{}", self.vendor)?;
        if let Some(model) = &self.model {
            write!(f, " {model}")?;
        }
        if let Some(name) = &self.name {
            write!(f, " `{name}`")?;
        }
        for word in &self.form {
            write!(f, " {word}")?;
        }
        f.write_str(match (self.class, self.count) {
            (DeviceClass::Slice(_), 1) => " slice",
            (DeviceClass::Slice(_), _) => " slices",
            (_, 1) => " GPU",
            _ => " GPUs",
        })?;
        if let Some(gib) = self.memory_gib {
            write!(f, ", {gib} GiB or more")?;
        }
        if self.nvlink { f.write_str(", NVLink") } else { Ok(()) }
    }
}

/// A claim on devices, where a substrate hands them out by claims.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DeviceClaim {
    /// The device class.
    pub class: String,
    /// How many devices, exactly.
    pub count: u32,
    /// Conditions on each device, in CEL.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub selectors: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_read_back() {
        let slice = DeviceClass::Slice("1g.5gb+me".parse().unwrap());
        for class in [DeviceClass::Unit, DeviceClass::Whole, slice, DeviceClass::Confidential] {
            assert_eq!(class.to_string().parse(), Ok(class));
            let json = serde_json::to_string(&class).unwrap();
            assert_eq!(serde_json::from_str::<DeviceClass>(&json).unwrap(), class);
        }
        assert!("half".parse::<DeviceClass>().is_err());
    }
}
