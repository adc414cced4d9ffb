//! Full files, damaged files, files of others and of newer versions: classes and messages.

use std::io::{Read as _, Seek as _, SeekFrom, Write as _};

use orlop_core::ports::fleet_store::{FleetReads as _, Record};

use super::values::{holder, new_job, spec};
use super::*;

fn jobs(range: std::ops::Range<u64>) -> Vec<WriteBatch> {
    let spec = Record::Spec(Box::new(spec()));
    vec![WriteBatch::new(std::iter::once(spec).chain(range.map(new_job)).collect())]
}

#[tokio::test]
async fn a_full_file_is_capacity_and_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let opened = SqliteFleet::start(folder.path().join("fleet.db"), |path| {
        let writer = open::writer(path, Durability::Full, false)?;
        writer.connection.pragma_update_and_check(None, "max_page_count", 100, |_| Ok(())).unwrap();
        Ok(writer)
    });
    let store = opened.await.unwrap();
    let epoch = store.acquire(&holder()).await.unwrap();
    let mut written = 0;
    let error = loop {
        match store.commit(epoch, jobs(written..written + 50)).await {
            Ok(()) => written += 50,
            Err(error) => break error,
        }
    };
    assert_eq!(error.class, Class::Capacity, "{error}");
    assert!(error.message.contains("the disk is full; free some space"), "{error}");
    assert!(written > 0);
    let page = store.jobs(&Default::default(), &Page::first(10_000)).await.unwrap();
    assert_eq!(page.items.len() as u64, written);
    store.renew(epoch).await.unwrap();
}

#[tokio::test]
async fn a_damaged_file_is_fatal_and_stays_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("fleet.db");
    let store = open_in(folder.path()).await;
    let epoch = store.acquire(&holder()).await.unwrap();
    store.commit(epoch, jobs(0..2_000)).await.unwrap();
    store.close().await;
    let mut file = std::fs::OpenOptions::new().read(true).write(true).open(&path).unwrap();
    let length = file.metadata().unwrap().len();
    for page in 1..length / 4096 {
        file.seek(SeekFrom::Start(page * 4096)).unwrap();
        file.write_all(&[0xee; 200]).unwrap();
    }
    drop(file);
    let damaged = std::fs::read(&path).unwrap();
    let error = match SqliteFleet::open(&path, Durability::Full).await {
        Ok(store) => store.restore(&Page::first(10)).await.unwrap_err(),
        Err(error) => error,
    };
    assert_eq!(error.class, Class::Fatal, "{error}");
    assert!(error.message.contains("the file is damaged; keep a copy"), "{error}");
    assert_eq!(std::fs::read(&path).unwrap(), damaged, "nothing was written over it");
}

#[tokio::test]
async fn a_file_of_something_else_is_fatal_and_stays() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("fleet.db");
    std::fs::write(&path, "dear diary, ".repeat(1000)).unwrap();
    let error = SqliteFleet::open(&path, Durability::Full).await.unwrap_err();
    assert_eq!(error.class, Class::Fatal);
    assert!(error.message.contains("the file is not a fleet store; name another file"), "{error}");
    let mut text = String::new();
    std::fs::File::open(&path).unwrap().read_to_string(&mut text).unwrap();
    assert_eq!(text, "dear diary, ".repeat(1000));
}

#[tokio::test]
async fn a_newer_version_and_a_journal_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("fleet.db");
    open_in(folder.path()).await.close().await;
    rusqlite::Connection::open(&path).unwrap().pragma_update(None, "user_version", 99).unwrap();
    let error = SqliteFleet::open(&path, Durability::Full).await.unwrap_err();
    assert_eq!(error.class, Class::Fatal);
    let end = "has version 99, this Orlop knows versions 1 to 4; use a newer Orlop";
    assert!(error.message.ends_with(end), "{error}");
    let other = folder.path().join("flows.db");
    let journal = crate::store::sqlite::SqliteJournal::open(&other, crate::store::sqlite::Access::Host).await.unwrap();
    journal.close().await;
    let error = SqliteFleet::open(&other, Durability::Full).await.unwrap_err();
    assert!(error.message.ends_with("is a database of another program; name another file"), "{error}");
}

#[tokio::test]
async fn a_bad_commit_does_not_touch_those_it_waits_with() {
    let folder = tempfile::tempdir().unwrap();
    let store = open_in(folder.path()).await;
    let epoch = store.acquire(&holder()).await.unwrap();
    store.commit(epoch, jobs(0..1)).await.unwrap();
    let before = store.commits();
    // Even numbers are new, odd ones are all job 0, which is there.
    let calls = (2..42).map(|number| {
        let job = if number % 2 == 0 { number } else { 0 };
        store.commit(epoch, jobs(job..job + 1))
    });
    let results = futures::future::join_all(calls).await;
    for (result, number) in results.into_iter().zip(2..) {
        assert_eq!(result.map_err(|error| error.class), if number % 2 == 0 { Ok(()) } else { Err(Class::Invalid) });
    }
    assert_eq!(store.restore(&Page::first(99)).await.unwrap().jobs.len(), 21);
    let calls = (100..140).map(|job| store.commit(epoch, jobs(job..job + 1)));
    assert!(futures::future::join_all(calls).await.into_iter().all(|result| result.is_ok()));
    assert!(store.commits() - before < 60, "{} transactions", store.commits() - before);
}

