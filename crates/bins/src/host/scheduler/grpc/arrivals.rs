//! How fast workers may register: 500 a second; those beyond learn when to come again, each at its own time, so that
//! a fleet that lost its server does not come back all at once. The clock is an argument.

use std::sync::{Mutex, PoisonError};

/// Registrations a second.
const RATE: u64 = 500;
/// As many at once after a pause.
const BURST: u64 = 500;
/// Nobody is sent away for longer, in milliseconds.
const LONGEST: u64 = 60_000;

/// The registrations of a server, by its monotonic clock in milliseconds.
#[derive(Debug, Default)]
pub(super) struct Arrivals {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// When everything that was let in has been worked off, in units of 1/RATE milliseconds.
    worked_off: u64,
    /// The last time that somebody was asked to come.
    reported: u64,
}

impl Arrivals {
    /// Lets one in.
    ///
    /// # Errors
    /// There are too many: after how many milliseconds it may come again.
    pub(super) fn take(&self, now: u64) -> Result<(), u64> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let here = now.saturating_mul(RATE);
        let after = state.worked_off.max(here).saturating_add(1000);
        if after <= here.saturating_add(BURST * 1000) {
            state.worked_off = after;
            return Ok(());
        }
        // Those who were sent away come one after the other at the rate at which they can be let in.
        let spread = 1000_u64.div_ceil(RATE);
        let at = state.reported.max(now).saturating_add(spread);
        state.reported = if at - now >= LONGEST { now } else { at };
        Err(at - now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beyond_500_registrations_a_second_workers_are_spread_over_time() {
        let arrivals = Arrivals::default();
        let now = 1_800_000_000_000;
        let answers: Vec<_> = (0..2000).map(|_| arrivals.take(now)).collect();
        assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 500);
        let mut waits: Vec<u64> = answers.into_iter().filter_map(Result::err).collect();
        assert_eq!((waits.first(), waits.last()), (Some(&2), Some(&3000)), "1500 of them over 3 s");
        waits.dedup();
        assert_eq!(waits.len(), 1500, "no two at once");
        let again = waits.iter().filter(|wait| arrivals.take(now + **wait).is_ok()).count();
        assert_eq!(again, 1500, "whoever comes at its time is let in");
        assert!((0..200_000).filter_map(|_| arrivals.take(now + 4000).err()).all(|wait| wait <= LONGEST + 2));
    }
}
