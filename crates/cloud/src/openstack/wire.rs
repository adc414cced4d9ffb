//! Requests to a cloud as values, and what comes back. Owns both and the port that carries one for the other; sends nothing.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;

use super::classify::{Call, Service};

/// Bytes of an answer that are read.
pub const MAX_BODY: usize = 32 << 20;
/// How long an answer may take.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// How long the answer to a new lease, or the end of one, may take: the service does its work before it answers.
pub(crate) const LONG_PATIENCE: Duration = Duration::from_secs(130);

/// How something is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// Reading.
    Get,
    /// Making.
    Post,
    /// Changing.
    Put,
    /// Deleting.
    Delete,
}

impl Method {
    /// Its word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Delete => "DELETE",
        }
    }
}

/// What is asked of a service, below its address.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// The service.
    pub service: Service,
    /// What it does.
    pub call: Call,
    /// How.
    pub method: Method,
    /// The path from the service's address on, with its query.
    pub path: String,
    /// The document that goes with it.
    pub body: Option<Value>,
    /// Whether the document goes as a form, as an identity provider wants it: then it is a map of texts.
    pub form: bool,
}

impl Request {
    /// Reading.
    #[must_use]
    pub fn get(service: Service, path: impl Into<String>) -> Self {
        Self { service, call: Call::Read, method: Method::Get, path: path.into(), body: None, form: false }
    }

    /// Deleting.
    #[must_use]
    pub fn delete(service: Service, path: impl Into<String>) -> Self {
        Self { service, call: Call::Delete, method: Method::Delete, path: path.into(), body: None, form: false }
    }

    /// Making or changing something.
    #[must_use]
    pub fn with(service: Service, call: Call, method: Method, path: impl Into<String>, body: Value) -> Self {
        Self { service, call, method, path: path.into(), body: Some(body), form: false }
    }

    /// Whether sending it twice is the same as once.
    #[must_use]
    pub const fn is_repeatable(&self) -> bool {
        !matches!(self.call, Call::Create | Call::CreateKeypair | Call::SignIn)
    }

    /// How it is named in messages: method and path without its query.
    #[must_use]
    pub fn name(&self) -> String {
        let path: String = self.path.split('?').next().unwrap_or_default().chars().take(120).collect();
        format!("{} {path}", self.method.as_str())
    }

    /// How long an answer may take.
    #[must_use]
    pub fn patience(&self) -> Duration {
        match (self.service, self.method) {
            (Service::Reservation, Method::Post | Method::Delete) => LONG_PATIENCE,
            _ => PATIENCE,
        }
    }
}

/// A request with its address and headers, ready to go.
#[derive(Clone, PartialEq)]
pub struct Sent {
    /// What it is.
    pub request: Request,
    /// The whole address.
    pub url: String,
    /// Headers; some are secret.
    pub headers: Vec<(&'static str, String)>,
}

impl fmt::Debug for Sent {
    /// Without headers and body, which hold secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sent({})", self.request.name())
    }
}

/// An answer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Response {
    /// The status.
    pub status: u16,
    /// The body as text.
    pub body: String,
    /// `X-Openstack-Request-Id`.
    pub request_id: Option<String>,
    /// `Retry-After`, in seconds.
    pub retry_after: Option<u64>,
    /// `Date`, in milliseconds since the epoch.
    pub date: Option<i64>,
    /// `X-Subject-Token`.
    pub subject_token: Option<Token>,
}

/// What one signs in with and gets. Never printed.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Token(pub String);

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Lost {
    /// Nothing was sent: nobody listens, the name leads nowhere, or the like.
    #[error("cannot be reached: {0}")]
    Refused(String),
    /// No secure connection.
    #[error("has no certificate that this machine trusts; give --ca-cert")]
    Tls,
    /// Nothing came in time.
    #[error("did not answer in time")]
    Timeout,
    /// The connection broke, or the answer did.
    #[error("broke off")]
    Broken,
    /// More came than is read.
    #[error("sent more than 32 MiB")]
    TooLarge,
}

/// Carries requests to services.
#[async_trait]
pub trait Transport: Send + Sync {
    /// Sends, and gives the answer, whatever its status.
    ///
    /// # Errors
    /// There is none.
    async fn send(&self, sent: &Sent) -> Result<Response, Lost>;
}
