//! Prefill in a random world: agents that keep local queues as real ones do, and the laws about what is sent
//! ahead. Owns who waits for a slot, what was asked back, and what may be sent ahead of whom.
//!
//! An agent starts what waits only when an attempt of the same tenant and shape has ended, in the same frame; what it was
//! asked to give back it gives back unless that came first.

use std::collections::BTreeSet;
use std::sync::Arc;

use orlop_core::id::{Epoch, JobId};
use orlop_core::task::TaskRef;

use super::amounts::{Amounts, alternatives, minus, needs, plus, totals, within};
use super::law::{Broken, Law};
use super::model::{Live, Model};
use super::world::World;
use crate::effect::{Effect, StartMode};
use crate::event::{Event, Kept, Outcome};
use crate::job::{Demand, Runtime};
use crate::token::WorkerKey;

/// Shares are quotients of whole numbers: nothing else may differ.
const EXACT: f64 = 1e-12;

/// What effects said.
#[derive(Clone, Debug, Default)]
pub(super) struct Prefills {
    /// What the agents were asked to give back.
    asked_back: BTreeSet<TaskRef>,
    /// Who got a slot in the last call.
    heirs: Vec<(TaskRef, WorkerKey)>,
    /// Workers whose round trip is known.
    timed: BTreeSet<WorkerKey>,
    /// How many attempts inherited a slot so far.
    pub(super) inherited: usize,
}

impl Prefills {
    /// Takes an effect in, after the model did.
    pub(super) fn take(&mut self, effect: &Effect) {
        match effect {
            Effect::Revoke { attempt, .. } => drop(self.asked_back.insert(*attempt)),
            Effect::Inherited { attempt, worker, .. } => {
                self.inherited += 1;
                self.asked_back.remove(attempt);
                self.heirs.push((*attempt, *worker));
            }
            _ => {}
        }
    }

    /// A restart forgets what was asked back, and how far workers are.
    pub(super) fn restart(&mut self) {
        self.asked_back.clear();
        self.heirs.clear();
        self.timed.clear();
    }

    /// Judges what is about to be sent ahead by what is true before; `held` is what is kept for a tenant beside its
    /// attempts, absent if shares cannot be told.
    pub(super) fn judge(
        &self,
        model: &Model,
        (attempt, worker): (TaskRef, WorkerKey),
        held: Option<&dyn Fn(&str) -> Amounts>,
    ) -> Result<(), Broken> {
        let unit = (attempt.job, attempt.index);
        let (Some(job), Some(machine)) = (model.jobs.get(&attempt.job), model.machines.get(&worker)) else {
            return Err(Law::Prefill.broken(format!("{attempt} or {worker} is unknown")));
        };
        let (spec, key) = (&*job.spec, (job.spec.priority.0, unit));
        let (tenant, band) = (spec.tenant.as_str(), spec.priority.band().index());
        let slot = model.live.iter().find(|(other, live)| holds(model, other, live, job.class, worker));
        let Some((_, slot)) = slot.filter(|_| spec.gang.is_none() && self.timed.contains(&worker)) else {
            return Err(Law::Prefill.broken(format!("{attempt} is sent ahead to {worker}, where no slot may be fed")));
        };
        Law::Order.demand(!model.paused.contains(tenant), || format!("{attempt} is sent ahead for paused {tenant}"))?;
        let lines = model.lines();
        let own = lines.iter().find(|line| line.tenant == tenant && line.band == band && line.class == job.class);
        let first = own.map(|line| line.first);
        let right = first == Some(key) || model.may_go_first(key, first);
        Law::Order.demand(right, || format!("{attempt} is sent ahead, the first of its line is {first:?}"))?;
        let left = plus(minus(&totals(&machine.offer), &model.taken(worker)), &slot.holds);
        let fleet = model.fleet();
        for line in lines.iter().filter(|line| line.band == band) {
            let Some(other) = model.spec(line.first.1.0).filter(|other| other.gang.is_none()) else { continue };
            if line.tenant == tenant {
                let serves = model.eligible(other, machine)
                    && model.shuns(line.first.1) != Some(worker)
                    && alternatives(other).into_iter().any(|gpu| within(&needs(other, gpu), &left));
                Law::Order.demand(line.class == job.class || line.first > key || !serves, || {
                    format!("{attempt} is sent ahead of {:?}, which the slot would serve", line.first)
                })?;
                continue;
            }
            let Some(held) = held else { continue };
            let could = model.could_start(line.first.1, &[(worker, machine, left)], &held(&line.tenant)).is_some();
            let (mine, its) = (model.share(tenant, &fleet), model.share(&line.tenant, &fleet));
            let bare = [tenant, line.tenant.as_str()].iter().all(|tenant| held(tenant) == super::amounts::NOTHING);
            Law::Fairness.demand(!could || !bare || mine <= its * (1.0 + EXACT), || {
                format!("{attempt} of {tenant} with a share of {mine} is sent ahead, {} has {its}", line.tenant)
            })?;
        }
        Ok(())
    }

