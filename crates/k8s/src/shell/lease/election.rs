//! The election as a state machine: what was seen, what is asked next, whether this process leads. Time is a parameter, and
//! requests are values; one is under way at a time.

use std::time::Duration;

use orlop_core::time::Time;
use serde_json::Value;

use super::{Options, record};
use crate::api::{ApiError, Kind, Request};

/// What is to be done now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Send this request, and give its answer to [`Election::handle_response`].
    Send(Request),
    /// Nothing before this moment.
    Wait(Duration),
    /// Nothing any more.
    End(End),
}

/// How an election ends for a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// It left, and gave back what it held.
    Left,
    /// It led and does not any more, and why.
    Lost(String),
}

/// What is known of a lease.
#[derive(Clone, Debug)]
struct Lease {
    name: String,
    /// As it was last seen on the server; none where it is not there.
    object: Option<Value>,
    /// When the record of another holder was first observed, and how long it counts from then.
    other: Option<(Value, Duration, Duration)>,
    /// When the last renewal was sent that was answered.
    renewed: Option<Duration>,
    /// The version on the server may be another than the one that was seen.
    stale: bool,
    /// Requests that had no success since something else was asked of it.
    tries: u32,
}

/// Requests to give one lease back.
const TRIES: u32 = 4;

/// Whether the pending request reads or writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RequestKind {
    Read,
    Write,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Phase {
    /// Reads the lease of that index, not before that time.
    Observing(usize, Duration),
    /// All are free: takes the lease of that index.
    Acquiring(usize),
    /// Holds all: renews the lease of that index, not before that time.
    Leading(usize, Duration),
    /// Gives back the lease of that index, if it is held, until that time.
    Releasing(usize, Duration),
    Ended(End),
}

/// The election as one process takes part in it. Moments are durations since any fixed one, by a steady clock.
#[derive(Clone, Debug)]
pub struct Election {
    options: Options,
    leases: Vec<Lease>,
    phase: Phase,
    request_kind: RequestKind,
    leaving: bool,
    /// The last error, for messages.
    last_error: String,
}

impl Election {
    /// A process that has seen nothing yet.
    #[must_use]
    pub fn new(options: Options) -> Self {
        let lease = |name: &String| Lease {
            name: name.clone(),
            object: None,
            other: None,
            renewed: None,
            stale: false,
            tries: 0,
        };
        let leases = options.leases.iter().map(lease).collect();
        // Who needs no lease leads.
        let first = if options.leases.is_empty() { Phase::Leading } else { Phase::Observing };
        let (phase, request_kind) = (first(0, Duration::ZERO), RequestKind::Read);
        Self { options, leases, phase, request_kind, leaving: false, last_error: "it was not tried in time".to_owned() }
    }

    /// Until when this process leads; none where it does not.
    #[must_use]
    pub fn leads_until(&self) -> Option<Duration> {
        matches!(self.phase, Phase::Leading(..)).then(|| self.renewed_all())
    }

    /// Who holds the first lease, as far as was seen.
    #[must_use]
    pub fn leader(&self) -> Option<&str> {
        let object = self.leases.first()?.object.as_ref()?;
        Some(record::holder(object)).filter(|holder| !holder.is_empty())
    }

    /// This process leads no more and gives back what it holds. Its work must be over.
    pub fn leave(&mut self, now: Duration) {
        if !matches!(self.phase, Phase::Ended(_)) && !self.leaving {
            self.leaving = true;
            self.start_release(now);
        }
    }

