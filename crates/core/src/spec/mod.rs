//! What users ask for: the typed objects of the API. Owns field names, types and defaults; checking them against each
//! other is the flow engine's manifest module.

pub mod artifact;
pub mod flow;
#[cfg(feature = "hardware")]
pub mod job;
pub mod meta;
pub mod policy;
pub mod status;
pub mod step;
