//! Retry delays as formulas. Owns how long to wait; never waits and never draws a random number: jitter comes from a hash of
//! what is retried, so that a replay after a crash waits as long as the first time.

use std::time::Duration;

use sha2::{Digest, Sha256};

/// The longest delay any formula gives: 720 hours.
pub const MAX_DELAY: Duration = Duration::from_secs(720 * 3600);

/// How a delay grows with the number of retries already made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Growth {
    /// Always the base.
    Fixed,
    /// Base × (n + 1).
    Linear,
    /// Base × factorⁿ.
    Exponential,
}

/// A retry delay formula: base, growth, ceiling and jitter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Backoff {
    /// How the delay grows.
    pub growth: Growth,
    /// Delay of the first retry.
    pub base: Duration,
    /// Factor of exponential growth; at least 1.
    pub factor: f64,
    /// The longest delay before jitter; none: [`MAX_DELAY`].
    pub ceiling: Option<Duration>,
    /// Share of the delay that jitter may add, 0 to 1.
    pub jitter: f64,
}

impl Default for Backoff {
    /// 1 s · 2ⁿ, without jitter and without a limit of its own.
    fn default() -> Self {
        Self { growth: Growth::Exponential, base: Duration::from_secs(1), factor: 2.0, ceiling: None, jitter: 0.0 }
    }
}

impl Backoff {
    /// Delay of retry `n`, from 0. `fraction` in [0, 1) decides how much jitter is added; at most [`MAX_DELAY`].
    ///
    /// ```
    /// use orlop_core::backoff::{Backoff, fraction};
    /// assert_eq!(Backoff::default().delay(3, 0.0).as_secs(), 8);
    /// // With jitter, spread by what is retried: 8 to 12 s, each time the same.
    /// let spread = Backoff { jitter: 0.5, ..Backoff::default() };
    /// let delay = spread.delay(3, fraction(&["flow-1", "build", "3"]));
    /// assert!((8..=12).contains(&delay.as_secs()));
    /// ```
    #[must_use]
    pub fn delay(&self, n: u32, fraction: f64) -> Duration {
        let base = self.base.as_secs_f64();
        let seconds = match self.growth {
            Growth::Fixed => base,
            Growth::Linear => base * (f64::from(n) + 1.0),
            Growth::Exponential => base * power(self.factor, n),
        };
        let ceiling = self.ceiling.unwrap_or(MAX_DELAY).min(MAX_DELAY).as_secs_f64();
        let jittered = seconds.min(ceiling) * (1.0 + self.jitter.clamp(0.0, 1.0) * fraction.clamp(0.0, 1.0));
        // Whole nanoseconds: a product such as 3 × 0.1 s must not wait a millisecond longer for its last binary digit.
        let nanos = (jittered.min(MAX_DELAY.as_secs_f64()) * 1e9).round();
        if nanos.is_finite() && nanos > 0.0 { Duration::from_nanos(nanos as u64) } else { Duration::ZERO }
    }
}

/// `factorⁿ` by squaring: only multiplications, so the same on every platform, and at most 64 of them.
fn power(factor: f64, n: u32) -> f64 {
    let (mut result, mut square, mut rest) = (1.0, factor, n);
    while rest > 0 {
        if rest & 1 == 1 {
            result *= square;
        }
        square *= square;
        rest >>= 1;
    }
    result
}

/// A fraction in [0, 1) that is a function of its `parts` only: the first 53 bits of SHA-256 over the parts, each
/// followed by a NUL.
#[must_use]
pub fn fraction(parts: &[&str]) -> f64 {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update(part.as_bytes());
        hasher.update([0]);
    }
    let bits = hasher.finalize().iter().take(8).fold(0_u64, |bits, byte| (bits << 8) | u64::from(*byte));
    (bits >> 11) as f64 / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn backoff(growth: Growth, millis: u64) -> Backoff {
        Backoff { growth, base: Duration::from_millis(millis), ..Backoff::default() }
    }

    #[test]
    fn each_growth_follows_its_formula() {
        assert_eq!(Backoff::default().delay(0, 0.0), Duration::from_secs(1));
        assert_eq!(Backoff::default().delay(5, 0.0), Duration::from_secs(32));
        assert_eq!(backoff(Growth::Fixed, 300).delay(9, 0.0), Duration::from_millis(300));
        assert_eq!(backoff(Growth::Linear, 100).delay(2, 0.0), Duration::from_millis(300));
        let three = Backoff { factor: 3.0, ..backoff(Growth::Exponential, 100) };
        assert_eq!(three.delay(3, 0.0), Duration::from_millis(2700));
    }

    #[test]
    fn ceiling_comes_before_jitter_and_720_hours_after_all() {
        let b = Backoff { ceiling: Some(Duration::from_secs(10)), jitter: 0.5, ..Backoff::default() };
        assert_eq!(b.delay(20, 0.0), Duration::from_secs(10));
        assert_eq!(b.delay(20, 0.5), Duration::from_millis(12_500));
        assert_eq!(Backoff::default().delay(u32::MAX, 0.9), MAX_DELAY);
    }

    #[test]
    fn jitter_is_a_function_of_its_parts() {
        assert_eq!(fraction(&["uid", "step", "1"]), fraction(&["uid", "step", "1"]));
        assert_ne!(fraction(&["uid", "step", "1"]), fraction(&["uid", "step1", ""]));
    }

    proptest! {
        #[test]
        fn no_input_panics_or_passes_the_ceiling(nanos: u64, factor: f64, jitter: f64, n: u32, f: f64) {
            for growth in [Growth::Fixed, Growth::Linear, Growth::Exponential] {
                let b = Backoff { growth, base: Duration::from_nanos(nanos), factor, ceiling: None, jitter };
                prop_assert!(b.delay(n, f) <= MAX_DELAY);
            }
        }

        #[test]
        fn delays_never_shrink_with_n(millis in 1_u64..100_000, n in 0_u32..60) {
            for growth in [Growth::Fixed, Growth::Linear, Growth::Exponential] {
                let b = backoff(growth, millis);
                prop_assert!(b.delay(n, 0.0) <= b.delay(n + 1, 0.0));
            }
        }

        #[test]
        fn fractions_lie_in_the_unit_interval(a in ".*", b in ".*") {
            let f = fraction(&[&a, &b]);
            prop_assert!((0.0..1.0).contains(&f));
        }
    }
}
