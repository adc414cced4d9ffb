//! The lease of an agent: until when it may start attempts, counted from the sending of the heartbeat that renewed it.

use std::collections::VecDeque;

use super::MILLI;

/// Heartbeats without an answer that are remembered; the oldest are forgotten, and their answers count for later ones
/// never.
const UNANSWERED: usize = 64;

/// The lease of one session. Times are in microseconds.
#[derive(Clone, Debug, Default)]
pub struct Lease {
    /// When the unanswered heartbeats of this stream were sent, the oldest first.
    sent: VecDeque<u64>,
    /// Of the heartbeats of this stream so many were forgotten unanswered.
    forgotten: u64,
    until: u64,
}

impl Lease {
    /// A heartbeat leaves.
    pub fn beat(&mut self, now: u64) {
        if self.sent.len() == UNANSWERED {
            self.sent.pop_front();
            self.forgotten += 1;
        }
        self.sent.push_back(now);
    }

    /// The oldest unanswered heartbeat is answered.
    pub fn answered(&mut self, lease_ms: u32) {
        if self.forgotten > 0 {
            self.forgotten -= 1;
        } else if let Some(sent) = self.sent.pop_front() {
            self.granted(sent, lease_ms);
        }
    }

    /// A heartbeat that was sent by another way is answered.
    pub fn granted(&mut self, sent: u64, lease_ms: u32) {
        self.until = self.until.max(sent.saturating_add(u64::from(lease_ms) * MILLI));
    }

    /// Heartbeats of a broken stream are never answered.
    pub fn broken(&mut self) {
        self.sent.clear();
        self.forgotten = 0;
    }

    /// Until when it holds; 0 where there never was one.
    #[must_use]
    pub fn until(&self) -> u64 {
        self.until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_counts_from_the_sending_of_the_heartbeat_it_answers() {
        let mut lease = Lease::default();
        lease.beat(1_000);
        lease.beat(5_000_000);
        lease.answered(20_000);
        assert_eq!(lease.until(), 1_000 + 20_000_000);
        lease.answered(20_000);
        assert_eq!(lease.until(), 25_000_000);
        lease.answered(20_000);
        assert_eq!(lease.until(), 25_000_000, "an answer to nothing renews nothing");
    }

    #[test]
    fn an_answer_never_counts_for_a_later_heartbeat() {
        let mut lease = Lease::default();
        (0..=UNANSWERED as u64).for_each(|at| lease.beat(at * 1_000_000));
        lease.answered(1000);
        assert_eq!(lease.until(), 0, "it was for the heartbeat that is forgotten");
        lease.answered(1000);
        assert_eq!(lease.until(), 2_000_000);
        lease.broken();
        lease.answered(1000);
        assert_eq!(lease.until(), 2_000_000);
        lease.granted(500, 1);
        assert_eq!(lease.until(), 2_000_000, "a lease is never shortened");
    }
}
