//! Taking jobs: a million at once, and durable submits by many clients.

use std::time::Instant;

use orlop::wire::job::Submission;
use orlop_core::spec::job::JobSpec;
use serde_json::json;
use tokio::task::JoinSet;

use crate::Options;
use crate::bed::{Bed, array, job};
use crate::machine;
use crate::peer::Peer;
use crate::tally::{Tally, line, sides};

fn task() -> JobSpec {
    job(json!({"command": ["true"], "resources": {"cpu_m": 1000, "memory_bytes": 1 << 20}}))
}

/// Rows a second of a bare file of SQLite in commits of so many, with the text of a job in each.
fn bare(count: u32, batch: u32) -> f64 {
    let dir = tempfile::tempdir().expect("a directory");
    let mut connection = rusqlite::Connection::open(dir.path().join("bare.db")).expect("a file");
    let settings = "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 4000;
                    CREATE TABLE job (id INTEGER PRIMARY KEY, tenant TEXT NOT NULL, state TEXT NOT NULL, body TEXT NOT NULL)";
    connection.execute_batch(settings).expect("a table");
    let body = serde_json::to_string(&task()).expect("its text");
    let began = Instant::now();
    let mut done = 0;
    while done < count {
        let transaction = connection.transaction().expect("a transaction");
        let mut insert =
            transaction.prepare_cached("INSERT INTO job VALUES (?1, 'default', 'Queued', ?2)").expect("a statement");
        for id in done..(done + batch).min(count) {
            insert.execute((id, &body)).expect("a row");
        }
        drop(insert);
        transaction.commit().expect("it is on disk");
        done += batch;
    }
    f64::from(count) / began.elapsed().as_secs_f64()
}

/// One array of a million, and a million jobs in batches of 1024.
pub(super) async fn million(options: &Options) {
    let count = options.part(1_000_000);
    let (mut ours, mut theirs) = (Tally::default(), Tally::default());
    let (mut grown, mut grown_theirs) = (Tally::default(), Tally::default());
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
    let (mut rates, mut ratio, mut grown) = (Tally::default(), Tally::default(), Tally::default());
    for _ in 0..options.repeat {
        let bare = bare(count, 1024);
        let bed = Bed::server(&[]).await;
        let before = machine::memory(bed.server_pid()).0;
        let rate = submit_all(&bed, count, 1024, 8).await;
        grown.add(mib(machine::memory(bed.server_pid()).0.saturating_sub(before)));
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

async fn array_once(count: u32, [ours, grown]: [&mut Tally; 2]) {
    let bed = Bed::server(&[]).await;
    let client = bed.client().await;
    let before = machine::memory(bed.server_pid()).0;
    let jobs = vec![array(&task(), count)];
    let began = Instant::now();
    client.submit(Submission { jobs, key: None }).await.expect("it is taken");
    ours.add(began.elapsed().as_secs_f64());
    grown.add(mib(machine::memory(bed.server_pid()).0.saturating_sub(before)));
}

/// Submits so many jobs of their own. Gives jobs a second.
async fn submit_all(bed: &Bed, count: u32, batch: u32, clients: u32) -> f64 {
    let mut tasks = JoinSet::new();
    let began = Instant::now();
    for number in 0..clients {
        let client = bed.client().await;
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

/// Durable submits by one client and by many, in submits of one job and of more.
pub(super) async fn rates(options: &Options) {
    let mut single = Tally::default();
    for (batch, clients, count) in
        [(1, 1, 2000), (1, 8, 8000), (1, 64, 32_000), (64, 1, 64_000), (64, 64, 256_000), (1024, 8, 262_144)]
    {
        let (mut rates, mut ratio) = (Tally::default(), Tally::default());
        for _ in 0..options.repeat {
            let count = options.part(count).max(batch * clients);
            // Group commit makes one commit of what comes at once.
            let bare = bare(count.min(64_000), (batch * clients).min(1024));
            let bed = Bed::server(&[]).await;
            let rate = submit_all(&bed, count, batch, clients).await;
            rates.add(rate);
            ratio.add(rate / bare);
        }
        line(&format!("{clients} clients, {batch} jobs a submit"), &rates, "/s", "");
        line("  ÷ bare insert in equal commits", &ratio, "×", "≥ 0.5");
        match (batch, clients) {
            (1, 1) => single = rates,
            (1, 64) => line("  64 clients ÷ one", &rates.over(&single), "×", "≥ 8 where an fsync takes ≥ 1 ms"),
            _ => {}
        }
    }
}
