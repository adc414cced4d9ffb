//! Lifecycle state machines as data, one machine a file.
//! Owns states, events and transition tables. Never carries out an effect and never reads a clock.

pub mod attempt;
mod diagram;
pub mod executor;
pub mod flow;
pub mod job;
#[cfg(test)]
mod laws;
pub mod lease;
mod lifecycle;
pub mod performer;
pub mod saga;
pub mod server;
pub mod step;
pub mod tenant;
pub(crate) mod transition;
pub mod verdict;
pub mod worker;

pub use crate::named::{Named, UnknownName};
pub use lifecycle::{Machine, Poll};
pub use transition::{NoGuard, Rejected, Row, Transition};
