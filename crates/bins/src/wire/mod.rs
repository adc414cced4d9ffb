//! The protocol of the fleet: what a scheduler server, its workers and its clients say to each other over gRPC. Never decides
//! where a job runs, and never keeps anything.
//!
//! Messages are the generated ones ([`v1`]), checked once when they arrive; specifications are read when
//! their frame is applied. [`attempt`], [`frame`] and [`status`] read ids, states
//! and times out of them; what clients and registrations say has a form of its own in [`artifact`], [`job`], [`query`] and
//! [`worker`]. [`grpc`] has the services and callers, [`session`] what makes frames arrive exactly once, [`identity`] who is who.

pub mod artifact;
pub mod attempt;
pub mod bound;
pub mod frame;
pub mod grpc;
pub mod identity;
pub mod job;
pub mod problem;
pub(crate) mod proto;
pub mod query;
pub mod session;
pub mod status;
#[cfg(test)]
mod tests;
pub mod worker;

pub use proto::v1;

/// The number of this protocol.
pub const PROTOCOL: u32 = 2;
/// The largest message either side takes, in bytes.
pub const MESSAGE_MAX: usize = 4 << 20;
