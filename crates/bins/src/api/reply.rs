//! Answers: what a route says, and how problems and answers become HTTP. Decides no status.

use axum::body::Body;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, ETAG, LOCATION, RETRY_AFTER, WWW_AUTHENTICATE,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::Response;
use bytes::Bytes;
use orlop_core::error::{Code, Problem};
use serde::Serialize;

use super::auth::Caller;
use crate::web::gzip;
use crate::wire::problem::{PROBLEM_JSON, body, retry_after_ms};

/// What a route gives.
pub(super) type Answer = Result<Reply, Problem>;

/// Bodies of so many bytes are gzipped, and those of so many on a thread of their own.
const LONG: usize = 1 << 10;
const SLOW: usize = 64 << 10;

/// The header that tells a repeated answer.
const REPLAY: HeaderName = HeaderName::from_static("idempotent-replay");

/// A good answer.
#[derive(Debug)]
pub(super) struct Reply {
    status: StatusCode,
    headers: HeaderMap,
    content: Content,
    correlation: Vec<String>,
    /// Who has just signed in.
    caller: Option<Caller>,
    /// With what a body that comes bit by bit ends once its reader has lost the right to it; else it breaks.
    last: Option<Bytes>,
}

#[derive(Debug)]
enum Content {
    Empty,
    Json(serde_json::Value),
    Text(&'static str, String),
    Stream(&'static str, Body),
}

fn status(code: u16) -> StatusCode {
    StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
}

impl Reply {
    fn new(code: u16, content: Content) -> Self {
        Self {
            status: status(code),
            headers: HeaderMap::new(),
            content,
            correlation: Vec::new(),
            caller: None,
            last: None,
        }
    }

    /// An answer with a body.
    pub(super) fn json(code: u16, body: &impl Serialize) -> Answer {
        let body = serde_json::to_value(body)
            .map_err(|error| Problem::coded(Code::Internal, format!("cannot encode the response: {error}")))?;
        Ok(Self::new(code, Content::Json(body)))
    }

    /// An answer without one.
    pub(super) fn empty(code: u16) -> Self {
        Self::new(code, Content::Empty)
    }

    /// A text of a media type.
    pub(super) fn text(media: &'static str, text: String) -> Self {
        Self::new(200, Content::Text(media, text))
    }

    /// A body that comes bit by bit.
    pub(super) fn stream(media: &'static str, body: Body) -> Self {
        Self::new(200, Content::Stream(media, body))
    }

    /// The same, and what comes bit by bit goes through this.
    pub(super) fn streams_through(mut self, change: impl FnOnce(Body) -> Body) -> Self {
        if let Content::Stream(media, body) = self.content {
            self.content = Content::Stream(media, change(body));
        }
        self
    }

    /// With these bytes at the end, once its reader has lost the right to it.
    pub(super) fn ends_with(mut self, last: Bytes) -> Self {
        self.last = Some(last);
        self
    }

    /// With what it ends then.
    pub(super) fn last(&self) -> Option<&Bytes> {
        self.last.as_ref()
    }

    /// With another status.
    pub(super) fn status(mut self, code: u16) -> Self {
        self.status = status(code);
        self
    }

    /// With a header.
    pub(super) fn header(mut self, name: HeaderName, value: &str) -> Self {
        self.headers.extend(HeaderValue::from_str(value).ok().map(|value| (name, value)));
        self
    }

    /// About work that its client calls so, where that is not the id of the request; for the audit trail.
    pub(super) fn about(mut self, correlation: Vec<String>) -> Self {
        self.correlation = correlation;
        self
    }

    /// Of somebody who has just signed in; for the audit trail.
    pub(super) fn by(mut self, caller: Caller) -> Self {
        self.caller = Some(caller);
        self
    }

    /// Who has just signed in.
    pub(super) fn caller(&self) -> Option<&Caller> {
        self.caller.as_ref()
    }

    /// What its client calls the work it is about.
    pub(super) fn correlation(&self) -> &[String] {
        &self.correlation
    }

    /// With the address of what was made.
    pub(super) fn at(mut self, path: &str) -> Self {
        self.headers.extend(HeaderValue::from_str(path).ok().map(|value| (LOCATION, value)));
        self
    }

    /// With the revision of what it shows.
    pub(super) fn revision(mut self, revision: u64) -> Self {
        self.headers.extend(HeaderValue::from_str(&format!("\"{revision}\"")).ok().map(|value| (ETAG, value)));
        self
    }

    /// As the answer of an earlier request.
    pub(super) fn replayed(mut self) -> Self {
        self.headers.insert(REPLAY, HeaderValue::from_static("true"));
        self
    }

    /// What is kept of it for who repeats the request: status, address, body.
    pub(super) fn kept(&self) -> (u16, Option<&str>, Option<&serde_json::Value>) {
        let body = match &self.content {
            Content::Json(body) => Some(body),
            _ => None,
        };
        (self.status.as_u16(), self.headers.get(LOCATION).and_then(|value| value.to_str().ok()), body)
    }

    /// As an HTTP response. `packs`: a long body may be gzipped.
    pub(super) async fn response(mut self, request_id: &str, packs: bool) -> Response {
        let (media, body) = match self.content {
            Content::Empty => (None, Body::empty()),
            Content::Json(body) => {
                let text = body.to_string();
                let packed = if packs && text.len() >= LONG { packed(&text).await } else { None };
                let coding = packed.as_ref().map(|_| (CONTENT_ENCODING, HeaderValue::from_static("gzip")));
                self.headers.extend(coding);
                (Some("application/json"), packed.map_or_else(|| Body::from(text), Body::from))
            }
            Content::Text(media, text) => (Some(media), Body::from(text)),
            Content::Stream(media, body) => (Some(media), body),
        };
        let mut response = Response::new(body);
        *response.status_mut() = self.status;
        *response.headers_mut() = self.headers;
        if let Some(media) = media {
            response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media));
        }
        finish(response, request_id)
    }
}

