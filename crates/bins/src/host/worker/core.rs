//! What an agent knows: its attempts, their slots and devices, the spool, the lease. Owns what every event leads to,
//! under one lock; carries nothing out itself: what is to be done comes back as [`Act`]s.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use orlop_cloud::runtime::worker::{
    AttemptEnd, AttemptId, AttemptPlan, Cause, GpuDevice, LogChunk, Outcome, Room, Started,
};
use orlop_cloud::spool::{Cursor, Recovered, Spool};
use orlop_core::spec::job::Runtime;
use orlop_core::time::Time;
use serde::{Deserialize, Serialize};

use super::gpus::{Gpu, Ledger};
use super::lease::Lease;
use super::slots::{Kind, Slots};
use super::specs::Specs;
use super::work::{Work, local, plan};
use crate::wire::attempt::{AssignJob, CancelJob, CancelWhy, Mode};

/// Attempts that wait this long for a slot of a kind of which nothing runs are given back.
const STUCK: Duration = Duration::from_secs(1);

/// What is to be done outside of the lock.
#[derive(Debug)]
pub(super) enum Act {
    /// Start an attempt.
    Start(Runtime, Box<AttemptPlan>),
    /// End one.
    End(Runtime, AttemptId, Cause, Duration),
    /// Let one write again.
    Resume(Runtime, AttemptId),
}

/// How far an attempt is.
#[derive(Debug)]
enum State {
    /// Taken on, not started: for want of a slot, or of a lease.
    Waiting(Box<AttemptPlan>),
    /// With its runtime.
    Running(Option<Time>),
}

#[derive(Debug)]
struct Attempt {
    runtime: Runtime,
    /// None for one that an earlier agent took on.
    kind: Option<Kind>,
    cpu_m: u64,
    memory_bytes: u64,
    state: State,
}

/// An attempt that is held, for the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Held {
    pub(super) id: AttemptId,
    pub(super) running: bool,
    pub(super) started_at: Option<Time>,
}

/// Amounts that attempts hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sum {
    pub(super) cpu_m: u64,
    pub(super) memory_bytes: u64,
    pub(super) gpus: u32,
    pub(super) attempts: u32,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Core {
    pub(super) spool: Spool,
    pub(super) slots: Slots,
    pub(super) specs: Specs,
    pub(super) lease: Lease,
    ledger: Ledger,
    runtimes: Vec<Runtime>,
    attempts: BTreeMap<AttemptId, Attempt>,
    /// Attempts that may start when the lease is renewed.
    held: VecDeque<AttemptId>,
    /// Attempts whose specification is on its way.
    parked: BTreeMap<u64, Vec<AssignJob>>,
    /// Specifications that were asked for.
    asked: BTreeSet<u64>,
}

impl Core {
    pub(super) fn new(spool: Spool, gpus: Vec<Gpu>, runtimes: Vec<Runtime>) -> Self {
        Self {
            spool,
            slots: Slots::default(),
            specs: Specs::default(),
            lease: Lease::new(),
            ledger: Ledger::new(gpus),
            runtimes,
            attempts: BTreeMap::new(),
            held: VecDeque::new(),
            parked: BTreeMap::new(),
            asked: BTreeSet::new(),
        }
    }

    /// Which program runs steps of flows.
    pub(super) fn run_steps_by(&mut self, program: Vec<String>) {
        self.specs.run_steps_by(program);
    }

    /// The server assigns an attempt.
    ///
    /// # Errors
    /// When the spool cannot be written: then the attempt was not taken on.
    pub(super) fn assign(&mut self, assign: AssignJob, now: Instant, acts: &mut Vec<Act>) -> io::Result<()> {
        let id = local(assign.attempt);
        if self.attempts.contains_key(&id) {
            return Ok(());
        }
        let Some(work) = self.specs.get(assign.spec_id) else {
            self.parked.entry(assign.spec_id).or_default().push(assign);
            return Ok(());
        };
        if !self.runtimes.contains(&work.runtime) {
            return self.spool.rejected(id, "runtime");
        }
        if work.needs_artifacts {
            return self.spool.rejected(id, "artifact");
        }
        let Some(gpus) = self.ledger.take(id, &work.gpus, &assign.device_hint) else {
            return self.spool.rejected(id, "gpu");
        };
        let mode = assign.mode;
        let plan = match plan(assign, &work, gpus) {
            Ok(plan) => plan,
            Err(reason) => {
                self.ledger.give_back(&id);
                return self.spool.rejected(id, &reason);
            }
        };
        let keep = work.spec.log.on_full == orlop_cloud::runtime::worker::OnFull::Block;
        let (runtime, cpu_m, memory_bytes) = (work.runtime, work.cpu_m, work.memory_bytes);
        let taken = Taken { runtime, cpu_m, memory_bytes, gpus: plan.gpus.clone() };
        self.spool.accepted(id, &taken.encode(), keep)?;
        self.take_on(id, &work, plan);
        let starts = match mode {
            Mode::Now => {
                self.slots.start(work.kind);
                true
            }
            Mode::Inherit => self.slots.inherit(work.kind, id),
        };
        if starts {
            self.start(id, now, acts);
        }
        Ok(())
    }

