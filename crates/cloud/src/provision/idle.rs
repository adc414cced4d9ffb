//! When a machine that has nothing to do is destroyed. Owns the decision: a state, an
//! observation and the time give a state and what follows. Pure; the lease's end is another matter, and the cloud's.

use std::time::Duration;

use orlop_core::time::Time;

/// How long nobody may have looked at a machine that does not tell since when it is idle.
const GAP: Duration = Duration::from_secs(300);
/// A machine's average load in hundredths below which it has nothing to do.
const LOAD: u64 = 30;

/// What was seen of a machine's work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Work {
    /// Nothing runs. A worker's mark changes whenever something ran in between; without a worker there is none.
    Idle {
        /// Of the worker.
        mark: Option<String>,
    },
    /// Something runs.
    Busy,
    /// The worker was told to leave.
    Leaving {
        /// Whether something runs still.
        is_busy: bool,
    },
    /// The machine is powered off: nothing runs, and it costs as before.
    Off,
    /// The worker has left its fleet.
    Left,
    /// The fleet knows no worker of this deployment.
    Missing,
    /// Nobody can tell.
    Unknown,
}

/// What follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// Nothing.
    Wait,
    /// The worker is to finish what it has and leave.
    Drain,
    /// The deployment is to be destroyed.
    Destroy,
}

/// What is known of a machine's idleness.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Idle {
    /// Since when, by which mark, and when it was last seen so.
    stretch: Option<(Time, String, Time)>,
    /// Whether its worker was ever seen.
    met: bool,
    /// Whether its worker was told to leave, for it had nothing to do.
    drained: bool,
}

impl Idle {
    /// How long it has been idle.
    #[must_use]
    pub fn lasts(&self, now: Time) -> Option<Duration> {
        self.stretch.as_ref().map(|(since, _, _)| now.since(*since))
    }

    /// The same machine, whose worker took the order to leave.
    #[must_use]
    pub fn drained(self) -> Self {
        Self { drained: true, ..self }
    }

    /// Whether its worker was ever seen.
    #[must_use]
    pub const fn has_met(&self) -> bool {
        self.met
    }

    /// The same machine, idle under a mark.
    fn stretched(&self, mark: &str, now: Time) -> Self {
        let since = match &self.stretch {
            Some((since, before, seen)) if before == mark && (!mark.is_empty() || now.since(*seen) <= GAP) => *since,
            _ => now,
        };
        Self { stretch: Some((since, mark.to_owned(), now)), ..self.clone() }
    }
}

/// What follows from an observation for a machine that may be idle for so long.
#[must_use]
pub fn decide(state: &Idle, after: Duration, work: &Work, now: Time) -> (Idle, Decision) {
    let met = state.met || matches!(work, Work::Idle { mark: Some(_) } | Work::Leaving { .. } | Work::Left);
    // A worker that takes work again got a later order to stay, or never got the first one.
    let drained = state.drained && !matches!(work, Work::Busy | Work::Idle { .. });
    let state = Idle { met, drained, ..state.clone() };
    let over = |next: Idle, then: Decision| {
        let is_over = next.lasts(now).is_some_and(|lasts| lasts >= after);
        (next, if is_over { then } else { Decision::Wait })
    };
    match work {
        Work::Busy => (Idle { stretch: None, ..state }, Decision::Wait),
        Work::Left | Work::Missing if state.drained => (state, Decision::Destroy),
        // What it still has is done first.
        Work::Leaving { is_busy: true } => (Idle { stretch: None, ..state }, Decision::Wait),
        Work::Leaving { is_busy: false } if state.drained => (state, Decision::Drain),
        Work::Leaving { is_busy: false } => over(state.stretched("leaving", now), Decision::Drain),
        Work::Idle { mark: Some(mark) } => over(state.stretched(&format!("worker {mark}"), now), Decision::Drain),
        Work::Idle { mark: None } => over(state.stretched("", now), Decision::Destroy),
        // Nothing more comes of it, so that nothing has to be finished.
        Work::Off => over(state.stretched("off", now), Decision::Destroy),
        Work::Left => over(state.stretched("left", now), Decision::Destroy),
        Work::Missing if state.met => over(state.stretched("left", now), Decision::Destroy),
        Work::Missing | Work::Unknown => (state, Decision::Wait),
    }
}

