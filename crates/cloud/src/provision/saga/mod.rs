//! The saga of a deployment: a state, an event and the time give effects. Pure: no I/O, no
//! clock, no runtime. Every transition is one of the table in `orlop_core::machine::saga`; every create is written down before
//! it is asked for, and one whose answer is unclear is looked for by its mark before it is repeated.

mod begin;
mod create;
mod effect;
mod end;
mod machine;
mod reach;
mod resume;
mod state;
#[cfg(test)]
mod tests;
mod undo;
mod view;
mod wait;
mod words;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use orlop_core::machine::saga::{Event as Turn, SagaState};
use orlop_core::time::Time;

pub use effect::{
    Answer, AvailableCapacity, Call, ELSEWHERE, Effect, Elsewhere, Event, Facts, FailedOffering, Failure, Here,
    Inventory, Login, Probe, Reason, Stop,
};
pub use resume::replayed;
pub use words::{check_account, clock_is_off, refused};

use super::journal::{Entry, Kind};
use super::order::DeploymentOrder;
use state::{AddressCall, KeyCall, Phase, State};

/// How far the clock of a cloud is ahead as far as it matters, in seconds: up to a minute it does not.
#[must_use]
pub fn clock_offset(ahead: Option<i64>) -> i64 {
    ahead.filter(|seconds| seconds.unsigned_abs() > 60).unwrap_or(0)
}

/// An object of the deployment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Slot {
    /// Its id, once it is known.
    pub(super) id: Option<String>,
    /// The reservation of a lease; the address of a floating IP.
    pub(super) detail: String,
    /// Until when it lasts.
    pub(super) until: Option<Time>,
    /// Until when it lasted when it was made: what lies between was bought by extensions.
    pub(super) at_first: Option<Time>,
    /// The mark of an intent without result.
    pub(super) open: Option<u32>,
}

/// A deployment on its way.
#[derive(Debug, Clone)]
pub struct Saga {
    order: DeploymentOrder,
    state: State,
    began: Option<Time>,
    /// When it began for the first time, however often it was taken up since.
    born: Option<Time>,
    /// The number in the marks of the next create.
    mark: u32,
    /// The number in the mark of the lease that is known.
    lease_mark: u32,
    /// Choices tried so far, this one and those at sites before included.
    attempt: u32,
    choice: usize,
    image: usize,
    slots: BTreeMap<Kind, Slot>,
    /// Marks of creates that may still show, with when they were asked for.
    sweeps: Vec<(Kind, u32, Time)>,
    /// When something was last asked to be made.
    submitted: Option<Time>,
    /// Whether this choice got a second server in its lease, and whether one that was off was started.
    host_retried: bool,
    started: bool,
    fixed: Option<String>,
    ahead: i64,
    clock_mended: bool,
    /// Whether a key that was gone was made again.
    key_mended: bool,
    destroy: bool,
    stop: Option<Stop>,
    failure: Option<Failure>,
    warnings: Vec<String>,
    leftovers: Vec<String>,
    failed: Vec<FailedOffering>,
    last_error: Option<(Time, String)>,
    /// Since when capacity is waited for.
    waiting: Option<Time>,
    /// The site that was seen to have some last.
    room: Option<String>,
    /// The state that the journal has last.
    recorded: Option<(SagaState, bool, Option<Failure>)>,
    /// Whether it was closed and nothing was written down since.
    closed: bool,
    out: Vec<Effect>,
}

impl Saga {
    /// A deployment that has not begun. `failed` is what is known not to be had.
    #[must_use]
    pub fn new(order: DeploymentOrder, failed: Vec<FailedOffering>) -> Self {
        let attempt = order.tried.saturating_add(1);
        Self {
            order,
            state: State::Rest(SagaState::Planned),
            began: None,
            born: None,
            mark: 1,
            lease_mark: 1,
            attempt,
            choice: 0,
            image: 0,
            slots: BTreeMap::new(),
            sweeps: Vec::new(),
            submitted: None,
            host_retried: false,
            started: false,
            fixed: None,
            ahead: 0,
            clock_mended: false,
            key_mended: false,
            destroy: false,
            stop: None,
            failure: None,
            warnings: Vec::new(),
            leftovers: Vec::new(),
            failed,
            last_error: None,
            waiting: None,
            room: None,
            recorded: None,
            closed: false,
            out: Vec::new(),
        }
    }

    /// How far the clock of the cloud is ahead, in seconds.
    pub fn set_clock_ahead(&mut self, seconds: i64) {
        self.ahead = seconds;
    }

