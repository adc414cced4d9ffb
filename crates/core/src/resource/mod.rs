//! Amounts of compute resources: CPU in millicores, bytes, devices, vectors of named resources, and shares of a total. Owns exact
//! arithmetic on them; never measures a machine and never decides who gets what.
//!
//! ```
//! use orlop_core::quantity::Quantity;
//! use orlop_core::resource::{Bytes, CpuMilli, ResourceVector, Rounding, Share};
//! assert_eq!(CpuMilli::requested("1.5".parse()?), Some(CpuMilli(1500)));
//! assert_eq!(Bytes::gibi(2).quantity(), "2Gi".parse::<Quantity>()?);
//!
//! let job = ResourceVector::parse([("cpu", "1"), ("memory", "6Gi")], Rounding::Up)?;
//! let fleet = ResourceVector::parse([("cpu", "8"), ("memory", "16Gi")], Rounding::Down)?;
//! assert!(job.fits(&fleet));
//! assert_eq!(job.dominant_share(&fleet), Share::new(3, 8)); // of memory; of CPU it is 1 of 8
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod amount;
mod name;
mod share;
#[cfg(test)]
mod tests;
mod vector;

pub use amount::{Bytes, CpuMilli, Gpu};
pub use name::{CPU, EPHEMERAL_STORAGE, MEMORY, ResourceName};
pub use share::Share;
pub use vector::{Lack, ResourceError, ResourceVector, Rounding};
