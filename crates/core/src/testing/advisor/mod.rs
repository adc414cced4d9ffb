//! The advisor under test: its in-memory double and its conformance suite.

mod scripted;
mod suite;

pub use scripted::{Deed, ScriptedAdvisor};
pub use suite::advisor_suite;

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_double_passes_the_suite() {
        let open = async |deeds: Vec<Deed>| ScriptedAdvisor::new(deeds);
        let passed = advisor_suite(open).await.unwrap_or_else(|error| panic!("{error}"));
        assert!(passed.len() >= 7, "{} checks", passed.len());
    }
}
