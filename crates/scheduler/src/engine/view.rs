//! Read views of jobs, workers, tenants and the fleet. Owns what others may see; the 60–85 % band is a report and decides
//! nothing.

use std::collections::BTreeMap;

use orlop_core::hardware::gpu::ModelKey;
use orlop_core::id::{JobId, TenantName, WorkerId};
use orlop_core::machine::job::JobState;
use orlop_core::machine::worker::WorkerState;
use orlop_core::task::TaskRef;

use super::Scheduler;
use super::record::Task;
use crate::event::{Quota, TenantSettings};
use crate::fleet::dims::{CPU, Dim, MEMORY, SLOTS};
use crate::table::NONE;
use crate::token::WorkerKey;

/// A job, or an element of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobView {
    /// Its state; of a whole array the derived one.
    pub state: JobState,
    /// Number of its newest attempt; 0 = none.
    pub attempt: u32,
    /// The worker of that attempt while anything is known of it.
    pub worker: Option<WorkerKey>,
    /// That attempt was sent ahead and has no slot yet.
    pub waiting: bool,
    /// Own failures that were retried.
    pub retries: u32,
    /// Infrastructure losses.
    pub infra: u32,
    /// When it was submitted, in monotonic milliseconds.
    pub submitted: u64,
}

/// A worker.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkerView {
    /// Its id.
    pub id: WorkerId,
    /// Which incarnation of that id, from 1.
    pub incarnation: u32,
    /// Its state.
    pub state: WorkerState,
    /// Whether it is cordoned.
    pub cordoned: bool,
    /// Whether a drain is pending.
    pub draining: bool,
    /// Attempts that hold its capacity.
    pub attempts: u32,
    /// Attempts that were sent ahead and have no slot yet.
    pub waiting: u32,
    /// Allocated share of cpu, 0 to 1; 0 without capacity.
    pub cpu: f64,
    /// Allocated share of memory.
    pub memory: f64,
    /// What else it has: devices by kind and counters by name.
    pub further: Vec<ResourceUse>,
}

/// How much of something is held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceUse {
    /// Of what: `gpu:<vendor>/<model>`, or `extra:<name>`.
    pub what: String,
    /// What attempts hold.
    pub allocated: u64,
    /// What there is.
    pub total: u64,
}

/// A tenant.
#[derive(Clone, Debug, PartialEq)]
pub struct TenantView {
    /// Its name.
    pub name: TenantName,
    /// Its settings.
    pub settings: TenantSettings,
    /// Its limits.
    pub quota: Quota,
    /// Units in Pending, Queued and Backoff.
    pub pending: u64,
    /// Units that are not final.
    pub active: u64,
    /// Attempts that are charged to it, what is held for it after a preemption included.
    pub running: u64,
    /// Millicores they hold.
    pub cpu_m: u64,
    /// Mebibytes they hold.
    pub memory_mib: u64,
    /// GPUs they hold, by model; those of which they hold none may be left out.
    pub gpus: BTreeMap<ModelKey, u64>,
    /// Dominant share of the fleet; 1 where there is nothing of what it holds.
    pub share: f64,
    /// Dominant share of the fleet divided by weight.
    pub weighted_share: f64,
}

/// How much of the fleet is allocated, and how many workers are below, within and above 60 to 85 %.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FleetUse {
    /// Workers whose capacity counts.
    pub workers: u64,
    /// Allocated share of all cpu, 0 to 1.
    pub cpu: f64,
    /// Allocated share of all memory.
    pub memory: f64,
    /// Workers whose greater share is below 60 %.
    pub below: u64,
    /// Workers within 60 to 85 %.
    pub within: u64,
    /// Workers above 85 %.
    pub above: u64,
}

/// The reported band.
const BAND: std::ops::RangeInclusive<f64> = 0.60..=0.85;

impl Scheduler {
    /// A job, or one of its elements; none if it is not known. Cost: constant, of an element logarithmic in those that left
    /// the queue.
    #[must_use]
    pub fn job(&self, id: JobId, element: Option<u32>) -> Option<JobView> {
        let slot = self.job_slot(id).ok()?;
        let job = self.jobs.get(slot)?;
        let life = match element {
            Some(index) => self.life(Task { job: slot, index })?,
            None => job.life,
        };
        let whole = element.is_none() && job.array != NONE;
        let state = if whole && !life.state.is_terminal() { JobState::Running } else { life.state };
        let live = self.attempts.get(life.live);
        let worker = live.map(|attempt| self.key_of(attempt.worker));
        let waiting = live.is_some_and(|attempt| attempt.waiting);
        let retries = u32::from(life.retries);
        Some(JobView {
            state,
            attempt: life.attempt,
            worker,
            waiting,
            retries,
            infra: life.infra,
            submitted: job.submitted,
        })
    }

    /// Whether an attempt holds capacity: it is not known to have ended. Cost: linear in attempts.
    #[must_use]
    pub fn holds(&self, attempt: TaskRef) -> bool {
        self.attempts.iter().any(|(_, known)| self.reference(known) == attempt)
    }

    /// The attempts that hold capacity of a worker, in the order they came; of an unknown worker none. Cost: linear in them.
    #[must_use]
    pub fn held_by(&self, worker: WorkerKey) -> Vec<TaskRef> {
        let slots = self.worker_at(worker).map(|number| self.attempts_on(number)).unwrap_or_default();
        slots.into_iter().filter_map(|slot| self.attempts.get(slot)).map(|known| self.reference(known)).collect()
    }

    /// Jobs that are known, arrays and gangs counting as one. Cost: constant.
    #[must_use]
    pub fn jobs_known(&self) -> usize {
        self.jobs.len()
    }

