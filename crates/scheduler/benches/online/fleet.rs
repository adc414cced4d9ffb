//! Fleets and jobs of the benchmarks: 8 sizes of workers, 64 classes, 8 tenants, 3 bands. Owns what is measured on, never
//! the measuring.

use std::sync::Arc;

use orlop_core::id::{Epoch, JobId};
use orlop_scheduler::config::Config;
use orlop_scheduler::effect::Effect;
use orlop_scheduler::engine::Scheduler;
use orlop_scheduler::event::{Capabilities, Event, Gate, Quota};
use orlop_scheduler::job::{JobSpec, Priority, Runtime};
use orlop_scheduler::token::{AttemptRef, WorkerKey};

/// Millicores and gibibytes of the 8 sizes.
const SIZES: [(u64, u64); 8] =
    [(4000, 16), (8000, 16), (8000, 32), (16_000, 32), (16_000, 64), (32_000, 64), (32_000, 256), (64_000, 128)];

/// Everything that was sent, and a scheduler.
pub(crate) struct Bench {
    pub(crate) scheduler: Scheduler,
    pub(crate) effects: Vec<Effect>,
    pub(crate) specs: Vec<Arc<JobSpec>>,
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
    /// A fleet of this many workers of the 8 sizes in turn, and 64 classes × 8 tenants × 3 bands of specifications.
    pub(crate) fn new(workers: u32) -> Self {
        let mut scheduler = must(Scheduler::new(Config::default(), 3));
        let mut effects = Vec::new();
        let mut keys = Vec::new();
        for number in 0..workers {
            let id = must(format!("w{number}").parse());
            must(scheduler.apply(0, Event::WorkerDeclared { id }, &mut effects));
            let key = must(scheduler.worker_key(&must(format!("w{number}").parse())).ok_or("declared"));
            let (cpu_m, gib) = SIZES[number as usize % SIZES.len()];
            let capabilities = Arc::new(Capabilities {
                cpu_m,
                memory_bytes: gib << 30,
                max_jobs: 1024,
                runtimes: [Runtime::Process].into(),
                ..Capabilities::default()
            });
            must(scheduler.apply(0, Event::Registered { worker: key, capabilities }, &mut effects));
            must(scheduler.apply(0, Event::Connected { worker: key, kept: vec![] }, &mut effects));
            keys.push(key);
        }
        effects.clear();
        let mut specs = Vec::new();
        for tenant in 0..8 {
            let name: orlop_core::id::TenantName = must(format!("t{tenant}").parse());
            let quota = Quota::unlimited();
            must(scheduler.apply(0, Event::QuotaChanged { tenant: name.clone(), quota }, &mut effects));
            for band in [1, 5, 8] {
                for class in 0..64_u64 {
                    let mut spec = JobSpec::new(name.clone());
                    spec.priority = Priority(band);
                    spec.resources.cpu_m = 250 + 250 * (class % 8) * (1 + class / 32);
                    spec.resources.memory_bytes = (256 << (class / 8)) << 17;
                    specs.push(Arc::new(spec));
                }
            }
        }
        Self { scheduler, effects, specs, workers: keys, next: 1 }
    }

    /// Submits this many jobs, mixed over tenants, bands and classes.
    pub(crate) fn submit(&mut self, jobs: u64) {
        for _ in 0..jobs {
            let job = must(JobId::new(Epoch(1), self.next).ok_or("in range"));
            // A step that is prime to their number visits every specification.
            let spec = Arc::clone(&self.specs[(self.next as usize * 385) % self.specs.len()]);
            self.next += 1;
            must(self.scheduler.apply(0, Event::Submit { job, spec, gate: Gate::default() }, &mut self.effects));
            if self.effects.len() > 1_000_000 {
                self.effects.clear();
            }
        }
        self.effects.clear();
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
    pub(crate) fn fill_and_list(&mut self) -> Vec<(AttemptRef, WorkerKey)> {
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
pub(crate) fn take_sent(effects: &mut Vec<Effect>, sent: &mut Vec<(AttemptRef, WorkerKey)>) {
    sent.extend(effects.drain(..).filter_map(|effect| match effect {
        Effect::Assign { attempt, worker, .. } => Some((attempt, worker)),
        _ => None,
    }));
}
