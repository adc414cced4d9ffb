//! Waiting for leases and servers, and for capacity. Owns what a poll means; a poll that fails ends no wait, only its deadline
//! does.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use orlop_core::machine::lease::{LeaseState, ReservationState};
use orlop_core::machine::saga::{Event as Turn, SagaState};
use orlop_core::machine::server::ServerStatus;
use orlop_core::time::Time;

use super::state::{Phase, Then};
use super::words;
use super::{Answer, Effect, Here, Saga, effect};
use crate::catalog::window::{Allocation, Availability, WindowRequest, availability};
use crate::exit::Exit;
use crate::openstack::classify::{Fault, fault};
use crate::openstack::port::{Lease, Server};
use crate::provision::journal::Kind;
use crate::provision::order::Choice;

/// A new server may be unknown for so long.
pub(super) const UNSEEN: Duration = Duration::from_secs(60);
/// Between two looks for capacity.
const LOOK: Duration = Duration::from_secs(60);

/// How a lease stands.
pub(super) enum LeaseReadiness {
    /// It is ready.
    Active,
    /// It is on its way.
    Young,
    /// It will not become ready: why.
    Over(&'static str),
}

pub(super) fn readiness(lease: &Lease) -> LeaseReadiness {
    let reservation = lease.reservations.first();
    let lost = lease.degraded || reservation.is_some_and(|one| one.missing_resources);
    let is_active = reservation.and_then(|one| one.status) == Some(ReservationState::Active);
    match lease.status {
        Some(LeaseState::Error) => LeaseReadiness::Over("lease failed to start (ERROR)"),
        Some(LeaseState::Terminated | LeaseState::Terminating) => LeaseReadiness::Over("lease ended"),
        Some(LeaseState::Deleting | LeaseState::Gone) => LeaseReadiness::Over("lease was deleted"),
        _ if lost => LeaseReadiness::Over("reservation lost its host"),
        Some(LeaseState::Active) if is_active => LeaseReadiness::Active,
        _ => LeaseReadiness::Young,
    }
}

impl Saga {
    /// The end of a wait: its own, or that of everything. Nobody is late before the lease starts.
    fn due(&self, own: Time, now: Time) -> Time {
        self.in_time(own, self.lease_start(now))
    }

    /// The same for a wait that begins with a start, or at once.
    fn in_time(&self, own: Time, start: Option<Time>) -> Time {
        let began = self.began.map(|began| start.map_or(began, |start| began.max(start)));
        began.map_or(own, |began| own.min(began.plus(self.order.pace.deadline)))
    }

    /// When the lease starts that was planned for later, in the time of this machine.
    fn lease_start(&self, now: Time) -> Option<Time> {
        let start = self.choice().filter(|choice| choice.reserve.is_some())?.start?;
        let ahead = self.cloud_time(now).millis() - now.millis();
        Some(Time::from_millis(start.millis() - ahead))
    }

    /// When the lease that is waited for starts, if that is later than now.
    #[must_use]
    pub fn starts_at(&self, now: Time) -> Option<Time> {
        let is_waited_for = self.state() == SagaState::LeaseWait;
        self.lease_start(now).filter(|start| is_waited_for && *start > now)
    }

    /// When something was last asked to be made, as far as that is known.
    fn asked_at(&self, now: Time) -> Time {
        self.submitted.or(self.began).unwrap_or(now)
    }

