//! The API server's time. Every answer says what time it is there, so that times which one leader writes and another reads are
//! of one clock, however wrong that of their machines may be. Owns the difference between the two.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use orlop_core::time::Time;
use orlop_k8s::shell::Clock;

/// How far the two may be apart unnoticed, in milliseconds: an answer names its second, and takes its time.
const TOLERANCE: i64 = 2_000;

/// The clock of a server, as far as it is known; clones are the same one.
#[derive(Clone)]
pub(super) struct ServerTime {
    own: Arc<dyn Clock>,
    /// How far the server's clock is ahead of ours, in milliseconds.
    ahead: Arc<AtomicI64>,
}

impl ServerTime {
    pub(super) fn new(own: Arc<dyn Clock>) -> Self {
        Self { own, ahead: Arc::default() }
    }

    /// The clock of this machine.
    pub(super) fn own(&self) -> &dyn Clock {
        self.own.as_ref()
    }

    /// An answer has come that bears this date.
    pub(super) fn learn(&self, date: &str) {
        let Some(server) = read(date) else { return };
        let off = server.millis() - self.now().millis();
        if (-TOLERANCE..TOLERANCE).contains(&off) {
            return;
        }
        // In the middle of the second that it names.
        let ahead = server.millis() + 500 - self.own.now().millis();
        self.ahead.store(ahead, Ordering::Relaxed);
        if ahead.abs() >= TOLERANCE {
            tracing::warn!(
                ahead_ms = ahead,
                "the API server's clock is not that of this machine; times are the server's"
            );
        }
    }
}

impl Clock for ServerTime {
    fn now(&self) -> Time {
        Time::from_millis(self.own.now().millis().saturating_add(self.ahead.load(Ordering::Relaxed)))
    }
}

/// A date as HTTP has it: `Sun, 06 Nov 1994 08:49:37 GMT`.
fn read(date: &str) -> Option<Time> {
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let words: Vec<&str> = date.split_whitespace().collect();
    let [_, day, month, year, time, "GMT"] = words.as_slice() else { return None };
    let month = MONTHS.iter().position(|known| known == month)? + 1;
    format!("{year}-{month:02}-{day:0>2}T{time}Z").parse().ok()
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    struct Hand(Mutex<Time>);

    impl Clock for Hand {
        fn now(&self) -> Time {
            *self.0.lock().unwrap()
        }
    }

    #[test]
    fn dates_of_http_are_read() {
        assert_eq!(read("Sun, 06 Nov 1994 08:49:37 GMT"), "1994-11-06T08:49:37Z".parse().ok());
        assert_eq!((read("now"), read("Sun, 06 Nov 1994 08:49:37 CET")), (None, None));
    }

    #[test]
    fn leaders_whose_clocks_differ_tell_the_same_time() {
        let real: Time = "2026-11-22T10:00:30Z".parse().unwrap();
        for wrong in [-120_000, 0, 120_000] {
            let hand = Arc::new(Hand(Mutex::new(Time::from_millis(real.millis() + wrong))));
            let time = ServerTime::new(hand.clone());
            time.learn("Sun, 22 Nov 2026 10:00:30 GMT");
            assert!((time.now().millis() - real.millis()).abs() <= 500, "{wrong}: {}", time.now());
            // The clock is put right, or somebody turns it.
            *hand.0.lock().unwrap() = Time::from_millis(real.millis() + 60_000);
            time.learn("Sun, 22 Nov 2026 10:01:30 GMT");
            assert!((time.now().millis() - real.millis() - 60_000).abs() <= 500, "{wrong}: {}", time.now());
        }
    }
}
