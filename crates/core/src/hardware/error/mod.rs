//! Errors of hardware requests: what is wrong with which text, and what would be accepted. Owns wording and help only.

use crate::error::Class;

use super::gpu::Vendor;
use super::verdict::MachineFit;
use super::{Arch, Substrate, TeeKind};
use crate::id::IdError;

/// A hardware request that can never work as written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HardwareError {
    /// Nothing but blanks and separators.
    #[error("GPU type is empty")]
    EmptyGpuType,
    /// More text than any device name has.
    #[error("GPU type has {len} bytes, at most {max} are allowed")]
    GpuTypeTooLong {
        /// Bytes given.
        len: usize,
        /// Bytes allowed.
        max: usize,
    },
    /// A character no device name has.
    #[error("GPU type has the character {ch:?} at position {at}")]
    IllegalCharacter {
        /// The character.
        ch: char,
        /// Its position, counted in characters from 1.
        at: usize,
    },
    /// Words of two vendors.
    #[error("GPU type names two vendors, {first} and {second}")]
    MixedVendors {
        /// The first one named.
        first: Vendor,
        /// The other one.
        second: Vendor,
    },
    /// `mig` without a profile, a malformed one, or two of them.
    #[error("GPU type has no single MIG profile at `{given}`")]
    BadMigProfile {
        /// The word where a profile was expected.
        given: String,
    },
    /// Slices of a device that has none.
    #[error("{device} devices have no MIG profiles")]
    MigNotSupported {
        /// The vendor or model named.
        device: String,
    },
    /// Slices that a device cannot be cut into.
    #[error("{device} devices have no MIG profile {asked}, they have {known}")]
    NoSuchMigProfile {
        /// The model, or the vendor where no model is named.
        device: String,
        /// The profile.
        asked: String,
        /// Its profiles.
        known: String,
    },
    /// Two memory sizes.
    #[error("GPU type names two memory sizes, {first} GiB and {second} GiB")]
    AmbiguousMemory {
        /// The first one named.
        first: u32,
        /// The other one.
        second: u32,
    },
    /// A memory size outside 1 to 4096 GiB.
    #[error("GPU memory `{given}` is out of range")]
    MemoryOutOfRange {
        /// The word.
        given: String,
    },
    /// A model that is in no table.
    #[error("unknown GPU model `{input}`{}", did_you_mean(nearest))]
    UnknownGpuModel {
        /// The words left after vendor, form and size, joined.
        input: String,
        /// At most three known models that look like it.
        nearest: Vec<String>,
    },
    /// The text does not name a GPU.
    #[error("GPU type `{given}` is not a GPU")]
    NoGpu {
        /// The text.
        given: String,
        /// What to do about it.
        instead: &'static str,
    },
    /// An exact name of a device beside words about it.
    #[error("GPU name `{name}` is given together with a model, form words or a MIG profile")]
    NameWithMore {
        /// The name.
        name: String,
    },
    /// A model of another vendor than the one named.
    #[error("GPU model `{model}` is made by {made_by}, not by {asked}")]
    VendorMismatch {
        /// The model.
        model: String,
        /// Its vendor.
        made_by: Vendor,
        /// The vendor named.
        asked: Vendor,
    },
    /// An unknown trusted execution environment.
    #[error("unknown TEE type `{given}`")]
    UnknownTee {
        /// The text, cut to 64 characters.
        given: String,
    },
    /// A kind of device, but none of it.
    #[error("gpuCount is 0, but gpuType is `{kind}`")]
    CountZeroWithType {
        /// The type, as given.
        kind: String,
    },
    /// More devices than any need may name.
    #[error("gpuCount is {given}, 0 to {max} are allowed")]
    CountOutOfRange {
        /// The count.
        given: i64,
        /// The greatest allowed.
        max: u32,
    },
    /// One count in the type, another beside it.
    #[error("gpuType says {said}, but gpuCount is {given}")]
    CountDiffers {
        /// The count in the type.
        said: i64,
        /// The other one.
        given: i64,
    },
    /// More memory than any device of the model has.
    #[error("no {model} has {asked} GiB, the largest has {largest} GiB")]
    NoVariantWithMemory {
        /// The model, or the vendor where no model is named.
        model: String,
        /// GiB asked for.
        asked: u32,
        /// GiB of the largest.
        largest: u32,
    },
    /// Form words or NVLink that no product has.
    #[error("there is no {model} with {asked}")]
    NoSuchVariant {
        /// The model, or the vendor where no model is named.
        model: String,
        /// The words.
        asked: String,
    },
    /// A trusted execution environment is required, but it is not said which.
    #[error("teeRequired is true, but teeType is missing")]
    TeeTypeMissing,
    /// A kind that does not exist on the architecture asked for.
    #[error("{kind} exists on {implied}, but {asked} is asked for")]
    ArchContradiction {
        /// The kind.
        kind: TeeKind,
        /// Its architecture.
        implied: Arch,
        /// The other one.
        asked: Arch,
    },
    /// Needs that no machine serves at once.
    #[error("{what}")]
    UnsupportedCombination {
        /// Which, and why.
        what: String,
    },
    /// A label key that no machine can have.
    #[error("{0}")]
    IllegalLabelKey(IdError),
    /// A label value that no machine can have.
    #[error("label {key}: {fault}")]
    IllegalLabelValue {
        /// The label.
        key: String,
        /// What is wrong with the value.
        fault: IdError,
    },
    /// A label that is the fleet's own.
    #[error("label {key} is set by the worker itself")]
    ReservedLabel {
        /// The label.
        key: String,
    },
    /// A need that a substrate has no words for.
    #[error("{what} is not available on {substrate}")]
    UnsupportedOnSubstrate {
        /// The substrate.
        substrate: Substrate,
        /// The need.
        what: String,
    },
    /// One label with two values.
    #[error("label {key} is asked to be {user}, but the hardware asks for {generated}")]
    LabelConflict {
        /// The label.
        key: String,
        /// The user's value.
        user: String,
        /// What the hardware asks for.
        generated: String,
    },
    /// More alternatives than a node affinity should have.
    #[error("the node affinity has {terms} terms, at most {max} are allowed")]
    TooManyTerms {
        /// Terms after merging.
        terms: usize,
        /// Terms allowed.
        max: usize,
    },
    /// No machine can meet all terms.
    #[error("the node affinity and the hardware contradict each other in every term")]
    UnsatisfiableAffinity,
    /// Devices of two kinds.
    #[error("resource {user} is asked for, but the hardware asks for {generated}")]
    ResourceConflict {
        /// The user's resource.
        user: String,
        /// The derived one.
        generated: String,
    },
    /// A runtime class that does not give the trusted execution environment.
    #[error("runtime class {user} does not give what the hardware asks for, {accepted} would")]
    RuntimeClassConflict {
        /// The user's class.
        user: String,
        /// Classes that would do.
        accepted: String,
    },
    /// More than a count can only be chosen by those who know the host's devices.
    #[error("{what} can only be chosen with an inventory of the host")]
    InventoryRequired {
        /// The need.
        what: String,
    },
    /// No machine fits now.
    #[error("no machine fits{}", nearest_misses(best))]
    NoMatchingHardware {
        /// Those that come nearest, at most three.
        best: Vec<MachineFit>,
    },
}

