//! Why a job is not running, and what the fleet lacks. Owns the first failing filter of every worker, with
//! numbers; decides nothing.

use std::collections::BTreeMap;

use orlop_core::id::JobId;
use orlop_core::machine::job::JobState;
use orlop_core::machine::worker::WorkerState;

use super::Scheduler;
use super::explanation::{
    Explanation, GangRoom, Lacking, LimitReached, Misfit, Obstacle, ReservedWorkers, Unmet, UnmetDemand, WorkerFit,
};
use super::record::{Job, Spec, Task, Worker};
use crate::class::{Class, Request};
use crate::effect::Limit;
use crate::fleet::dims::{CPU, Dim, MEMORY, SLOTS, mebi_up, requested};
use crate::fleet::kind::{Kind, Mismatch};
use crate::job::{Gang, GpuKind, Runtime};
use crate::table::NONE;
use crate::tenant::Tenant;

/// How much is missing, as the greatest part of a whole capacity.
fn shortage(lacking: &[Lacking]) -> f64 {
    let part = |lack: &Lacking| (lack.needs - lack.free) as f64 / lack.total.max(1) as f64;
    lacking.iter().map(part).fold(0.0, f64::max)
}

/// Labels, features and the runtime that workers of a kind do not have.
fn unmet(class: &Class, kind: &Kind) -> Vec<Unmet> {
    let needs = &class.shape.requires;
    let labels = needs.labels.iter().filter(|wanted| !wanted.matches(&kind.labels));
    let mut list: Vec<Unmet> =
        labels.map(|wanted| Unmet::Label(wanted.clone(), kind.labels.get(&wanted.key).cloned())).collect();
    list.extend(needs.features.difference(&kind.features).cloned().map(Unmet::Feature));
    let runtime = class.shape.runtime;
    if !kind.runtimes.contains(&runtime) && runtime != Runtime::Noop {
        list.push(Unmet::Runtime(runtime, kind.runtimes.iter().copied().collect()));
    }
    list
}

