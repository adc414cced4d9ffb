//! The layer that every call passes before its message is read: who calls is found out, and whoever may not is refused.
//! Owns the hook; who may what is the server's.

use std::sync::Arc;

use async_trait::async_trait;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use tonic::metadata::MetadataMap;
use tonic::service::Routes;
use tonic::{Code, Status};

use super::{Caller, Refusal};
use crate::api::auth::Caller as Admitted;

/// Decides who may call what.
#[async_trait]
pub trait Gate: Send + Sync + 'static {
    /// Lets a caller of a method such as `/orlop.v1.JobService/Submit` pass. Says in `who` of the caller who it is, where it
    /// is known, if it may not pass too; nobody where the method itself checks its caller.
    ///
    /// # Errors
    /// The caller may not call it; so for methods that are not known.
    async fn admit(&self, method: &str, caller: &mut Caller) -> Result<(), Refusal>;

    /// Hears how a call was answered: with this code at its beginning, streams included.
    async fn answered(&self, method: &str, caller: &Caller, code: Code);

    /// Hears what became of one message of a stream that changes something with each.
    async fn taken(&self, method: &str, caller: &Caller, code: Code);
}

/// What the layer found out.
#[derive(Clone, Debug)]
pub(super) struct Found(pub(super) Admitted);

/// Puts the layer around services.
pub(super) fn guarded(routes: Routes, gate: Arc<dyn Gate>) -> Routes {
    Routes::from(routes.into_axum_router().layer(from_fn_with_state(gate, pass)))
}

async fn pass(State(gate): State<Arc<dyn Gate>>, request: Request, next: Next) -> Response {
    let (parts, body) = request.into_parts();
    let metadata = MetadataMap::from_headers(parts.headers.clone());
    let mut caller = Caller::of(&tonic::Request::from_parts(metadata, parts.extensions.clone(), ()));
    let method = parts.uri.path().to_owned();
    let mut request = Request::from_parts(parts, body);
    let response = match gate.admit(&method, &mut caller).await {
        Ok(()) => {
            if let Some(found) = caller.who.clone() {
                request.extensions_mut().insert(Found(found));
            }
            request.extensions_mut().insert(caller.concern.clone());
            next.run(request).await
        }
        Err(refused) => Status::from(refused).into_http(),
    };
    gate.answered(&method, &caller, code(&response)).await;
    response
}

/// The code of an answer as far as its beginning tells: calls that are refused say so at once.
fn code(response: &Response) -> Code {
    let told = response.headers().get("grpc-status").map(|value| Code::from_bytes(value.as_bytes()));
    told.unwrap_or(Code::Ok)
}
