//! The SQLite store under the conformance suite and under calls at once.

mod crash;
mod laws;
mod older;
mod trouble;
mod values;

use orlop_core::error::Class;
use orlop_core::testing::fleet_store_suite;

use super::*;

async fn open_in(folder: &Path) -> SqliteFleet {
    SqliteFleet::open(folder.join("fleet.db"), Durability::Full).await.unwrap()
}

#[tokio::test]
async fn the_store_passes_the_suite() {
    let folder = tempfile::tempdir().unwrap();
    let passed = fleet_store_suite(async |number| {
        // Nothing of the suite depends on a loss of power.
        SqliteFleet::open(folder.path().join(format!("{number}.db")), Durability::Normal).await.unwrap()
    });
    let passed = passed.await.unwrap_or_else(|error| panic!("{error}"));
    assert!(passed.len() >= 50, "{} checks", passed.len());
}

#[tokio::test]
async fn a_second_server_is_kept_out_until_the_first_is_gone() {
    let folder = tempfile::tempdir().unwrap();
    let first = open_in(folder.path()).await;
    let error = SqliteFleet::open(folder.path().join("fleet.db"), Durability::Full).await.unwrap_err();
    assert_eq!((error.class, error.reason), (Class::Conflict, Some("Locked")));
    first.close().await;
    open_in(folder.path()).await;
}
