//! What all controllers share: the work queue ([`Queue`]), watches, leader election ([`lease`]) and the limit of requests ([`limits`]).
//! Knows nothing of what a pass (the reconciliation of one object) does.

mod event;
#[cfg(test)]
pub(crate) mod fake;
mod key;
pub mod lease;
pub mod limits;
mod queue;
#[cfg(feature = "client")]
pub(crate) mod run;
#[cfg(feature = "client")]
pub(crate) mod watch;

pub use event::LoopEvent;
pub use key::{Key, Next};
pub use orlop_core::ports::clock::Clock;
pub use queue::Queue;
#[cfg(feature = "client")]
pub use run::RunOptions;
