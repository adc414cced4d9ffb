//! A token bucket, which limits a rate: so many per second, and a burst after a pause. Owns the arithmetic; the time is an
//! argument, in milliseconds of a monotonic clock (a clock that goes back only makes callers wait longer).

use serde::{Deserialize, Serialize};

/// A limit of a rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rate {
    /// How many per second, on average.
    pub per_second: u64,
    /// How many at once after a pause.
    pub burst: u64,
}

/// What is left of a [`Rate`] for one caller. Takes 16 bytes.
///
/// ```
/// use orlop_core::rate::{Bucket, Rate};
/// let rate = Rate { per_second: 10, burst: 2 };
/// let mut bucket = Bucket::full(&rate, 0);
/// assert_eq!((bucket.take(&rate, 0, 2), bucket.take(&rate, 0, 1)), (Ok(()), Err(100)));
/// assert_eq!(bucket.take(&rate, 100, 1), Ok(()));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bucket {
    /// In thousandths, so that a millisecond adds a whole number.
    left_milli: u64,
    at: u64,
}

impl Bucket {
    /// A bucket from which a whole burst can be taken.
    #[must_use]
    pub const fn full(rate: &Rate, now: u64) -> Self {
        Self { left_milli: rate.burst.saturating_mul(1000), at: now }
    }

    /// Takes `count`, or nothing.
    ///
    /// # Errors
    /// Not enough is left. The error is the number of milliseconds until there is; `u64::MAX` where `count` is above the burst.
    pub fn take(&mut self, rate: &Rate, now: u64, count: u64) -> Result<(), u64> {
        let cap = rate.burst.saturating_mul(1000);
        let passed = now.saturating_sub(self.at);
        self.left_milli = self.left_milli.saturating_add(passed.saturating_mul(rate.per_second)).min(cap);
        self.at = self.at.max(now);
        let cost = count.saturating_mul(1000);
        match self.left_milli.checked_sub(cost) {
            Some(left) => {
                self.left_milli = left;
                Ok(())
            }
            None if cost > cap || rate.per_second == 0 => Err(u64::MAX),
            None => Err((cost - self.left_milli).div_ceil(rate.per_second)),
        }
    }

    /// Whether a whole burst can be taken, so that nothing is lost by forgetting this bucket.
    #[must_use]
    pub fn is_full(&self, rate: &Rate, now: u64) -> bool {
        let grown = now.saturating_sub(self.at).saturating_mul(rate.per_second);
        self.left_milli.saturating_add(grown) >= rate.burst.saturating_mul(1000)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_can_never_pass_says_so() {
        let mut bucket = Bucket::full(&Rate { per_second: 1, burst: 5 }, 0);
        assert_eq!(bucket.take(&Rate { per_second: 1, burst: 5 }, 0, 6), Err(u64::MAX));
        assert_eq!(bucket.take(&Rate { per_second: 0, burst: 5 }, 0, 5), Ok(()));
        assert_eq!(bucket.take(&Rate { per_second: 0, burst: 5 }, u64::MAX, 1), Err(u64::MAX));
    }

    #[test]
    fn time_that_runs_backwards_gives_nothing() {
        let rate = Rate { per_second: 1000, burst: 1 };
        let mut bucket = Bucket::full(&rate, 100);
        assert_eq!(bucket.take(&rate, 100, 1), Ok(()));
        assert_eq!(bucket.take(&rate, 0, 1), Err(1));
        assert_eq!(bucket.take(&rate, 100, 1), Err(1));
        assert_eq!(bucket.take(&rate, 101, 1), Ok(()));
        assert!(!bucket.is_full(&rate, 101) && bucket.is_full(&rate, 102));
    }

    proptest! {
        #[test]
        fn no_interval_lets_more_pass_than_burst_and_rate_allow_and_the_wait_is_exact(
            per_second in 1u64..2000, burst in 1u64..100, calls in prop::collection::vec((0u64..50, 1u64..20), 1..100),
        ) {
            let rate = Rate { per_second, burst };
            let mut bucket = Bucket::full(&rate, 0);
            let (mut now, mut passed) = (0, 0u64);
            for (pause, count) in calls {
                now += pause;
                match bucket.take(&rate, now, count) {
                    Ok(()) => passed += count,
                    Err(u64::MAX) => prop_assert!(count > burst),
                    Err(wait) => {
                        let mut early = bucket;
                        prop_assert!(early.take(&rate, now + wait - 1, count).is_err());
                        let mut later = bucket;
                        prop_assert!(later.take(&rate, now + wait, count).is_ok());
                    }
                }
                prop_assert!(passed * 1000 <= burst * 1000 + now * per_second);
            }
        }

        #[test]
        fn no_input_overflows(per_second: u64, burst: u64, calls: Vec<(u64, u64)>) {
            let rate = Rate { per_second, burst };
            let mut bucket = Bucket::full(&rate, 0);
            for (now, count) in calls {
                let _ = bucket.take(&rate, now, count);
            }
        }
    }
}
