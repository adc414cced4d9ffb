//! The world around a scheduler: users, operators and workers that do whatever the choices say, often the wrong thing.
//! Owns which event comes next and checks everything after each one.

use std::collections::BTreeSet;
use std::sync::Arc;

use orlop_core::id::{JobId, TenantName};
use orlop_core::machine::job::JobState;
use orlop_core::machine::worker::WorkerState;

use super::choices::Choices;
use super::model::{Broken, Model, needs, plus, totals};
use super::preempting::Preemptions;
use super::store::Store;
use crate::config::{Config, Policy};
use crate::effect::Effect;
use crate::engine::Scheduler;
use crate::event::{Departure, DrainOrder, Event, Kept, Quota, TenantSettings, TenantStatus};
use crate::token::{AttemptRef, WorkerKey};

/// How a world is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shape {
    /// How workers are chosen.
    pub policy: Policy,
    /// Whether urgent jobs may end others, and some jobs may be ended.
    pub preemption: bool,
    /// Whether the server dies now and then and starts again from the rows of its store.
    pub restarts: bool,
}

/// How many attempts may be preempted in a minute.
const PREEMPT_PER_MINUTE: u32 = 3;

/// A scheduler, the model of it, and what the world knows.
#[derive(Clone, Debug)]
pub struct World<'a> {
    /// The scheduler.
    pub scheduler: Scheduler,
    pub(super) model: Model,
    pub(super) preemptions: Preemptions,
    pub(super) store: Store,
    restarts: bool,
    pub(super) choices: Choices<'a>,
    pub(super) now: u64,
    pub(super) next_job: u64,
    pub(super) tenants: Vec<TenantName>,
    /// A number that depends on every effect so far.
    pub hash: u64,
    pub(super) effects: Vec<Effect>,
}

impl<'a> World<'a> {
    /// A world without workers and jobs.
    ///
    /// # Errors
    /// The configuration of `shape` is refused.
    pub fn new(shape: Shape, choices: Choices<'a>) -> Result<Self, Broken> {
        let config = Config {
            policy: shape.policy,
            preemption: shape.preemption,
            preempt_per_minute: PREEMPT_PER_MINUTE,
            // What a restart reads back must not have been forgotten.
            finished_kept: if shape.restarts { 65_536 } else { 64 },
            workers_kept: 8,
            ..Config::default()
        };
        let scheduler = Scheduler::new(config, 11).map_err(|error| error.to_string())?;
        let tenants = ["a", "b", "c"].iter().filter_map(|name| name.parse().ok()).collect();
        let (model, preemptions, effects) = (Model::default(), Preemptions::default(), Vec::new());
        let (store, restarts) = (Store::default(), shape.restarts);
        Ok(Self {
            scheduler,
            model,
            preemptions,
            store,
            restarts,
            choices,
            now: 0,
            next_job: 1,
            tenants,
            hash: 0,
            effects,
        })
    }

    /// Does one thing and checks every law after it.
    ///
    /// # Errors
    /// The law that broke.
    pub fn step(&mut self) -> Result<(), Broken> {
        if self.restarts && self.choices.once_in(30) {
            self.rebuild()?;
        }
        match self.choices.below(16) {
            0..=3 => {
                self.round()?;
                if self.scheduler.config().preemption {
                    self.start_some()?;
                }
            }
            4 | 5 => self.submit()?,
            6 => self.worker_event()?,
            7 => self.operator_event()?,
            8 => self.pass_time()?,
            _ if self.scheduler.config().preemption && self.choices.once_in(2) => self.crowd()?,
            _ => self.attempt_event()?,
        }
        self.compare()
    }

    /// Where jobs are to be preempted there are always workers, and more jobs than these can run.
    fn crowd(&mut self) -> Result<(), Broken> {
        let there = self.model.machines.values().filter(|machine| machine.state == WorkerState::Running).count();
        if there < 2 && self.choices.once_in(2) { self.join() } else { self.submit() }
    }

    /// Writes the scheduler down and goes on with what is read back.
    ///
    /// # Errors
    /// It cannot be written or read.
    #[cfg(test)]
    pub(crate) fn restart(&mut self) -> Result<(), Broken> {
        let text = serde_json::to_string(&self.scheduler.snapshot()).map_err(|error| error.to_string())?;
        let snapshot = serde_json::from_str(&text).map_err(|error| error.to_string())?;
        let config = self.scheduler.config().clone();
        self.scheduler = Scheduler::restore(snapshot, config).map_err(|error| error.to_string())?;
        self.compare()
    }

