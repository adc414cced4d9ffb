//! The console: a web page in the program, and who may use it. Decides nothing about flows, jobs or workers, and keeps no state of
//! them; makes no HTML of data.

mod assets;
mod failures;
mod headers;
mod hub;
mod place;
mod session;
mod session_store;
#[cfg(test)]
mod tests;
mod topic;

pub(crate) use self::assets::{Assets, build, gzip};
pub(crate) use self::headers::secure;
pub(crate) use self::hub::{Hub, Subscription, Taken, View, event};
pub use self::place::Place;
pub(crate) use self::place::{BASE, Halves};
pub use self::session::Lives;
pub(crate) use self::session::{Begun, Sessions};
pub(crate) use self::session_store::SessionStore;
pub(crate) use self::topic::Topic;

/// Topics of one stream, at most.
pub(crate) const TOPICS: usize = 64;
