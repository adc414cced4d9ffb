//! How well a fleet is used while jobs come and go: refusals at a fixed offered load, utilisation and stranded share, by
//! policy and mix of jobs.
//!
//! `online_report [--workers 60] [--jobs 20000] [--seeds 5] [--loads 0.9,1.0,1.1]`
//!
//! Jobs arrive at random moments (Poisson) and run for exponentially distributed times; a job that finds no worker with room
//! is refused and does not come back. The offered load is what all jobs would use of the scarcer resource if none were
//! refused, divided by what there is. Refused is the share of jobs that were, weighted: the same by what they ask of that
//! resource. Utilisation is the mean of that resource over arrivals, which see the mean over time. Stranded is measured as
//! `pack_into` does: for each worker the mean over its resources of the free share beyond the least free share, then the mean
//! over workers: room that nothing can use because the other resource is fuller.
//! The first fifth of the jobs fills the fleet and is not counted. Equal arguments print equal tables.

#![allow(clippy::print_stdout, reason = "a program for people")]

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use orlop_core::id::{Epoch, JobId, WorkerId};
use orlop_core::task::TaskRef;
use orlop_scheduler::config::{Config, Policy};
use orlop_scheduler::effect::Effect;
use orlop_scheduler::engine::Scheduler;
use orlop_scheduler::event::{Capabilities, Event, Outcome, Quota, StartWindow};
use orlop_scheduler::job::{Demand, Runtime};
use orlop_scheduler::token::WorkerKey;

/// What each worker has: millicores and mebibytes.
const WORKER: (u64, u64) = (8000, 16_384);
/// Mean run time in milliseconds.
const RUN_TIME: f64 = 600_000.0;
/// Use is looked at at every so many arrivals.
const EVERY: u64 = 16;
const NAMES: [&str; 6] = ["best-fit", "most-allocated", "first-fit", "spread", "dot-product", "balanced"];

/// How jobs look: a name, and what a job asks in millicores and mebibytes.
type Mix = (&'static str, fn(&mut Draw) -> (u64, u64));

const MIXES: [Mix; 3] = [("five shapes", five_shapes), ("uniform", uniform), ("anti-correlated", anti_correlated)];

fn five_shapes(draw: &mut Draw) -> (u64, u64) {
    match draw.within(0, 4) {
        0 => (2000, 4096),
        1 => (1000, 2048),
        2 => (1000, 1024),
        3 => (500, 2048),
        _ => (4000, 8192),
    }
}

/// 100–4000m by 0.25–8 Gi, in steps.
fn uniform(draw: &mut Draw) -> (u64, u64) {
    (100 * draw.within(1, 40), 256 * draw.within(1, 32))
}

/// x of a worker's cpu and half a worker less x of its memory, x from 5 to 45 %.
fn anti_correlated(draw: &mut Draw) -> (u64, u64) {
    let percent = draw.within(5, 45);
    (WORKER.0 * percent / 100, WORKER.1 * (50 - percent) / 100)
}

/// A stream of numbers by a seed (SplitMix64).
struct Draw(u64);

impl Draw {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn within(&mut self, first: u64, last: u64) -> u64 {
        first + self.next() % (last - first + 1)
    }

    /// Exponentially distributed, in whole milliseconds: what rounding there is hides how exact a platform's logarithm is.
    fn exponential(&mut self, mean: f64) -> u64 {
        let share = (self.within(1, 1 << 20) as f64) / f64::from(1 << 20);
        (-share.ln() * mean).round() as u64
    }
}

struct Settings {
    workers: u64,
    jobs: u64,
    seeds: u64,
    loads: Vec<f64>,
}

/// What one run of one policy comes to; shares of 1.
#[derive(Clone, Copy, Default)]
struct Row {
    refused: f64,
    weighted: f64,
    utilisation: f64,
    stranded: f64,
}

fn main() -> Result<()> {
    let settings = settings()?;
    let Settings { workers, jobs, seeds, loads } = &settings;
    println!("{workers} workers of {}m and {} Mi, {jobs} jobs a run, mean of {seeds} seeds, in %", WORKER.0, WORKER.1);
    for (name, mix) in MIXES {
        for load in loads {
            println!("\n{name}, offered {:.0}", load * 100.0);
            println!("{:<16}{:>9}{:>10}{:>13}{:>10}", "policy", "refused", "weighted", "utilisation", "stranded");
            for (policy, title) in Policy::ALL.into_iter().zip(NAMES) {
                let mut sum = Row::default();
                for seed in 0..*seeds {
                    let row = run(policy, mix, *load, &settings, seed)?;
                    sum.refused += row.refused;
                    sum.weighted += row.weighted;
                    sum.utilisation += row.utilisation;
                    sum.stranded += row.stranded;
                }
                let percent = |part: f64| part * 100.0 / (*seeds as f64);
                println!(
                    "{title:<16}{:>9.2}{:>10.2}{:>13.1}{:>10.1}",
                    percent(sum.refused),
                    percent(sum.weighted),
                    percent(sum.utilisation),
                    percent(sum.stranded)
                );
            }
        }
    }
    Ok(())
}

fn settings() -> Result<Settings> {
    let mut settings = Settings { workers: 60, jobs: 20_000, seeds: 5, loads: vec![0.9, 1.0, 1.1] };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let value = arguments.next().with_context(|| format!("{argument} wants a value"))?;
        let number = || value.parse::<u64>().ok().filter(|number| *number > 0);
        let number = || number().with_context(|| format!("{argument} wants a number above 0, not `{value}`"));
        match argument.as_str() {
            "--workers" => settings.workers = number()?,
            "--jobs" => settings.jobs = number()?,
            "--seeds" => settings.seeds = number()?,
            "--loads" => settings.loads = value.split(',').map(load).collect::<Result<_>>()?,
            _ => bail!("unknown argument {argument}; the head of the source says what there is"),
        }
    }
    Ok(settings)
}