    /// A worker; none if the incarnation is not known any more. Cost: constant.
    #[must_use]
    pub fn worker_view(&self, key: WorkerKey) -> Option<WorkerView> {
        let number = self.worker_at(key).ok()?;
        let worker = self.workers.get(number)?;
        Some(WorkerView {
            id: worker.id.clone(),
            incarnation: worker.incarnation,
            state: worker.state,
            cordoned: worker.cordoned,
            draining: worker.drain.is_some(),
            attempts: worker.attempts.saturating_sub(worker.waiting),
            waiting: worker.waiting,
            cpu: self.used(CPU, worker.place),
            memory: self.used(MEMORY, worker.place),
            further: self.further(worker.place),
        })
    }

    /// Whether a worker was silent for so long that its attempts were given up, and has not connected since. Cost: constant.
    #[must_use]
    pub fn is_given_up(&self, key: WorkerKey) -> bool {
        let worker = self.worker_at(key).ok().and_then(|number| self.workers.get(number));
        worker.is_some_and(|worker| worker.reassigned)
    }

    /// All workers that are known, those that left lately included. Cost: linear in workers.
    pub fn worker_keys(&self) -> impl Iterator<Item = WorkerKey> {
        self.workers.iter().map(|(number, _)| self.key_of(number))
    }

    /// A tenant; none if nobody ever named it. Cost: logarithmic in tenants.
    #[must_use]
    pub fn tenant(&self, name: &TenantName) -> Option<TenantView> {
        let tenant = self.tenants.get(*self.tenant_numbers.get(name)? as usize)?;
        Some(TenantView {
            name: tenant.name.clone(),
            settings: tenant.settings,
            quota: tenant.quota.clone(),
            pending: tenant.pending,
            active: tenant.active,
            running: tenant.running,
            cpu_m: tenant.held[CPU],
            memory_mib: tenant.held[MEMORY],
            gpus: self.gpus_of(&tenant.held),
            share: tenant.dominant_share(&self.table).min(1.0),
            weighted_share: tenant.weighted_share(&self.table),
        })
    }

    /// What each band is owed, in dominant shares, and whether it was ready when that last was asked.
    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn band_credit(&self) -> [(f64, bool); 3] {
        std::array::from_fn(|band| (self.credit[band], self.was_ready[band]))
    }

    /// Names of all tenants, in order of their names. Cost: linear in tenants.
    pub fn tenant_names(&self) -> impl Iterator<Item = &TenantName> {
        self.tenant_numbers.keys()
    }

    fn used(&self, dim: usize, place: u32) -> f64 {
        let (free, total) = (self.table.free(dim, place), self.table.total(dim, place));
        if total <= 0 { 0.0 } else { 1.0 - f64::from(free) / f64::from(total) }
    }

    /// Devices and counters of a worker. Cost: linear in kinds.
    fn further(&self, place: u32) -> Vec<ResourceUse> {
        let amount = |amount: i32| u64::try_from(amount).unwrap_or(0);
        let known = (SLOTS + 1..self.dims.len()).filter_map(|dim| {
            let (free, total) = (self.table.free(dim, place), self.table.total(dim, place));
            let taken = amount(total.saturating_sub(free));
            let (what, allocated, total) = match self.dims.get(dim)? {
                Dim::Gpu { vendor, model, .. } => (format!("gpu:{vendor}/{model}"), taken, amount(total)),
                Dim::Extra(name) => (format!("extra:{name}"), taken, amount(total)),
                // In a coarse task a request takes a little more than it asks for.
                Dim::LargeExtra { name, shift } if total > 0 => {
                    let total = self.offers_of(place, name);
                    (format!("extra:{name}"), (taken << shift).min(total), total)
                }
                Dim::LargeExtra { .. } | Dim::Cpu | Dim::Memory | Dim::Slots => return None,
            };
            (total > 0).then_some(ResourceUse { what, allocated, total })
        });
        known.collect()
    }

    /// How much of a counter a worker offers.
    pub(super) fn offers_of(&self, place: u32, counter: &str) -> u64 {
        let worker = self.workers.get(self.table.owner(place));
        worker.and_then(|worker| worker.capabilities.extras.get(counter)).copied().unwrap_or(0)
    }

    fn gpus_of(&self, held: &[u64]) -> BTreeMap<ModelKey, u64> {
        let mut all = BTreeMap::new();
        for dim in self.dims.gpus() {
            if let (Some(Dim::Gpu { model, .. }), Some(held)) =
                (self.dims.get(dim), held.get(dim).filter(|held| **held > 0))
            {
                *all.entry(model.clone()).or_insert(0) += held;
            }
        }
        all
    }

    /// How much of the whole fleet is allocated. Cost: linear in workers.
    #[must_use]
    pub fn fleet_use(&self) -> FleetUse {
        let mut all = FleetUse { workers: self.table.workers(), ..FleetUse::default() };
        let (mut cpu, mut memory) = (0.0, 0.0);
        for (_, worker) in self.workers.iter().filter(|(_, worker)| worker.place != NONE) {
            let (c, m) = (self.used(CPU, worker.place), self.used(MEMORY, worker.place));
            cpu += c * f64::from(self.table.total(CPU, worker.place));
            memory += m * f64::from(self.table.total(MEMORY, worker.place));
            let most = c.max(m);
            if BAND.contains(&most) {
                all.within += 1;
            } else if most < *BAND.start() {
                all.below += 1;
            } else {
                all.above += 1;
            }
        }
        let share = |sum: f64, total: u64| if total == 0 { 0.0 } else { sum / total as f64 };
        all.cpu = share(cpu, self.table.sum(CPU));
        all.memory = share(memory, self.table.sum(MEMORY));
        all
    }
}
