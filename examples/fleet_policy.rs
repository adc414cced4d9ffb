//! Shows what a scheduling policy does: `fleet_policy [POLICY] [FILE.svg] [TRACE.csv]` feeds a trace of jobs to a simulated
//! fleet and draws utilisation, waiting time and fairness over time, as text and as SVG.
//!
//! A trace has a job a line, in order of arrival: arrival in ms, tenant, priority, millicores, mebibytes, duration in ms,
//! such as `2500,steady,5,1000,2048,60000`.

#![allow(clippy::print_stdout, reason = "a program for people")]

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::fmt::Write as _;
use std::sync::Arc;

use anyhow::{Context, Result, anyhow};
use orlop_core::id::{Epoch, JobId, WorkerId};
use orlop_core::task::TaskRef;
use orlop_scheduler::config::{Config, Policy};
use orlop_scheduler::effect::Effect;
use orlop_scheduler::engine::Scheduler;
use orlop_scheduler::event::{Capabilities, Event, Outcome, StartWindow};
use orlop_scheduler::job::{Demand, Priority, Runtime};
use orlop_scheduler::token::WorkerKey;

/// How often the curves get a point, in milliseconds.
const STEP: u64 = 60_000;

/// A line of a trace.
struct Line {
    arrival: u64,
    spec: Arc<Demand>,
    duration: u64,
}

/// One point of the curves, each 0 to 1 but the wait.
#[derive(Clone, Copy, Default)]
struct Point {
    utilisation: f64,
    /// Mean wait of jobs that started since the last point, in seconds.
    wait: f64,
    /// Jain's index over the tenants' weighted dominant shares: 1 = all equal.
    fairness: f64,
}

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let names = ["best-fit", "most-allocated", "first-fit", "spread", "dot-product", "balanced"];
    let name = arguments.next().unwrap_or_else(|| "best-fit".to_owned());
    let policy = names.iter().zip(Policy::ALL).find(|(known, _)| **known == name).map(|(_, policy)| policy);
    let policy = policy.ok_or_else(|| anyhow!("`{name}` is not a policy; use one of {}", names.join(", ")))?;
    let file = arguments.next();
    let trace = match arguments.next() {
        Some(trace) => parse(&std::fs::read_to_string(&trace).context(trace)?)?,
        None => made_up()?,
    };
    let points = simulate(policy, &trace)?;
    println!("{} jobs under {name}, a point a minute", trace.len());
    for (title, curve) in curves(&points) {
        println!("{title:<12} {}", sparks(&curve));
    }
    if let Some(file) = file {
        std::fs::write(&file, svg(&name, &points)?).context(file)?;
    }
    Ok(())
}

fn parse(text: &str) -> Result<Vec<Line>> {
    let mut trace = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let fields: Vec<&str> = line.split(',').map(str::trim).collect();
        let [arrival, tenant, priority, cpu_m, memory_mib, duration] = fields[..] else {
            return Err(anyhow!("line {number}: six fields are needed, found {}", fields.len()));
        };
        let amount = |what: &str, text: &str| {
            text.parse::<u64>()
                .with_context(|| format!("line {number}: {what} is `{text}`, which is not a whole number"))
        };
        let mut spec = Demand::new(tenant.parse().with_context(|| format!("line {number}: tenant"))?);
        spec.priority = Priority(u8::try_from(amount("priority", priority)?).unwrap_or(u8::MAX));
        spec.resources.cpu_m = amount("millicores", cpu_m)?;
        spec.resources.memory_bytes = amount("mebibytes", memory_mib)?.saturating_mul(1 << 20);
        spec.check().with_context(|| format!("line {number}"))?;
        let (arrival, duration) = (amount("arrival", arrival)?, amount("duration", duration)?);
        trace.push(Line { arrival, spec: Arc::new(spec), duration });
    }
    Ok(trace)
}

/// Two hours of three tenants: a steady one, one that comes in bursts, and one with large jobs.
fn made_up() -> Result<Vec<Line>> {
    let mut state = 1_u64;
    let mut draw = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let mut text = String::new();
    for second in 0..7200_u64 {
        let (memory, time) = (256 * (1 + draw(16)), 60_000 + draw(600_000));
        writeln!(text, "{},steady,5,{},{memory},{time}", second * 1000, 250 * (1 + draw(8)))?;
        if second / 600 % 3 == 1 {
            writeln!(text, "{},bursts,5,{},{},{}", second * 1000, 500, 512, 30_000 + draw(120_000))?;
        }
        if second % 40 == 0 {
            writeln!(text, "{},large,2,{},{},{}", second * 1000, 8000, 16_384, 300_000 + draw(600_000))?;
        }
    }
    parse(&text)
}

/// What the simulated fleet still has to do.
#[derive(Default)]
struct Fleet {
    /// When attempts end.
    ends: BinaryHeap<Reverse<(u64, TaskRef, WorkerKey)>>,
    durations: BTreeMap<JobId, (u64, u64)>,
    waits: Vec<u64>,
}

