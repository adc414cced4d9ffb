//! The layer that every call passes before its message is read: who calls is found out, and anyone who may not is refused.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use orlop_core::error::Problem;
use tonic::metadata::MetadataMap;
use tonic::service::Routes;
use tonic::{Code, Status};

use super::super::problem::status;
use super::Caller;
use super::accept::Peer;
use crate::api::auth::Caller as Admitted;
use crate::listen::Connection;

/// Decides who may call what.
#[async_trait]
pub trait CallInterceptor: Send + Sync + 'static {
    /// Lets a caller of a method such as `/orlop.v1.JobService/Submit` pass. Says in `who` of the caller who it is, where it
    /// is known, if it may not pass too; nobody where the method itself checks its caller.
    ///
    /// # Errors
    /// The caller may not call it; so for methods that are not known.
    async fn admit(&self, method: &str, caller: &mut Caller) -> Result<(), Problem>;

    /// Whether anybody may call it and be answered well.
    fn is_open(&self, method: &str) -> bool;

    /// Whether its message is a small one, of somebody who may not be known before it was read.
    fn is_small(&self, method: &str) -> bool;

    /// An answer that comes bit by bit, for as long as its caller may have it.
    fn lasting(&self, method: &str, caller: &Caller, body: Body) -> Body;

    /// Hears how a call was answered: with this code at its beginning, streams included.
    async fn answered(&self, method: &str, caller: &Caller, code: Code);

    /// Hears what became of one message of a stream that changes something with each.
    async fn taken(&self, method: &str, caller: &Caller, code: Code);
}

/// What the layer found out.
#[derive(Clone, Debug)]
pub(super) struct AuthenticatedCaller(pub(super) Admitted);

/// Puts the layer around services.
pub(super) fn guarded(routes: Routes, interceptor: Arc<dyn CallInterceptor>) -> Routes {
    Routes::from(routes.into_axum_router().layer(from_fn_with_state(interceptor, pass)))
}

/// The most bytes of a message of somebody who is not known yet, and how long it may take.
const MESSAGE: (usize, Duration) = (64 << 10, Duration::from_secs(10));
/// Calls of one connection at once until somebody on it is known.
const CALLS: usize = 32;

/// A call that is still to show who makes it: its whole message, if that is small and comes in time.
async fn small(body: Body) -> Result<Body, Status> {
    match tokio::time::timeout(MESSAGE.1, Limited::new(body, MESSAGE.0).collect()).await {
        Ok(Ok(message)) => Ok(Body::new(Full::new(message.to_bytes()))),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            Err(Status::resource_exhausted(format!("this message has more than {} bytes", MESSAGE.0)))
        }
        Ok(Err(_)) => Err(Status::cancelled("the message was cut off")),
        Err(_) => Err(Status::deadline_exceeded("the message did not arrive within 10 s")),
    }
}

async fn pass(State(interceptor): State<Arc<dyn CallInterceptor>>, request: Request, next: Next) -> Response {
    let (parts, body) = request.into_parts();
    let connection = parts.extensions.get::<Peer>().map(|peer| peer.connection.clone());
    let under_way = connection.as_ref().map(Connection::request);
    let metadata = MetadataMap::from_headers(parts.headers.clone());
    let mut caller = Caller::of(&tonic::Request::from_parts(metadata, parts.extensions.clone(), ()));
    let method = parts.uri.path().to_owned();
    let response = match admitted(&*interceptor, &method, &mut caller, connection.as_ref(), body).await {
        Ok(body) => {
            let mut request = Request::from_parts(parts, body);
            if let Some(found) = caller.who.clone() {
                request.extensions_mut().insert(AuthenticatedCaller(found));
            }
            request.extensions_mut().insert(caller.concern.clone());
            next.run(request).await
        }
        Err(refused) => refused.into_http(),
    };
    let code = code(&response);
    // Anyone who gets a good answer where it may not be anybody has shown who it is.
    let shows = |connection: &Connection| code == Code::Ok && !connection.is_known() && !interceptor.is_open(&method);
    if let Some(connection) = connection.filter(shows) {
        connection.known(&caller.owner());
    }
    interceptor.answered(&method, &caller, code).await;
    drop(under_way);
    response.map(|body| interceptor.lasting(&method, &caller, body))
}

/// The body of a call that may go on.
async fn admitted(
    interceptor: &dyn CallInterceptor,
    method: &str,
    caller: &mut Caller,
    connection: Option<&Connection>,
    body: Body,
) -> Result<Body, Status> {
    if connection.is_some_and(|connection| !connection.is_known() && connection.requests() > CALLS) {
        return Err(Status::resource_exhausted("too many concurrent calls of unauthenticated clients"));
    }
    interceptor.admit(method, caller).await.map_err(status)?;
    if interceptor.is_small(method) { small(body).await } else { Ok(body) }
}

/// The code of an answer as far as its beginning tells: calls that are refused say so at once.
fn code(response: &Response) -> Code {
    let reported = response.headers().get("grpc-status").map(|value| Code::from_bytes(value.as_bytes()));
    reported.unwrap_or(Code::Ok)
}
