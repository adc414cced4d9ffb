//! How fast the fleet's store in SQLite is, against a bare batched insert into the same kind of file, side by side.
//!
//!     cargo run --release -p orlop-cloud --features sqlite --example fleet_store_rate [FOLDER]
//!
//! Every figure is the median of five rounds, durable (`synchronous = FULL`), in commits of 1024 jobs.

#![allow(clippy::print_stdout, clippy::unwrap_used)]

use std::path::Path;
use std::time::Instant;

use orlop_cloud::store::sqlite::fleet::{Durability, SqliteFleet};
use orlop_core::id::{Epoch, JobId};
use orlop_core::machine::attempt::AttemptState;
use orlop_core::machine::job::JobState;
use orlop_core::ports::fleet_store::{
    AttemptChange, AttemptEnd, FleetStore as _, Holder, JobChange, JobRow, NewAttempt, NewJob, NewSpec, Page, Record,
    TaskStatus, WriteBatch,
};
use orlop_core::task::{StartMode, TaskRef};
use orlop_core::time::Time;

const BATCH: u64 = 1024;
const BATCHES: u64 = 100;
const ROUNDS: usize = 5;

fn median(mut rates: Vec<f64>) -> f64 {
    rates.sort_by(f64::total_cmp);
    rates[rates.len() / 2]
}

fn rate(began: Instant) -> f64 {
    (BATCH * BATCHES) as f64 / began.elapsed().as_secs_f64()
}

fn job(number: u64, spec: &NewSpec) -> Record {
    let id = JobId::new(Epoch(1), number).unwrap();
    let mut job = NewJob::new(id, "physics".parse().unwrap(), spec.hash, Time::from_millis(1_700_000_000_000));
    job.correlation_id = Some(format!("c-{number:012}").into());
    Record::JobNew(Box::new(JobRow::submitted(job, JobState::Queued)))
}

fn body(number: u64) -> String {
    format!("{{\"command\":[\"/bin/echo\",\"{number}\"],\"resources\":{{\"cpu_m\":1000,\"memory_bytes\":268435456}}}}")
}

/// A table with a key and the text of a job, 1024 rows a transaction.
fn bare(path: &Path) -> f64 {
    let mut connection = rusqlite::Connection::open(path).unwrap();
    let settings = "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 4000;
                    CREATE TABLE job (id INTEGER PRIMARY KEY, tenant TEXT NOT NULL, state TEXT NOT NULL, body TEXT NOT NULL)";
    connection.execute_batch(settings).unwrap();
    let began = Instant::now();
    for batch in 0..BATCHES {
        let transaction = connection.transaction().unwrap();
        let mut insert = transaction.prepare_cached("INSERT INTO job VALUES (?1, 'physics', 'Queued', ?2)").unwrap();
        for number in batch * BATCH..(batch + 1) * BATCH {
            insert.execute((number.cast_signed(), body(number))).unwrap();
        }
        drop(insert);
        transaction.commit().unwrap();
    }
    rate(began)
}

async fn commit(store: &SqliteFleet, epoch: Epoch, batch: impl Fn(u64) -> Vec<Record>) -> f64 {
    let began = Instant::now();
    for number in 0..BATCHES {
        let records = (number * BATCH..(number + 1) * BATCH).flat_map(&batch).collect();
        store.commit(epoch, vec![WriteBatch::new(records)]).await.unwrap();
    }
    rate(began)
}

fn token(number: u64) -> TaskRef {
    let job = JobId::new(Epoch(1), number).unwrap();
    TaskRef { job, index: 0, member: 0, attempt: 1, epoch: Epoch(1) }
}

fn assigned(number: u64) -> Vec<Record> {
    let id = token(number);
    let (worker, assigned_at) = ("w1".parse().unwrap(), Time::from_millis(1));
    let unit = TaskStatus {
        attempt: 1,
        epoch: Epoch(1),
        worker: Some("w1".parse().unwrap()),
        ..TaskStatus::new(JobState::Assigned)
    };
    vec![
        Record::AttemptNew(Box::new(NewAttempt {
            id,
            worker,
            incarnation: 1,
            mode: StartMode::Now,
            assigned_at,
            gpu: None,
        })),
        Record::Job(Box::new(JobChange { id: id.job, revision: 1, unit })),
    ]
}

