//! Effects that are being carried out. Applies no event.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use orlop_core::attempt::Address;
use orlop_core::effect::FlowEffect;
use orlop_core::error::Problem;
use orlop_core::event::FlowEvent;
use orlop_core::ports::substrate::AttemptReport;
use orlop_core::spec::meta::ObjectReference;
use orlop_dag::attempt::Unresolved;
use orlop_dag::params::Scope;
use serde_json::Value;

use super::admission::{Admission, AdmissionDecision};

/// An attempt of a step or instance.
pub(super) type StepAttempt = (Address, u32);

/// A start that waits for its turn.
pub(super) struct Start {
    pub(super) unit: StepAttempt,
    pub(super) item: Option<Box<Value>>,
}

/// What parameters are wanted for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Purpose {
    Start(StepAttempt),
    Items(Address),
    Adopt(StepAttempt),
}

/// What a piece of work gave.
pub(super) enum Done {
    /// An event to be reported.
    Event(FlowEvent),
    /// The resources of the flow could not be made now, after so many tries before.
    ResourcesLater(Problem, u32),
    /// They are to be made now, after so many tries.
    ResourcesAgain(u32),
    /// A start was answered.
    Started(StepAttempt, Result<ObjectReference, Problem>),
    /// Parameters are known.
    Bound(Purpose, Result<Scope, Unresolved>),
    /// The clock of an attempt was stopped (`true`) or let go.
    Clock(StepAttempt, bool),
    /// An attempt of an earlier host is watched now.
    Adopted(StepAttempt),
    /// An attempt of an earlier host cannot be watched, and why.
    Unwatchable(StepAttempt, String),
    /// Such an attempt is ended, as far as it can be.
    Abandoned(StepAttempt, String),
    /// A cancelled attempt should have ended by now.
    Overdue(StepAttempt),
    /// The gate has spoken.
    Gate(Box<dyn Admission>, Result<AdmissionDecision, Problem>),
    /// What was left of an attempt is deleted, or cannot be.
    Forgotten,
    /// Nothing to tell.
    Tidied,
}

/// Whether the clock of an attempt is to stand still, and whether somebody is seeing to it.
#[derive(Clone, Copy, Debug)]
struct Frozen {
    wanted: bool,
    busy: bool,
}

/// Everything under way.
pub(super) struct Work {
    pub(super) under_way: FuturesUnordered<BoxFuture<'static, Done>>,
    starts: VecDeque<Start>,
    /// Attempts whose start is under way or waits.
    starting: BTreeSet<StepAttempt>,
    busy_starts: usize,
    most_starts: usize,
    /// How often an attempt was put off.
    delays: BTreeMap<StepAttempt, u32>,
    /// Attempts that wait for room, and why.
    roomless: BTreeMap<StepAttempt, (String, String)>,
    frozen: BTreeMap<StepAttempt, Frozen>,
    /// Attempts of an earlier host that are not watched yet, and what is to be done to them after that.
    adopting: BTreeMap<StepAttempt, Vec<FlowEffect>>,
    /// Attempts of an earlier host that cannot be watched and are being ended.
    abandoned: BTreeSet<StepAttempt>,
    /// Ends of attempts whose start is not answered yet.
    early: Vec<(StepAttempt, AttemptReport)>,
    /// Attempts that the substrate has reported as ended, until that is written down.
    pub(super) ended: Vec<StepAttempt>,
    /// Deletions of what is left of attempts that are to be done before the host goes.
    pub(super) tidying: usize,
    /// Whether the host is about to go.
    pub(super) leaving: tokio::sync::watch::Sender<bool>,
}

impl Work {
    pub(super) fn new(most_starts: usize) -> Self {
        Self {
            under_way: FuturesUnordered::new(),
            starts: VecDeque::new(),
            starting: BTreeSet::new(),
            busy_starts: 0,
            most_starts: most_starts.max(1),
            delays: BTreeMap::new(),
            roomless: BTreeMap::new(),
            frozen: BTreeMap::new(),
            adopting: BTreeMap::new(),
            abandoned: BTreeSet::new(),
            early: Vec::new(),
            ended: Vec::new(),
            tidying: 0,
            leaving: tokio::sync::watch::Sender::new(false),
        }
    }

    pub(super) fn push(&self, work: impl Future<Output = Done> + Send + 'static) {
        self.under_way.push(Box::pin(work));
    }