    /// What is to be done at `now`; `time` is what calendars show, for people who read the lease.
    pub fn act(&mut self, now: Duration, time: Time) -> Action {
        loop {
            match self.phase.clone() {
                Phase::Ended(end) => return Action::End(end),
                Phase::Observing(_, at) if now < at => return Action::Wait(at),
                Phase::Observing(index, _) if index < self.leases.len() => return self.read(index),
                Phase::Observing(..) => self.decide(now),
                Phase::Acquiring(index) => return self.hold(index, time),
                Phase::Leading(..) if now >= self.renewed_all() => {
                    let deadline = self.options.timing.deadline.as_secs();
                    self.lose(format!("a lease could not be renewed for {deadline} s: {}", self.last_error));
                }
                Phase::Leading(_, at) if now < at => return Action::Wait(at.min(self.renewed_all())),
                Phase::Leading(index, at) if index >= self.leases.len() => {
                    let next = at.saturating_add(self.options.timing.retry).max(now);
                    self.phase = Phase::Leading(0, next);
                }
                Phase::Leading(index, _) if self.is_stale(index) => return self.read(index),
                Phase::Leading(index, _) => return self.hold(index, time),
                Phase::Releasing(index, until) if now >= until || index >= self.leases.len() => self.released(now),
                Phase::Releasing(index, until) => match self.release(index, time) {
                    Some(act) => return act,
                    None => self.phase = Phase::Releasing(index + 1, until),
                },
            }
        }
    }

    /// Takes the answer to the pending request, which was sent at `sent` and answered at `now`.
    pub fn handle_response(&mut self, sent: Duration, now: Duration, answer: Result<Value, ApiError>) {
        match self.phase.clone() {
            Phase::Observing(index, _) => self.observed(index, now, answer),
            Phase::Acquiring(index) => match answer {
                Ok(object) => {
                    self.renewed(index, object, sent, now);
                    self.phase = if index + 1 < self.leases.len() {
                        Phase::Acquiring(index + 1)
                    } else if now < self.renewed_all() {
                        Phase::Leading(0, now.saturating_add(self.options.timing.retry))
                    } else {
                        // Taking them took too long to lead on it.
                        Phase::Observing(0, now)
                    };
                }
                Err(error) => {
                    self.last_error = error.to_string();
                    self.observe_again(now);
                }
            },
            Phase::Leading(index, at) => self.renewal_answered(index, at, sent, now, answer),
            Phase::Releasing(index, _) => self.release_answered(index, now, answer),
            Phase::Ended(_) => {}
        }
    }

    fn renewed_all(&self) -> Duration {
        let renewed = self.leases.iter().map(|lease| lease.renewed.unwrap_or_default()).min();
        renewed.map_or(Duration::MAX, |renewed| renewed.saturating_add(self.options.timing.deadline))
    }

    fn is_stale(&self, index: usize) -> bool {
        self.leases.get(index).is_some_and(|lease| lease.stale)
    }

    fn observe_again(&mut self, now: Duration) {
        self.phase = Phase::Observing(0, now.saturating_add(self.options.timing.retry));
    }

    fn lose(&mut self, why: String) {
        self.phase = Phase::Ended(End::Lost(why));
    }

    fn start_release(&mut self, now: Duration) {
        self.leases.iter_mut().for_each(|lease| lease.tries = 0);
        self.phase = Phase::Releasing(0, now.saturating_add(self.options.timing.deadline));
    }

    fn released(&mut self, now: Duration) {
        if self.leaving {
            self.phase = Phase::Ended(End::Left);
        } else {
            self.observe_again(now);
        }
    }

    fn read(&mut self, index: usize) -> Action {
        self.request_kind = RequestKind::Read;
        let name = self.leases.get(index).map_or("", |lease| lease.name.as_str());
        Action::Send(Request::get(Kind::Lease, &self.options.namespace, name))
    }

    /// Takes or renews a lease, as the version of it that was seen.
    fn hold(&mut self, index: usize, time: Time) -> Action {
        self.request_kind = RequestKind::Write;
        let Options { identity, namespace, timing, .. } = &self.options;
        let Some(lease) = self.leases.get_mut(index) else { return Action::Wait(Duration::MAX) };
        lease.stale = true;
        let object = lease.object.clone();
        let exists = object.is_some();
        let object = object.unwrap_or_else(|| record::fresh(namespace, &lease.name));
        let object = record::held(object, identity, timing.term, time);
        let request = if exists { Request::update } else { Request::create };
        Action::Send(request(Kind::Lease, object))
    }

    /// Gives a lease back; none where it is not held.
    fn release(&mut self, index: usize, time: Time) -> Option<Action> {
        let lease = self.leases.get_mut(index)?;
        let ours = lease.object.as_ref().filter(|object| record::holder(object) == self.options.identity);
        if lease.tries >= TRIES || !lease.stale && ours.is_none() {
            return None;
        }
        lease.tries += 1;
        if lease.stale {
            return Some(self.read(index));
        }
        let object = record::released(ours?.clone(), time);
        lease.stale = true;
        self.request_kind = RequestKind::Write;
        Some(Action::Send(Request::update(Kind::Lease, object)))
    }

