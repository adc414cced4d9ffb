//! Lifecycle state machines as data, one machine a file.
//! Owns states, events and transition tables of the specifications. Never carries out an effect and never reads a clock.

pub mod flow;
pub(crate) mod named;
pub mod step;

pub use named::{Named, UnknownName};
