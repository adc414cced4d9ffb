//! The port's suite over every store, and what is the fleet's own: fencing, names, retention.

use std::collections::BTreeMap;

use orlop_core::ports::fleet_store::{FleetReads as _, Holder};
use orlop_core::spec::flow::{FlowSpec, JobFlow};
use orlop_core::testing::fleet_store::MemoryFleet;
use orlop_core::testing::journal::journal_suite;
use orlop_core::time::Time;
use serde_json::json;

use super::*;

async fn on(store: &MemoryFleet) -> FleetJournal {
    by_leader(Arc::new(store.clone())).await.0
}

/// The journal of a server that leads from now on, and its epoch.
async fn by_leader(store: Arc<dyn FleetStore>) -> (FleetJournal, Epoch) {
    let holder = Holder { name: "test".to_owned(), url: String::new() };
    let epoch = store.acquire(&holder).await.unwrap();
    (FleetJournal::new(store, Arc::new(move || Ok(epoch))), epoch)
}

fn flow(uid: &str) -> FlowRecord {
    let mut flow = JobFlow::new("nightly", FlowSpec::default());
    flow.metadata.namespace = Some("physics".to_owned());
    let options = json!({ "driver": { "pipeline": ["p", 3] } });
    FlowRecord { uid: uid.to_owned(), flow, created_at: Time::from_millis(5), options }
}

fn ended() -> FlowSummary {
    let at = Some(Time::from_millis(9));
    FlowSummary { phase: FlowPhase::Succeeded, ended_at: at, ..FlowSummary::default() }
}

/// Stores of a suite by number, each with the epoch of its leader.
type Stores = BTreeMap<u32, (Arc<dyn FleetStore>, Epoch)>;

/// Runs the port's suite over stores, one for each of its numbers.
async fn is_kept_on(open: impl AsyncFn(u32) -> Arc<dyn FleetStore>) {
    let stores: tokio::sync::Mutex<Stores> = tokio::sync::Mutex::default();
    let journal = async |number: u32| {
        let mut stores = stores.lock().await;
        let store = match stores.remove(&number) {
            Some((store, epoch)) => {
                // Anyone who has a term gives it up before the next one leads.
                store.release(epoch).await.unwrap();
                store
            }
            None => open(number).await,
        };
        let (journal, epoch) = by_leader(Arc::clone(&store)).await;
        stores.insert(number, (store, epoch));
        journal
    };
    let checks = journal_suite(journal).await.unwrap_or_else(|failure| panic!("{failure}"));
    assert!(checks.len() >= 40);
}

#[tokio::test]
async fn the_port_is_kept() {
    is_kept_on(async |_| Arc::new(MemoryFleet::new()) as Arc<dyn FleetStore>).await;
}

#[tokio::test]
async fn the_port_is_kept_on_sqlite() {
    use orlop_cloud::store::sqlite::fleet::{Durability, SqliteFleet};
    let dir = tempfile::tempdir().unwrap();
    let open = async |number: u32| {
        let path = dir.path().join(format!("{number}.db"));
        Arc::new(SqliteFleet::open(path, Durability::Full).await.unwrap()) as Arc<dyn FleetStore>
    };
    is_kept_on(open).await;
}

#[cfg(feature = "postgres")]
#[tokio::test]
async fn the_port_is_kept_on_postgresql() {
    use orlop_cloud::store::postgres::fleet::{PostgresFleet, PostgresOptions};
    let Some(url) = std::env::var("ORLOP_TEST_POSTGRES").ok().filter(|url| !url.is_empty()) else {
        return println!("skipped: no PostgreSQL in ORLOP_TEST_POSTGRES; scripts/with-postgres provides one");
    };
    let open = async |number: u32| {
        let options = PostgresOptions::new(&url).schema(format!("t{}_journal_{number}", std::process::id()));
        Arc::new(PostgresFleet::open(options).await.unwrap()) as Arc<dyn FleetStore>
    };
    is_kept_on(open).await;
}

#[tokio::test]
async fn an_earlier_leader_writes_nothing() {
    let store = MemoryFleet::new();
    let old = on(&store).await;
    old.create(&flow("f")).await.unwrap();
    let new = on(&store).await;
    let entry = JournalEntry { now: Time::from_millis(6), event: "{}".to_owned() };
    let refused = old.append("f", 0, std::slice::from_ref(&entry)).await.unwrap_err();
    assert_eq!(refused.class, Class::Denied);
    new.append("f", 0, &[entry]).await.unwrap();
    assert_eq!(new.load("f").await.unwrap().last, 1);
}

#[tokio::test]
async fn a_name_is_free_again_when_its_flow_has_ended() {
    let store = MemoryFleet::new();
    let journal = on(&store).await;
    journal.create(&flow("one")).await.unwrap();
    assert_eq!(journal.document("one").await.unwrap().pipeline, Some(("p".to_owned(), 3)));
    assert_eq!(journal.create(&flow("two")).await.unwrap_err().class, Class::Exists);
    journal.summarize("one", &ended()).await.unwrap();
    journal.create(&flow("two")).await.unwrap();
    // The end of the first one takes no name from the second.
    journal.summarize("one", &ended()).await.unwrap();
    assert_eq!(journal.holder("physics", "nightly").await.unwrap().as_deref(), Some("two"));
}

#[tokio::test]
async fn what_has_ended_goes_with_the_jobs_of_its_time() {
    let store = MemoryFleet::new();
    let journal = on(&store).await;
    journal.create(&flow("f")).await.unwrap();
    journal.snapshot("f", 0, b"state").await.unwrap();
    journal.summarize("f", &ended()).await.unwrap();
    let all = store.entries(Kind::FlowEntry, &EntryFilter::default(), &Page::first(10)).await.unwrap().items;
    assert_eq!(all.len(), 2);
    assert!(all.iter().all(|entry| entry.ended_at == ended().ended_at), "{all:?}");
    assert_eq!(journal.load("f").await.unwrap().snapshot, Some((0, b"state".to_vec())));
}

#[tokio::test]
async fn after_an_answer_that_was_lost_the_journal_is_read_anew() {
    let store = MemoryFleet::new();
    let journal = on(&store).await;
    journal.create(&flow("f")).await.unwrap();
    let entry = JournalEntry { now: Time::from_millis(6), event: "1".to_owned() };
    store.lose_answers(1);
    assert_eq!(journal.append("f", 0, std::slice::from_ref(&entry)).await.unwrap_err().class, Class::Transient);
    assert_eq!(journal.append("f", 0, std::slice::from_ref(&entry)).await.unwrap_err().class, Class::Conflict);
    journal.append("f", 1, &[entry]).await.unwrap();
}
