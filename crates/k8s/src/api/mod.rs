//! Requests to an API server as values, and the trait [`Api`] that sends them. All controllers and clients of this crate use it, so
//! that tests can count, refuse and repeat each request. `Client` (feature `client`) sends them by a `kube::Client`.
//!
//! ```
//! use async_trait::async_trait;
//! use orlop_k8s::api::{Api, ApiError, Kind, Request};
//! use orlop_k8s::client::FlowClient;
//! use serde_json::{Value, json};
//!
//! /// An API server without any object.
//! struct Empty;
//!
//! #[async_trait]
//! impl Api for Empty {
//!     async fn send(&self, request: &Request) -> Result<Value, ApiError> {
//!         match request.name.as_str() {
//!             "" => Ok(json!({"items": []})),
//!             name => Err(ApiError::from_status(404, &json!({"message": format!("{name} not found"), "reason": "NotFound"}))),
//!         }
//!     }
//! }
//! assert_eq!(Request::get(Kind::Pod, "default", "p").path(), "/api/v1/namespaces/default/pods/p");
//! # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
//! let flows = FlowClient::new(Empty, "default");
//! assert_eq!(flows.list(&[]).await.unwrap(), []);
//! assert!(flows.get("release").await.unwrap_err().to_string().contains("there is no flow `release`"));
//! # });
//! ```

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

/// Something that sends requests to an API server.
#[async_trait]
pub trait Api: Send + Sync {
    /// Sends a request and gives the body of the response.
    ///
    /// # Errors
    /// The error of the server, or that no response came.
    async fn send(&self, request: &Request) -> Result<Value, ApiError>;
}
