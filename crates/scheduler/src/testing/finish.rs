//! The end of a random world: every worker is back with what it holds, room is made for everybody, and every job goes to
//! its end. Owns that course, which is the same whatever came before, so that two worlds can be compared by their ends.

use std::collections::BTreeMap;
use std::sync::Arc;

use orlop_core::hardware::gpu::Vendor;
use orlop_core::id::WorkerId;
use orlop_core::machine::job::JobState;
use orlop_core::task::TaskRef;

use super::amounts::{COUNTERS, EXTRAS, GPUS, LARGE_COUNTER};
use super::law::{Broken, Law};
use super::model::UnitId;
use super::world::World;
use crate::effect::Effect;
use crate::event::{Capabilities, Event, GpuDevices, Kept, Outcome, Quota, TenantSettings};
use crate::job::Runtime;
use crate::token::WorkerKey;

/// Longer than gates, delays and what time limits of waiting there are, in steps of a second.
const SECONDS: u32 = 90;

impl World<'_> {
    /// Brings every job to its end, by what its id says, and returns how each ended. Jobs that no worker could hold stay
    /// where they are, or expire.
    ///
    /// # Errors
    /// The law that broke.
    pub fn finish(mut self) -> Result<BTreeMap<UnitId, JobState>, Broken> {
        for tenant in self.tenants.clone() {
            self.model.quotas.remove(tenant.as_str());
            self.model.weights.remove(tenant.as_str());
            self.model.paused.remove(tenant.as_str());
            self.apply(Event::QuotaChanged { tenant: tenant.clone(), quota: Quota::unlimited() })?;
            self.apply(Event::TenantChanged { tenant, settings: TenantSettings::default() })?;
        }
        self.come_back()?;
        for (name, zone) in [("z0", "0"), ("z1", "1")] {
            self.giant(name.parse().map_err(|_| Law::Bookkeeping.broken("a bad name"))?, zone)?;
        }
        for _ in 0..SECONDS {
            while self.end_all()? {}
            self.now += 1000;
            for worker in self.model.machines.keys().copied().collect::<Vec<_>>() {
                self.hear(Event::Heartbeat { worker }, worker)?;
            }
            self.apply(Event::Tick)?;
        }
        self.compare()?;
        Ok(self.model.units.iter().map(|(id, unit)| (*id, unit.state)).collect())
    }

    /// Every worker that is out of sight returns with all it should have.
    pub(super) fn come_back(&mut self) -> Result<(), Broken> {
        for worker in self.model.machines.keys().copied().collect::<Vec<_>>() {
            let here = self.model.live.iter().filter(|(_, live)| live.worker == worker);
            let started = |attempt: &TaskRef| {
                self.scheduler.attempt_row(*attempt, worker).is_some_and(|row| row.started_at.is_some())
            };
            let kept =
                here.map(|(attempt, _)| Kept { attempt: *attempt, started: started(attempt) }).collect::<Vec<_>>();
            self.hear(Event::Connected { worker, kept }, worker)?;
            self.hear(Event::HealthReport { worker, good: true }, worker)?;
        }
        Ok(())
    }

    /// A worker with room for everything.
    fn giant(&mut self, id: WorkerId, zone: &str) -> Result<(), Broken> {
        self.apply(Event::WorkerDeclared { id: id.clone() })?;
        let worker: WorkerKey =
            self.scheduler.worker_key(&id).ok_or_else(|| Law::Bookkeeping.broken("it was declared"))?;
        let devices = |(vendor, model, gibi): &(Vendor, &str, u64)| {
            let (vendor, model, memory_bytes) = (*vendor, model.parse().ok()?, *gibi << 30);
            Some(GpuDevices { vendor, model, memory_bytes, count: 1_000_000 })
        };
        let much = |name: &str| if name == LARGE_COUNTER { 1 << 62 } else { 1_000_000 };
        let offer = Arc::new(Capabilities {
            cpu_m: u64::MAX,
            memory_bytes: u64::MAX,
            max_jobs: 1_000_000,
            gpus: GPUS.iter().filter_map(devices).collect(),
            extras: EXTRAS.iter().take(COUNTERS).map(|name| ((*name).to_owned(), much(name))).collect(),
            features: ["cgroup2".to_owned()].into(),
            runtimes: [Runtime::Process, Runtime::Docker].into(),
            labels: BTreeMap::from([("zone".to_owned(), zone.to_owned()), ("cores".to_owned(), "5".to_owned())]),
            ..Capabilities::default()
        });
        self.apply(Event::Registered { worker, capabilities: Arc::clone(&offer) })?;
        if let Some(machine) = self.model.machines.get_mut(&worker) {
            (machine.offer, machine.heard) = (offer, self.scheduler.now());
        }
        self.hear(Event::Connected { worker, kept: Vec::new() }, worker)
    }

    /// Places what can be and ends what runs; returns whether anything did.
    fn end_all(&mut self) -> Result<bool, Broken> {
        let _ = self.scheduler.round(self.now, u32::MAX, &mut self.effects);
        let placed = self.effects.iter().any(|effect| matches!(effect, Effect::Assign { .. }));
        self.credits.forget();
        self.model.hopeless.clear();
        self.absorb(false)?;
        let live: Vec<(TaskRef, WorkerKey)> =
            self.model.live.iter().map(|(attempt, live)| (*attempt, live.worker)).collect();
        for (attempt, worker) in &live {
            let state = self.model.units.get(&(attempt.job, attempt.index)).map(|unit| unit.state);
            let outcome = match attempt.job.counter().wrapping_mul(31).wrapping_add(u64::from(attempt.index)) % 4 {
                _ if state == Some(JobState::Cancelling) => Outcome::Cancelled,
                0 => Outcome::Failed { exit_code: Some(1) },
                1 => Outcome::TimedOut,
                _ => Outcome::Succeeded,
            };
            self.result(*attempt, *worker, outcome)?;
        }
        Ok(placed || !live.is_empty())
    }
}
