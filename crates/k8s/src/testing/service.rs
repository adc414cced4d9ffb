//! The service behind `kube::Client`: HTTP in, HTTP out, with the faults that strike on the way. Never touches objects
//! itself.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, header};
use http_body::Frame;
use http_body_util::BodyExt;
use kube::client::Body as KubeBody;

use super::Shared;
use super::answer::{Answer, Body};
use super::discovery;
use super::faults::{Seen, Twist, What};
use super::record::Write;
use super::refusal::{Refusal, Result as Outcome};
use super::request::{self, Call, Options, Path, Verb};
use super::state::State;
use super::verb;

/// No answer: the connection could not be made, or broke.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Lost {
    /// The request did not arrive.
    #[error("error trying to connect: connection refused")]
    Unreachable,
    /// The answer did not arrive.
    #[error("connection closed before message completed")]
    AnswerLost,
    /// The request's body could not be read.
    #[error("the body of the request cannot be read: {0}")]
    Body(String),
}

/// Who a client is.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    /// Its name in records and faults.
    pub(crate) client: String,
    /// Whose rights it has; `None` for all.
    pub(crate) user: Option<String>,
}

/// One client's way to the server.
#[derive(Clone)]
pub(crate) struct Service {
    pub(crate) shared: Arc<Shared>,
    pub(crate) identity: Arc<Identity>,
}

/// The body of an answer.
pub(crate) enum Payload {
    Whole(Option<Bytes>),
    Stream(Box<super::watch::Watch>),
}

impl http_body::Body for Payload {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.get_mut() {
            Self::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Self::Stream(watch) => Pin::new(watch.as_mut()).poll_frame(context),
        }
    }
}

impl tower::Service<Request<KubeBody>> for Service {
    type Response = Response<Payload>;
    type Error = Lost;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Lost>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Lost>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<KubeBody>) -> Self::Future {
        let service = self.clone();
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            let body = body.collect().await.map_err(|error| Lost::Body(error.to_string()))?.to_bytes();
            service.answer(parts, body).await
        })
    }
}

/// What faults do to one request.
#[derive(Debug, Default)]
struct Plan {
    unreachable: bool,
    lost: bool,
    stop: bool,
    webhooks_down: bool,
    refuse: Option<Box<Refusal>>,
    after: Option<Box<Refusal>>,
    delay: std::time::Duration,
}

impl Service {
    async fn answer(self, parts: http::request::Parts, body: Bytes) -> Result<Response<Payload>, Lost> {
        let Some(path) = request::path(parts.uri.path()) else { return Ok(self.document(&parts)) };
        let mut call = match self.call_of(&parts, path, body) {
            Ok(call) => call,
            Err(refusal) => return Ok(refused(&refusal)),
        };
        let plan = {
            let mut state = self.shared.lock();
            if state.faults.is_stopped(&self.identity.client) {
                return Err(Lost::Unreachable);
            }
            self.plan(&mut state, &call)
        };
        if !plan.delay.is_zero() {
            tokio::time::sleep(plan.delay).await;
        }
        call.webhooks_down = plan.webhooks_down;
        let mut state = self.shared.lock();
        if plan.unreachable {
            self.note(&mut state, &call, 0, None, 0);
            self.stop_if(&mut state, plan.stop);
            return Err(Lost::Unreachable);
        }
        let before = state.revision;
        let outcome = match plan.refuse {
            Some(refusal) => Err(refusal),
            None => verb::handle(&self.shared, &mut state, &call),
        };
        let warned = std::mem::take(&mut state.warnings);
        let code = outcome.as_ref().map_or_else(|refusal| refusal.code, |answer| answer.code);
        let changed = state.revision - before;
        self.note(&mut state, &call, if plan.lost { 0 } else { code }, outcome.as_ref().ok(), changed);
        self.stop_if(&mut state, plan.stop);
        drop(state);
        if plan.lost {
            return Err(Lost::AnswerLost);
        }
        Ok(match (plan.after, outcome) {
            (Some(refusal), _) | (None, Err(refusal)) => refused(&refusal),
            (None, Ok(answer)) => respond(answer.warning(warned)),
        })
    }

