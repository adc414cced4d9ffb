//! The clock of this machine. Owns the only look at it of the adapter.

#[cfg(not(feature = "testing"))]
use std::time::Duration;
use std::time::{SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use orlop_core::time::{Time, millis_ceil};

use crate::openstack::port::{Clock, Timer};
#[cfg(feature = "testing")]
use crate::testing::time::{nap, shift};

/// The clock of this machine, and sleep under tokio.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

#[cfg(not(feature = "testing"))]
const fn shift() -> i64 {
    0
}

#[cfg(not(feature = "testing"))]
const fn nap(left: Duration) -> Duration {
    left
}

impl Clock for SystemClock {
    fn now(&self) -> Time {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        since.map_or(Time::EPOCH, |since| Time::from_millis(millis_ceil(since).saturating_add(shift())))
    }
}

#[async_trait]
impl Timer for SystemClock {
    async fn sleep_until(&self, time: Time) {
        loop {
            let left = time.since(self.now());
            if left.is_zero() {
                return;
            }
            tokio::time::sleep(nap(left)).await;
        }
    }
}
