//! Workers come, change and go. Owns the worker table's rows and flags; silence and probation are in `health`.

use std::collections::BTreeSet;
use std::sync::Arc;

use orlop_core::id::WorkerId;
use orlop_core::machine::job::JobState;
use orlop_core::machine::worker::{self, WorkerState};

use super::record::Worker;
use super::{Scheduler, machine};
use crate::effect::{CancelReason, Effect, WorkerReason};
use crate::error::EventError;
use crate::event::{Capabilities, Departure, DrainOrder, Kept};
use crate::fleet::Amounts;
use crate::fleet::dims::SLOTS;
use crate::table::NONE;
use crate::token::WorkerKey;

impl Scheduler {
    /// The live incarnation of a worker id.
    #[must_use]
    pub fn worker_key(&self, id: &WorkerId) -> Option<WorkerKey> {
        self.worker_ids.get(id).map(|worker| self.key_of(*worker))
    }

    pub(super) fn declare(&mut self, id: WorkerId, effects: &mut Vec<Effect>) -> Result<WorkerKey, EventError> {
        // Of ids that are forgotten only the greatest incarnation is known: none may come twice.
        let mut incarnation = self.forgotten.saturating_add(1);
        if let Some(known) = self.worker_ids.get(&id).and_then(|worker| self.workers.get(*worker)) {
            if !known.state.is_terminal() {
                return Err(EventError::DuplicateWorker(id));
            }
            incarnation = known.incarnation.saturating_add(1);
        }
        let record = Worker::new(id.clone(), incarnation, Arc::default(), self.now);
        let number = self.workers.insert(record).ok_or(EventError::Fatal("too many workers"))?;
        self.worker_ids.insert(id, number);
        let (worker, revision, reason) = (self.key_of(number), self.next_revision(), WorkerReason::Plain);
        effects.push(Effect::WorkerChanged { worker, from: None, to: WorkerState::Creating, reason, revision });
        self.arm(number);
        Ok(worker)
    }

    /// The error of an event that a worker's state does not take.
    pub(super) fn not_taken(&self, number: u32, event: worker::Event) -> EventError {
        let Some(worker) = self.workers.get(number) else { return EventError::Fatal("a worker is missing") };
        match worker::MACHINE.choose(worker.state, event, |_| false) {
            Err(rejected) => EventError::Worker { key: self.key_of(number), source: Box::new(rejected) },
            Ok(_) => EventError::Fatal("an event that the table takes was refused"),
        }
    }

    /// The state after an event that depends on no guard but these.
    pub(super) fn worker_step(
        &self,
        number: u32,
        event: worker::Event,
        held: &[worker::Guard],
    ) -> Result<WorkerState, EventError> {
        let state = self.worker(number)?.state;
        machine::worker(state, event, |guard| held.contains(&guard)).ok_or_else(|| self.not_taken(number, event))
    }

    /// A worker enters a state; says so, and follows what the state means for its row and its attempts.
    pub(super) fn move_worker(
        &mut self,
        number: u32,
        to: WorkerState,
        reason: WorkerReason,
        effects: &mut Vec<Effect>,
    ) {
        let (now, revision, key) = (self.now, self.revision + 1, self.key_of(number));
        let Some(worker) = self.workers.get_mut(number) else { return };
        let from = worker.state;
        if from == to {
            return;
        }
        (worker.state, worker.since) = (to, now);
        self.revision = revision;
        if from.is_schedulable() != to.is_schedulable() {
            self.note_fleet();
        }
        effects.push(Effect::WorkerChanged { worker: key, from: Some(from), to, reason, revision });
        self.refresh_open(number);
        if to.is_terminal() {
            self.depart(number, effects);
        } else {
            self.arm(number);
        }
    }

    /// Opens or closes a worker's row by state, cordon and whether its capacity is overdrawn.
    pub(super) fn refresh_open(&mut self, number: u32) {
        let Some(worker) = self.workers.get(number).filter(|worker| worker.place != NONE) else { return };
        let place = worker.place;
        let open = worker.state.is_schedulable()
            && !worker.cordoned
            && worker.drain.is_none()
            && !worker.reserved
            && self.table.is_whole(place);
        self.fleet_moved |= worker.reserved;
        self.note_worker(number);
        if open != self.table.is_open(place) {
            self.fleet_moved = true;
            self.table.set_open(place, open);
            if open {
                self.note_growth(number);
            }
        }
    }

