//! The laws of the flow engine over random flows in a hostile world.

#![allow(clippy::expect_used, clippy::panic, clippy::print_stdout, reason = "tests fail by panic")]

mod laws;
