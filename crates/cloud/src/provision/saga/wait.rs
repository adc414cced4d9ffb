//! Waiting for leases and servers, and for capacity. Owns what a poll means; a poll that fails ends no wait, only its deadline
//! does.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use orlop_core::machine::lease::{LeaseState, ReservationState};
use orlop_core::machine::saga::{Event as Turn, SagaState};
use orlop_core::machine::server::ServerStatus;
use orlop_core::time::Time;

use super::undo::Then;
use super::words;
use super::{Answer, Effect, Saga, Todo, effect};
use crate::catalog::window::{Asked, Availability, availability};
use crate::openstack::classify::{Fault, fault};
use crate::openstack::port::{Lease, Server};
use crate::provision::journal::Kind;

/// A new server may be unknown for so long.
const UNSEEN: Duration = Duration::from_secs(60);
/// Between two looks for capacity.
const LOOK: Duration = Duration::from_secs(60);

/// How a lease stands.
pub(super) enum Standing {
    /// It is ready.
    Active,
    /// It is on its way.
    Young,
    /// It will not become ready: why.
    Over(&'static str),
}

pub(super) fn standing(lease: &Lease) -> Standing {
    let reservation = lease.reservations.first();
    let lost = lease.degraded || reservation.is_some_and(|one| one.missing_resources);
    let is_active = reservation.and_then(|one| one.status) == Some(ReservationState::Active);
    match lease.status {
        Some(LeaseState::Error) => Standing::Over("lease failed to start (ERROR)"),
        Some(LeaseState::Terminated | LeaseState::Terminating) => Standing::Over("lease ended"),
        Some(LeaseState::Deleting | LeaseState::Gone) => Standing::Over("lease was deleted"),
        _ if lost => Standing::Over("reservation lost its host"),
        Some(LeaseState::Active) if is_active => Standing::Active,
        _ => Standing::Young,
    }
}

impl Saga {
    /// The end of a wait: its own, or that of everything.
    fn due(&self, own: Time) -> Time {
        self.began.map_or(own, |began| own.min(began.plus(self.order.pace.deadline)))
    }

    pub(super) fn on_lease(&mut self, answer: Answer, now: Time) {
        let submitted = self.submitted.unwrap_or(self.since);
        let start = self.choice().and_then(|choice| choice.start).unwrap_or(submitted);
        let own = submitted.plus(self.order.pace.lease_timeout).max(start.plus(Duration::from_secs(180)));
        let is_due = now >= self.due(own);
        let id = self.text_id(Kind::Lease);
        let late = |status: &str| words::lease_late(&id, status, now.since(submitted).as_secs());
        match answer {
            Answer::Lease(lease) => match standing(&lease) {
                Standing::Active => self.turn(Turn::LeaseActive, now),
                Standing::Over(why) => self.lease_failed(words::lease_failed(why), now),
                Standing::Young if is_due => {
                    let status = lease.status.map_or("unknown", orlop_core::machine::Named::as_str);
                    self.lease_failed(late(status), now);
                }
                Standing::Young => self.turn(Turn::LeasePending, now),
            },
            Answer::Failed(error) if error.is_gone() => {
                self.lease_failed(words::lease_failed("lease is gone"), now);
            }
            Answer::Failed(_) if is_due => self.lease_failed(late("unknown"), now),
            _ => self.turn(Turn::LeasePending, now),
        }
    }

    fn lease_failed(&mut self, failure: super::Failure, now: Time) {
        self.remember("host", effect::CAPACITY, now);
        self.fail(failure, Turn::LeaseFailed, now);
    }

    pub(super) fn host_fault_once(&self) -> bool {
        !self.host_retried && self.failure.as_ref().is_some_and(|failure| failure.code == "server_failed")
    }

    pub(super) fn on_server(&mut self, answer: Answer, now: Time) {
        let submitted = self.submitted.unwrap_or(self.since);
        let is_due = now >= self.due(submitted.plus(self.order.pace.server_timeout));
        match answer {
            Answer::Server(server) => self.server_seen(&server, is_due, now),
            Answer::Failed(error) if error.is_gone() && now.since(submitted) > UNSEEN => {
                self.failure = Some(words::server_failed("it is gone"));
                self.turn(Turn::ServerGone, now);
            }
            _ if is_due => self.server_late(now),
            _ => self.turn(Turn::ServerBuilding, now),
        }
    }

    fn server_late(&mut self, now: Time) {
        self.failure = Some(words::server_late(self.order.pace.server_timeout.as_secs()));
        self.ask_now(Todo::Console(Turn::ServerDeadline), now);
    }