    /// Whether nothing is left to choose by.
    #[must_use]
    pub const fn is_over(&self) -> bool {
        self.choices.is_over()
    }

    /// How many attempts were preempted so far.
    #[must_use]
    pub fn preempted(&self) -> usize {
        self.preemptions.count()
    }

    pub(super) fn apply(&mut self, event: Event) -> Result<bool, Broken> {
        let before = self.effects.len();
        let taken = match self.scheduler.apply(self.now, event.clone(), &mut self.effects) {
            Ok(()) => true,
            Err(crate::error::EventError::Fatal(what)) => return Err(format!("fatal after {event:?}: {what}")),
            Err(_) if self.effects.len() > before => return Err(format!("effects of a refused {event:?}")),
            Err(_) => false,
        };
        if taken {
            self.store.event(self.now, &event);
        }
        self.absorb()?;
        Ok(taken)
    }

    pub(super) fn absorb(&mut self) -> Result<(), Broken> {
        for effect in std::mem::take(&mut self.effects) {
            self.hash = fold(self.hash, &effect);
            self.store.effect(&effect);
            self.preemptions.take(&self.model, &effect, (self.scheduler.now(), PREEMPT_PER_MINUTE))?;
            self.model.take(&effect)?;
            // Attempts that were given up are charged no more.
            if let Effect::JobChanged { job, part: crate::effect::Part::Whole, to, .. } = &effect {
                self.settle((*job, 0), *to);
            }
            if let Effect::JobChanged { job, part: crate::effect::Part::Elements(first, last), to, .. } = &effect {
                (*first..=*last).for_each(|index| self.settle((*job, index), *to));
            }
        }
        self.store.write(&self.scheduler);
        Ok(())
    }

    /// A unit that holds no capacity any more charges nobody; one that runs again does.
    fn settle(&mut self, (job, index): (JobId, u32), to: JobState) {
        for (_, live) in self.model.live.iter_mut().filter(|(attempt, _)| (attempt.job, attempt.index) == (job, index))
        {
            if !to.holds_capacity() {
                live.charged = false;
            }
        }
        if to == JobState::Running {
            let newest =
                self.model.live.iter_mut().filter(|(attempt, _)| (attempt.job, attempt.index) == (job, index)).last();
            newest.into_iter().for_each(|(_, live)| live.charged = true);
        }
    }

    fn round(&mut self) -> Result<(), Broken> {
        let limit = if self.choices.once_in(4) { 3 } else { u32::MAX };
        let stats = self.scheduler.round(self.now, limit, &mut self.effects);
        let placed = self.effects.iter().filter(|effect| matches!(effect, Effect::Assign { .. })).count();
        if placed != stats.placed as usize {
            return Err(format!("{placed} assignments, {} counted", stats.placed));
        }
        self.absorb()?;
        self.preemptions.check(&self.scheduler, &self.model)?;
        if stats.limited { Ok(()) } else { self.conserve_work() }
    }

    /// After an unlimited round nothing that is ready, within its quota, fits any worker.
    fn conserve_work(&self) -> Result<(), Broken> {
        let mut free: Vec<(WorkerKey, [u64; 3])> = Vec::new();
        for (key, machine) in &self.model.machines {
            let open = matches!(machine.state, WorkerState::Available | WorkerState::Running);
            let reserved = self.scheduler.reservations().any(|(_, worker, _)| worker == *key);
            if open && !machine.cordoned && !machine.draining && !reserved {
                let (taken, total) = (self.model.taken(*key), totals(&machine.offer));
                let left = std::array::from_fn(|dim| total[dim].saturating_sub(taken[dim]));
                free.push((*key, if taken.iter().zip(&total).all(|(t, o)| t <= o) { left } else { [0; 3] }));
            }
        }
        for ((job, index), _) in self.model.units.iter().filter(|(_, unit)| unit.state == JobState::Queued) {
            let Some(spec) = self.model.spec(*job) else { continue };
            let tenant = spec.tenant.as_str();
            let need = needs(spec);
            let window = self.model.jobs.get(job).map_or(u32::MAX, |job| job.parallel);
            let running = self.model.units.range((*job, 0)..=(*job, u32::MAX));
            let running = running.filter(|(_, unit)| unit.state.holds_capacity()).count();
            if spec.gang.is_some()
                || self.model.paused.contains(tenant)
                || !self.model.within_quota(tenant, plus(need, Preemptions::held(&self.scheduler, &self.model, tenant)))
                || running >= window as usize
            {
                continue;
            }
            for (key, left) in &free {
                let machine = self.model.machines.get(key);
                let fits = need.iter().zip(left).all(|(need, left)| need <= left);
                if fits && machine.is_some_and(|machine| self.model.eligible(*job, machine)) {
                    return Err(format!("{job}.{index} waits though it fits {key}: {need:?} of {left:?}"));
                }
            }
        }
        Ok(())
    }

