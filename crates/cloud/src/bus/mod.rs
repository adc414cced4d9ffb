//! Event buses (port `orlop_core::ports::bus`), one in each module, and publishing what waits in a store's outbox.

pub mod local;
#[cfg(feature = "nats")]
pub mod nats;
pub mod outbox;
