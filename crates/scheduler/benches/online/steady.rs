//! A full fleet: one end and the placement it makes room for; cancels; heartbeats.

use std::time::Instant;

use orlop_core::id::{Epoch, JobId};
use orlop_scheduler::event::{ArraySpec, Event, Outcome, StartWindow};

use crate::curve::{Curve, Report, Sample};
use crate::fleet::{Bench, FLEETS, QUEUES, TENANTS, take_sent};

const MILLION: u32 = 1_000_000;

/// Ends of attempts, each followed by a round, on a full fleet with a queue of this length; the time of a pair.
fn pair(workers: u32, waiting: u32, tenants: u32) -> impl FnMut() -> Sample {
    const PAIRS: u64 = 20_000;
    let mut bench = Bench::new(workers, tenants);
    bench.submit(u64::from(workers) * 40);
    let mut sent = bench.fill_and_list();
    bench.leave(u64::from(waiting), &sent);
    let mut at = 0;
    let mut part = move |pairs: u64| {
        let before = sent.len();
        let begin = Instant::now();
        for _ in 0..pairs {
            // Ends come from all over the fleet, the oldest ones first.
            let Some((attempt, worker)) = sent.get(at).copied() else { unreachable!("a full fleet") };
            at += 1;
            let event = Event::Result { attempt, worker, outcome: Outcome::Succeeded, ran_ms: None };
            let taken = bench.scheduler.apply(2, event, &mut bench.effects);
            debug_assert!(taken.is_ok());
            let _stats = bench.scheduler.round(2, u32::MAX, &mut bench.effects);
            if bench.effects.len() > 4000 {
                take_sent(&mut bench.effects, &mut sent);
            }
        }
        let time = begin.elapsed();
        take_sent(&mut bench.effects, &mut sent);
        // What was placed is submitted again, so that the queue keeps its length.
        bench.submit((sent.len() - before) as u64);
        time
    };
    let mut measure = move || {
        // A short queue is filled up again before it is empty.
        let each = PAIRS.min(u64::from(waiting) / 4);
        let time = (0..PAIRS / each).map(|_| part(each)).sum();
        Sample::Time { elements: PAIRS / each * each, time }
    };
    // The first ends meet caches and tables that are not warm yet.
    measure();
    measure
}

/// The cost of a pair over the queue, over the fleet and over tenants.
pub(crate) fn pairs(report: &Report) {
    let target = "at least 500,000/s with 1,000,000 queued";
    let title = "end and next placement on 1000 workers over the queue";
    let over_queue = Curve { title, axis: "queued", sizes: QUEUES, target, growth: Some(1.5) };
    report.draw(&over_queue, |waiting| pair(1000, waiting, TENANTS));
    let title = "end and next placement with 1,000,000 queued over workers";
    let over_fleet = Curve { title, axis: "workers", sizes: FLEETS, growth: Some(5.0), ..over_queue };
    report.draw(&over_fleet, |workers| pair(workers, MILLION, TENANTS));
    let title = "end and next placement with 1,000,000 queued over tenants";
    let over_tenants = Curve { title, axis: "tenants", sizes: &[1, 10, 100, 1000], growth: Some(2.0), ..over_queue };
    report.draw(&over_tenants, |tenants| pair(1000, MILLION, tenants));
}

/// One cancel of all elements of an array, and of jobs one by one.
pub(crate) fn cancels(report: &Report) {
    let sizes = &[10_000, 100_000, MILLION];
    let title = "one cancel of all elements of an array";
    let elements =
        Curve { title, axis: "elements", sizes, target: "1,000,000 elements in less than 100 ms", growth: None };
    report.draw(&elements, |count| {
        move || {
            let mut bench = Bench::new(10, TENANTS);
            let Some(job) = JobId::new(Epoch(2), 1) else { unreachable!("in range") };
            let spec = std::sync::Arc::clone(&bench.specs[0]);
            let array = ArraySpec { indices: vec![(0, count - 1)], ..ArraySpec::default() };
            let event = Event::SubmitArray { job, spec, gate: StartWindow::default(), array };
            assert!(bench.scheduler.apply(1, event, &mut bench.effects).is_ok(), "an array enters");
            Sample::time(|| {
                let taken = bench.scheduler.apply(2, Event::Cancel { job, elements: None }, &mut bench.effects);
                assert!(taken.is_ok(), "an array is cancelled");
                1
            })
        }
    });
    let jobs = Curve { title: "cancel of jobs one by one", axis: "jobs", target: "no target of its own", ..elements };
    report.draw(&jobs, |count| {
        move || {
            let mut bench = Bench::new(10, TENANTS);
            bench.submit(u64::from(count));
            Sample::time(|| {
                for number in 1..=u64::from(count) {
                    let Some(job) = JobId::new(Epoch(1), number) else { unreachable!("in range") };
                    let taken = bench.scheduler.apply(2, Event::Cancel { job, elements: None }, &mut bench.effects);
                    assert!(taken.is_ok(), "a job is cancelled");
                    bench.effects.clear();
                }
                u64::from(count)
            })
        }
    });
}

/// Heartbeats of all workers in turn.
pub(crate) fn heartbeats(report: &Report) {
    let target = "at least 5,000,000/s";
    let curve = Curve { title: "heartbeat over workers", axis: "workers", sizes: FLEETS, target, growth: None };
    report.draw(&curve, |workers| {
        let mut bench = Bench::new(workers, 1);
        move || {
            Sample::time(|| {
                for _ in 0..10 {
                    for worker in &bench.workers {
                        let taken = bench.scheduler.apply(2, Event::Heartbeat { worker: *worker }, &mut bench.effects);
                        debug_assert!(taken.is_ok());
                    }
                }
                10 * u64::from(workers)
            })
        }
    });
}
