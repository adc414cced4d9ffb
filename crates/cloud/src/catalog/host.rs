//! Hosts as the rules see them, and variants: hosts of a type that are equal.

use orlop_core::hardware::Arch;
use orlop_core::hardware::gpu::Vendor;
use serde::{Deserialize, Serialize};

use super::cost::{Cost, cost, flavor_cost};
use super::flavor::{Flavor, VmType, variants};
use crate::analyze::{Feature, Version};

/// Cards of a host, counted by the model with the most memory.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Cards {
    /// The model as the site names it.
    pub model: String,
    /// Who makes it.
    pub vendor: Vendor,
    /// Memory of one in GB.
    pub memory_gb: u32,
    /// How many.
    pub count: u32,
    /// Its compute capability, if it is NVIDIA's and known.
    pub capability: Option<Version>,
    /// Whether they are connected by NVLink.
    pub nvlink: bool,
}

/// A disk of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Disk {
    /// Its size in GB.
    pub gb: u32,
    /// Whether it is on NVMe.
    pub nvme: bool,
}

/// What a host is made of.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Shape {
    /// Its CPU architecture.
    pub arch: Arch,
    /// Hardware threads.
    pub threads: u32,
    /// Nominal memory in GiB.
    pub ram_gib: u32,
    /// Its cards, if it has any.
    pub cards: Option<Cards>,
    /// Its disks, the first one first.
    pub disks: Vec<Disk>,
    /// InfiniBand.
    pub infiniband: bool,
    /// A programmable board.
    pub fpga: bool,
    /// Persistent memory.
    pub nvdimm: bool,
}

impl Shape {
    /// Whether it has a feature.
    #[must_use]
    pub fn has(&self, feature: Feature) -> bool {
        match feature {
            Feature::Fpga => self.fpga,
            Feature::Infiniband => self.infiniband,
            Feature::Nvme => self.disks.iter().any(|disk| disk.nvme),
            Feature::Nvdimm => self.nvdimm,
            Feature::Nvlink => self.cards.as_ref().is_some_and(|cards| cards.nvlink),
        }
    }

    /// Whether it has cards or a programmable board.
    #[must_use]
    pub const fn is_accelerated(&self) -> bool {
        self.cards.is_some() || self.fpga
    }

    /// The disk that counts for a need of `wanted` GB: the largest, or above 2000 GB all together.
    #[must_use]
    pub fn disk_gb(&self, wanted: u32) -> u32 {
        let largest = self.disks.iter().map(|disk| disk.gb).max().unwrap_or(0);
        let sum = self.disks.iter().fold(0_u32, |sum, disk| sum.saturating_add(disk.gb));
        if wanted > 2000 { sum } else { largest }
    }

    /// The disk that the system is put on: the first.
    #[must_use]
    pub fn root_disk_gb(&self) -> u32 {
        self.disks.first().map_or(0, |disk| disk.gb)
    }
}

/// A host of a site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// Its id in the reservation service, as text.
    pub id: String,
    /// Its name for filters.
    pub uid: String,
    /// Its name in the compute service.
    pub hypervisor: String,
    /// Its type; nothing where the site has none.
    pub node_type: Option<String>,
    /// What it is made of.
    pub shape: Shape,
    /// Service units an hour, in thousandths, if the site says.
    pub su_milli: Option<u32>,
}

/// Hosts of a type that are equal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Variant {
    /// The site.
    pub site: String,
    /// The type, or the host's own name where the site has no types.
    pub node_type: String,
    /// What each is made of.
    pub shape: Shape,
    /// Ids of its hosts, as text; empty in the embedded table.
    pub ids: Vec<String>,
    /// Names of its hosts for filters, in the order of the ids.
    pub uids: Vec<String>,
    /// How many hosts it has.
    pub count: usize,
    /// Service units an hour of the dearest, in thousandths, if known.
    pub su_milli: Option<u32>,
    /// Whether every host of the type is in this variant, so that the type alone may be asked for.
    pub whole_type: bool,
    /// Whether the site has types at all.
    pub typed: bool,
    /// The flavor of virtual machines; nothing for hosts.
    pub vm: Option<VmType>,
}

/// Where a catalogue comes from; live data always wins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// The reservation service of the site.
    Live,
    /// A file given by the user.
    File,
    /// The site's public hardware description.
    Public,
    /// The table in this program.
    Embedded,
    /// Nowhere: the site hides its hosts from users, and nobody else describes them.
    Hidden,
}

