//! A hostile world for the scheduler: random events drawn from bytes or a seed, a naive model that is built from effects
//! alone, and the laws that must hold between the two after every call. For tests and fuzzing.

mod agents;
mod amounts;
mod avoiding;
mod choices;
mod claims;
mod credit;
mod deadlines;
mod directing;
mod finish;
mod gangs;
mod law;
mod machines;
mod model;
mod patience;
mod preempting;
mod prefilling;
mod room;
mod rounds;
mod starvation;
mod store;
mod turns;
mod users;
mod world;

pub use choices::Choices;
pub use law::{Broken, Law};
pub use model::Model;
pub use turns::LawCounts;
pub use world::{Shape, World};
