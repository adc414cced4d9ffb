//! The store of a random world: rows as a store keeps them, each looked up only when an event or an effect names what
//! it is about, and the restart out of them. Owns the rows and what a restart does to a world.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use orlop_core::id::{JobId, TenantName};
use orlop_core::machine::job::JobState;
use orlop_core::task::TaskRef;

use super::law::{Broken, Law};
use super::model::UnitId;
use super::world::World;
use crate::effect::{Effect, JobPart};
use crate::engine::Scheduler;
use crate::event::{ArraySpec, Event, Quota, StartWindow, TenantSettings};
use crate::job::Demand;
use crate::stored::{ArrayRow, AttemptRow, Body, Incarnation, JobRow, RangeRow, Stored, TenantRow, UnitRow, WorkerRow};
use crate::token::WorkerKey;

/// A job: what was submitted, elements that were never assigned, and the rows of the others.
#[derive(Clone, Debug)]
struct Kept {
    spec: Arc<Demand>,
    submitted: u64,
    gate: StartWindow,
    array: Option<ArraySpec>,
    untouched: BTreeMap<u32, JobState>,
    units: BTreeMap<u32, UnitRow>,
}

impl Kept {
    fn is_over(&self) -> bool {
        let states = self.untouched.values().copied().chain(self.units.values().map(|unit| unit.state));
        states.into_iter().all(JobState::is_terminal)
    }
}

/// The rows.
#[derive(Clone, Debug, Default)]
pub(super) struct Store {
    tenants: BTreeMap<TenantName, (TenantSettings, Quota)>,
    workers: BTreeMap<Incarnation, WorkerRow>,
    jobs: BTreeMap<JobId, Kept>,
    attempts: BTreeMap<TaskRef, (WorkerKey, AttemptRow)>,
    /// What was submitted and may be admitted.
    submitted: Option<(JobId, Kept)>,
    units: BTreeSet<UnitId>,
    /// By whom, unless it is known who has it.
    named: BTreeMap<TaskRef, WorkerKey>,
    machines: BTreeSet<WorkerKey>,
}

impl Store {
    /// What an event that was taken names.
    pub(super) fn event(&mut self, now: u64, event: &Event) {
        let kept = |spec: &Arc<Demand>, gate: &StartWindow, array: Option<&ArraySpec>| Kept {
            spec: Arc::clone(spec),
            submitted: now,
            gate: *gate,
            array: array.cloned(),
            untouched: BTreeMap::new(),
            units: BTreeMap::new(),
        };
        match event {
            Event::Submit { job, spec, gate } => self.submitted = Some((*job, kept(spec, gate, None))),
            Event::SubmitArray { job, spec, gate, array } => {
                let mut kept = kept(spec, gate, Some(array));
                let indices = array.indices.iter().flat_map(|(first, last)| *first..=*last);
                kept.untouched = indices.map(|index| (index, JobState::Pending)).collect();
                self.submitted = Some((*job, kept));
            }
            Event::TenantChanged { tenant, settings } => {
                self.tenants.entry(tenant.clone()).or_default().0 = *settings;
            }
            Event::QuotaChanged { tenant, quota } => {
                self.tenants.entry(tenant.clone()).or_default().1 = quota.clone();
            }
            Event::Registered { worker, .. }
            | Event::Updated { worker, .. }
            | Event::Drain { worker, .. }
            | Event::Undrain { worker }
            | Event::Cordon { worker }
            | Event::Uncordon { worker } => drop(self.machines.insert(*worker)),
            Event::Connected { worker, kept } => {
                self.named.extend(kept.iter().map(|kept| (kept.attempt, *worker)));
            }
            Event::Accepted { attempt, worker }
            | Event::Rejected { attempt, worker, .. }
            | Event::Started { attempt, worker }
            | Event::Result { attempt, worker, .. }
            | Event::Revoked { attempt, worker } => drop(self.named.insert(*attempt, *worker)),
            _ => {}
        }
    }

