//! How substrates call devices and trusted execution environments. Owns the rows and which fields a file may say of them; how
//! a file is laid over them, and the built-in rows, stand beside.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::super::TeeKind;
use super::super::gpu::{ModelKey, legal};
use super::names::{AttributeName, ClassName, KeyName, ValueName};
use super::overlay::Over;
use crate::named::named_enum;
use crate::resource::{ResourceName, ResourceVector};

/// Declares a row and what a file may say of it: a file's row has the same fields, of which each may be left out.
macro_rules! rows {
    ($($(#[$meta:meta])* pub struct $name:ident, $file:ident { $($(#[$fmeta:meta])* pub $field:ident: $type:ty,)+ })+) => { $(
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, Eq, Serialize, Default)]
        #[serde(rename_all = "camelCase")]
        #[non_exhaustive]
        pub struct $name {
            $($(#[$fmeta])* pub $field: $type,)+
        }

        /// What a file says of such a row; what it leaves out stays.
        #[derive(Debug, Clone, PartialEq, Eq, Deserialize, Default)]
        #[serde(rename_all = "camelCase", deny_unknown_fields, default)]
        pub struct $file {
            $($(#[$fmeta])* pub $field: Option<<$type as Over>::Layer>,)+
        }

        impl $name {
            /// Lays a file's row over this one.
            pub(super) fn lay(&mut self, over: $file) {
                $(if let Some(said) = over.$field {
                    self.$field.lay(said);
                })+
            }
        }
    )+ };
}

named_enum! {
    /// A family of labels that report GPUs.
    pub enum LabelFamily("GPU label family") {
        /// The vendors' own: device plugins and feature discovery.
        Native = "native",
        /// Those of Google's clusters.
        Gke = "gke",
        /// Those of Karpenter on AWS.
        Karpenter = "karpenter",
        /// Those of EKS Auto Mode.
        Eks = "eks",
        /// The type of a rented machine, where it is one whose devices are known: node groups of EKS and AKS have no other label.
        InstanceType = "instanceType",
    }
}

named_enum! {
    /// A family of labels that report trusted execution environments.
    pub enum TeeFamily("TEE label family") {
        /// Those of the vendors' rules and operators.
        Rule = "rule",
        /// Those of Node Feature Discovery.
        Nfd = "nfd",
    }
}

named_enum! {
    /// How a cluster reports slices.
    #[derive(Default)]
    pub enum MigStrategy("MIG strategy") {
        /// Each profile is a resource of its own.
        #[default]
        Mixed = "mixed",
        /// All devices of a node are cut alike, and their slices are counted as devices.
        Single = "single",
    }
}

rows! {
    /// A vendor's devices in Kubernetes.
    pub struct VendorWords, VendorFile {
        /// The extended resource of whole devices.
        pub resource: Option<ResourceName>,
        /// The label with the product's name.
        pub product: KeyName,
        /// A runtime class for containers with devices; none by default.
        pub runtime_class: Option<ClassName>,
        /// The class of claims on whole devices.
        pub device_class: ClassName,
        /// The class of claims on slices.
        pub slice_class: Option<ClassName>,
        /// The attribute of claims with the product's name.
        pub product_attribute: AttributeName,
        /// The value of the attribute `type` of whole devices.
        pub whole_type: Option<ValueName>,
    }

    /// A kind of trusted execution environment in Kubernetes.
    pub struct TeeWords, TeeFile {
        /// Labels that are `true` where it is, by who sets them; each is an alternative.
        pub labels: BTreeMap<TeeFamily, Vec<KeyName>>,
        /// Resources that give it.
        pub resources: ResourceVector,
        /// Taints that do not matter to work that needs it.
        pub tolerations: Vec<KeyName>,
        /// The runtime class that gives it.
        pub runtime_class: Option<ClassName>,
        /// Other runtime classes that do.
        pub accepted: BTreeSet<ClassName>,
        /// The runtime class that gives it together with a confidential GPU.
        pub gpu_runtime_class: Option<ClassName>,
        /// What the runtime takes for itself.
        pub overhead: ResourceVector,
        /// The stronger kind that is asked for in its place.
        pub narrowed_to: Option<TeeKind>,
    }

    /// GPUs within trusted execution environments.
    pub struct ConfidentialWords, ConfidentialFile {
        /// The most devices of one attempt.
        pub max_devices: u32,
        /// The label that is `true` where devices are ready for it.
        pub ready: KeyName,
        /// The extended resource of such devices.
        pub resource: Option<ResourceName>,
        /// Another resource for some models.
        pub resource_by_model: BTreeMap<ModelKey, ResourceName>,
        /// Labels of nodes that have devices of a model and nothing else: those that pass devices through have no labels of
        /// products by themselves.
        pub product_labels: BTreeMap<ModelKey, BTreeMap<KeyName, ValueName>>,
        /// What the runtime takes for itself.
        pub overhead: ResourceVector,
    }

    /// How Docker is asked.
    pub struct DockerWords, DockerFile {
        /// Whether NVIDIA's devices are asked for by names of the container device interface.
        pub cdi: bool,
        /// Runtimes that give a trusted execution environment.
        pub runtimes: BTreeMap<TeeKind, ClassName>,
        /// Whether enclaves get the device that provisions them.
        pub sgx_provision: bool,
    }
}

/// A node type of an OpenStack site. What its node documents do not say is at least this.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct NodeType {
    /// Nominal memory of one GPU in GiB.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "legal::some_memory")]
    pub gpu_memory_gib: Option<u32>,
    /// Whether its GPUs are connected by NVLink or the vendor's equal.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub nvlink: bool,
    /// Trusted execution environments it has.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub tees: BTreeSet<TeeKind>,
}
