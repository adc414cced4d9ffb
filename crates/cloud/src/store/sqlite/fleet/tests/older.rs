//! Files that older versions wrote: brought up to date with everything that stands in them.

use orlop_core::ports::fleet_store::{FleetReads as _, JobFilter, Record};
use rusqlite::Connection;

use super::super::schema::FLEET;
use super::values::{attempt, ended, holder, new_attempt, new_job, spec};
use super::*;
use crate::store::sqlite::schema::Layout;

/// Writes what stands in a file into one of an older version: of each table the columns that it had.
fn downgraded(newest: &Path, old: &Path, version: usize) {
    let steps = &FLEET.steps[..version];
    let mut file = Connection::open(old).unwrap();
    Layout { noun: FLEET.noun, application_id: FLEET.application_id, steps }.migrate(old, &mut file).unwrap();
    file.execute("ATTACH ?1 AS newest", [newest.to_str().unwrap()]).unwrap();
    let names = |sql: &str| -> Vec<String> {
        let mut rows = file.prepare(sql).unwrap();
        rows.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    };
    let tables = "SELECT name FROM main.sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'";
    for table in names(tables) {
        let columns = names(&format!("SELECT name FROM pragma_table_info('{table}')")).join(", ");
        let copy = format!(
            "DELETE FROM main.{table}; INSERT INTO main.{table} ({columns}) SELECT {columns} FROM newest.{table}"
        );
        file.execute_batch(&copy).unwrap();
    }
}

#[tokio::test]
async fn rows_of_every_older_version_are_all_there_in_the_newest() {
    let folder = tempfile::tempdir().unwrap();
    let newest = folder.path().join("fleet.db");
    let store = open_in(folder.path()).await;
    let epoch = store.acquire(&holder()).await.unwrap();
    let spec = Record::Spec(Box::new(spec()));
    let (running, done) = (attempt(1, 1), attempt(2, 1));
    let attempts = [new_attempt(running), new_attempt(done), ended(done, true)];
    let records = std::iter::once(spec).chain((0..20).map(new_job)).chain(attempts).collect();
    store.commit(epoch, vec![WriteBatch::new(records)]).await.unwrap();
    let jobs = store.jobs(&JobFilter::default(), &Page::first(100)).await.unwrap();
    let restored = store.restore(&Page::first(100)).await.unwrap();
    let leader = store.leader().await.unwrap();
    assert_eq!(jobs.items.len(), 20);
    store.close().await;
    for version in 1..=FLEET.steps.len() {
        let old = folder.path().join(format!("version-{version}.db"));
        downgraded(&newest, &old, version);
        let store = SqliteFleet::open(&old, Durability::Full).await.unwrap();
        assert_eq!(store.jobs(&JobFilter::default(), &Page::first(100)).await.unwrap(), jobs, "version {version}");
        assert_eq!(store.restore(&Page::first(100)).await.unwrap(), restored, "version {version}");
        assert_eq!(store.leader().await.unwrap(), leader, "version {version}");
        // It goes on where it was.
        let next = store.acquire(&holder()).await.unwrap();
        assert_eq!(next, epoch.next());
        store.commit(next, vec![WriteBatch::new(vec![new_job(20)])]).await.unwrap();
        store.close().await;
    }
}
