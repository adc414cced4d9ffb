//! Taking a deployment up again: from the lines of its journal, and from what the cloud shows. Owns the reading of the journal,
//! which believes only what is written.

use orlop_core::machine::saga::{Event as Turn, MACHINE, SagaState};
use orlop_core::time::Time;

use super::wait::{Standing, standing};
use super::{Answer, Inventory, Saga, Todo, words};
use crate::provision::journal::{Entry, Kind, Line};

/// What the cloud showed of a deployment that is taken up again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) lease_gone: bool,
    pub(super) lease_young: bool,
    pub(super) lease_bare: bool,
    pub(super) server: bool,
}

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
        saga.attempt = saga.attempt.max(line.attempt);
        saga.replay(line);
    }
    Some(saga)
}

impl Saga {
    fn replay(&mut self, line: &Line) {
        match &line.entry {
            Entry::Open { .. } | Entry::Plan(_) | Entry::Close { .. } | Entry::UndoIntent { .. } => {}
            Entry::Intent { object, mark, choice } => {
                self.mark = self.mark.max(*mark);
                self.choice = *choice;
                self.submitted = Some(line.ts);
                self.slot(*object).open = Some(*mark);
            }
            Entry::Done { object, id, detail, until } => {
                if let (Kind::Lease, Some(mark)) = (*object, self.slot(*object).open) {
                    self.lease_mark = mark;
                }
                *self.slot(*object) =
                    super::Slot { id: Some(id.clone()), detail: detail.clone(), until: *until, open: None };
            }
            Entry::Failed { object, .. } => self.slot(*object).open = None,
            Entry::Observed { state, destroy, failure } => {
                self.state = *state;
                self.destroy |= destroy;
                self.failure.clone_from(failure);
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
        self.since = now;
        self.stop = None;
        // Whoever died may have been asking.
        let open: Vec<(Kind, u32)> = self.slots.iter().filter_map(|(kind, slot)| Some((*kind, slot.open?))).collect();
        for (kind, mark) in open {
            self.sweep(kind, mark, now);
        }
        match self.state {
            SagaState::Ready | SagaState::Degraded => self.turn(Turn::Resume, now),
            SagaState::Leftover | SagaState::RollingBack | SagaState::Unreachable => {
                self.leftovers.clear();
                if self.state == SagaState::Unreachable {
                    self.failure = None;
                }
                self.turn(Turn::Resume, now);
            }
            state if MACHINE.is_terminal(state) && state != SagaState::Kept => self.close(),
            _ => {
                self.failure = None;
                let is_open = |kind| self.slots.get(&kind).is_some_and(|slot: &super::Slot| slot.open.is_some());
                if [Kind::Lease, Kind::Server, Kind::Address].into_iter().any(is_open) {
                    self.resuming = Some(Found::default());
                    return self.turn(Turn::Resume, now);
                }
                self.ask_now(Todo::ResumeList, now);
            }
        }
    }

    pub(super) fn on_resume_list(&mut self, answer: Answer, now: Time) {
        let Answer::Inventory(all) = answer else { return self.ask_in(Todo::ResumeList, now, super::end::LOOK) };
        let needed = [Kind::Lease, Kind::Server];
        if needed.into_iter().any(|kind| all.failed_for(kind)) {
            self.tries += 1;
            if self.tries < 10 {
                return self.ask_in(Todo::ResumeList, now, super::end::LOOK);
            }
            let error = all.failed.first().cloned();
            self.stop = Some(super::Stop::Keep);
            self.failure = error.map(|error| words::unavailable(&error, now));
            return self.turn(Turn::Interrupt, now);
        }
        self.resuming = Some(self.found(&all));
        self.turn(Turn::Resume, now);
    }

    fn found(&self, all: &Inventory) -> Found {
        let mut found = Found::default();
        let lease = self.id_of(Kind::Lease);
        let is_leased = self.choice().is_none_or(|choice| choice.reserve.is_some());
        found.server = self.id_of(Kind::Server).is_some_and(|id| all.servers.iter().any(|server| server.id == id));
        match lease.and_then(|id| all.leases.iter().find(|lease| lease.id == id)) {
            Some(lease) => match standing(lease) {
                Standing::Active => found.lease_bare = !found.server,
                Standing::Young => found.lease_young = true,
                Standing::Over(_) => found.lease_gone = true,
            },
            None => found.lease_gone = lease.is_some() && is_leased,
        }
        found
    }
}
