//! The laws of preemption in a random world: who may be ended, how often, and that what they held is kept for
//! the job they were ended for until it starts. Owns what effects said about it.

use std::collections::BTreeSet;

use orlop_core::id::JobId;
use orlop_core::machine::job::JobState;
use orlop_core::machine::verdict::ReportVerdict;
use orlop_core::task::TaskRef;

use super::amounts::{Amounts, NOTHING, alternatives, needs, plus, times, totals, within};
use super::law::{Broken, Law};
use super::model::{Live, Model};
use crate::effect::{CancelReason, Effect};
use crate::engine::Scheduler;
use crate::job::Demand;
use crate::token::WorkerKey;

/// What effects said.
#[derive(Clone, Debug, Default)]
pub(super) struct Preemptions {
    /// Who reserved last, and where: those that are ended next are ended for it.
    last: Option<(JobId, Vec<WorkerKey>)>,
    /// Attempts that were told to end for others.
    reported: BTreeSet<TaskRef>,
    times: Vec<u64>,
    /// What is kept for whom, as of the last call.
    held: Vec<(JobId, WorkerKey)>,
}

impl Preemptions {
    /// A restart forgets reservations and how often attempts were ended.
    pub(super) fn restart(&mut self) {
        self.last = None;
        self.times.clear();
    }

    /// How many victims there were.
    pub(super) fn count(&self) -> usize {
        self.times.len()
    }

    /// Whether what is kept has not changed since the last call.
    pub(super) fn steady(&self, scheduler: &Scheduler) -> bool {
        scheduler.preemptions().eq(self.held.iter().copied())
    }

    /// Remembers what is kept.
    pub(super) fn note_held(&mut self, scheduler: &Scheduler) {
        self.held = scheduler.preemptions().collect();
    }

    /// Takes an effect in; `most` attempts may be ended in a minute.
    pub(super) fn take(&mut self, model: &Model, effect: &Effect, now: u64, most: u32) -> Result<(), Broken> {
        match effect {
            Effect::ReservationChanged { job, workers, .. } if !workers.is_empty() => {
                self.last = Some((*job, workers.clone()));
            }
            // Who was given up and is kept after all need not end any more.
            Effect::Verdict { attempt, verdict: ReportVerdict::Adopted } => drop(self.reported.remove(attempt)),
            Effect::Cancel { attempt, worker, why: CancelReason::Preempted, grace_ms }
                if self.reported.insert(*attempt) =>
            {
                // A gang is one victim, however many members it has.
                let fellow = TaskRef { member: 0, ..*attempt };
                if self.reported.iter().filter(|reported| TaskRef { member: 0, ..**reported } == fellow).count() == 1 {
                    self.times.push(now);
                }
                let lately = self.times.iter().filter(|at| at.saturating_add(60_000) > now).count();
                Law::Preemption.demand(lately <= most as usize, || {
                    format!("{lately} attempts are preempted in a minute, {most} may be")
                })?;
                return self.victim(model, *attempt, *worker, *grace_ms);
            }
            _ => {}
        }
        Ok(())
    }

    fn victim(&self, model: &Model, attempt: TaskRef, worker: WorkerKey, grace_ms: u64) -> Result<(), Broken> {
        let law = Law::Preemption;
        let Some((job, workers)) = &self.last else {
            return Err(law.broken(format!("{attempt} is preempted for nobody")));
        };
        let (Some(urgent), Some(spec)) = (model.spec(*job), model.spec(attempt.job)) else {
            return Err(law.broken(format!("{attempt} or {job} is unknown")));
        };
        let runs = model.units.get(&(attempt.job, attempt.index)).is_some_and(|unit| unit.state == JobState::Running);
        // Of a gang any member holds what is wanted; all of them end.
        let mut members =
            model.live.iter().filter(|(live, _)| (live.job, live.attempt) == (attempt.job, attempt.attempt));
        let there =
            workers.contains(&worker) || spec.gang.is_some() && members.any(|(_, live)| workers.contains(&live.worker));
        let right = spec.preemptible && runs && there && grace_ms == spec.grace_ms;
        law.demand(right, || format!("{attempt} is preempted on {worker} for {job}, which keeps {workers:?}"))?;
        law.demand(spec.priority.0 >= urgent.priority.0.saturating_add(4), || {
            format!("{attempt} of {:?} is preempted for {:?}", spec.priority, urgent.priority)
        })
    }

    /// After a round: what was freed is still there for whom it was freed, who starts once all of it is free, unless the round
    /// came to its limit before.
    pub(super) fn check(&self, scheduler: &Scheduler, model: &Model, limited: bool) -> Result<(), Broken> {
        for (job, worker) in scheduler.preemptions() {
            let (Some(machine), Some(spec)) = (model.machines.get(&worker), model.spec(job)) else {
                return Err(Law::Preemption.broken(format!("{worker} or {job} is unknown")));
            };
            let here = || model.live.iter().filter(|(_, live)| live.worker == worker && !live.waiting);
            let staying = here().filter(|(attempt, _)| !self.reported.contains(attempt));
            let stays = staying.fold(NOTHING, |sum, (_, live)| plus(sum, &live.holds));
            let total = totals(&machine.offer);
            let members = scheduler.preemptions().filter(|kept| *kept == (job, worker)).count();
            let wanted = plus(stays, &times(&need(spec), members as u64));
            Law::Preemption.demand(within(&wanted, &total), || {
                format!("{worker} is kept for {job}, but {stays:?} of {total:?} are taken by others")
            })?;
            let others = scheduler.reservations().filter(|(other, ..)| *other != job);
            let behind = others.filter_map(|(other, ..)| model.spec(other)).any(|other| other.tenant == spec.tenant);
            let waits = model.units.range((job, 0)..=(job, u32::MAX)).any(|(_, unit)| unit.state == JobState::Queued);
            let set: BTreeSet<_> =
                scheduler.preemptions().filter(|(other, _)| *other == job).map(|(_, on)| on).collect();
            let ends =
                |(attempt, live): (&TaskRef, &Live)| set.contains(&live.worker) && self.reported.contains(attempt);
            let free = !model.live.iter().any(ends);
            Law::Preemption.demand(limited || !waits || behind || !free, || {
                format!("{job} does not start on {worker} though all that it waited for has ended")
            })?;
        }
        Ok(())
    }

    /// What is kept for jobs of a tenant, which is charged for it.
    pub(super) fn held(scheduler: &Scheduler, model: &Model, tenant: &str) -> Amounts {
        let specs = scheduler.preemptions().filter_map(|(job, _)| model.spec(job));
        specs.filter(|spec| spec.tenant == *tenant).fold(NOTHING, |sum, spec| plus(sum, &need(spec)))
    }
}

/// What a job takes: where jobs may be ended for it, it names one kind of device at most.
fn need(spec: &Demand) -> Amounts {
    needs(spec, alternatives(spec).first().copied().flatten())
}
