//! A tenant: settings, limits, what it uses, and its lanes. Owns admission at submit and the room that is left at placement
//!; never places.

use orlop_core::hardware::gpu::ModelKey;
use orlop_core::id::TenantName;
use orlop_core::rate::{Bucket, Rate};
use serde::{Deserialize, Serialize};

use crate::class::Request;
use crate::effect::{Limit, Refusal};
use crate::event::{OnExceed, Quota, TenantSettings, TenantStatus};
use crate::fleet::dims::{CPU, Dim, Dims, MEMORY, mebi_down, mebi_up};
use crate::fleet::{MAX_DIMS, table::Table};
use crate::job::Demand;
use crate::queue::Lane;
use crate::starvation::QuotaReservation;

/// What active jobs of a tenant ask for together; saturates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct QuotaUse {
    pub(crate) jobs: u64,
    pub(crate) cpu: u64,
    pub(crate) memory: u64,
    pub(crate) gpus: u64,
}

impl QuotaUse {
    /// What `times` units of a job ask for, all members of a gang together.
    pub(crate) fn of(spec: &Demand, times: u64) -> Self {
        let members = times.saturating_mul(u64::from(spec.members()));
        Self {
            jobs: members,
            cpu: spec.resources.cpu_m.saturating_mul(members),
            memory: mebi_up(spec.resources.memory_bytes).saturating_mul(members),
            gpus: u64::from(spec.resources.gpus.count).saturating_mul(members),
        }
    }

    /// What so many of the same ask for.
    fn times(self, units: u64) -> Self {
        Self {
            jobs: self.jobs.saturating_mul(units),
            cpu: self.cpu.saturating_mul(units),
            memory: self.memory.saturating_mul(units),
            gpus: self.gpus.saturating_mul(units),
        }
    }

    fn plus(self, other: Self) -> Self {
        Self {
            jobs: self.jobs.saturating_add(other.jobs),
            cpu: self.cpu.saturating_add(other.cpu),
            memory: self.memory.saturating_add(other.memory),
            gpus: self.gpus.saturating_add(other.gpus),
        }
    }

    fn minus(self, other: Self) -> Self {
        Self {
            jobs: self.jobs.saturating_sub(other.jobs),
            cpu: self.cpu.saturating_sub(other.cpu),
            memory: self.memory.saturating_sub(other.memory),
            gpus: self.gpus.saturating_sub(other.gpus),
        }
    }
}

/// A limit of placements, in the units of the dimension: millicores, Mi, devices, attempts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlacementLimit<'a> {
    pub(crate) what: Limit,
    /// Of which GPUs, if it is one by kind.
    pub(crate) model: Option<&'a ModelKey>,
    pub(crate) most: u64,
    pub(crate) used: u64,
    /// What one attempt would add.
    pub(crate) each: u64,
}

/// A tenant.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Tenant {
    pub(crate) name: TenantName,
    pub(crate) settings: TenantSettings,
    pub(crate) quota: Quota,
    /// Units in Pending, Queued and Backoff.
    pub(crate) pending: u64,
    /// Units that are not final.
    pub(crate) active: u64,
    /// Attempts that are charged.
    pub(crate) running: u64,
    /// What they hold, by dimension.
    pub(crate) held: [u64; MAX_DIMS],
    /// What active units ask for.
    pub(crate) demand: QuotaUse,
    pub(crate) lanes: [Lane; 3],
    /// Greatest share of the fleet that it holds, per weight, as last worked out.
    pub(crate) share: f64,
    /// A queue is stopped by the quota.
    pub(crate) stopped: bool,
    /// For which job it reserves its limits, and which it may save for.
    #[serde(default)]
    pub(crate) reservation: QuotaReservation,
    /// A worker names it.
    pub(crate) named: bool,
    /// Submits that are left for now, once there is a limit.
    submits: Option<Bucket>,
}

impl Tenant {
    pub(crate) fn new(name: TenantName) -> Self {
        Self {
            name,
            settings: TenantSettings::default(),
            quota: Quota::default(),
            pending: 0,
            active: 0,
            running: 0,
            held: [0; MAX_DIMS],
            demand: QuotaUse::default(),
            lanes: [Lane::default(), Lane::default(), Lane::default()],
            share: 0.0,
            stopped: false,
            reservation: QuotaReservation::default(),
            named: false,
            submits: None,
        }
    }

    /// Whether its jobs may start.
    pub(crate) fn runs(&self) -> bool {
        self.settings.status != TenantStatus::Paused
    }

