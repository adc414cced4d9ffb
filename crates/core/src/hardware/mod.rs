//! What hardware work needs, in words of no substrate, and what it becomes in the words of each: requirements, device names,
//! trusted execution, resolution, placement, merging, fit with reasons.
//!
//! ```
//! use orlop_core::hardware::{HardwareInput, Resources, Substrate, Tables, place, resolve};
//!
//! let tables = Tables::default();
//! let input = HardwareInput { gpu_type: Some("a100".into()), gpu_count: Some(2), ..HardwareInput::default() };
//! let resolved = resolve(&input.requirements(&tables)?, &tables)?;
//! let placement = place(&resolved, &Resources::default(), &tables.vocabulary(Substrate::Kubernetes))?;
//! assert_eq!(placement.resources.to_string(), "nvidia.com/gpu 2");
//! # Ok::<(), orlop_core::hardware::HardwareError>(())
//! ```
//!
//! Owns the model and its tables. Never renders a pod, a container or a reservation: those who talk to a substrate do.

pub mod describe;
mod device;
mod error;
pub mod facts;
pub mod fleet;
pub mod gpu;
mod input;
#[cfg(test)]
mod laws;
pub mod machine;
pub mod merge;
mod place;
pub mod placement;
mod requirements;
mod resolve;
pub mod table;
mod tee;
pub mod verdict;
pub mod vocabulary;

pub use describe::{derived, describe};
pub use error::HardwareError;
pub use facts::{GpuFacts, HardwareFacts, satisfies};
pub use input::HardwareInput;
pub use machine::{Device, Machine};
pub use merge::{Merged, UserConstraints, merge};
pub use place::{device_class, place};
pub use requirements::{Arch, HardwareRequirements, Resources};
pub use resolve::{Resolved, ResolvedGpu, resolve};
pub use table::{Tables, TablesFile};
pub use tee::{TeeKind, TeeLevel, TeeNeed, parse_tee_type};
pub use verdict::{Failure, MachineFit};
pub use vocabulary::{Substrate, Vocabulary};