    fn worker(&mut self) -> Option<WorkerKey> {
        let keys: Vec<WorkerKey> = self.model.machines.keys().copied().collect();
        self.choices.pick(&keys)
    }

    fn worker_event(&mut self) -> Result<(), Broken> {
        if self.choices.once_in(3) {
            return self.join();
        }
        let Some(worker) = self.worker() else { return Ok(()) };
        match self.choices.below(4) {
            0 => self.register(worker),
            1 => self.connect(worker),
            2 => self.apply(Event::ConnectionLost { worker }).map(drop),
            _ => {
                let good = !self.choices.once_in(3);
                self.apply(Event::HealthReport { worker, good }).map(drop)
            }
        }
    }

    /// A worker is declared and registers, unless it is there already.
    fn join(&mut self) -> Result<(), Broken> {
        let names = ["w1", "w2", "w3", "w4"];
        let Some(id) = names.get(self.choices.below(4) as usize).and_then(|id| id.parse().ok()) else { return Ok(()) };
        if !self.apply(Event::WorkerDeclared { id })? {
            return Ok(());
        }
        let mut keys = self.scheduler.worker_keys();
        let created =
            |key: &WorkerKey| self.scheduler.worker_view(*key).is_some_and(|view| view.state == WorkerState::Creating);
        let worker = keys.find(created);
        drop(keys);
        worker.map_or(Ok(()), |worker| self.register(worker))
    }

    fn register(&mut self, worker: WorkerKey) -> Result<(), Broken> {
        let capabilities = self.offer();
        if self.apply(Event::Registered { worker, capabilities: Arc::clone(&capabilities) })? {
            if let Some(machine) = self.model.machines.get_mut(&worker) {
                machine.offer = capabilities;
            }
            return self.connect(worker);
        }
        Ok(())
    }

    /// Connects with a random part of what it should have, and sometimes of what it should not.
    fn connect(&mut self, worker: WorkerKey) -> Result<(), Broken> {
        let mut kept = Vec::new();
        for (attempt, _) in self.model.sent.clone().into_iter().filter(|(_, on)| *on == worker) {
            if self.model.live.contains_key(&attempt) && !self.choices.once_in(4) || self.choices.once_in(30) {
                kept.push(Kept { attempt, started: self.choices.once_in(2) });
            }
        }
        let keeps: BTreeSet<AttemptRef> = kept.iter().map(|kept| kept.attempt).collect();
        let had: Vec<AttemptRef> =
            self.model.live.iter().filter(|(_, live)| live.worker == worker).map(|(attempt, _)| *attempt).collect();
        let connects = self
            .scheduler
            .worker_view(worker)
            .is_some_and(|view| matches!(view.state, WorkerState::Registering | WorkerState::Unhealthy));
        if connects {
            for attempt in had.iter().filter(|attempt| !keeps.contains(attempt)) {
                self.model.live.remove(attempt);
            }
        }
        self.apply(Event::Connected { worker, kept }).map(drop)
    }

