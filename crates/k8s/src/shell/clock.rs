//! What time it is. The program that runs a controller gives it a clock.

use orlop_core::time::Time;

/// What time it is for a controller.
pub trait Clock: Send + Sync {
    /// The time now.
    fn now(&self) -> Time;
}
