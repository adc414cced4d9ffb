//! What all controllers share around their passes. Owns when a pass is due, that an object has one at a time, that one
//! process of several works, and how fast it asks; knows nothing of what a pass does.

mod clock;
pub mod lease;
pub mod limits;
mod queue;
#[cfg(feature = "client")]
pub(crate) mod told;

pub use clock::Clock;
pub use queue::Queue;
