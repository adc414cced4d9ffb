//! What time it is. Owns no clock: whoever runs a controller gives it one.

use orlop_core::time::Time;

/// What time it is for a controller.
pub trait Clock: Send + Sync {
    /// The time now.
    fn now(&self) -> Time;
}
