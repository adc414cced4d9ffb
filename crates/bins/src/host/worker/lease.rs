//! The lease on an agent's attempts: until when it may start more, counted from the sending of the heartbeat that renewed
//! it. Owns which answer belongs to which heartbeat; reads no clock.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// See the module.
#[derive(Debug)]
pub(super) struct Lease {
    until: Option<Instant>,
    /// When the heartbeats were sent that are not answered yet.
    sent: VecDeque<Instant>,
}

impl Lease {
    pub(super) const fn new() -> Self {
        Self { until: None, sent: VecDeque::new() }
    }

    /// Registration renews it as well.
    pub(super) fn granted(&mut self, asked_at: Instant, lease: Duration) {
        self.renew(asked_at, lease);
    }

    /// A heartbeat is sent.
    pub(super) fn sent(&mut self, at: Instant) {
        self.sent.push_back(at);
    }

    /// The oldest heartbeat is answered. Answers come in order, and one that never came makes this one count from an
    /// earlier sending, never from a later.
    pub(super) fn answered(&mut self, lease: Duration) {
        if let Some(at) = self.sent.pop_front() {
            self.renew(at, lease);
        }
    }

    fn renew(&mut self, from: Instant, lease: Duration) {
        let until = from.checked_add(lease).unwrap_or(from);
        self.until = Some(self.until.map_or(until, |before| before.max(until)));
    }

    /// The stream is gone, and with it the answers.
    pub(super) fn disconnected(&mut self) {
        self.sent.clear();
    }

    /// How much of it is left; zero when it has run out or there never was one.
    pub(super) fn left(&self, now: Instant) -> Duration {
        self.until.map_or(Duration::ZERO, |until| until.saturating_duration_since(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s4_the_lease_counts_from_the_sending_of_the_heartbeat() {
        let (t, s) = (Instant::now(), Duration::from_secs);
        let mut lease = Lease::new();
        assert_eq!(lease.left(t), Duration::ZERO);
        lease.granted(t, s(20));
        assert_eq!(lease.left(t + s(5)), s(15));
        lease.sent(t + s(5));
        lease.sent(t + s(10));
        lease.answered(s(20));
        assert_eq!(lease.left(t + s(12)), s(13), "of the first heartbeat");
        lease.answered(s(20));
        assert_eq!(lease.left(t + s(12)), s(18));
        lease.answered(s(20));
        assert_eq!(lease.left(t + s(12)), s(18), "an answer to nothing renews nothing");
        lease.sent(t + s(15));
        lease.disconnected();
        lease.answered(s(20));
        assert_eq!(lease.left(t + s(31)), Duration::ZERO);
    }
}
