//! Event buses behind the port `orlop_core::ports::bus`, one file a bus, and the way from the store's outbox to them.

pub mod local;
#[cfg(feature = "nats")]
pub mod nats;
pub mod outbox;
