//! The clock of a pod, which stops while the pod is frozen. Never reads the time of day, so that setting it changes no limit.
//! Time the machine sleeps counts.

use std::time::Duration;

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

    /// Whether it is stopped.
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
