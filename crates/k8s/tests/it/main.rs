//! Integration tests of the Kubernetes adapters. One binary, one module per concern.

#![allow(clippy::expect_used, clippy::panic, clippy::print_stdout, reason = "tests fail by panic")]

mod conformance;
mod definitions;
mod double;
mod failing;
mod flows;
mod hourglass;
mod lease;
mod limits;
mod object_schema;
mod shipped;
