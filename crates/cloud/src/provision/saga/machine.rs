//! Turns of the saga's table: which event leads where, under which conditions, and what begins there. Owns the only place where
//! the state changes.

use orlop_core::machine::saga::{Event as Turn, Guard, MACHINE, SagaState};
use orlop_core::time::Time;

use super::undo::Then;
use super::{Effect, Failure, Saga, Settle, Stop, Todo, effect};
use crate::exit::Exit;
use crate::provision::journal::{Entry, Kind};
use crate::provision::order::Verify;

/// Times that a create is repeated after it was looked for in vain.
pub(super) const REPEATS: u32 = 2;
/// The same, where nothing was made most likely.
pub(super) const EASY_REPEATS: u32 = 3;

impl Saga {
    /// Takes a turn. One that the table does not know is a fault of this program: everything is rolled back.
    pub(super) fn turn(&mut self, turn: Turn, now: Time) {
        let next = match MACHINE.step(self.state, turn, |guard| self.holds(guard, now)) {
            Ok(next) => next,
            Err(rejected) => {
                self.failure.get_or_insert(Failure::new(Exit::Failed, "internal", rejected.to_string(), "report this"));
                SagaState::RollingBack
            }
        };
        self.state = next;
        let observed = (next, self.destroy, self.failure.clone());
        if self.recorded.as_ref() != Some(&observed) {
            let (state, destroy, failure) = observed.clone();
            self.record(Entry::Observed { state, destroy, failure });
            self.recorded = Some(observed);
        }
        self.wait = None;
        self.todo = Todo::Nothing;
        self.enter(turn, now);
    }

    pub(super) fn holds(&self, guard: Guard, now: Time) -> bool {
        let open = |kind| self.slots.get(&kind).is_some_and(|slot| slot.open.is_some());
        match guard {
            Guard::ListingsLeft => self.listings_left(),
            Guard::RepeatsLeft if self.settle.easy => self.settle.easy_repeats < EASY_REPEATS,
            Guard::RepeatsLeft => self.settle.repeats < REPEATS,
            Guard::Unreserved => self.choice().is_some_and(|choice| choice.reserve.is_none()),
            Guard::UnreservedLeft => self.is_next_unreserved(now),
            Guard::ImageLeft => self.image == 0 && self.choice().is_some_and(|choice| choice.images.len() > 1),
            Guard::FipWanted => self.order.external.is_some(),
            Guard::HostFaultOnce => self.host_fault_once(),
            Guard::NotStartedYet => !self.started,
            Guard::PortLeft => self.port + 1 < self.ports.len(),
            Guard::FipAtPort => self.address_is_bound(),
            Guard::OfferingLeft => self.next_choice(now).is_some(),
            Guard::WaitAsked => self.order.pace.capacity.is_some() && self.is_about_capacity(),
            Guard::DestroyAsked => self.destroy,
            Guard::KeepAsked => self.stop == Some(Stop::Keep),
            Guard::LeaseOpen => open(Kind::Lease),
            Guard::ServerOpen => open(Kind::Server),
            Guard::FipOpen => open(Kind::Address),
            Guard::LeaseGone => self.resuming.as_ref().is_some_and(|found| found.lease_gone),
            Guard::LeaseYoung => self.resuming.as_ref().is_some_and(|found| found.lease_young),
            Guard::LeaseBare => self.resuming.as_ref().is_some_and(|found| found.lease_bare),
            Guard::ServerFound => self.resuming.as_ref().is_some_and(|found| found.server),
        }
    }

    /// What begins in the state that was entered.
    fn enter(&mut self, turn: Turn, now: Time) {
        let is_new = !matches!(turn, Turn::LeasePending | Turn::ServerBuilding | Turn::NotFound);
        if is_new {
            self.since = now;
            self.tries = 0;
        }
        match self.state {
            SagaState::Planned => {}
            SagaState::KeyIntent => self.ask_now(Todo::KeyLook, now),
            SagaState::KeyReady => self.begin_ready(now),
            SagaState::LeaseIntent => self.begin_lease(turn, now),
            SagaState::LeaseSettle => self.continue_settle(Kind::Lease, turn, now),
            SagaState::ServerSettle => self.continue_settle(Kind::Server, turn, now),
            SagaState::FipSettle => self.continue_settle(Kind::Address, turn, now),
            SagaState::LeaseWait => self.ask_in(Todo::LeasePoll, now, self.order.pace.lease_poll),
            SagaState::ServerIntent => self.begin_server(turn, now),
            SagaState::ServerWait if turn == Turn::ServerStopped => {
                self.started = true;
                self.ask_now(Todo::ServerStart, now);
            }
            SagaState::ServerWait => self.ask_in(Todo::ServerPoll, now, self.order.pace.server_poll),
            SagaState::FipIntent => self.begin_address(turn, now),
            SagaState::Verifying if self.order.verify == Verify::None => self.turn(Turn::Answered, now),
            SagaState::Verifying => self.begin_verifying(now),
            SagaState::NextOffering if self.is_last_and_kept(now) => {
                if let Some(failure) = &mut self.failure {
                    failure.message = failure.message.replace("; undone", "; kept").replace(", undone", ", kept");
                }
                self.stop = Some(Stop::Keep);
                self.turn(Turn::Interrupt, now);
            }
            SagaState::NextOffering => {
                self.settle = Settle::default();
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
        self.todo = Todo::Nothing;
        self.wait = None;
        // A look that finds all as it was leaves the journal as it was; what is still to be watched for leaves it open.
        if self.closed != Some(self.state) && self.watched().is_empty() {
            self.record(Entry::Close { state: self.state });
            self.closed = Some(self.state);
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
        let may = self
            .failure
            .as_ref()
            .is_some_and(|failure| effect::is_of_the_site(failure.exit, failure.class(), &failure.code));
        has_time && may && self.order.elsewhere.is_some_and(|most| self.attempt < most)
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
