//! The costs of section 2.10 of the scheduler contract as curves over fleet and queue. Run with
//! `cargo bench -p orlop-scheduler --bench online`; every figure is per element (placement, pair, submit, …).

// A benchmark reads the clock, which the crate itself never does.
#![allow(missing_docs, clippy::disallowed_methods, clippy::disallowed_types)]

mod fleet;
mod growth;
mod steady;

use criterion::{criterion_group, criterion_main};

criterion_group!(
    benches,
    growth::bulk,
    growth::submits,
    growth::restores,
    steady::pairs,
    steady::cancels,
    steady::heartbeats
);
criterion_main!(benches);