/// A problem as an HTTP response.
pub(super) fn problem(mut problem: Problem, request_id: &str) -> Response {
    problem.details_mut().instance = Some(request_id.to_owned());
    let mut response = Response::new(Body::from(body(&problem).to_string()));
    *response.status_mut() = status(problem.code.http());
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(PROBLEM_JSON));
    if problem.code == Code::Unauthenticated {
        headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    if let Some(wait) = retry_after_ms(&problem) {
        headers.insert(RETRY_AFTER, HeaderValue::from(wait.div_ceil(1000).max(1)));
    }
    finish(response, request_id)
}

/// The id of a request: the client's, or a new one.
pub(super) fn request_id(headers: &HeaderMap) -> String {
    let given = headers.get("x-request-id").and_then(|value| value.to_str().ok());
    let good = |id: &&str| !id.is_empty() && id.len() <= 128 && id.bytes().all(|byte| byte.is_ascii_graphic());
    given.filter(good).map_or_else(|| uuid::Uuid::new_v4().simple().to_string(), str::to_owned)
}

/// A text gzipped; a long one on a thread of its own, so that nobody waits for it.
async fn packed(text: &str) -> Option<Bytes> {
    if text.len() < SLOW {
        return gzip(text.as_bytes());
    }
    let text = text.to_owned();
    tokio::task::spawn_blocking(move || gzip(text.as_bytes())).await.ok().flatten()
}

fn finish(mut response: Response, request_id: &str) -> Response {
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert("x-content-type-options", HeaderValue::from_static("nosniff"));
    headers.insert("cross-origin-resource-policy", HeaderValue::from_static("same-origin"));
    headers.extend(HeaderValue::from_str(request_id).ok().map(|id| (HeaderName::from_static("x-request-id"), id)));
    response
}
