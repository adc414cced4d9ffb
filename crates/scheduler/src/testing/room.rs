//! What could be placed: free capacity beside reservations, limits of tenants, shares of the fleet. The laws
//! about order and work conservation rest on it.

use std::collections::BTreeMap;

use orlop_core::id::JobId;
use orlop_core::machine::job::JobState;
use orlop_core::machine::worker::WorkerState;

use super::amounts::{
    Amounts, CPU, MEMORY, NOTHING, SLOTS, alternatives, gpu_dims, hosts, minus, needs, plus, times, totals, within,
};
use super::model::{Machine, Model, UnitId};
use crate::event::Quota;
use crate::job::Demand;
use crate::token::WorkerKey;

/// Priority and identity: the order inside a tenant and band.
pub(super) type Key = (u8, UnitId);

/// A worker that takes placements, and what it has left.
pub(super) type Open<'a> = (WorkerKey, &'a Machine, Amounts);

/// The jobs of one tenant, band and shape that wait, by the first of them.
#[derive(Clone, Debug)]
pub(super) struct Line {
    pub(super) tenant: String,
    pub(super) band: usize,
    pub(super) class: usize,
    /// Priority and identity of the first.
    pub(super) first: Key,
}

/// Whether a tenant that holds `held` with `new` among it keeps its limits; what is not asked for is not looked at.
pub(super) fn admits(quota: &Quota, held: &Amounts, new: &Amounts) -> bool {
    let keeps = |limit: Option<u64>, dims: &mut dyn Iterator<Item = usize>| {
        let (held, new) = dims.fold((0_u64, 0), |(h, n), dim| (h.saturating_add(held[dim]), n | new[dim]));
        limit.is_none_or(|limit| new == 0 || held <= limit)
    };
    keeps(quota.max_running_jobs, &mut [SLOTS].into_iter())
        && keeps(quota.max_cpu_m, &mut [CPU].into_iter())
        && keeps(quota.max_memory_bytes.map(|bytes| bytes >> 20), &mut [MEMORY].into_iter())
        && keeps(quota.max_gpus, &mut gpu_dims(None))
        && quota.max_gpus_by_kind.iter().all(|(model, most)| keeps(Some(*most), &mut gpu_dims(Some(model.as_str()))))
}

