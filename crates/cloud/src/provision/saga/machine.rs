//! Turns of the saga's table: which event leads where, under which conditions, and what begins there. Owns the only place where
//! the state changes.

use orlop_core::machine::saga::{Event as Turn, Guard, MACHINE, SagaState};
use orlop_core::time::Time;

use super::state::{Creation, KeyCall, KeyWork, Phase, Requirement, ResumedLease, State, Then};
use super::{Effect, Failure, Saga, Stop};
use crate::exit::Exit;
use crate::provision::journal::{Entry, Kind};
use crate::provision::order::Verify;

impl Saga {
    /// Takes a turn. One that the table does not know is a fault of this program: everything is rolled back.
    pub(super) fn turn(&mut self, turn: Turn, now: Time) {
        let from = self.state();
        let next = match MACHINE.step(from, turn, |guard| self.holds(guard, now)) {
            Ok(next) => next,
            Err(rejected) => {
                self.failure.get_or_insert(Failure::new(Exit::Failed, "internal", rejected.to_string(), "report this"));
                SagaState::RollingBack
            }
        };
        let creation = self.state.creation().cloned();
        self.state = State::Rest(next);
        let observed = (next, self.destroy, self.failure.clone());
        if self.recorded.as_ref() != Some(&observed) {
            let (state, destroy, failure) = observed.clone();
            self.record(Entry::Observed { state, destroy, failure });
            self.recorded = Some(observed);
        }
        self.enter(from, turn, creation, now);
    }

    /// Takes a turn that is decided by, or goes on with, something that is being made.
    pub(super) fn turn_with(&mut self, phase: Phase, turn: Turn, now: Time) {
        self.state = State::Asked(phase);
        self.turn(turn, now);
    }

    pub(super) fn holds(&self, guard: Guard, now: Time) -> bool {
        let creation = |holds: fn(&Creation) -> bool| self.state.creation().is_some_and(holds);
        match guard {
            Guard::ListingsLeft => creation(|one| one.settle.listings_left()),
            Guard::RepeatsLeft => creation(|one| one.settle.repeats_left()),
            Guard::Unreserved => self.choice().is_some_and(|choice| choice.reserve.is_none()),
            Guard::UnreservedLeft => self.is_next_unreserved(now),
            Guard::ImageLeft => self.image == 0 && self.choice().is_some_and(|choice| choice.images.len() > 1),
            Guard::FipWanted => self.order.external.is_some(),
            Guard::HostFaultOnce => self.host_fault_once(),
            Guard::NotStartedYet => !self.started,
            Guard::PortLeft => creation(Creation::port_left),
            Guard::FipAtPort => creation(|one| one.bound),
            Guard::OfferingLeft => self.next_choice(now).is_some(),
            Guard::WaitAsked => self.order.pace.capacity.is_some() && self.is_about_capacity(),
            Guard::DestroyAsked => self.destroy,
            Guard::KeepAsked => self.stop == Some(Stop::Keep),
            Guard::LeaseOpen => self.is_open(Kind::Lease),
            Guard::ServerOpen => self.is_open(Kind::Server),
            Guard::FipOpen => self.is_open(Kind::Address),
            Guard::LeaseGone => matches!(self.state.found(), Some(ResumedLease::LeaseGone(_))),
            Guard::LeaseYoung => self.state.found() == Some(ResumedLease::LeaseYoung),
            Guard::LeaseBare => self.state.found() == Some(ResumedLease::LeaseBare),
            Guard::ServerFound => self.state.found() == Some(ResumedLease::Server),
        }
    }