    /// Whether its placements have any limit.
    pub(crate) fn is_limited(&self) -> bool {
        let quota = &self.quota;
        let limits = quota.max_running_jobs.or(quota.max_cpu_m).or(quota.max_memory_bytes).or(quota.max_gpus);
        limits.is_some() || !quota.max_gpus_by_kind.is_empty()
    }

    /// Greatest share of the fleet that it holds, per weight: the key of fair division.
    pub(crate) fn weighted_share(&self, table: &Table) -> f64 {
        self.dominant_share(table) / f64::from(self.settings.weight.max(1))
    }

    /// Greatest share of the fleet that it holds; without bound where the fleet has nothing of it.
    pub(crate) fn dominant_share(&self, table: &Table) -> f64 {
        table.greatest_part(|dim| self.held.get(dim).copied().unwrap_or(0)).unwrap_or(0.0)
    }

    /// Takes or gives back what attempts hold.
    pub(crate) fn charge(&mut self, request: &Request, attempts: u32) {
        self.running += u64::from(attempts);
        for (dim, amount) in &request.need {
            if let Some(held) = self.held.get_mut(usize::from(*dim)) {
                *held += u64::try_from(*amount).unwrap_or(0) * u64::from(attempts);
            }
        }
    }

    /// Gives back what one attempt held.
    pub(crate) fn release(&mut self, request: &Request) {
        self.running = self.running.saturating_sub(1);
        for (dim, amount) in &request.need {
            if let Some(held) = self.held.get_mut(usize::from(*dim)) {
                *held = held.saturating_sub(u64::try_from(*amount).unwrap_or(0));
            }
        }
    }

    pub(crate) fn demand_more(&mut self, spec: &Demand, units: u64) {
        self.demand = self.demand.plus(QuotaUse::of(spec, units));
    }

    /// Gives back what `units` units asked for, by what one of them does.
    pub(crate) fn demand_less(&mut self, one: QuotaUse, units: u64) {
        self.demand = self.demand.minus(one.times(units));
    }

    /// How many more attempts of a request its limits allow.
    pub(crate) fn room(&self, request: &Request, dims: &Dims) -> u64 {
        self.room_beside(request, dims, &[])
    }

    /// How many more attempts of a request its limits allow beside what is reserved of each limit, in the order in which these
    /// are told.
    pub(crate) fn room_beside(&self, request: &Request, dims: &Dims, reserved: &[u64]) -> u64 {
        let (mut room, mut reserved) = (u64::MAX, reserved.iter());
        self.limits(request, dims, |limit| {
            let left = limit.most.saturating_sub(limit.used).saturating_sub(reserved.next().copied().unwrap_or(0));
            if let Some(more) = left.checked_div(limit.each) {
                room = room.min(more);
            }
        });
        room
    }

    /// Whether what is used already of the limits that a request counts for leaves what is reserved of them.
    pub(crate) fn spares(&self, request: &Request, dims: &Dims, reserved: &[u64]) -> bool {
        let (mut spares, mut reserved) = (true, reserved.iter());
        self.limits(request, dims, |limit| {
            let reserved = reserved.next().copied().unwrap_or(0);
            spares &= limit.each == 0 || limit.used.saturating_add(reserved) <= limit.most;
        });
        spares
    }

    /// What so many attempts of a request need of each limit, in the order in which these are told; none if that is ever
    /// too much.
    pub(crate) fn needs(&self, request: &Request, dims: &Dims, members: u64) -> Option<Vec<u64>> {
        let (mut needs, mut ever) = (Vec::new(), true);
        self.limits(request, dims, |limit| {
            let need = limit.each.saturating_mul(members);
            ever &= need <= limit.most;
            needs.push(need);
        });
        ever.then_some(needs)
    }

    /// Tells every limit of placements with what is used of it and what one attempt of a request would add.
    pub(crate) fn limits<'a>(&'a self, request: &Request, dims: &Dims, mut tell: impl FnMut(PlacementLimit<'a>)) {
        let quota = &self.quota;
        if !self.is_limited() {
            return;
        }
        let amount = |dim: usize| u64::try_from(request.amount(dim)).unwrap_or(0);
        let mut limit = |what, model, most: Option<u64>, used, each| {
            if let Some(most) = most {
                tell(PlacementLimit { what, model, most, used, each });
            }
        };
        limit(Limit::RunningJobs, None, quota.max_running_jobs, self.running, 1);
        limit(Limit::Cpu, None, quota.max_cpu_m, self.held[CPU], amount(CPU));
        limit(Limit::Memory, None, quota.max_memory_bytes.map(mebi_down), self.held[MEMORY], amount(MEMORY));
        if quota.max_gpus.is_some() || !quota.max_gpus_by_kind.is_empty() {
            let sum = |numbers: &mut dyn Iterator<Item = usize>| {
                numbers.fold((0, 0), |(held, asked), dim| {
                    (held + self.held.get(dim).copied().unwrap_or(0), asked + amount(dim))
                })
            };
            let (held, asked) = sum(&mut dims.gpus());
            limit(Limit::Gpus, None, quota.max_gpus, held, asked);
            for (wanted, most) in &quota.max_gpus_by_kind {
                let of_kind = |dim: &usize| matches!(dims.get(*dim), Some(Dim::Gpu { model, .. }) if model == wanted);
                let (held, asked) = sum(&mut dims.gpus().filter(of_kind));
                limit(Limit::GpusByKind, Some(wanted), Some(*most), held, asked);
            }
        }
    }