async fn refused(path: &Path) -> Problem {
    let error = SqliteFleet::open(path, Durability::Full).await.unwrap_err();
    assert_eq!((error.class, error.reason), (Class::Invalid, Some(super::super::stamp::NOT_THE_SAME)), "{error}");
    error
}

#[tokio::test]
async fn a_store_that_is_not_the_one_that_was_here_is_refused_until_it_is_accepted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("fleet.db");
    let store = open_in(folder.path()).await;
    for _ in 0..3 {
        store.acquire(&holder()).await.unwrap();
    }
    store.close().await;
    let older = folder.path().join("older.db");
    std::fs::copy(&path, &older).unwrap();
    let store = open_in(folder.path()).await;
    let epoch = store.acquire(&holder()).await.unwrap();
    store.commit(epoch, jobs(0..10)).await.unwrap();
    store.close().await;
    // An older copy.
    std::fs::copy(&older, &path).unwrap();
    assert!(refused(&path).await.message.contains("its epoch is 3, and 4 was seen"));
    // Another one.
    let other = tempfile::tempdir().unwrap();
    open_in(other.path()).await.close().await;
    std::fs::copy(other.path().join("fleet.db"), &path).unwrap();
    assert!(refused(&path).await.message.contains("it is another store"));
    // An empty one, and none at all.
    std::fs::write(&path, "").unwrap();
    assert!(refused(&path).await.message.contains("it is empty, and the one that was here had epoch 4"));
    std::fs::remove_file(&path).unwrap();
    refused(&path).await;
    let advice = refused(&path).await.message;
    assert!(advice.contains("--accept-store"), "{advice}");
    // Its epochs go on above those that workers have seen.
    let store = SqliteFleet::accept(&path, Durability::Full).await.unwrap();
    assert_eq!(store.acquire(&holder()).await.unwrap(), Epoch(5));
    store.close().await;
    assert_eq!(open_in(folder.path()).await.acquire(&holder()).await.unwrap(), Epoch(6));
}

#[tokio::test]
async fn a_store_that_is_removed_or_replaced_while_it_is_open_takes_nothing_more() {
    for name in ["fleet.db", "fleet.db-wal"] {
        let folder = tempfile::tempdir().unwrap();
        let store = open_in(folder.path()).await;
        let epoch = store.acquire(&holder()).await.unwrap();
        store.commit(epoch, jobs(0..10)).await.unwrap();
        let (path, away) = (folder.path().join(name), folder.path().join("away"));
        std::fs::rename(&path, &away).unwrap();
        for _ in 0..2 {
            let error = store.commit(epoch, jobs(10..20)).await.unwrap_err();
            assert!(error.class == Class::Denied && error.message.contains("was removed or replaced"), "{error}");
            std::fs::copy(&away, &path).unwrap();
        }
        assert!(store.acquire(&holder()).await.is_err(), "nor does anybody lead");
        // Put back, it is the same again.
        std::fs::rename(&away, &path).unwrap();
        store.commit(epoch, jobs(10..20)).await.unwrap();
    }
}

#[tokio::test]
async fn commits_that_are_missing_at_the_end_of_the_log_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("fleet.db");
    let store = open_in(folder.path()).await;
    let epoch = store.acquire(&holder()).await.unwrap();
    store.close().await;
    let store = open_in(folder.path()).await;
    let stamp = || std::fs::read(folder.path().join(".fleet.db.stamp")).unwrap();
    let before = stamp();
    store.commit(epoch, jobs(0..10)).await.unwrap();
    while stamp() == before {
        tokio::task::yield_now().await;
    }
    // The process dies, and its log with it.
    let (copy, log) = (folder.path().join("copy.db"), folder.path().join(".copy.db.stamp"));
    std::fs::copy(&path, &copy).unwrap();
    std::fs::copy(folder.path().join(".fleet.db.stamp"), &log).unwrap();
    let lost = SqliteFleet::open(&copy, Durability::Full).await.unwrap();
    assert_eq!(lost.jobs(&Default::default(), &Page::first(100)).await.unwrap().items.len(), 0);
    assert!(lost.lost_commits() > 0);
    store.close().await;
    assert_eq!(open_in(folder.path()).await.lost_commits(), 0);
}
