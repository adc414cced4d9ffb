//! The substrate port under test: its scripted double and its conformance suite.

mod call;
mod document;
mod play;
mod port;
mod scripted;
mod suite;
#[cfg(test)]
mod tests;
mod world;

pub use call::{Call, Operation};
pub use play::{Play, When};
pub use scripted::{Delivery, ScriptedSubstrate};
pub use suite::{Behaviour, ScriptedWorlds, SubstrateWorlds, shell_job, substrate_suite};