    /// What an effect names.
    pub(super) fn effect(&mut self, effect: &Effect) {
        match effect {
            Effect::Admitted { job, .. } => {
                if let Some((id, kept)) = self.submitted.take().filter(|(id, _)| id == job) {
                    if kept.array.is_none() {
                        self.units.insert((id, 0));
                    }
                    self.jobs.insert(id, kept);
                }
            }
            Effect::JobChanged { job, part, to, .. } => {
                let (first, last) = if let JobPart::Elements(first, last) = part { (*first, *last) } else { (0, 0) };
                let Some(kept) = self.jobs.get_mut(job) else { return };
                let untouched: Vec<u32> = kept.untouched.range(first..=last).map(|(index, _)| *index).collect();
                for index in untouched {
                    if *to == JobState::Assigned {
                        kept.untouched.remove(&index);
                    } else {
                        kept.untouched.insert(index, *to);
                    }
                }
                let touched = kept.units.range(first..=last).map(|(index, _)| (*job, *index));
                self.units.extend(touched);
                if *to == JobState::Assigned || *part == JobPart::Whole {
                    self.units.insert((*job, first));
                }
            }
            Effect::Assign { attempt, worker, .. }
            | Effect::Cancel { attempt, worker, .. }
            | Effect::Revoke { attempt, worker }
            | Effect::Inherited { attempt, worker, .. }
            | Effect::Lost { attempt, worker, .. } => drop(self.named.insert(*attempt, *worker)),
            Effect::WorkerChanged { worker, .. } => drop(self.machines.insert(*worker)),
            _ => {}
        }
    }

    /// Looks up what was named.
    pub(super) fn write(&mut self, scheduler: &Scheduler) {
        self.submitted = None;
        for (attempt, worker) in std::mem::take(&mut self.named) {
            self.units.insert((attempt.job, attempt.index));
            let known = self.attempts.get(&attempt).map(|(worker, _)| *worker);
            let worker = known.unwrap_or(worker);
            match scheduler.attempt_row(attempt, worker) {
                Some(row) => drop(self.attempts.insert(attempt, (worker, row))),
                None => drop(self.attempts.remove(&attempt)),
            }
        }
        for (job, index) in std::mem::take(&mut self.units) {
            let Some(kept) = self.jobs.get_mut(&job) else { continue };
            let element = kept.array.is_some().then_some(index);
            if kept.untouched.contains_key(&index) {
                continue;
            }
            if let Some(row) = scheduler.task_row(job, element) {
                kept.units.insert(index, row);
            }
        }
        for row in std::mem::take(&mut self.machines).into_iter().filter_map(|worker| scheduler.worker_row(worker)) {
            self.workers.insert(row.worker.clone(), row);
        }
    }

    /// What a restart reads.
    fn load(&self) -> Stored {
        let with_attempts: BTreeSet<JobId> = self.attempts.keys().map(|attempt| attempt.job).collect();
        let needed = self.jobs.iter().filter(|(id, kept)| !kept.is_over() || with_attempts.contains(id));
        Stored {
            tenants: self
                .tenants
                .iter()
                .map(|(name, (settings, quota))| TenantRow {
                    name: name.clone(),
                    settings: *settings,
                    quota: quota.clone(),
                })
                .collect(),
            workers: self.workers.values().cloned().collect(),
            jobs: needed.map(|(id, kept)| row(*id, kept)).collect(),
            attempts: self.attempts.values().map(|(_, row)| row.clone()).collect(),
        }
    }

