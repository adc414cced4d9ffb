//! Hardware requirements of jobs, independent of what runs them, and their translation for Kubernetes, Docker, OpenStack and the
//! fleet's own workers: GPUs by name, memory or slice, trusted execution environments (TEE), CPU architectures and labels.
//!
//! A request goes this way: [`HardwareInput`] (as users write it) → [`HardwareRequirements`] (defaults filled in) → [`Resolved`]
//! (known products) → [`Placement`](placement::Placement) (labels, resources, tolerations and devices as one substrate names them).
//! [`merge`](merge::merge) joins a placement with what a pod asks for itself; [`Placement::check`](placement::Placement::check) tells
//! whether a machine fits, and why not.
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
//! Owns the model and its tables. Never writes a pod, a container or a reservation: the adapters do.

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
