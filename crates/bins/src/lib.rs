//! Orlop as a library: the facade over its crates, and the hosts of its programs.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

#[cfg(all(feature = "cli", feature = "process"))]
pub mod cli;
#[cfg(feature = "testing")]
pub mod conformance;
#[cfg(feature = "local")]
pub mod host;
pub mod view;
