//! A full fleet: one end and the placement it makes room for; cancels; heartbeats.

use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, Throughput};
use orlop_core::id::{Epoch, JobId};
use orlop_scheduler::event::{ArraySpec, Event, Gate, Outcome};

use crate::fleet::{Bench, take_sent};

/// Ends of attempts, each followed by a round, with a million jobs (and fewer) waiting.
pub(crate) fn pairs(criterion: &mut Criterion) {
    const PAIRS: usize = 20_000;
    let mut group = criterion.benchmark_group("end and next placement, jobs waiting");
    group.sample_size(10).throughput(Throughput::Elements(PAIRS as u64));
    for waiting in [1000_u64, 100_000, 1_000_000] {
        let mut bench = Bench::new(1000);
        bench.submit(40_000);
        let mut sent = bench.fill_and_list();
        bench.submit(waiting);
        let mut at = 0;
        let mut now = 2;
        group.bench_function(BenchmarkId::from_parameter(waiting), |criterion| {
            criterion.iter_custom(|iterations| {
                let mut sum = Duration::ZERO;
                for _ in 0..iterations {
                    let begin = Instant::now();
                    let mut placed = 0;
                    for _ in 0..PAIRS {
                        now += 1;
                        // Ends come from all over the fleet, the oldest ones first.
                        let Some((attempt, worker)) = sent.get(at).copied() else { break };
                        at += 1;
                        let event = Event::Result { attempt, worker, outcome: Outcome::Succeeded };
                        let taken = bench.scheduler.apply(2, event, &mut bench.effects);
                        debug_assert!(taken.is_ok());
                        placed += bench.scheduler.round(2, u32::MAX, &mut bench.effects).placed;
                        if bench.effects.len() > 4000 {
                            take_sent(&mut bench.effects, &mut sent);
                        }
                    }
                    sum += begin.elapsed();
                    take_sent(&mut bench.effects, &mut sent);
                    // What was placed is submitted again, so that the queue keeps its length.
                    bench.submit(u64::from(placed));
                }
                sum
            });
        });
    }
    group.finish();
}

/// One cancel of a million elements, and of a million jobs one by one.
pub(crate) fn cancels(criterion: &mut Criterion) {
    const JOBS: u64 = 1_000_000;
    let mut group = criterion.benchmark_group("cancel a million");
    group.sample_size(10);
    group.bench_function("elements of one array", |bench| {
        bench.iter_custom(|iterations| {
            let mut sum = Duration::ZERO;
            for _ in 0..iterations {
                let mut bench = Bench::new(10);
                let Some(job) = JobId::new(Epoch(2), 1) else { return sum };
                let spec = std::sync::Arc::clone(&bench.specs[0]);
                let array = ArraySpec { indices: vec![(0, 999_999)], ..ArraySpec::default() };
                let event = Event::SubmitArray { job, spec, gate: Gate::default(), array };
                debug_assert!(bench.scheduler.apply(1, event, &mut bench.effects).is_ok());
                let begin = Instant::now();
                let taken = bench.scheduler.apply(2, Event::Cancel { job, elements: None }, &mut bench.effects);
                sum += begin.elapsed();
                debug_assert!(taken.is_ok());
            }
            sum
        });
    });
    group.bench_function("jobs", |bench| {
        bench.iter_custom(|iterations| {
            let mut sum = Duration::ZERO;
            for _ in 0..iterations {
                let mut bench = Bench::new(10);
                bench.submit(JOBS);
                let begin = Instant::now();
                for number in 1..=JOBS {
                    let Some(job) = JobId::new(Epoch(1), number) else { return sum };
                    let taken = bench.scheduler.apply(2, Event::Cancel { job, elements: None }, &mut bench.effects);
                    debug_assert!(taken.is_ok());
                    bench.effects.clear();
                }
                sum += begin.elapsed();
            }
            sum
        });
    });
    group.finish();
}

/// Heartbeats of 10,000 workers in turn.
pub(crate) fn heartbeats(criterion: &mut Criterion) {
    let mut bench = Bench::new(10_000);
    let mut group = criterion.benchmark_group("heartbeat");
    group.throughput(Throughput::Elements(bench.workers.len() as u64));
    group.bench_function("10000 workers", |criterion| {
        criterion.iter(|| {
            for worker in &bench.workers {
                let taken = bench.scheduler.apply(2, Event::Heartbeat { worker: *worker }, &mut bench.effects);
                debug_assert!(taken.is_ok());
            }
        });
    });
    group.finish();
}
