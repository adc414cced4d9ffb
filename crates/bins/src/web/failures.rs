//! How often signing in may fail: so often in a minute, by one address and by all. A right key or token always passes.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;

use orlop_core::time::Time;

/// Failures of an address in a minute, and of all.
const OF_ADDRESS: u32 = 10;
const OF_ALL: u32 = 100;
const MINUTE: Duration = Duration::from_secs(60);

/// The failures of the minute that began last.
#[derive(Debug)]
pub(super) struct Failures {
    began: Time,
    all: u32,
    by_address: HashMap<IpAddr, u32>,
}

impl Default for Failures {
    fn default() -> Self {
        Self { began: Time::EPOCH, all: 0, by_address: HashMap::new() }
    }
}

impl Failures {
    /// Counts one. Gives how long to wait where there were too many already.
    pub(super) fn count(&mut self, address: IpAddr, now: Time) -> Option<Duration> {
        if now >= self.began.plus(MINUTE) || now < self.began {
            *self = Self { began: now, ..Self::default() };
        }
        let own = self.by_address.get(&address).copied().unwrap_or_default();
        if self.all >= OF_ALL || own >= OF_ADDRESS {
            return Some(self.began.plus(MINUTE).since(now));
        }
        // At most as many addresses as there are failures.
        self.all += 1;
        self.by_address.insert(address, own + 1);
        None
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn address(number: u32) -> IpAddr {
        IpAddr::V4(Ipv4Addr::from(number))
    }

    #[test]
    fn ten_failures_of_an_address_and_a_hundred_of_all_are_counted_in_a_minute() {
        let mut failures = Failures::default();
        let now = Time::from_millis(1_000_000);
        let passed = |failures: &mut Failures, number, at| failures.count(address(number), at).is_none();
        assert_eq!((0..20).filter(|_| passed(&mut failures, 1, now)).count(), 10);
        assert!(passed(&mut failures, 2, now), "another address is not held up");
        assert_eq!((3..1000).filter(|number| passed(&mut failures, *number, now)).count(), 89);
        let later = now.plus(Duration::from_secs(20));
        assert_eq!(failures.count(address(1), later), Some(Duration::from_secs(40)));
        assert!(passed(&mut failures, 1, now.plus(MINUTE)));
    }

    #[test]
    fn a_clock_that_is_set_back_locks_nobody_out() {
        let mut failures = Failures::default();
        let now = Time::from_millis(1_000_000);
        while failures.count(address(1), now).is_none() {}
        assert_eq!(failures.count(address(1), Time::from_millis(500_000)), None);
    }
}