    /// What was just sent ahead is no more than the half of what waits: others may be free first.
    pub(super) fn judge_window(model: &Model, attempt: TaskRef, worker: WorkerKey) -> Result<(), Broken> {
        let class = model.jobs.get(&attempt.job).map(|job| job.class);
        let of_class = |id: &JobId| model.jobs.get(id).map(|job| job.class) == class;
        let queued = model.waiting.iter().filter(|(job, _)| of_class(job)).count();
        let ahead = |(other, live): &(&TaskRef, &Live)| {
            live.waiting && live.charged && live.worker == worker && of_class(&other.job)
        };
        let ahead = model.live.iter().filter(ahead).count();
        Law::Prefill.demand(ahead <= queued, || format!("{ahead} wait on {worker}, only {queued} are left for others"))
    }

    /// After a call: whoever waits for a slot waits for one that somebody has.
    pub(super) fn check(model: &Model) -> Result<(), Broken> {
        let waiting = model.live.iter().filter(|(_, live)| live.waiting && live.charged);
        for (attempt, live) in waiting {
            let class = model.jobs.get(&attempt.job).map_or(usize::MAX, |job| job.class);
            let fed = model.live.iter().any(|holder| holds(model, holder.0, holder.1, class, live.worker));
            Law::Prefill.demand(fed, || format!("{attempt} waits on {} for a slot that nobody has", live.worker))?;
        }
        Ok(())
    }

    /// After a whole round: what waits for a slot though it could start at once elsewhere is asked back, unless others of
    /// its line are left to start there. Of several lines that could, one may have been promised all the room.
    pub(super) fn conserve(&self, model: &Model, held: impl Fn(&str) -> Amounts) -> Result<(), Broken> {
        let open = model.open();
        if model.live.iter().any(|(attempt, live)| live.waiting && self.asked_back.contains(attempt)) {
            return Ok(());
        }
        for (attempt, live) in model.live.iter().filter(|(_, live)| live.waiting && live.charged) {
            let Some(job) = model.jobs.get(&attempt.job) else { continue };
            let of_class = |(id, _): &super::model::UnitId| model.jobs.get(id).map(|job| job.class) == Some(job.class);
            let idle = model.could(attempt.job, &open, &held(job.spec.tenant.as_str()));
            let found = idle.filter(|_| !model.waiting.iter().any(of_class));
            Law::WorkConservation.demand(found.is_none(), || {
                format!("{attempt} waits on {} for a slot, though {found:?} has room", live.worker)
            })?;
        }
        Ok(())
    }
}

/// Whether an attempt holds a slot that others of the class may inherit.
fn holds(model: &Model, attempt: &TaskRef, live: &Live, class: usize, worker: WorkerKey) -> bool {
    let own = model.jobs.get(&attempt.job).is_some_and(|job| job.class == class);
    own && live.worker == worker && live.charged && !live.waiting
}

