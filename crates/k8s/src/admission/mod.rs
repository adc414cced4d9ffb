//! The admission webhook, which an API server calls before it stores a flow or a performer: whether it is allowed, and which
//! defaults are filled in. Owns the requests and answers of `admission.k8s.io/v1` and the rules behind them; opens no socket and
//! reads no clock.
//!
//! ```
//! use orlop_k8s::admission::{Settings, Webhook};
//! let flow = serde_json::json!({
//!     "apiVersion": "workflow.kube-zen.io/v1alpha1", "kind": "JobFlow", "metadata": {"name": "release"},
//!     "spec": {"steps": [{"name": "gate", "type": "Manual"}]},
//! });
//! let review = serde_json::json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
//!     "uid": "7", "operation": "CREATE", "userInfo": {"username": "ann"}, "object": flow,
//!     "kind": {"group": "workflow.kube-zen.io", "version": "v1alpha1", "kind": "JobFlow"},
//! }});
//! let now = "2026-11-22T10:00:00Z".parse()?;
//! let answer = Webhook::Validate.answer(review.to_string().as_bytes(), &Settings::default(), now);
//! assert_eq!((answer.code, &answer.body["response"]["allowed"]), (200, &true.into()));
//! # Ok::<(), orlop_core::time::ParseTimeError>(())
//! ```

mod identity;
mod mutate;
mod performer;
mod review;
#[cfg(test)]
mod tests;
mod validate;

use orlop_core::spec::flow::{GROUP, KIND};
use orlop_core::spec::policy::{ConcurrencyPolicy, DEFAULT_BACKOFF_LIMIT, DEFAULT_TTL_SECONDS};
use orlop_core::time::Time;
use orlop_dag::manifest::Limits;
use serde_json::Value;

use self::review::{AdmissionRequest, AdmissionResponse, Subject, short};
use crate::hourglass;

/// Largest body that is read, in bytes: a review holds the object before and after, and what the server adds to them.
pub const BODY_MAX: usize = 8 << 20;

/// The limits of objects and the defaults that are filled in.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Settings {
    /// Limits and rules of flows.
    pub limits: Limits,
    /// The concurrency policy of flows that name none.
    pub concurrency_policy: ConcurrencyPolicy,
    /// Seconds a finished flow is kept that does not say how long.
    pub ttl_seconds: i32,
    /// Retries summed over a flow that names no limit.
    pub backoff_limit: i32,
    /// Settings of performers, with the tables of hardware.
    pub hourglass: hourglass::Config,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            limits: Limits::kubernetes(),
            concurrency_policy: ConcurrencyPolicy::Forbid,
            ttl_seconds: DEFAULT_TTL_SECONDS,
            backoff_limit: DEFAULT_BACKOFF_LIMIT,
            hourglass: hourglass::Config::default(),
        }
    }
}

/// A webhook of the API server. Each has its own path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Webhook {
    /// Validates a flow.
    Validate,
    /// Fills in defaults of a flow.
    Mutate,
    /// Validates that the hardware of a performer can be asked for in Kubernetes.
    ValidatePerformer,
}

/// An answer over HTTP.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// The HTTP status: 200 for every answered review, also where the object is refused; 400 for a body that is no review; 413 for more
    /// than [`BODY_MAX`] bytes.
    pub code: u16,
    /// The review with its response, or what is wrong with the request.
    pub body: Value,
}

impl Webhook {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Validate, Self::Mutate, Self::ValidatePerformer];

    /// Its HTTP path.
    #[must_use]
    pub const fn path(self) -> &'static str {
        match self {
            Self::Validate => "/validate-jobflow",
            Self::Mutate => "/mutate-jobflow",
            Self::ValidatePerformer => "/validate-performer",
        }
    }

    /// The objects it is about.
    const fn subject(self) -> Subject {
        match self {
            Self::Validate | Self::Mutate => Subject { group: GROUP, kind: KIND, plural: "JobFlows" },
            Self::ValidatePerformer => Subject { group: hourglass::GROUP, kind: "Performer", plural: "Performers" },
        }
    }

    /// The webhook with this HTTP path.
    #[must_use]
    pub fn of(path: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|webhook| webhook.path() == path)
    }

    /// Answers the body of an HTTP request, a review as JSON. `now` is written beside decisions of approvals.
    #[must_use]
    pub fn answer(self, body: &[u8], settings: &Settings, now: Time) -> Answer {
        if body.len() > BODY_MAX {
            let why = format!("the review has {} bytes; at most {BODY_MAX} are read", body.len());
            return Answer { code: 413, body: Value::String(why) };
        }
        let request = match AdmissionRequest::read(body) {
            Ok(request) => request,
            Err(why) => return Answer { code: 400, body: Value::String(why) },
        };
        let response = match (request.mismatch(&self.subject()), self) {
            (Some(why), _) => AdmissionResponse { warnings: short(why.into_iter()), ..AdmissionResponse::default() },
            (None, Self::Validate) => validate::respond(&request, settings),
            (None, Self::Mutate) => mutate::respond(&request, settings, now),
            (None, Self::ValidatePerformer) => performer::respond(&request, &settings.hourglass),
        };
        Answer { code: 200, body: response.review(&request) }
    }
}
