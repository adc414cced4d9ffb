//! In-memory doubles of the ports and the conformance suites that doubles and adapters both run, so that a double cannot
//! drift from the real thing. Owns no I/O, clock or runtime: a double waits with wakers, its time is told to it.
//!
//! A suite is one public async function. It takes a way to open fresh subjects, runs every check on its own subject and
//! gives the names of the checks that passed, or every failure at once:
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() {
//! use orlop_core::testing::{MemoryJournals, journal_suite};
//! let journals = MemoryJournals::default();
//! let passed = journal_suite(async |number| journals.open(number)).await.unwrap();
//! assert!(passed.len() >= 40);
//! # }
//! ```

pub mod advisor;
pub mod artifact;
pub mod bus;
pub mod fleet_store;
pub mod journal;
pub mod sample;
pub mod substrate;
mod suite;
mod wait;

pub use advisor::{Deed, ScriptedAdvisor, advisor_suite};
pub use artifact::{MemoryArtifacts, artifact_suite};
pub use bus::{MemoryBus, bus_suite};
pub use fleet_store::{MemoryFleet, MemoryFleets, fleet_store_suite};
pub use journal::{MemoryJournal, MemoryJournals, journal_suite};
pub use sample::Sample;
pub use substrate::{ScriptedSubstrate, substrate_suite};
pub use suite::{Broken, SuiteFailure};
