//! From a running server to one that answers: floating IP, port, probe. Owns these steps; an address that is not this
//! deployment's is never taken.

use std::time::Duration;

use orlop_core::machine::saga::{Event as Turn, SagaState};
use orlop_core::time::Time;

use super::state::{AddressCall, Creation, Phase, Then};
use super::words;
use super::{Answer, Call, Login, Probe, Saga};
use crate::openstack::classify::Meaning;
use crate::openstack::port::{CloudError, FloatingIp};
use crate::provision::hostkey::{self, HostKey};
use crate::provision::journal::Kind;
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
    /// Goes on with the address from where an event led.
    pub(super) fn continue_address(&mut self, from: SagaState, turn: Turn, mut creation: Creation, now: Time) {
        match (turn, from) {
            (Turn::Found | Turn::Created, SagaState::FipIntent) => self.bind(creation, now),
            (Turn::PortRefused, _) => {
                (creation.port, creation.bound) = (creation.port + 1, false);
                let is_there = self.id_of(Kind::Address).is_some();
                if is_there { self.bind(creation, now) } else { self.intend(creation, now) }
            }
            // The repeat of a create that nobody saw.
            (Turn::NotFound, _) if !creation.ports.is_empty() => self.repeat(creation, now),
            (Turn::NotFound, _) => {
                self.ask_now(Phase::Reach(AddressCall::ListPorts, Creation::new(Kind::Address, creation.since)), now);
            }
            _ => self.ask_now(Phase::Reach(AddressCall::ListPorts, Creation { since: now, ..creation }), now),
        }
    }

    pub(super) fn address_known(&mut self, creation: &mut Creation, address: &FloatingIp) {
        self.done(Kind::Address, address.id.clone(), address.address.clone(), None);
        let at = address.port.as_ref().and_then(|port| creation.ports.iter().position(|known| known == port));
        creation.port = at.unwrap_or(creation.port);
        creation.bound = at.is_some();
    }

    /// Binds the address, or sees whether it is bound.
    fn bind(&mut self, creation: Creation, now: Time) {
        let call = if creation.bound { AddressCall::Look } else { AddressCall::Bind };
        self.ask_now(Phase::Reach(call, creation), now);
    }

    pub(super) fn on_address(&mut self, call: AddressCall, mut creation: Creation, answer: Answer, now: Time) {
        let is_over = now.since(creation.since) > BINDING;
        match (call, answer) {
            (AddressCall::ListPorts, Answer::Ports(ports)) => {
                let usable = ports.iter().filter(|port| port.ipv4().is_some());
                creation.ports = usable.map(|port| port.id.clone()).collect();
                self.fixed = self.fixed.take().or_else(|| ports.iter().find_map(|port| port.ipv4().map(str::to_owned)));
                match creation.ports.is_empty() {
                    true if is_over => self.go_without("the server has no port of IPv4", now),
                    true => self.ask_in(Phase::Reach(call, creation), now, LOOK),
                    false => self.ask_now(Phase::Reach(AddressCall::ListAddresses, creation), now),
                }
            }
            (AddressCall::ListAddresses, Answer::Addresses(addresses)) => {
                let marks = self.order.id.marks();
                let mine = addresses.into_iter().filter(|address| marks.address_attempt(address).is_some());
                match mine.min_by_key(|address| address.created) {
                    Some(address) => {
                        self.address_known(&mut creation, &address);
                        self.turn_with(Phase::Reach(call, creation), Turn::Found, now);
                    }
                    None => self.intend(creation, now),
                }
            }
            (AddressCall::Bind, Answer::Address(_)) => {
                creation.bound = true;
                self.ask_now(Phase::Reach(AddressCall::Look, creation), now);
            }
            (AddressCall::Look, Answer::Address(address)) => match address.port.as_ref() {
                // An answer to a create may be older than what it made.
                None if is_over => self.go_without("the floating IP stays unbound", now),
                port if port.is_some() && port == creation.ports.get(creation.port) => self.turn(Turn::FipBound, now),
                _ if is_over => self.go_without("the floating IP stays bound elsewhere", now),
                None => {
                    creation.bound = false;
                    self.ask_in(Phase::Reach(AddressCall::Bind, creation), now, LOOK);
                }
                Some(_) => self.ask_in(Phase::Reach(call, creation), now, LOOK),
            },
            (AddressCall::Bind, Answer::Failed(error))
                if matches!(error.meaning, Meaning::NextPort | Meaning::Invalid) =>
            {
                self.port_refused(creation, &error, now);
            }
            (_, Answer::Failed(error)) => {
                let may_pass = error.is_passing() || error.is_gone() && self.id_of(Kind::Address).is_some();
                if may_pass && !is_over {
                    return self.ask_in(Phase::Reach(call, creation), now, LOOK);
                }
                self.go_without(&error.to_string(), now);
            }
            _ => self.fail_internal("an address was requested, another answer came", now),
        }
    }

    /// A port takes no address: the next one, or none.
    pub(super) fn port_refused(&mut self, creation: Creation, error: &CloudError, now: Time) {
        if creation.port_left() {
            return self.turn_with(Phase::Reach(AddressCall::Bind, creation), Turn::PortRefused, now);
        }
        self.warn_without(&error.to_string());
        self.begin_undo(&[Kind::Address], Then::Turn(Turn::PortRefused), now);
    }

    fn warn_without(&mut self, why: &str) {
        let inside = self.fixed.clone().unwrap_or_else(|| "of the server".to_owned());
        let network = self.order.network.1.clone();
        self.warn(format!("no floating IP available ({why}); fixed IP {inside} only reachable inside {network}"));
    }

    /// Goes on without an address from outside; one that was made is removed.
    pub(super) fn go_without(&mut self, why: &str, now: Time) {
        self.warn_without(why);
        if self.order.verify == Verify::Join {
            self.warn("whether its worker joined was not looked at".to_owned());
        }
        if self.id_of(Kind::Address).is_some() {
            return self.begin_undo(&[Kind::Address], Then::Turn(Turn::FipExhausted), now);
        }
        self.turn(Turn::FipExhausted, now);
    }

    pub(super) fn probe_call(&self, host_keys: &[HostKey]) -> Call {
        let outside = self.detail_of(Kind::Address).map(str::to_owned);
        let address = outside.or_else(|| self.fixed.clone()).unwrap_or_default();
        let deep = self.order.verify == Verify::Login;
        let user = self.image().and_then(|image| image.user.clone()).filter(|_| deep);
        let expects = self.choice().and_then(|choice| choice.expects);
        let host_keys = host_keys.to_vec();
        Call::Probe { address, login: user.map(|user| Login { user, expects, host_keys }) }
    }

    /// What is looked at next: before a login the console is read, for the keys that the machine has to show.
    pub(super) fn next_look(&self, since: Time, host_keys: Vec<HostKey>) -> Phase {
        let wants_keys = self.order.verify == Verify::Login && host_keys.is_empty();
        if wants_keys && self.id_of(Kind::Server).is_some() {
            Phase::HostKeys { since }
        } else {
            Phase::Probe { since, host_keys }
        }
    }

    /// A console that is not available, or shows no keys yet, holds nothing up.
    pub(super) fn on_host_keys(&mut self, since: Time, answer: &Answer, now: Time) {
        let host_keys = match answer {
            Answer::Console(Some(text)) => hostkey::of_console(text),
            _ => Vec::new(),
        };
        self.ask_now(Phase::Probe { since, host_keys }, now);
    }

    /// The machine is there; its worker may have to be as well before a turn is taken.
    fn answered_well(&mut self, turn: Turn, now: Time) {
        if self.order.verify != Verify::Join {
            return self.turn(turn, now);
        }
        self.ask_now(Phase::Joining { since: now, event: turn }, now);
    }

    pub(super) fn on_joined(&mut self, since: Time, event: Turn, joined: Result<bool, String>, now: Time) {
        match joined {
            Ok(true) => self.turn(event, now),
            why if now.since(since) >= JOINING => {
                self.failure = Some(words::not_joined(&self.order.id, why.err().as_deref()));
                self.turn(Turn::VerifyDeadline, now);
            }
            _ => self.ask_in(Phase::Joining { since, event }, now, PROBE),
        }
    }

    pub(super) fn on_probe(&mut self, since: Time, host_keys: Vec<HostKey>, answer: Answer, now: Time) {
        let outside = self.id_of(Kind::Address).is_some();
        let waited = now.since(since);
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
            _ => self.ask_in(self.next_look(since, host_keys), now, PROBE),
        }
    }
}
