//! From a running server to one that answers: floating IP, port, probe. Owns these steps; an address that is not this
//! deployment's is never taken.

use std::time::Duration;

use orlop_core::machine::saga::{Event as Turn, SagaState};
use orlop_core::time::Time;

use super::undo::Then;
use super::words;
use super::{Answer, Call, Login, Probe, Saga, Todo};
use crate::openstack::classify::Meaning;
use crate::openstack::port::{CloudError, FloatingIp};
use crate::provision::hostkey;
use crate::provision::journal::{Entry, Kind};
use crate::provision::order::Verify;

/// How long binding may take.
const BINDING: Duration = Duration::from_secs(60);
/// Between two looks.
const LOOK: Duration = Duration::from_secs(5);
/// How long the machine may be silent.
const SILENCE: Duration = Duration::from_secs(600);
/// How long it may be so without an address from outside.
const INSIDE: Duration = Duration::from_secs(30);
/// How long the machine's worker may take to join its fleet.
const JOINING: Duration = Duration::from_secs(600);
/// Between two probes.
const PROBE: Duration = Duration::from_secs(10);

impl Saga {
    pub(super) fn begin_address(&mut self, turn: Turn, now: Time) {
        match turn {
            // The repeat of a create that nobody saw.
            Turn::NotFound if !self.ports.is_empty() => self.repeat(Kind::Address, now),
            Turn::Found if self.id_of(Kind::Address).is_some() => self.ask_now(Todo::PortList, now),
            _ => {
                self.port = 0;
                self.settle = super::Settle::default();
                self.ask_now(Todo::PortList, now);
            }
        }
    }

    pub(super) fn address_known(&mut self, address: &FloatingIp) {
        self.done(Kind::Address, address.id.clone(), address.address.clone(), None);
        if let Some(at) = address.port.as_ref().and_then(|port| self.ports.iter().position(|known| known == port)) {
            self.port = at;
            self.bound = true;
        } else {
            self.bound = false;
        }
    }

    pub(super) fn address_is_bound(&self) -> bool {
        self.bound
    }

    pub(super) fn address_made(&mut self, address: FloatingIp, now: Time) {
        self.address_known(&address);
        self.turn_keeping(Turn::Created, now);
        self.bind(now);
    }

    /// Binds the address, or sees whether it is bound.
    fn bind(&mut self, now: Time) {
        let todo = if self.bound { Todo::AddressPoll } else { Todo::Bind };
        self.ask_now(todo, now);
    }

    pub(super) fn on_address(&mut self, answer: Answer, now: Time) {
        let is_over = now.since(self.since) > BINDING;
        match (self.todo.clone(), answer) {
            (_, Answer::Ports(ports)) => {
                self.ports = ports.iter().filter(|port| port.ipv4().is_some()).map(|port| port.id.clone()).collect();
                if self.fixed.is_none() {
                    self.fixed = ports.iter().find_map(|port| port.ipv4().map(str::to_owned));
                }
                if self.ports.is_empty() && !is_over {
                    return self.ask_in(Todo::PortList, now, LOOK);
                }
                if self.ports.is_empty() {
                    return self.go_without("the server has no port of IPv4", now);
                }
                self.ask_now(Todo::AddressList, now);
            }
            (_, Answer::Addresses(addresses)) => {
                let marks = self.order.id.marks();
                let mine = addresses.iter().filter(|address| marks.address_attempt(address).is_some());
                match mine.min_by_key(|address| address.created).cloned() {
                    Some(address) => {
                        self.address_known(&address);
                        self.turn_keeping(Turn::Found, now);
                        self.bind(now);
                    }
                    None => self.create_address(now),
                }
            }
            (Todo::Bind, Answer::Address(_)) => {
                self.bound = true;
                self.ask_now(Todo::AddressPoll, now);
            }
            (Todo::AddressPoll, Answer::Address(address)) => {
                let wanted = self.ports.get(self.port);
                match address.port.as_ref() {
                    // An answer to a create may be older than what it made.
                    None if is_over => self.go_without("the floating IP stays unbound", now),
                    port if port == wanted && wanted.is_some() => self.turn(Turn::FipBound, now),
                    _ if is_over => self.go_without("the floating IP stays bound elsewhere", now),
                    None => {
                        self.bound = false;
                        self.ask_in(Todo::Bind, now, LOOK);
                    }
                    _ => self.ask_in(Todo::AddressPoll, now, LOOK),
                }
            }
            (todo, Answer::Failed(error)) => self.address_failed(todo, &error, is_over, now),
            _ => self.fail_internal("an address was asked for, something else came", now),
        }
    }

    fn address_failed(&mut self, todo: Todo, error: &CloudError, is_over: bool, now: Time) {
        match error.meaning {
            Meaning::NextPort | Meaning::Invalid if todo == Todo::Bind => self.port_refused(error, now),
            _ if error.is_passing() && !is_over => self.ask_in(todo, now, LOOK),
            _ if error.is_gone() && self.id_of(Kind::Address).is_some() && !is_over => self.ask_in(todo, now, LOOK),
            _ => self.go_without(&error.to_string(), now),
        }
    }

