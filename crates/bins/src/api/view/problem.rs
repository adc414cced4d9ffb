//! The shape of errors, for the document.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// An error (RFC 9457).
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = Problem)]
pub(crate) struct ProblemView {
    /// `urn:orlop:error:<code>`
    #[serde(rename = "type")]
    pub(crate) kind: String,
    /// The same for every error of this code
    pub(crate) title: String,
    /// HTTP status
    pub(crate) status: u16,
    /// What is wrong and what to do
    pub(crate) detail: String,
    /// Id of the request
    pub(crate) instance: Option<String>,
    /// Which fields are wrong
    pub(crate) errors: Option<Vec<FieldErrorView>>,
    /// When to retry
    pub(crate) retry_after_ms: Option<u64>,
    /// Which limit was met
    pub(crate) quota: Option<QuotaUseView>,
    /// The leader's address
    pub(crate) leader: Option<String>,
}

/// A field that is wrong.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = FieldError)]
pub(crate) struct FieldErrorView {
    /// Where, such as `jobs[3].resources.cpu_m`
    pub(crate) path: String,
    /// What is wrong and what to do
    pub(crate) message: String,
}

/// A limit that stopped a request.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = QuotaUse)]
pub(crate) struct QuotaUseView {
    /// Its name, such as `max_pending_jobs`
    pub(crate) name: String,
    /// The limit
    pub(crate) limit: u64,
    /// What there would be
    pub(crate) used: u64,
}
