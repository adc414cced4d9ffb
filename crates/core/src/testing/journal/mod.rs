//! The journal port under test: its in-memory double and its conformance suite.

mod memory;
mod suite;

pub use memory::{MemoryJournal, MemoryJournals};
pub use suite::journal_suite;

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_double_passes_the_suite() {
        let journals = MemoryJournals::default();
        let passed =
            journal_suite(async |number| journals.open(number)).await.unwrap_or_else(|error| panic!("{error}"));
        assert!(passed.len() >= 40, "{} checks", passed.len());
    }
}
