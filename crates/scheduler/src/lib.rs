//! Where work runs: which job goes to which worker, and when.
//!
//! Begin with [`engine::Scheduler`]: hand it jobs and workers as [`event::Event`]s and get decisions as [`effect::Effect`]s;
//! [`engine::Scheduler::explain`] says why a job waits, [`engine::Scheduler::demand`] what the fleet lacks. [`packing`] packs
//! offline, with its bounds. Each of these has an example that runs as it stands.
//!
//! Pure, like `orlop_core` and `orlop_dag`: no async runtime, no I/O, no clock, no randomness, no global state. It knows
//! resources and workers; it never knows flows.
//!
#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod class;
pub mod config;
pub mod effect;
pub mod engine;
pub mod error;
pub mod event;
mod fleet;
pub mod job;
pub mod packing;
mod queue;
mod score;
mod starvation;
pub mod stored;
mod table;
mod tenant;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod token;
