//! What workers of a random world do beside their attempts, and what operators do to workers and tenants. Owns these events.

use std::collections::BTreeSet;
use std::sync::Arc;

use orlop_core::machine::job::JobState;
use orlop_core::machine::worker::WorkerState;
use orlop_core::task::TaskRef;

use super::amounts::GPUS;
use super::law::{Broken, Law};
use super::model::Machine;
use super::world::World;
use crate::config::{Config, Policy};
use crate::event::{Departure, DrainOrder, Event, Kept, OnExceed, Quota, TenantSettings, TenantStatus};
use crate::token::WorkerKey;

/// Quotients of shares: bands in thirds, strict, and strict with floors.
const SHARES: [[f64; 3]; 4] = [[1.0 / 3.0; 3], [0.0; 3], [0.0, 0.15, 0.05], [0.2, 0.5, 0.3]];

impl World<'_> {
    pub(super) fn worker(&mut self) -> Option<WorkerKey> {
        let keys: Vec<WorkerKey> = self.model.machines.keys().copied().collect();
        self.choices.pick(&keys)
    }

    pub(super) fn worker_event(&mut self) -> Result<(), Broken> {
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
                self.hear(Event::HealthReport { worker, good }, worker)
            }
        }
    }

    /// A worker is declared and registers, unless it already exists.
    pub(super) fn join(&mut self) -> Result<(), Broken> {
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
        let capabilities = self.offer(worker);
        if self.apply(Event::Registered { worker, capabilities: Arc::clone(&capabilities) })? {
            if let Some(machine) = self.model.machines.get_mut(&worker) {
                (machine.offer, machine.heard) = (capabilities, self.scheduler.now());
            }
            return self.connect(worker);
        }
        Ok(())
    }

    /// Connects with a random part of what it should have, and sometimes of what it should not.
    pub(super) fn connect(&mut self, worker: WorkerKey) -> Result<(), Broken> {
        let mut kept = Vec::new();
        for (attempt, _) in self.model.sent.clone().into_iter().filter(|(_, on)| *on == worker) {
            if self.model.live.contains_key(&attempt) && !self.choices.once_in(4) || self.choices.once_in(30) {
                kept.push(Kept { attempt, started: self.choices.once_in(2) });
            }
        }
        self.claim(worker, &mut kept);
        self.gather(worker, &mut kept);
        self.honest(worker, &mut kept);
        let keeps: BTreeSet<TaskRef> = kept.iter().map(|kept| kept.attempt).collect();
        let had: Vec<TaskRef> =
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
        let whole = if connects { self.whole_gangs(worker, &kept) } else { Vec::new() };
        self.hear(Event::Connected { worker, kept }, worker)?;
        for gang in whole {
            let runs = self.model.units.get(&(gang, 0)).is_some_and(|unit| unit.state == JobState::Running);
            Law::Answers.demand(runs, || format!("{gang} is not adopted although {worker} has kept all of it"))?;
        }
        self.start_heirs()?;
        self.time_worker(worker)
    }

    pub(super) fn operator_event(&mut self) -> Result<(), Broken> {
        if self.choices.once_in(12) {
            return self.configure();
        }
        let Some(worker) = self.worker() else { return Ok(()) };
        match self.choices.below(9) {
            0 => self.limit(),
            1 => self.settle_tenant(),
            2 => self.flag(Event::Cordon { worker }, worker, |machine| machine.cordoned = true),
            3 | 4 => self.flag(Event::Uncordon { worker }, worker, |machine| machine.cordoned = false),
            5 => {
                let deadline = self.choices.once_in(2).then(|| self.now + self.choices.below(30_000));
                let order = DrainOrder { deadline, host_shutdown: self.choices.once_in(4) };
                self.flag(Event::Drain { worker, order }, worker, |machine| machine.draining = true)
            }
            6 => self.flag(Event::Undrain { worker }, worker, |machine| machine.draining = false),
            7 => {
                let capabilities = self.offer(worker);
                let (offer, now) = (Arc::clone(&capabilities), self.scheduler.now().max(self.now));
                self.turns.anew();
                self.flag(Event::Updated { worker, capabilities }, worker, |machine| {
                    (machine.offer, machine.heard) = (offer, now);
                })
            }
            _ => {
                let why = [Departure::Goodbye, Departure::Removed, Departure::Refused, Departure::Superseded];
                let why = self.choices.pick(&why).unwrap_or(Departure::Removed);
                if self.choices.once_in(3) { self.apply(Event::Remove { worker, why }).map(drop) } else { Ok(()) }
            }
        }
    }

    /// Another quota for a tenant.
    fn limit(&mut self) -> Result<(), Broken> {
        let Some(tenant) = self.choices.pick(&self.tenants) else { return Ok(()) };
        let mut quota = Quota {
            max_running_jobs: self.choices.once_in(2).then(|| self.choices.below(6)),
            max_cpu_m: self.choices.once_in(2).then(|| self.choices.below(8000)),
            max_active_jobs: self.choices.once_in(3).then(|| self.choices.below(50)),
            max_memory_bytes: self.choices.once_in(4).then(|| self.choices.below(9) << 30),
            max_gpus: self.choices.once_in(3).then(|| self.choices.below(5)),
            ..Quota::default()
        };
        for (_, model, _) in GPUS {
            if let Ok(model) = model.parse()
                && self.choices.once_in(4)
            {
                quota.max_gpus_by_kind.insert(model, self.choices.below(3));
            }
        }
        if self.choices.once_in(6) {
            quota.on_exceed = OnExceed::Deny;
        }
        self.model.quotas.insert(tenant.to_string(), quota.clone());
        self.apply(Event::QuotaChanged { tenant, quota }).map(drop)
    }

    /// Other settings for a tenant; some weights are none.
    fn settle_tenant(&mut self) -> Result<(), Broken> {
        let Some(tenant) = self.choices.pick(&self.tenants) else { return Ok(()) };
        let status = match self.choices.below(8) {
            0 | 1 => TenantStatus::Paused,
            2 => TenantStatus::Closing,
            _ => TenantStatus::Active,
        };
        let weight = [100, 1, 1000, 50, 0, u32::MAX][self.choices.below(6) as usize];
        let priority_best = if self.choices.once_in(8) { 4 } else { 0 };
        let settings = TenantSettings { weight, status, priority_best };
        if self.apply(Event::TenantChanged { tenant: tenant.clone(), settings })? {
            self.model.weights.insert(tenant.to_string(), weight);
            if status == TenantStatus::Paused {
                self.model.paused.insert(tenant.to_string());
            } else {
                self.model.paused.remove(tenant.as_str());
            }
        }
        Ok(())
    }

    /// Another configuration; some make no sense.
    fn configure(&mut self) -> Result<(), Broken> {
        let known = self.scheduler.config().clone();
        let config = Config {
            policy: self.choices.pick(&Policy::ALL).unwrap_or_default(),
            run_max: [1, 3, 32, 1024, 0][self.choices.below(5) as usize],
            band_share: SHARES[self.choices.below(4) as usize],
            max_reservations: [0, 1, 16][self.choices.below(3) as usize],
            ..known
        };
        self.turns.anew();
        self.apply(Event::ConfigChanged { config: Box::new(config) }).map(drop)
    }

    /// An event by which a worker is heard.
    pub(super) fn hear(&mut self, event: Event, worker: WorkerKey) -> Result<(), Broken> {
        let heard = self.apply(event)?;
        if let Some(machine) = self.model.machines.get_mut(&worker).filter(|_| heard) {
            machine.heard = self.scheduler.now();
        }
        Ok(())
    }

    pub(super) fn flag(
        &mut self,
        event: Event,
        worker: WorkerKey,
        set: impl FnOnce(&mut Machine),
    ) -> Result<(), Broken> {
        if self.apply(event)?
            && let Some(machine) = self.model.machines.get_mut(&worker)
        {
            set(machine);
        }
        Ok(())
    }
}
