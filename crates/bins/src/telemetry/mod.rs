//! What the programs tell about themselves: metrics and traces. Owns names and units; decides nothing.

pub mod metrics;
#[cfg(feature = "fleet")]
pub mod trace;
