//! The protocol of the fleet, by which a scheduler server, its workers and its clients talk over gRPC. Never decides where a job runs, and
//! stores nothing.
//!
//! Messages are the generated types of [`v1`], which are checked once when they arrive. [`attempt`], [`frame`] and [`status`] read ids,
//! states and times out of them; requests of clients and registrations of workers have types of their own in [`artifact`], [`job`],
//! [`query`] and [`worker`]. [`grpc`] has the services and clients, [`session`] delivers frames exactly once and in order, and
//! [`identity`] has tokens and certificates.

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
