//! The objects that users write, as types: JobFlows with their steps, policies and status, and jobs of the fleet. Owns field names,
//! types and defaults; `orlop_dag::manifest` reads them from files and checks them.

pub mod artifact;
pub mod flow;
#[cfg(feature = "hardware")]
pub mod job;
pub mod meta;
pub mod policy;
pub mod status;
pub mod step;
