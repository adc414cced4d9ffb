//! A hostile world for the scheduler: random events drawn from bytes or a seed, a naive model that is built from effects
//! alone, and the laws of section 2.11 that must hold between the two after every call. For tests and fuzzing.

mod agents;
mod choices;
mod finish;
mod model;
mod preempting;
mod store;
mod users;
mod world;

pub use choices::Choices;
pub use model::{Broken, Model};
pub use world::{Shape, World};
