//! The clock of an attempt that may be suspended. Owns the arithmetic between time on the wall and time the attempt has
//! had; reads no clock.

use std::time::Duration;

use orlop_core::time::Time;
use serde::{Deserialize, Serialize};

/// A span during which an attempt stood still.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pause {
    /// Since when.
    pub from: Time,
    /// Until when; absent while it still does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Time>,
}

/// The spans during which an attempt stood still, in order; only the last may be open.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PauseClock(Vec<Pause>);

impl PauseClock {
    /// Whether it stands still.
    #[must_use]
    pub fn is_paused(&self) -> bool {
        self.0.last().is_some_and(|pause| pause.until.is_none())
    }

    /// Lets it stand still from `now` on; nothing when it does already.
    pub fn pause(&mut self, now: Time) {
        if !self.is_paused() {
            self.0.push(Pause { from: now, until: None });
        }
    }

    /// Lets it go on from `now` on; nothing when it does already.
    pub fn go_on(&mut self, now: Time) {
        if let Some(pause) = self.0.last_mut().filter(|pause| pause.until.is_none()) {
            pause.until = Some(now.max(pause.from));
        }
    }

    /// The time it has had between two times on the wall.
    ///
    /// ```
    /// use orlop_cloud::runtime::job::clock::PauseClock;
    /// use orlop_core::time::Time;
    /// let at = |seconds: i64| Time::from_millis(seconds * 1000);
    /// let mut clock = PauseClock::default();
    /// clock.pause(at(10));
    /// clock.go_on(at(30));
    /// assert_eq!(clock.between(at(0), at(40)).as_secs(), 20);
    /// assert_eq!(clock.after(at(0), std::time::Duration::from_secs(20)), Some(at(40)));
    /// ```
    #[must_use]
    pub fn between(&self, from: Time, to: Time) -> Duration {
        let stood: Duration =
            self.0.iter().map(|pause| pause.until.unwrap_or(Time::MAX).min(to).since(pause.from.max(from))).sum();
        to.since(from).saturating_sub(stood)
    }

    /// When it will have had `span` since `from`; none while it stands still before that.
    #[must_use]
    pub fn after(&self, from: Time, span: Duration) -> Option<Time> {
        let mut due = from.plus(span);
        for pause in &self.0 {
            // A pause that began at the very moment of the due time does not delay it.
            if pause.until.is_some_and(|until| until <= from) || pause.from >= due {
                continue;
            }
            due = due.plus(pause.until?.since(pause.from.max(from)));
        }
        Some(due)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(millis: i64) -> Time {
        Time::from_millis(millis)
    }

    #[test]
    fn an_open_pause_stops_every_timer_behind_it() {
        let mut clock = PauseClock::default();
        clock.pause(at(5_000));
        assert!(clock.is_paused());
        assert_eq!(clock.after(at(0), Duration::from_secs(10)), None);
        assert_eq!(clock.after(at(0), Duration::from_secs(3)), Some(at(3_000)));
        assert_eq!(clock.between(at(0), at(60_000)), Duration::from_secs(5));
    }

    #[test]
    fn pausing_twice_is_pausing_once() {
        let mut clock = PauseClock::default();
        clock.pause(at(1));
        clock.pause(at(5));
        clock.go_on(at(9));
        clock.go_on(at(20));
        assert_eq!(clock, PauseClock(vec![Pause { from: at(1), until: Some(at(9)) }]));
    }

    proptest! {
        #[test]
        fn after_is_the_inverse_of_between(spans in proptest::collection::vec((1_i64..5_000, 1_i64..5_000), 0..6), from in 0_i64..20_000, span in 0_u64..30_000) {
            let mut clock = PauseClock::default();
            let mut now = 0;
            for (run, stop) in spans {
                now += run;
                clock.pause(at(now));
                now += stop;
                clock.go_on(at(now));
            }
            let span = Duration::from_millis(span);
            let due = clock.after(at(from), span).unwrap();
            prop_assert_eq!(clock.between(at(from), due), span);
        }
    }
}