    pub(super) fn on_lease(&mut self, answer: Answer, now: Time) {
        let submitted = self.asked_at(now);
        let start = self.lease_start(now).unwrap_or(submitted);
        let own = submitted.plus(self.order.pace.lease_timeout).max(start.plus(Duration::from_secs(180)));
        let is_due = now >= self.due(own, now);
        let id = self.text_id(Kind::Lease);
        let late = |status: &str| words::lease_late(&id, status, now.since(submitted).as_secs());
        match answer {
            Answer::Lease(lease) => match readiness(&lease) {
                LeaseReadiness::Active => self.turn(Turn::LeaseActive, now),
                LeaseReadiness::Over(why) => self.lease_failed(words::lease_failed(why), now),
                LeaseReadiness::Young if is_due => {
                    let status = lease.status.map_or("unknown", orlop_core::machine::Named::as_str);
                    self.lease_failed(late(status), now);
                }
                LeaseReadiness::Young => self.turn(Turn::LeasePending, now),
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
        let submitted = self.asked_at(now);
        let is_due = now >= self.due(submitted.plus(self.order.pace.server_timeout), now);
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
        let waited = now.since(self.asked_at(now));
        self.failure = Some(words::server_late(waited.as_secs()));
        self.ask_now(Phase::Console(Turn::ServerDeadline), now);
    }

    fn server_seen(&mut self, server: &Server, is_due: bool, now: Time) {
        self.fixed =
            server.addresses.iter().find(|one| !one.floating && one.version == 4).map(|one| one.address.clone());
        match server.status {
            ServerStatus::Active if server.task.is_none() => {
                let inside = self.fixed.clone().unwrap_or_default();
                if self.detail_of(Kind::Server).unwrap_or_default() != inside {
                    self.done(Kind::Server, server.id.clone(), inside, None);
                }
                self.turn(Turn::ServerActive, now);
            }
            ServerStatus::Error => self.server_error(server.fault.as_deref().unwrap_or("no fault is reported"), now),
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
                // What is not leased has no room of its own: that there is none shows here.
                if self.choice().is_some_and(|choice| choice.reserve.is_none()) {
                    failure.exit = Exit::Quota;
                }
                self.remember("capacity", effect::CAPACITY, now);
            }
            Fault::NetworkCapacity => {
                failure.code = "network_capacity".to_owned();
                self.remember("network", effect::NETWORK, now);
            }
            Fault::Quota => failure = super::Failure { exit: Exit::Quota, code: "quota".to_owned(), ..failure },
            Fault::Image => failure = super::Failure { exit: Exit::Usage, code: "image_refused".to_owned(), ..failure },
        }
        self.failure = Some(failure);
        self.ask_now(Phase::Console(Turn::ServerError), now);
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
        let place = if self.id_of(Kind::Lease).is_some() { " in the same lease" } else { "" };
        self.warn(format!("{message}; trying a new server{place}"));
        self.mark += 1;
        // The guard reads whether it was done before; it is from here on.
        self.turn(Turn::ServerError, now);
        self.host_retried = true;
        self.failure = None;
    }

    pub(super) fn is_about_capacity(&self) -> bool {
        self.failure.as_ref().is_some_and(|failure| failure.reason().is_about_capacity())
    }

    /// Nothing that was planned is available: each choice is asked for again only once it was seen to be free.
    pub(super) fn nothing_is_free(&mut self) {
        for choice in &mut self.order.choices {
            choice.taken = true;
        }
    }

    pub(super) fn begin_waiting(&mut self, now: Time) {
        self.nothing_is_free();
        self.waiting.get_or_insert(now);
        // What was refused just now is not asked for again within a minute, whatever the cloud answers.
        let at = self.submitted.map_or(now, |last| last.plus(LOOK)).max(now);
        if at == now { self.ask_now(Phase::Allocations, now) } else { self.ask_at(Phase::Allocations, at) }
    }

    /// Since when capacity is waited for, if it was.
    #[must_use]
    pub fn waiting_since(&self) -> Option<Time> {
        self.waiting
    }

    pub(super) fn on_room(&mut self, answer: Answer, now: Time) {
        let end = self.waiting.unwrap_or(now).plus(self.order.pace.capacity.unwrap_or_default());
        // What is taken starts nowhere yet.
        if now >= self.in_time(end, None) {
            return self.turn(Turn::CapacityDeadline, now);
        }
        let Answer::Capacity(room) = answer else { return self.ask_in(Phase::Allocations, now, LOOK) };
        let there = room.elsewhere;
        self.room = there.free.clone().or_else(|| there.unknown.clone());
        let (free, unknown) = match &room.here {
            Here::Known(allocations) => self.free_choice(Some(allocations), now),
            Here::Hidden => self.free_choice(None, now),
            Here::Failed(_) => (None, None),
        };
        // A host that is free comes before one of which nobody knows, and this site before another.
        match (free, there.free, unknown, there.unknown) {
            (Some(index), ..) | (None, None, Some(index), _) => self.take_free(index, now),
            (None, Some(site), ..) | (None, None, None, Some(site)) => {
                self.failure = Some(words::room_elsewhere(self.choice(), &site));
                self.turn(Turn::CapacityDeadline, now);
            }
            (None, None, None, None) => self.ask_in(Phase::Allocations, now, LOOK),
        }
    }

    /// The first choice with a free host, and the one to try next of those of which nobody knows.
    fn free_choice(&self, allocations: Option<&[Allocation]>, now: Time) -> (Option<usize>, Option<usize>) {
        let start = Timestamp::from_millisecond(self.cloud_time(now).millis()).unwrap_or_default();
        let margin = SignedDuration::try_from(self.order.pace.margin).unwrap_or_default();
        let stand = |choice: &Choice| {
            let asked = WindowRequest { start, hours: choice.hours, within: SignedDuration::ZERO, margin };
            availability(&choice.hosts, allocations, &asked)
        };
        let choices = &self.order.choices;
        let free = choices.iter().position(|choice| matches!(stand(choice), Availability::Free { .. }));
        let mut in_turn = (self.choice + 1..choices.len()).chain(0..=self.choice);
        let unknown = in_turn
            .find(|index| choices.get(*index).is_some_and(|choice| matches!(stand(choice), Availability::Unknown)));
        (free, unknown)
    }

    fn take_free(&mut self, index: usize, now: Time) {
        if let Some(choice) = self.order.choices.get_mut(index) {
            (choice.start, choice.taken) = (None, false);
        }
        self.failed.clear();
        // Where nothing was asked for yet it is still the same attempt; where no number is left, the last one is given out anew.
        let before = if self.submitted.is_none() { self.attempt } else { self.order.max_attempts };
        self.attempt = self.attempt.min(before.saturating_sub(1));
        self.turn(Turn::CapacityFree, now);
    }
}