    /// What begins in the state that was entered, with what was being made before.
    fn enter(&mut self, from: SagaState, turn: Turn, creation: Option<Creation>, now: Time) {
        let made = |kind| creation.filter(|one| one.kind == kind).unwrap_or_else(|| Creation::new(kind, now));
        match self.state() {
            SagaState::Planned => {}
            SagaState::KeyIntent => self.ask_now(Phase::Key(KeyCall::Look, KeyWork::default()), now),
            SagaState::KeyReady => {
                let wants_group = self.order.ssh_from.is_some();
                let first = if wants_group { Requirement::FindGroup } else { Requirement::Recheck };
                self.ask_now(Phase::Require(first, 0), now);
            }
            SagaState::LeaseIntent => self.begin_create(made(Kind::Lease), turn, now),
            SagaState::ServerIntent => self.begin_create(made(Kind::Server), turn, now),
            SagaState::LeaseSettle => self.continue_settle(made(Kind::Lease), turn, now),
            SagaState::ServerSettle => self.continue_settle(made(Kind::Server), turn, now),
            SagaState::FipSettle => self.continue_settle(made(Kind::Address), turn, now),
            SagaState::LeaseWait => self.ask_in(Phase::LeasePoll, now, self.order.pace.lease_poll),
            SagaState::ServerWait if turn == Turn::ServerStopped => {
                self.started = true;
                self.ask_now(Phase::ServerStart, now);
            }
            SagaState::ServerWait => self.ask_in(Phase::ServerPoll, now, self.order.pace.server_poll),
            SagaState::FipIntent => self.continue_address(from, turn, made(Kind::Address), now),
            SagaState::Verifying if self.order.verify == Verify::None => self.turn(Turn::Answered, now),
            SagaState::Verifying => self.ask_now(self.next_look(now, Vec::new()), now),
            SagaState::NextOffering if self.is_last_and_kept(now) => {
                if let Some(failure) = &mut self.failure {
                    failure.message = failure.message.replace("; undone", "; kept").replace(", undone", ", kept");
                }
                self.stop = Some(Stop::Keep);
                self.turn(Turn::Interrupt, now);
            }
            SagaState::NextOffering => {
                self.begin_undo(&[Kind::Server, Kind::Port, Kind::Lease], Then::Turn(Turn::AttemptUndone), now);
            }
            SagaState::CapacityWait => self.begin_waiting(now),
            SagaState::RollingBack => self.begin_undo(&Kind::ALL, Then::Turn(Turn::AllGone), now),
            SagaState::Ready | SagaState::Degraded | SagaState::Unreachable | SagaState::Mismatch => self.watch(now),
            SagaState::Failed | SagaState::Destroyed | SagaState::Expired | SagaState::Leftover | SagaState::Kept => {
                self.close();
            }
        }
    }

    /// Nothing follows for now.
    pub(super) fn close(&mut self) {
        let state = self.state();
        self.state = State::Rest(state);
        // A look that finds all as it was leaves the journal as it was; what is still to be watched for leaves it open.
        if !self.closed && self.watched().is_empty() {
            self.record(Entry::Close { state });
            self.closed = true;
        }
        self.out.push(Effect::End);
    }

    /// Fails, and takes a turn that leads to what is done about it.
    pub(super) fn fail(&mut self, failure: Failure, turn: Turn, now: Time) {
        self.failure = Some(failure);
        let rolls_back = !matches!(turn, Turn::CapacityRefused | Turn::LeaseFailed);
        if rolls_back && self.order.keep_on_failure && self.has_something() && !self.goes_elsewhere(now) {
            self.stop = Some(Stop::Keep);
            return self.turn(Turn::Interrupt, now);
        }
        self.turn(turn, now);
    }

    /// Whether nothing else is tried and what failed is to stay as it is.
    fn is_last_and_kept(&self, now: Time) -> bool {
        let is_last = self.next_choice(now).is_none() && !self.holds(Guard::WaitAsked, now);
        self.order.keep_on_failure && is_last && self.has_something() && !self.goes_elsewhere(now)
    }

    /// Whether another site is tried after this failure, so that nothing of it stays here.
    fn goes_elsewhere(&self, now: Time) -> bool {
        let has_time = now.since(self.began.unwrap_or(now)) < self.order.pace.deadline;
        let may = self.failure.as_ref().is_some_and(|failure| failure.reason().is_of_the_site());
        has_time && may && self.order.elsewhere.is_some_and(|most| self.attempt < most)
    }

    /// Fails at something that leaves all as it is.
    pub(super) fn close_with(&mut self, failure: Failure) {
        self.failure = Some(failure);
        self.close();
    }

    pub(super) fn fail_internal(&mut self, what: &str, now: Time) {
        self.failure = Some(Failure::new(Exit::Failed, "internal", what, "report this"));
        self.turn(Turn::Destroy, now);
    }

    /// Whether anything was made that costs something.
    pub(super) fn has_something(&self) -> bool {
        self.slots.iter().any(|(kind, slot)| *kind != Kind::Key && (slot.id.is_some() || slot.open.is_some()))
    }
}