fn load(text: &str) -> Result<f64> {
    let load = text.parse().ok().filter(|load: &f64| (0.01..=100.0).contains(load));
    load.with_context(|| format!("--loads wants numbers from 0.01 to 100, not `{text}`"))
}

/// Mean shares of a worker that jobs of a mix ask, over many of them.
fn mean_shares(mix: fn(&mut Draw) -> (u64, u64)) -> (f64, f64) {
    const MANY: u32 = 100_000;
    let mut draw = Draw(1);
    let (cpu, memory) = (0..MANY).fold((0, 0), |(cpu, memory), _| {
        let job = mix(&mut draw);
        (cpu + job.0, memory + job.1)
    });
    (cpu as f64 / f64::from(MANY) / WORKER.0 as f64, memory as f64 / f64::from(MANY) / WORKER.1 as f64)
}

fn run(policy: Policy, mix: fn(&mut Draw) -> (u64, u64), load: f64, settings: &Settings, seed: u64) -> Result<Row> {
    let (cpu, memory) = mean_shares(mix);
    let by_cpu = cpu >= memory;
    let between = RUN_TIME * cpu.max(memory) / (load * settings.workers as f64);
    let (mut fleet, mut draw) = (Fleet::new(policy, settings.workers, seed)?, Draw(seed));
    let (mut now, mut row) = (0, Row::default());
    let (mut counted, mut asked, mut looks) = (0_u64, 0_u64, 0_u64);
    for number in 1..=settings.jobs {
        now += draw.exponential(between);
        let (demand, time) = (mix(&mut draw), draw.exponential(RUN_TIME));
        fleet.end_until(now)?;
        if number * 5 > settings.jobs && number % EVERY == 0 {
            let (utilisation, stranded) = fleet.look(by_cpu);
            row.utilisation += utilisation;
            row.stranded += stranded;
            looks += 1;
        }
        let started = fleet.offer(now, number, demand, time)?;
        if number * 5 > settings.jobs {
            let weight = if by_cpu { demand.0 } else { demand.1 };
            (counted, asked) = (counted + 1, asked + weight);
            row.refused += if started { 0.0 } else { 1.0 };
            row.weighted += if started { 0.0 } else { weight as f64 };
        }
    }
    row.refused /= counted.max(1) as f64;
    row.weighted /= asked.max(1) as f64;
    row.utilisation /= looks.max(1) as f64;
    row.stranded /= looks.max(1) as f64;
    Ok(row)
}

