//! Late adoption: work that was given up and turns out to run is kept. Owns what makes an attempt count again,
//! and when a gang comes back: as it was started, whole or not at all, with every member that has not succeeded on the worker
//! that says so.

use std::collections::{BTreeMap, BTreeSet};

use orlop_core::machine::attempt::{self, AttemptState};
use orlop_core::machine::job;
use orlop_core::task::TaskRef;

use super::record::{Attempt, Life, Task};
use super::{Scheduler, machine};
use crate::effect::{Effect, Reason};
use crate::event::Kept;
use crate::table::NONE;

impl Scheduler {
    /// An attempt that was given up runs on: its tenant is charged for it again, unless it still waits for a slot.
    pub(super) fn revive(&mut self, slot: u32, effects: &mut Vec<Effect>) -> bool {
        let now = self.now;
        let Some(known) = self.attempts.get(slot).copied() else { return false };
        let Some(state) = machine::attempt(known.state, attempt::Event::Started, |_| true) else { return false };
        self.drop_end_time(&known);
        let Some(attempt) = self.attempts.get_mut(slot) else { return false };
        attempt.state = state;
        (attempt.accepted, attempt.started) = (true, true);
        (attempt.revoking, attempt.ending) = (false, None);
        if attempt.started_at == 0 {
            attempt.started_at = now;
        }
        let (request, tenant, waiting, job) = (attempt.request, attempt.tenant, attempt.waiting, attempt.task.job);
        attempt.charged = true;
        self.add_end_time(slot);
        self.note_settled(job);
        if waiting {
            self.take_slot(slot, effects);
        } else if self.feeds.on {
            self.regain_slot(slot);
        }
        if !waiting
            && let (Some(request), Some(tenant)) = (self.requests.get(request), self.tenants.get_mut(tenant as usize))
        {
            tenant.charge(request, 1);
        }
        self.weigh_tenant(tenant);
        true
    }

    /// Adopts every gang that a worker has kept whole; returns whose members that are.
    pub(super) fn adopt_gangs(&mut self, worker: u32, kept: &[Kept], effects: &mut Vec<Effect>) -> BTreeSet<TaskRef> {
        let is_gang = |kept: &&Kept| self.ids.get(kept.attempt.job.as_u64()).is_some_and(|job| self.is_gang(job));
        let kept: BTreeSet<TaskRef> =
            kept.iter().filter(|kept| kept.started).filter(is_gang).map(|kept| kept.attempt).collect();
        let mut adopted = BTreeSet::new();
        for (job, slots) in self.come_back(worker, &kept) {
            if self.is_whole(job, &slots) && self.adopt_gang(job, &slots, effects) {
                let members = slots.iter().filter_map(|slot| self.attempts.get(*slot));
                adopted.extend(members.map(|attempt| self.reference(attempt)));
            }
        }
        adopted
    }

    /// The slots of members on a worker, by gang, whose newest attempt was given up and that the worker has kept.
    fn come_back(&self, worker: u32, kept: &BTreeSet<TaskRef>) -> BTreeMap<u32, Vec<u32>> {
        let mut gangs: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        if kept.is_empty() {
            return gangs;
        }
        for slot in self.attempts_on(worker) {
            let Some(attempt) = self.attempts.get(slot).filter(|attempt| attempt.state == AttemptState::Lost) else {
                continue;
            };
            let given_up = |life: Life| life.lost && life.attempt == attempt.number;
            if self.life(attempt.task).is_some_and(given_up) && kept.contains(&self.reference(attempt)) {
                gangs.entry(attempt.task.job).or_default().push(slot);
            }
        }
        gangs
    }

    /// Whether these are all members of a gang that have not succeeded.
    fn is_whole(&self, job: u32, slots: &[u32]) -> bool {
        let missing =
            self.gangs.get(&job).map(|members| members.answered.iter().filter(|answered| !**answered).count());
        missing == Some(slots.len())
    }

    /// The members run on, if the limits of their tenant allow all of them.
    fn adopt_gang(&mut self, job: u32, slots: &[u32], effects: &mut Vec<Effect>) -> bool {
        let task = Task::whole(job);
        let Some(mut life) = self.life(task) else { return false };
        let Some(to) = machine::job(life.state, job::Event::Started, |guard| guard == job::Guard::NewestMayRun) else {
            return false;
        };
        if !self.may_charge(job, slots) {
            return false;
        }
        for slot in slots {
            self.revive(*slot, effects);
        }
        let members = slots.iter().filter_map(|slot| Some((self.attempts.get(*slot)?.member, *slot)));
        let members: Vec<(u32, u32)> = members.collect();
        if let Some(gang) = self.gangs.get_mut(&job) {
            (gang.ending, gang.broken) = (None, false);
            for (member, slot) in members {
                gang.slots.get_mut(member as usize).into_iter().for_each(|place| *place = slot);
            }
        }
        (life.lost, life.answered, life.started) = (false, false, true);
        life.live = slots.first().copied().unwrap_or(NONE);
        self.follow(task, life, to, Reason::Adopted, effects);
        true
    }

    /// Whether the limits of a job's tenant have room for what all these attempts hold, together.
    fn may_charge(&mut self, job: u32, slots: &[u32]) -> bool {
        let number = self.tenant_of(job);
        let Some(tenant) = self.tenants.get_mut(number as usize) else { return false };
        let request = |slot: &u32| self.requests.get(self.attempts.get(*slot)?.request);
        let mut charged = Vec::new();
        for request in slots.iter().filter_map(request) {
            if tenant.room(request, &self.dims) == 0 {
                break;
            }
            tenant.charge(request, 1);
            charged.push(request);
        }
        charged.iter().for_each(|request| tenant.release(request));
        charged.len() == slots.len()
    }

    /// An attempt that was given up has ended for sure: if it was a member of a gang's newest one, that cannot come back.
    pub(super) fn part_gang(&mut self, attempt: &Attempt) {
        let lost = |life: &Life| life.lost && life.attempt == attempt.number;
        if self.is_gang(attempt.task.job)
            && let Some(life) = self.life(attempt.task).filter(lost)
        {
            self.is_over(attempt.task, life);
        }
    }
}
