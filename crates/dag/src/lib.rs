//! The flow engine: plans a directed acyclic graph of steps and decides which may run.
//!
//! Pure: no async runtime, no I/O, no clock, no randomness, no global state.
//!
//! | to do this | call |
//! |---|---|
//! | read and check a file | [`manifest::read`] |
//! | check a flow that is a value already, and plan it | [`manifest::checked`] |
//! | start a flow, and tell the engine what happens | [`engine::init`], [`engine::apply`] |
//! | know when to call again if nothing happens | [`engine::next_deadline`] |
//! | show where a flow stands, and why a step waits | [`engine::view`], [`engine::explain`] |
//! | store a state, and go on after a restart | [`engine::snapshot`], [`engine::restore`], [`engine::duties`] |
//! | build the Job of an attempt, and read its end | [`attempt`] |
//! | repeat a flow that failed | [`repeat`] |
//! | draw a plan, or any other graph | [`layout::of_plan`], [`layout::of`] |
//!
//! The names that most programs need are in the [`prelude`]. Substrates (local processes, Docker, a fleet, Kubernetes), which carry
//! effects out, are in other crates.
//!
#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod approval;
pub mod attempt;
mod code;
pub mod depends;
pub mod engine;
pub mod gate;
pub mod layout;
pub mod manifest;
pub mod params;
pub mod plan;
pub mod prelude;
pub mod repeat;
#[cfg(feature = "testing")]
pub mod testing;
pub mod when;