fn ended(number: u64) -> Vec<Record> {
    let (id, now) = (token(number), Some(Time::from_millis(2)));
    let end = Some(AttemptEnd { accepted_final: true, exit_code: Some(0), ..AttemptEnd::default() });
    let state = AttemptState::Succeeded;
    let unit = TaskStatus {
        attempt: 1,
        epoch: Epoch(1),
        answered: true,
        finished_at: now,
        exit_code: Some(0),
        ..TaskStatus::new(JobState::Completed)
    };
    vec![
        Record::Attempt(Box::new(AttemptChange {
            accepted_at: now,
            started_at: now,
            finished_at: now,
            end,
            ..AttemptChange::new(id, state)
        })),
        Record::Job(Box::new(JobChange { id: id.job, revision: 2, unit })),
    ]
}

#[tokio::main]
async fn main() {
    let folder = std::env::args().nth(1).map_or_else(std::env::temp_dir, Into::into);
    let mut rates: [Vec<f64>; 7] = Default::default();
    for round in 0..ROUNDS {
        let place = tempfile::tempdir_in(&folder).unwrap();
        rates[0].push(bare(&place.path().join("bare.db")));
        for (at, distinct) in [(1, false), (2, true)] {
            let path = place.path().join(format!("{at}.db"));
            let store = SqliteFleet::open(path, Durability::Full).await.unwrap();
            let epoch = store.acquire(&Holder { name: "rate".to_owned(), url: String::new() }).await.unwrap();
            let shared = NewSpec::new(body(0));
            store.commit(epoch, vec![WriteBatch::new(vec![Record::Spec(Box::new(shared.clone()))])]).await.unwrap();
            let submit = |number| match distinct {
                true => {
                    let spec = NewSpec::new(body(number));
                    vec![Record::Spec(Box::new(spec.clone())), job(number, &spec)]
                }
                false => vec![job(number, &shared)],
            };
            rates[at].push(commit(&store, epoch, submit).await);
            if distinct {
                continue;
            }
            let began = Instant::now();
            let mut page = Page::first(10_000);
            while let Some(next) = store.restore(&page).await.unwrap().next {
                page = Page::after(next, 10_000);
            }
            rates[6].push(rate(began));
            rates[3].push(commit(&store, epoch, assigned).await);
            rates[4].push(commit(&store, epoch, ended).await);
            let both = |number| {
                [vec![job(number + (1 << 30), &shared)], later(assigned(number)), later(ended(number))].concat()
            };
            rates[5].push(commit(&store, epoch, both).await);
        }
        println!("round {round}: {:.0} rows/s bare", rates[0][round]);
    }
    let names = [
        "bare insert of a row with the job's text",
        "new jobs of one spec",
        "new jobs, each with its own spec",
        "attempts assigned, with the job's state",
        "attempts ended, with the job's state",
        "jobs submitted, assigned and ended in one commit",
        "jobs restored",
    ];
    let medians = rates.map(median);
    for (name, rate) in names.iter().zip(medians) {
        println!("{name:50} {rate:9.0}/s  {:5.2} of bare", rate / medians[0]);
    }
}

/// The same records about the job 2³⁰ later.
fn later(records: Vec<Record>) -> Vec<Record> {
    let shift = |id: JobId| JobId::from_u64(id.as_u64() + (1 << 30));
    let moved = |record| match record {
        Record::AttemptNew(mut new) => {
            new.id.job = shift(new.id.job);
            Record::AttemptNew(new)
        }
        Record::Attempt(mut change) => {
            change.id.job = shift(change.id.job);
            Record::Attempt(change)
        }
        Record::Job(mut change) => {
            change.id = shift(change.id);
            Record::Job(change)
        }
        other => other,
    };
    records.into_iter().map(moved).collect()
}
