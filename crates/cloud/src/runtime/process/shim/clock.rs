//! Time in a shim. Owns the pod's clock, which stands still while the pod is frozen, and the alarm of the event loop;
//! never reads the time of day, so that setting it changes no limit. Time the machine sleeps counts.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};

/// How long a pod has run.
#[derive(Clone, Copy, Debug)]
pub(super) struct PodClock {
    started: Duration,
    stood: Duration,
    frozen_at: Option<Duration>,
}

impl PodClock {
    /// A clock that starts at `now`.
    pub(super) const fn new(now: Duration) -> Self {
        Self { started: now, stood: Duration::ZERO, frozen_at: None }
    }

    /// Whether it stands still.
    pub(super) const fn is_frozen(&self) -> bool {
        self.frozen_at.is_some()
    }

    /// Stops it.
    pub(super) fn freeze(&mut self, now: Duration) {
        self.frozen_at.get_or_insert(now);
    }

    /// Lets it go on.
    pub(super) fn thaw(&mut self, now: Duration) {
        if let Some(at) = self.frozen_at.take() {
            self.stood += now.saturating_sub(at);
        }
    }

    /// When it will show `elapsed`, if it is not frozen again; none while it is.
    pub(super) fn when(&self, elapsed: Duration) -> Option<Duration> {
        let when = self.started.saturating_add(self.stood).saturating_add(elapsed);
        if self.is_frozen() { None } else { Some(when) }
    }

    /// What it shows at `now`.
    pub(super) fn elapsed(&self, now: Duration) -> Duration {
        self.frozen_at.unwrap_or(now).saturating_sub(self.started).saturating_sub(self.stood)
    }
}

/// Wakes the event loop.
#[derive(Debug)]
pub(super) struct Alarm(TimerFd);

impl Alarm {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self(TimerFd::new(ClockId::CLOCK_BOOTTIME, TimerFlags::TFD_CLOEXEC | TimerFlags::TFD_NONBLOCK)?))
    }

    /// Rings at a time, or not at all; clears what rang before.
    pub(super) fn set(&self, at: Option<Duration>) -> io::Result<()> {
        match at {
            // Zero would mean never.
            Some(at) => {
                let at = Expiration::OneShot(TimeSpec::from(at.max(Duration::from_nanos(1))));
                Ok(self.0.set(at, TimerSetTimeFlags::TFD_TIMER_ABSTIME)?)
            }
            None => Ok(self.0.unset()?),
        }
    }
}

impl AsFd for Alarm {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frozen_clock_stands_still() {
        let s = Duration::from_secs;
        let mut clock = PodClock::new(s(100));
        assert_eq!(clock.when(s(10)), Some(s(110)));
        clock.freeze(s(103));
        clock.freeze(s(104));
        assert_eq!((clock.when(s(10)), clock.elapsed(s(200))), (None, s(3)));
        clock.thaw(s(123));
        clock.thaw(s(124));
        assert_eq!((clock.when(s(10)), clock.elapsed(s(125))), (Some(s(130)), s(5)));
    }
}
