//! The clock of this machine. Owns the only look at it of the adapter.

use std::time::{SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use orlop_core::time::{Time, millis_ceil};

use crate::openstack::port::Clock;

/// The clock of this machine, and sleep under tokio.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

#[async_trait]
impl Clock for SystemClock {
    fn now(&self) -> Time {
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(Time::EPOCH, |since| Time::from_millis(millis_ceil(since)))
    }

    async fn sleep_until(&self, time: Time) {
        tokio::time::sleep(time.since(self.now())).await;
    }
}
