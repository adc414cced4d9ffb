//! When batches are written together: many small ones in a row cost a transaction each, and nobody waits for what they
//! release but workers who have something to do.

use std::time::{Duration, Instant};

/// How long the writer waits for more batches, at most.
const WAIT: Duration = Duration::from_millis(2);
/// Batches that follow each other closer than this, on average, are many.
const CLOSE: Duration = Duration::from_millis(1);
/// Batches with fewer records than this, on average, are small.
const SMALL: f64 = 16.0;
/// How much the newest batch counts in the averages.
const WEIGHT: f64 = 1.0 / 32.0;
/// A longer pause counts as this: after it the averages begin anew.
const PAUSE: Duration = Duration::from_millis(100);

/// What the last batches were like.
#[derive(Debug)]
pub(super) struct Pace {
    gap: f64,
    records: f64,
    last: Option<Instant>,
}

impl Default for Pace {
    fn default() -> Self {
        Self { gap: PAUSE.as_secs_f64(), records: 0.0, last: None }
    }
}

impl Pace {
    /// A batch came.
    pub(super) fn came(&mut self, at: Instant, records: usize) {
        let since = self.last.replace(at).map_or(PAUSE, |last| at.saturating_duration_since(last));
        if since >= PAUSE {
            *self = Self { last: Some(at), ..Self::default() };
        }
        self.gap += (since.min(PAUSE).as_secs_f64() - self.gap) * WEIGHT;
        self.records += (records as f64 - self.records) * WEIGHT;
    }

    /// How long others may be waited for.
    pub(super) fn wait(&self) -> Option<Duration> {
        (self.gap < CLOSE.as_secs_f64() && self.records < SMALL).then_some(WAIT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Batches at equal distances.
    fn after(turns: u32, gap: Duration, records: usize) -> Pace {
        let (mut pace, begun) = (Pace::default(), Instant::now());
        (0..turns).for_each(|turn| pace.came(begun + gap * turn, records));
        pace
    }

    #[test]
    fn many_small_turns_wait_for_each_other_and_few_or_large_ones_do_not() {
        let micros = Duration::from_micros;
        assert_eq!(after(1000, micros(300), 3).wait(), Some(WAIT));
        assert_eq!(after(3, micros(300), 3).wait(), None, "a burst of a single job");
        assert_eq!(after(1000, micros(6000), 3).wait(), None, "50 jobs a second");
        assert_eq!(after(1000, micros(300), 200).wait(), None, "they are large already");
        let mut pace = after(1000, micros(300), 3);
        pace.came(Instant::now() + Duration::from_secs(60), 3);
        assert_eq!(pace.wait(), None, "after a pause");
    }
}
