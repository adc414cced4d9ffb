//! What all controllers share around their passes. Owns when a pass is due, that an object has one at a time, that one
//! process of several works, and how fast it asks; knows nothing of what a pass does.

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
