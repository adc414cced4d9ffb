//! How long an agent waits before it connects again: exponential with full jitter. Draws no number and reads no clock.

use std::time::Duration;

/// The first wait, at most.
const FIRST: Duration = Duration::from_secs(1);
/// A session this long makes the next wait the first again.
const GOOD: Duration = Duration::from_secs(60);

/// See the module.
#[derive(Debug)]
pub(super) struct Backoff {
    failures: u32,
    cap: Duration,
}

impl Backoff {
    /// Waits of at most `cap`, 60 s by default.
    pub(super) const fn new(cap: Duration) -> Self {
        Self { failures: 0, cap }
    }

    /// A session ended that was good for this long; zero for one that never was.
    pub(super) fn ended(&mut self, good_for: Duration) {
        if good_for >= GOOD {
            self.failures = 0;
        }
    }

    /// The next wait: a part of the bound, as much as `draw` (of all `u32`) says. What the server asked for comes first.
    pub(super) fn next(&mut self, draw: u32, asked: Duration) -> Duration {
        let bound = FIRST.saturating_mul(1 << self.failures.min(20)).min(self.cap);
        self.failures = self.failures.saturating_add(1);
        asked + bound.mul_f64(f64::from(draw) / f64::from(u32::MAX))
    }

    /// Refused for good: from now on as seldom as can be.
    pub(super) fn refused(&mut self) {
        self.failures = 20;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_second_doubled_to_sixty_with_full_jitter() {
        let mut backoff = Backoff::new(Duration::from_secs(60));
        let bounds: Vec<u64> = (0..8).map(|_| backoff.next(u32::MAX, Duration::ZERO).as_secs()).collect();
        assert_eq!(bounds, [1, 2, 4, 8, 16, 32, 60, 60]);
        assert_eq!(backoff.next(0, Duration::ZERO), Duration::ZERO);
        assert_eq!(backoff.next(0, Duration::from_secs(3)), Duration::from_secs(3));
        backoff.ended(Duration::from_secs(59));
        assert_eq!(backoff.next(u32::MAX, Duration::ZERO).as_secs(), 60);
        backoff.ended(Duration::from_secs(60));
        assert_eq!(backoff.next(u32::MAX, Duration::ZERO).as_secs(), 1);
        backoff.refused();
        assert_eq!(backoff.next(u32::MAX, Duration::ZERO).as_secs(), 60);
    }
}
