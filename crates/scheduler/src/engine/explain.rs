//! Why a job is not running (section 2.9), and what the fleet lacks. Owns the first failing filter of every worker, with
//! numbers; decides nothing.

use std::collections::BTreeMap;
use std::fmt;

use orlop_core::id::JobId;
use orlop_core::machine::job::JobState;
use orlop_core::machine::worker::WorkerState;

use super::Scheduler;
use super::record::Worker;
use crate::class::Class;
use crate::class::request::Request;
use crate::fleet::dims::{Dim, SLOTS};
use crate::fleet::kind::Mismatch;
use crate::job::{Band, Resources};
use crate::table::NONE;
use crate::token::WorkerKey;

/// Which filter turns a worker down, in the order they are asked (section 2.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Misfit {
    /// It is not connected yet, drains or has left.
    State,
    /// It is unhealthy.
    Health,
    /// It is cordoned.
    Cordon,
    /// It is kept for another job.
    Reserved,
    /// It takes jobs of other tenants only.
    Tenant,
    /// A label condition does not hold.
    Labels,
    /// It lacks a feature.
    Features,
    /// It cannot run this kind of job.
    Runtime,
    /// Its whole capacity is too small.
    NeverFits,
    /// It has as many attempts as it may.
    MaxJobs,
    /// Its free capacity is too small.
    Capacity,
    /// A dimension of it is overdrawn since it shrank.
    Overdrawn,
}

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::State => "state",
            Self::Health => "health",
            Self::Cordon => "cordoned",
            Self::Reserved => "reserved",
            Self::Tenant => "tenant",
            Self::Labels => "labels",
            Self::Features => "features",
            Self::Runtime => "runtime",
            Self::NeverFits => "never fits",
            Self::MaxJobs => "max jobs",
            Self::Capacity => "capacity",
            Self::Overdrawn => "overdrawn",
        })
    }
}

/// A dimension of which a worker has too little.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lacking {
    /// Which: `cpu`, `memory`, `slots`, `gpu <vendor>/<model>`, or the counter's name.
    pub dimension: String,
    /// Its unit: `m` for cpu, `Mi` for memory, else nothing.
    pub unit: &'static str,
    /// What the job needs.
    pub needs: i64,
    /// What the worker has free.
    pub free: i64,
    /// What the worker has at all.
    pub total: i64,
}

impl fmt::Display for Lacking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { dimension, unit, needs, free, total } = self;
        write!(f, "{dimension}: needs {needs}{unit}, free {free}{unit} of {total}{unit}")
    }
}

/// What a worker says to a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerFit {
    /// The worker.
    pub worker: WorkerKey,
    /// The first filter that turns it down; none = it fits.
    pub misfit: Option<Misfit>,
    /// Every dimension of which it has too little.
    pub lacking: Vec<Lacking>,
}

/// Why a job is where it is.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Explanation {
    /// Its state.
    pub state: JobState,
    /// Its band.
    pub band: Band,
    /// Dominant share of its tenant divided by weight.
    pub tenant_share: f64,
    /// How many tenants with waiting jobs in this band come before its own.
    pub tenant_rank: usize,
    /// How many jobs of its tenant, band and class come before it; counted up to 1000, and none if it does not wait.
    pub position: Option<usize>,
    /// The tenant's limits have no room for its class.
    pub quota: bool,
    /// Since when its class fits nowhere, in monotonic milliseconds.
    pub blocked_since: Option<u64>,
    /// What every worker says, in the order of their keys; those that left are not asked.
    pub workers: Vec<WorkerFit>,
    /// How many workers each filter turns down.
    pub counts: BTreeMap<Misfit, usize>,
    /// The worker that comes nearest: it lacks the least, measured against its own capacity.
    pub nearest: Option<WorkerKey>,
}

impl Explanation {
    /// Whether no registered worker could ever hold it.
    #[must_use]
    pub fn is_hopeless(&self) -> bool {
        let never = |misfit: &Misfit| {
            matches!(misfit, Misfit::Tenant | Misfit::Labels | Misfit::Features | Misfit::Runtime | Misfit::NeverFits)
        };
        self.workers.iter().all(|fit| fit.misfit.as_ref().is_some_and(never))
    }
}

/// Demand of a class that no worker has room for, for a provisioner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Demand {
    /// What one attempt asks.
    pub resources: Resources,
    /// Jobs, elements and gang members that wait.
    pub waiting: u64,
    /// Since when the class fits nowhere, in monotonic milliseconds.
    pub since: u64,
}