fn nearest_misses(best: &[MachineFit]) -> String {
    best.iter().map(|verdict| format!("; {verdict}")).collect()
}

fn did_you_mean(nearest: &[String]) -> String {
    if nearest.is_empty() { String::new() } else { format!(", did you mean {}?", nearest.join(", ")) }
}

impl HardwareError {
    /// What a caller should do next: `Capacity` where no machine fits now, `Invalid` where the request can never succeed.
    #[must_use]
    pub const fn class(&self) -> Class {
        match self {
            Self::NoMatchingHardware { .. } => Class::Capacity,
            _ => Class::Invalid,
        }
    }

    /// The field of a [`HardwareInput`](super::HardwareInput) that it is about, in its JSON spelling; none where it is about labels,
    /// affinity or resources of the pod.
    #[must_use]
    pub const fn field(&self) -> Option<&'static str> {
        Some(match self {
            Self::CountZeroWithType { .. } | Self::CountOutOfRange { .. } | Self::CountDiffers { .. } => "gpuCount",
            Self::MemoryOutOfRange { .. } => "gpuMemoryGiB",
            Self::UnknownTee { .. } | Self::TeeTypeMissing | Self::UnsupportedCombination { .. } => "teeType",
            Self::ArchContradiction { .. } => "cpuArch",
            Self::IllegalLabelKey(_) | Self::IllegalLabelValue { .. } | Self::ReservedLabel { .. } => "customLabels",
            Self::EmptyGpuType
            | Self::GpuTypeTooLong { .. }
            | Self::IllegalCharacter { .. }
            | Self::MixedVendors { .. }
            | Self::BadMigProfile { .. }
            | Self::MigNotSupported { .. }
            | Self::NoSuchMigProfile { .. }
            | Self::AmbiguousMemory { .. }
            | Self::UnknownGpuModel { .. }
            | Self::NoGpu { .. }
            | Self::NameWithMore { .. }
            | Self::VendorMismatch { .. }
            | Self::NoVariantWithMemory { .. }
            | Self::NoSuchVariant { .. } => "gpuType",
            _ => return None,
        })
    }

    /// What to write instead.
    #[must_use]
    pub const fn help(&self) -> &'static str {
        match self {
            Self::EmptyGpuType => "name a vendor, a model or both, for example `nvidia-a100` or `A100-SXM4-40GB`",
            Self::GpuTypeTooLong { .. } | Self::IllegalCharacter { .. } => {
                "write the device's product name in printable ASCII, for example `Tesla T4`"
            }
            Self::MixedVendors { .. } => "ask for one vendor, for example `nvidia-a100`, or leave the vendor out",
            Self::BadMigProfile { .. } => "write one profile, for example `mig-1g.5gb` or `a100-mig-3g.20gb`",
            Self::MigNotSupported { .. } => {
                "ask for whole devices, or for slices of an NVIDIA device, for example `a100-mig-1g.5gb`"
            }
            Self::AmbiguousMemory { .. } => "give the memory of one device once, for example `a100-80gb`",
            Self::MemoryOutOfRange { .. } => "give the memory of one device as 1gb to 4096gb",
            Self::UnknownGpuModel { .. } => "use a known model, for example `h100`, `a100`, `l4`, `t4`, `mi300x`",
            Self::NoGpu { instead, .. } => instead,
            Self::NameWithMore { .. } => "give the exact name alone, it says all of them",
            Self::VendorMismatch { .. } => "leave the vendor out, or name a model it makes, for example `amd-mi300x`",
            Self::UnknownTee { .. } | Self::TeeTypeMissing => "use one of sgx, tdx, sev, sev-es, sev-snp, se, cca",
            Self::NoSuchMigProfile { .. } => "name a profile that the device has, or leave the model out",
            Self::CountZeroWithType { .. } => "leave gpuCount out for one device, or leave both out for none",
            Self::CountOutOfRange { .. } => "ask for as many devices as one machine has, for example `gpuCount: 8`",
            Self::CountDiffers { .. } => "give the count once, for example `gpuType: h100` with `gpuCount: 8`",
            Self::NoVariantWithMemory { .. } => {
                "ask for less memory of one device, or for a model that has it, for example `h200`"
            }
            Self::NoSuchVariant { .. } => "use a product name that exists, for example `A100-SXM4-80GB`",
            Self::ArchContradiction { .. } => "leave cpuArch out, it follows from teeType",
            Self::UnsupportedCombination { .. } => {
                "ask for one whole NVIDIA device with tdx or sev-snp, for example `gpuType: h100`, or drop one need"
            }
            Self::IllegalLabelKey(_) => "write `name` or `prefix/name`, for example `example.com/rack`",
            Self::IllegalLabelValue { .. } => {
                "write at most 63 letters, digits, `-`, `_` and `.`, for example `rack-7`"
            }
            Self::ReservedLabel { .. } => "use a label outside `orlop/`, for example `example.com/rack`",
            Self::UnsupportedOnSubstrate { substrate, .. } => match substrate {
                Substrate::Kubernetes => "drop the need, or run on another substrate: openstack, docker or fleet",
                Substrate::OpenStack => "drop the need, or run on another substrate: kubernetes, docker or fleet",
                Substrate::Docker => "drop the need, or run on another substrate: kubernetes, openstack or fleet",
                Substrate::Fleet => "drop the need, or run on another substrate: kubernetes, openstack or docker",
            },
            Self::LabelConflict { .. } => "remove the selector, or make it one of the values the hardware asks for",
            Self::TooManyTerms { .. } => {
                "write fewer nodeSelectorTerms, or use one label family, for example `labelFamilies: [native]`"
            }
            Self::UnsatisfiableAffinity => "remove the affinity term that excludes the hardware",
            Self::ResourceConflict { .. } => "remove the resource, hardwareRequirements asks for it",
            Self::RuntimeClassConflict { .. } => "remove runtimeClass, it follows from teeType",
            Self::InventoryRequired { .. } => {
                "give the host's inventory, or ask for a count alone, for example `gpuCount: 1`"
            }
            Self::NoMatchingHardware { .. } => "wait for capacity, or ask for less",
        }
    }
}

#[cfg(test)]
mod tests;
