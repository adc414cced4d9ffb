//! Bulk placement from an empty fleet to the first refusal of every class, and submits.

use std::time::{Duration, Instant};

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput};
use orlop_scheduler::engine::Scheduler;

use crate::fleet::Bench;

/// Placements over the size of the fleet, with more jobs of every class than fit.
pub(crate) fn bulk(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("bulk placement, workers");
    group.sample_size(10);
    for workers in [100_u32, 1000, 10_000] {
        let mut trial = Bench::new(workers);
        trial.submit(u64::from(workers) * 40);
        let placed = trial.fill();
        group.throughput(Throughput::Elements(placed));
        group.bench_function(BenchmarkId::from_parameter(workers), |bench| {
            bench.iter_custom(|iterations| {
                let mut sum = Duration::ZERO;
                for _ in 0..iterations {
                    let mut bench = Bench::new(workers);
                    bench.submit(u64::from(workers) * 40);
                    let begin = Instant::now();
                    bench.fill();
                    sum += begin.elapsed();
                }
                sum
            });
        });
    }
    group.finish();
}

/// Submits over how many jobs wait already.
pub(crate) fn submits(criterion: &mut Criterion) {
    const BATCH: u64 = 100_000;
    let mut group = criterion.benchmark_group("submit, jobs waiting");
    group.sample_size(10).throughput(Throughput::Elements(BATCH));
    for waiting in [1000_u64, 1_000_000] {
        group.bench_function(BenchmarkId::from_parameter(waiting), |bench| {
            bench.iter_custom(|iterations| {
                let mut sum = Duration::ZERO;
                for _ in 0..iterations {
                    let mut bench = Bench::new(100);
                    bench.submit(waiting);
                    let begin = Instant::now();
                    bench.submit(BATCH);
                    sum += begin.elapsed();
                }
                sum
            });
        });
    }
    group.finish();
}

/// Restoring a snapshot that holds this many waiting jobs; every check of what is read included.
pub(crate) fn restores(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("restore, jobs waiting");
    group.sample_size(10);
    for waiting in [10_000_u64, 1_000_000] {
        let mut bench = Bench::new(1000);
        bench.submit(waiting);
        let snapshot = bench.scheduler.snapshot();
        group.throughput(Throughput::Elements(waiting));
        group.bench_function(BenchmarkId::from_parameter(waiting), |criterion| {
            criterion.iter_batched(
                || (snapshot.clone(), bench.scheduler.config().clone()),
                |(snapshot, config)| Scheduler::restore(snapshot, config),
                BatchSize::PerIteration,
            );
        });
    }
    group.finish();
}