    /// A port takes no address: the next one, or none.
    fn port_refused(&mut self, error: &CloudError, now: Time) {
        if self.port + 1 < self.ports.len() {
            self.turn_keeping(Turn::PortRefused, now);
            self.port += 1;
            self.bound = false;
            return if self.id_of(Kind::Address).is_some() { self.bind(now) } else { self.create_address(now) };
        }
        let text = error.to_string();
        self.warn_without(&text);
        self.begin_undo(&[Kind::Address], Then::Turn(Turn::PortRefused), now);
    }

    /// The create of an address was refused.
    pub(super) fn address_refused(&mut self, error: &CloudError, now: Time) {
        let mark = self.slot(Kind::Address).open.take().unwrap_or(self.mark);
        self.record(Entry::Failed { object: Kind::Address, mark, why: error.to_string() });
        match error.meaning {
            Meaning::NextPort => self.port_refused(error, now),
            _ => self.go_without(&error.to_string(), now),
        }
    }

    fn warn_without(&mut self, why: &str) {
        let inside = self.fixed.clone().unwrap_or_else(|| "of the server".to_owned());
        let network = self.order.network.1.clone();
        self.warn(format!("no floating IP available ({why}); fixed IP {inside} only reachable inside {network}"));
    }

    /// Goes on without an address from outside; one that was made is removed.
    fn go_without(&mut self, why: &str, now: Time) {
        self.warn_without(why);
        if self.order.verify == Verify::Join {
            self.warn("whether its worker joined was not looked at".to_owned());
        }
        if self.id_of(Kind::Address).is_some() {
            return self.begin_undo(&[Kind::Address], Then::Turn(Turn::FipExhausted), now);
        }
        self.turn(Turn::FipExhausted, now);
    }

    pub(super) fn probe_call(&self) -> Call {
        let outside = self.detail_of(Kind::Address).map(str::to_owned);
        let address = outside.or_else(|| self.fixed.clone()).unwrap_or_default();
        let deep = self.order.verify == Verify::Login;
        let user = self.image().and_then(|image| image.user.clone()).filter(|_| deep);
        let expects = self.choice().and_then(|choice| choice.expects);
        let host_keys = self.host_keys.clone();
        Call::Probe { address, login: user.map(|user| Login { user, expects, host_keys }) }
    }

    pub(super) fn begin_verifying(&mut self, now: Time) {
        self.joining = None;
        self.host_keys.clear();
        self.ask_now(self.next_look(), now);
    }

    /// What is looked at next: before a login the console is read, for the keys that the machine has to show.
    fn next_look(&self) -> Todo {
        let wants_keys = self.order.verify == Verify::Login && self.host_keys.is_empty();
        if wants_keys && self.id_of(Kind::Server).is_some() { Todo::HostKeys } else { Todo::Probe }
    }

    /// A console that cannot be had, or shows no keys yet, holds nothing up.
    pub(super) fn on_host_keys(&mut self, answer: &Answer, now: Time) {
        if let Answer::Console(Some(text)) = answer {
            self.host_keys = hostkey::of_console(text);
        }
        self.ask_now(Todo::Probe, now);
    }

    /// The machine is there; its worker may have to be as well before a turn is taken.
    fn answered_well(&mut self, turn: Turn, now: Time) {
        if self.order.verify != Verify::Join {
            return self.turn(turn, now);
        }
        self.joining = Some((turn, now));
        self.ask_now(Todo::Joining, now);
    }

    pub(super) fn on_joined(&mut self, answer: Answer, now: Time) {
        let (turn, since) = self.joining.unwrap_or((Turn::Answered, now));
        match answer {
            Answer::Joined(Ok(true)) => self.turn(turn, now),
            Answer::Joined(why) if now.since(since) >= JOINING => {
                self.failure = Some(words::not_joined(&self.order.id, why.err().as_deref()));
                self.turn(Turn::VerifyDeadline, now);
            }
            Answer::Joined(_) => self.ask_in(Todo::Joining, now, PROBE),
            _ => self.fail_internal("a worker was asked for, something else came", now),
        }
    }

    pub(super) fn on_probe(&mut self, answer: Answer, now: Time) {
        debug_assert!(self.state == SagaState::Verifying);
        let outside = self.id_of(Kind::Address).is_some();
        let waited = now.since(self.since);
        match answer {
            Answer::Probed(Probe::Answered) => self.answered_well(Turn::Answered, now),
            Answer::Probed(Probe::Stranger(how)) => {
                self.failure = Some(words::stranger(&how));
                self.turn(Turn::HardwareDiffers, now);
            }
            Answer::Probed(Probe::Differs(how)) => {
                self.failure = Some(words::differs(&how));
                self.turn(Turn::HardwareDiffers, now);
            }
            _ if !outside && waited >= INSIDE => {
                let text = "there is no address from outside";
                self.warn_without(text);
                self.answered_well(Turn::NoRoute, now);
            }
            _ if waited >= SILENCE => {
                let address = self.detail_of(Kind::Address).unwrap_or_default().to_owned();
                self.failure = Some(words::unreachable(&address));
                self.turn(Turn::VerifyDeadline, now);
            }
            _ => self.ask_in(self.next_look(), now, PROBE),
        }
    }
}
