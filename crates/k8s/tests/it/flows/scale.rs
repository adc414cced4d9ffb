//! What the benchmark of flows measures, at small sizes and by counted work alone, so that no machine is too slow for it.

use orlop_k8s::flow::Options;
use orlop_k8s::status::SizeLimits;

use super::load::{Figures, chain, fan_out, run};

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
