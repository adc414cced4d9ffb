//! What time it is for a host. Owns the port and the machine's clock; waiting is the runtime's.

use std::time::{SystemTime, UNIX_EPOCH};

use orlop_core::time::Time;

/// A clock.
pub trait Clock: Send + Sync {
    /// The time now.
    fn now(&self) -> Time;
}

/// The clock of this machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Time {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Time::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }
}
