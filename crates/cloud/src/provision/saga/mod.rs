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
    Inventory, Login, Probe, Stop, is_about_capacity, is_of_the_site,
};
pub use resume::replayed;
pub use words::{check_account, clock_is_off, refused};

use super::hostkey::HostKey;
use super::journal::{Entry, Kind};
use super::order::DeploymentOrder;
use undo::Undo;

/// How far the clock of a cloud is ahead as far as it matters, in seconds: up to a minute it does not.
#[must_use]
pub fn clock_offset(ahead: Option<i64>) -> i64 {
    ahead.filter(|seconds| seconds.unsigned_abs() > 60).unwrap_or(0)
}

/// What is being done at the moment.
#[derive(Debug, Clone, PartialEq)]
enum Todo {
    Nothing,
    KeyLook,
    KeyImport,
    GroupLook,
    GroupCreate,
    GroupRule,
    Recheck,
    Create(Kind),
    SettleList(Kind),
    LeasePoll,
    ServerPoll,
    ServerStart,
    Console(Turn),
    PortList,
    AddressList,
    Bind,
    AddressPoll,
    HostKeys,
    Probe,
    Joining,
    UndoList,
    UndoDelete(Kind, String),
    Allocations,
    ResumeList,
    LookList,
    Extend(Time),
    ExtendPoll(Time),
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

/// How a search for something that may have been made goes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Settle {
    began: Option<Time>,
    listings: usize,
    /// Whether nothing was made most likely, so that one empty listing is enough.
    easy: bool,
    repeats: u32,
    easy_repeats: u32,
    /// Creates that failed as those of a service that cannot make its trust.
    distrusted: u32,
}

/// A deployment on its way.
#[derive(Debug, Clone)]
pub struct Saga {
    order: DeploymentOrder,
    state: SagaState,
    todo: Todo,
    wait: Option<Time>,
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
    settle: Settle,
    /// When the present phase began, and how often it was tried.
    since: Time,
    tries: u32,
    submitted: Option<Time>,
    host_retried: bool,
    started: bool,
    ports: Vec<String>,
    port: usize,
    fixed: Option<String>,
    /// Whether the address is bound to one of the ports.
    bound: bool,
    undo: Option<Undo>,
    ahead: i64,
    clock_mended: bool,
    /// Whether a key that was gone was made again.
    key_mended: bool,
    destroy: bool,
    /// Whether nothing is to be made or removed: an interruption has nothing to undo.
    only_looks: bool,
    stop: Option<Stop>,
    /// The machine's host keys, once its console showed them.
    host_keys: Vec<HostKey>,
    /// Since when its worker is waited for, and the turn that follows.
    joining: Option<(Turn, Time)>,
    failure: Option<Failure>,
    warnings: Vec<String>,
    leftovers: Vec<String>,
    failed: Vec<FailedOffering>,
    last_error: Option<(Time, String)>,
    resuming: Option<resume::ObservedResources>,
    /// Since when capacity is waited for.
    waiting: Option<Time>,
    /// The state that the journal has last.
    recorded: Option<(SagaState, bool, Option<Failure>)>,
    /// How it was closed, if nothing was written down since.
    closed: Option<SagaState>,
    out: Vec<Effect>,
}

