//! The clock of a substrate. Owns the only look at the time of this machine.

use std::time::{SystemTime, UNIX_EPOCH};

use orlop_core::time::{Time, millis_ceil};

/// Tells the time.
pub trait Clock: Send + Sync {
    /// The time now.
    fn now(&self) -> Time;
}

/// The clock of this machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Time {
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(Time::EPOCH, |since| Time::from_millis(millis_ceil(since)))
    }
}
