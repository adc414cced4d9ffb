//! A machine as placements see it: labels, taints, resources, devices. Owns which of its devices satisfy a request; adapters read
//! machines from a substrate.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::device::{DeviceClass, DeviceNeed, DeviceSource};
use super::gpu::{Catalogue, Form, MigProfile, ModelKey, Vendor, named_with};
use super::placement::Taint;
use super::verdict::DeviceLack;
use crate::resource::ResourceVector;

/// A machine.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Machine {
    /// Its name.
    pub name: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its taints.
    pub taints: Vec<Taint>,
    /// The resources that work can use on it in total.
    pub allocatable: ResourceVector,
    /// Its devices, where the substrate lists them.
    pub devices: Vec<Device>,
}

/// A device of a machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Device {
    /// What the substrate calls this one device.
    pub id: String,
    /// Its vendor.
    pub vendor: Vendor,
    /// Its name, as the machine tells it.
    pub name: String,
    /// Its model, where the name says so.
    #[serde(default)]
    pub model: Option<ModelKey>,
    /// Its nominal memory in GiB, where it is known.
    #[serde(default)]
    pub memory_gib: Option<u32>,
    /// The group of devices it is connected with by NVLink or the vendor's equal.
    #[serde(default)]
    pub nvlink_group: Option<u32>,
    /// Forms (such as `sxm4`) that it has beside those in its name.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub forms: BTreeSet<Form>,
    /// Free slices by profile; a device with slices is not whole.
    #[serde(default)]
    pub slices: BTreeMap<MigProfile, Vec<String>>,
    /// Whether it works within trusted execution environments only.
    #[serde(default)]
    pub confidential: bool,
    /// Whether it is shared with other work.
    #[serde(default)]
    pub shared: bool,
    /// Whether it is in use.
    #[serde(default)]
    pub taken: bool,
}

impl Device {
    /// A free device with a name, from which its other properties follow as far as the catalogue knows it.
    #[must_use]
    pub fn named(catalogue: &Catalogue, vendor: Vendor, name: &str) -> Self {
        let read = catalogue.parse(name).ok().filter(|read| read.vendor.is_none_or(|made_by| made_by == vendor));
        let (model, memory_gib) = read.map_or((None, None), |read| (read.model, read.memory_gib));
        let product = catalogue.product_named(name).filter(|(model, _)| model.vendor == vendor);
        Self {
            id: String::new(),
            vendor,
            name: name.to_owned(),
            model,
            memory_gib,
            nvlink_group: None,
            forms: product.map(|(_, product)| product.forms.clone()).unwrap_or_default(),
            slices: BTreeMap::new(),
            confidential: false,
            shared: false,
            taken: false,
        }
    }
}

impl DeviceNeed {
    /// Whether one device is of the kind asked for, whoever has it.
    fn is_met_by(&self, device: &Device) -> bool {
        device.vendor == self.vendor
            && (self.model.is_none() || self.model == device.model)
            && self.name.as_ref().is_none_or(|name| name.is_of(device.vendor, &device.name))
            && named_with(&device.name, &device.forms, &self.form)
            && (!self.nvlink || device.nvlink_group.is_some())
            && !(device.shared || device.taken)
            && match self.class {
                DeviceClass::Unit => device.slices.is_empty() && !device.confidential,
                DeviceClass::Whole => device.slices.is_empty() && !device.confidential && self.memory_fits(device),
                DeviceClass::Confidential => {
                    device.slices.is_empty() && device.confidential && self.memory_fits(device)
                }
                DeviceClass::Slice(profile) => {
                    // More than a slice has is said of the card that it is of.
                    let of_slice = self.memory_gib.is_none_or(|gib| gib <= u32::from(profile.memory_gb));
                    device.slices.contains_key(&profile) && (of_slice || self.memory_fits(device))
                }
            }
    }

    /// Where nobody tells the memory of a device, a product that will do has enough.
    fn memory_fits(&self, device: &Device) -> bool {
        let product = device.name.strip_prefix("NVIDIA ").unwrap_or(&device.name);
        match (self.memory_gib, device.memory_gib) {
            (None, _) => true,
            (Some(asked), Some(has)) => has >= asked,
            (Some(_), None) => self.products.contains(product),
        }
    }

    /// Ids of devices (of slices, where slices are asked for) that satisfy the request, the first ones in the given order; with
    /// NVLink all of one group. None if there are too few.
    #[must_use]
    pub fn choose(&self, devices: &[Device]) -> Option<Vec<String>> {
        let count = usize::try_from(self.count).ok()?;
        let found = self.candidates(devices).into_iter().find(|ids| ids.len() >= count)?;
        Some(found.into_iter().take(count).collect())
    }

    /// What is lacking among the devices; nothing where the machine's labels vouch for them.
    pub(super) fn lack(&self, devices: &[Device]) -> Option<DeviceLack> {
        if self.source == DeviceSource::Labels || self.choose(devices).is_some() {
            return None;
        }
        let has = self.candidates(devices).iter().map(Vec::len).max().unwrap_or(0);
        Some(DeviceLack { asked: self.clone(), has })
    }

    /// Ids that will do, in groups of which one must serve the whole need.
    fn candidates(&self, devices: &[Device]) -> Vec<Vec<String>> {
        let suitable: Vec<&Device> = devices.iter().filter(|device| self.is_met_by(device)).collect();
        let ids = |device: &&Device| match self.class {
            DeviceClass::Slice(profile) => device.slices.get(&profile).cloned().unwrap_or_default(),
            _ => vec![device.id.clone()],
        };
        if !self.nvlink {
            return vec![suitable.iter().flat_map(ids).collect()];
        }
        let groups: BTreeSet<u32> = suitable.iter().filter_map(|device| device.nvlink_group).collect();
        let of = |group: u32| suitable.iter().filter(move |device| device.nvlink_group == Some(group));
        groups.into_iter().map(|group| of(group).flat_map(ids).collect()).collect()
    }
}
