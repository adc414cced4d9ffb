//! What is asked of an API server, as values, and who asks it. Owns the form of requests and answers; a controller
//! makes every request as one of these, so that each can be named, counted, refused and repeated in tests.

#[cfg(feature = "client")]
mod client;
mod error;
mod pages;
mod request;

use async_trait::async_trait;
use serde_json::Value;

#[cfg(feature = "client")]
pub use client::Client;
#[cfg(feature = "client")]
pub(crate) use client::dynamic;
pub use error::ApiError;
pub(crate) use pages::list_all;
pub use pages::{PAGE, list};
pub use request::{Kind, Page, Propagation, Request, Verb};

/// An API server.
#[async_trait]
pub trait Api: Send + Sync {
    /// Makes a request and gives the body of its answer.
    ///
    /// # Errors
    /// What the server said instead, or that it said nothing.
    async fn send(&self, request: &Request) -> Result<Value, ApiError>;
}
