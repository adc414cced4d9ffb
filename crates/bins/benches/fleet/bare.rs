//! What a store does when nobody is in front of it: rows with the text of a job in each, in commits of so many. Each gives
//! rows a second.

use std::time::Instant;

use tokio_postgres::{Client, NoTls};

/// `INTEGER` is the number of the row itself in SQLite, without an index beside it.
const COLUMNS: &str = "(id INTEGER PRIMARY KEY, tenant TEXT NOT NULL, state TEXT NOT NULL, body TEXT NOT NULL)";

/// Into a file of SQLite with the settings of a server.
pub(crate) fn sqlite(body: &str, count: u32, batch: u32) -> f64 {
    let dir = tempfile::tempdir().expect("a directory");
    let mut connection = rusqlite::Connection::open(dir.path().join("bare.db")).expect("a file");
    let settings = "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 4000;";
    connection.execute_batch(&format!("{settings} CREATE TABLE job {COLUMNS}")).expect("a table");
    let began = Instant::now();
    for first in (0..count).step_by(batch as usize) {
        let transaction = connection.transaction().expect("a transaction");
        let mut insert =
            transaction.prepare_cached("INSERT INTO job VALUES (?1, 'default', 'Queued', ?2)").expect("a statement");
        for id in first..(first + batch).min(count) {
            insert.execute((id, body)).expect("a row");
        }
        drop(insert);
        transaction.commit().expect("it is on disk");
    }
    f64::from(count) / began.elapsed().as_secs_f64()
}

/// Into a table of PostgreSQL, one statement for each commit.
pub(crate) async fn postgres(url: &str, body: &str, count: u32, batch: u32) -> f64 {
    let client = connect(url).await;
    client.batch_execute(&format!("DROP TABLE IF EXISTS bare; CREATE TABLE bare {COLUMNS}")).await.expect("a table");
    let insert =
        "INSERT INTO bare SELECT id, 'default', 'Queued', body FROM UNNEST($1::int8[], $2::text[]) AS u(id, body)";
    let insert = client.prepare(insert).await.expect("a statement");
    let began = Instant::now();
    for first in (0..count).step_by(batch as usize) {
        let ids: Vec<i64> = (first..(first + batch).min(count)).map(i64::from).collect();
        let bodies = vec![body; ids.len()];
        client.execute(&insert, &[&ids, &bodies]).await.expect("rows");
    }
    let rate = f64::from(count) / began.elapsed().as_secs_f64();
    client.batch_execute("DROP TABLE bare").await.expect("it goes");
    rate
}

/// Removes what a server has left.
pub(crate) async fn forget(url: &str, schema: &str) {
    connect(url).await.batch_execute(&format!("DROP SCHEMA IF EXISTS {schema} CASCADE")).await.expect("it goes");
}

async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.expect("PostgreSQL answers");
    tokio::spawn(connection);
    client
}
