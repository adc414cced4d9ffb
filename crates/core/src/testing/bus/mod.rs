//! The event bus under test: its in-memory double and its conformance suite.

mod memory;
mod suite;

pub use memory::MemoryBus;
pub use suite::bus_suite;

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_double_passes_the_suite() {
        let passed = bus_suite(async |_| MemoryBus::new(100)).await.unwrap_or_else(|error| panic!("{error}"));
        assert!(passed.len() >= 8, "{} checks", passed.len());
    }
}
