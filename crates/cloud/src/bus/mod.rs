//! Event buses behind the port `orlop_core::ports::bus`, one file a bus.

pub mod local;
