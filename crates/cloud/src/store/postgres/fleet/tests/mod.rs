//! The PostgreSQL store under the conformance suite, and leadership with terms. Needs a database in `ORLOP_TEST_POSTGRES`,
//! which `scripts/with-postgres` provides; says `skipped: …` where there is none.

use orlop_core::ports::fleet_store::{FENCED, FleetReads as _, HELD, NewSpec, Record};
use orlop_core::testing::fleet_store_suite;

use super::*;

mod encrypted;

/// The database for tests, if there is one.
fn url() -> Option<String> {
    let url = std::env::var("ORLOP_TEST_POSTGRES").ok().filter(|url| !url.is_empty());
    if url.is_none() {
        println!("skipped: no PostgreSQL in ORLOP_TEST_POSTGRES; scripts/with-postgres provides one");
    }
    url
}

/// A schema of this run and test.
fn schema(name: &str) -> String {
    format!("t{}_{name}", std::process::id())
}

fn holder(name: &str) -> Holder {
    Holder { name: name.to_owned(), url: format!("http://{name}:7070") }
}

fn turns() -> Vec<WriteBatch> {
    vec![WriteBatch::new(vec![Record::Spec(Box::new(NewSpec::new("{}")))])]
}

#[tokio::test]
async fn the_store_passes_the_suite() {
    let Some(url) = url() else { return };
    let passed = fleet_store_suite(async |number| {
        let options = PostgresOptions::new(&url).schema(schema(&format!("suite_{number}")));
        PostgresFleet::open(options).await.unwrap_or_else(|error| panic!("{}", error.chain()))
    });
    let passed = passed.await.unwrap_or_else(|error| panic!("{error}"));
    assert!(passed.len() >= 50, "{} checks", passed.len());
}

#[tokio::test]
async fn a_leader_is_followed_when_its_term_is_over_and_fenced_from_then_on() {
    let Some(url) = url() else { return };
    let options = PostgresOptions::new(&url).schema(schema("terms")).term(Duration::from_secs(4));
    let first = PostgresFleet::open(options.clone()).await.unwrap();
    let second = PostgresFleet::open(options).await.unwrap();
    let epoch = first.acquire(&holder("a")).await.unwrap();
    let error = second.acquire(&holder("b")).await.unwrap_err();
    assert_eq!((error.class, error.reason), (Class::Conflict, Some(HELD)));
    assert!(error.retry_after.unwrap() <= Duration::from_secs(4));
    assert!(error.message.contains("`a` at http://a:7070 leads in epoch 1"), "{error}");
    first.renew(epoch).await.unwrap();
    first.commit(epoch, turns()).await.unwrap();
    let next = loop {
        match second.acquire(&holder("b")).await {
            Ok(epoch) => break epoch,
            Err(error) => tokio::time::sleep(error.retry_after.unwrap() + Duration::from_millis(1)).await,
        }
    };
    assert_eq!(next, epoch.next());
    assert_eq!(first.commit(epoch, turns()).await.unwrap_err().reason, Some(FENCED));
    assert_eq!(first.renew(epoch).await.unwrap_err().reason, Some(FENCED));
    second.commit(next, turns()).await.unwrap();
    assert_eq!(first.leader().await.unwrap().unwrap().holder, "b");
}

#[tokio::test]
async fn a_leader_that_stops_within_a_transaction_holds_nobody_up() {
    let Some(url) = url() else { return };
    let options = PostgresOptions::new(&url).schema(schema("stops")).term(Duration::from_millis(400));
    let first = PostgresFleet::open(options.clone()).await.unwrap();
    let second = PostgresFleet::open(options).await.unwrap();
    let epoch = first.acquire(&holder("a")).await.unwrap();
    let stopped = first.reader().await.unwrap();
    stopped.client.batch_execute("BEGIN").await.unwrap();
    worker::fence(&stopped, epoch).await.unwrap();
    // It says nothing more, and its connection stays.
    let followed = async {
        loop {
            match second.acquire(&holder("b")).await {
                Ok(epoch) => break epoch,
                Err(error) if error.reason == Some(HELD) => {
                    tokio::time::sleep(error.retry_after.unwrap() + Duration::from_millis(1)).await;
                }
                Err(error) => panic!("{error}"),
            }
        }
    };
    let next = tokio::time::timeout(Duration::from_secs(60), followed).await.expect("it can be followed");
    assert_eq!(next, epoch.next());
    assert!(stopped.client.batch_execute("COMMIT").await.is_err(), "what it had begun is gone");
}

