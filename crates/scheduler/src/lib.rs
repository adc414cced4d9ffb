//! Where work runs: which job goes to which worker, and when. This crate holds job classes and queues, the picture of the
//! fleet, filters and scores, quotas and fair shares, and the engine that turns events into effects, and offline packing with its
//! bounds: [`packing`].
//!
//! Pure, like `orlop_core` and `orlop_dag`: no async runtime, no I/O, no clock, no randomness, no global state. It knows
//! resources and workers; it never knows flows.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod class;
pub mod config;
pub mod effect;
pub mod engine;
pub mod error;
pub mod event;
pub mod fault;
mod fleet;
pub mod job;
pub mod packing;
mod queue;
mod saving;
mod score;
pub mod stored;
mod table;
mod tenant;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod token;
