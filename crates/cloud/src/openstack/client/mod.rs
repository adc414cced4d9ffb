//! The adapter to OpenStack: requests as values, one service a file. Translates and classifies;
//! decides nothing and never repeats a create.

mod clock;
mod compute;
mod federation;
mod http;
mod identity;
mod image;
mod network;
mod pages;
mod reservation;
mod session;
#[cfg(test)]
mod tests;

use std::sync::Arc;

pub use clock::SystemClock;
pub use http::HttpTransport;
pub use session::{Meter, Session};

use super::credentials::Credentials;
use super::port::{Cloud, Timer};
use super::wire::Transport;

/// The services of a site, over its own session.
#[must_use]
pub fn open(credentials: Credentials, transport: Arc<dyn Transport>, clock: Arc<dyn Timer>) -> (Cloud, Arc<Session>) {
    let session = Arc::new(Session::new(credentials, transport, clock));
    let cloud = Cloud {
        identity: Arc::clone(&session) as _,
        images: Arc::clone(&session) as _,
        compute: Arc::clone(&session) as _,
        network: Arc::clone(&session) as _,
        reservations: Arc::clone(&session) as _,
    };
    (cloud, session)
}
