//! The words of Orlop, without I/O: what its engines and adapters speak of.
//!
//! This crate is pure: no async runtime, no I/O, no clock, no randomness, no global state. Time and unique ids are
//! arguments. Everything else in the workspace stands on it; it stands on nothing of the workspace.
//!
#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod attempt;
pub mod backoff;
pub mod effect;
pub mod error;
pub mod event;
pub mod exact;
#[cfg(feature = "hardware")]
pub mod hardware;
#[cfg(feature = "ports")]
pub mod helper;
pub mod id;
pub mod machine;
pub mod name;
pub mod named;
#[cfg(feature = "ports")]
pub mod ports;
pub mod prelude;
pub mod quantity;
pub mod rate;
pub mod resource;
#[cfg(feature = "schema")]
pub mod schema;
pub mod spec;
pub mod task;
#[cfg(feature = "testing")]
pub mod testing;
pub mod time;
