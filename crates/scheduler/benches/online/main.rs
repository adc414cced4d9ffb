//! The costs as curves over fleet, queue and tenants, with the growth that the
//! contract allows. Run with `cargo bench -p orlop-scheduler --bench online`; words after `--` choose the curves whose
//! titles contain one of them. Every figure is per element (placement, pair, submit, …), the best of several runs.

// A benchmark reads the clock and prints, which the crate itself never does.
#![allow(missing_docs, clippy::disallowed_methods, clippy::disallowed_types, clippy::print_stdout)]

mod busy;
mod curve;
mod fleet;
mod growth;
mod steady;

use std::alloc::System;

use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

use curve::Report;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

fn main() {
    let report = Report::of_arguments(std::env::args().skip(1));
    growth::bulk(&report);
    growth::submits(&report);
    growth::restores(&report);
    growth::bytes(&report);
    steady::pairs(&report);
    steady::cancels(&report);
    steady::heartbeats(&report);
    busy::reserved(&report);
    busy::states(&report);
}