    /// Notes a lease as it is on the server.
    fn observe(&mut self, index: usize, object: Option<Value>, now: Duration) {
        let Options { identity, timing, .. } = &self.options;
        let Some(lease) = self.leases.get_mut(index) else { return };
        lease.stale = false;
        if let Some(object) = &object {
            let holder = record::holder(object);
            let spec = object.get("spec").cloned().unwrap_or_default();
            if holder.is_empty() || holder == identity {
                lease.other = None;
            } else if lease.other.as_ref().is_none_or(|(known, ..)| *known != spec) {
                lease.other = Some((spec, now, record::term(object).unwrap_or(timing.term)));
            }
        }
        // Whoever held a lease that was deleted may still lead.
        lease.object = object;
    }

    fn renewed(&mut self, index: usize, object: Value, sent: Duration, now: Duration) {
        self.observe(index, Some(object), now);
        if let Some(lease) = self.leases.get_mut(index) {
            lease.renewed = Some(sent);
            lease.tries = 0;
        }
    }

    fn observed(&mut self, index: usize, now: Duration, answer: Result<Value, ApiError>) {
        match answer {
            Ok(object) => self.observe(index, Some(object), now),
            Err(error) if error.code == Some(404) => self.observe(index, None, now),
            Err(error) => {
                self.last_error = error.to_string();
                return self.observe_again(now);
            }
        }
        self.phase = Phase::Observing(index + 1, now);
    }

    /// All leases were read.
    fn decide(&mut self, now: Duration) {
        let free_at = |lease: &Lease| lease.other.as_ref().map_or(now, |(_, at, term)| at.saturating_add(*term));
        let last = self.leases.iter().map(free_at).max().unwrap_or(now);
        let identity = &self.options.identity;
        if last <= now {
            self.phase = Phase::Acquiring(0);
        } else if self.leases.iter().any(|lease| lease.object.as_ref().is_some_and(|o| record::holder(o) == *identity))
        {
            self.start_release(now);
        } else {
            // Not later than the moment at which it is free unless it is renewed.
            self.phase = Phase::Observing(0, last.min(now.saturating_add(self.options.timing.retry)));
        }
    }

    /// What came of a renewal, or of looking why one was refused.
    fn renewal_answered(
        &mut self,
        index: usize,
        at: Duration,
        sent: Duration,
        now: Duration,
        answer: Result<Value, ApiError>,
    ) {
        let Some(lease) = self.leases.get_mut(index) else { return };
        match (self.request_kind, answer) {
            (_, Ok(object)) if record::holder(&object) != self.options.identity => {
                let holder = Some(record::holder(&object)).filter(|holder| !holder.is_empty()).unwrap_or("nobody");
                let why = format!("lease `{}` is held by {holder}", lease.name);
                self.lose(why);
            }
            (RequestKind::Read, Ok(object)) => self.observe(index, Some(object), now),
            (RequestKind::Read, Err(error)) if error.code == Some(404) => self.observe(index, None, now),
            (RequestKind::Write, Ok(object)) => {
                self.renewed(index, object, sent, now);
                self.phase = Phase::Leading(index + 1, at);
            }
            (request_kind, Err(error)) => {
                let other_version = request_kind == RequestKind::Write && matches!(error.code, Some(404 | 409));
                let at_once = other_version && lease.tries == 0;
                lease.tries = lease.tries.saturating_add(1);
                self.last_error = error.to_string();
                if !at_once {
                    self.phase = Phase::Leading(index, now.saturating_add(self.options.timing.retry));
                }
            }
        }
    }

    fn release_answered(&mut self, index: usize, now: Duration, answer: Result<Value, ApiError>) {
        match answer {
            Ok(object) => self.observe(index, Some(object), now),
            Err(error) if error.code == Some(404) => self.observe(index, None, now),
            Err(error) => self.last_error = error.to_string(),
        }
    }
}
