//! Placements beside the order of rounds: on the worker that an operator names, and of urgent jobs on workers
//! that drain. Owns these two; filters and limits hold for them as for every placement.

use orlop_core::id::JobId;
use orlop_core::machine::job::JobState;
use orlop_core::machine::worker::{self, WorkerState};

use super::assign::Target;
use super::explanation::Misfit;
use super::heads::Head;
use super::record::Task;
use super::round::RoundStats;
use super::{Scheduler, machine};
use crate::effect::{Effect, WorkerReason};
use crate::error::{EventError, NotAssigned};
use crate::table::NONE;
use crate::token::WorkerKey;

impl Scheduler {
    /// Places a queued job, of an array its next element, on a worker, past policy and order.
    pub(super) fn assign_job(
        &mut self,
        id: JobId,
        key: WorkerKey,
        effects: &mut Vec<Effect>,
    ) -> Result<(), EventError> {
        let (slot, number) = (self.job_slot(id)?, self.worker_at(key)?);
        let request = self.may_assign(slot, number).map_err(|why| EventError::NotAssigned {
            job: id,
            worker: key,
            why: Box::new(why),
        })?;
        let task = match self.array_mut(slot) {
            None => Task::whole(slot),
            Some(array) => {
                let index = array.ready.pop_first().ok_or(EventError::Fatal("an array has no element to place"))?;
                array.active.entry(index).or_insert_with(|| super::record::Life::new(JobState::Queued));
                Task { job: slot, index }
            }
        };
        let over = self
            .array_mut(slot)
            .is_none_or(|array| array.ready.len() == 0 || array.running.saturating_add(1) >= array.max_parallel);
        self.leave_quota_reservations(slot);
        if over {
            self.dequeue(slot);
        }
        self.note_queue_of(slot);
        self.put(task, Target { worker: number, request, tenant: self.tenant_of(slot) }, effects);
        Ok(())
    }

    /// The request vector by which a worker takes a job, or why it does not.
    fn may_assign(&self, slot: u32, number: u32) -> Result<u32, NotAssigned> {
        let job = self.jobs.get(slot).ok_or(NotAssigned::Limits)?;
        if job.life.state != JobState::Queued {
            return Err(NotAssigned::State(job.life.state));
        }
        if self.is_gang(slot) {
            return Err(NotAssigned::Gang);
        }
        let held = job.array == NONE && self.is_held_back(Task::whole(slot));
        if !job.queued && !held {
            return Err(NotAssigned::Window);
        }
        let tenant = self.tenant_of(slot);
        if self.tenants.get(tenant as usize).is_none_or(|tenant| !tenant.runs()) {
            return Err(NotAssigned::Paused);
        }
        let (class, worker) = (self.classes.get(self.class_of(slot)), self.workers.get(number));
        let (Some(class), Some(worker)) = (class, worker) else { return Err(NotAssigned::Limits) };
        let mut fit = self.fit_of(number, worker, class);
        if fit.misfit.is_none() && self.shunned(self.peek(slot)) == number {
            fit.misfit = Some(Misfit::Avoided);
        }
        if let Some(misfit) = fit.misfit {
            return Err(NotAssigned::Worker { misfit, lacking: fit.lacking });
        }
        // Whom the tenant reserves for is a matter of order, which operators may pass.
        self.hosted(tenant, &[], &class.requests, worker.place).ok_or(NotAssigned::Limits)
    }

    /// The first request vector that the tenant's limits allow beside what is reserved of them and a place has room for.
    fn hosted(&self, tenant: u32, reserved: &[u64], requests: &[u32], place: u32) -> Option<u32> {
        let mut allowed = Vec::new();
        self.room_beside(tenant, reserved, requests, 1, &mut allowed);
        let hosts =
            |number: &u32| self.requests.get(*number).is_some_and(|request| self.table.hosts(place, &request.need) > 0);
        allowed.into_iter().find(hosts)
    }

    /// Charges and sends an attempt of a task that has left its queue.
    fn put(&mut self, task: Task, target: Target, effects: &mut Vec<Effect>) {
        let place = self.workers.get(target.worker).map_or(NONE, |worker| worker.place);
        let band = self.spec_of(task.job).map_or(0, |spec| spec.priority.band().index());
        if let Some(request) = self.requests.get(target.request) {
            let share = request.share(&self.table);
            self.table.charge(place, &request.need, 1);
            if let Some(tenant) = self.tenants.get_mut(target.tenant as usize) {
                tenant.charge(request, 1);
            }
            self.charge_band(band, share);
        }
        if !self.assign(task, &[target], effects) {
            self.give_up(task, effects);
        }
        self.weigh_tenant(target.tenant);
    }

    /// Urgent heads that fit nowhere else enter workers that drain. Cost: none while nothing drains, else linear in heads
    /// that wait and workers that drain.
    pub(super) fn enter_draining(&mut self, limit: u32, stats: &mut RoundStats, effects: &mut Vec<Effect>) {
        let mut placed = !self.leaving.is_empty();
        while placed && stats.placed < limit {
            placed = false;
            for head in self.waiting_heads().into_iter().filter(|head| !head.held) {
                if stats.placed < limit && self.enter_one(&head, effects) {
                    stats.placed += 1;
                    placed = true;
                }
            }
        }
    }

    fn enter_one(&mut self, head: &Head, effects: &mut Vec<Effect>) -> bool {
        let urgent = self.spec_of(head.job).is_some_and(|spec| spec.urgent);
        let tenant = head.turn.tenant;
        if !urgent || self.is_gang(head.job) || self.tenants.get(tenant as usize).is_none_or(|tenant| !tenant.runs()) {
            return false;
        }
        let Some(class) = self.classes.get(head.turn.entry.class) else { return false };
        let reserved = self.reserved_quota(tenant, head.turn.entry.key);
        let shunned = self.shunned(head.task);
        let found = self.leaving.iter().filter(|number| **number != shunned).find_map(|number| {
            let worker = self.workers.get(*number)?;
            let stays = worker.drain.is_some_and(|order| !order.host_shutdown);
            let there = matches!(worker.state, WorkerState::Draining | WorkerState::Running);
            let takes = stays && there && !worker.cordoned && !worker.reserved && self.table.is_whole(worker.place);
            let sees = takes && class.sees(self.table.kind(worker.place));
            let request = self.hosted(tenant, &reserved, &class.requests, worker.place).filter(|_| sees)?;
            Some((*number, request))
        });
        let Some((worker, request)) = found else { return false };
        let only = |guard| guard == worker::Guard::UrgentOnlyHere;
        let state = self.workers.get(worker).map(|worker| worker.state);
        if let Some(to) = state.and_then(|state| machine::worker(state, worker::Event::UrgentPlaced, only)) {
            self.move_worker(worker, to, WorkerReason::Plain, effects);
        }
        let Some(task) = self.take(head.turn.entry.queue) else { return false };
        self.put(task, Target { worker, request, tenant }, effects);
        self.refresh_head(head.turn.entry.queue);
        true
    }
}