impl World<'_> {
    /// How many attempts inherited a slot so far.
    #[must_use]
    pub const fn inherited(&self) -> usize {
        self.prefills.inherited
    }

    /// Makes most jobs small, short and alike.
    pub(super) fn shorten(&mut self, spec: &mut Demand) {
        if self.choices.once_in(4) {
            return;
        }
        spec.gang = None;
        spec.requires = Demand::new(spec.tenant.clone()).requires;
        spec.resources = Demand::new(spec.tenant.clone()).resources;
        spec.resources.cpu_m = [500, 500, 1000][self.choices.below(3) as usize];
        spec.runtime = Runtime::Process;
        spec.expected_ms = [None, Some(1), Some(15), Some(500)][self.choices.below(4) as usize];
    }

    /// A worker that has connected measures how far it is.
    pub(super) fn time_worker(&mut self, worker: WorkerKey) -> Result<(), Broken> {
        if !self.shape.prefill {
            return Ok(());
        }
        let micros = [100, 5000, 40_000, 10_000_000][self.choices.below(4) as usize];
        if self.apply(Event::RoundTrip { worker, micros })? {
            self.prefills.timed.insert(worker);
        }
        Ok(())
    }

    /// Agents do what they do all the time: they give back what they were asked for, start what they have, end some of it
    /// soon.
    pub(super) fn tend(&mut self) -> Result<(), Broken> {
        if self.choices.once_in(8) {
            let micros = [0, 300, 20_000][self.choices.below(3) as usize];
            self.apply(Event::TurnTime { micros })?;
        }
        self.give_back()?;
        if self.running_machines() < 2 {
            self.join()?;
        } else if self.choices.once_in(2) {
            self.burst()?;
        }
        self.round()?;
        self.now += self.choices.below(8);
        let slots = self.model.live.iter().filter(|(_, live)| !live.waiting);
        let slots: Vec<(TaskRef, WorkerKey)> = slots.map(|(attempt, live)| (*attempt, live.worker)).collect();
        for (attempt, worker) in slots {
            if self.choices.once_in(3) {
                self.hear(Event::Started { attempt, worker }, worker)?;
                if !self.choices.once_in(4) && self.model.live.get(&attempt).is_some_and(|live| !live.waiting) {
                    self.now += self.choices.below(4);
                    self.result(attempt, worker, Outcome::Succeeded)?;
                }
            }
        }
        Ok(())
    }

    /// Many jobs that are alike.
    fn burst(&mut self) -> Result<(), Broken> {
        let mut spec = Demand::clone(&*self.spec()?);
        spec.gang = None;
        let spec = Arc::new(spec);
        for _ in 0..2 + self.choices.below(12) {
            let Some(job) = JobId::new(Epoch(1), self.next_job) else { return Ok(()) };
            self.submit_plain(job, Arc::clone(&spec))?;
        }
        Ok(())
    }

    /// Agents give back what they were asked for and has not started.
    pub(super) fn give_back(&mut self) -> Result<(), Broken> {
        for attempt in std::mem::take(&mut self.prefills.asked_back) {
            let Some(live) = self.model.live.get(&attempt).copied().filter(|live| live.waiting) else { continue };
            if self.choices.once_in(4) {
                self.prefills.asked_back.insert(attempt);
            } else {
                self.unstarted(attempt, live.worker, Event::Revoked { attempt, worker: live.worker })?;
            }
        }
        Ok(())
    }

    /// Whoever inherited a slot starts in the frame of the end that left it.
    pub(super) fn start_heirs(&mut self) -> Result<(), Broken> {
        for (attempt, worker) in std::mem::take(&mut self.prefills.heirs) {
            if self.model.live.get(&attempt).is_some_and(|live| !live.waiting) {
                self.hear(Event::Started { attempt, worker }, worker)?;
            }
        }
        Ok(())
    }

    /// What a worker that returns may have started: of what waited only as much as others have left their slots for.
    pub(super) fn honest(&self, worker: WorkerKey, kept: &mut [Kept]) {
        let keeps: BTreeSet<TaskRef> = kept.iter().map(|kept| kept.attempt).collect();
        for one in kept.iter_mut().filter(|kept| kept.started) {
            let waits = self.model.live.get(&one.attempt).is_some_and(|live| live.waiting);
            let class = self.model.jobs.get(&one.attempt.job).map(|job| job.class);
            let left = self.model.live.iter().any(|(other, live)| {
                let same = self.model.jobs.get(&other.job).map(|job| job.class) == class;
                same && live.worker == worker && !live.waiting && !keeps.contains(other)
            });
            // At most one, the first that is kept.
            let first = keeps.iter().find(|other| {
                let same = self.model.jobs.get(&other.job).map(|job| job.class) == class;
                same && self.model.live.get(*other).is_some_and(|live| live.waiting)
            });
            one.started = !waits || left && first == Some(&one.attempt);
        }
    }
}

/// What an effect sends ahead, and where.
pub(super) const fn ahead(effect: &Effect) -> Option<(TaskRef, WorkerKey)> {
    match effect {
        Effect::Assign { attempt, worker, start: StartMode::Inherit, .. } => Some((*attempt, *worker)),
        _ => None,
    }
}
