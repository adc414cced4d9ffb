//! The tests of the package from outside: one binary, one module a concern.

#![allow(clippy::expect_used, clippy::panic, clippy::print_stdout, clippy::unwrap_used, reason = "tests fail by panic")]

mod cli;
#[cfg(feature = "testing")]
mod conformance;
#[cfg(feature = "fleet")]
mod deploy;
#[cfg(feature = "fleet")]
mod fleet;
mod image;
mod kill;
mod tidy;
