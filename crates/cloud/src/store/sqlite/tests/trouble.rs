//! Full disks, read-only disks, damaged files, locks: classes and messages.

use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::process::Command;

use super::*;

/// Opens a journal whose file may not grow past this many pages.
async fn small(path: PathBuf, pages: u32) -> SqliteJournal {
    let opened = SqliteJournal::start(path, Access::Host, move |path, access| {
        let store = open::open(path, access)?;
        store.connection.pragma_update_and_check(None, "max_page_count", pages, |_| Ok(())).unwrap();
        Ok(store)
    });
    opened.await.unwrap()
}

#[tokio::test]
async fn a_full_file_is_capacity_and_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let journal = small(folder.path().join("flows.db"), 40).await;
    journal.create(&record("f")).await.unwrap();
    let mut written = 0;
    let error = loop {
        match journal.append("f", written, &[entry("x".repeat(9_000))]).await {
            Ok(()) => written += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(error.class, Class::Capacity);
    let reported = "failed: the disk is full; free some space (SQLite error 13: database or disk is full)";
    assert!(error.message.ends_with(reported), "{error}");
    assert!(written > 0);
    let stored = journal.load("f").await.unwrap();
    assert_eq!((stored.last, stored.entries.len() as u64), (written, written));
    // What still fits is still taken.
    journal.snapshot("f", written, b"s").await.unwrap();
    journal.append("f", written, &[entry("y")]).await.unwrap();
}

#[tokio::test]
async fn a_damaged_file_is_fatal() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("flows.db");
    let journal = host(&path).await;
    journal.create(&record("f")).await.unwrap();
    for number in 0..50 {
        journal.append("f", number, &[entry("x".repeat(5_000))]).await.unwrap();
    }
    journal.close().await;
    let mut file = std::fs::OpenOptions::new().read(true).write(true).open(&path).unwrap();
    let length = file.metadata().unwrap().len();
    for page in 1..length / 4096 {
        file.seek(SeekFrom::Start(page * 4096)).unwrap();
        file.write_all(&[0xee; 200]).unwrap();
    }
    drop(file);
    let error = match SqliteJournal::open(&path, Access::Host).await {
        Ok(journal) => journal.load("f").await.unwrap_err(),
        Err(error) => error,
    };
    assert_eq!(error.class, Class::Fatal, "{error}");
    assert!(error.message.contains("the file is damaged; keep a copy, then restore a backup"), "{error}");
}

#[tokio::test]
async fn a_file_of_something_else_is_fatal_and_stays() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("flows.db");
    std::fs::write(&path, "dear diary, ".repeat(1000)).unwrap();
    let error = SqliteJournal::open(&path, Access::Host).await.unwrap_err();
    assert_eq!(error.class, Class::Fatal);
    assert!(error.message.contains("the file is not a journal; name another file"), "{error}");
    assert_eq!(viewer(&path).await.unwrap_err().class, Class::Fatal);
    let mut text = String::new();
    std::fs::File::open(&path).unwrap().read_to_string(&mut text).unwrap();
    assert_eq!(text, "dear diary, ".repeat(1000));
}

#[tokio::test]
async fn an_entry_that_is_missing_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("flows.db");
    let journal = host(&path).await;
    journal.create(&record("f")).await.unwrap();
    journal.append("f", 0, &[entry("a"), entry("b"), entry("c")]).await.unwrap();
    rusqlite::Connection::open(&path).unwrap().execute_batch("DELETE FROM entry WHERE number = 2").unwrap();
    let error = journal.load("f").await.unwrap_err();
    assert_eq!(error.class, Class::Fatal);
    assert!(error.message.ends_with("flow `f` has 2 entries between 0 and 3; restore a backup"), "{error}");
}