    /// The time of the cloud.
    fn cloud_time(&self, now: Time) -> Time {
        let ahead = clock_offset(Some(self.ahead));
        Time::from_millis(now.millis().saturating_add(ahead.saturating_mul(1000)))
    }

    /// Says once that the clock of this machine is off.
    fn tell_clock(&mut self) {
        let text = words::clock_is_off(self.ahead);
        let front = text.split(char::is_numeric).next().unwrap_or_default();
        if !self.warnings.iter().any(|known| known.starts_with(front)) {
            self.warn(text);
        }
    }

    /// Takes an event; gives what is to be done.
    ///
    /// A call that is asked for has to be answered before the next event but an interruption.
    pub fn on(&mut self, event: Event, now: Time) -> Vec<Effect> {
        self.began.get_or_insert(now);
        self.born.get_or_insert(now);
        match event {
            Event::Start => {
                self.begin_with(now);
                self.turn(Turn::Confirmed, now);
            }
            Event::Answered(answer) => self.answered(*answer, now),
            Event::Woke => {
                if self.next_deadline().is_none_or(|due| due <= now) {
                    self.ask(now);
                }
            }
            Event::Interrupt(stop) => self.interrupted(stop, now),
            Event::Destroy => self.destroy(now),
            Event::DestroyKeepingKey => {
                self.keep_key();
                self.destroy(now);
            }
            Event::Resume => self.resume(now),
            Event::Extend { end } => self.extend(end, now),
            Event::Look => {
                self.state = State::Rest(self.state());
                self.ask_now(Phase::Look(self.state()), now);
            }
        }
        std::mem::take(&mut self.out)
    }

    fn record(&mut self, entry: Entry) {
        self.closed = false;
        self.out.push(Effect::Record(entry));
    }

    fn warn(&mut self, text: String) {
        if !self.warnings.contains(&text) {
            self.record(Entry::Warned { text: text.clone() });
            self.warnings.push(text);
        }
    }

    /// Asks for something at once.
    fn ask_now(&mut self, phase: Phase, now: Time) {
        debug_assert_eq!(phase.at(), self.state(), "only an event leads to another state");
        let Some(call) = self.call(&phase, now) else {
            return self.fail_internal("there is nothing to create", now);
        };
        self.state = State::Asked(phase);
        let key = format!("{}/{}/{}", self.order.id, self.mark, self.state());
        self.out.push(Effect::Call { key, call: Box::new(call) });
    }

    /// Asks for something at a time.
    fn ask_at(&mut self, phase: Phase, at: Time) {
        debug_assert_eq!(phase.at(), self.state(), "only an event leads to another state");
        self.state = State::Waiting(phase, at);
    }

    fn ask_in(&mut self, phase: Phase, now: Time, wait: Duration) {
        self.ask_at(phase, now.plus(wait));
    }

    /// Asks for what is under way.
    fn ask(&mut self, now: Time) {
        match self.state.take() {
            Some(phase) => self.ask_now(phase, now),
            None => self.close(),
        }
    }

    fn slot(&mut self, kind: Kind) -> &mut Slot {
        self.slots.entry(kind).or_default()
    }

    fn is_open(&self, kind: Kind) -> bool {
        self.slots.get(&kind).is_some_and(|slot| slot.open.is_some())
    }

    fn text_id(&self, kind: Kind) -> String {
        self.id_of(kind).unwrap_or_default().to_owned()
    }

    fn call(&self, phase: &Phase, now: Time) -> Option<Call> {
        let id = |kind| self.text_id(kind);
        let key = &self.order.key;
        Some(match phase {
            Phase::Key(KeyCall::Look, _) => Call::Keypair(key.name.clone()),
            Phase::Key(KeyCall::Import, _) => {
                Call::ImportKeypair(key.name.clone(), key.public_key.clone().unwrap_or_default())
            }
            Phase::Require(requirement, _) => self.requirement_call(*requirement),
            Phase::Create(creation) => self.create_call(creation, now)?,
            Phase::Settle(creation) => match creation.kind {
                Kind::Lease => Call::Leases,
                Kind::Server => Call::Servers,
                _ => Call::Addresses,
            },
            Phase::LeasePoll | Phase::ExtendPoll(_) => Call::Lease(id(Kind::Lease)),
            Phase::ServerPoll => Call::Server(id(Kind::Server)),
            Phase::ServerStart => Call::StartServer(id(Kind::Server)),
            Phase::Console(_) | Phase::HostKeys { .. } => Call::Console(id(Kind::Server)),
            Phase::Reach(AddressCall::ListPorts, _) => Call::Ports(id(Kind::Server)),
            Phase::Reach(AddressCall::ListAddresses, _) => Call::Addresses,
            Phase::Reach(AddressCall::Bind, creation) => {
                Call::Bind(id(Kind::Address), creation.ports.get(creation.port).cloned().unwrap_or_default())
            }
            Phase::Reach(AddressCall::Look, _) => Call::Address(id(Kind::Address)),
            Phase::Probe { host_keys, .. } => self.probe_call(host_keys),
            Phase::Joining { .. } => Call::Joined,
            Phase::UndoList(undo) => self.inventory_call(undo.kinds.clone(), undo.devices.clone()),
            Phase::Resume(_) | Phase::Look(_) => self.inventory_call(Kind::ALL.into_iter().collect(), BTreeSet::new()),
            Phase::UndoDelete(_, kind, id) => Call::Delete(*kind, id.clone()),
            Phase::Allocations => Call::Allocations,
            Phase::Extend(extension) => Call::ExtendLease(id(Kind::Lease), extension.end),
        })
    }

