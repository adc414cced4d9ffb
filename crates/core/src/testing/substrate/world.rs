//! The world behind scripted substrates: executions, virtual time and the reports under way to each host. Owns what
//! happens; the port's methods only ask for it.

use std::collections::{BTreeMap, BTreeSet};
use std::task::Waker;
use std::time::Duration;

use super::call::{Call, Operation};
use super::document::{self, Ended};
use super::play::{OnCancel, Play, Refusal, When};
use super::scripted::Delivery;
use crate::attempt::{AttemptEnd, AttemptKey, AttemptSpec, EndResult};
use crate::error::Problem;
use crate::ports::substrate::AttemptReport;
use crate::time::Time;

/// Everything that outlives a host.
#[derive(Debug, Default)]
pub(super) struct World {
    pub(super) now: Time,
    pub(super) manual_clock: bool,
    pub(super) held: bool,
    pub(super) delivery: Delivery,
    pub(super) script: Vec<(When, Play)>,
    pub(super) calls: Vec<Call>,
    pub(super) faults: Vec<Fault>,
    pub(super) executions: BTreeMap<AttemptKey, Execution>,
    pub(super) created: BTreeMap<AttemptKey, u32>,
    pub(super) refused: BTreeMap<AttemptKey, u32>,
    pub(super) resources: BTreeMap<(String, String), String>,
    pub(super) sessions: Vec<Session>,
    draws: u64,
    wakers: Vec<Waker>,
}

/// A fault of the next call of an operation.
#[derive(Clone, Debug)]
pub(super) struct Fault {
    pub(super) operation: Operation,
    pub(super) answer: Refusal,
    /// Whether the call is carried out nevertheless.
    pub(super) carried_out: bool,
}

/// One execution.
#[derive(Debug)]
pub(super) struct Execution {
    pub(super) spec: AttemptSpec,
    play: Play,
    started_at: Time,
    state: State,
}

#[derive(Debug)]
enum State {
    /// Ends at these times: by itself, and because it was cancelled.
    Running {
        due: Option<Time>,
        cancel_due: Option<Time>,
    },
    /// Has this much left to run; none for ever.
    Suspended {
        left: Option<Duration>,
    },
    Ended(Box<AttemptEnd>),
}

/// One host's connection.
#[derive(Debug, Default)]
pub(super) struct Session {
    watched: BTreeSet<AttemptKey>,
    reports: Vec<(Time, AttemptReport)>,
}

impl Execution {
    fn due(&self) -> Option<Time> {
        match &self.state {
            State::Running { due, cancel_due } => due.iter().chain(cancel_due).min().copied(),
            State::Suspended { .. } | State::Ended(_) => None,
        }
    }

    fn end(&mut self, result: &EndResult, ended_at: Time) {
        let Self { spec, play, started_at, .. } = &*self;
        let ended = Ended { spec, play, result, started_at: *started_at, ended_at };
        self.state = State::Ended(Box::new(document::end(ended)));
    }

    /// Whether it still exists: it was neither lost nor deleted.
    pub(super) fn exists(&self) -> bool {
        !matches!(&self.state, State::Ended(end) if matches!(end.result, EndResult::Lost | EndResult::Gone))
    }

    pub(super) fn is_live(&self) -> bool {
        !matches!(self.state, State::Ended(_))
    }
}

impl World {
    /// The play for an attempt: the last that matches, else success.
    pub(super) fn play(&self, key: &AttemptKey) -> Play {
        self.script
            .iter()
            .rev()
            .find(|(when, _)| when.matches(key))
            .map_or_else(Play::success, |(_, play)| play.clone())
    }

    /// Answers a start that creates nothing, if the play has one left.
    pub(super) fn refusal(&mut self, key: &AttemptKey, play: &Play) -> Option<Problem> {
        let mut asked = self.refused.get(key).copied().unwrap_or(0);
        let before = asked;
        let refusal = play.refusals.iter().find(|refusal| match refusal.times {
            Some(times) if asked >= times => {
                asked -= times;
                false
            }
            _ => true,
        })?;
        let error = refusal.error();
        self.refused.insert(key.clone(), before.saturating_add(1));
        Some(error)
    }

    pub(super) fn create(&mut self, spec: AttemptSpec, play: Play) {
        let key = spec.key.clone();
        *self.created.entry(key.clone()).or_default() += 1;
        let due = play.after.map(|after| self.now.plus(after));
        let state = State::Running { due, cancel_due: None };
        self.executions.insert(key, Execution { spec, play, started_at: self.now, state });
    }

    /// Has a session told of the end of an execution: now if it has ended.
    pub(super) fn watch(&mut self, session: usize, key: &AttemptKey) {
        let end = match self.executions.get(key).map(|execution| &execution.state) {
            Some(State::Ended(end)) => (**end).clone(),
            Some(_) => {
                if let Some(session) = self.sessions.get_mut(session) {
                    session.watched.insert(key.clone());
                }
                return self.settle();
            }
            None => AttemptEnd::without_job(EndResult::Lost, self.now),
        };
        self.report(session, &AttemptReport { key: key.clone(), end });
    }