#[tokio::test]
async fn a_broken_connection_is_opened_again() {
    let Some(url) = url() else { return };
    let schema = schema("broken");
    // Its own name, so that the connections of other tests live on.
    let joint = match (url.contains("://"), url.contains('?')) {
        (false, _) => ' ',
        (true, false) => '?',
        (true, true) => '&',
    };
    let named = format!("{url}{joint}application_name={schema}");
    let store = PostgresFleet::open(PostgresOptions::new(&named).schema(&schema)).await.unwrap();
    let epoch = store.acquire(&holder("a")).await.unwrap();
    let (killer, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.unwrap();
    let connection = tokio::spawn(connection);
    let own = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = $1";
    let killed: i64 = killer.query_one(own, &[&schema]).await.unwrap().get(0);
    assert!(killed > 0);
    // One call may still meet the broken connection.
    let mut results = Vec::new();
    for _ in 0..50 {
        results.push(store.commit(epoch, turns()).await.map_err(|error| error.class));
        if results.last() == Some(&Ok(())) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(results.last(), Some(&Ok(())), "{results:?}");
    assert!(results.iter().all(|result| matches!(result, Ok(()) | Err(Class::Transient))), "{results:?}");
    drop(killer);
    connection.await.unwrap().unwrap();
}

#[tokio::test]
async fn who_reads_waits_for_a_silent_database_for_a_while_only() {
    let Some(url) = url() else { return };
    let (schema, patience) = (schema("silent"), Duration::from_millis(300));
    let store = PostgresFleet::open(PostgresOptions::new(&url).schema(&schema).patience(patience)).await.unwrap();
    let job = orlop_core::id::JobId::from_u64(1);
    assert!(store.job(job).await.unwrap().is_none());
    let (locker, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.unwrap();
    let connection = tokio::spawn(connection);
    let lock = format!("BEGIN; LOCK TABLE {schema}.jobs IN ACCESS EXCLUSIVE MODE");
    locker.batch_execute(&lock).await.unwrap();
    for _ in 0..2 * READERS {
        let reading = tokio::time::timeout(Duration::from_secs(60), store.job(job));
        let error = reading.await.expect("nobody waits for ever").unwrap_err();
        assert_eq!(error.class, Class::Transient);
        assert!(error.message.contains("has not answered for 0.3 s"), "{error}");
    }
    locker.batch_execute("COMMIT").await.unwrap();
    drop(locker);
    connection.await.unwrap().unwrap();
    // What was asked before it is answered first.
    let again = async { while store.job(job).await.is_err() {} };
    tokio::time::timeout(Duration::from_secs(60), again).await.expect("it speaks again");
}

#[tokio::test]
async fn a_newer_schema_is_refused() {
    let Some(url) = url() else { return };
    let options = PostgresOptions::new(&url).schema(schema("newer"));
    PostgresFleet::open(options.clone()).await.unwrap().close().await;
    let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    client.batch_execute(&format!("UPDATE {}.meta SET value = '99'", options.schema)).await.unwrap();
    let error = PostgresFleet::open(options).await.unwrap_err();
    assert_eq!(error.class, Class::Fatal);
    assert!(error.message.ends_with("it knows 1 to 5; use a newer Orlop"), "{error}");
}

#[tokio::test]
async fn a_place_without_a_database_is_transient_and_keeps_the_password() {
    let error = PostgresFleet::open(PostgresOptions::new("postgres://u:hush@127.0.0.1:1/db")).await.unwrap_err();
    assert_eq!(error.class, Class::Transient, "{}", error.chain());
    assert!(!error.chain().contains("hush"));
    let error = PostgresFleet::open(PostgresOptions::new("postgres://u:hush@[::1/db")).await.unwrap_err();
    assert_eq!(error.class, Class::Invalid);
    assert!(!error.chain().contains("hush"));
    assert!(!format!("{:?}", PostgresOptions::new("postgres://u:hush@h/db")).contains("hush"));
    let error = PostgresFleet::open(PostgresOptions::new("postgres://h/db?sslmode=prefer")).await.unwrap_err();
    assert_eq!(error.class, Class::Invalid);
    let options = PostgresOptions::new("postgres://h/db").schema("a; DROP TABLE jobs");
    assert_eq!(PostgresFleet::open(options).await.unwrap_err().class, Class::Invalid);
}

/// Runs blocking work as a server does.
async fn blocking(work: impl FnOnce() + Send + 'static) {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn logs_in_the_database_pass_the_suite() {
    let Some(url) = url() else { return };
    let options = PostgresOptions::new(&url).schema(schema("logs")).term(Duration::from_millis(200));
    let store = PostgresFleet::open(options).await.unwrap();
    let runtime = tokio::runtime::Handle::current();
    blocking(move || {
        let mut before: Option<(Epoch, crate::logs::LogStore)> = None;
        crate::logs::suite::check(&mut || {
            runtime.block_on(async {
                if let Some((epoch, logs)) = before.take() {
                    store.release(epoch).await.unwrap();
                    logs.resign();
                }
                let logs = crate::logs::LogStore::new(store.logs());
                let epoch = store.acquire(&holder("a")).await.unwrap();
                logs.lead(epoch).unwrap();
                before = Some((epoch, logs.clone()));
                logs
            })
        });
        // Another server has taken over, and this one has not seen it: the database refuses what it writes.
        let (epoch, logs) = before.unwrap();
        let next = runtime.block_on(async {
            store.release(epoch).await.unwrap();
            store.acquire(&holder("b")).await.unwrap()
        });
        let late = [crate::logs::suite::chunk(60, 1, "late")];
        assert_eq!(logs.append(&late).unwrap_err().class, Class::Transient);
        let other = crate::logs::LogStore::new(runtime.block_on(async { store.logs() }));
        other.lead(next).unwrap();
        assert_eq!(other.append(&late).unwrap(), 4);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn artifacts_in_the_database_pass_the_suite() {
    let Some(url) = url() else { return };
    let store = PostgresFleet::open(PostgresOptions::new(&url).schema(schema("artifacts"))).await.unwrap();
    let runtime = tokio::runtime::Handle::current();
    blocking(move || {
        crate::artifact::suite::check(&mut || Box::new(runtime.block_on(async { store.artifacts() })));
    })
    .await;
}

#[tokio::test]
async fn servers_that_would_keep_logs_in_different_places_are_refused() {
    let Some(url) = url() else { return };
    let store = PostgresFleet::open(PostgresOptions::new(&url).schema(schema("places"))).await.unwrap();
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let [one, other] = [0, 1].map(|number| Some(folders[number].path()));
    store.settle(Contents::Logs, one, false).await.unwrap();
    store.settle(Contents::Logs, one, false).await.unwrap();
    let refused = store.settle(Contents::Logs, other, false).await.unwrap_err();
    assert!(refused.class == Class::Conflict && refused.message.contains("one folder that they share"), "{refused}");
    let refused = store.settle(Contents::Logs, None, false).await.unwrap_err();
    assert!(refused.message.contains("name it in `store.logs`"), "{refused}");
    // Each kind has its own place.
    store.settle(Contents::Artifacts, None, false).await.unwrap();
    let refused = store.settle(Contents::Artifacts, one, false).await.unwrap_err();
    assert!(refused.message.contains("leave `store.artifacts` out"), "{refused}");
    // The advice works, where nobody leads.
    let epoch = store.acquire(&holder("a")).await.unwrap();
    let refused = store.settle(Contents::Logs, other, true).await.unwrap_err();
    assert!(refused.message.contains("`a` at http://a:7070 leads"), "{refused}");
    store.settle(Contents::Logs, one, true).await.unwrap();
    store.release(epoch).await.unwrap();
    store.settle(Contents::Logs, other, true).await.unwrap();
    assert!(store.settle(Contents::Logs, one, false).await.is_err());
}
