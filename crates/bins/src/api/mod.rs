//! The fleet's REST interface: who may call, what they may see, and how it is said.
//!
//! Every route stands in one table (`table`) with the role it needs; one function (`serve`) leads every request through the
//! same layers, so that a route cannot be reached around them.

pub mod auth;
mod body;
mod call;
mod cors;
mod counts;
mod cursor;
mod gauges;
mod guard;
mod listen;
pub(crate) mod openapi;
mod refusal_log;
mod replay;
mod reply;
mod route;
mod routes;
mod serve;
mod state;
mod streams;
mod table;
#[cfg(test)]
mod tests;
mod token_cache;
mod until;
mod view;

pub use guard::{Guard, Origin};
pub(crate) use guard::{JOIN, is_loopback};
pub use listen::{Listener, listen};
pub use openapi::document;
pub use serve::router;
pub(crate) use serve::whose;
pub use state::{Api, Options};
pub(crate) use streams::StreamPermit;
pub(crate) use token_cache::{WORKER, knows, stored as stored_token, worker_record};
pub(crate) use until::{Ending, Holder, until};
#[cfg(feature = "cli")]
pub(crate) use view::join_token::NewJoinToken;
#[cfg(feature = "cli")]
pub(crate) use view::problem::ProblemView;

/// What all paths of this version begin with.
pub const BASE: &str = "/api/v1";
