//! Taking a deployment up again: from the lines of its journal, and from what the cloud shows. Owns the reading of the journal,
//! which believes only what is written.

use orlop_core::machine::saga::{Event as Turn, SagaState};
use orlop_core::time::Time;

use super::end::LOOK;
use super::state::{Phase, ResumedLease, Resumption, State};
use super::wait::{LeaseReadiness, UNSEEN, readiness};
use super::{Answer, Inventory, Saga, words};
use crate::provision::journal::{Entry, Kind, Line};

/// A saga as its journal tells; nothing if no plan was written, so that nothing was ever asked for.
#[must_use]
pub fn replayed(lines: &[Line]) -> Option<Saga> {
    let order = lines.iter().find_map(|line| match &line.entry {
        Entry::Plan(order) => Some((**order).clone()),
        _ => None,
    })?;
    let mut saga = Saga::new(order, Vec::new());
    for line in lines {
        saga.began.get_or_insert(line.ts);
        saga.born.get_or_insert(line.ts);
        saga.attempt = saga.attempt.max(line.attempt);
        saga.replay(line);
    }
    Some(saga)
}

impl Saga {
    fn replay(&mut self, line: &Line) {
        self.closed = false;
        match &line.entry {
            Entry::Open { .. } | Entry::Plan(_) | Entry::UndoIntent { .. } => {}
            Entry::Close { .. } => {
                self.closed = true;
                // Where a machine is there, it is closed once nothing is watched for any more.
                if !self.watched().is_empty() {
                    self.sweeps.retain(|(kind, _, _)| *kind == Kind::Key);
                }
            }
            Entry::Intent { object, mark, choice, image } => {
                self.mark = self.mark.max(*mark);
                (self.choice, self.image) = (*choice, *image);
                // A key is asked for before the first attempt.
                if !matches!(object, Kind::Key | Kind::Group) {
                    self.submitted = Some(line.ts);
                }
                self.slot(*object).open = Some(*mark);
            }
            Entry::Done { object, id, detail, until } => self.know(*object, id.clone(), detail.clone(), *until),
            Entry::Failed { object, .. } => self.slot(*object).open = None,
            Entry::Observed { state, destroy, failure } => {
                self.state = State::Rest(*state);
                self.destroy |= destroy;
                self.failure.clone_from(failure);
                self.recorded = Some((*state, *destroy, failure.clone()));
            }
            Entry::Warned { text } => self.warnings.push(text.clone()),
            Entry::UndoDone { object, id } => {
                let slot = self.slot(*object);
                if slot.id.as_ref() == Some(id) {
                    *slot = super::Slot::default();
                }
            }
            Entry::Sweep { object, mark } => self.sweeps.push((*object, *mark, line.ts)),
        }
    }

    pub(super) fn resume(&mut self, now: Time) {
        self.began = Some(now);
        self.stop = None;
        self.state = State::Rest(self.state());
        // Whoever died may have been asking.
        self.sweep_open(now);
        match self.state() {
            // The journal tells what was there when it was written.
            SagaState::Ready | SagaState::Degraded => self.look_before_resuming(now),
            SagaState::Leftover | SagaState::RollingBack | SagaState::Unreachable => {
                self.leftovers.clear();
                if self.state() == SagaState::Unreachable {
                    self.failure = None;
                }
                self.turn(Turn::Resume, now);
            }
            state if state.is_final() && state != SagaState::Kept => self.close(),
            state => {
                self.failure = None;
                if state == SagaState::CapacityWait {
                    // Nothing is asked for before it was seen to be free.
                    self.nothing_is_free();
                }
                if [Kind::Lease, Kind::Server, Kind::Address].into_iter().any(|kind| self.is_open(kind)) {
                    return self.turn(Turn::Resume, now);
                }
                self.look_before_resuming(now);
            }
        }
    }

    fn look_before_resuming(&mut self, now: Time) {
        let resumption = Resumption { at: self.state(), tries: 0, found: None };
        self.ask_now(Phase::Resume(resumption), now);
    }

    pub(super) fn on_resume_list(&mut self, mut resumption: Resumption, answer: Answer, now: Time) {
        let Answer::Inventory(all) = answer else { return self.ask_in(Phase::Resume(resumption), now, LOOK) };
        let needed = [Kind::Lease, Kind::Server];
        if needed.into_iter().any(|kind| all.failed_for(kind)) {
            resumption.tries += 1;
            if resumption.tries < 10 {
                return self.ask_in(Phase::Resume(resumption), now, LOOK);
            }
            let error = all.failed.first().cloned();
            self.failure = error.map(|error| words::unavailable(&error, now));
            if self.is_good() {
                return self.close();
            }
            self.stop = Some(super::Stop::Keep);
            return self.turn(Turn::Interrupt, now);
        }
        // What was made just now may not be listed yet.
        if self.is_unlisted(&all) && self.submitted.is_some_and(|at| now.since(at) <= UNSEEN) {
            return self.ask_in(Phase::Resume(resumption), now, LOOK);
        }
        if self.is_good() {
            let turn = if self.has_ended(&all, now) { Turn::LeaseEnded } else { Turn::Resume };
            return self.turn(turn, now);
        }
        resumption.found = self.found(&all);
        self.failure = match resumption.found {
            Some(ResumedLease::LeaseGone(why)) => Some(words::lease_failed(why)),
            _ => None,
        };
        self.turn_with(Phase::Resume(resumption), Turn::Resume, now);
    }

    /// Whether something was made, as the journal says, and is not listed.
    fn is_unlisted(&self, all: &Inventory) -> bool {
        let lease = |id: &str| all.leases.iter().any(|lease| lease.id == id);
        let server = |id: &str| all.servers.iter().any(|server| server.id == id);
        self.id_of(Kind::Lease).is_some_and(|id| !lease(id)) || self.id_of(Kind::Server).is_some_and(|id| !server(id))
    }

    fn found(&self, all: &Inventory) -> Option<ResumedLease> {
        let lease = self.id_of(Kind::Lease);
        let is_leased = self.choice().is_none_or(|choice| choice.reserve.is_some());
        let has_server = self.id_of(Kind::Server).is_some_and(|id| all.servers.iter().any(|server| server.id == id));
        let server = Some(ResumedLease::Server).filter(|_| has_server);
        match lease.and_then(|id| all.leases.iter().find(|lease| lease.id == id)).map(readiness) {
            Some(LeaseReadiness::Active) => server.or(Some(ResumedLease::LeaseBare)),
            Some(LeaseReadiness::Young) => Some(ResumedLease::LeaseYoung),
            Some(LeaseReadiness::Over(why)) => Some(ResumedLease::LeaseGone(why)),
            None if lease.is_some() && is_leased => Some(ResumedLease::LeaseGone("lease is gone")),
            None => server,
        }
    }
}
