//! What the benchmark of flows measures, at small sizes and by counted work alone, so that no machine is too slow for it.

use orlop_k8s::flow::Options;
use orlop_k8s::status::SizeLimits;

use super::load::{Figures, chain, fan_out, run, run_paced};

/// An object that is too small for 400 steps one by one, in bytes.
const OBJECT: usize = 64 << 10;

async fn fanned(instances: usize, options: &Options) -> Figures {
    let figures = run(vec![fan_out(instances)], options.clone()).await;
    assert_eq!(figures.phases.get("Succeeded"), Some(&1), "{figures:?}");
    assert_eq!(figures.writes.get("create jobs.batch"), Some(&instances), "{figures:?}");
    figures
}

#[tokio::test(start_paused = true)]
async fn the_work_for_a_job_does_not_grow_with_its_flow() {
    let options = Options::default();
    let (small, large) = (fanned(50, &options).await, fanned(400, &options).await);
    for (what, small, large) in [
        ("events of the engine", small.events, large.events),
        ("passes", small.passes, large.passes),
        ("writes", small.all_writes() as u64, large.all_writes() as u64),
    ] {
        // Eight times the Jobs: with what a flow costs once, no more than eight times as much.
        assert!(large <= small * 8, "{what}: {small} for 50 Jobs, {large} for 400");
    }
    assert!(large.final_object > OBJECT, "{} bytes: the next test would hold without any limit", large.final_object);
    // What is read is read once: a Job tells of itself.
    assert!(large.reads <= small.reads + 5, "{} reads for 50 Jobs, {} for 400", small.reads, large.reads);
    assert_eq!(large.events, 2 * 400 + large.events % 400, "two events a Job: accepted and ended");
}

#[tokio::test(start_paused = true)]
async fn a_flow_of_many_steps_keeps_within_the_size_of_an_object() {
    let mut options = Options::default();
    options.sizes = SizeLimits { inline: 16 << 10, object: OBJECT };
    let figures = fanned(400, &options).await;
    assert!(figures.largest <= OBJECT as u64, "{} bytes", figures.largest);
    assert!(figures.final_object <= OBJECT, "{} bytes", figures.final_object);
}

#[tokio::test(start_paused = true)]
async fn many_flows_take_their_turns_and_few_writes() {
    let figures = run(vec![chain(5); 40], Options::default()).await;
    assert_eq!(figures.phases.get("Succeeded"), Some(&40), "{figures:?}");
    println!("{:.2} s of passes in {:.2} s", figures.busy, figures.seconds);
    assert_eq!(figures.gaps.len(), 40 * 4, "each step but the first follows another");
    let count = |name: &str| figures.writes.get(name).copied().unwrap_or_default();
    assert_eq!(count("create jobs.batch"), 200);
    let statuses = count("patch jobflows.workflow.kube-zen.io/status");
    assert!(statuses <= 40 * (5 + 3), "{statuses} statuses for 200 steps");
    let others = figures.all_writes() - 200 - statuses - count("create events.events.k8s.io");
    assert_eq!(others, 0, "{:?}", figures.writes);
}

#[tokio::test(start_paused = true)]
async fn at_the_default_pace_flows_that_have_begun_come_first_and_events_hold_nothing_up() {
    let (flows, steps) = (200, 4);
    let figures = run_paced(vec![chain(steps); flows], Options::default()).await;
    assert_eq!(figures.phases.get("Succeeded"), Some(&flows), "{figures:?}");
    let events = figures.writes.get("create events.events.k8s.io").copied().unwrap_or_default();
    let writes = figures.all_writes() - events;
    let mut gaps = figures.gaps.clone();
    gaps.sort_by(f64::total_cmp);
    let at = |part: usize| gaps[(gaps.len() - 1) * part / 100] / 1e3;
    println!(
        "{flows} flows of {steps} steps: {:.0} s; {writes} writes and {events} events; step to step p50 {:.2} s, p99 {:.2} s",
        figures.seconds,
        at(50),
        at(99)
    );
    assert!(writes * 2 <= flows * steps * 5, "{writes} writes: more than 2.5 a step");
    // What the writes of all steps take at 50 a second.
    let budget = f64::from(u32::try_from(writes).unwrap_or(u32::MAX)) / 50.0;
    assert!(at(99) <= 2.0 * budget / 4.0, "p99 {:.1} s", at(99));
    assert!(figures.seconds <= 2.0 * budget, "{:.0} s for {budget:.0} s of requests", figures.seconds);
}