    /// A worker has left for good: its attempts are lost, its row goes.
    fn depart(&mut self, number: u32, effects: &mut Vec<Effect>) {
        self.leaving.remove(&number);
        self.note_fleet();
        for slot in self.attempts_on(number) {
            if !self.must_wait(slot) {
                self.abandon(slot, effects);
            }
        }
        let Some(worker) = self.workers.get_mut(number) else { return };
        let place = std::mem::replace(&mut worker.place, NONE);
        (worker.connected, worker.grew) = (false, false);
        if place != NONE {
            self.table.leave(place);
            self.grew.retain(|grown| *grown != place);
            self.fleet_changed = true;
        }
        if let Some(job) = self.reservations.iter().find(|kept| kept.seat(number).is_some()).map(|kept| kept.job) {
            self.unreserve(job, effects);
        }
        self.arm(number);
        self.gone.push_back(number);
        while self.gone.len() > self.config.workers_kept as usize {
            let Some(oldest) = self.gone.pop_front() else { break };
            if self.workers.get(oldest).is_some_and(|worker| worker.attempts > 0) {
                self.gone.push_back(oldest);
                break;
            }
            if let Some(worker) = self.workers.remove(oldest)
                && self.worker_ids.get(&worker.id) == Some(&oldest)
            {
                self.worker_ids.remove(&worker.id);
                self.forgotten = self.forgotten.max(worker.incarnation);
            }
        }
    }

    pub(super) fn registered(
        &mut self,
        key: WorkerKey,
        capabilities: Arc<Capabilities>,
        effects: &mut Vec<Effect>,
    ) -> Result<(), EventError> {
        let number = self.worker_at(key)?;
        let to = self.worker_step(number, worker::Event::Registered, &[worker::Guard::Valid])?;
        self.know_dims(number, &capabilities)?;
        let now = self.now;
        let worker = self.worker_mut(number)?;
        worker.capabilities = capabilities;
        worker.seen = now;
        self.move_worker(number, to, WorkerReason::Plain, effects);
        Ok(())
    }

    /// The stream is open: capacity counts, and what the worker kept is told from what it lost.
    pub(super) fn connected(
        &mut self,
        key: WorkerKey,
        kept: &[Kept],
        effects: &mut Vec<Effect>,
    ) -> Result<(), EventError> {
        let number = self.worker_at(key)?;
        let state = self.worker(number)?.state;
        let event = if state == WorkerState::Registering { worker::Event::Synced } else { worker::Event::Recovered };
        if event == worker::Event::Recovered && state != WorkerState::Unhealthy {
            return Err(self.not_taken(number, worker::Event::Recovered));
        }
        let now = self.now;
        let worker = self.worker_mut(number)?;
        (worker.connected, worker.seen, worker.reassigned) = (true, now, false);
        if event == worker::Event::Synced {
            let capabilities = Arc::clone(&worker.capabilities);
            self.enter(number, &capabilities)?;
        }
        self.sync(number, kept, effects);
        let worker = self.worker(number)?;
        let probation = worker.bad || worker.probation > now;
        if event == worker::Event::Recovered && probation {
            self.arm(number);
            return Ok(());
        }
        self.recover(number, event, effects)
    }

    /// A worker is schedulable again, or for the first time.
    pub(super) fn recover(
        &mut self,
        number: u32,
        event: worker::Event,
        effects: &mut Vec<Effect>,
    ) -> Result<(), EventError> {
        let worker = self.worker(number)?;
        let mut held = Vec::new();
        held.extend(worker.drain.map(|_| worker::Guard::DrainPending));
        held.extend((worker.attempts > 0).then_some(worker::Guard::AttemptsKept));
        let to = self.worker_step(number, event, &held)?;
        self.move_worker(number, to, WorkerReason::Plain, effects);
        self.note_growth(number);
        let late = |order: DrainOrder| order.deadline.is_some_and(|deadline| deadline <= self.now);
        if to == WorkerState::Draining && self.worker(number)?.drain.is_some_and(late) {
            // The deadline came while it was out of reach.
            self.drain_deadline(number, effects);
        }
        self.empty_drain(number, effects);
        Ok(())
    }