    fn answered(&mut self, answer: Answer, now: Time) {
        if let Answer::Failed(error) = &answer
            && error.is_passing()
            && self.last_error.is_none()
        {
            self.last_error = Some((now, error.to_string()));
        }
        let Some(phase) = self.state.take() else { return };
        match (phase, answer) {
            (Phase::Key(call, work), answer) => self.on_key(call, work, answer, now),
            (Phase::Require(requirement, tries), answer) => self.on_requirement(requirement, tries, answer, now),
            (Phase::Create(creation), answer) => self.on_created(creation, answer, now),
            (Phase::Settle(creation), answer) => self.on_settle(creation, answer, now),
            (Phase::LeasePoll, answer) => self.on_lease(answer, now),
            (Phase::ServerPoll | Phase::ServerStart, answer) => self.on_server(answer, now),
            (Phase::Console(event), answer) => self.on_console(event, answer, now),
            (Phase::Reach(call, creation), answer) => self.on_address(call, creation, answer, now),
            (Phase::HostKeys { since }, answer) => self.on_host_keys(since, &answer, now),
            (Phase::Probe { since, host_keys }, answer) => self.on_probe(since, host_keys, answer, now),
            (Phase::Joining { since, event }, Answer::Joined(joined)) => self.on_joined(since, event, joined, now),
            (Phase::UndoList(undo), Answer::Inventory(all)) => self.on_undo_list(undo, &all, now),
            (Phase::UndoList(undo), Answer::Failed(error)) => {
                self.on_undo_list(undo, &Inventory { failed: vec![error], ..Inventory::default() }, now);
            }
            (Phase::UndoDelete(undo, ..), answer) => self.on_undo_delete(undo, &answer, now),
            (Phase::Allocations, answer) => self.on_room(answer, now),
            (Phase::Resume(resumption), answer) => self.on_resume_list(resumption, answer, now),
            (Phase::Look(_), answer) => self.on_look_list(answer, now),
            (Phase::Extend(extension), answer) => self.on_extended(extension, answer, now),
            (Phase::ExtendPoll(extension), answer) => self.on_extend_poll(extension, answer, now),
            _ => self.fail_internal("the answer does not match the request", now),
        }
    }

    fn inventory_call(&self, kinds: BTreeSet<Kind>, devices: BTreeSet<String>) -> Call {
        let kinds: BTreeSet<Kind> = kinds.into_iter().filter(|kind| *kind != Kind::Lease || self.may_lease()).collect();
        let key = self.owned_key().filter(|_| kinds.contains(&Kind::Key));
        Call::Inventory { kinds, devices, key }
    }

    /// Whether a lease can be this deployment's: one that reserves nothing never asks for any, and its cloud may not even have
    /// such a service. Of a lost deployment nobody knows.
    fn may_lease(&self) -> bool {
        let choices = &self.order.choices;
        choices.is_empty() || choices.iter().any(|choice| choice.reserve.is_some())
    }

    /// The keypair, if this deployment made it or may have.
    fn owned_key(&self) -> Option<String> {
        // Of a lost deployment nothing is known but its id, which the name of its key holds.
        let own = self.order.id.marks().key_name();
        if self.order.choices.is_empty() && self.order.key.name == own {
            return Some(own);
        }
        let slot = self.slots.get(&Kind::Key)?;
        (slot.id.is_some() || slot.open.is_some()).then(|| self.order.key.name.clone()).filter(|name| !name.is_empty())
    }
}
