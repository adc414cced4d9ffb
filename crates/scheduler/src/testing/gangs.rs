//! Gangs that go out of sight with their worker and come back in a random world. Owns these events, which chance
//! alone hardly ever puts in this order, and the law that a gang is adopted whole or not at all.

use std::collections::{BTreeMap, BTreeSet};

use orlop_core::id::JobId;
use orlop_core::machine::job::JobState;
use orlop_core::machine::worker::WorkerState;
use orlop_core::task::TaskRef;

use super::amounts::{Amounts, NOTHING, plus};
use super::law::{Broken, Law};
use super::world::World;
use crate::event::{Event, Kept, Outcome};
use crate::job::{Demand, Gang, Gpus};
use crate::token::WorkerKey;

impl World<'_> {
    /// Many jobs are small gangs that one worker can hold.
    pub(super) fn band_together(&mut self, spec: &mut Demand) {
        if self.choices.once_in(3) {
            return;
        }
        let max_per_worker = self.choices.once_in(4).then(|| 1 + self.choices.below(2) as u32);
        spec.gang = Some(Gang { size: 2 + self.choices.below(2) as u32, max_per_worker, same_label: None });
        spec.resources.cpu_m = [100, 500][self.choices.below(2) as usize];
        (spec.resources.memory_bytes, spec.resources.gpus) = (0, Gpus::default());
    }

    /// The next thing on the way of a gang: it is there, it starts, its worker falls silent, it returns.
    pub(super) fn part(&mut self) -> Result<(), Broken> {
        if self.running_machines() < 2 {
            return self.join();
        }
        if let Some((_, worker)) =
            self.together(|state, machine| state == JobState::Queued && machine == WorkerState::Unhealthy)
        {
            return match self.choices.below(6) {
                0 => self.attempt_event(),
                1 => self.operator_event(),
                _ => self.connect(worker),
            };
        }
        let there = |machine| matches!(machine, WorkerState::Running | WorkerState::Draining);
        if let Some((job, worker)) = self.together(|state, machine| state == JobState::Running && there(machine)) {
            return self.fall_silent(job, worker);
        }
        if let Some((job, worker)) = self.together(|state, machine| state == JobState::Assigned && there(machine)) {
            let members: Vec<TaskRef> = self.members(job).map(|(attempt, _)| attempt).collect();
            return members.into_iter().try_for_each(|attempt| self.hear(Event::Started { attempt, worker }, worker));
        }
        self.submit()?;
        self.round()
    }

    /// Now and then a member does well before its worker is lost.
    fn fall_silent(&mut self, job: JobId, worker: WorkerKey) -> Result<(), Broken> {
        let first = self.members(job).next();
        if let Some((attempt, _)) = first.filter(|_| self.choices.once_in(4)) {
            self.result(attempt, worker, Outcome::Succeeded)?;
        }
        self.apply(Event::ConnectionLost { worker })?;
        self.now += self.scheduler.config().reassign_after;
        for other in self.model.machines.keys().copied().filter(|other| *other != worker).collect::<Vec<_>>() {
            self.hear(Event::Heartbeat { worker: other }, other)?;
        }
        self.apply(Event::Tick)?;
        self.deadlines.fired(&self.model, self.scheduler.now(), self.scheduler.config())
    }

    /// Members of a gang's newest attempt that are not known to have ended.
    fn members(&self, job: JobId) -> impl Iterator<Item = (TaskRef, WorkerKey)> {
        let issued = self.model.units.get(&(job, 0)).map_or(0, |unit| unit.issued);
        let own = self.model.live.iter().filter(move |(of, _)| (of.job, of.attempt) == (job, issued));
        own.map(|(of, live)| (*of, live.worker))
    }

    /// A gang whose members all are on one worker, where both are in such states.
    fn together(&self, states: impl Fn(JobState, WorkerState) -> bool) -> Option<(JobId, WorkerKey)> {
        let gangs = self.model.jobs.iter().filter(|(_, job)| job.spec.gang.is_some());
        gangs.map(|(job, _)| *job).find_map(|job| {
            let workers: BTreeSet<WorkerKey> = self.members(job).map(|(_, worker)| worker).collect();
            let worker = *workers.first().filter(|_| workers.len() == 1)?;
            let (unit, machine) = (self.model.units.get(&(job, 0))?, self.model.machines.get(&worker)?);
            states(unit.state, machine.state).then_some((job, worker))
        })
    }

    /// Every second time all members of gangs that a worker has are back with it.
    pub(super) fn gather(&mut self, worker: WorkerKey, kept: &mut Vec<Kept>) {
        if !self.shape.gangs || self.choices.once_in(2) {
            return;
        }
        let gang = |attempt: &TaskRef| self.model.spec(attempt.job).is_some_and(|spec| spec.gang.is_some());
        kept.retain(|kept| !gang(&kept.attempt));
        let own = self.model.live.iter().filter(|(attempt, live)| live.worker == worker && gang(attempt));
        kept.extend(own.map(|(attempt, _)| Kept { attempt: *attempt, started: true }));
    }

    /// A gang is adopted as it was started, whole or not at all: whoever has not succeeded is back with it.
    pub(super) fn adopt_gang(&mut self, job: JobId, back: &BTreeSet<TaskRef>) -> Result<(), Broken> {
        let issued = self.model.units.get(&(job, 0)).map_or(0, |unit| unit.issued);
        let newest = self.model.owners.iter().filter(|(of, _)| (of.job, of.attempt) == (job, issued));
        let missing: Vec<TaskRef> =
            newest.map(|(of, _)| *of).filter(|of| !back.contains(of) && !self.model.succeeded.contains(of)).collect();
        Law::Answers.demand(missing.is_empty(), || format!("a gang is adopted without {missing:?}"))?;
        self.gangs_adopted += 1;
        for attempt in back.iter().filter(|attempt| attempt.attempt == issued) {
            let Some(live) = self.model.live.get_mut(attempt) else { continue };
            live.charged = true;
            let holds = live.holds;
            self.model.quota(job, &holds)?;
        }
        Ok(())
    }

    /// Gangs that a worker keeps whole, and that their tenants' limits allow all of: these are to run on.
    pub(super) fn whole_gangs(&self, worker: WorkerKey, kept: &[Kept]) -> Vec<JobId> {
        let mut gangs: BTreeMap<JobId, Amounts> = BTreeMap::new();
        let mut back: BTreeMap<JobId, u32> = BTreeMap::new();
        let started: BTreeSet<TaskRef> = kept.iter().filter(|kept| kept.started).map(|kept| kept.attempt).collect();
        for (attempt, live) in self.model.live.iter().filter(|(attempt, _)| started.contains(attempt)) {
            let unit = self.model.units.get(&(attempt.job, 0));
            let waits = unit.is_some_and(|unit| unit.state == JobState::Queued && unit.issued == attempt.attempt);
            let gang = self.model.spec(attempt.job).is_some_and(|spec| spec.gang.is_some());
            if gang && waits && live.worker == worker {
                let sum = gangs.entry(attempt.job).or_insert(NOTHING);
                *sum = plus(*sum, &live.holds);
                *back.entry(attempt.job).or_default() += 1;
            }
        }
        // Of several the limits may allow one only.
        let alone = gangs.len() == 1;
        let allowed = |job: &JobId, sum: &Amounts| {
            let Some(spec) = self.model.spec(*job) else { return false };
            let tenant = spec.tenant.as_str();
            let held = super::preempting::Preemptions::held(&self.scheduler, &self.model, tenant);
            let held = plus(plus(self.model.charged(tenant), &held), sum);
            let quota = self.model.quotas.get(tenant);
            quota.is_none_or(|quota| super::room::admits(quota, &held, sum)) && back.get(job) == Some(&spec.members())
        };
        gangs.iter().filter(|(job, sum)| alone && allowed(job, sum)).map(|(job, _)| *job).collect()
    }
}
