//! The fleet's store under test: its in-memory double and its conformance suite.

mod memory;
mod suite;

pub use memory::{MemoryFleet, MemoryFleets};
pub use suite::fleet_store_suite;

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_double_passes_the_suite() {
        let stores = MemoryFleets::default();
        let passed =
            fleet_store_suite(async |number| stores.open(number)).await.unwrap_or_else(|error| panic!("{error}"));
        assert!(passed.len() >= 30, "{} checks", passed.len());
    }
}
