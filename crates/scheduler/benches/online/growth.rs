//! Bulk placement from an empty fleet to the first refusal of every class; submits; restores; bytes.

use orlop_scheduler::engine::Scheduler;
use stats_alloc::Region;

use crate::ALLOCATOR;
use crate::curve::{Curve, Report, Sample};
use crate::fleet::{Bench, FLEETS, QUEUES, TENANTS};

/// The most bytes that a queued job and a worker may take.
const MEMORY_TARGET: &str = "at most 200 bytes a queued job, 512 a worker";

/// Placements over the size of the fleet, with more jobs of every class than fit, and over the length of the queue.
pub(crate) fn bulk(report: &Report) {
    let target = "at least 1,000,000/s with 10,000 workers";
    let over_fleet =
        Curve { title: "bulk placement over workers", axis: "workers", sizes: FLEETS, target, growth: Some(5.0) };
    report.draw(&over_fleet, |workers| {
        move || {
            let mut bench = Bench::new(workers, TENANTS);
            bench.submit(u64::from(workers) * 40);
            Sample::time(|| bench.fill())
        }
    });
    let title = "bulk placement on 1000 workers over the queue";
    let over_queue = Curve { title, axis: "queued", sizes: QUEUES, growth: Some(1.5), ..over_fleet };
    report.draw(&over_queue, |waiting| {
        move || {
            let mut bench = Bench::new(1000, TENANTS);
            bench.submit(u64::from(waiting));
            Sample::time(|| bench.fill())
        }
    });
}

/// Submits over how many jobs wait already, and over the size of the fleet.
pub(crate) fn submits(report: &Report) {
    const BATCH: u64 = 100_000;
    let submit = |workers, waiting| {
        let mut bench = Bench::new(workers, TENANTS);
        bench.submit(waiting);
        let batch = bench.batch(BATCH);
        Sample::time(|| bench.take(batch))
    };
    let over_queue = Curve {
        title: "submit over the queue",
        axis: "queued",
        sizes: QUEUES,
        target: "at least 1,000,000/s",
        growth: None,
    };
    report.draw(&over_queue, |waiting| move || submit(100, u64::from(waiting)));
    let over_fleet = Curve { title: "submit over workers", axis: "workers", sizes: FLEETS, ..over_queue };
    report.draw(&over_fleet, |workers| move || submit(workers, 100_000));
}

/// Restoring a snapshot, every check of what is read included.
pub(crate) fn restores(report: &Report) {
    let restore = |workers, waiting| {
        let mut bench = Bench::new(workers, TENANTS);
        bench.submit(waiting);
        let (snapshot, config) = (bench.scheduler.snapshot(), bench.scheduler.config().clone());
        let elements = waiting + u64::from(workers);
        move || {
            let (snapshot, config) = (snapshot.clone(), config.clone());
            let mut restored = None;
            let sample = Sample::time(|| {
                restored = Scheduler::restore(snapshot, config).ok();
                elements
            });
            assert!(restored.is_some(), "a snapshot that was just taken is in order");
            sample
        }
    };
    let over_queue = Curve {
        title: "restore of jobs over the queue",
        axis: "queued",
        sizes: QUEUES,
        target: "1,000,000 jobs in less than 2 s",
        growth: None,
    };
    report.draw(&over_queue, |waiting| restore(1000, u64::from(waiting)));
    let title = "restore of jobs and workers over workers";
    let over_fleet = Curve { title, axis: "workers", sizes: FLEETS, ..over_queue };
    report.draw(&over_fleet, |workers| restore(workers, 100_000));
}

/// Bytes of a queued job in all structures together without its specification, and of a worker beside an empty scheduler.
pub(crate) fn bytes(report: &Report) {
    let grown = |act: &mut dyn FnMut()| {
        let region = Region::new(ALLOCATOR);
        act();
        let change = region.change();
        change.bytes_allocated.saturating_sub(change.bytes_deallocated) as u64
    };
    let over_queue = Curve {
        title: "bytes of a queued job over the queue",
        axis: "queued",
        sizes: QUEUES,
        target: MEMORY_TARGET,
        growth: None,
    };
    report.draw(&over_queue, |waiting| {
        move || {
            let mut bench = Bench::new(100, TENANTS);
            // Every specification is known, and so is every queue.
            bench.submit(u64::from(TENANTS) * 200);
            bench.reserve_effects();
            let bytes = grown(&mut || bench.submit(u64::from(waiting)));
            Sample::Bytes { elements: u64::from(waiting), bytes }
        }
    });
    let over_fleet = Curve { title: "bytes of a worker over workers", axis: "workers", sizes: FLEETS, ..over_queue };
    report.draw(&over_fleet, |workers| {
        move || {
            let holds = |workers| {
                let mut bench = None;
                grown(&mut || bench = Some(Bench::new(workers, 0)))
            };
            // No worker brings what an empty scheduler has: 24,728 bytes when this was written.
            Sample::Bytes { elements: u64::from(workers), bytes: holds(workers).saturating_sub(holds(0)) }
        }
    });
}
