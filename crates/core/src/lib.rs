//! The shared types of Orlop and the traits that its adapters implement, without I/O.
//!
//! This crate is pure: no async runtime, no I/O, no clock, no randomness, no global state. Time and unique ids are
//! arguments. All other crates of Orlop depend on it; it depends on none of them.
//!
//! | to do this | begin here |
//! |---|---|
//! | read or build a JobFlow | [`spec::flow::JobFlow`], [`spec::step::Step`], or all of the [`prelude`] |
//! | count CPU, memory and devices | [`quantity::Quantity`], [`resource::ResourceVector`] |
//! | say what hardware a job requires, and check machines for it | `hardware` (feature `hardware`) |
//! | run attempts in a way of your own | `ports::substrate::Substrate` (feature `ports`) |
//! | store events of flows in a way of your own | `ports::journal::FlowJournal` (feature `ports`) |
//! | test an adapter against its contract | `testing` (feature `testing`) |
//! | handle an error | [`error::Problem`] and its [`error::Class`] |
//!
//! Words that all pages use: a *flow* is a graph of *steps*; a step runs as one or more *attempts*, of which at most one runs
//! at a time; a step over a list (a *fan-out*) has one *instance* for each *item*; a *substrate* is what runs attempts.
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
