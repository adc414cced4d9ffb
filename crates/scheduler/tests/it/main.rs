//! The tests of the crate from outside: one binary, one module a concern.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "tests fail by panic")]

mod embedding;
mod fleet_columns;
mod online;
mod own_policy;
mod packing;
mod packing_fleet;
mod packing_types;
