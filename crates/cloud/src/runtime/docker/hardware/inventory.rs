//! What a Docker host has. Owns the value, and how a file says it.

use std::collections::{BTreeMap, BTreeSet};

use orlop_core::hardware::fleet::is_derived;
use orlop_core::hardware::gpu::{Catalogue, MigProfile, Vendor};
use orlop_core::hardware::table::DockerWords;
use orlop_core::hardware::vocabulary::{Vocabulary, tee_label};
use orlop_core::hardware::{Arch, Device, Machine, TeeKind};
use orlop_core::resource::{ResourceError, ResourceVector, Rounding};
use serde::Deserialize;
use serde_json::Value;

use super::{KFD, enclave_nodes, render_node};

/// The most devices of one host.
const DEVICES: usize = 1024;

/// What a host has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inventory {
    /// Its CPU architecture.
    pub arch: Arch,
    /// Its devices in the order of their index. The id is the UUID of an NVIDIA device, of others the render node, such as
    /// `renderD128`; ids of slices are their UUIDs.
    pub devices: Vec<Device>,
    /// Device nodes, such as `/dev/kfd` and `/dev/dri/renderD128`; a device without its nodes is not given away.
    pub device_nodes: BTreeSet<String>,
    /// Runtimes registered in the daemon.
    pub runtimes: BTreeSet<String>,
    /// Labels of the daemon.
    pub labels: BTreeMap<String, String>,
    /// CPU, memory and disk that are free.
    pub free: ResourceVector,
    /// Whether the daemon limits the size of a container's disk.
    pub limits_disk: bool,
}

/// A host's inventory that cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InventoryError {
    /// A field is missing, unknown or of another kind.
    #[error("the inventory of the host cannot be read: {0}")]
    Shape(#[from] serde_json::Error),
    /// What is free is no quantity.
    #[error("the inventory of the host cannot be read: free: {0}")]
    Free(#[from] ResourceError),
    /// No host has so many devices.
    #[error("the inventory of the host has {found} devices, at most {DEVICES} are read")]
    TooManyDevices {
        /// How many it has.
        found: usize,
    },
}

/// An inventory as a file says it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Document {
    arch: Arch,
    #[serde(default)]
    devices: Vec<DeviceDocument>,
    #[serde(default)]
    device_nodes: BTreeSet<String>,
    #[serde(default)]
    runtimes: BTreeSet<String>,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    free: BTreeMap<String, Value>,
    #[serde(default)]
    limits_disk: bool,
}

/// A device as a file says it; what is not said comes from its name.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct DeviceDocument {
    id: String,
    vendor: Vendor,
    name: String,
    memory_gib: Option<u32>,
    nvlink_group: Option<u32>,
    #[serde(default)]
    slices: BTreeMap<MigProfile, Vec<String>>,
    #[serde(default)]
    taken: bool,
}

impl DeviceDocument {
    fn device(self, catalogue: &Catalogue) -> Device {
        let named = Device::named(catalogue, self.vendor, &self.name);
        Device {
            id: self.id,
            memory_gib: self.memory_gib.or(named.memory_gib),
            nvlink_group: self.nvlink_group,
            slices: self.slices,
            taken: self.taken,
            ..named
        }
    }
}

/// An amount as people write it: `8`, `32Gi`.
fn scalar(amount: &Value) -> String {
    amount.as_str().map_or_else(|| amount.to_string(), str::to_owned)
}

impl Inventory {
    /// Reads an inventory: `arch` and `free` (quantities of `cpu`, `memory`, `ephemeral-storage`), and where there are some,
    /// `devices` (each with `id`, `vendor`, `name`, optional `memoryGib`, `nvlinkGroup`, `slices` by profile, `taken`),
    /// `deviceNodes`, `runtimes`, `labels`, `limitsDisk`.
    ///
    /// ```
    /// use orlop_cloud::runtime::docker::hardware::Inventory;
    /// use orlop_core::hardware::gpu::Catalogue;
    ///
    /// let host = serde_json::json!({
    ///     "arch": "amd64",
    ///     "devices": [{"id": "GPU-0", "vendor": "nvidia", "name": "Tesla T4"}],
    ///     "free": {"cpu": "8", "memory": "32Gi"},
    /// });
    /// let inventory = Inventory::read(&host, Catalogue::built_in())?;
    /// assert_eq!(inventory.devices[0].memory_gib, Some(16));
    /// # Ok::<(), orlop_cloud::runtime::docker::hardware::InventoryError>(())
    /// ```
    ///
    /// # Errors
    /// A field is missing, unknown or of another kind, or there are too many devices.
    pub fn read(document: &Value, catalogue: &Catalogue) -> Result<Self, InventoryError> {
        let read = Document::deserialize(document)?;
        if read.devices.len() > DEVICES {
            return Err(InventoryError::TooManyDevices { found: read.devices.len() });
        }
        Ok(Self {
            arch: read.arch,
            devices: read.devices.into_iter().map(|device| device.device(catalogue)).collect(),
            device_nodes: read.device_nodes,
            runtimes: read.runtimes,
            labels: read.labels,
            free: ResourceVector::parse(
                read.free.into_iter().map(|(name, amount)| (name, scalar(&amount))),
                Rounding::Down,
            )?,
            limits_disk: read.limits_disk,
        })
    }

    /// The host as placements see it: what its device nodes and runtimes give, whatever labels of the daemon say of that.
    pub(super) fn machine(&self, words: &Vocabulary, docker: &DockerWords) -> Machine {
        let mut labels = self.labels.clone();
        labels.retain(|key, _| !is_derived(key));
        labels.insert(words.arch_label.clone(), self.arch.to_string());
        for (kind, row) in &words.tees {
            let given = match &row.runtime_class {
                Some(runtime) => self.runtimes.contains(runtime.as_str()),
                None => *kind == TeeKind::Sgx && enclave_nodes(docker).all(|node| self.device_nodes.contains(node)),
            };
            if given {
                labels.insert(tee_label(*kind), "true".to_owned());
            }
        }
        Machine {
            name: "docker".to_owned(),
            labels,
            taints: Vec::new(),
            allocatable: self.free.clone(),
            devices: self.devices.iter().filter(|device| self.can_open(device)).cloned().collect(),
        }
    }

    /// Whether the host has the nodes by which a device is given; NVIDIA's runtime brings those of its own.
    fn can_open(&self, device: &Device) -> bool {
        let node = |path: &str| self.device_nodes.contains(path);
        match device.vendor {
            Vendor::Nvidia => true,
            Vendor::Amd => node(KFD) && node(&render_node(&device.id)),
            Vendor::Intel => node(&render_node(&device.id)),
        }
    }
}
