//! What is lost between tasks, and how fast ends are taken.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use orlop::wire::job::Submission;
use serde_json::json;

use crate::Options;
use crate::fixture::{Fixture, array, ended, job, until};
use crate::samples::{Samples, line, times};
use crate::sim::{Crowd, Manner};

/// The busy share of two slots with tasks of 1, 10 and 100 ms.
pub(super) async fn gaps(options: &Options) {
    for (millis, count, target) in [(1_u32, 4000, ""), (10, 2000, "≥ 0.95"), (100, 200, "≥ 0.99")] {
        let (mut share, mut bare) = (Samples::default(), Samples::default());
        let takes = format!("{:.3}", f64::from(millis) / 1e3);
        let count = options.part(count);
        let busy = f64::from(millis) / 1e3 / 2.0;
        for _ in 0..options.repeat {
            bare.add(busy * crate::spawn::loop_rate(count, 2, "sleep", Some(&takes)));
            let fixture = Fixture::with_workers(1, 2).await;
            let client = fixture.client().await;
            let resources = json!({"cpu_m": 1000, "memory_bytes": 1 << 20});
            let task = job(json!({"command": ["sleep", takes], "resources": resources, "expected_ms": millis}));
            let began = Instant::now();
            let jobs = vec![array(&task, count)];
            let taken = client.submit(Submission { jobs, key: None }).await.expect("it is taken");
            ended(&client, taken.jobs()[0]).await;
            share.add(busy * f64::from(count) / began.elapsed().as_secs_f64());
        }
        line(&format!("`sleep {takes}`: busy share"), &share, "", target);
        line("  the same of a bare loop", &bare, "", "");
    }
}

/// 1000 workers end 20,000 attempts a second between them.
pub(super) async fn results(options: &Options) {
    let (workers, slots) = (options.part(1000), 20);
    let fixture = Fixture::server(&[]).await;
    let manner = Manner { slots, takes: Duration::from_secs(1), backoff: Duration::from_secs(2) };
    let crowd = Crowd::new(workers, fixture.address(), manner);
    let open = || crowd.seen.open.load(Ordering::Relaxed);
    until("all workers have come", async || (open() == u64::from(workers)).then_some(())).await;
    let client = fixture.client().await;
    let seconds = 20;
    let count = workers * slots * seconds;
    let resources = json!({"cpu_m": 1000, "memory_bytes": 1 << 20});
    let task = job(json!({"runtime": "noop", "resources": resources, "expected_ms": 1000}));
    let began = Instant::now();
    let jobs = vec![array(&task, count)];
    let taken = client.submit(Submission { jobs, key: None }).await.expect("it is taken");
    ended(&client, taken.jobs()[0]).await;
    let took = began.elapsed().as_secs_f64();
    println!(
        "  {count} tasks of 1 s on {workers} workers × {slots} slots in {took:.1} s: {:.0} ends/s",
        f64::from(count) / took
    );
    let delays = crowd.seen.delays.lock().await.clone();
    times("end → acknowledged", &delays, "p99 < 100 ms");
}
