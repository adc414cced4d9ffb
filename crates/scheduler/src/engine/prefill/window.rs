//! How many attempts may wait on a worker: by its slots, the median run time of the class and how long news
//! take there and back. Owns the formula.

use super::super::Scheduler;
use super::feeds::Feed;
use crate::error::EventError;
use crate::table::NONE;
use crate::token::WorkerKey;

/// The least run time that is counted with, in microseconds.
const LEAST_RUN: u64 = 200;
/// Bounds of the horizon, in microseconds.
const HORIZON: (u64, u64) = (20_000, 200_000);
/// What reads as no millisecond is spread over one of which half lies below zero, in microseconds.
const HALF: u64 = 500;
/// So many results make a median.
const RESULTS: u64 = 4;

/// How far ahead a worker is fed: four times the smoothed round trip and the 99th percentile of turns, in microseconds.
pub(super) fn horizon(round_trip: u64, turn: u64) -> u64 {
    round_trip.saturating_add(turn).saturating_mul(4).clamp(HORIZON.0, HORIZON.1)
}

/// The median of a histogram by magnitudes of milliseconds, in microseconds, even within its bucket; none below four
/// results.
///
/// A run time is the difference of two readings in whole milliseconds, each rounded down. One of `d` ms below 1 reads as 1
/// in a share `d` of cases and else as 0: where most read as 0 it is less than half a millisecond, and none where all do.
pub(super) fn median(runtimes: &[u32; 32]) -> Option<u64> {
    let sum: u64 = runtimes.iter().map(|count| u64::from(*count)).sum();
    if sum < RESULTS {
        return None;
    }
    let (rank, mut before) = (sum / 2, 0);
    for (magnitude, count) in runtimes.iter().enumerate() {
        let count = u64::from(*count);
        if before + count > rank {
            // Magnitude m holds 2^(m−1) to 2^m ms, the first one less than 1 ms.
            let low = if magnitude == 0 { 0 } else { 1000 << (magnitude - 1) };
            let width = low.max(1000);
            let part = u128::from(width) * u128::from(rank - before) / u128::from(count);
            let run = low + u64::try_from(part).unwrap_or(width);
            return Some(if magnitude == 0 { run.saturating_sub(HALF) } else { run });
        }
        before += count;
    }
    None
}

/// The window less who waits: min(most, ⌈slots × horizon ÷ max(run, 0.2 ms)⌉, ready ÷ (2 × workers)) − waiting; 0 if the
/// run time is above the horizon.
pub(super) fn room(
    (most, slots, waiting): (u32, u32, usize),
    (run, horizon): (u64, u64),
    (ready, workers): (u64, u64),
) -> u64 {
    if run > horizon {
        return 0;
    }
    let by_time = u64::from(slots).saturating_mul(horizon).div_ceil(run.max(LEAST_RUN));
    let by_share = ready.checked_div(workers.saturating_mul(2)).unwrap_or(0);
    u64::from(most).min(by_time).min(by_share).saturating_sub(waiting as u64)
}

impl Scheduler {
    /// The median run time of a feed's class, or what the job that comes next expects, in microseconds.
    pub(super) fn run_time(&self, feed: &Feed, next: Option<u32>) -> Option<u64> {
        let known = self.classes.get(feed.class).and_then(|class| median(&class.runtimes));
        let expected = || self.spec_of(next?)?.expected_ms.map(|millis| millis.saturating_mul(1000));
        known.or_else(expected)
    }

    /// A sample of a worker's round trip: from now on it may be fed.
    pub(in super::super) fn round_trip(&mut self, key: WorkerKey, micros: u64) -> Result<(), EventError> {
        let number = self.worker_at(key)?;
        self.keep_feeds();
        let worker = self.worker_mut(number)?;
        let sample = u32::try_from(micros).unwrap_or(u32::MAX).min(NONE - 1);
        let first = worker.round_trip == NONE;
        let known = if first { sample } else { worker.round_trip };
        // As usual for round trips: seven eighths of what is known, one of what is new.
        let sum = u64::from(known) * 7 + u64::from(sample);
        worker.round_trip = u32::try_from(sum / 8).unwrap_or(sample);
        if first {
            let here = self.feeds.iter().filter(|(_, feed)| feed.worker == number).map(|(at, _)| at);
            let here: Vec<u32> = here.collect();
            self.feeds.hungry.extend(here);
        }
        Ok(())
    }

    /// The 99th percentile of the host's turns.
    pub(in super::super) fn turn_time(&mut self, micros: u64) {
        if std::mem::replace(&mut self.feeds.turn, micros) != micros {
            let all: Vec<u32> = self.feeds.iter().map(|(number, _)| number).collect();
            self.feeds.hungry.extend(all);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(counts: &[(usize, u32)]) -> [u32; 32] {
        let mut runtimes = [0; 32];
        counts.iter().for_each(|(at, count)| runtimes[*at] = *count);
        runtimes
    }

    #[test]
    fn the_median_needs_four_results() {
        assert_eq!(median(&runs(&[(4, 3)])), None);
        assert_eq!(median(&runs(&[(4, 4)])), Some(12_000), "8 to 16 ms");
        assert_eq!(median(&runs(&[(0, 2), (1, 2)])), Some(1000));
        assert_eq!(median(&runs(&[(0, 3), (1, 2)])), Some(166), "nearly half of them read the next millisecond");
        assert_eq!(median(&runs(&[(0, 4)])), Some(0), "none does");
        assert_eq!(median(&runs(&[(31, u32::MAX)])).map(|run| run > 1_000_000_000), Some(true));
    }

    #[test]
    fn the_horizon_has_bounds() {
        assert_eq!((horizon(0, 0), horizon(5000, 3000), horizon(u64::MAX, 1)), (20_000, 32_000, 200_000));
    }

    #[test]
    fn the_window_is_by_slots_and_horizon_over_run_time() {
        let plenty = (1_000_000, 1);
        assert_eq!(room((1024, 2, 0), (10_000, 20_000), plenty), 4);
        assert_eq!(room((1024, 2, 3), (10_000, 20_000), plenty), 1);
        assert_eq!(room((1024, 2, 9), (10_000, 20_000), plenty), 0);
        assert_eq!(room((1024, 1, 0), (3000, 20_000), plenty), 7, "rounded up");
        assert_eq!(room((1024, 1024, 0), (0, 20_000), plenty), 1024, "prefill_max");
        assert_eq!(room((1024, 1, 0), (0, 20_000), plenty), 100, "no run counts as less than 0.2 ms");
        assert_eq!(room((0, 64, 0), (0, 20_000), plenty), 0);
    }

    #[test]
    fn window_is_zero_above_h() {
        assert_eq!(room((1024, 8, 0), (20_001, 20_000), (1000, 1)), 0);
        assert_eq!(room((1024, 8, 0), (20_000, 20_000), (1000, 1)), 8);
    }

    #[test]
    fn the_last_jobs_are_left_to_who_is_free_first() {
        assert_eq!(room((1024, 8, 0), (1000, 20_000), (7, 2)), 1);
        assert_eq!(room((1024, 8, 0), (1000, 20_000), (3, 2)), 0);
        assert_eq!(room((1024, 8, 0), (1000, 20_000), (100, 0)), 0);
    }
}
