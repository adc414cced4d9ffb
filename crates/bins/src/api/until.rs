//! Streams that end with the right to them: when the token behind one is revoked or expires, or a worker is shut out.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, HttpBody};
use axum::http::{HeaderMap, HeaderValue};
use bytes::Bytes;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http_body::Frame;
use orlop_core::error::Problem;
use tokio::sync::watch;

use super::auth::Caller;
use super::state::Api;
use super::streams::StreamPermit;
use crate::host::scheduler::Status;
use crate::wire::identity::PeerCertificate;

/// Between two looks where another server may have changed a token, and where only this one does.
const LOOKS: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(60));

/// Whose right it is.
#[derive(Clone, Debug)]
pub(crate) enum Holder {
    /// Of a token; or of anyone who is on this machine, while nobody needs one.
    Caller(Caller),
    /// Of a worker.
    Worker(PeerCertificate),
}

/// How a stream ends that has to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// It breaks: anyone who reads it asks again, and hears why not.
    Break,
    /// With these bytes, as if that were all.
    Last(Bytes),
    /// With a status of gRPC.
    Status,
}

/// A body that ends with the right to it.
struct Until {
    body: Body,
    over: BoxFuture<'static, ()>,
    ending: Ending,
    done: bool,
    _permit: Option<Arc<StreamPermit>>,
}

/// A body for as long as its holder may have it; it is counted among its streams where it has a permit.
pub(crate) fn until(
    api: &Arc<Api>,
    holder: Holder,
    ending: Ending,
    permit: Option<Arc<StreamPermit>>,
    body: Body,
) -> Body {
    let api = Arc::clone(api);
    let changes = api.guard.changes();
    let over = async move {
        // What changed between the call and its answer nobody has heard of.
        if !matches!(api.holds(&holder).await, Ok(false)) {
            api.over(&holder, changes).await;
        }
    };
    let over = over.boxed();
    Body::new(Until { body, over, ending, done: false, _permit: permit })
}

impl HttpBody for Until {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.done {
            return Poll::Ready(None);
        }
        if self.over.poll_unpin(cx).is_ready() {
            self.done = true;
            return Poll::Ready(Some(match &self.ending {
                Ending::Last(bytes) => Ok(Frame::data(bytes.clone())),
                Ending::Break => Err(axum::Error::new("access to this stream has expired")),
                Ending::Status => {
                    let mut trailers = HeaderMap::new();
                    trailers.insert("grpc-status", HeaderValue::from_static("16"));
                    trailers.insert("grpc-message", HeaderValue::from_static("access to this stream has expired"));
                    Ok(Frame::trailers(trailers))
                }
            }));
        }
        let frame = Pin::new(&mut self.body).poll_frame(cx);
        self.done = matches!(frame, Poll::Ready(None));
        frame
    }
}

impl Api {
    /// A place for a stream of a caller, for as long as it lives.
    ///
    /// # Errors
    /// RateLimited: there are as many as there may be, in all or of its token.
    pub(crate) fn stream(&self, caller: &Caller) -> Result<StreamPermit, Problem> {
        self.streams.permit(caller)
    }

    /// Whether a right holds.
    pub(super) async fn holds(&self, holder: &Holder) -> Result<bool, Problem> {
        self.guard.holds(holder, self.authority().is_some()).await
    }

    /// Waits until a right has ended that held when `changes` was made.
    pub(super) async fn over(&self, holder: &Holder, mut changes: watch::Receiver<u64>) {
        loop {
            let leads = matches!(self.handle.status(), Status::Leading { .. });
            let look = if leads { LOOKS.1 } else { LOOKS.0 };
            let ends = match holder {
                Holder::Caller(caller) => caller.expires_at,
                Holder::Worker(_) => None,
            };
            let left = ends.map_or(look, |at| at.since(self.now()).min(look));
            tokio::select! {
                _ = changes.changed() => {}
                () = tokio::time::sleep(left) => {}
            }
            // Where the store says nothing the right holds until it does, but for its time.
            if ends.is_some_and(|at| at <= self.now()) || matches!(self.holds(holder).await, Ok(false)) {
                return;
            }
        }
    }
}
