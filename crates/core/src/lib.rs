//! The words of Orlop: ids, quantities, resources, time, specs, state machines, hardware needs and ports.
//!
//! This crate is pure: no async runtime, no I/O, no clock, no randomness, no global state. Time and unique ids are
//! arguments. Everything else in the workspace stands on it; it stands on nothing of the workspace.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod attempt;
pub mod backoff;
pub mod effect;
pub mod error;
pub mod event;
pub mod hardware;
pub mod id;
pub mod machine;
pub mod name;
pub mod named;
pub mod porter;
pub mod ports;
pub mod quantity;
pub mod rate;
pub mod resource;
pub mod spec;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod time;
