//! Time as the machines of a session take it: microseconds since an agent began; and the time of day, for what people and the
//! server read. Nothing that ends in time looks at the time of day.

use std::time::{Duration, Instant};

use orlop_core::time::Time;

use crate::host::scheduler::clock::{Clock as _, MachineClock};

/// See the module.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock(Instant);

impl Clock {
    /// A clock that begins at this moment. What was before counts as then.
    pub(super) const fn new(begun: Instant) -> Self {
        Self(begun)
    }

    pub(super) fn micros(self, at: Instant) -> u64 {
        micros(at.saturating_duration_since(self.0))
    }
}

/// The time of day.
pub(super) fn now() -> Time {
    MachineClock::default().wall()
}

pub(super) fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}
