//! Errors of hardware requests: what is wrong with which text, and what would be accepted. Owns wording and help only.

use crate::error::Class;

use super::gpu::Vendor;

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
    /// Slices of a device of a vendor that has none.
    #[error("{vendor} devices have no MIG profiles")]
    MigNotSupported {
        /// The vendor named.
        vendor: Vendor,
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
        nearest: Vec<&'static str>,
    },
    /// A model of another vendor than the one named.
    #[error("GPU model `{model}` is made by {made_by}, not by {asked}")]
    VendorMismatch {
        /// The model.
        model: &'static str,
        /// Its vendor.
        made_by: Vendor,
        /// The vendor named.
        asked: Vendor,
    },
    /// A trusted execution environment nobody knows.
    #[error("unknown TEE type `{given}`")]
    UnknownTee {
        /// The text, cut to 64 characters.
        given: String,
    },
}

fn did_you_mean(nearest: &[&str]) -> String {
    if nearest.is_empty() { String::new() } else { format!(", did you mean {}?", nearest.join(", ")) }
}

impl HardwareError {
    /// What happens next: a request that can never work waits for a change.
    #[must_use]
    pub const fn class(&self) -> Class {
        Class::Invalid
    }

    /// What to write instead.
    #[must_use]
    pub const fn help(&self) -> &'static str {
        match self {
            Self::EmptyGpuType => "name a vendor, a model or both, for example `nvidia-a100` or `A100-SXM4-40GB`",
            Self::GpuTypeTooLong { .. } | Self::IllegalCharacter { .. } => {
                "write the device's product name in printable ASCII, for example `Tesla T4`"
            }
            Self::MixedVendors { .. } => "ask for one vendor, or leave the vendor out",
            Self::BadMigProfile { .. } => "write one profile, for example `mig-1g.5gb` or `a100-mig-3g.20gb`",
            Self::MigNotSupported { .. } => "ask for whole devices, or for slices of an NVIDIA device",
            Self::AmbiguousMemory { .. } => "give the memory of one device once, for example `a100-80gb`",
            Self::MemoryOutOfRange { .. } => "give the memory of one device as 1gb to 4096gb",
            Self::UnknownGpuModel { .. } => "use a known model, for example `h100`, `a100`, `l4`, `t4`, `mi300x`",
            Self::VendorMismatch { .. } => "leave the vendor out, or name a model it makes",
            Self::UnknownTee { .. } => "use one of sgx, tdx, sev, sev-es, sev-snp, se, cca",
        }
    }
}