/// The scheduler and what its workers run.
struct Fleet {
    scheduler: Scheduler,
    workers: Vec<WorkerKey>,
    ends: BinaryHeap<Reverse<(u64, TaskRef, WorkerKey)>>,
    effects: Vec<Effect>,
}

impl Fleet {
    fn new(policy: Policy, size: u64, seed: u64) -> Result<Self> {
        let mut config = Config::default();
        config.policy = policy;
        // A refused job does not wait, and the simulated workers send no heartbeats.
        (config.max_reservations, config.finished_kept) = (0, 16);
        (config.heartbeat_timeout, config.reassign_after, config.fail_after) = (u64::MAX, u64::MAX, u64::MAX);
        let (mut scheduler, mut effects, mut workers) = (Scheduler::new(config, seed)?, Vec::new(), Vec::new());
        let offer = Arc::new(Capabilities {
            cpu_m: WORKER.0,
            memory_bytes: WORKER.1 << 20,
            max_jobs: 1024,
            runtimes: [Runtime::Process].into(),
            ..Capabilities::default()
        });
        for number in 0..size {
            let id: WorkerId = format!("w{number}").parse()?;
            scheduler.apply(0, Event::WorkerDeclared { id: id.clone() }, &mut effects)?;
            let worker = scheduler.worker_key(&id).context("it was just declared")?;
            scheduler.apply(0, Event::Registered { worker, capabilities: Arc::clone(&offer) }, &mut effects)?;
            scheduler.apply(0, Event::Connected { worker, kept: Vec::new() }, &mut effects)?;
            workers.push(worker);
        }
        let quota = Event::QuotaChanged { tenant: "all".parse()?, quota: Quota::unlimited() };
        scheduler.apply(0, quota, &mut effects)?;
        effects.clear();
        Ok(Self { scheduler, workers, ends: BinaryHeap::new(), effects })
    }

    /// Ends whatever has run its time.
    fn end_until(&mut self, now: u64) -> Result<()> {
        while let Some(Reverse((at, attempt, worker))) =
            self.ends.peek().copied().filter(|Reverse((at, ..))| *at <= now)
        {
            self.ends.pop();
            let event = Event::Result { attempt, worker, outcome: Outcome::Succeeded, ran_ms: None };
            self.scheduler.apply(at, event, &mut self.effects)?;
            self.effects.clear();
        }
        Ok(())
    }

    /// A job arrives; whether it starts. If not, it goes away.
    fn offer(&mut self, now: u64, number: u64, demand: (u64, u64), time: u64) -> Result<bool> {
        let (cpu_m, mebibytes) = demand;
        let job = JobId::new(Epoch(1), number).context("too many jobs")?;
        let mut spec = Demand::new("all".parse()?);
        (spec.resources.cpu_m, spec.resources.memory_bytes) = (cpu_m, mebibytes << 20);
        let event = Event::Submit { job, spec: Arc::new(spec), gate: StartWindow::default() };
        self.scheduler.apply(now, event, &mut self.effects)?;
        let placed = self.scheduler.round(now, u32::MAX, &mut self.effects).placed;
        for effect in std::mem::take(&mut self.effects) {
            if let Effect::Assign { attempt, worker, .. } = effect {
                self.ends.push(Reverse((now + time, attempt, worker)));
                self.scheduler.apply(now, Event::Started { attempt, worker }, &mut self.effects)?;
            }
        }
        if placed == 0 {
            self.scheduler.apply(now, Event::Cancel { job, elements: None }, &mut self.effects)?;
        }
        self.effects.clear();
        Ok(placed > 0)
    }

    /// How much of the scarcer resource is in use, and how much room has no match.
    fn look(&self, by_cpu: bool) -> (f64, f64) {
        let all = self.scheduler.fleet_use();
        let views = self.workers.iter().filter_map(|worker| self.scheduler.worker_view(*worker));
        let stranded: f64 = views.map(|view| (view.cpu - view.memory).abs() / 2.0).sum();
        (if by_cpu { all.cpu } else { all.memory }, stranded / self.workers.len().max(1) as f64)
    }
}