    fn server_seen(&mut self, server: &Server, is_due: bool, now: Time) {
        self.fixed =
            server.addresses.iter().find(|one| !one.floating && one.version == 4).map(|one| one.address.clone());
        match server.status {
            ServerStatus::Active if server.task.is_none() => self.turn(Turn::ServerActive, now),
            ServerStatus::Error => self.server_error(server.fault.as_deref().unwrap_or("no fault is told"), now),
            ServerStatus::Deleted | ServerStatus::SoftDeleted | ServerStatus::NotFound => {
                self.failure = Some(words::server_failed("it was deleted"));
                self.turn(Turn::ServerGone, now);
            }
            ServerStatus::Shutoff | ServerStatus::Paused | ServerStatus::Suspended if !is_due => {
                self.failure = Some(words::server_failed("it is switched off"));
                self.turn(Turn::ServerStopped, now);
            }
            _ if is_due => self.server_late(now),
            _ => self.turn(Turn::ServerBuilding, now),
        }
    }

    fn server_error(&mut self, words_of: &str, now: Time) {
        let mut failure = words::server_failed(words_of);
        match fault(words_of) {
            Fault::Host => {}
            Fault::HostCapacity => {
                failure.code = "capacity".to_owned();
                self.remember("capacity", effect::CAPACITY, now);
            }
            Fault::NetworkCapacity => {
                failure.code = "network_capacity".to_owned();
                self.remember("network", effect::NETWORK, now);
            }
            Fault::Quota => failure = super::Failure { exit: 7, code: "quota".to_owned(), ..failure },
            Fault::Image => failure = super::Failure { exit: 2, code: "image_refused".to_owned(), ..failure },
        }
        self.failure = Some(failure);
        self.ask_now(Todo::Console(Turn::ServerError), now);
    }

    pub(super) fn on_console(&mut self, turn: Turn, answer: Answer, now: Time) {
        if let Answer::Console(Some(text)) = answer {
            self.out.push(Effect::KeepConsole(text));
        }
        if turn == Turn::ServerError && self.host_fault_once() {
            // One new server in the same lease, once the broken one is gone.
            return self.begin_undo(&[Kind::Server, Kind::Port], Then::HostRetry, now);
        }
        if turn == Turn::ServerError && self.host_retried {
            self.remember("host", effect::HOST, now);
        }
        self.turn(turn, now);
    }

    /// The broken server is gone: another one in the same lease.
    pub(super) fn host_retry(&mut self, now: Time) {
        let message = self.failure.as_ref().map(|failure| failure.message.clone()).unwrap_or_default();
        self.warn(format!("{message}; a new server is tried in the same lease"));
        self.mark += 1;
        // The guard reads whether it was done before; it is from here on.
        self.turn(Turn::ServerError, now);
        self.host_retried = true;
        self.failure = None;
    }

    pub(super) fn is_about_capacity(&self) -> bool {
        self.failure.as_ref().is_some_and(|failure| failure.exit == 6)
    }

    pub(super) fn on_allocations(&mut self, answer: Answer, now: Time) {
        debug_assert!(self.state == SagaState::CapacityWait);
        let waited = now.since(self.waiting.unwrap_or(now));
        if waited >= self.order.pace.capacity.unwrap_or_default() {
            return self.turn(Turn::CapacityDeadline, now);
        }
        let Answer::Allocations(allocations) = answer else { return self.ask_in(Todo::Allocations, now, LOOK) };
        let start = Timestamp::from_millisecond(now.millis()).unwrap_or_default();
        let is_free = |choice: &crate::provision::order::Choice| {
            let asked = Asked {
                start,
                hours: choice.hours,
                within: SignedDuration::ZERO,
                margin: SignedDuration::from_mins(5),
            };
            matches!(availability(&choice.hosts, Some(&allocations), &asked), Availability::Free { .. })
        };
        let free = self.order.choices.iter().position(is_free);
        match free {
            Some(index) => {
                if let Some(choice) = self.order.choices.get_mut(index) {
                    choice.start = None;
                }
                self.failed.clear();
                // Its number is given out anew, however often was tried before.
                self.attempt = self.attempt.min(self.order.max_attempts.saturating_sub(1));
                self.choice = (index + self.order.choices.len() - 1) % self.order.choices.len().max(1);
                self.turn(Turn::CapacityFree, now);
            }
            None => self.ask_in(Todo::Allocations, now, LOOK),
        }
    }
}
