//! The clock of flows on this machine: the time of day when it is first read, plus the time that has passed since by a monotonic clock.
//! So a change of the machine's clock moves no timeout, delay or deadline.
//!
//! ```
//! use orlop_cloud::clock::SystemClock;
//! use orlop_core::ports::clock::Clock;
//! let before = SystemClock.now();
//! assert!(SystemClock.now() >= before);
//! ```

use std::sync::OnceLock;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nix::time::{ClockId, clock_gettime};
use orlop_core::ports::clock::Clock;
use orlop_core::time::{Time, millis_ceil};

/// The clock that counts on while the machine sleeps.
#[cfg(target_os = "linux")]
const UPTIME: ClockId = ClockId::CLOCK_BOOTTIME;
#[cfg(not(target_os = "linux"))]
const UPTIME: ClockId = ClockId::CLOCK_MONOTONIC;

static TIMELINE: OnceLock<Timeline> = OnceLock::new();

/// Milliseconds by which time is ahead of the uptime of the machine.
#[derive(Debug)]
struct Timeline(AtomicI64);

impl Timeline {
    /// It is `now` at an uptime.
    fn new(now: Time, uptime: Duration) -> Self {
        Self(AtomicI64::new(now.millis().saturating_sub(millis(uptime))))
    }

    fn at(&self, uptime: Duration) -> Time {
        Time::from_millis(self.0.load(Ordering::Relaxed).saturating_add(millis(uptime)))
    }

    fn no_earlier_than(&self, time: Time, uptime: Duration) {
        self.0.fetch_max(time.millis().saturating_sub(millis(uptime)), Ordering::Relaxed);
    }
}

fn millis(span: Duration) -> i64 {
    i64::try_from(span.as_millis()).unwrap_or(i64::MAX)
}

fn timeline() -> &'static Timeline {
    let begin = || {
        let day = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timeline::new(Time::from_millis(millis_ceil(day)), uptime())
    };
    TIMELINE.get_or_init(begin)
}

/// Time since the machine started, its sleep included.
#[must_use]
pub(crate) fn uptime() -> Duration {
    // Every system has this clock.
    clock_gettime(UPTIME).map(Duration::from).unwrap_or_default()
}

/// The time now.
#[must_use]
pub fn now() -> Time {
    timeline().at(uptime())
}

/// Takes over the time of the program that started this one, before this one has looked at its own.
#[cfg(feature = "process")]
pub(crate) fn begin(now: Time) {
    TIMELINE.get_or_init(|| Timeline::new(now, uptime()));
}

/// Makes [`now`] not earlier than a time that an earlier program stored, even if the clock of the machine was set back in between.
pub fn no_earlier_than(time: Time) {
    timeline().no_earlier_than(time, uptime());
}

/// The time of this program as a [`Clock`].
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Time {
        now()
    }

    fn no_earlier_than(&self, time: Time) {
        no_earlier_than(time);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_follows_the_uptime_and_never_the_time_of_day_again() {
        let s = Duration::from_secs;
        let at = |seconds: i64| Time::from_millis(seconds * 1000);
        let timeline = Timeline::new(at(1_000_000), s(50));
        // Only the uptime is asked: a clock of the day that stepped has no say.
        assert_eq!((timeline.at(s(50)), timeline.at(s(53))), (at(1_000_000), at(1_000_003)));
        // What an earlier host wrote down is the past.
        timeline.no_earlier_than(at(999_000), s(60));
        assert_eq!(timeline.at(s(60)), at(1_000_010));
        timeline.no_earlier_than(at(1_003_600), s(60));
        assert_eq!((timeline.at(s(60)), timeline.at(s(61))), (at(1_003_600), at(1_003_601)));
    }

    #[test]
    fn the_time_begins_at_the_time_of_day() {
        let day = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let ahead = now().millis() - i64::try_from(day.as_millis()).unwrap();
        assert!(ahead.abs() < 60_000, "{ahead} ms");
    }
}
