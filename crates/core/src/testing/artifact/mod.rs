//! The artifact port under test: trees as values, its in-memory double and its conformance suite.

mod memory;
mod suite;
mod tree;

pub use memory::{MemoryArtifacts, MemoryWorlds};
pub use suite::{ArtifactWorlds, LIMIT, artifact_suite};
pub use tree::Node;

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_double_passes_the_suite() {
        let passed = artifact_suite(&MemoryWorlds::default()).await.unwrap_or_else(|error| panic!("{error}"));
        assert!(passed.len() >= 40, "{} checks", passed.len());
    }
}
