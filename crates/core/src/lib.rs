//! The words of Orlop: ids, quantities, resources, time, specs, state machines, hardware needs and ports.
//!
//! This crate is pure: no async runtime, no I/O, no clock, no randomness, no global state. Time and unique ids are
//! arguments. Everything else in the workspace stands on it; it stands on nothing of the workspace.
//!
//! | feature | what it adds | who needs it |
//! |---|---|---|
//! | `hardware` | the modules `hardware` and `spec::job` | schedulers and what translates needs of machines |
//! | `ports` | the modules `ports` and `helper`, and `hardware` | adapters and hosts |
//! | `schema` | the module `schema`, and JSON schemas of the types in `spec` | definitions of custom resources, editors, documents |
//! | `testing` | the module `testing`: doubles of the ports and the suites that adapters pass | tests of adapters |

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