/// What a machine says of its work: its load of the last five minutes in hundredths, who is signed in, what computes on its cards.
#[must_use]
pub fn work_of_login(answer: &str) -> Work {
    let number =
        |name: &str| -> Option<u64> { answer.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok()) };
    match (number("load "), number("users "), number("cards ")) {
        (Some(load), Some(0), Some(0)) if load < LOAD => Work::Idle { mark: None },
        (Some(_), Some(_), Some(_)) => Work::Busy,
        _ => Work::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const AFTER: Duration = Duration::from_secs(3600);

    fn at(seconds: i64) -> Time {
        Time::from_millis(seconds * 1000)
    }

    fn worker(mark: &str) -> Work {
        Work::Idle { mark: Some(mark.to_owned()) }
    }

    /// Decisions on observations at their seconds.
    fn decisions(seen: &[(i64, Work)]) -> Vec<Decision> {
        let mut state = Idle::default();
        let mut one = |(seconds, work): &(i64, Work)| {
            let (next, decision) = decide(&state, AFTER, work, at(*seconds));
            // The worker takes every order.
            state = if decision == Decision::Drain { next.drained() } else { next };
            decision
        };
        seen.iter().map(&mut one).collect()
    }

    #[test]
    fn a_worker_is_drained_after_its_time_and_the_deployment_destroyed_once_it_left() {
        use Decision::{Destroy, Drain, Wait};
        let idle = || worker("a");
        assert_eq!(decisions(&[(0, idle()), (3599, idle()), (3600, idle())]), [Wait, Wait, Drain]);
        assert_eq!(
            decisions(&[(0, idle()), (1800, Work::Busy), (3600, worker("b")), (7200, worker("b"))]),
            [Wait, Wait, Wait, Drain]
        );
        assert_eq!(decisions(&[(0, idle()), (3600, worker("b"))]), [Wait, Wait], "something ran in between");
        assert_eq!(
            decisions(&[(0, idle()), (30, Work::Unknown), (3600, idle())]),
            [Wait, Wait, Drain],
            "its mark tells"
        );
        let seen = [
            (0, idle()),
            (3600, idle()),
            (3630, Work::Leaving { is_busy: false }),
            (3660, Work::Leaving { is_busy: true }),
            (3690, Work::Unknown),
            (3720, Work::Left),
        ];
        assert_eq!(decisions(&seen), [Wait, Drain, Drain, Wait, Wait, Destroy]);
        assert_eq!(decisions(&[(0, idle()), (3600, idle()), (3630, Work::Missing)]), [Wait, Drain, Destroy]);
        assert_eq!(decisions(&[(0, Work::Missing), (9999, Work::Missing)]), [Wait, Wait], "it has never joined");
        assert_eq!(
            decisions(&[(0, idle()), (30, Work::Left), (3600, Work::Missing), (3630, Work::Missing)]),
            [Wait, Wait, Wait, Destroy]
        );
    }

    #[test]
    fn an_order_to_leave_that_was_not_taken_or_was_taken_back_ends_nothing() {
        use Decision::{Destroy, Drain, Wait};
        let idle = || worker("a");
        let look = |state: &Idle, work: &Work, seconds| decide(state, AFTER, work, at(seconds));
        let (state, _) = look(&Idle::default(), &idle(), 0);
        let (refused, decision) = look(&state, &idle(), 3600);
        assert_eq!(decision, Drain);
        // Nobody took the order: it is repeated, and who is gone is waited for as anybody.
        assert_eq!(look(&refused, &idle(), 3630).1, Drain);
        assert_eq!(look(&refused, &Work::Left, 3630).1, Wait);
        let (busy, _) = look(&refused, &Work::Busy, 3630);
        assert_eq!(look(&busy, &Work::Missing, 3660).1, Wait);
        // It was taken, and somebody had the worker stay.
        let (stays, decision) = look(&refused.drained(), &worker("b"), 3630);
        assert_eq!((decision, look(&stays, &Work::Left, 3660).1), (Wait, Wait));
        assert_eq!(look(&look(&stays, &worker("b"), 7229).0, &worker("b"), 7230).1, Drain);
        // A worker may be made to leave for other reasons: it is idle as long as it is seen so.
        let leaving = Work::Leaving { is_busy: false };
        let (leaves, first) = look(&Idle::default(), &leaving, 0);
        let (leaves, second) = look(&leaves, &leaving, 3600);
        assert_eq!((first, second, look(&leaves.drained(), &Work::Left, 3605).1), (Wait, Drain, Destroy));
    }

    #[test]
    fn without_a_worker_the_machine_has_to_be_seen_idle_all_the_time() {
        use Decision::{Destroy, Wait};
        let idle = || Work::Idle { mark: None };
        let often: Vec<(i64, Work)> = (0..=12).map(|look| (look * 300, idle())).collect();
        assert_eq!(decisions(&often).pop(), Some(Destroy));
        assert!(decisions(&often[..12]).iter().all(|decision| *decision == Wait));
        assert_eq!(decisions(&[(0, idle()), (3600, idle())]), [Wait, Wait], "nobody knows what it did meanwhile");
    }

    #[test]
    fn powering_off_alone_is_no_stop() {
        use Decision::{Destroy, Wait};
        assert_eq!(decisions(&[(0, worker("a")), (3599, Work::Off), (3600, Work::Off)]), [Wait, Wait, Wait]);
        assert_eq!(decisions(&[(0, Work::Off), (3600, Work::Off)]), [Wait, Destroy], "it costs as before");
        assert_eq!(decisions(&[(0, Work::Off), (3000, worker("a")), (3600, Work::Off)]), [Wait, Wait, Wait]);
    }

    #[test]
    fn a_machine_is_idle_if_nobody_and_nothing_uses_it() {
        assert_eq!(work_of_login("load 29\nusers 0\ncards 0\n"), Work::Idle { mark: None });
        for busy in ["load 30\nusers 0\ncards 0\n", "load 0\nusers 1\ncards 0\n", "load 0\nusers 0\ncards 1\n"] {
            assert_eq!(work_of_login(busy), Work::Busy, "{busy}");
        }
        for nothing in ["", "load x\nusers 0\ncards 0\n", "load 0\nusers 0\n"] {
            assert_eq!(work_of_login(nothing), Work::Unknown, "{nothing}");
        }
    }

    fn any_work() -> impl Strategy<Value = Work> {
        prop_oneof![
            "[ab]".prop_map(|mark| Work::Idle { mark: Some(mark) }),
            Just(Work::Idle { mark: None }),
            Just(Work::Busy),
            any::<bool>().prop_map(|is_busy| Work::Leaving { is_busy }),
            Just(Work::Off),
            Just(Work::Left),
            Just(Work::Missing),
            Just(Work::Unknown),
        ]
    }

    proptest! {
        /// Whatever was seen: nothing is destroyed that was busy within its time, nor while it is busy, nor because nobody can tell,
        /// and a worker is never destroyed before it was told to leave.
        #[test]
        fn nothing_is_destroyed_that_had_something_to_do(
            seen in proptest::collection::vec((any_work(), 1_i64..2000, any::<bool>()), 1..60),
        ) {
            let (mut state, mut now, mut busy, mut drained) = (Idle::default(), 0, 0, false);
            for (work, pause, is_taken) in seen {
                now += pause;
                if matches!(work, Work::Busy | Work::Leaving { is_busy: true }) {
                    busy = now;
                }
                drained &= !matches!(work, Work::Busy | Work::Idle { .. });
                let (next, decision) = decide(&state, AFTER, &work, at(now));
                prop_assert_eq!(decide(&state, AFTER, &work, at(now)), (next.clone(), decision), "the same for the same");
                if decision != Decision::Wait && !drained {
                    prop_assert!(now - busy >= 3600, "busy at {}, {:?} at {}", busy, decision, now);
                }
                let is_busy = matches!(work, Work::Busy | Work::Leaving { is_busy: true } | Work::Unknown);
                prop_assert!(decision == Decision::Wait || !is_busy);
                let of_worker = matches!(work, Work::Idle { mark: Some(_) } | Work::Leaving { .. });
                prop_assert!(!(of_worker && decision == Decision::Destroy), "it is in its fleet");
                let takes = decision == Decision::Drain && is_taken;
                drained |= takes;
                state = if takes { next.drained() } else { next };
            }
        }

        /// What is seen idle under one mark at every look is stopped, as soon as its time is over.
        #[test]
        fn what_stays_idle_is_stopped_in_its_time(pauses in proptest::collection::vec(1_i64..300, 40), has_worker: bool) {
            let (mut state, mut now, mut first) = (Idle::default(), 0, None);
            for pause in pauses {
                let work = Work::Idle { mark: has_worker.then(|| "a".to_owned()) };
                let (next, decision) = decide(&state, AFTER, &work, at(now));
                let begun = *first.get_or_insert(now);
                prop_assert_eq!(decision != Decision::Wait, now - begun >= 3600);
                (state, now) = (if decision == Decision::Drain { next.drained() } else { next }, now + pause);
            }
        }
    }
}
