//! The journal against its port, beside other processes, and in trouble.

mod crash;
mod trouble;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::future::{join, join_all};
use orlop_core::error::Class;
use orlop_core::ports::journal::{FlowJournal as _, FlowRecord, JournalEntry};
use orlop_core::spec::flow::{FlowSpec, JobFlow};
use orlop_core::testing::journal_suite;
use orlop_core::time::Time;

use super::*;

fn record(uid: &str) -> FlowRecord {
    FlowRecord {
        uid: uid.to_owned(),
        flow: JobFlow::new(uid, FlowSpec::default()),
        created_at: Time::EPOCH,
        options: serde_json::Value::Null,
    }
}

fn entry(text: impl Into<String>) -> JournalEntry {
    JournalEntry { now: Time::EPOCH, event: text.into() }
}

async fn host(path: impl Into<PathBuf>) -> SqliteJournal {
    SqliteJournal::open(path, Access::Host).await.unwrap()
}

async fn viewer(path: impl Into<PathBuf>) -> Result<SqliteJournal, Problem> {
    SqliteJournal::open(path, Access::Viewer).await
}

async fn count(journal: &SqliteJournal, uid: &str) -> usize {
    journal.load(uid).await.unwrap().entries.len()
}

#[tokio::test]
async fn it_passes_the_suite() {
    let folder = tempfile::tempdir().unwrap();
    let passed = journal_suite(async |number| host(folder.path().join(format!("{number}.db"))).await).await;
    assert!(passed.unwrap_or_else(|error| panic!("{error}")).len() >= 40);
}

#[tokio::test]
async fn links_to_a_file_have_one_host() {
    let folder = tempfile::tempdir().unwrap();
    let (path, link, chain) =
        (folder.path().join("flows.db"), folder.path().join("link.db"), folder.path().join("chain.db"));
    // Before the file exists, and relative to the link.
    std::os::unix::fs::symlink("flows.db", &link).unwrap();
    std::os::unix::fs::symlink(&link, &chain).unwrap();
    let journal = host(&chain).await;
    for other in [&path, &link, &chain] {
        let error = SqliteJournal::open(other, Access::Host).await.unwrap_err();
        assert_eq!(error.reason, Some("Locked"), "{}", other.display());
    }
    journal.close().await;
    host(&path).await.close().await;
}

#[tokio::test]
async fn one_process_hosts_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("flows.db");
    let journal = host(&path).await;
    let error = SqliteJournal::open(&path, Access::Host).await.unwrap_err();
    assert_eq!((error.class, error.reason), (Class::Conflict, Some("Locked")));
    let reported = format!("is hosted by process {}; end it first", std::process::id());
    assert!(error.message.contains(&reported), "{error}");
    journal.close().await;
    host(&path).await.create(&record("f")).await.unwrap();
}

#[tokio::test]
async fn viewers_see_what_a_host_has_acknowledged() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("flows.db");
    assert_eq!(viewer(&path).await.unwrap_err().class, Class::NotFound);
    let journal = host(&path).await;
    let (one, two) = (viewer(&path).await.unwrap(), viewer(&path).await.unwrap());
    journal.create(&record("f")).await.unwrap();
    for number in 0..20 {
        journal.append("f", number, &[entry("e")]).await.unwrap();
        assert_eq!(count(&one, "f").await, usize::try_from(number).unwrap() + 1);
    }
    journal.snapshot("f", 20, b"s").await.unwrap();
    assert_eq!(two.load("f").await.unwrap().snapshot, Some((20, b"s".to_vec())));
    assert_eq!(two.list().await.unwrap().len(), 1);
    journal.close().await;
    assert_eq!(count(&one, "f").await, 0, "also after the host has ended");
}

#[tokio::test]
async fn a_viewer_writes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("flows.db");
    host(&path).await.create(&record("f")).await.unwrap();
    let journal = viewer(&path).await.unwrap();
    let error = journal.append("f", 0, &[entry("e")]).await.unwrap_err();
    assert_eq!(error.class, Class::Denied);
    assert!(error.message.ends_with("was opened for viewing only; open it as host to write"), "{error}");
    assert_eq!(journal.delete("f").await.unwrap_err().class, Class::Denied);
    assert_eq!(count(&journal, "f").await, 0);
}