    fn take_on(&mut self, id: AttemptId, work: &Arc<Work>, plan: AttemptPlan) {
        let attempt = Attempt {
            runtime: work.runtime,
            kind: Some(work.kind),
            cpu_m: work.cpu_m,
            memory_bytes: work.memory_bytes,
            state: State::Waiting(Box::new(plan)),
        };
        self.attempts.insert(id, attempt);
    }

    /// Starts an attempt that has a slot, or holds it until there is a lease.
    fn start(&mut self, id: AttemptId, now: Instant, acts: &mut Vec<Act>) {
        if self.lease.left(now).is_zero() {
            self.held.push_back(id);
            return;
        }
        let Some(attempt) = self.attempts.get_mut(&id) else { return };
        if let State::Waiting(plan) = std::mem::replace(&mut attempt.state, State::Running(None)) {
            acts.push(Act::Start(attempt.runtime, plan));
        }
    }

    /// The lease was renewed: whoever was held starts.
    pub(super) fn renewed(&mut self, now: Instant, acts: &mut Vec<Act>) {
        if !self.lease.left(now).is_zero() {
            for id in std::mem::take(&mut self.held) {
                self.start(id, now, acts);
            }
        }
    }

    /// A specification came: what waited for it is assigned now.
    ///
    /// # Errors
    /// As of [`Core::assign`].
    pub(super) fn unpark(&mut self, spec: u64, now: Instant, acts: &mut Vec<Act>) -> io::Result<()> {
        self.asked.remove(&spec);
        for assign in self.parked.remove(&spec).unwrap_or_default() {
            self.assign(assign, now, acts)?;
        }
        Ok(())
    }

    /// A new session: the server knows no vacant slots, numbers specifications anew, and has forgotten what it sent.
    pub(super) fn new_session(&mut self) {
        self.slots.new_session();
        self.specs.clear();
        self.parked.clear();
        self.asked.clear();
        self.spool.rewind(Cursor::default());
    }

    /// Specifications that are needed, are not here, and were not asked for yet.
    pub(super) fn take_needed_specs(&mut self) -> Vec<u64> {
        let needed = self.parked.keys().filter(|spec| !self.asked.contains(*spec)).copied().collect::<Vec<_>>();
        self.asked.extend(&needed);
        needed
    }

    /// What was asked for may never have arrived.
    pub(super) fn ask_again(&mut self) {
        self.asked.clear();
    }

    /// The server wants an attempt to end. One that is not started ends at once; one that is not here has ended, and its
    /// end is on its way.
    ///
    /// # Errors
    /// When the spool cannot be written.
    pub(super) fn cancel(&mut self, cancel: &CancelJob, at: Time, acts: &mut Vec<Act>) -> io::Result<()> {
        let id = local(cancel.attempt);
        let cause = match cancel.reason {
            CancelWhy::Preempted | CancelWhy::Drain => Cause::Preempt,
            CancelWhy::User | CancelWhy::Timeout | CancelWhy::Stale | CancelWhy::Gang => Cause::Cancel,
        };
        self.end(id, cause, Duration::from_millis(cancel.grace_ms), at, acts)
    }

    /// Ends an attempt.
    ///
    /// # Errors
    /// When the spool cannot be written.
    pub(super) fn end(
        &mut self,
        id: AttemptId,
        cause: Cause,
        grace: Duration,
        at: Time,
        acts: &mut Vec<Act>,
    ) -> io::Result<()> {
        let Some(attempt) = self.attempts.get(&id) else { return Ok(()) };
        if let State::Running(_) = attempt.state {
            acts.push(Act::End(attempt.runtime, id, cause, grace));
            return Ok(());
        }
        let outcome = if cause == Cause::Preempt { Outcome::Preempted } else { Outcome::Cancelled };
        if self.drop_waiting(id) {
            self.spool.ended(id, AttemptEnd::without_run(outcome, "", at))?;
        }
        Ok(())
    }

    /// The server takes an attempt back, if it has not started. One that is not here never will.
    ///
    /// # Errors
    /// When the spool cannot be written.
    pub(super) fn revoke(&mut self, id: AttemptId) -> io::Result<()> {
        for waiting in self.parked.values_mut() {
            waiting.retain(|assign| local(assign.attempt) != id);
        }
        self.parked.retain(|_, waiting| !waiting.is_empty());
        if self.drop_waiting(id) || !self.attempts.contains_key(&id) {
            self.spool.revoked(id)?;
        }
        Ok(())
    }

    /// Removes an attempt that has not started; false when it has, or is not here.
    fn drop_waiting(&mut self, id: AttemptId) -> bool {
        let Some(attempt) = self.attempts.get(&id) else { return false };
        if matches!(attempt.state, State::Running(_)) {
            return false;
        }
        let kind = attempt.kind;
        self.attempts.remove(&id);
        self.ledger.give_back(&id);
        let held = self.held.len();
        self.held.retain(|other| *other != id);
        if let Some(kind) = kind
            && !self.slots.revoke(kind, &id)
            && self.held.len() < held
        {
            // It had a slot and waited for the lease only: nobody inherits it without one either.
            if let Some(next) = self.slots.end(kind, id) {
                self.held.push_back(next);
            }
        }
        true
    }

