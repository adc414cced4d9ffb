//! Pages from elsewhere that were listed (cross-origin resource sharing): browsers let them read answers.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ORIGIN, VARY,
};
use axum::http::{HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::Response;

use super::guard::is_listed;
use super::state::Api;

/// What pages may ask by.
const METHODS: HeaderValue = HeaderValue::from_static("GET, POST, PUT, PATCH, DELETE");
/// What they may send. There are no cookies, so nothing is sent on its own.
const SENT: HeaderValue = HeaderValue::from_static(
    "authorization, content-type, idempotency-key, if-match, last-event-id, range, traceparent, x-request-id",
);
/// What they may read.
const READ: HeaderValue = HeaderValue::from_static(
    "content-range, etag, idempotent-replay, location, retry-after, upload-offset, x-request-id",
);
/// For how long a browser need not ask again, in seconds.
const AGE: HeaderValue = HeaderValue::from_static("600");

/// Adds the headers to answers for listed pages.
pub(super) async fn pass(State(api): State<Arc<Api>>, request: Request, next: Next) -> Response {
    let origin = request.headers().get(ORIGIN).cloned();
    let text = origin.as_ref().and_then(|origin| origin.to_str().ok());
    let listed = text.is_some_and(|text| is_listed(&api.options.origins, text).is_some());
    let Some(origin) = origin.filter(|_| listed) else { return next.run(request).await };
    let asks = request.method() == Method::OPTIONS;
    let mut response = if asks { Response::new(Body::empty()) } else { next.run(request).await };
    let headers = response.headers_mut();
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.insert(VARY, HeaderValue::from_static("origin"));
    if asks {
        headers.insert(ACCESS_CONTROL_ALLOW_METHODS, METHODS);
        headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, SENT);
        headers.insert(ACCESS_CONTROL_MAX_AGE, AGE);
        *response.status_mut() = StatusCode::NO_CONTENT;
    } else {
        headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, READ);
    }
    response
}
