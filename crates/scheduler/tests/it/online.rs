//! The scheduler from outside: bytes a job and a worker by a counting allocator (2.10), and how full workers get before the
//! first refusal (2.4).

use std::alloc::System;
use std::sync::Arc;

use orlop_core::id::{Epoch, JobId};
use orlop_scheduler::config::{Config, Policy};
use orlop_scheduler::effect::Effect;
use orlop_scheduler::engine::Scheduler;
use orlop_scheduler::event::{Capabilities, Event, Quota, StartWindow};
use orlop_scheduler::job::{Demand, Runtime};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const GIB: u64 = 1 << 30;

fn add_workers(scheduler: &mut Scheduler, count: u32, cpu_m: u64, memory_bytes: u64) {
    let mut effects = Vec::new();
    let capabilities = Arc::new(Capabilities {
        cpu_m,
        memory_bytes,
        max_jobs: 1024,
        runtimes: [Runtime::Process].into(),
        ..Capabilities::default()
    });
    for number in 0..count {
        let id: orlop_core::id::WorkerId = format!("w{number}").parse().unwrap();
        scheduler.apply(0, Event::WorkerDeclared { id: id.clone() }, &mut effects).unwrap();
        let worker = scheduler.worker_key(&id).unwrap();
        scheduler
            .apply(0, Event::Registered { worker, capabilities: Arc::clone(&capabilities) }, &mut effects)
            .unwrap();
        scheduler.apply(0, Event::Connected { worker, kept: vec![] }, &mut effects).unwrap();
        effects.clear();
    }
}

/// A job that asks this; all of one tenant.
fn spec(cpu_m: u64, memory_bytes: u64) -> Arc<Demand> {
    let mut spec = Demand::new("t".parse().unwrap());
    (spec.resources.cpu_m, spec.resources.memory_bytes) = (cpu_m, memory_bytes);
    Arc::new(spec)
}

fn id(number: u64) -> JobId {
    JobId::new(Epoch(1), number).unwrap()
}

/// Bytes that stay allocated after `act`. Other tests of this binary may run beside it, so many of a thing are measured.
fn kept(act: impl FnOnce()) -> usize {
    let region = Region::new(ALLOCATOR);
    act();
    let change = region.change();
    change.bytes_allocated.saturating_sub(change.bytes_deallocated)
}

#[test]
fn a_queued_job_takes_at_most_200_bytes_and_a_worker_512() {
    const JOBS: u64 = 1_000_000;
    const WORKERS: u32 = 20_000;
    let mut scheduler = Scheduler::new(Config::default(), 1).unwrap();
    // What other tests keep or give back meanwhile is seldom in the middle of five.
    let mut per_worker = [0; 5].map(|_| {
        scheduler = Scheduler::new(Config::default(), 1).unwrap();
        kept(|| add_workers(&mut scheduler, WORKERS, 8000, 32 * GIB)) / WORKERS as usize
    });
    per_worker.sort_unstable();
    let per_worker = per_worker[2];
    let quota = Event::QuotaChanged { tenant: "t".parse().unwrap(), quota: Quota::unlimited() };
    let mut effects = Vec::new();
    scheduler.apply(0, quota, &mut effects).unwrap();
    let specs: Vec<_> = (1..=64).map(|class| spec(class * 100, GIB)).collect();
    let per_job = kept(|| {
        for number in 1..=JOBS {
            let spec = Arc::clone(&specs[(number % 64) as usize]);
            scheduler
                .apply(0, Event::Submit { job: id(number), spec, gate: StartWindow::default() }, &mut effects)
                .unwrap();
            effects.clear();
        }
    }) / JOBS as usize;
    println!("{per_job} bytes a queued job, {per_worker} bytes a worker with its id");
    assert!(per_job <= 200, "{per_job} bytes a queued job");
    assert!(per_worker <= 512, "{per_worker} bytes a worker");
}

/// A stream of numbers by a seed (SplitMix64).
struct Draw(u64);

impl Draw {
    fn within(&mut self, first: u64, last: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        first + (z ^ (z >> 31)) % (last - first + 1)
    }
}

