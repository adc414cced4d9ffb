//! Orlop as a library: the facade over its crates, and the hosts of its programs.
#[cfg(feature = "testing")]
pub mod conformance;
pub mod view;
