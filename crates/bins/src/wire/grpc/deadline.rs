//! How long a call may take whose caller does not say.

use std::time::Duration;

use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use tonic::Status;
use tonic::service::Routes;

/// The header in which a caller says how long it waits.
const HEADER: &str = "grpc-timeout";

/// Puts the limit around services.
pub(super) fn timely(routes: Routes, deadline: Duration) -> Routes {
    Routes::from(routes.into_axum_router().layer(from_fn_with_state(deadline, pass)))
}

async fn pass(State(deadline): State<Duration>, request: Request, next: Next) -> Response {
    if request.headers().contains_key(HEADER) {
        return next.run(request).await;
    }
    let answered = tokio::time::timeout(deadline, next.run(request)).await;
    answered.unwrap_or_else(|_| {
        let message = format!("no answer within {deadline:?}; send {HEADER} to wait longer");
        Status::deadline_exceeded(message).into_http()
    })
}
