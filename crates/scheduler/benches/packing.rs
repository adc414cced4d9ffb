//! How long packing takes: first-fit decreasing over items, the default portfolio, the bounds. Run with
//! `cargo bench -p orlop-scheduler --bench packing`.

#![allow(missing_docs)]

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use orlop_scheduler::packing::instances::{Instance, generate};
use orlop_scheduler::packing::{Effort, Options, Rule, lower_bounds, pack};

fn instance(id: &str) -> Option<Instance> {
    let made = id.parse().ok().and_then(|id| generate(id).ok());
    debug_assert!(made.is_some(), "{id} names an instance");
    made
}

fn first_fit(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("first-fit decreasing, 3 dimensions");
    group.sample_size(10);
    for class in ["panigrahy/1", "panigrahy/2", "mixed/4"] {
        for items in [1_000, 10_000, 100_000] {
            let Some(made) = instance(&format!("{class}/3/{items}/0")) else { continue };
            group.throughput(Throughput::Elements(items));
            group.bench_with_input(BenchmarkId::new(class, items), &made, |bench, of| {
                let options = || Options::new().rule(Rule::first_fit_decreasing()).effort(Effort::Continuous);
                bench.iter(|| pack(black_box(&of.items), &of.capacity, options()));
            });
        }
    }
    group.finish();
}

fn portfolio(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("auto, 100,000 moves");
    group.sample_size(10);
    for id in ["panigrahy/1/3/120/0", "mixed/4/5/500/0", "triplets/2/5/249/0"] {
        let Some(made) = instance(id) else { continue };
        group.bench_with_input(id, &made, |bench, of| {
            bench.iter(|| pack(black_box(&of.items), &of.capacity, Options::new().moves(100_000)));
        });
    }
    group.finish();
}

fn bounds(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("all bounds but columns");
    group.sample_size(10);
    for id in ["panigrahy/1/3/120/0", "mixed/4/10/500/0"] {
        let Some(made) = instance(id) else { continue };
        group.bench_with_input(id, &made, |bench, of| {
            bench.iter(|| lower_bounds(black_box(&of.items), &of.capacity, Effort::Simple, 0));
        });
    }
    group.finish();
}

criterion_group!(benches, first_fit, portfolio, bounds);
criterion_main!(benches);
