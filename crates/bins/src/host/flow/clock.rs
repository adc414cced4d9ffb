//! What time it is for a host.

use orlop_cloud::runtime::clock;
use orlop_core::time::Time;

/// A clock.
pub trait Clock: Send + Sync {
    /// The time now.
    fn now(&self) -> Time;

    /// A flow that is gone on with has seen this time: it is not earlier now. The default suits a clock that never goes back.
    fn no_earlier_than(&self, time: Time) {
        let _ = time;
    }
}

/// The time of this program: what has passed since it began, whatever the clock of the machine is set to.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Time {
        clock::now()
    }

    fn no_earlier_than(&self, time: Time) {
        clock::no_earlier_than(time);
    }
}
