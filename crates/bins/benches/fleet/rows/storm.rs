//! All workers lose the server at once; and workers that have nothing to do.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use orlop::wire::job::Submission;
use serde_json::json;

use crate::Options;
use crate::fixture::{Fixture, array, ended, job, until};
use crate::machine;
use crate::sim::{Crowd, Manner};

const SLOTS: u32 = 4;

/// 1000 workers with four attempts each lose the server, which is killed, and find it again.
pub(super) async fn storm(options: &Options) {
    let workers = options.part(1000);
    let mut fixture = Fixture::server(&[]).await;
    let manner = Manner { slots: SLOTS, takes: Duration::from_secs(60), backoff: Duration::from_secs(2) };
    let crowd = Crowd::new(workers, fixture.address(), manner);
    let seen = crowd.seen.clone();
    let all_open = async || (seen.open.load(Ordering::Relaxed) == u64::from(workers)).then_some(());
    until("all workers have come", all_open).await;
    let client = fixture.client().await;
    let resources = json!({"cpu_m": 1000, "memory_bytes": 1 << 20});
    let task = job(json!({"runtime": "noop", "resources": resources}));
    let jobs = vec![array(&task, workers * SLOTS)];
    let taken = client.submit(Submission { jobs, key: None }).await.expect("it is taken");
    let given = async || (seen.given.load(Ordering::Relaxed) == u64::from(workers * SLOTS)).then_some(());
    until("all attempts have come", given).await;
    let idle = machine::memory(fixture.server_pid()).0;
    fixture.restart(&[], Duration::from_secs(1)).await;
    until("all workers have noticed", async || (seen.open.load(Ordering::Relaxed) < u64::from(workers)).then_some(()))
        .await;
    let began = Instant::now();
    until("all workers are back", all_open).await;
    let took = began.elapsed().as_secs_f64();
    let most = machine::memory(fixture.server_pid()).1;
    println!("  {workers} workers × {SLOTS} attempts: all back {took:.2} s after the server   target < 10 s");
    let mib = |bytes: u64| bytes >> 20;
    println!("  memory of the server: {} MiB before, {} MiB at most after   target ≤ 2×", mib(idle), mib(most));
    let client = fixture.client().await;
    ended(&client, taken.jobs()[0]).await;
    let (given, killed) = (seen.given.load(Ordering::Relaxed), seen.killed.load(Ordering::Relaxed));
    let more = given - u64::from(workers * SLOTS);
    println!("  attempts given again: {more}, ended by the server: {killed}   target 0, 0");
}

/// What the server uses for workers that have nothing to do.
pub(super) async fn idle(options: &Options) {
    let workers = options.part(1000);
    let fixture = Fixture::server(&[]).await;
    let manner = Manner { slots: SLOTS, takes: Duration::from_secs(1), backoff: Duration::from_secs(2) };
    let crowd = Crowd::new(workers, fixture.address(), manner);
    let open = || crowd.seen.open.load(Ordering::Relaxed);
    until("all workers have come", async || (open() == u64::from(workers)).then_some(())).await;
    let before = machine::cpu_seconds(fixture.server_pid());
    let seconds = f64::from(options.part(30));
    tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
    let share = (machine::cpu_seconds(fixture.server_pid()) - before) / seconds * 100.0;
    println!("  {workers} idle workers: {share:.2} % of one core   target < 5 %");
}