/// The mix of five shapes.
fn mixed(draw: &mut Draw) -> (u64, u64) {
    let shapes = [(2000, 4 * GIB), (1000, 2 * GIB), (1000, GIB), (500, 2 * GIB), (4000, 8 * GIB)];
    shapes[draw.within(0, 4) as usize]
}

/// 100–4000m and 0.25–8 Gi, each uniform.
fn uniform(draw: &mut Draw) -> (u64, u64) {
    (draw.within(100, 4000), draw.within(GIB / 4, 8 * GIB))
}

/// x of a worker's cpu, 0.5 − x of its memory, x in whole percents as people ask for shares of a machine; whole mebibytes.
fn opposed(draw: &mut Draw) -> (u64, u64) {
    let percent = draw.within(5, 45);
    (80 * percent, 16 * 1024 * (50 - percent) / 100 * (GIB / 1024))
}

/// The same in steps of a thousandth, and what is asked of memory rounded up: no four jobs fill a worker exactly.
fn opposed_without_steps(draw: &mut Draw) -> (u64, u64) {
    let thousandths = draw.within(50, 450);
    (8 * thousandths, 16 * GIB / 1000 * (500 - thousandths))
}

/// Use of the tighter resource of the fleet when a job finds no place for the first time, mean over 20 seeds.
fn fullness(policy: Policy, shape: fn(&mut Draw) -> (u64, u64)) -> f64 {
    let mut sum = 0.0;
    for seed in 0..20 {
        let mut config = Config::default();
        config.policy = policy;
        let mut scheduler = Scheduler::new(config, seed).unwrap();
        add_workers(&mut scheduler, 60, 8000, 16 * GIB);
        let (mut draw, mut effects) = (Draw(seed), Vec::<Effect>::new());
        for number in 1.. {
            let (cpu_m, memory_bytes) = shape(&mut draw);
            let event =
                Event::Submit { job: id(number), spec: spec(cpu_m, memory_bytes), gate: StartWindow::default() };
            scheduler.apply(0, event, &mut effects).unwrap();
            effects.clear();
            if scheduler.round(0, u32::MAX, &mut effects).placed == 0 {
                break;
            }
        }
        let fleet = scheduler.fleet_use();
        sum += fleet.cpu.max(fleet.memory);
    }
    sum / 20.0
}

/// What is left of the 0.88 that the contract asks of anti-correlated demand where x has no steps: more cannot be reached by
/// any scheduler. A job takes x of a worker's cpu and 0.5 − x of its memory: half a unit of the worker's two, whatever x is.
/// Four jobs on one worker take both units, so their x must sum to exactly 1, which never happens where x is continuous.
/// So workers end with three jobs, which take 1.5 of 2 units: 0.75 of each resource on average over the fleet, and the
/// tighter one is never below the average. Where x has steps the fourth job is found, and 0.88 is held.
const ANTI_CORRELATED: f64 = JOBS_A_WORKER * UNITS_A_JOB / UNITS_A_WORKER;
/// All of its cpu and all of its memory.
const UNITS_A_WORKER: f64 = 2.0;
/// x + (0.5 − x).
const UNITS_A_JOB: f64 = 0.5;
/// One fewer than would have to fit exactly.
const JOBS_A_WORKER: f64 = UNITS_A_WORKER / UNITS_A_JOB - 1.0;

#[test]
fn workers_are_full_before_the_first_refusal() {
    for (name, shape, least) in [
        ("five shapes", mixed as fn(&mut Draw) -> (u64, u64), 0.96),
        ("uniform", uniform, 0.915),
        ("anti-correlated", opposed, 0.88),
        ("anti-correlated without steps", opposed_without_steps, ANTI_CORRELATED),
    ] {
        let (best, most) = (fullness(Policy::BestFit, shape), fullness(Policy::MostAllocated, shape));
        println!("{name}: best-fit {best:.4}, most-allocated {most:.4}, at least {least}");
        assert!(best >= least, "{name}: {best:.4} is below {least}");
        assert!(best >= most - 0.005, "{name}: {best:.4} is below most-allocated {most:.4}");
    }
}