#[tokio::test]
async fn an_object_that_cannot_be_read_is_fatal_for_its_flow_only() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("flows.db");
    let journal = host(&path).await;
    journal.create(&record("f")).await.unwrap();
    journal.create(&record("g")).await.unwrap();
    let other = rusqlite::Connection::open(&path).unwrap();
    other.execute_batch("UPDATE flow SET object = '{\"kind\":' WHERE uid = 'f'").unwrap();
    let error = journal.load("f").await.unwrap_err();
    assert_eq!(error.class, Class::Fatal);
    assert!(error.message.starts_with("the object of flow `f` in journal "), "{error}");
    journal.load("g").await.unwrap();
    assert_eq!(journal.list().await.unwrap().len(), 2);
}

#[tokio::test]
async fn a_file_another_program_has_locked_is_a_conflict() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("flows.db");
    let opened = SqliteJournal::start(path.clone(), Access::Host, |path, access| {
        let store = open::open(path, access)?;
        store.connection.busy_timeout(Duration::ZERO).unwrap();
        Ok(store)
    });
    let journal = opened.await.unwrap();
    let other = rusqlite::Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let error = journal.create(&record("f")).await.unwrap_err();
    assert_eq!(error.class, Class::Conflict);
    assert!(error.message.contains("another process has locked the file"), "{error}");
    other.execute_batch("ROLLBACK").unwrap();
    journal.create(&record("f")).await.unwrap();
}

#[tokio::test]
async fn a_folder_that_is_not_there_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let error = SqliteJournal::open(folder.path().join("no/flows.db"), Access::Host).await.unwrap_err();
    assert_eq!(error.class, Class::NotFound);
    assert!(error.message.ends_with("no/flows.db.lock of the journal cannot be taken"), "{error}");
}

/// Runs a test of this binary again where the folder in `ORLOP_TEST_DISK` is a separate small disk. Gives false where
/// the system allows no mounts.
fn on_a_small_disk(test: &str, size: &str) -> bool {
    let namespaces = || {
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--mount"]);
        command
    };
    if !namespaces().arg("true").status().is_ok_and(|status| status.success()) {
        return false;
    }
    let folder = tempfile::tempdir().unwrap();
    let script = "mount -t tmpfs -o size=$1 none \"$ORLOP_TEST_DISK\" && shift && exec \"$@\"";
    let output = namespaces()
        .args(["sh", "-c", script, "sh", size])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env("ORLOP_TEST_DISK", folder.path())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{text}{}", String::from_utf8_lossy(&output.stderr));
    true
}

#[tokio::test]
async fn a_full_disk_is_capacity_and_a_read_only_one_is_denied() {
    let Some(disk) = std::env::var_os("ORLOP_TEST_DISK").map(PathBuf::from) else {
        let test = "store::sqlite::tests::trouble::a_full_disk_is_capacity_and_a_read_only_one_is_denied";
        if !on_a_small_disk(test, "1m") {
            eprintln!("not tested: this system allows no mounts");
        }
        return;
    };
    let path = disk.join("flows.db");
    let journal = host(&path).await;
    journal.create(&record("f")).await.unwrap();
    let mut written = 0;
    let error = loop {
        match journal.append("f", written, &[entry("x".repeat(20_000))]).await {
            Ok(()) => written += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(error.class, Class::Capacity, "{}", error.chain());
    assert_eq!(journal.load("f").await.unwrap().last, written);
    journal.close().await;
    let journal = host(&path).await;
    assert_eq!(journal.load("f").await.unwrap().last, written, "every acknowledged entry is there");
    let remount = |options| Command::new("mount").args(["-o", options]).arg(&disk).status().unwrap().success();
    assert!(remount("remount,size=8m"));
    journal.append("f", written, &[entry("x".repeat(20_000))]).await.unwrap();
    journal.delete("f").await.unwrap();
    journal.close().await;
    assert!(remount("remount,ro"));
    let error = SqliteJournal::open(&path, Access::Host).await.unwrap_err();
    assert_eq!(error.class, Class::Denied, "{}", error.chain());
    assert!(viewer(&path).await.unwrap().list().await.unwrap().is_empty());
}
