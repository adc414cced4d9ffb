//! Tests against real engines and real files: one binary for the whole crate.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stderr, clippy::print_stdout)] // A test may end so.

#[cfg(feature = "docker")]
mod docker;
#[cfg(feature = "testing")]
mod openstack;
#[cfg(all(feature = "process", target_os = "linux"))]
mod process;
#[cfg(all(feature = "process", target_os = "linux"))]
mod runtime;
#[cfg(all(feature = "process", target_os = "linux"))]
mod worker;