    fn call_of(&self, parts: &http::request::Parts, path: Path, body: Bytes) -> Outcome<Call> {
        let options: Options = request::options(parts.uri.query().unwrap_or_default())?;
        let verb = request::verb(&parts.method, &path, &options)?;
        let header =
            |name| parts.headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok()).unwrap_or_default();
        let agent = header(header::USER_AGENT).split('/').next().unwrap_or_default();
        let agent = if agent.is_empty() { self.identity.client.as_str() } else { agent };
        Ok(Call {
            verb,
            path,
            options,
            patch: request::patch_kind(header(header::CONTENT_TYPE)),
            metadata_only: header(header::ACCEPT).contains("as=PartialObjectMetadata"),
            body,
            client: self.identity.client.clone(),
            webhooks_down: false,
            user: self.identity.user.clone(),
            agent: agent.to_owned(),
        })
    }

    /// Documents that are no objects.
    fn document(&self, parts: &http::request::Parts) -> Response<Payload> {
        if self.shared.lock().faults.is_stopped(&self.identity.client) {
            return refused(&Refusal::with_code(503, None));
        }
        let found =
            if parts.method == Method::GET { discovery::document(&self.shared.lock(), parts.uri.path()) } else { None };
        match found {
            Some(value) => respond(Answer::json(200, &value)),
            None => refused(&Refusal::no_such_path()),
        }
    }

    /// Asks which faults strike, and lets those strike at once that are not about this answer.
    fn plan(&self, state: &mut State, call: &Call) -> Plan {
        let qualified = if call.path.group.is_empty() {
            call.path.resource.clone()
        } else {
            format!("{}.{}", call.path.resource, call.path.group)
        };
        let seen = Seen {
            client: &self.identity.client,
            verb: call.verb,
            resource: &call.path.resource,
            qualified: &qualified,
            subresource: &call.path.subresource,
            name: call.path.name.as_deref().unwrap_or_default(),
            metadata_only: call.metadata_only,
        };
        let table = state.table_of(&call.path).ok();
        let mut plan = Plan::default();
        for what in state.faults.strike(&seen) {
            match what {
                What::DropAnswer => plan.lost = true,
                What::Unreachable => plan.unreachable = true,
                What::Refuse(code) => plan.refuse = Some(Refusal::with_code(code, None)),
                What::RefuseWith(code, message) => plan.refuse = Some(Refusal::with_code(code, Some(&message))),
                What::Conflict => plan.refuse = Some(conflict(state, table, call)),
                What::Timeout => plan.refuse = Some(Refusal::with_code(504, None)),
                What::TimeoutAfter => plan.after = Some(Refusal::with_code(504, None)),
                What::Delay(time) => plan.delay += time,
                What::WebhooksDown => plan.webhooks_down = true,
                What::StopAfter => plan.stop = true,
                What::StopBeforeAnswer => (plan.stop, plan.lost) = (true, true),
                What::StopBefore => (plan.stop, plan.unreachable) = (true, true),
                What::StaleList(count) => state.faults.set_stale(count),
                What::Compact => {
                    let revision = state.revision;
                    state.tables.iter_mut().for_each(|table| table.compact(revision));
                }
                What::WatchDrop => {
                    if let Some(table) = table {
                        state.faults.cut(table);
                        state.tables.get_mut(table).into_iter().for_each(super::store::Table::wake);
                    }
                }
                What::WatchDuplicate | What::WatchReorder => {
                    let twist = if what == What::WatchReorder { Twist::Swap } else { Twist::Duplicate };
                    if let Some(table) = table {
                        state.faults.set_twist(table, twist);
                    }
                }
            }
        }
        plan
    }

    fn stop_if(&self, state: &mut State, stop: bool) {
        if stop {
            state.faults.stop(&self.identity.client);
            self.shared.stopped.notify_waiters();
        }
    }

    /// Records a request that came to an end.
    fn note(&self, state: &mut State, call: &Call, code: u16, answer: Option<&Answer>, changed: u64) {
        let client = &self.identity.client;
        let mut resource = call.path.resource.clone();
        if !call.path.group.is_empty() {
            resource = format!("{resource}.{}", call.path.group);
        }
        if call.verb.writes() {
            state.record.number += 1;
            let name = call.path.name.clone().unwrap_or_else(|| name_of(answer));
            let write = Write {
                number: state.record.number,
                client: client.clone(),
                verb: call.verb,
                resource: resource.clone(),
                namespace: call.path.namespace.clone().unwrap_or_default(),
                name,
                subresource: call.path.subresource.clone(),
                code: answer.map_or(code, |answer| answer.code),
                changed: changed > 0,
            };
            state.record.writes.push(write);
        }
        if !call.path.subresource.is_empty() {
            resource = format!("{resource}/{}", call.path.subresource);
        }
        state.record.count(client, call.verb, &resource, code);
    }
}

/// The name that a created object got.
fn name_of(answer: Option<&Answer>) -> String {
    let Some(Answer { body: Body::Json(bytes), code: 201, .. }) = answer else { return String::new() };
    let value: serde_json::Value = serde_json::from_slice(bytes).unwrap_or_default();
    value.pointer("/metadata/name").and_then(serde_json::Value::as_str).unwrap_or_default().to_owned()
}

fn conflict(state: &State, table: Option<usize>, call: &Call) -> Box<Refusal> {
    match table.and_then(|table| state.kind(table).ok()) {
        Some(kind) if call.verb == Verb::Create => {
            Refusal::already_exists(&kind, call.path.name.as_deref().unwrap_or_default(), false)
        }
        Some(kind) => Refusal::stale(&kind, call.path.name.as_deref().unwrap_or_default()),
        None => Refusal::with_code(409, None),
    }
}

fn respond(answer: Answer) -> Response<Payload> {
    let payload = match answer.body {
        Body::Json(bytes) => Payload::Whole(Some(bytes)),
        Body::Watch(watch) => Payload::Stream(watch),
    };
    let mut response = Response::new(payload);
    *response.status_mut() = http::StatusCode::from_u16(answer.code).unwrap_or(http::StatusCode::OK);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    for warning in answer.warnings {
        let text = format!("299 - {}", super::object::quoted(&warning));
        if let Ok(value) = HeaderValue::from_str(&text) {
            response.headers_mut().append(header::WARNING, value);
        }
    }
    response
}

fn refused(refusal: &Refusal) -> Response<Payload> {
    let mut response = respond(Answer::json(refusal.code, &refusal.body()));
    if let Some(seconds) = refusal.retry_after() {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}