    /// The server wants to hear no more of an attempt; if it runs it is killed.
    ///
    /// # Errors
    /// When the spool cannot be written.
    pub(super) fn unwanted(&mut self, id: AttemptId, at: Time, acts: &mut Vec<Act>) -> io::Result<()> {
        if !self.attempts.contains_key(&id) {
            self.spool.discard(&id);
            return Ok(());
        }
        self.end(id, Cause::Cancel, Duration::ZERO, at, acts)
    }

    /// An attempt runs.
    ///
    /// # Errors
    /// When the spool cannot be written.
    pub(super) fn started(&mut self, id: AttemptId, started: Started) -> io::Result<()> {
        if let Some(attempt) = self.attempts.get_mut(&id) {
            attempt.state = State::Running(Some(started.at));
        }
        self.spool.started(id, started)
    }

    /// An attempt wrote something.
    pub(super) fn log(&mut self, id: AttemptId, chunk: LogChunk) -> Room {
        self.spool.log(id, chunk)
    }

    /// An attempt ended: its devices are free, and its slot is inherited or vacant.
    ///
    /// # Errors
    /// When the spool cannot be written.
    pub(super) fn ended(
        &mut self,
        id: AttemptId,
        end: AttemptEnd,
        now: Instant,
        acts: &mut Vec<Act>,
    ) -> io::Result<()> {
        let attempt = self.attempts.remove(&id);
        self.ledger.give_back(&id);
        self.spool.ended(id, end)?;
        if let Some(next) = attempt.and_then(|attempt| attempt.kind).and_then(|kind| self.slots.end(kind, id)) {
            self.start(next, now, acts);
        }
        Ok(())
    }

    /// An attempt of an earlier agent that goes on.
    pub(super) fn adopt(&mut self, recovered: &Recovered) {
        let Taken { runtime, cpu_m, memory_bytes, gpus } = Taken::decode(&recovered.body);
        self.ledger.hold(recovered.id, &gpus);
        let started_at = recovered.started.as_ref().map(|started| started.at);
        let attempt = Attempt { runtime, kind: None, cpu_m, memory_bytes, state: State::Running(started_at) };
        self.attempts.insert(recovered.id, attempt);
    }

    /// Does what time brings: gives back what waits for ever, lets write who may.
    ///
    /// # Errors
    /// When the spool cannot be written.
    pub(super) fn tick(&mut self, now: Instant, acts: &mut Vec<Act>) -> io::Result<()> {
        for id in self.slots.stuck(now, STUCK) {
            self.revoke(id)?;
        }
        for id in self.spool.take_relieved() {
            if let Some(attempt) = self.attempts.get(&id) {
                acts.push(Act::Resume(attempt.runtime, id));
            }
        }
        Ok(())
    }

    /// All attempts that are held.
    pub(super) fn held(&self) -> Vec<Held> {
        let one = |(id, attempt): (&AttemptId, &Attempt)| match attempt.state {
            State::Waiting(_) => Held { id: *id, running: false, started_at: None },
            State::Running(started_at) => Held { id: *id, running: started_at.is_some(), started_at },
        };
        self.attempts.iter().map(one).collect()
    }

    /// Whether no attempt is held.
    pub(super) fn is_idle(&self) -> bool {
        self.attempts.is_empty() && self.parked.is_empty()
    }

    /// What running attempts hold.
    pub(super) fn sum(&self) -> Sum {
        let running = self.attempts.values().filter(|attempt| matches!(attempt.state, State::Running(_)));
        let gpus = u32::try_from(self.ledger.taken()).unwrap_or(u32::MAX);
        running.fold(Sum { gpus, ..Sum::default() }, |sum, attempt| Sum {
            cpu_m: sum.cpu_m.saturating_add(attempt.cpu_m),
            memory_bytes: sum.memory_bytes.saturating_add(attempt.memory_bytes),
            attempts: sum.attempts + 1,
            ..sum
        })
    }
}

/// What an agent that starts later needs to know of an attempt, in the spool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Taken {
    #[serde(rename = "r", default)]
    pub(super) runtime: Runtime,
    #[serde(rename = "c", default)]
    cpu_m: u64,
    #[serde(rename = "m", default)]
    memory_bytes: u64,
    #[serde(rename = "g", default, skip_serializing_if = "Vec::is_empty")]
    gpus: Vec<GpuDevice>,
}

impl Taken {
    fn encode(&self) -> Vec<u8> {
        // Writing to memory fails for values JSON has no form for; here are none.
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Reads it back; of one that an agent of another version wrote as much as is understood.
    pub(super) fn decode(body: &[u8]) -> Self {
        serde_json::from_slice(body).unwrap_or_default()
    }
}