/// What is available.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Catalogue {
    /// Where it comes from.
    pub origin: Origin,
    /// All variants, by site and type.
    pub variants: Vec<Variant>,
}

impl Catalogue {
    /// Groups hosts of a site into variants.
    #[must_use]
    pub fn of_hosts(origin: Origin, site: &str, hosts: &[Host]) -> Self {
        let mut variants: Vec<Variant> = Vec::new();
        for host in hosts {
            let node_type = host.node_type.as_deref().unwrap_or(&host.hypervisor);
            let known =
                variants.iter_mut().find(|variant| variant.node_type == node_type && variant.shape == host.shape);
            match known {
                Some(variant) => {
                    variant.ids.push(host.id.clone());
                    variant.uids.push(host.uid.clone());
                    variant.count += 1;
                    variant.su_milli = variant.su_milli.max(host.su_milli);
                }
                None => variants.push(Variant {
                    site: site.to_owned(),
                    node_type: node_type.to_owned(),
                    shape: host.shape.clone(),
                    ids: vec![host.id.clone()],
                    uids: vec![host.uid.clone()],
                    count: 1,
                    su_milli: host.su_milli,
                    whole_type: true,
                    typed: host.node_type.is_some(),
                    vm: None,
                }),
            }
        }
        mark_whole_types(&mut variants);
        Self { origin, variants }
    }

    /// The same with the flavors of a site, whose hosts tell what they cost.
    #[must_use]
    pub fn with_flavors(mut self, site: &str, flavors: &[Flavor], hosts: &[Host]) -> Self {
        self.variants.extend(variants(site, flavors, hosts));
        self
    }

    /// The variants of some sites.
    pub fn at_any<'a>(&'a self, sites: &'a [String]) -> impl Iterator<Item = &'a Variant> {
        self.variants.iter().filter(move |variant| sites.contains(&variant.site))
    }

    /// The variants of a site.
    pub fn at<'a>(&'a self, site: &'a str) -> impl Iterator<Item = &'a Variant> {
        self.variants.iter().filter(move |variant| variant.site == site)
    }
}

/// Sorts variants and marks those that are all of their type.
pub(super) fn mark_whole_types(variants: &mut [Variant]) {
    variants.sort_by(|a, b| (&a.site, &a.node_type, &a.shape).cmp(&(&b.site, &b.node_type, &b.shape)));
    let keys: Vec<(String, String)> = variants.iter().map(|v| (v.site.clone(), v.node_type.clone())).collect();
    for variant in variants.iter_mut() {
        let same = keys.iter().filter(|(site, name)| *site == variant.site && *name == variant.node_type).count();
        variant.whole_type = same == 1;
    }
}

impl Variant {
    /// What can be asked for one by one: every host that only its own name tells from others of the type, else all of it at once.
    #[must_use]
    pub fn askable(&self) -> Vec<Self> {
        if !self.typed || self.whole_type || self.vm.is_some() || self.uids.len() < 2 {
            return vec![self.clone()];
        }
        let one = |(at, uid): (usize, &String)| Self {
            ids: self.ids.get(at).cloned().into_iter().collect(),
            uids: vec![uid.clone()],
            ..self.clone()
        };
        self.uids.iter().enumerate().map(one).collect()
    }

    /// The filters of a reservation: on hypervisor properties, on resource properties. Always `=` on a known key, made of
    /// names that the site itself gave.
    #[must_use]
    pub fn filters(&self) -> (String, String) {
        let equal =
            |key: &str, value: &str| serde_json::json!(["=", key, value]).to_string().replace("\",\"", "\", \"");
        if self.vm.is_some() {
            return (String::new(), String::new());
        }
        if !self.typed {
            return (equal("$hypervisor_hostname", &self.node_type), String::new());
        }
        match self.uids.first().filter(|_| !self.whole_type) {
            Some(uid) => (String::new(), equal("$uid", uid)),
            None => (String::new(), equal("$node_type", &self.node_type)),
        }
    }

    /// What so many hours cost: a host whole, a virtual machine its share of the threads of one. `from_site` tells whether the
    /// catalogue holds the site's own rates.
    #[must_use]
    pub fn cost(&self, hours: u32, from_site: bool) -> Cost {
        match &self.vm {
            None => cost(hours, self.su_milli, from_site),
            Some(vm) if vm.host_threads > 0 => {
                let share = flavor_cost(hours, self.su_milli, self.shape.threads, vm.host_threads);
                Cost { known: from_site, ..share }
            }
            // Of which host it is a share nobody knows: as much as a whole one.
            Some(_) => cost(hours, self.su_milli, false),
        }
    }
}
