//! The rate at which a process sends requests to an API server: as many as it is configured for, fewer when the server answers that it has
//! too many (429). Owns this rate; the clock and the requests are the caller's.

#[cfg(feature = "client")]
mod send;

use std::time::Duration;

use orlop_core::rate::{Bucket, Rate};

#[cfg(feature = "client")]
pub use send::Limited;

/// The default rate of requests.
pub const DEFAULT: Rate = Rate { per_second: 50, burst: 100 };

/// How long a server that refuses is left alone where it does not say.
const PAUSE: Duration = Duration::from_secs(1);
/// How long it is left alone at most, whatever it says.
const PAUSE_MAX: Duration = Duration::from_secs(60);
/// Refusals within this time are answers to the same haste.
const ONE_REFUSAL: Duration = Duration::from_secs(1);
/// How long nothing may be refused before the pace is raised, each time by a tenth of what is allowed.
const RAISE: Duration = Duration::from_secs(5);

/// The pace of one client. Moments are durations since any fixed one, by a steady clock.
///
/// ```
/// use std::time::Duration;
/// use orlop_core::rate::Rate;
/// let mut pace = orlop_k8s::shell::limits::Pace::new(Rate { per_second: 10, burst: 1 });
/// let now = Duration::ZERO;
/// assert_eq!((pace.take(now), pace.take(now)), (Ok(()), Err(Duration::from_millis(100))));
/// ```
#[derive(Clone, Debug)]
pub struct Pace {
    allowed: Rate,
    now: Rate,
    bucket: Bucket,
    /// Nothing is asked before.
    closed_until: Duration,
    refused_at: Option<Duration>,
    raised_at: Duration,
}

impl Pace {
    /// As fast as is allowed; less than one a second, or one at once, is no pace.
    #[must_use]
    pub fn new(allowed: Rate) -> Self {
        let allowed = Rate { per_second: allowed.per_second.max(1), burst: allowed.burst.max(1) };
        let zero = Duration::ZERO;
        let bucket = Bucket::full(&allowed, 0);
        Self { allowed, now: allowed, bucket, closed_until: zero, refused_at: None, raised_at: zero }
    }

    /// What is asked at most now.
    #[must_use]
    pub const fn rate(&self) -> Rate {
        self.now
    }

    /// One request.
    ///
    /// # Errors
    /// Not now: how long to wait before asking again.
    pub fn take(&mut self, now: Duration) -> Result<(), Duration> {
        self.raise(now);
        if now < self.closed_until {
            return Err(self.closed_until.saturating_sub(now));
        }
        self.bucket.take(&self.now, millis(now), 1).map_err(Duration::from_millis)
    }

    /// The server has too many requests (429), and says how long to wait, or not.
    pub fn refused(&mut self, now: Duration, wait: Option<Duration>) {
        self.raise(now);
        let wait = wait.unwrap_or(PAUSE).min(PAUSE_MAX);
        self.closed_until = self.closed_until.max(now.saturating_add(wait));
        let again = self.refused_at.is_some_and(|at| now < at.saturating_add(ONE_REFUSAL));
        // The pace is raised only after the server was asked again.
        self.raised_at = self.closed_until;
        if !again {
            self.refused_at = Some(now);
            self.set(self.now.per_second / 2);
        }
    }

    fn raise(&mut self, now: Duration) {
        let steps = now.saturating_sub(self.raised_at).as_secs() / RAISE.as_secs();
        if self.now == self.allowed || steps == 0 {
            return;
        }
        self.raised_at = now;
        let step = self.allowed.per_second.div_ceil(10).saturating_mul(steps);
        self.set(self.now.per_second.saturating_add(step));
    }

    fn set(&mut self, per_second: u64) {
        let Rate { per_second: most, burst } = self.allowed;
        let per_second = per_second.clamp(1, most);
        let share = u128::from(burst) * u128::from(per_second) / u128::from(most);
        self.now = Rate { per_second, burst: u64::try_from(share).unwrap_or(burst).max(1) };
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    /// How many requests pass in a second that begins then.
    fn passed(pace: &mut Pace, second: u64) -> usize {
        (0..1000).filter(|milli| pace.take(at(second * 1000 + milli)).is_ok()).count()
    }

    #[test]
    fn a_burst_passes_and_then_so_many_a_second() {
        let mut pace = Pace::new(DEFAULT);
        let first = std::iter::from_fn(|| pace.take(at(0)).ok()).count();
        assert_eq!((first, pace.take(at(0))), (100, Err(at(20))));
        assert_eq!(passed(&mut pace, 1), 99);
        assert_eq!(passed(&mut pace, 2), 50);
    }

    #[test]
    fn a_refusal_halves_the_pace_and_the_server_is_left_alone_as_long_as_it_says() {
        let mut pace = Pace::new(DEFAULT);
        pace.refused(at(0), Some(at(7_000)));
        assert_eq!((pace.take(at(6_000)), pace.rate()), (Err(at(1_000)), Rate { per_second: 25, burst: 50 }));
        assert_eq!(pace.take(at(7_000)), Ok(()));
        // What was under way together is refused together.
        for milli in 0..900 {
            pace.refused(at(7_000 + milli), None);
        }
        assert_eq!(pace.rate(), Rate { per_second: 12, burst: 24 });
        assert_eq!(pace.take(at(7_899)), Err(at(1_000)));
        pace.refused(at(20_000), Some(Duration::from_secs(86_400)));
        assert_eq!(pace.take(at(20_000)), Err(at(60_000)));
    }

    #[test]
    fn the_pace_comes_back_slowly() {
        let mut pace = Pace::new(DEFAULT);
        for second in 0..10 {
            pace.refused(at(second * 1000), None);
        }
        assert_eq!(pace.rate(), Rate { per_second: 1, burst: 2 });
        let rates: Vec<u64> = (2..14)
            .map(|times| {
                let _ = pace.take(at(times * 5_000));
                pace.rate().per_second
            })
            .collect();
        assert_eq!(rates, [1, 6, 11, 16, 21, 26, 31, 36, 41, 46, 50, 50]);
        assert_eq!(pace.rate(), DEFAULT);
    }

    proptest! {
        /// Never more than allowed, never stuck, and nothing while the server wants to be left alone.
        #[test]
        fn no_interval_lets_more_pass_and_none_is_kept_for_ever(
            per_second in 0_u64..200, burst in 0_u64..100,
            calls in prop::collection::vec((0_u64..3_000, prop::option::of(0_u64..90_000)), 1..200),
        ) {
            let mut pace = Pace::new(Rate { per_second, burst });
            let (per_second, burst) = (per_second.max(1), burst.max(1));
            let (mut now, mut passed) = (0, 0);
            for (pause, refused) in calls {
                now += pause;
                match pace.take(at(now)) {
                    Ok(()) => passed += 1,
                    Err(wait) => {
                        prop_assert!(wait > Duration::ZERO && wait <= Duration::from_secs(60));
                        prop_assert!(pace.clone().take(at(now) + wait).is_ok());
                    }
                }
                if let Some(wait) = refused.filter(|wait| wait % 3 == 0) {
                    pace.refused(at(now), Some(at(wait)));
                    prop_assert!(wait == 0 || pace.take(at(now)).is_err());
                }
                prop_assert!(passed * 1000 <= burst * 1000 + now * per_second);
                prop_assert!((1..=per_second).contains(&pace.rate().per_second) && (1..=burst).contains(&pace.rate().burst));
            }
        }
    }
}
