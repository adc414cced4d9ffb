//! What the programs of the fleet tell about themselves: metrics. Owns names and units; decides nothing.

pub mod metrics;
