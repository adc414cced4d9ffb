//! When the agent speaks. What nobody waits for goes along with what comes next; news go out at once, until there are many of
//! them: then they are gathered, and for longer while slots have work waiting here, so that nobody misses an answer. Reads no
//! clock.

use std::time::Duration;

use tokio::time::Instant;

/// How long a word that nobody waits for is kept back: that an attempt was taken on, that a frame arrived.
const PATIENCE: Duration = Duration::from_millis(5);
/// Between two frames under load.
pub(super) const COALESCE: Duration = Duration::from_millis(1);
/// The same while every slot has attempts waiting here.
const AHEAD: Duration = Duration::from_millis(8);
/// Over which time entries are counted.
const WINDOW: f64 = 0.05;
/// So many entries in that time are load.
const LOAD: f64 = 12.0;
/// Attempts that wait for each that runs, so that nobody misses an answer.
pub(super) const FED: usize = 4;

/// What there is to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waiting {
    Nothing,
    /// Only what nobody waits for.
    Patient,
    News,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Pace {
    sent_at: Instant,
    /// Entries of late, each counting less the older it is.
    entries: f64,
    /// Since when something waits that nobody waits for.
    kept_since: Option<Instant>,
}

impl Pace {
    pub(super) const fn new(now: Instant) -> Self {
        Self { sent_at: now, entries: 0.0, kept_since: None }
    }

    /// A frame with so many entries leaves.
    pub(super) fn sent(&mut self, now: Instant, entries: usize) {
        self.entries = self.entries_at(now) + entries as f64;
        (self.sent_at, self.kept_since) = (now, None);
    }

    /// When the next frame is due.
    pub(super) fn due(&mut self, now: Instant, waiting: Waiting) -> Option<Instant> {
        match waiting {
            Waiting::Nothing => {
                self.kept_since = None;
                None
            }
            Waiting::Patient => Some(*self.kept_since.get_or_insert(now) + PATIENCE),
            Waiting::News if self.is_loaded(now) => Some(self.sent_at + COALESCE),
            Waiting::News => Some(now),
        }
    }

    /// Whether there are so many news that they are gathered, and nobody need be woken for each.
    pub(super) fn is_loaded(&self, now: Instant) -> bool {
        self.entries_at(now) >= LOAD
    }

    /// For how much longer news may be gathered, while slots are fed.
    pub(super) fn gathers(&self, now: Instant, fed: bool) -> Duration {
        match fed && self.is_loaded(now) {
            true => (self.sent_at + AHEAD).saturating_duration_since(now),
            false => Duration::ZERO,
        }
    }

    fn entries_at(&self, now: Instant) -> f64 {
        self.entries * (-now.saturating_duration_since(self.sent_at).as_secs_f64() / WINDOW).exp()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// After so many frames of so many entries, a millisecond apart.
    fn after(frames: u32, entries: usize) -> (Pace, Instant) {
        let mut now = Instant::now();
        let mut pace = Pace::new(now);
        for _ in 0..frames {
            now += MS;
            pace.sent(now, entries);
        }
        (pace, now)
    }

    #[test]
    fn the_first_news_go_out_at_once_and_many_are_gathered() {
        let (mut pace, now) = after(2, 3);
        assert_eq!(pace.due(now, Waiting::News), Some(now));
        let (mut pace, now) = after(50, 3);
        assert_eq!(pace.due(now, Waiting::News), Some(now + COALESCE));
        assert_eq!(pace.due(now + 200 * MS, Waiting::News), Some(now + 200 * MS), "after a pause");
    }

    #[test]
    fn an_acceptance_waits_for_the_start_but_not_for_long() {
        let (mut pace, now) = after(1, 1);
        assert_eq!(pace.due(now, Waiting::Patient), Some(now + PATIENCE));
        assert_eq!(pace.due(now + MS, Waiting::Patient), Some(now + PATIENCE), "counted from when it came");
        assert_eq!(pace.due(now + MS, Waiting::News), Some(now + MS));
        pace.sent(now + MS, 2);
        assert_eq!(pace.due(now + 2 * MS, Waiting::Nothing), None);
        assert_eq!(pace.due(now + 3 * MS, Waiting::Patient), Some(now + 3 * MS + PATIENCE));
    }

    #[test]
    fn news_are_gathered_for_longer_only_while_slots_are_fed() {
        let (pace, now) = after(50, 3);
        assert_eq!(pace.gathers(now, true), AHEAD);
        assert_eq!(pace.gathers(now + 5 * MS, true), AHEAD - 5 * MS);
        assert_eq!(pace.gathers(now, false), Duration::ZERO, "the slots might run dry");
        let (idle, now) = after(1, 3);
        assert_eq!(idle.gathers(now, true), Duration::ZERO, "nothing is going on");
    }
}
