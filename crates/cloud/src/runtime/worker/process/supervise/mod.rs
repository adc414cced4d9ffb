//! Attempts that outlive their agent, or must end without it. Owns the supervisor that keeps them, the files by which a
//! later agent finds them, and following them on behalf of an agent.

mod control;
mod follow;
mod keep;
mod order;
mod sink;

pub(super) use self::control::{Control, Standing, all, write_lease};
pub(super) use self::follow::{Followers, Order};
pub use self::keep::main;
