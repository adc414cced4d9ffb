//! Fleets and jobs of the benchmarks: 8 sizes of workers, 64 classes, 8 tenants, 3 bands. Owns what is measured on, never
//! the measuring.

use std::collections::BTreeSet;
use std::sync::Arc;

use orlop_core::id::{Epoch, JobId, WorkerId};
use orlop_core::task::TaskRef;
use orlop_scheduler::config::Config;
use orlop_scheduler::effect::Effect;
use orlop_scheduler::engine::Scheduler;
use orlop_scheduler::event::{Capabilities, Event, Quota, StartWindow};
use orlop_scheduler::job::{Demand, Priority, Runtime};
use orlop_scheduler::token::WorkerKey;

/// Millicores and gibibytes of the 8 sizes.
const SIZES: [(u64, u64); 8] =
    [(4000, 16), (8000, 16), (8000, 32), (16_000, 32), (16_000, 64), (32_000, 64), (32_000, 256), (64_000, 128)];

/// Sizes of fleets and lengths of queues that curves are drawn over, and how many tenants there are where that is not
/// what varies.
pub(crate) const FLEETS: &[u32] = &[100, 300, 1000, 3000, 10_000];
pub(crate) const QUEUES: &[u32] = &[1000, 10_000, 100_000, 1_000_000];
pub(crate) const TENANTS: u32 = 8;
/// Submits go through the specifications in steps of this prime, which divides none of their numbers.
const STEP: usize = 389;

/// Everything that was sent, and a scheduler.
pub(crate) struct Bench {
    pub(crate) scheduler: Scheduler,
    pub(crate) effects: Vec<Effect>,
    pub(crate) specs: Vec<Arc<Demand>>,
    pub(crate) workers: Vec<WorkerKey>,
    next: u64,
}

fn must<T, E: std::fmt::Debug>(result: Result<T, E>) -> T {
    match result {
        Ok(value) => value,
        Err(error) => unreachable!("the benchmark breaks a rule: {error:?}"),
    }
}

impl Bench {
    /// A fleet of this many workers of the 8 sizes in turn, and 64 classes × these tenants × 3 bands of
    /// specifications.
    pub(crate) fn new(workers: u32, tenants: u32) -> Self {
        let mut scheduler = must(Scheduler::new(Config::default(), 3));
        let mut effects = Vec::new();
        let offer = |(cpu_m, gib): (u64, u64)| Capabilities {
            cpu_m,
            memory_bytes: gib << 30,
            max_jobs: 1024,
            runtimes: [Runtime::Process].into(),
            ..Capabilities::default()
        };
        let offers = SIZES.map(|size| Arc::new(offer(size)));
        let mut keys = Vec::with_capacity(workers as usize);
        for (number, capabilities) in (0..workers).zip(offers.iter().cycle()) {
            let id: WorkerId = must(format!("w{number}").parse());
            must(scheduler.apply(0, Event::WorkerDeclared { id: id.clone() }, &mut effects));
            let key = must(scheduler.worker_key(&id).ok_or("declared"));
            let capabilities = Arc::clone(capabilities);
            must(scheduler.apply(0, Event::Registered { worker: key, capabilities }, &mut effects));
            must(scheduler.apply(0, Event::Connected { worker: key, kept: vec![] }, &mut effects));
            keys.push(key);
            effects.clear();
        }
        let mut specs = Vec::new();
        for tenant in 0..tenants {
            let name: orlop_core::id::TenantName = must(format!("t{tenant}").parse());
            let quota = Quota::unlimited();
            must(scheduler.apply(0, Event::QuotaChanged { tenant: name.clone(), quota }, &mut effects));
            for band in [1, 5, 8] {
                for class in 0..64_u64 {
                    let mut spec = Demand::new(name.clone());
                    spec.priority = Priority(band);
                    spec.resources.cpu_m = 250 + 250 * (class % 8) * (1 + class / 32);
                    spec.resources.memory_bytes = (256 << (class / 8)) << 17;
                    specs.push(Arc::new(spec));
                }
            }
        }
        Self { scheduler, effects, specs, workers: keys, next: 1 }
    }

    /// The next jobs that are submitted, mixed over tenants, bands and classes.
    pub(crate) fn batch(&mut self, jobs: u64) -> Vec<Event> {
        let mut job = |_| {
            let job = must(JobId::new(Epoch(1), self.next).ok_or("in range"));
            let spec = Arc::clone(&self.specs[(self.next as usize * STEP) % self.specs.len()]);
            self.next += 1;
            Event::Submit { job, spec, gate: StartWindow::default() }
        };
        (0..jobs).map(&mut job).collect()
    }

    /// Takes events; returns how many.
    pub(crate) fn take(&mut self, batch: Vec<Event>) -> u64 {
        let events = batch.len() as u64;
        for event in batch {
            must(self.scheduler.apply(0, event, &mut self.effects));
            if self.effects.len() > 10_000 {
                self.effects.clear();
            }
        }
        self.effects.clear();
        events
    }

    /// Submits this many jobs.
    pub(crate) fn submit(&mut self, jobs: u64) {
        let mut left = jobs;
        while left > 0 {
            let part = left.min(10_000);
            let batch = self.batch(part);
            self.take(batch);
            left -= part;
        }
    }

    /// Makes room for effects, so that nothing of it is counted later.
    pub(crate) fn reserve_effects(&mut self) {
        self.effects.reserve(20_000);
    }

    /// Changes the configuration.
    pub(crate) fn configure(&mut self, change: impl FnOnce(&mut Config)) {
        let mut config = self.scheduler.config().clone();
        change(&mut config);
        must(self.scheduler.apply(0, Event::ConfigChanged { config: Box::new(config) }, &mut self.effects));
    }

    /// Cancels jobs that were not sent, the oldest first, until this many are left.
    pub(crate) fn leave(&mut self, jobs: u64, sent: &[(TaskRef, WorkerKey)]) {
        let gone: BTreeSet<JobId> = sent.iter().map(|(attempt, _)| attempt.job).collect();
        let known = (1..self.next).filter_map(|number| JobId::new(Epoch(1), number));
        let waiting: Vec<JobId> = known.filter(|job| !gone.contains(job)).collect();
        let surplus = (waiting.len() as u64).saturating_sub(jobs);
        for job in waiting.iter().take(surplus as usize) {
            must(self.scheduler.apply(0, Event::Cancel { job: *job, elements: None }, &mut self.effects));
            self.effects.clear();
        }
        self.submit(jobs.saturating_sub(waiting.len() as u64));
    }

    /// Places until nothing fits; returns how many.
    pub(crate) fn fill(&mut self) -> u64 {
        let mut placed = 0;
        loop {
            let stats = self.scheduler.round(1, 10_000, &mut self.effects);
            placed += u64::from(stats.placed);
            self.effects.clear();
            if !stats.limited {
                return placed;
            }
        }
    }

    /// Places until nothing fits; returns what was sent where.
    pub(crate) fn fill_and_list(&mut self) -> Vec<(TaskRef, WorkerKey)> {
        let mut sent = Vec::new();
        loop {
            let stats = self.scheduler.round(1, 10_000, &mut self.effects);
            take_sent(&mut self.effects, &mut sent);
            if !stats.limited {
                return sent;
            }
        }
    }
}

/// Moves what was assigned from effects to a list.
pub(crate) fn take_sent(effects: &mut Vec<Effect>, sent: &mut Vec<(TaskRef, WorkerKey)>) {
    sent.extend(effects.drain(..).filter_map(|effect| match effect {
        Effect::Assign { attempt, worker, .. } => Some((attempt, worker)),
        _ => None,
    }));
}
