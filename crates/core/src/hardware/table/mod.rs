//! Configurable tables of the hardware model: the built-in entries, and those of a file, which replace or extend them entry by
//! entry. Owns the values and this overlay; reads no file.

mod built_in;
mod names;
mod overlay;
#[cfg(test)]
mod tests;
mod words;

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

pub use names::{AttributeName, ClassName, KeyName, ValueName};
pub use overlay::Over;
pub use words::{
    ConfidentialFile, ConfidentialWords, DockerFile, DockerWords, LabelFamily, MigStrategy, NodeType, TeeFamily,
    TeeFile, TeeWords, VendorFile, VendorWords,
};

use super::gpu::{Catalogue, FamilyValue, Model, ModelKey, Product, Vendor, legal};
use super::{Arch, Substrate, TeeKind, Vocabulary};

/// Which families of labels are read, and how slices are reported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Families {
    /// Families with labels of GPUs.
    pub gpu: BTreeSet<LabelFamily>,
    /// Whether other families count too when a node of the cluster has one of their keys.
    pub auto: bool,
    /// Families with labels of trusted execution environments.
    pub tee: BTreeSet<TeeFamily>,
    /// How slices are reported.
    pub mig_strategy: MigStrategy,
}

impl Default for Families {
    fn default() -> Self {
        Self {
            gpu: BTreeSet::from([LabelFamily::Native]),
            auto: true,
            tee: BTreeSet::from([TeeFamily::Rule, TeeFamily::Nfd]),
            mig_strategy: MigStrategy::Mixed,
        }
    }
}

/// Everything that the translations look up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tables {
    /// Device models.
    pub catalogue: Catalogue,
    /// Vendors in Kubernetes.
    pub vendors: BTreeMap<Vendor, VendorWords>,
    /// Which families of labels are read.
    pub families: Families,
    /// Trusted execution environments in Kubernetes.
    pub tees: BTreeMap<TeeKind, TeeWords>,
    /// GPUs within trusted execution environments.
    pub confidential: ConfidentialWords,
    /// How Docker is asked.
    pub docker: DockerWords,
    /// Node types of OpenStack sites.
    pub node_types: BTreeMap<String, NodeType>,
    /// The vendor of devices of which only a count is given.
    pub default_vendor: Vendor,
}

impl Default for Tables {
    /// What is built in.
    fn default() -> Self {
        built_in::tables()
    }
}

/// A model as a file says it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ModelFile {
    /// Another name for it.
    #[serde(default)]
    pub alias: Option<ModelKey>,
    /// Its vendor.
    #[serde(deserialize_with = "overlay::vendor")]
    pub vendor: Vendor,
    /// Its products.
    #[serde(deserialize_with = "legal::products")]
    pub products: Vec<Product>,
    /// What GKE calls its accelerators.
    #[serde(default)]
    pub gke: Vec<FamilyValue>,
    /// What Karpenter calls it.
    #[serde(default, deserialize_with = "legal::some_value")]
    pub karpenter: Option<String>,
}

/// Whose labels tell about GPUs, as a file says it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GpuFamilies {
    /// The vendors' own, and those whose keys a cluster's nodes have.
    Auto,
    /// These and no others.
    These(BTreeSet<LabelFamily>),
}

/// What a file says about GPUs.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Default)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct GpuFile {
    /// Models by key, each in place of the one with its key.
    pub models: BTreeMap<ModelKey, ModelFile>,
    /// Vendors, in any case.
    #[serde(deserialize_with = "overlay::vendors")]
    pub vendors: BTreeMap<Vendor, VendorFile>,
    /// Which families of labels are read.
    pub label_families: Option<GpuFamilies>,
    /// How slices are reported.
    pub mig_strategy: Option<MigStrategy>,
}

/// What a file says about trusted execution.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Default)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct TeesFile {
    /// Kinds.
    #[serde(deserialize_with = "overlay::tees")]
    pub kinds: BTreeMap<TeeKind, TeeFile>,
    /// Which families of labels are read.
    pub label_families: Option<BTreeSet<TeeFamily>>,
}

/// What a file says about OpenStack.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Default)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct OpenStackFile {
    /// Node types, each in place of the one with its name.
    pub node_types: BTreeMap<ValueName, NodeType>,
}

/// What a file says about defaults.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Default)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct DefaultsFile {
    /// The vendor of devices of which only a count is given, in any case.
    #[serde(alias = "defaultVendor", deserialize_with = "overlay::some_vendor")]
    pub vendor: Option<Vendor>,
}

/// A file that is laid over the built-in tables.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Default)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct TablesFile {
    /// GPUs.
    pub gpu: GpuFile,
    /// Trusted execution environments.
    pub tee: TeesFile,
    /// GPUs within trusted execution environments.
    pub confidential_gpu: ConfidentialFile,
    /// Docker.
    pub docker: DockerFile,
    /// OpenStack.
    pub openstack: OpenStackFile,
    /// Defaults.
    pub defaults: DefaultsFile,
}

impl Tables {
    /// These tables with a file laid over them.
    #[must_use]
    pub fn overlaid(mut self, file: TablesFile) -> Self {
        for (key, model) in file.gpu.models {
            let ModelFile { alias, vendor, products, gke, karpenter } = model;
            self.catalogue.put(Model { key, alias: alias.map(String::from), vendor, products, gke, karpenter });
        }
        for (vendor, over) in file.gpu.vendors {
            self.vendors.entry(vendor).or_default().lay(over);
        }
        match file.gpu.label_families {
            Some(GpuFamilies::These(families)) => (self.families.gpu, self.families.auto) = (families, false),
            Some(GpuFamilies::Auto) => {
                let Families { gpu, auto, .. } = Families::default();
                (self.families.gpu, self.families.auto) = (gpu, auto);
            }
            None => {}
        }
        self.families.mig_strategy = file.gpu.mig_strategy.unwrap_or(self.families.mig_strategy);
        for (kind, over) in file.tee.kinds {
            let row = self.tees.entry(kind).or_default();
            // Labels of its own restore a weaker kind that the built-in row serves by a stronger one.
            if over.labels.is_some() && over.narrowed_to.is_none() {
                row.narrowed_to = None;
            }
            row.lay(over);
        }
        self.families.tee = file.tee.label_families.unwrap_or(self.families.tee);
        self.confidential.lay(file.confidential_gpu);
        self.docker.lay(file.docker);
        self.node_types.extend(file.openstack.node_types.into_iter().map(|(name, row)| (name.into(), row)));
        self.default_vendor = file.defaults.vendor.unwrap_or(self.default_vendor);
        self
    }

    /// The words of a substrate.
    #[must_use]
    pub fn vocabulary(&self, substrate: Substrate) -> Vocabulary {
        Vocabulary::of(self.clone(), substrate)
    }

    /// What an OpenStack site calls an architecture.
    #[must_use]
    pub const fn platform(arch: Arch) -> &'static str {
        match arch {
            Arch::Amd64 => "x86_64",
            Arch::Arm64 => "aarch64",
            Arch::Ppc64le => "ppc64le",
            Arch::S390x => "s390x",
            Arch::Riscv64 => "riscv64",
        }
    }
}
