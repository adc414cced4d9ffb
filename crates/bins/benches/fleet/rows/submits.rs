//! Taking jobs: a million at once, and durable submits by many clients.

use std::time::Instant;

use orlop::wire::job::Submission;
use orlop_core::spec::job::JobSpec;
use serde_json::json;
use tokio::task::JoinSet;

use crate::Options;
use crate::bare;
use crate::fixture::{Fixture, array, job};
use crate::machine;
use crate::peer::Peer;
use crate::samples::{Samples, line, sides};

fn task() -> JobSpec {
    job(json!({"command": ["true"], "resources": {"cpu_m": 1000, "memory_bytes": 1 << 20}}))
}

/// The text of a job, as a store keeps it.
fn body() -> String {
    serde_json::to_string(&task()).expect("its text")
}

/// One array of a million, and a million jobs in batches of 1024.
pub(super) async fn million(options: &Options) {
    let count = options.part(1_000_000);
    let (mut ours, mut theirs) = (Samples::default(), Samples::default());
    let (mut grown, mut grown_theirs) = (Samples::default(), Samples::default());
    for side in (0..options.repeat).flat_map(sides) {
        if side == 0 {
            array_once(count, [&mut ours, &mut grown]).await;
        } else if let Some(program) = &options.hyperqueue {
            let peer = Peer::new(program, 0, 0);
            let before = machine::memory(peer.server_pid()).0;
            theirs.add(peer.submit(count));
            grown_theirs.add(mib(machine::memory(peer.server_pid()).0.saturating_sub(before)));
        }
    }
    line("one array: taken in", &ours, " s", "");
    line("one array: memory of the server grows by", &grown, " MiB", "≤ 32");
    if theirs.is_empty() {
        println!("  HyperQueue: not measured, its program was not given");
    } else {
        line("HyperQueue: taken in", &theirs, " s", "");
        line("HyperQueue: memory of its server grows by", &grown_theirs, " MiB", "");
        line("orlop ÷ HyperQueue", &ours.over(&theirs), "×", "≤ 0.5");
        line("memory: orlop ÷ HyperQueue", &grown.over(&grown_theirs), "×", "");
    }
    let (mut rates, mut ratio, mut grown) = (Samples::default(), Samples::default(), Samples::default());
    for _ in 0..options.repeat {
        let bare = bare::sqlite(&body(), count, 1024);
        let fixture = Fixture::server(&[]).await;
        let before = machine::memory(fixture.server_pid()).0;
        let rate = submit_all(&fixture, count, 1024, 8).await;
        grown.add(mib(machine::memory(fixture.server_pid()).0.saturating_sub(before)));
        rates.add(rate);
        ratio.add(rate / bare);
    }
    line("distinct jobs, 1024 a submit, 8 submits at once", &rates, "/s", "");
    line("distinct jobs ÷ bare insert, 1024 a commit", &ratio, "×", "≥ 0.5");
    line("distinct jobs: memory of the server grows by", &grown, " MiB", "≤ 400");
}

fn mib(bytes: u64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "bytes of memory")]
    let mib = bytes as f64 / 1_048_576.0;
    mib
}

async fn array_once(count: u32, [ours, grown]: [&mut Samples; 2]) {
    let fixture = Fixture::server(&[]).await;
    let client = fixture.client().await;
    let before = machine::memory(fixture.server_pid()).0;
    let jobs = vec![array(&task(), count)];
    let began = Instant::now();
    client.submit(Submission { jobs, key: None }).await.expect("it is taken");
    ours.add(began.elapsed().as_secs_f64());
    grown.add(mib(machine::memory(fixture.server_pid()).0.saturating_sub(before)));
}

/// Submits so many jobs of their own. Gives jobs a second.
async fn submit_all(fixture: &Fixture, count: u32, batch: u32, clients: u32) -> f64 {
    let mut tasks = JoinSet::new();
    let began = Instant::now();
    for number in 0..clients {
        let client = fixture.client().await;
        let submits = (count / batch / clients).max(1);
        tasks.spawn(async move {
            for submit in 0..submits {
                // Each job differs from all others, so nothing is shared between them.
                let named = |at: u32| {
                    let mut task = task();
                    task.command = vec!["true".to_owned(), format!("{number}-{submit}-{at}")];
                    task
                };
                let jobs = (0..batch).map(named).collect();
                client.submit(Submission { jobs, key: None }).await.expect("they are taken");
            }
            u64::from(submits) * u64::from(batch)
        });
    }
    let mut done = 0;
    while let Some(submitted) = tasks.join_next().await {
        done += submitted.expect("it goes well");
    }
    #[expect(clippy::cast_precision_loss, reason = "a count of jobs")]
    let done = done as f64;
    done / began.elapsed().as_secs_f64()
}

/// Durable submits by one client and by many, in submits of one job and of more, into each store.
pub(super) async fn rates(options: &Options) {
    rates_into(options, None).await;
    match &options.postgres {
        Some(url) => rates_into(options, Some(url)).await,
        None => println!("  PostgreSQL: not measured, its address was not given"),
    }
}

async fn rates_into(options: &Options, postgres: Option<&str>) {
    let store = if postgres.is_some() { "PostgreSQL" } else { "SQLite" };
    let mut single = Samples::default();
    for (batch, clients, count) in [
        (1, 1, 2000),
        (1, 8, 8000),
        (1, 64, 32_000),
        (64, 1, 64_000),
        (64, 64, 256_000),
        (1024, 1, 262_144),
        (1024, 8, 262_144),
        (1024, 64, 262_144),
    ] {
        let (mut rates, mut ratio) = (Samples::default(), Samples::default());
        for turn in 0..options.repeat {
            let count = options.part(count).max(batch * clients);
            // Group commit makes one commit of what comes at once.
            let (rows, commit) = (count.min(64_000), (batch * clients).min(1024));
            let schema = format!("bench{}_{batch}_{clients}_{turn}", std::process::id());
            let (bare, fixture) = match postgres {
                None => (bare::sqlite(&body(), rows, commit), Fixture::server(&[]).await),
                Some(url) => {
                    let args = [format!("--store-url={url}"), format!("--store-schema={schema}")];
                    let bare = bare::postgres(url, &body(), rows, commit).await;
                    (bare, Fixture::server(&args.each_ref().map(String::as_str)).await)
                }
            };
            let rate = submit_all(&fixture, count, batch, clients).await;
            rates.add(rate);
            ratio.add(rate / bare);
            drop(fixture);
            if let Some(url) = postgres {
                bare::forget(url, &schema).await;
            }
        }
        line(&format!("{store}: {clients} clients, {batch} jobs a submit"), &rates, "/s", "");
        line("  ÷ bare insert in equal commits", &ratio, "×", "≥ 0.5");
        match (batch, clients) {
            (1, 1) => single = rates,
            (1, 64) => line("  64 clients ÷ one", &rates.over(&single), "×", "≥ 8 where an fsync takes ≥ 1 ms"),
            _ => {}
        }
    }
}