    pub(super) fn cancel(&mut self, session: usize, key: &AttemptKey) {
        self.settle();
        let now = self.now;
        let Some(execution) = self.executions.get_mut(key) else {
            let end = AttemptEnd::without_job(EndResult::Cancelled, now);
            return self.report(session, &AttemptReport { key: key.clone(), end });
        };
        // Cancelling wakes what is suspended.
        if let State::Suspended { left } = execution.state {
            execution.state = State::Running { due: left.map(|left| now.plus(left)), cancel_due: None };
        }
        if let (State::Running { cancel_due, .. }, OnCancel::EndsAfter(wait)) =
            (&mut execution.state, execution.play.cancel)
        {
            cancel_due.get_or_insert(now.plus(wait));
        }
        self.watch(session, key);
    }

    /// Whether the attempt can be suspended; one that has ended or is unknown is left alone.
    pub(super) fn suspend(&mut self, key: &AttemptKey) -> bool {
        self.settle();
        let now = self.now;
        let Some(execution) = self.executions.get_mut(key) else { return true };
        if let State::Running { due, cancel_due: None } = execution.state {
            if !execution.play.suspendable {
                return false;
            }
            execution.state = State::Suspended { left: due.map(|due| due.since(now)) };
        }
        true
    }

    pub(super) fn resume(&mut self, key: &AttemptKey) {
        let now = self.now;
        if let Some(execution) = self.executions.get_mut(key)
            && let State::Suspended { left } = execution.state
        {
            execution.state = State::Running { due: left.map(|left| now.plus(left)), cancel_due: None };
        }
        self.wake();
    }

    /// Ends a live execution now.
    pub(super) fn finish(&mut self, key: &AttemptKey, result: Option<EndResult>) {
        let now = self.now;
        if let Some(execution) = self.executions.get_mut(key).filter(|execution| execution.is_live()) {
            let result = result.unwrap_or_else(|| execution.play.end.clone());
            execution.end(&result, now);
            self.tell(key);
        }
    }

    /// Ends every execution that is due and tells who watches it.
    pub(super) fn settle(&mut self) {
        let now = self.now;
        let mut ended = Vec::new();
        for (key, execution) in &mut self.executions {
            let Some(at) = execution.due().filter(|&at| at <= now) else { continue };
            let by_itself = matches!(execution.state, State::Running { due: Some(due), .. } if due <= at);
            let result = if by_itself { execution.play.end.clone() } else { EndResult::Cancelled };
            execution.end(&result, at);
            ended.push((at, key.clone()));
        }
        ended.sort();
        for (_, key) in ended {
            self.tell(&key);
        }
    }

    fn tell(&mut self, key: &AttemptKey) {
        let Some(State::Ended(end)) = self.executions.get(key).map(|execution| &execution.state) else { return };
        let report = AttemptReport { key: key.clone(), end: (**end).clone() };
        for session in 0..self.sessions.len() {
            if self.sessions.get_mut(session).is_some_and(|session| session.watched.remove(key)) {
                self.report(session, &report);
            }
        }
    }

    /// Sends a report to a host, as often and as late as the delivery says.
    fn report(&mut self, session: usize, report: &AttemptReport) {
        for _ in 0..=self.delivery.duplicates {
            let at = self.now.plus(self.delivery.delay).plus(self.jitter());
            if let Some(session) = self.sessions.get_mut(session) {
                session.reports.push((at, report.clone()));
            }
        }
        self.wake();
    }

    /// A delay of up to the delivery's jitter, from its seed and the number of draws.
    fn jitter(&mut self) -> Duration {
        let span = u64::try_from(self.delivery.jitter.as_millis()).unwrap_or(u64::MAX);
        self.draws += 1;
        // The mixing function of SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014).
        let mut z = self.delivery.seed.wrapping_add(self.draws.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        Duration::from_millis((z ^ (z >> 31)) % span.saturating_add(1).max(1))
    }

    /// The next report of a session; moves the clock to it unless the clock is the test's. None registers the waker.
    pub(super) fn next(&mut self, session: usize, waker: &Waker) -> Option<AttemptReport> {
        loop {
            self.settle();
            let held = self.held;
            let reports = self.sessions.get_mut(session).map(|session| &mut session.reports)?;
            // The earliest; the first of equals.
            let first = reports.iter().enumerate().min_by_key(|(_, (at, _))| *at).map(|(index, (at, _))| (index, *at));
            if let Some((index, at)) = first
                && at <= self.now
                && !held
            {
                return Some(reports.remove(index).1);
            }
            let report_due = first.filter(|_| !held).map(|(_, at)| at);
            let due = self.executions.values().filter_map(Execution::due).chain(report_due).min();
            match due {
                Some(at) if !self.manual_clock => self.now = self.now.max(at),
                _ => {
                    if !self.wakers.iter().any(|known| known.will_wake(waker)) {
                        self.wakers.push(waker.clone());
                    }
                    return None;
                }
            }
        }
    }

    /// Lets every waiting `next` look again.
    pub(super) fn wake(&mut self) {
        for waker in self.wakers.drain(..) {
            waker.wake();
        }
    }
}
