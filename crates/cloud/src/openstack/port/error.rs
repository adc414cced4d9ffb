//! The error of the ports to a cloud: what the answer means, and the words of the service.

use std::time::Duration;

use orlop_core::error::{Class, Problem};
use serde::{Deserialize, Serialize};

use crate::openstack::classify::{Meaning, Service};

/// How far a request got that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reached {
    /// It never left: no name, no connection, no certificate.
    NotSent,
    /// Nobody knows: it was sent and nothing readable came back.
    Lost,
    /// The service answered.
    Answered,
}

/// A request to a cloud that did not do what it was for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[error("{}", self.reported())]
pub struct CloudError {
    /// Which service.
    pub service: Service,
    /// What was asked, such as `POST /leases`.
    pub request: String,
    /// What follows from it.
    pub meaning: Meaning,
    /// How far it got.
    pub reached: Reached,
    /// The status, if it answered.
    pub status: Option<u16>,
    /// Its words, without control characters and secrets, at most 500.
    pub message: String,
    /// The id under which the service logs it.
    pub request_id: Option<String>,
    /// How long it asked to wait.
    pub retry_after: Option<Duration>,
}

impl CloudError {
    /// An error that no service answered: something is wrong on this side, or in what came back.
    #[must_use]
    pub fn own(service: Service, request: &str, meaning: Meaning, message: impl Into<String>) -> Self {
        Self {
            service,
            request: request.to_owned(),
            meaning,
            reached: Reached::NotSent,
            status: None,
            message: message.into(),
            request_id: None,
            retry_after: None,
        }
    }

    /// The class that all adapters share.
    #[must_use]
    pub fn class(&self) -> Class {
        self.meaning.class().unwrap_or(Class::Fatal)
    }

    /// Whether what was asked for is not there.
    #[must_use]
    pub const fn is_gone(&self) -> bool {
        matches!(self.meaning, Meaning::Gone)
    }

    /// Whether the service keeps from users what was asked for.
    #[must_use]
    pub const fn is_hidden(&self) -> bool {
        matches!(self.status, Some(403..=405))
    }

    /// Whether the cloud has no such service.
    #[must_use]
    pub const fn is_absent(&self) -> bool {
        matches!(self.meaning, Meaning::Absent)
    }

    /// Whether the service or the way to it failed, so that asking again may help.
    #[must_use]
    pub const fn is_passing(&self) -> bool {
        matches!(
            self.meaning,
            Meaning::Transient
                | Meaning::Ambiguous
                | Meaning::Conflict
                | Meaning::TrustSuspected
                | Meaning::Microversion
        )
    }

    /// Whether a create that failed so left most likely nothing behind: one empty listing is enough to believe it.
    #[must_use]
    pub const fn is_surely_unmade(&self) -> bool {
        matches!(self.reached, Reached::NotSent) || matches!(self.status, Some(429 | 503))
    }

    fn reported(&self) -> String {
        let mut text = format!("{} {}: ", self.service, self.request);
        match (self.status, self.reached) {
            (Some(status), _) => text.push_str(&format!("{status} {}", self.message)),
            (None, _) => text.push_str(&self.message),
        }
        if let Some(id) = &self.request_id {
            text.push_str(&format!(" ({id})"));
        }
        text
    }
}

impl From<CloudError> for Problem {
    fn from(error: CloudError) -> Self {
        let mut port = Problem::new(error.class(), error.to_string());
        port.retry_after = error.retry_after;
        port
    }
}