impl Scheduler {
    /// Why a job (of an array, its first element that waits) is not running; none for an unknown job. Cost: linear in
    /// workers, tenants and, up to 1000, the jobs before it in its queue.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use orlop_core::id::{Epoch, JobId};
    /// use orlop_scheduler::config::Config;
    /// use orlop_scheduler::engine::{Misfit, Scheduler};
    /// use orlop_scheduler::event::{Capabilities, Event, StartWindow};
    /// use orlop_scheduler::job::{Demand, Runtime};
    ///
    /// let mut scheduler = Scheduler::new(Config::default(), 7)?;
    /// let mut effects = Vec::new();
    /// scheduler.apply(0, Event::WorkerDeclared { id: "w1".parse()? }, &mut effects)?;
    /// let worker = scheduler.worker_key(&"w1".parse()?).ok_or("declared")?;
    /// let offer = Capabilities {
    ///     cpu_m: 4000,
    ///     memory_bytes: 8 << 30,
    ///     max_jobs: 16,
    ///     runtimes: [Runtime::Process].into(),
    ///     ..Capabilities::default()
    /// };
    /// scheduler.apply(0, Event::Registered { worker, capabilities: Arc::new(offer) }, &mut effects)?;
    /// scheduler.apply(0, Event::Connected { worker, kept: vec![] }, &mut effects)?;
    /// // Three jobs of 2500m each: two of them wait.
    /// let mut spec = Demand::new("physics".parse()?);
    /// spec.resources.cpu_m = 2500;
    /// for number in 1..=3 {
    ///     let job = JobId::new(Epoch(1), number).ok_or("in range")?;
    ///     scheduler.apply(1, Event::Submit { job, spec: Arc::new(spec.clone()), gate: StartWindow::default() }, &mut effects)?;
    /// }
    /// let _ = scheduler.round(2, u32::MAX, &mut effects);
    /// // The last one says why …
    /// let last = JobId::new(Epoch(1), 3).ok_or("in range")?;
    /// let why = scheduler.explain(last).ok_or("known")?;
    /// assert_eq!((why.position, why.nearest), (Some(1), Some(worker)));
    /// assert_eq!(why.workers[0].misfit, Some(Misfit::Capacity));
    /// assert_eq!(why.workers[0].lacking[0].to_string(), "cpu: needs 2500m, free 1500m of 4000m");
    /// assert!(!why.is_infeasible());
    /// // … and a provisioner is told what is missing: room for two jobs of this shape.
    /// let demand = scheduler.demand();
    /// assert_eq!((demand.len(), demand[0].waiting, demand[0].resources.cpu_m), (1, 2, 2500));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn explain(&self, id: JobId) -> Option<Explanation> {
        let slot = self.job_slot(id).ok()?;
        let job = self.jobs.get(slot)?;
        let spec = self.specs.get(job.spec as usize)?;
        let class = self.classes.get(spec.class)?;
        let tenant = self.tenants.get(spec.tenant as usize)?;
        let band = spec.spec.priority.band();
        let rank = self.tenants.iter().filter(|other| {
            let waits = other.lanes.get(band.index()).is_some_and(|lane| !lane.entries.is_empty());
            waits && other.share < tenant.share
        });
        let waits = self.first_waiting(slot);
        let shunned = waits.map_or(NONE, |task| self.shunned(task));
        let fit = |(number, worker): (u32, &Worker)| {
            let fit = self.fit_of(number, worker, class);
            let avoided = number == shunned && matches!(fit.misfit, None | Some(Misfit::Capacity | Misfit::MaxJobs));
            if avoided { WorkerFit { misfit: Some(Misfit::Avoided), ..fit } } else { fit }
        };
        let workers: Vec<WorkerFit> =
            self.workers.iter().filter(|(_, worker)| !worker.state.is_terminal()).map(fit).collect();
        let mut counts = BTreeMap::new();
        for misfit in workers.iter().filter_map(|fit| fit.misfit) {
            *counts.entry(misfit).or_insert(0) += 1;
        }
        let capacity = workers.iter().filter(|fit| matches!(fit.misfit, Some(Misfit::Capacity | Misfit::MaxJobs)));
        let nearest =
            capacity.min_by(|a, b| shortage(&a.lacking).total_cmp(&shortage(&b.lacking))).map(|fit| fit.worker);
        Some(Explanation {
            state: job.life.state,
            band,
            tenant_share: tenant.share,
            tenant_rank: rank.count(),
            position: job.queued.then(|| self.position(slot)),
            obstacle: self.obstacle_of(job, tenant, class, spec),
            reservation: self.reservations.iter().find(|kept| kept.job == slot).map(|kept| ReservedWorkers {
                workers: kept.seats.iter().map(|seat| self.key_of(seat.worker)).collect(),
                shadow: kept.shadow,
            }),
            blocked_since: class.is_blocked().then_some(class.since),
            gang: class.shape.gang.as_ref().map(|gang| self.gang_room(class, gang)),
            workers,
            counts,
            nearest,
        })
    }

    /// The task of a job that waits for a worker, of an array the first one.
    fn first_waiting(&self, slot: u32) -> Option<Task> {
        let job = self.jobs.get(slot)?;
        let Some(array) = self.array_of(job) else {
            return (job.life.state == JobState::Queued).then_some(Task::whole(slot));
        };
        let ready = array.ready.iter().next().map(|(first, ..)| first);
        let held = array.active.iter().find(|(_, life)| life.state == JobState::Queued).map(|(index, _)| *index);
        let index = ready.into_iter().chain(held).min()?;
        Some(Task { job: slot, index })
    }

    /// What keeps a job from being placed before any worker is asked.
    fn obstacle_of(&self, job: &Job, tenant: &Tenant, class: &Class, spec: &Spec) -> Option<Obstacle> {
        match job.life.state {
            JobState::Pending => return Some(Obstacle::NotBefore(job.life.due)),
            JobState::Backoff => return Some(Obstacle::Backoff(job.life.due)),
            JobState::Queued => {}
            _ => return None,
        }
        if !tenant.runs() {
            return Some(Obstacle::TenantPaused);
        }
        if let Some(array) = self.array_of(job).filter(|array| array.running >= array.max_parallel) {
            return Some(Obstacle::Window(array.running));
        }
        let reached = |request: &Request| {
            let mut list = Vec::new();
            tenant.limits(request, &self.dims, |limit| {
                let needs = limit.each.saturating_mul(u64::from(spec.members));
                if limit.used.saturating_add(needs) > limit.most && needs > 0 {
                    let task = if limit.what == Limit::Memory { 1 << 20 } else { 1 };
                    let [used, needs, most] =
                        [limit.used, needs, limit.most].map(|amount: u64| amount.saturating_mul(task));
                    list.push(LimitReached { limit: limit.what, model: limit.model.cloned(), used, needs, most });
                }
            });
            list
        };
        // It is stopped only if no alternative has room; then the one with the fewest limits in the way says most.
        let alternatives = class.requests.iter().filter_map(|number| self.requests.get(*number)).map(reached);
        let least = alternatives.min_by_key(Vec::len)?;
        if !least.is_empty() {
            return Some(Obstacle::Quota(least));
        }
        let key = self.key_of_job(job);
        let barred = self.room(spec.tenant, key, &class.requests, spec.members, &mut Vec::new()) == 0;
        self.quota_reserved_for(spec.tenant).filter(|_| barred).map(Obstacle::QuotaReserved)
    }

    /// How many jobs stand before one in its queue, up to 1000.
    fn position(&self, slot: u32) -> usize {
        let Some(spec) = self.jobs.get(slot).and_then(|job| self.specs.get(job.spec as usize)) else { return 0 };
        let id = self.jobs.get(slot).map_or(0, |job| job.id.as_u64());
        let Some(queue) = self.queues.get(spec.queue as usize) else { return 0 };
        let step = spec.spec.priority.step();
        let before = queue.lists.iter().enumerate().take(step + 1).flat_map(|(at, list)| {
            let live = list.iter().filter(|entry| super::order::valid(&self.jobs, *entry));
            live.filter(move |entry| at < step || self.jobs.get(entry.job).is_some_and(|job| job.id.as_u64() < id))
        });
        before.take(1000).count()
    }

    pub(super) fn fit_of(&self, number: u32, worker: &Worker, class: &Class) -> WorkerFit {
        let place = worker.place;
        let requests = || {
            let vectors = class.requests.iter().filter_map(|number| self.requests.get(*number));
            vectors.filter(|request| self.counts_as(place, request))
        };
        let possible =
            |request: &&Request| self.lacking(class, request, place, |_, total, amount| total < amount).is_empty();
        let never = place != NONE && !requests().any(|request| possible(&request));
        // Of several alternatives that one speaks which lacks the least here, of those that could ever fit.
        let candidates = requests().filter(|request| never || possible(request));
        let lists = candidates.map(|request| self.lacking(class, request, place, |free, _, amount| free < amount));
        let lacking = match place {
            NONE => Vec::new(),
            _ => lists.min_by(|a, b| shortage(a).total_cmp(&shortage(b))).unwrap_or_default(),
        };
        let kind = self.kinds.get(self.table.kind(place));
        let mismatch = kind
            .and_then(|kind| kind.mismatch(class.shape.domain.as_ref(), &class.shape.requires, class.shape.runtime));
        let misfit = if worker.state == WorkerState::Unhealthy {
            Some(Misfit::Health)
        } else if !worker.state.is_schedulable() || worker.drain.is_some() || place == NONE {
            Some(Misfit::State)
        } else if worker.cordoned {
            Some(Misfit::Cordon)
        } else if let Some(mismatch) = mismatch {
            Some(match mismatch {
                Mismatch::Tenant => Misfit::Tenant,
                Mismatch::Labels => Misfit::Labels,
                Mismatch::Features => Misfit::Features,
                Mismatch::Runtime => Misfit::Runtime,
            })
        } else if never {
            Some(Misfit::NeverFits)
        } else if class.fits(&self.table.spot(place), &self.requests) {
            None
        } else if self.table.free(SLOTS, place) < 1 {
            Some(Misfit::MaxJobs)
        } else if !lacking.is_empty() {
            Some(Misfit::Capacity)
        } else if !self.table.is_whole(place) {
            Some(Misfit::Overdrawn)
        } else {
            Some(Misfit::Reserved)
        };
        let lacking = if class.requests.is_empty() { self.lacking_unknown(class, place) } else { lacking };
        let unmet = kind.filter(|_| mismatch.is_some()).map_or_else(Vec::new, |kind| unmet(class, kind));
        WorkerFit { worker: self.key_of(number), misfit, lacking, unmet }
    }

    /// What a place has too little of, where the fleet never had some of what is asked for.
    fn lacking_unknown(&self, class: &Class, place: u32) -> Vec<Lacking> {
        let resources = &class.shape.resources;
        let total = |dim: Option<usize>| dim.map_or(0, |dim| i128::from(self.table.total(dim, place)));
        let free = |dim: Option<usize>| dim.map_or(0, |dim| i128::from(self.table.free(dim, place)));
        let lack = |dimension: String, task, needs: u64, (free, total): (i128, i128)| {
            let needs = i128::from(needs);
            Some(Lacking { dimension, task, needs, free, total }).filter(|lack| lack.total < lack.needs)
        };
        let row = |dimension: String, task, needs: u64, dim: Option<usize>| {
            lack(dimension, task, needs, (free(dim), total(dim)))
        };
        let mebi = u64::try_from(requested(mebi_up(resources.memory_bytes))).unwrap_or(0);
        let mut list: Vec<Lacking> = Vec::new();
        list.extend(row("cpu".to_owned(), "m", resources.cpu_m, Some(CPU)));
        list.extend(row("memory".to_owned(), "Mi", mebi, Some(MEMORY)));
        for (name, amount) in &resources.extras {
            list.extend(lack(name.clone(), "", *amount, self.counted(name, place)));
        }
        let gpus = &resources.gpus;
        if gpus.count > 0 && self.dims.gpus_for(gpus).is_empty() {
            let kind = |kind: &GpuKind| match &kind.model {
                Some(model) => format!("{}/{model}", kind.vendor),
                None => kind.vendor.to_string(),
            };
            let kinds: Vec<String> = gpus.any_of.iter().map(kind).collect();
            let name = if kinds.is_empty() { "gpu".to_owned() } else { format!("gpu {}", kinds.join(" or ")) };
            list.extend(row(name, "", u64::from(gpus.count), None));
        }
        list
    }

    /// How many members of a gang workers have room for, in the group that has most.
    fn gang_room(&self, class: &Class, gang: &Gang) -> GangRoom {
        let mut groups: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
        let mut unknown = false;
        for (_, worker) in self.workers.iter().filter(|(_, worker)| !worker.state.is_terminal()) {
            let place = worker.place;
            unknown |= place == NONE;
            let kind = self.table.kind(place);
            let Some(group) = super::avoid::group_of(Some(gang), self.kinds.get(kind)) else { continue };
            if place == NONE || !class.sees(kind) {
                continue;
            }
            let vectors = || class.requests.iter().filter_map(|number| self.requests.get(*number));
            let times = |amount: &dyn Fn(usize) -> i32| {
                let each = |request: &Request| {
                    let parts = request.need.iter().map(|(dim, need)| amount(usize::from(*dim)) / (*need).max(1));
                    parts.min().map_or(0, |times| u64::try_from(times).unwrap_or(0))
                };
                vectors().map(each).max().unwrap_or(0).min(u64::from(gang.max_per_worker.unwrap_or(u32::MAX)))
            };
            let (now, ever) = groups.entry(group).or_default();
            *now += if self.table.is_open(place) { times(&|dim| self.table.free(dim, place)) } else { 0 };
            *ever += times(&|dim| self.table.total(dim, place));
        }
        let most = |part: fn(&(u64, u64)) -> u64| groups.values().map(part).max().unwrap_or(0);
        GangRoom { size: gang.size, now: most(|(now, _)| *now), ever: most(|(_, ever)| *ever), unknown }
    }

    /// The dimensions of which a place has too little, as `short` judges free, total and needed amounts.
    fn lacking(
        &self,
        class: &Class,
        request: &Request,
        place: u32,
        short: impl Fn(i32, i32, i32) -> bool,
    ) -> Vec<Lacking> {
        let resources = &class.shape.resources;
        let mut list = Vec::new();
        for (dim, amount) in &request.need {
            let dim = usize::from(*dim);
            let (free, total) = (self.table.free(dim, place), self.table.total(dim, place));
            if short(free, total, *amount) {
                let (dimension, task) = self.dimension(dim);
                let (needs, (free, total)) = match self.dims.get(dim) {
                    // As they were given, not as they are counted.
                    Some(Dim::Extra(name) | Dim::LargeExtra { name, .. }) => {
                        let asked = resources.extras.get(name).copied().unwrap_or(0);
                        (i128::from(asked), self.counted(name, place))
                    }
                    _ => (i128::from(*amount), (i128::from(free), i128::from(total))),
                };
                list.push(Lacking { dimension, task, needs, free, total });
            }
        }
        list
    }

    /// Whether a request asks for counters in the units in which a worker has them, if it has them at all.
    fn counts_as(&self, place: u32, request: &Request) -> bool {
        request.need.iter().all(|(dim, _)| match self.dims.get(usize::from(*dim)) {
            Some(Dim::Extra(name) | Dim::LargeExtra { name, .. }) => {
                let has = |dim: usize| self.table.total(dim, place) > 0;
                has(usize::from(*dim)) || !self.dims.extras(name).any(|(other, _)| has(other))
            }
            _ => true,
        })
    }

    /// What is free of a counter of a worker, and how much it has.
    fn counted(&self, name: &str, place: u32) -> (i128, i128) {
        let taken = |(dim, shift): (usize, u32)| {
            (i128::from(self.table.total(dim, place)) - i128::from(self.table.free(dim, place))) << shift
        };
        let taken: i128 = self.dims.extras(name).map(taken).sum();
        let total = i128::from(self.offers_of(place, name));
        (total - taken, total)
    }

    fn dimension(&self, dim: usize) -> (String, &'static str) {
        match self.dims.get(dim) {
            Some(Dim::Cpu) => ("cpu".to_owned(), "m"),
            Some(Dim::Memory) => ("memory".to_owned(), "Mi"),
            Some(Dim::Gpu { vendor, model, .. }) => (format!("gpu {vendor}/{model}"), ""),
            Some(Dim::Extra(name) | Dim::LargeExtra { name, .. }) => (name.clone(), ""),
            Some(Dim::Slots) | None => ("slots".to_owned(), ""),
        }
    }

    /// The demand that no worker has room for, one entry for each class, in the order in which the classes were first seen. Cost: linear in queues and their jobs.
    #[must_use]
    pub fn demand(&self) -> Vec<UnmetDemand> {
        let mut waiting: BTreeMap<u32, u64> = BTreeMap::new();
        for queue in self.queues.iter().filter(|queue| queue.lined) {
            if !self.classes.get(queue.class).is_some_and(Class::is_blocked) {
                continue;
            }
            for entry in queue.lists.iter().flat_map(crate::queue::Fifo::iter) {
                if super::order::valid(&self.jobs, entry) {
                    *waiting.entry(queue.class).or_insert(0) += self.units_of(entry.job);
                }
            }
        }
        for ((queue, _), held) in &self.held_back {
            if let Some(queue) = self.queues.get(*queue as usize) {
                let members = |task: &Task| self.spec_of(task.job).map_or(1, |spec| u64::from(spec.members()));
                *waiting.entry(queue.class).or_insert(0) += held.iter().map(|(.., task)| members(task)).sum::<u64>();
            }
        }
        let class = |(number, waiting)| {
            let class = self.classes.get(number)?;
            Some(UnmetDemand { resources: class.shape.resources.clone(), waiting, since: class.since })
        };
        waiting.into_iter().filter_map(class).collect()
    }

    /// Attempts that a waiting job would make now.
    fn units_of(&self, slot: u32) -> u64 {
        let array = self.jobs.get(slot).and_then(|job| self.array_of(job));
        let members = self.spec_of(slot).map_or(1, |spec| u64::from(spec.members()));
        array.map_or(members, |array| array.ready.len())
    }
}
