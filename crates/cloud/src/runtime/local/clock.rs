//! The clock of a substrate.

use orlop_core::time::Time;

use crate::runtime::clock;

/// Tells the time.
pub trait Clock: Send + Sync {
    /// The time now.
    fn now(&self) -> Time;
}

/// The time of this program, which a clock that is set does not change.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Time {
        clock::now()
    }
}
