//! Requests of the API server and their answers.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::{Body, HttpBody as _};
use axum::extract::Request;
use axum::http::StatusCode;
use axum::http::header::{CONTENT_TYPE, RETRY_AFTER};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use http_body_util::BodyExt as _;
use orlop_k8s::admission::{Answer, BODY_MAX, Settings, Webhook};
use orlop_k8s::shell::Clock;
use serde_json::Value;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::telemetry::metrics::WebhookMetrics;

/// How long a body may take. The API server itself gives up after 10 s where its configuration says nothing else.
const READING: Duration = Duration::from_secs(5);
/// How long an answer may take, with the wait for a turn.
const ANSWERING: Duration = Duration::from_secs(10);
/// Bytes of bodies at once, in KiB.
const HELD: usize = 64 << 10;

/// What all requests share.
pub(super) struct Desk {
    settings: Settings,
    clock: Arc<dyn Clock>,
    metrics: Arc<WebhookMetrics>,
    /// Room for bodies, in KiB.
    held: Arc<Semaphore>,
    /// Answers made at once: they take a processor each.
    turns: Arc<Semaphore>,
}

/// Why there is no answer: the code, the word for it, and what to say.
struct Refused(StatusCode, &'static str, String);

impl Desk {
    pub(super) fn new(settings: Settings, clock: Arc<dyn Clock>, metrics: Arc<WebhookMetrics>) -> Self {
        let turns = std::thread::available_parallelism().map_or(2, usize::from).clamp(2, 8);
        let (held, turns) = (Arc::new(Semaphore::new(HELD)), Arc::new(Semaphore::new(turns)));
        Self { settings, clock, metrics, held, turns }
    }

    /// The routes.
    pub(super) fn router(self: &Arc<Self>) -> Router {
        let mut router = Router::new().route("/healthz", get(async || "ok\n"));
        for webhook in Webhook::ALL {
            let desk = Arc::clone(self);
            let answer = async move |request: Request| desk.asked(webhook, request.into_body()).await;
            router = router.route(webhook.path(), post(answer));
        }
        router
    }

    async fn asked(self: Arc<Self>, webhook: Webhook, body: Body) -> Response {
        let began = Instant::now();
        let (word, response) = match self.answered(webhook, body).await {
            Ok(answer) => respond(answer),
            Err(Refused(code, word, why)) => {
                tracing::warn!(
                    webhook = webhook.path(),
                    code = code.as_u16(),
                    "an admission review was not answered: {why}"
                );
                let again = (code == StatusCode::SERVICE_UNAVAILABLE).then_some([(RETRY_AFTER, "1")]);
                (word, (code, again, format!("{why}\n")).into_response())
            }
        };
        self.metrics.requests.of([webhook.path(), word]).inc();
        self.metrics.duration.of([webhook.path()]).observe(began.elapsed().as_secs_f64());
        response
    }

    async fn answered(self: &Arc<Self>, webhook: Webhook, body: Body) -> Result<Answer, Refused> {
        let late = |_| {
            let why = format!("the review did not arrive within {} s", READING.as_secs());
            Refused(StatusCode::REQUEST_TIMEOUT, "late", why)
        };
        let (bytes, room) = timeout(READING, self.read(body)).await.map_err(late)??;
        let turn = timeout(ANSWERING, Arc::clone(&self.turns).acquire_owned()).await;
        let Ok(Ok(turn)) = turn else { return Err(busy("too many reviews wait for an answer")) };
        let desk = Arc::clone(self);
        let answer = tokio::task::spawn_blocking(move || {
            let answer = webhook.answer(&bytes, &desk.settings, desk.clock.now());
            drop((turn, room));
            answer
        });
        let failed = |error| Refused(StatusCode::INTERNAL_SERVER_ERROR, "failed", format!("cannot answer: {error}"));
        answer.await.map_err(failed)
    }

    /// The body, with the room that it takes.
    async fn read(&self, mut body: Body) -> Result<(Vec<u8>, Vec<OwnedSemaphorePermit>), Refused> {
        let large = || {
            let why = format!("the review has more than {BODY_MAX} bytes");
            Refused(StatusCode::PAYLOAD_TOO_LARGE, "large", why)
        };
        if body.size_hint().lower() > BODY_MAX as u64 {
            return Err(large());
        }
        let (mut bytes, mut room, mut kept) = (Vec::new(), Vec::new(), 0);
        while let Some(frame) = body.frame().await {
            let broken = |error| Refused(StatusCode::BAD_REQUEST, "broken", format!("the review was cut off: {error}"));
            let Ok(data) = frame.map_err(broken)?.into_data() else { continue };
            if bytes.len() + data.len() > BODY_MAX {
                return Err(large());
            }
            // What a body takes is known as it comes: anyone who only promises one holds nothing.
            let wanted = (bytes.len() + data.len()).div_ceil(1 << 10);
            if wanted > kept {
                let more = u32::try_from(wanted - kept).unwrap_or(u32::MAX);
                let permit = Arc::clone(&self.held).try_acquire_many_owned(more);
                room.push(permit.map_err(|_| busy("too many reviews arrive at once"))?);
                kept = wanted;
            }
            bytes.extend_from_slice(&data);
        }
        Ok((bytes, room))
    }
}

fn busy(why: &str) -> Refused {
    Refused(StatusCode::SERVICE_UNAVAILABLE, "busy", why.to_owned())
}

/// The answer over HTTP, and the word for it.
fn respond(answer: Answer) -> (&'static str, Response) {
    let code = StatusCode::from_u16(answer.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    if let Value::String(why) = answer.body {
        return (
            "unreadable",
            (code, [(CONTENT_TYPE, "text/plain; charset=utf-8")], format!("{why}\n")).into_response(),
        );
    }
    let response = &answer.body["response"];
    let word = match (response["allowed"] == true, response.get("patch").is_some(), &response["status"]["code"]) {
        (true, true, _) => "patched",
        (true, false, _) => "allowed",
        (false, _, code) if *code == 500 => "failed",
        (false, ..) => "refused",
    };
    (word, (code, Json(answer.body)).into_response())
}