fn simulate(policy: Policy, trace: &[Line]) -> Result<Vec<Point>> {
    let mut config = Config::default();
    config.policy = policy;
    // The simulated workers send no heartbeats.
    (config.heartbeat_timeout, config.reassign_after, config.fail_after) = (u64::MAX, u64::MAX, u64::MAX);
    let (mut scheduler, mut effects) = (Scheduler::new(config, 1)?, Vec::new());
    add_workers(&mut scheduler)?;
    let (mut fleet, mut points) = (Fleet::default(), Vec::new());
    let mut lines = trace.iter().zip(1..).peekable();
    let mut sample = STEP;
    loop {
        let arrival = lines.peek().map(|(line, _)| line.arrival);
        let end = fleet.ends.peek().map(|Reverse((at, ..))| *at);
        let Some(now) = arrival.into_iter().chain(end).min() else {
            points.push(point(&scheduler, &mut fleet.waits));
            return Ok(points);
        };
        while sample <= now {
            points.push(point(&scheduler, &mut fleet.waits));
            sample += STEP;
        }
        while let Some((line, number)) = lines.next_if(|(line, _)| line.arrival <= now) {
            let job = JobId::new(Epoch(1), number).context("too many jobs")?;
            fleet.durations.insert(job, (now, line.duration));
            scheduler.apply(
                now,
                Event::Submit { job, spec: Arc::clone(&line.spec), gate: StartWindow::default() },
                &mut effects,
            )?;
        }
        while let Some(Reverse((at, attempt, worker))) =
            fleet.ends.peek().copied().filter(|Reverse((at, ..))| *at <= now)
        {
            fleet.ends.pop();
            scheduler.apply(
                at,
                Event::Result { attempt, worker, outcome: Outcome::Succeeded, ran_ms: None },
                &mut effects,
            )?;
        }
        let _ = scheduler.round(now, u32::MAX, &mut effects);
        for effect in std::mem::take(&mut effects) {
            if let Effect::Assign { attempt, worker, .. } = effect
                && let Some((submitted, duration)) = fleet.durations.get(&attempt.job)
            {
                fleet.waits.push(now - submitted);
                fleet.ends.push(Reverse((now + duration, attempt, worker)));
                scheduler.apply(now, Event::Started { attempt, worker }, &mut Vec::new())?;
            }
        }
    }
}

/// Thirty workers of three sizes.
fn add_workers(scheduler: &mut Scheduler) -> Result<()> {
    for number in 0..30_u64 {
        let id: WorkerId = format!("w{number}").parse()?;
        let mut effects = Vec::new();
        scheduler.apply(0, Event::WorkerDeclared { id: id.clone() }, &mut effects)?;
        let worker = scheduler.worker_key(&id).context("it was just declared")?;
        let size = 1 + number % 3;
        let offer = Capabilities {
            cpu_m: 8000 * size,
            memory_bytes: size << 35,
            max_jobs: 256,
            runtimes: [Runtime::Process].into(),
            ..Capabilities::default()
        };
        scheduler.apply(0, Event::Registered { worker, capabilities: Arc::new(offer) }, &mut effects)?;
        scheduler.apply(0, Event::Connected { worker, kept: vec![] }, &mut effects)?;
    }
    Ok(())
}

fn point(scheduler: &Scheduler, waits: &mut Vec<u64>) -> Point {
    let fleet = scheduler.fleet_use();
    let tenants = scheduler.tenant_names().filter_map(|name| scheduler.tenant(name));
    let shares: Vec<f64> = tenants.filter(|tenant| tenant.active > 0).map(|tenant| tenant.weighted_share).collect();
    let (sum, squares) = shares.iter().fold((0.0, 0.0), |(sum, squares), share| (sum + share, squares + share * share));
    let fairness = if squares > 0.0 { sum * sum / (shares.len() as f64 * squares) } else { 1.0 };
    let wait = waits.iter().sum::<u64>() as f64 / 1000.0 / waits.len().max(1) as f64;
    waits.clear();
    Point { utilisation: fleet.cpu.max(fleet.memory), wait, fairness }
}

/// The curves with their titles, each scaled to 0 to 1.
fn curves(points: &[Point]) -> [(String, Vec<f64>); 3] {
    let longest = points.iter().map(|point| point.wait).fold(1.0, f64::max);
    [
        ("utilisation".to_owned(), points.iter().map(|point| point.utilisation).collect()),
        (format!("wait ≤ {longest:.0} s"), points.iter().map(|point| point.wait / longest).collect()),
        ("fairness".to_owned(), points.iter().map(|point| point.fairness).collect()),
    ]
}

fn sparks(curve: &[f64]) -> String {
    const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let level = |value: &f64| LEVELS.get(((value * 8.0) as usize).min(7)).copied().unwrap_or(' ');
    curve.iter().map(level).collect()
}

fn svg(name: &str, points: &[Point]) -> Result<String> {
    const WIDTH: f64 = 900.0;
    const HEIGHT: f64 = 120.0;
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{}\" height=\"{}\">\n",
        WIDTH + 20.0,
        3.0 * (HEIGHT + 40.0) + 20.0
    );
    for (row, (title, curve)) in (0..).zip(curves(points)) {
        let top = 30.0 + f64::from(row) * (HEIGHT + 40.0);
        writeln!(
            text,
            "<text x=\"10\" y=\"{}\" font-family=\"sans-serif\" font-size=\"14\">{title} ({name})</text>",
            top - 6.0
        )?;
        writeln!(
            text,
            "<rect x=\"10\" y=\"{top}\" width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"none\" stroke=\"#ccc\"/>"
        )?;
        let step = WIDTH / curve.len().max(1) as f64;
        let line = (0_u32..).zip(&curve).map(|(at, value)| {
            format!("{:.1},{:.1}", 10.0 + f64::from(at) * step, top + HEIGHT * (1.0 - value.clamp(0.0, 1.0)))
        });
        let line = line.collect::<Vec<_>>().join(" ");
        writeln!(text, "<polyline points=\"{line}\" fill=\"none\" stroke=\"#1f77b4\" stroke-width=\"1.5\"/>")?;
    }
    text.push_str("</svg>\n");
    Ok(text)
}
