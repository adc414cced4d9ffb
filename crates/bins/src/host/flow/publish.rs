//! When watchers are shown a new status and lists a new summary.

use std::time::Duration;

use tokio::time::Instant;

/// Shortest time between two statuses of a small flow.
const STATUS_PACE: Duration = Duration::from_millis(100);
/// Further time between two statuses, for every record they hold.
const PER_RECORD: Duration = Duration::from_micros(10);
/// Shortest time between two summaries.
const SUMMARY_PACE: Duration = Duration::from_secs(1);

/// When to publish next.
#[derive(Debug, Default)]
pub(super) struct Pace {
    status: Beat,
    summary: Beat,
}

#[derive(Debug, Default)]
struct Beat {
    dirty: bool,
    urgent: bool,
    last: Option<Instant>,
}

/// What is to be published now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Due {
    pub(super) status: bool,
    pub(super) summary: bool,
}

impl Beat {
    fn due(&self, pace: Duration, now: Instant) -> Option<Instant> {
        let earliest = self.last.map_or(now, |last| last + pace);
        self.dirty.then_some(if self.urgent { now } else { earliest })
    }

    fn take(&mut self, pace: Duration) -> bool {
        let now = Instant::now();
        let due = self.due(pace, now).is_some_and(|due| due <= now);
        if due {
            *self = Self { last: Some(now), ..Self::default() };
        }
        due
    }
}

impl Pace {
    /// Something has changed.
    pub(super) fn changed(&mut self, urgent: bool) {
        for beat in [&mut self.status, &mut self.summary] {
            beat.dirty = true;
            beat.urgent |= urgent;
        }
    }

    /// When something is to be published, of a flow with so many records.
    pub(super) fn next(&self, records: usize) -> Option<Instant> {
        let now = Instant::now();
        self.status.due(pace(records), now).into_iter().chain(self.summary.due(SUMMARY_PACE, now)).min()
    }

    /// What is to be published now; it counts as published.
    pub(super) fn take(&mut self, records: usize) -> Due {
        Due { status: self.status.take(pace(records)), summary: self.summary.take(SUMMARY_PACE) }
    }
}

fn pace(records: usize) -> Duration {
    STATUS_PACE + PER_RECORD.saturating_mul(u32::try_from(records).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn urgent_changes_are_shown_at_once_and_others_at_a_pace() {
        let mut pace = Pace::default();
        assert_eq!(pace.next(1), None);
        pace.changed(false);
        assert_eq!(pace.take(1), Due { status: true, summary: true });
        assert_eq!(pace.take(1), Due::default());
        pace.changed(false);
        assert_eq!(pace.take(1), Due::default());
        assert!(pace.next(1).unwrap() > Instant::now());
        tokio::time::advance(Duration::from_millis(101)).await;
        assert_eq!(pace.take(1), Due { status: true, summary: false });
        pace.changed(true);
        assert_eq!(pace.take(1), Due { status: true, summary: true });
        assert_eq!(pace.next(1), None);
    }

    #[tokio::test(start_paused = true)]
    async fn large_flows_are_shown_less_often() {
        let mut pace = Pace::default();
        pace.changed(false);
        let _ = pace.take(100_000);
        pace.changed(false);
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(!pace.take(100_000).status);
        tokio::time::advance(Duration::from_millis(101)).await;
        assert!(pace.take(100_000).status);
    }
}