    /// Puts a worker's capacity into the table.
    pub(super) fn enter(&mut self, number: u32, capabilities: &Capabilities) -> Result<(), EventError> {
        let (kind, total) = self.shape(number, capabilities)?;
        let place = self.table.enter(number, kind, &total);
        self.worker_mut(number)?.place = place;
        self.fleet_changed = true;
        self.note_fleet();
        Ok(())
    }

    /// Capacity by what a worker offers; makes new dimensions known, in place of those that nobody needs any more if they are many.
    fn know_dims(&mut self, number: u32, offer: &Capabilities) -> Result<Amounts, EventError> {
        let spare = if self.dims.is_short(offer) { self.spare_dims(number) } else { Vec::new() };
        let total = self.dims.capacity(offer, &spare);
        let (total, new) = match total {
            Ok(known) => known,
            Err(name) => return Err(EventError::Dimensions { worker: self.worker(number)?.id.clone(), name }),
        };
        self.table.widen(self.dims.len());
        self.table.set_units(self.dims.units());
        if new || self.table_dims != self.dims.len() {
            self.classes.widen(&self.dims, &mut self.requests);
            self.table_dims = self.dims.len();
            self.note_fleet();
            self.forget_heads();
            // Limits may allow a kind of device that is new, and did not allow those before.
            for tenant in (0..self.tenants.len()).filter_map(|tenant| u32::try_from(tenant).ok()) {
                self.limits_changed(tenant);
                self.note_relief(tenant);
            }
        }
        Ok(total)
    }

    /// Dimensions that no worker but one that changes offers, nor any attempt holds. Cost: linear in workers and attempts.
    pub(super) fn spare_dims(&self, but: u32) -> Vec<usize> {
        let mut used: BTreeSet<usize> = BTreeSet::new();
        for (_, worker) in self.workers.iter().filter(|(number, worker)| *number != but && !worker.state.is_terminal())
        {
            used.extend(self.dims.known(&worker.capabilities));
        }
        let held = self.attempts.iter().map(|(_, attempt)| attempt.request);
        let kept = self.reservations.iter().flat_map(|kept| &kept.seats).map(|seat| seat.request);
        for request in held.chain(kept).collect::<BTreeSet<u32>>() {
            let need = self.requests.get(request).map_or(&[][..], |request| &request.need);
            used.extend(need.iter().map(|(dim, _)| usize::from(*dim)));
        }
        (SLOTS + 1..self.dims.len()).filter(|dim| !used.contains(dim)).collect()
    }

    /// Kind and capacity by what a worker offers; makes new kinds and dimensions known.
    fn shape(&mut self, number: u32, offer: &Capabilities) -> Result<(u32, Amounts), EventError> {
        let total = self.know_dims(number, offer)?;
        self.name_tenants(&offer.tenants);
        let (kind, new) = self.kinds.intern(offer);
        if new && let Some(shape) = self.kinds.get(kind) {
            self.classes.add_kind(kind, shape);
            self.like_kind(kind);
        }
        Ok((kind, total))
    }

    pub(super) fn updated(
        &mut self,
        key: WorkerKey,
        capabilities: Arc<Capabilities>,
        effects: &mut Vec<Effect>,
    ) -> Result<(), EventError> {
        let number = self.worker_at(key)?;
        if self.worker(number)?.state.is_terminal() {
            return Err(EventError::UnknownWorker(key));
        }
        let place = self.worker(number)?.place;
        if place != NONE {
            let (kind, total) = self.shape(number, &capabilities)?;
            self.table.resize(place, kind, &total);
            self.fleet_changed = true;
            self.note_fleet();
            self.refresh_open(number);
            self.note_growth(number);
            if !self.table.is_whole(place) {
                self.revoke_waiting(number, effects);
            }
        }
        let now = self.now;
        let worker = self.worker_mut(number)?;
        (worker.capabilities, worker.seen) = (capabilities, now);
        Ok(())
    }

    pub(super) fn cordon(&mut self, key: WorkerKey, cordoned: bool) -> Result<(), EventError> {
        let number = self.worker_at(key)?;
        let worker = self.worker_mut(number)?;
        if worker.state.is_terminal() {
            return Err(EventError::UnknownWorker(key));
        }
        worker.cordoned = cordoned;
        self.note_fleet();
        self.refresh_open(number);
        Ok(())
    }