    /// Every row is what the scheduler would say if asked for all of them.
    fn check(&self, scheduler: &Scheduler) -> Result<(), Broken> {
        for (job, kept) in &self.jobs {
            for (index, unit) in &kept.units {
                let now = scheduler.task_row(*job, kept.array.is_some().then_some(*index));
                if now.as_ref().is_some_and(|now| *now != known(unit, now)) {
                    return Err(
                        Law::Equivalence.broken(format!("the store has {job}.{index} as {unit:?}, it is {now:?}"))
                    );
                }
            }
        }
        for (attempt, (worker, row)) in &self.attempts {
            let now = scheduler.attempt_row(*attempt, *worker);
            if now.as_ref() != Some(row) {
                return Err(Law::Equivalence.broken(format!("the store has {row:?}, it is {now:?}")));
            }
        }
        let views = scheduler.worker_keys().filter_map(|key| scheduler.worker_view(key));
        let held: u64 = views.map(|view| u64::from(view.attempts) + u64::from(view.waiting)).sum();
        let rows = self.attempts.len() as u64;
        Law::Equivalence.demand(rows == held, || format!("the store has {rows} attempts, workers {held}"))
    }
}

/// A row without workers that the scheduler has forgotten: whom it means by them is nobody.
fn known(row: &UnitRow, now: &UnitRow) -> UnitRow {
    let mut row = row.clone();
    row.avoid = row.avoid.filter(|_| now.avoid.is_some());
    let there = now.gang.as_ref().and_then(|gang| gang.ending.as_ref()).is_some_and(|ending| ending.worker.is_some());
    if let Some(ending) = row.gang.as_mut().and_then(|gang| gang.ending.as_mut()) {
        ending.worker = ending.worker.take().filter(|_| there);
    }
    row
}

fn row(job: JobId, kept: &Kept) -> JobRow {
    let body = match (&kept.array, kept.units.get(&0)) {
        (None, Some(unit)) => Body::One(unit.clone()),
        (array, _) => {
            let mut ranges: Vec<RangeRow> = Vec::new();
            for (index, state) in &kept.untouched {
                match ranges.last_mut() {
                    Some(range) if range.state == *state && range.last.checked_add(1) == Some(*index) => {
                        range.last = *index;
                    }
                    _ => ranges.push(RangeRow { first: *index, last: *index, state: *state }),
                }
            }
            Body::Array(ArrayRow {
                max_parallel: array.as_ref().and_then(|array| array.max_parallel),
                max_failures: array.as_ref().and_then(|array| array.max_failures),
                ranges,
                elements: kept.units.clone(),
            })
        }
    };
    JobRow {
        job,
        spec: Arc::clone(&kept.spec),
        submitted: kept.submitted,
        not_before: kept.gate.not_before,
        expires: kept.gate.queue_timeout.map(|wait| kept.submitted.saturating_add(wait)),
        body,
    }
}

impl World<'_> {
    /// The server dies and starts again: the scheduler is rebuilt from the store's rows.
    ///
    /// # Errors
    /// The law that broke.
    pub fn rebuild(&mut self) -> Result<(), Broken> {
        self.store.check(&self.scheduler)?;
        let old = &self.scheduler;
        let names: Vec<(WorkerKey, Incarnation)> =
            old.worker_keys().filter_map(|key| Some((key, old.worker_row(key)?.worker))).collect();
        let at = (old.epoch().next(), self.now);
        let (config, stored) = (old.config().clone(), self.store.load());
        self.scheduler = Scheduler::rebuild(config, 11, at, stored, &mut self.effects)
            .map_err(|error| Law::Equivalence.broken(error.to_string()))?;
        let new: BTreeMap<Incarnation, WorkerKey> = self
            .scheduler
            .worker_keys()
            .filter_map(|key| Some((self.scheduler.worker_row(key)?.worker, key)))
            .collect();
        let keys = names.into_iter().filter_map(|(old, name)| Some((old, *new.get(&name)?))).collect();
        self.model.rename(&keys, self.now);
        self.turns.restart();
        self.credits.forget();
        self.preemptions.restart();
        self.prefills.restart();
        for (worker, _) in self.store.attempts.values_mut() {
            *worker = keys.get(worker).copied().unwrap_or(*worker);
        }
        self.absorb(false)?;
        self.store.check(&self.scheduler)?;
        self.compare()
    }
}
