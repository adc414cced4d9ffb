//! What hardware work needs, in words of no substrate: requirements, device names, trusted execution, placement.
//! Owns the neutral types and the reading of device names. Never names a label, image or flavor of a real cluster.

mod error;
pub mod gpu;
pub mod placement;
mod requirements;
mod tee;

pub use error::HardwareError;
pub use requirements::{Arch, HardwareRequirements, Resources};
pub use tee::{TeeKind, TeeLevel, TeeNeed, parse_tee_type};