    pub(super) fn drain(
        &mut self,
        key: WorkerKey,
        order: DrainOrder,
        effects: &mut Vec<Effect>,
    ) -> Result<(), EventError> {
        let number = self.worker_at(key)?;
        let state = self.worker(number)?.state;
        let pending = matches!(state, WorkerState::Draining | WorkerState::Unhealthy);
        if !pending {
            self.worker_step(number, worker::Event::DrainRequested, &[])?;
        }
        let worker = self.worker_mut(number)?;
        let shutdown = order.host_shutdown || worker.drain.is_some_and(|known| known.host_shutdown);
        worker.drain = Some(DrainOrder { host_shutdown: shutdown, ..order });
        self.leaving.insert(number);
        self.note_fleet();
        if !pending {
            let to = self.worker_step(number, worker::Event::DrainRequested, &[])?;
            self.move_worker(number, to, WorkerReason::Drained, effects);
            self.revoke_waiting(number, effects);
            self.empty_drain(number, effects);
        }
        self.arm(number);
        Ok(())
    }

    /// A draining worker with nothing left goes.
    pub(super) fn empty_drain(&mut self, number: u32, effects: &mut Vec<Effect>) {
        let Some(worker) = self.workers.get(number) else { return };
        if worker.state == WorkerState::Draining && worker.attempts == 0 {
            self.move_worker(number, WorkerState::Terminated, WorkerReason::Drained, effects);
        }
        if self.workers.get(number).is_some_and(|worker| worker.state == WorkerState::Terminated) {
            effects.push(Effect::Shutdown { worker: self.key_of(number) });
        }
    }

    pub(super) fn undrain(&mut self, key: WorkerKey, effects: &mut Vec<Effect>) -> Result<(), EventError> {
        let number = self.worker_at(key)?;
        let worker = self.worker(number)?;
        let shutdown = worker.drain.is_some_and(|order| order.host_shutdown);
        if worker.state == WorkerState::Draining {
            let guard = if worker.attempts > 0 { worker::Guard::StaysWithWork } else { worker::Guard::StaysIdle };
            let held: &[worker::Guard] = if shutdown { &[] } else { &[guard] };
            let to = self.worker_step(number, worker::Event::DrainWithdrawn, held)?;
            self.worker_mut(number)?.drain = None;
            self.leaving.remove(&number);
            self.note_fleet();
            self.move_worker(number, to, WorkerReason::Plain, effects);
            return Ok(());
        }
        if worker.drain.is_none() || shutdown {
            return Err(self.not_taken(number, worker::Event::DrainWithdrawn));
        }
        self.worker_mut(number)?.drain = None;
        self.leaving.remove(&number);
        self.note_fleet();
        self.refresh_open(number);
        Ok(())
    }

    pub(super) fn remove(
        &mut self,
        key: WorkerKey,
        why: Departure,
        effects: &mut Vec<Effect>,
    ) -> Result<(), EventError> {
        let number = self.worker_at(key)?;
        let state = self.worker(number)?.state;
        let (event, reason) = match why {
            Departure::Goodbye => (worker::Event::Goodbye, WorkerReason::Gone),
            Departure::Removed => (worker::Event::Removed, WorkerReason::Gone),
            Departure::Refused if state == WorkerState::Creating => {
                (worker::Event::ProvisionFailed, WorkerReason::Refused)
            }
            Departure::Refused => (worker::Event::Refused, WorkerReason::Refused),
            Departure::Superseded => (worker::Event::Superseded, WorkerReason::Superseded),
        };
        let guard = if self.worker(number)?.connected { worker::Guard::Connected } else { worker::Guard::NotConnected };
        let to = self.worker_step(number, event, &[guard])?;
        self.move_worker(number, to, reason, effects);
        Ok(())
    }

    /// A drain deadline: what is left is cancelled with grace.
    pub(super) fn drain_deadline(&mut self, number: u32, effects: &mut Vec<Effect>) {
        for slot in self.attempts_on(number) {
            let Some(attempt) = self.attempts.get(slot).filter(|attempt| attempt.ending.is_none()) else { continue };
            if self.life(attempt.task).is_some_and(|life| life.live == slot && life.state != JobState::Cancelling) {
                self.tell_to_end(slot, CancelReason::Drain, effects);
            }
        }
    }
}
