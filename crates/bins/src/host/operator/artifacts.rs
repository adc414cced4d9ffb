//! Small artifacts that pods hand in, over HTTP. Every replica listens; the one that leads keeps, and the others say to come
//! again.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::to_bytes;
use axum::extract::{Path, Request, State};
use axum::http::header::{AUTHORIZATION, CONNECTION, RETRY_AFTER};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::put;
use http_body_util::LengthLimitError;
use orlop_cloud::http::DIGEST;
use orlop_core::helper::SMALL_MAX;
use orlop_core::rate::Rate;
use orlop_k8s::api::Client;
use orlop_k8s::inline_artifacts::{Claim, InlineArtifacts, KeepError};
use orlop_k8s::shell::lease::Fenced;
use orlop_k8s::shell::limits::Limited;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio::time::timeout;

use super::{Operator, Which};
use crate::listen::{Served, accept};

/// Connections at once.
const CONNECTIONS: usize = 256;
/// Bodies in memory at once: each takes its size four times on its way into a ConfigMap.
const BODIES: usize = 16;
/// Requests to the API server for all of them.
const PACE: Rate = Rate { per_second: 20, burst: 40 };
/// How long a body may take.
const READING: Duration = Duration::from_secs(30);
/// How long a pod is asked to wait before it comes again, in seconds.
const AGAIN: &str = "3";

/// What all requests share.
struct Counter {
    artifacts: InlineArtifacts<Fenced<Limited<Client>>>,
    bodies: Semaphore,
    most: u64,
}

/// An answer that is not that the artifact is kept.
struct Refused(StatusCode, String);

impl From<KeepError> for Refused {
    fn from(error: KeepError) -> Self {
        let code = match &error {
            error if error.passes() => StatusCode::SERVICE_UNAVAILABLE,
            KeepError::Unknown => StatusCode::FORBIDDEN,
            KeepError::TooLarge(..) => StatusCode::PAYLOAD_TOO_LARGE,
            KeepError::Digest(_) => StatusCode::UNPROCESSABLE_ENTITY,
            KeepError::Taken(_) => StatusCode::CONFLICT,
            // What the server says may quote what it was sent.
            KeepError::Api(error) => return Self(StatusCode::BAD_GATEWAY, error.unquoted()),
        };
        Self(code, error.to_string())
    }
}

impl Operator {
    /// Takes artifacts of pods in on this listener for as long as the process lives, of at most so many bytes (1 MiB where nothing
    /// is said). Gives where.
    ///
    /// # Errors
    /// The listener has no address.
    pub fn take_artifacts(&self, socket: TcpListener, most: Option<u64>) -> std::io::Result<SocketAddr> {
        let address = socket.local_addr()?;
        let client = self.asks(Some(Which::JobFlow));
        // At its own pace: anyone who reaches the listener can ask, and controllers do not wait for that.
        let hands = Fenced::new(Limited::new(Client::new(client), PACE), self.term.clone());
        let most = most.unwrap_or(SMALL_MAX).min(SMALL_MAX);
        let artifacts = InlineArtifacts::new(hands).of_at_most(most);
        let counter = Arc::new(Counter { artifacts, bodies: Semaphore::new(BODIES), most });
        let router =
            Router::new().route("/v1/artifacts/{namespace}/{job}/{artifact}", put(hand_in)).with_state(counter);
        tokio::spawn(async move {
            // Anyone who holds the sender could stop it: it goes on until the process ends.
            let (_go_on, stopped) = watch::channel(false);
            accept(socket, Served { router, tls: None, connections: CONNECTIONS }, stopped).await;
        });
        Ok(address)
    }
}

async fn hand_in(
    State(counter): State<Arc<Counter>>,
    Path((namespace, job, artifact)): Path<(String, String, String)>,
    request: Request,
) -> Response {
    let subject = format!("{namespace}/{job}/{artifact}");
    match counter.take(&namespace, &job, &artifact, request).await {
        Ok(bytes) => {
            tracing::debug!(artifact = subject, bytes, "an artifact was stored");
            StatusCode::NO_CONTENT.into_response()
        }
        Err(Refused(code, why)) => {
            if code == StatusCode::FORBIDDEN {
                // Anyone who reaches the listener can cause this, as often as they like.
                tracing::debug!(artifact = subject, code = code.as_u16(), "an artifact was not stored: {why}");
            } else {
                tracing::warn!(artifact = subject, code = code.as_u16(), "an artifact was not stored: {why}");
            }
            // Over another connection, it may come to the replica that leads.
            let again = [(RETRY_AFTER, AGAIN), (CONNECTION, "close")];
            let again = (code == StatusCode::SERVICE_UNAVAILABLE).then_some(again);
            (code, again, format!("{why}\n")).into_response()
        }
    }
}

fn word<'h>(headers: &'h HeaderMap, name: &str) -> &'h str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

impl Counter {
    /// Takes an artifact in. Gives how many bytes it has. Nothing of a body is read before it is known whose it is.
    async fn take(&self, namespace: &str, job: &str, artifact: &str, request: Request) -> Result<usize, Refused> {
        let (parts, body) = request.into_parts();
        let token = word(&parts.headers, AUTHORIZATION.as_str()).strip_prefix("Bearer ").unwrap_or_default();
        let permit = self.artifacts.admit(Claim { namespace, job, artifact, token }).await?;
        let closed = |_| Refused(StatusCode::SERVICE_UNAVAILABLE, "this process is about to end".to_owned());
        let _room = self.bodies.acquire().await.map_err(closed)?;
        let most = usize::try_from(self.most).unwrap_or(usize::MAX);
        let read = timeout(READING, to_bytes(body, most)).await.map_err(|_| {
            let why = format!("the artifact did not arrive within {} s", READING.as_secs());
            Refused(StatusCode::REQUEST_TIMEOUT, why)
        })?;
        let content = read.map_err(|error| {
            if error.into_inner().is::<LengthLimitError>() {
                Refused(StatusCode::PAYLOAD_TOO_LARGE, format!("the artifact has more than {most} bytes"))
            } else {
                Refused(StatusCode::BAD_REQUEST, "the artifact was cut off; send it again".to_owned())
            }
        })?;
        self.artifacts.keep(&permit, word(&parts.headers, DIGEST), &content).await?;
        Ok(content.len())
    }
}