    /// Takes a start into the queue, unless it is there or under way.
    pub(super) fn queue_start(&mut self, start: Start) {
        if self.starting.insert(start.unit) {
            self.roomless.remove(&start.unit);
            self.starts.push_back(start);
        }
    }

    /// The next start that may begin; it counts as under way until [`Work::start_answered`].
    pub(super) fn next_start(&mut self) -> Option<Start> {
        if self.busy_starts >= self.most_starts {
            return None;
        }
        let start = self.starts.pop_front()?;
        self.busy_starts += 1;
        Some(start)
    }

    /// A start was answered: how often it was put off before.
    pub(super) fn start_answered(&mut self, unit: StepAttempt, again: bool) -> u32 {
        self.busy_starts = self.busy_starts.saturating_sub(1);
        self.starting.remove(&unit);
        if !again {
            self.delays.remove(&unit);
            return 0;
        }
        let delays = self.delays.entry(unit).or_default();
        *delays = delays.saturating_add(1);
        *delays - 1
    }

    /// Keeps an end back while the attempt's start is not answered; gives it back otherwise.
    pub(super) fn keep_back(&mut self, unit: StepAttempt, report: AttemptReport) -> Option<AttemptReport> {
        if self.starting.contains(&unit) {
            self.early.push((unit, report));
            return None;
        }
        Some(report)
    }

    /// Ends of an attempt that were kept back.
    pub(super) fn take_kept_back(&mut self, unit: StepAttempt) -> Vec<AttemptReport> {
        let (ready, rest) = std::mem::take(&mut self.early).into_iter().partition(|(of, _)| *of == unit);
        self.early = rest;
        let ready: Vec<(StepAttempt, AttemptReport)> = ready;
        ready.into_iter().map(|(_, report)| report).collect()
    }

    /// An attempt of an earlier host is about to be watched.
    pub(super) fn adopt(&mut self, unit: StepAttempt) {
        self.adopting.entry(unit).or_default();
    }

    /// Keeps an effect back while its attempt is not watched yet; gives it back otherwise.
    pub(super) fn after_adoption(&mut self, unit: StepAttempt, effect: FlowEffect) -> Option<FlowEffect> {
        match self.adopting.get_mut(&unit) {
            Some(kept) => {
                kept.push(effect);
                None
            }
            None => Some(effect),
        }
    }

    /// An attempt of an earlier host is watched now: what is to be done to it.
    pub(super) fn adopted(&mut self, unit: StepAttempt) -> Vec<FlowEffect> {
        self.adopting.remove(&unit).unwrap_or_default()
    }

    /// An attempt cannot be watched: it is being ended, whatever else was to be done to it.
    pub(super) fn abandon(&mut self, unit: StepAttempt) {
        self.adopting.insert(unit, Vec::new());
        self.abandoned.insert(unit);
    }

    /// Whether an attempt is given up: how it ends is not asked any more.
    pub(super) fn is_abandoned(&self, unit: StepAttempt) -> bool {
        self.abandoned.contains(&unit)
    }

    /// Notes that an attempt waits for room.
    pub(super) fn wait_for_room(&mut self, unit: StepAttempt, reason: String, message: String) {
        self.roomless.insert(unit, (reason, message));
    }

    /// The first of the attempts that wait for room, and why it waits.
    pub(super) fn next_roomless(&mut self) -> Option<(StepAttempt, (String, String))> {
        self.roomless.pop_first()
    }

    /// Wants the clock of an attempt stopped or let go. True when somebody must see to it now.
    pub(super) fn want_frozen(&mut self, unit: StepAttempt, on: bool) -> bool {
        let frozen = self.frozen.entry(unit).or_insert(Frozen { wanted: on, busy: false });
        frozen.wanted = on;
        !std::mem::replace(&mut frozen.busy, true)
    }

    /// The clock of an attempt was stopped or let go. Gives what is wanted now, where that is something else.
    pub(super) fn frozen(&mut self, unit: StepAttempt, on: bool) -> Option<bool> {
        let frozen = self.frozen.get_mut(&unit)?;
        if frozen.wanted != on {
            return Some(frozen.wanted);
        }
        frozen.busy = false;
        if !on {
            self.frozen.remove(&unit);
        }
        None
    }
}
