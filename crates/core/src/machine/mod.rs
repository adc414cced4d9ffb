//! Lifecycle state machines as data, one machine a file.
//! Owns states, events and transition tables of the specifications. Never carries out an effect and never reads a clock.

mod diagram;
pub mod flow;
#[cfg(test)]
mod laws;
mod lifecycle;
pub(crate) mod named;
pub mod step;
pub(crate) mod transition;

pub use lifecycle::{Machine, Poll};
pub use named::{Named, UnknownName};
pub use transition::{NoGuard, Rejected, Row, Transition};
