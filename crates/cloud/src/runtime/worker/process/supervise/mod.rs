//! Attempts that outlive their agent, or must end without it. Owns the supervisor that keeps them, the files by which a
//! later agent finds them, and following them on behalf of an agent.

mod attempt_state;
mod control;
mod follow;
mod keep;
mod order;

pub(in crate::runtime::worker) use self::attempt_state::state;
pub(in crate::runtime::worker) use self::control::{Control, all, write_lease};
pub(in crate::runtime::worker) use self::follow::{FollowerCommand, FollowerContext, Followers};
pub use self::keep::main;
pub(in crate::runtime::worker) use self::order::RuntimeOptions;
