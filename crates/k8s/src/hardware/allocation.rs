//! Whether devices are asked for by claims or by extended resources. Owns the choice of `auto`.

use std::collections::BTreeSet;

use orlop_core::hardware::ResolvedGpu;
use orlop_core::hardware::device_class;
use orlop_core::hardware::gpu::Allocation;
use orlop_core::hardware::merge::is_gpu;
use orlop_core::hardware::vocabulary::{GpuWords, Vocabulary};

use super::node::Node;

/// What a cluster says about devices besides its nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceFacts {
    /// Versions of `resource.k8s.io` that are served.
    pub versions: BTreeSet<String>,
    /// Device classes that exist; none where they may not be read or are not served.
    pub classes: Option<BTreeSet<String>>,
    /// Drivers that have published a slice.
    pub drivers: BTreeSet<String>,
}

impl DeviceFacts {
    /// The version of the API by which claims are made.
    #[must_use]
    pub fn version(&self) -> Option<&'static str> {
        ["v1", "v1beta2"].into_iter().find(|version| self.versions.contains(*version))
    }
}

/// How devices are asked for: as the need says, and where it leaves the choice, by claims only where everything for them is
/// there and no node offers the vendor's devices as extended resources.
#[must_use]
pub fn allocation(need: &ResolvedGpu, words: &Vocabulary, facts: &DeviceFacts, nodes: &[Node]) -> Allocation {
    if need.allocation != Allocation::Auto {
        return need.allocation;
    }
    let GpuWords::Labels { vendors, .. } = &words.gpu else { return Allocation::DevicePlugin };
    let Some(vendor) = vendors.get(&need.vendor) else { return Allocation::DevicePlugin };
    let class = device_class(need, vendor);
    let has_class = class.zip(facts.classes.as_ref()).is_some_and(|(class, known)| known.contains(class.as_str()));
    let resource = vendor.resource.as_ref().map(orlop_core::resource::ResourceName::as_str);
    let domain = resource.and_then(|resource| resource.split_once('/')).map(|(domain, _)| domain);
    // Shares and slices are the vendor's devices too.
    let devices = |name: &str| {
        Some(name) == resource || (is_gpu(name) && name.split_once('/').map(|(domain, _)| domain) == domain)
    };
    let offers =
        |node: &Node| node.machine.allocatable.iter().any(|(name, amount)| amount > 0 && devices(name.as_str()));
    let advertised = nodes.iter().any(offers);
    let published = facts.drivers.contains(vendor.device_class.as_str());
    if facts.version().is_some() && has_class && published && !advertised {
        Allocation::Dra
    } else {
        Allocation::DevicePlugin
    }
}
