//! How many tasks a second the server takes, assigns, ends and commits, in this process on SQLite. Small by default, so that
//! it only tests; with `ORLOP_BENCH_TASKS=200000` in a release build it measures:
//!
//! `ORLOP_BENCH_TASKS=200000 cargo test --release -p orlop --features testing --lib throughput -- --nocapture`

use std::sync::Arc;
use std::time::{Duration, Instant};

use orlop_cloud::store::sqlite::fleet::{Durability, SqliteFleet};
use orlop_core::machine::job::JobState;
use orlop_core::ports::fleet_store::{ElementFilter, FleetReads, FleetStore, Page};
use serde_json::json;

use super::super::clock::MachineClock;
use super::super::{Options, Server, Status};
use super::agent::Agent;
use super::fixture::{batch, until};

fn tasks() -> usize {
    std::env::var("ORLOP_BENCH_TASKS").ok().and_then(|text| text.parse().ok()).unwrap_or(2000)
}

/// Runs `tasks` tasks on one worker of `slots` slots, as one array or as jobs of their own. Gives how many were run for each
/// commit.
async fn run(slots: u32, array: bool) -> f64 {
    let tasks = tasks();
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(SqliteFleet::open(folder.path().join("fleet.db"), Durability::Full).await.unwrap());
    let runtime = tokio::runtime::Handle::current();
    let clock = Arc::new(MachineClock::default());
    let server = Server::start(Arc::clone(&store) as Arc<dyn FleetStore>, clock, Options::default(), runtime).unwrap();
    let handle = server.handle().clone();
    until("leadership", async || matches!(handle.status(), Status::Leading { .. }).then_some(())).await;
    let mut agent = Agent::join(&handle, "w1", slots).await;
    let begun = Instant::now();
    let working = tokio::spawn(async move {
        agent.run_through(tasks).await;
        agent
    });
    let jobs = if array {
        handle.submit(batch(&[json!({"array": {"count": tasks}, "expected_ms": 1})])).await.unwrap().jobs
    } else {
        let mut jobs = Vec::new();
        let one = batch(&[json!({"expected_ms": 1})]).jobs.remove(0);
        for first in (0..tasks).step_by(1024) {
            let some = vec![one.clone(); 1024.min(tasks - first)];
            let taken = handle.submit(super::super::Batch { jobs: some, once: None }).await.unwrap();
            jobs.extend(taken.jobs);
        }
        jobs
    };
    for job in jobs.iter().rev().take(1) {
        handle.ended(*job).await.unwrap();
    }
    working.await.unwrap();
    let took = begun.elapsed();
    check(&store, &jobs, array).await;
    println!(
        "{tasks} tasks, 1 × {slots} slots, {}: {:.0}/s, {} commits, {:.1} µs a task",
        if array { "one array" } else { "jobs of their own" },
        tasks as f64 / took.as_secs_f64(),
        store.commits(),
        took.as_secs_f64() * 1e6 / tasks as f64
    );
    server.stop().await;
    tasks as f64 / store.commits() as f64
}

async fn check(store: &SqliteFleet, jobs: &[orlop_core::id::JobId], array: bool) {
    if array {
        let filter = ElementFilter { states: vec![JobState::Completed], ..ElementFilter::default() };
        let some = store.elements(jobs[0], &filter, &Page::first(10_000)).await.unwrap();
        assert_eq!(some.items.len(), tasks().min(10_000));
    }
    for job in jobs.iter().step_by(97) {
        assert_eq!(store.job(*job).await.unwrap().unwrap().unit.state, JobState::Completed);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn trivial_tasks_of_an_array_run_through_sqlite() {
    let a_commit = tokio::time::timeout(Duration::from_secs(300), run(1024, true)).await.unwrap();
    assert!(a_commit > 1.0, "{a_commit} tasks a commit");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn trivial_jobs_run_through_sqlite() {
    let a_commit = tokio::time::timeout(Duration::from_secs(300), run(1024, false)).await.unwrap();
    assert!(a_commit > 1.0, "{a_commit} tasks a commit");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_slots_are_kept_fed_by_what_is_sent_ahead() {
    let a_commit = tokio::time::timeout(Duration::from_secs(300), run(2, true)).await.unwrap();
    assert!(a_commit > 1.0, "{a_commit} tasks a commit");
}
