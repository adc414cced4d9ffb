//! The server's clocks: monotonic milliseconds for everything that times out, wall time for what people and stores read.
//! Decides nothing.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::Thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

#[cfg(feature = "testing")]
use orlop_cloud::testing::time::shift;
use orlop_core::time::Time;

/// Where the server reads time.
pub trait Clock: Send + Sync + fmt::Debug {
    /// Milliseconds that only grow. They start at the wall time of then, so that times of an earlier server can be distinguished
    /// from now; a clock that is set later changes nothing of them.
    fn monotonic(&self) -> u64;

    /// Time of day.
    fn wall(&self) -> Time;

    /// How long a thread may sleep until the monotonic time `until`, in real time; none = until it is woken. A clock that
    /// is driven from outside wakes `thread` whenever it moves.
    fn patience(&self, until: u64, thread: &Thread) -> Option<Duration>;
}

/// The clock of the machine.
#[derive(Debug)]
pub struct MachineClock {
    start: Instant,
    base: u64,
}

impl Default for MachineClock {
    fn default() -> Self {
        Self { start: Instant::now(), base: unix_millis() }
    }
}

fn unix_millis() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(not(feature = "testing"))]
const fn shift() -> i64 {
    0
}

impl Clock for MachineClock {
    fn monotonic(&self) -> u64 {
        self.base.saturating_add(u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX))
    }

    fn wall(&self) -> Time {
        Time::from_millis(i64::try_from(unix_millis()).unwrap_or(i64::MAX).saturating_add(shift()))
    }

    fn patience(&self, until: u64, _thread: &Thread) -> Option<Duration> {
        Some(Duration::from_millis(until.saturating_sub(self.monotonic())))
    }
}

/// A clock that stands still until it is asked to move.
#[derive(Debug)]
pub struct ManualClock {
    now: AtomicU64,
    sleepers: Mutex<Vec<Thread>>,
}

impl Default for ManualClock {
    fn default() -> Self {
        Self { now: AtomicU64::new(Self::START), sleepers: Mutex::default() }
    }
}

impl ManualClock {
    /// Where both times start, in milliseconds.
    pub const START: u64 = 1_800_000_000_000;

    /// Moves on and wakes anyone who waits for a later time.
    pub fn advance(&self, by: Duration) {
        self.now.fetch_add(u64::try_from(by.as_millis()).unwrap_or(0), Ordering::SeqCst);
        let sleepers = std::mem::take(&mut *self.sleepers.lock().unwrap_or_else(PoisonError::into_inner));
        sleepers.iter().for_each(Thread::unpark);
    }
}

impl Clock for ManualClock {
    fn monotonic(&self) -> u64 {
        self.now.load(Ordering::SeqCst)
    }

    fn wall(&self) -> Time {
        Time::from_millis(i64::try_from(self.monotonic()).unwrap_or(i64::MAX))
    }

    fn patience(&self, until: u64, thread: &Thread) -> Option<Duration> {
        let mut sleepers = self.sleepers.lock().unwrap_or_else(PoisonError::into_inner);
        // Under the lock: an advance is seen here, or finds the thread in the list.
        if self.monotonic() >= until {
            return Some(Duration::ZERO);
        }
        if sleepers.iter().all(|known| known.id() != thread.id()) {
            sleepers.push(thread.clone());
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manual_clock_moves_only_when_told() {
        let clock = ManualClock::default();
        assert_eq!(clock.monotonic(), ManualClock::START);
        clock.advance(Duration::from_millis(1500));
        assert_eq!(clock.monotonic(), ManualClock::START + 1500);
        assert_eq!(clock.wall().millis(), 1_800_000_001_500);
    }

    #[test]
    fn a_sleeper_is_woken_by_the_advance_and_not_kept_when_the_time_has_come() {
        let clock = ManualClock::default();
        let me = std::thread::current();
        let soon = ManualClock::START + 10;
        assert_eq!(clock.patience(soon, &me), None);
        clock.advance(Duration::from_millis(10));
        // The token of the unpark is there: this returns at once.
        std::thread::park();
        assert_eq!(clock.patience(soon, &me), Some(Duration::ZERO));
    }

    #[test]
    fn the_machine_clock_counts_down() {
        let clock = MachineClock::default();
        let patience = clock.patience(clock.monotonic() + 1000, &std::thread::current()).unwrap();
        assert!(patience <= Duration::from_secs(1) && patience > Duration::from_millis(500));
        assert!(clock.wall() > Time::EPOCH);
    }
}