    fn operator_event(&mut self) -> Result<(), Broken> {
        let Some(tenant) = self.choices.pick(&self.tenants) else { return Err("no tenants".to_owned()) };
        let Some(worker) = self.worker() else { return Ok(()) };
        match self.choices.below(9) {
            0 => {
                let quota = Quota {
                    max_running_jobs: self.choices.once_in(2).then(|| self.choices.below(6)),
                    max_cpu_m: self.choices.once_in(2).then(|| self.choices.below(8000)),
                    max_active_jobs: self.choices.once_in(3).then(|| self.choices.below(50)),
                    ..Quota::default()
                };
                self.model.quotas.insert(tenant.to_string(), quota.clone());
                self.apply(Event::QuotaChanged { tenant, quota }).map(drop)
            }
            1 => {
                let paused = self.choices.once_in(4);
                let status = if paused { TenantStatus::Paused } else { TenantStatus::Active };
                let weight = 1 + self.choices.below(1000) as u32;
                if paused {
                    self.model.paused.insert(tenant.to_string())
                } else {
                    self.model.paused.remove(tenant.as_str())
                };
                self.apply(Event::TenantChanged {
                    tenant,
                    settings: TenantSettings { weight, status, priority_best: 0 },
                })
                .map(drop)
            }
            2 => self.flag(Event::Cordon { worker }, worker, |machine| machine.cordoned = true),
            3 | 4 => self.flag(Event::Uncordon { worker }, worker, |machine| machine.cordoned = false),
            5 => {
                let deadline = self.choices.once_in(2).then(|| self.now + self.choices.below(30_000));
                let order = DrainOrder { deadline, host_shutdown: self.choices.once_in(4) };
                self.flag(Event::Drain { worker, order }, worker, |machine| machine.draining = true)
            }
            6 => self.flag(Event::Undrain { worker }, worker, |machine| machine.draining = false),
            7 => {
                let capabilities = self.offer();
                let offer = Arc::clone(&capabilities);
                self.flag(Event::Updated { worker, capabilities }, worker, |machine| machine.offer = offer)
            }
            _ => {
                let why = [Departure::Goodbye, Departure::Removed, Departure::Refused, Departure::Superseded];
                let why = self.choices.pick(&why).unwrap_or(Departure::Removed);
                if self.choices.once_in(3) { self.apply(Event::Remove { worker, why }).map(drop) } else { Ok(()) }
            }
        }
    }

    fn flag(
        &mut self,
        event: Event,
        worker: WorkerKey,
        set: impl FnOnce(&mut super::model::Machine),
    ) -> Result<(), Broken> {
        if self.apply(event)?
            && let Some(machine) = self.model.machines.get_mut(&worker)
        {
            set(machine);
        }
        Ok(())
    }

    fn pass_time(&mut self) -> Result<(), Broken> {
        let step = [1, 100, 2_000, 16_000, 40_000, 400_000][self.choices.below(6) as usize];
        // Workers that are lost all the time have nothing to preempt.
        self.now += if self.scheduler.config().preemption { step.min(16_000) } else { step };
        if self.choices.once_in(10) {
            // Time that runs backwards counts as no time.
            self.scheduler
                .apply(self.now.saturating_sub(5000), Event::Tick, &mut self.effects)
                .map_err(|error| error.to_string())?;
            self.absorb()?;
        }
        if !self.choices.once_in(3) {
            for worker in self.model.machines.keys().copied().collect::<Vec<_>>() {
                self.apply(Event::Heartbeat { worker })?;
            }
        }
        self.apply(Event::Tick).map(drop)
    }

    /// The scheduler's own picture against the model's.
    pub(super) fn compare(&self) -> Result<(), Broken> {
        self.scheduler.sanity_check()?;
        for ((job, index), unit) in &self.model.units {
            let array = self.model.jobs.get(job).is_some_and(|job| job.array);
            let Some(view) = self.scheduler.job(*job, array.then_some(*index)) else {
                if unit.finished { continue } else { return Err(format!("{job}.{index} is lost")) }
            };
            if view.state != unit.state || view.attempt != unit.issued {
                return Err(format!("{job}.{index} is {view:?}, effects say {unit:?}"));
            }
        }
        for (key, machine) in &self.model.machines {
            match self.scheduler.worker_view(*key) {
                Some(view) if view.state == machine.state => {}
                None if machine.state.is_terminal() => {}
                view => return Err(format!("{key} is {view:?}, effects say {machine:?}")),
            }
            let here = self.model.live.values().filter(|live| live.worker == *key).count();
            if self.scheduler.worker_view(*key).is_some_and(|view| view.attempts as usize != here) {
                return Err(format!("{key} has {:?}, the model {here} attempts", self.scheduler.worker_view(*key)));
            }
        }
        // A member that was given up is charged no more, which no effect tells.
        let gangs =
            self.model.live.keys().any(|attempt| self.model.spec(attempt.job).is_some_and(|spec| spec.gang.is_some()));
        for tenant in self.tenants.iter().filter(|_| !gangs) {
            let held = Preemptions::held(&self.scheduler, &self.model, tenant.as_str());
            let charged = plus(self.model.charged(tenant.as_str()), held);
            let view = self.scheduler.tenant(tenant);
            if view.is_some_and(|view| [view.cpu_m, view.running] != [charged[0], charged[2]]) {
                return Err(format!("tenant {tenant} is charged {charged:?}: {:?}", self.scheduler.tenant(tenant)));
            }
        }
        Ok(())
    }
}

/// Folds an effect into a number that tells different histories apart.
fn fold(hash: u64, effect: &Effect) -> u64 {
    let text = format!("{effect:?}");
    text.bytes()
        .fold(hash ^ 0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}
