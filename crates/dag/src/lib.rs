//! The flow engine: plans a DAG of steps and decides what may run.
//!
//! Pure: no async runtime, no I/O, no clock, no randomness, no global state. [`manifest::read`] reads a file,
//! [`plan::Plan`] is made once from a spec; [`engine::apply`] takes the state, an event and the time and gives effects.
//! Substrates (local processes, Docker, a fleet, Kubernetes) are adapters elsewhere that carry the effects out.
//!
#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod approval;
pub mod attempt;
pub mod depends;
pub mod engine;
pub mod gate;
pub mod manifest;
pub mod params;
pub mod plan;
pub mod prelude;
pub mod repeat;
#[cfg(feature = "testing")]
pub mod testing;
pub mod when;