impl Model {
    /// Workers that take placements; those with a dimension overdrawn and those that are kept for somebody do not.
    pub(super) fn open(&self) -> Vec<Open<'_>> {
        let mut open = self.open_or_kept();
        open.retain(|(key, ..)| !self.reserved.values().any(|workers| workers.contains(key)));
        open
    }

    /// Workers that take placements, of anybody or of whom they are kept for.
    pub(super) fn open_or_kept(&self) -> Vec<Open<'_>> {
        let mut open = Vec::new();
        for (key, machine) in &self.machines {
            let state = matches!(machine.state, WorkerState::Available | WorkerState::Running);
            if !state || machine.cordoned || machine.draining {
                continue;
            }
            let (taken, total) = (self.taken(*key), totals(&machine.offer));
            if within(&taken, &total) {
                open.push((*key, machine, minus(&total, &taken)));
            }
        }
        open
    }

    /// What each attempt of a job may take of its worker, beside what is held for its tenant and what this reserves for another job.
    pub(super) fn allowed(&self, job: JobId, held: &Amounts) -> Vec<Amounts> {
        let Some(spec) = self.spec(job) else { return Vec::new() };
        let (tenant, members) = (spec.tenant.as_str(), u64::from(spec.members()));
        let quota = self.quotas.get(tenant).cloned().unwrap_or_default();
        let charged = plus(self.charged(tenant), held);
        let mut reserved = self.reserved(job, &quota);
        if reserved.is_empty() {
            reserved.push(NOTHING);
        }
        let leaves = |need: &Amounts| {
            let new = times(need, members);
            reserved.iter().all(|reserved| admits(&quota, &plus(plus(charged, &new), reserved), &new))
        };
        alternatives(spec).into_iter().map(|gpu| needs(spec, gpu)).filter(leaves).collect()
    }

    /// Where a job could be placed now; of a gang the place of some member. Nothing is found for what is paused, over its
    /// limits, or does not fit as a whole.
    pub(super) fn could(&self, job: JobId, open: &[Open<'_>], held: &Amounts) -> Option<WorkerKey> {
        let spec = self.spec(job)?;
        if self.paused.contains(spec.tenant.as_str()) {
            return None;
        }
        self.place_for(spec, &self.allowed(job, held), open)
    }

    /// Where a job could be placed by one of its vectors.
    pub(super) fn place_for(&self, spec: &Demand, allowed: &[Amounts], open: &[Open<'_>]) -> Option<WorkerKey> {
        let most = |left: &Amounts| allowed.iter().map(|need| hosts(need, left)).max().unwrap_or(0);
        let seen = open.iter().filter(|(_, machine, _)| self.eligible(spec, machine));
        let Some(gang) = &spec.gang else {
            return seen.filter(|(.., left)| most(left) > 0).map(|(key, ..)| *key).next();
        };
        let mut groups: BTreeMap<&str, (u64, Option<WorkerKey>)> = BTreeMap::new();
        for (key, machine, left) in seen {
            let group = match &gang.same_label {
                None => Some(""),
                Some(label) => machine.offer.labels.get(label).map(String::as_str),
            };
            let times = most(left).min(u64::from(gang.max_per_worker.unwrap_or(u32::MAX)));
            if let Some(group) = group.filter(|_| times > 0) {
                let (sum, place) = groups.entry(group).or_default();
                *sum += times;
                *place = place.or(Some(*key));
            }
        }
        groups.into_values().find(|(sum, _)| *sum >= u64::from(gang.size)).and_then(|(_, place)| place)
    }

    /// How many elements of an array hold capacity.
    fn running(&self, id: UnitId) -> usize {
        let units = self.units.range((id.0, 0)..=(id.0, u32::MAX));
        units.filter(|(_, unit): &(_, &super::model::ModelTask)| JobState::holds_capacity(unit.state)).count()
    }

    /// Whether a unit that waits stands in its line: arrays whose window is full do not, nor do those whom only the worker where
    /// they failed has room for.
    pub(super) fn stands(&self, id: UnitId) -> bool {
        self.in_window(id) && !self.lets_pass(id)
    }

    fn in_window(&self, id: UnitId) -> bool {
        let window = |job: &super::model::Job| !job.array || self.running(id) < job.parallel as usize;
        self.jobs.get(&id.0).is_some_and(window)
    }

    /// All lines.
    pub(super) fn lines(&self) -> Vec<Line> {
        self.lines_of(&|id| self.stands(id))
    }

    /// All lines, those included that let others pass.
    pub(super) fn whole_lines(&self) -> Vec<Line> {
        self.lines_of(&|id| self.in_window(id))
    }

    fn lines_of(&self, stands: &dyn Fn(UnitId) -> bool) -> Vec<Line> {
        let mut lines: BTreeMap<(&str, usize, usize), Key> = BTreeMap::new();
        for id in self.waiting.iter().filter(|id| stands(**id)) {
            let Some(job) = self.jobs.get(&id.0) else { continue };
            let (band, key) = (job.spec.priority.band().index(), (job.spec.priority.0, *id));
            let first = lines.entry((job.spec.tenant.as_str(), band, job.class)).or_insert(key);
            *first = key.min(*first);
        }
        let line = |((tenant, band, class), first): ((&str, usize, usize), Key)| Line {
            tenant: tenant.to_owned(),
            band,
            class,
            first,
        };
        lines.into_iter().map(line).collect()
    }

    /// What the fleet has.
    pub(super) fn fleet(&self) -> Amounts {
        let counted = self.machines.values().filter(|machine| machine.counted);
        counted.fold(NOTHING, |sum, machine| plus(sum, &totals(&machine.offer)))
    }

    /// The share of the fleet that a tenant holds, per weight.
    pub(super) fn share(&self, tenant: &str, fleet: &Amounts) -> f64 {
        let held = self.charged(tenant);
        let part = |(held, total): (&u64, &u64)| match (held, total) {
            (0, _) => 0.0,
            (_, 0) => f64::MAX,
            (held, total) => *held as f64 / *total as f64,
        };
        let weight = self.weights.get(tenant).copied().unwrap_or(100);
        held.iter().zip(fleet).map(part).fold(0.0, f64::max) / f64::from(weight.max(1))
    }
}

/// The dominant share of a request vector, at least 10⁻⁹.
pub(super) fn cost(need: &Amounts, fleet: &Amounts) -> f64 {
    let part = |(need, total): (&u64, &u64)| match (need, total) {
        (0, _) => 0.0,
        (_, 0) => 1.0,
        (need, total) => *need as f64 / *total as f64,
    };
    need.iter().zip(fleet).map(part).fold(1e-9, f64::max)
}
