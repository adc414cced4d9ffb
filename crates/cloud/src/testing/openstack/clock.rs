//! A clock that only sleeping moves.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use orlop_core::time::Time;

use crate::openstack::port::{Clock, Timer};

/// A clock that only sleeping moves: a sleeper wakes at once, later. Clones share it.
#[derive(Debug, Clone)]
pub struct VirtualClock(Arc<AtomicI64>);

impl VirtualClock {
    /// A clock that shows this time.
    #[must_use]
    pub fn new(time: Time) -> Self {
        Self(Arc::new(AtomicI64::new(time.millis())))
    }

    /// Lets time pass.
    pub fn pass(&self, duration: Duration) {
        let to = self.now().plus(duration);
        self.0.fetch_max(to.millis(), Ordering::Relaxed);
    }
}

impl Default for VirtualClock {
    fn default() -> Self {
        Self::new(Time::from_millis(1_767_621_607_000))
    }
}

impl Clock for VirtualClock {
    fn now(&self) -> Time {
        Time::from_millis(self.0.load(Ordering::Relaxed))
    }
}

#[async_trait]
impl Timer for VirtualClock {
    async fn sleep_until(&self, time: Time) {
        self.0.fetch_max(time.millis(), Ordering::Relaxed);
    }
}