impl Scheduler {
    /// Why a job (of an array, its first element that waits) is not running; none if it is not known. Cost: linear in
    /// workers, tenants and, up to 1000, the jobs before it in its queue.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use orlop_core::id::{Epoch, JobId};
    /// use orlop_scheduler::config::Config;
    /// use orlop_scheduler::engine::{Misfit, Scheduler};
    /// use orlop_scheduler::event::{Capabilities, Event, Gate};
    /// use orlop_scheduler::job::{JobSpec, Runtime};
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
    /// let mut spec = JobSpec::new("physics".parse()?);
    /// spec.resources.cpu_m = 2500;
    /// for number in 1..=3 {
    ///     let job = JobId::new(Epoch(1), number).ok_or("in range")?;
    ///     scheduler.apply(1, Event::Submit { job, spec: Arc::new(spec.clone()), gate: Gate::default() }, &mut effects)?;
    /// }
    /// let _ = scheduler.round(2, u32::MAX, &mut effects);
    /// // The last one says why …
    /// let last = JobId::new(Epoch(1), 3).ok_or("in range")?;
    /// let why = scheduler.explain(last).ok_or("known")?;
    /// assert_eq!((why.position, why.nearest), (Some(1), Some(worker)));
    /// assert_eq!(why.workers[0].misfit, Some(Misfit::Capacity));
    /// assert_eq!(why.workers[0].lacking[0].to_string(), "cpu: needs 2500m, free 1500m of 4000m");
    /// assert!(!why.is_hopeless());
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
        let lane = tenant.lanes.get(band.index())?;
        let rank = self.tenants.iter().filter(|other| {
            let waits = other.lanes.get(band.index()).is_some_and(|lane| !lane.entries.is_empty());
            waits && other.share < tenant.share
        });
        let workers: Vec<WorkerFit> = self
            .workers
            .iter()
            .filter(|(_, worker)| !worker.state.is_terminal())
            .map(|(number, worker)| self.fit_of(number, worker, class))
            .collect();
        let mut counts = BTreeMap::new();
        for misfit in workers.iter().filter_map(|fit| fit.misfit) {
            *counts.entry(misfit).or_insert(0) += 1;
        }
        let short = |fit: &WorkerFit| {
            let share = |lack: &Lacking| (lack.needs - lack.free) as f64 / lack.total.max(1) as f64;
            fit.lacking.iter().map(share).fold(0.0, f64::max)
        };
        let capacity = workers.iter().filter(|fit| matches!(fit.misfit, Some(Misfit::Capacity | Misfit::MaxJobs)));
        let nearest = capacity.min_by(|a, b| short(a).total_cmp(&short(b))).map(|fit| fit.worker);
        Some(Explanation {
            state: job.life.state,
            band,
            tenant_share: tenant.share,
            tenant_rank: rank.count(),
            position: job.queued.then(|| self.position(slot)),
            quota: lane.entries.iter().any(|entry| entry.queue == spec.queue && entry.stopped),
            blocked_since: class.is_blocked().then_some(class.since),
            workers,
            counts,
            nearest,
        })
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

    fn fit_of(&self, number: u32, worker: &Worker, class: &Class) -> WorkerFit {
        let place = worker.place;
        let request = class.requests.first().and_then(|number| self.requests.get(*number));
        let lacking = match request {
            Some(request) if place != NONE => self.lacking(request, place, |free, _, amount| free < amount),
            _ => Vec::new(),
        };
        let kind = self.kinds.get(self.table.kind(place));
        let mismatch = kind
            .and_then(|kind| kind.mismatch(class.shape.domain.as_ref(), &class.shape.requires, class.shape.runtime));
        let never = |request: &Request| !self.lacking(request, place, |_, total, amount| total < amount).is_empty();
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
        } else if request.is_none_or(never) {
            Some(Misfit::NeverFits)
        } else if class.fits(&self.table.spot(place), &self.requests) {
            None
        } else if worker.reserved {
            Some(Misfit::Reserved)
        } else if !self.table.is_whole(place) {
            Some(Misfit::Overdrawn)
        } else if self.table.free(SLOTS, place) < 1 {
            Some(Misfit::MaxJobs)
        } else {
            Some(Misfit::Capacity)
        };
        WorkerFit { worker: self.key_of(number), misfit, lacking }
    }

    /// The dimensions of which a place has too little, as `short` judges free, total and needed amounts.
    fn lacking(&self, request: &Request, place: u32, short: impl Fn(i32, i32, i32) -> bool) -> Vec<Lacking> {
        let mut list = Vec::new();
        for (dim, amount) in &request.need {
            let dim = usize::from(*dim);
            let (free, total) = (self.table.free(dim, place), self.table.total(dim, place));
            if short(free, total, *amount) {
                let (dimension, unit) = self.dimension(dim);
                list.push(Lacking {
                    dimension,
                    unit,
                    needs: i64::from(*amount),
                    free: i64::from(free),
                    total: i64::from(total),
                });
            }
        }
        list
    }

    fn dimension(&self, dim: usize) -> (String, &'static str) {
        match self.dims.get(dim) {
            Some(Dim::Cpu) => ("cpu".to_owned(), "m"),
            Some(Dim::Memory) => ("memory".to_owned(), "Mi"),
            Some(Dim::Gpu { vendor, model, .. }) => (format!("gpu {vendor}/{model}"), ""),
            Some(Dim::Extra(name)) => (name.clone(), ""),
            Some(Dim::Slots) | None => ("slots".to_owned(), ""),
        }
    }

    /// What waits and fits nowhere, by class in the order they were first seen. Cost: linear in queues and their jobs.
    #[must_use]
    pub fn demand(&self) -> Vec<Demand> {
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
        let class = |(number, waiting)| {
            let class = self.classes.get(number)?;
            Some(Demand { resources: class.shape.resources.clone(), waiting, since: class.since })
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
