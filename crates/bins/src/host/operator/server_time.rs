//! The API server's time. Every answer says what time it is there, so that times which one leader writes and another reads
//! are of one clock, however wrong that of their machines may be.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use orlop_core::time::Time;
use orlop_k8s::shell::Clock;

/// How far the two may be apart unnoticed, in milliseconds: an answer names its second, and takes its time.
const TOLERANCE: i64 = 2_000;
/// From this difference on, in milliseconds, it is no longer that of several servers behind one address.
const FAR: i64 = 30_000;
/// Answers in a row that have to agree on another time before it is taken, and where it is far away. Of several servers behind
/// one address the clocks may differ a little: the time must not jump with each answer.
const AGREED: u32 = 20;
const AGREED_FAR: u32 = 2;

/// The clock of a server, as far as it is known; clones are the same one.
#[derive(Clone)]
pub(super) struct ServerTime {
    own: Arc<dyn Clock>,
    known: Arc<Mutex<Difference>>,
}

/// How far the server's clock is ahead of ours, in milliseconds.
#[derive(Default)]
struct Difference {
    taken: i64,
    /// Whether an answer has reported it.
    learnt: bool,
    /// What the last answers reported instead, and how many of them did.
    other: (i64, u32),
}

impl Difference {
    /// An answer tells this one. Gives whether it is taken.
    fn learn(&mut self, reported: i64) -> bool {
        let near = |a: i64, b: i64| (a - b).abs() < TOLERANCE;
        if near(reported, self.taken) {
            (self.learnt, self.other) = (true, (0, 0));
            return false;
        }
        let (other, times) = self.other;
        let times = if times > 0 && near(other, reported) { times.saturating_add(1) } else { 1 };
        self.other = (reported, times);
        let agreed = if (reported - self.taken).abs() >= FAR { AGREED_FAR } else { AGREED };
        if self.learnt && times < agreed {
            return false;
        }
        *self = Self { taken: reported, learnt: true, other: (0, 0) };
        true
    }
}

impl ServerTime {
    pub(super) fn new(own: Arc<dyn Clock>) -> Self {
        Self { own, known: Arc::default() }
    }

    /// The clock of this machine.
    pub(super) fn own(&self) -> &dyn Clock {
        self.own.as_ref()
    }

    fn known(&self) -> MutexGuard<'_, Difference> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An answer has come that bears this date.
    pub(super) fn learn(&self, date: &str) {
        let Some(server) = read(date) else { return };
        // In the middle of the second that it names.
        let ahead = server.millis() + 500 - self.own.now().millis();
        if self.known().learn(ahead) && ahead.abs() >= TOLERANCE {
            tracing::warn!(
                ahead_ms = ahead,
                "the API server's clock differs from that of this machine; times are the server's"
            );
        }
    }
}

impl Clock for ServerTime {
    fn now(&self) -> Time {
        let ahead = self.known().taken;
        Time::from_millis(self.own.now().millis().saturating_add(ahead))
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
            (0..AGREED).for_each(|_| time.learn("Sun, 22 Nov 2026 10:01:30 GMT"));
            assert!((time.now().millis() - real.millis() - 60_000).abs() <= 500, "{wrong}: {}", time.now());
        }
    }

    #[test]
    fn servers_behind_one_address_whose_clocks_differ_do_not_make_the_time_jump() {
        let real: Time = "2026-11-22T10:00:30.500Z".parse().unwrap();
        let time = ServerTime::new(Arc::new(Hand(Mutex::new(real))));
        time.learn("Sun, 22 Nov 2026 10:00:30 GMT");
        for round in 0..100 {
            // Now and then several answers in a row come from the one that is ahead.
            (0..=round % 7).for_each(|_| time.learn("Sun, 22 Nov 2026 10:00:35 GMT"));
            time.learn("Sun, 22 Nov 2026 10:00:30 GMT");
            assert!((time.now().millis() - real.millis()).abs() < TOLERANCE, "{}", time.now());
        }
        // One that all agree on is taken.
        (0..AGREED).for_each(|_| time.learn("Sun, 22 Nov 2026 10:00:35 GMT"));
        assert_eq!(time.now().millis() - real.millis(), 5_000);
    }
}
