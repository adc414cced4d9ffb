//! The REST interface of the fleet's server: its routes, the rights of callers, and the form of answers.
//!
//! All routes are in one table (`table`) with the role that each needs. One function (`serve`) passes every request through the same
//! layers of authentication, limits and logs, so that no route can be reached without them.

pub mod auth;
mod body;
mod call;
mod cors;
mod counts;
mod cursor;
mod gauges;
mod guard;
mod leading;
mod listen;
mod live;
pub(crate) mod openapi;
mod page;
mod refusal_log;
mod replay;
mod reply;
mod route;
mod routes;
mod serve;
mod session;
mod session_store;
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
pub use state::{Api, Console, Options};
pub(crate) use streams::StreamPermit;
pub(crate) use token_cache::{WORKER, knows, stored as stored_token, worker_record};
pub(crate) use until::{Ending, Holder, until};
#[cfg(feature = "cli")]
pub(crate) use view::join_token::NewJoinToken;
#[cfg(feature = "cli")]
pub(crate) use view::problem::ProblemView;

/// What all paths of this version begin with.
pub const BASE: &str = "/api/v1";