    /// Judges a submit of `units` jobs or elements; nothing is charged.
    pub(crate) fn admit(&mut self, now: u64, spec: &Demand, units: u64, array: bool) -> Result<(), Refusal> {
        if self.settings.status == TenantStatus::Closing {
            return Err(Refusal::Closing);
        }
        if spec.priority.0 < self.settings.priority_best {
            return Err(Refusal::Priority { given: spec.priority.0, best: self.settings.priority_best });
        }
        self.never_fits(spec, units, array)?;
        let (pending, active) = (self.pending.saturating_add(units), self.active.saturating_add(units));
        if let Some(limit) = self.quota.max_pending_jobs.filter(|limit| pending > *limit) {
            return Err(Refusal::PendingJobs { used: pending, limit });
        }
        if let Some(limit) = self.quota.max_active_jobs.filter(|limit| active > *limit) {
            return Err(Refusal::ActiveJobs { used: active, limit });
        }
        if self.quota.on_exceed == OnExceed::Deny {
            self.would_exceed(self.demand.plus(QuotaUse::of(spec, units)))?;
        }
        self.rate(now, units)
    }

    /// The placement limits, with what one job or all active ones ask.
    fn placement_limits(&self, demand: QuotaUse) -> [(Limit, u64, Option<u64>); 4] {
        [
            (Limit::RunningJobs, demand.jobs, self.quota.max_running_jobs),
            (Limit::Cpu, demand.cpu, self.quota.max_cpu_m),
            (Limit::Memory, demand.memory, self.quota.max_memory_bytes.map(mebi_down)),
            (Limit::Gpus, demand.gpus, self.quota.max_gpus),
        ]
    }

    fn never_fits(&self, spec: &Demand, units: u64, array: bool) -> Result<(), Refusal> {
        let never = |what, asked, limit| Err(Refusal::NeverFits { what, asked, limit });
        for (what, asked, limit) in self.placement_limits(QuotaUse::of(spec, 1)) {
            if let Some(limit) = limit.filter(|limit| asked > *limit) {
                return never(what, asked, limit);
            }
        }
        let gpus = QuotaUse::of(spec, 1).gpus;
        let kinds = &spec.resources.gpus.any_of;
        let limit_of = |kind: &crate::job::GpuKind| {
            kind.model.as_ref().and_then(|model| self.quota.max_gpus_by_kind.get(model)).copied().unwrap_or(u64::MAX)
        };
        if let Some(limit) = kinds.iter().map(limit_of).max().filter(|limit| gpus > *limit) {
            return never(Limit::GpusByKind, gpus, limit);
        }
        let asked = if spec.timeout_ms == 0 { u64::MAX } else { spec.timeout_ms };
        if let Some(limit) = self.quota.max_timeout_ms.filter(|limit| asked > *limit) {
            return never(Limit::Timeout, asked, limit);
        }
        match self.quota.max_array.filter(|limit| array && units > *limit) {
            Some(limit) => never(Limit::Array, units, limit),
            None => Ok(()),
        }
    }

    fn would_exceed(&self, demand: QuotaUse) -> Result<(), Refusal> {
        for (what, used, limit) in self.placement_limits(demand) {
            if let Some(limit) = limit.filter(|limit| used > *limit) {
                return Err(Refusal::Demand { what, used, limit });
            }
        }
        Ok(())
    }

    /// A token bucket: so many per second, at most two seconds' worth at once.
    fn rate(&mut self, now: u64, units: u64) -> Result<(), Refusal> {
        let Some(per_second) = self.quota.submit_per_second else { return Ok(()) };
        let rate = Rate { per_second, burst: per_second.saturating_mul(2) };
        let bucket = self.submits.get_or_insert_with(|| Bucket::full(&rate, now));
        bucket.take(&rate, now, units).map_err(|retry_after_ms| Refusal::RateLimited { retry_after_ms })
    }
}