#[tokio::test]
async fn a_closed_journal_is_viewed_where_nothing_can_be_created() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("flows #1?.db");
    let journal = host(&path).await;
    journal.create(&record("f")).await.unwrap();
    journal.close().await;
    // A folder in its place keeps SQLite from making its companion file.
    std::fs::create_dir(folder.path().join("flows #1?.db-shm")).unwrap();
    assert_eq!(count(&viewer(&path).await.unwrap(), "f").await, 0);
}

#[tokio::test]
async fn calls_that_wait_share_a_commit() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("flows.db");
    let journal = host(&path).await;
    for number in 0..100 {
        journal.create(&record(&format!("f{number}"))).await.unwrap();
    }
    let before = journal.commits();
    assert_eq!(before, 100);
    // Another connection holds the file while the calls are handed over.
    let other = rusqlite::Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let batch = [entry("e")];
    let appends = (0..100).map(|number| {
        let (journal, batch) = (&journal, &batch);
        async move { journal.append(&format!("f{number}"), 0, batch).await }
    });
    let release = async {
        tokio::task::yield_now().await;
        other.execute_batch("COMMIT").unwrap();
    };
    let (results, ()) = join(join_all(appends), release).await;
    results.into_iter().for_each(Result::unwrap);
    assert!(journal.commits() - before <= 2, "{} commits", journal.commits() - before);
}

#[tokio::test]
async fn a_refused_call_leaves_its_group_standing() {
    let folder = tempfile::tempdir().unwrap();
    let journal = host(folder.path().join("flows.db")).await;
    journal.create(&record("f")).await.unwrap();
    let batch = [entry("e")];
    let calls = (0..60_u64).map(|number| {
        let (journal, batch) = (&journal, &batch);
        // Every third call comes late, is for an unknown flow or goes well.
        async move {
            match number % 3 {
                0 => journal.append("f", number / 3, batch).await.map_err(|error| error.class),
                1 => journal.append("f", 1000, batch).await.map_err(|error| error.class),
                _ => journal.append("g", 0, batch).await.map_err(|error| error.class),
            }
        }
    });
    let results = join_all(calls).await;
    for (result, number) in results.into_iter().zip(0..) {
        let wanted = [Ok(()), Err(Class::Conflict), Err(Class::NotFound)];
        assert_eq!(result, wanted[number % 3]);
    }
    assert_eq!(count(&journal, "f").await, 20);
}

#[tokio::test]
async fn the_runtime_goes_on_while_the_file_is_busy() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("flows.db");
    let journal = host(&path).await;
    let other = rusqlite::Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let ticks = AtomicU64::new(0);
    let flow = record("f");
    let create = journal.create(&flow);
    let tick = async {
        // The only thread of this runtime would never come here if the call held it.
        for _ in 0..5 {
            tokio::time::sleep(Duration::from_millis(10)).await;
            ticks.fetch_add(1, Ordering::Relaxed);
        }
        other.execute_batch("COMMIT").unwrap();
    };
    let (result, ()) = join(create, tick).await;
    result.unwrap();
    assert_eq!(ticks.into_inner(), 5);
}

#[tokio::test]
async fn a_dropped_call_does_not_disturb_the_next() {
    let folder = tempfile::tempdir().unwrap();
    let journal = host(folder.path().join("flows.db")).await;
    let flow = record("f");
    drop(tokio::time::timeout(Duration::ZERO, journal.create(&flow)).await);
    journal.delete("f").await.unwrap();
    journal.create(&flow).await.unwrap();
    assert_eq!(journal.list().await.unwrap().len(), 1);
}

#[test]
fn handles_are_shared_between_threads() {
    fn shared<T: Send + Sync>() {}
    shared::<SqliteJournal>();
}