impl Saga {
    /// A deployment that has not begun. `failed` is what is known not to be had.
    #[must_use]
    pub fn new(order: DeploymentOrder, failed: Vec<FailedOffering>) -> Self {
        let attempt = order.tried.saturating_add(1);
        Self {
            order,
            state: SagaState::Planned,
            todo: Todo::Nothing,
            wait: None,
            began: None,
            born: None,
            mark: 1,
            lease_mark: 1,
            attempt,
            choice: 0,
            image: 0,
            slots: BTreeMap::new(),
            sweeps: Vec::new(),
            settle: Settle::default(),
            since: Time::EPOCH,
            tries: 0,
            submitted: None,
            host_retried: false,
            started: false,
            ports: Vec::new(),
            port: 0,
            fixed: None,
            bound: false,
            undo: None,
            ahead: 0,
            clock_mended: false,
            key_mended: false,
            destroy: false,
            only_looks: false,
            stop: None,
            host_keys: Vec::new(),
            joining: None,
            failure: None,
            warnings: Vec::new(),
            leftovers: Vec::new(),
            failed,
            last_error: None,
            resuming: None,
            waiting: None,
            recorded: None,
            closed: None,
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
                if self.wait.is_none_or(|due| due <= now) {
                    self.ask(now);
                }
            }
            Event::Interrupt(stop) => self.interrupted(stop, now),
            Event::Destroy => self.destroy(now),
            Event::KeepKey => self.keep_key(),
            Event::Resume => self.resume(now),
            Event::Extend { end } => self.extend(end, now),
            Event::Look => {
                self.only_looks = true;
                self.ask_now(Todo::LookList, now);
            }
        }
        std::mem::take(&mut self.out)
    }

    fn record(&mut self, entry: Entry) {
        self.closed = None;
        self.out.push(Effect::Record(entry));
    }

    fn warn(&mut self, text: String) {
        if !self.warnings.contains(&text) {
            self.record(Entry::Warned { text: text.clone() });
            self.warnings.push(text);
        }
    }

    /// Does something at once.
    fn ask_now(&mut self, todo: Todo, now: Time) {
        self.todo = todo;
        self.ask(now);
    }

    /// Does something later.
    fn ask_at(&mut self, todo: Todo, at: Time) {
        self.todo = todo;
        self.wait = Some(at);
    }

    fn ask_in(&mut self, todo: Todo, now: Time, wait: Duration) {
        self.ask_at(todo, now.plus(wait));
    }

    fn slot(&mut self, kind: Kind) -> &mut Slot {
        self.slots.entry(kind).or_default()
    }

    fn text_id(&self, kind: Kind) -> String {
        self.id_of(kind).unwrap_or_default().to_owned()
    }

    /// The call of what is to be done.
    fn ask(&mut self, now: Time) {
        self.wait = None;
        let id = |kind| self.text_id(kind);
        let call = match self.todo.clone() {
            Todo::Nothing => return self.close(),
            Todo::KeyLook => Call::Keypair(self.order.key.name.clone()),
            Todo::KeyImport => {
                Call::ImportKeypair(self.order.key.name.clone(), self.order.key.public_key.clone().unwrap_or_default())
            }
            Todo::GroupLook => Call::Groups,
            Todo::GroupCreate => {
                let marks = self.order.id.marks();
                Call::CreateGroup(marks.group_name(), marks.group())
            }
            Todo::GroupRule => Call::AllowSsh(id(Kind::Group), self.order.ssh_from.clone().unwrap_or_default()),
            Todo::Recheck => self.recheck_call(),
            Todo::Create(kind) => match self.create_call(kind, now) {
                Some(call) => call,
                None => return self.fail_internal("there is nothing to create", now),
            },
            Todo::SettleList(Kind::Lease) => Call::Leases,
            Todo::SettleList(Kind::Server) => Call::Servers,
            Todo::SettleList(_) | Todo::AddressList => Call::Addresses,
            Todo::LeasePoll | Todo::ExtendPoll(_) => Call::Lease(id(Kind::Lease)),
            Todo::ServerPoll => Call::Server(id(Kind::Server)),
            Todo::ServerStart => Call::StartServer(id(Kind::Server)),
            Todo::Console(_) | Todo::HostKeys => Call::Console(id(Kind::Server)),
            Todo::PortList => Call::Ports(id(Kind::Server)),
            Todo::Bind => Call::Bind(id(Kind::Address), self.ports.get(self.port).cloned().unwrap_or_default()),
            Todo::AddressPoll => Call::Address(id(Kind::Address)),
            Todo::Probe => self.probe_call(),
            Todo::Joining => Call::Joined,
            Todo::UndoList | Todo::ResumeList | Todo::LookList => self.inventory_call(),
            Todo::UndoDelete(kind, id) => Call::Delete(kind, id),
            Todo::Allocations => Call::Allocations,
            Todo::Extend(end) => Call::ExtendLease(id(Kind::Lease), end),
        };
        let key = format!("{}/{}/{:?}", self.order.id, self.mark, self.todo);
        self.out.push(Effect::Call { key, call: Box::new(call) });
    }

    fn answered(&mut self, answer: Answer, now: Time) {
        if let Answer::Failed(error) = &answer
            && error.is_passing()
            && self.last_error.is_none()
        {
            self.last_error = Some((now, error.to_string()));
        }
        match self.todo.clone() {
            Todo::Nothing => {}
            Todo::KeyLook | Todo::KeyImport => self.on_key(answer, now),
            Todo::GroupLook | Todo::GroupCreate | Todo::GroupRule => self.on_group(answer, now),
            Todo::Recheck => self.on_recheck(answer, now),
            Todo::Create(kind) => self.on_created(kind, answer, now),
            Todo::SettleList(kind) => self.on_settle(kind, answer, now),
            Todo::LeasePoll => self.on_lease(answer, now),
            Todo::ServerPoll | Todo::ServerStart => self.on_server(answer, now),
            Todo::Console(turn) => self.on_console(turn, answer, now),
            Todo::PortList | Todo::AddressList | Todo::Bind | Todo::AddressPoll => self.on_address(answer, now),
            Todo::HostKeys => self.on_host_keys(&answer, now),
            Todo::Probe => self.on_probe(answer, now),
            Todo::Joining => self.on_joined(answer, now),
            Todo::UndoList => self.on_undo_list(answer, now),
            Todo::UndoDelete(..) => self.on_undo_delete(&answer, now),
            Todo::Allocations => self.on_room(answer, now),
            Todo::ResumeList => self.on_resume_list(answer, now),
            Todo::LookList => self.on_look_list(answer, now),
            Todo::Extend(end) => self.on_extended(end, answer, now),
            Todo::ExtendPoll(end) => self.on_extend_poll(end, answer, now),
        }
    }

    fn inventory_call(&self) -> Call {
        let kinds: BTreeSet<Kind> = match &self.undo {
            Some(undo) => undo.kinds.clone(),
            None => Kind::ALL.into_iter().collect(),
        };
        let kinds: BTreeSet<Kind> = kinds.into_iter().filter(|kind| *kind != Kind::Lease || self.may_lease()).collect();
        let devices = self.undo.as_ref().map(|undo| undo.devices.clone()).unwrap_or_default();
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
