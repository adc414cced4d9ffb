//! The service of workers: registration, the stream of a session, heartbeats beside it. Owns the two tasks of a stream, one
//! for each direction; what frames mean is the session's and the loop's.

use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::super::Stop;
use futures::Stream;
use orlop_core::id::{Epoch, SessionId, WorkerId};
use ring::rand::SecureRandom;
use tokio::sync::mpsc;
use tonic::{Request, Response, Status, Streaming};

use super::super::{Closing, Error, Handle, Opened, Registration, Session, Status as ServerStatus, error};
use super::status;
use crate::wire::frame::{Directive, DirectiveKind, ServerFrame, WorkerFrame};
use crate::wire::problem::{Code, Problem};
use crate::wire::proto::v1;
use crate::wire::session::ServerSession;
use crate::wire::status::{Heartbeat, HeartbeatAnswer};
use crate::wire::worker::{Limits, ProtocolRange, Registered, Registration as Asked};

/// How long the first frame of a stream may take.
const OPENING: Duration = Duration::from_secs(10);
/// Frames between the session and the transport.
const BETWEEN: usize = 16;

/// The service.
#[derive(Debug)]
pub(super) struct Workers {
    handle: Handle,
    stop: Stop,
    random: ring::rand::SystemRandom,
}

impl Workers {
    pub(super) fn new(handle: Handle, stop: Stop) -> Self {
        Self { handle, stop, random: ring::rand::SystemRandom::new() }
    }

    fn session_id(&self) -> Result<SessionId, Error> {
        let mut bytes = [0; 16];
        let drawn = self.random.fill(&mut bytes);
        drawn.map_err(|_| error::problem(Code::Internal, "the system gives no random numbers"))?;
        Ok(SessionId::from_bytes(bytes))
    }

    async fn register(&self, request: Asked) -> Result<Registered, Error> {
        let Some(protocol) = ProtocolRange::OURS.common(request.protocol) else {
            let (ours, theirs) = (ProtocolRange::OURS, request.protocol);
            let text = format!("this server speaks protocol {ours}, the agent {theirs}; install a release that fits");
            return Err(error::problem(Code::Precondition, text));
        };
        let registration = Registration {
            worker: request.worker,
            state_id: request.state_id,
            capabilities: Arc::new(request.capabilities),
            agent_version: request.agent_version,
            session: self.session_id()?,
        };
        let session = self.handle.register(registration).await?;
        let (facts, options) = (session.facts(), self.handle.options());
        Ok(Registered {
            worker: facts.worker.clone(),
            incarnation: facts.incarnation,
            session: facts.id,
            epoch: facts.epoch,
            protocol,
            // None are known yet.
            features: std::collections::BTreeSet::new(),
            heartbeat_ms: options.heartbeat_ms,
            lease_ms: options.lease_ms,
            limits: Limits::default(),
            certificate: Vec::new(),
            ca: Vec::new(),
            status: None,
        })
    }

    fn epoch(&self) -> Epoch {
        match self.handle.status() {
            ServerStatus::Leading { epoch } => epoch,
            _ => Epoch(0),
        }
    }

    /// Reads the first frame and opens the session's stream.
    async fn begin(&self, frames: &mut Streaming<v1::WorkerFrame>) -> Result<Result<Opened, ServerFrame>, Status> {
        let late = || Status::deadline_exceeded("no hello came within 10 s");
        let first = tokio::time::timeout(OPENING, frames.message()).await.map_err(|_| late())??;
        let first = first.ok_or_else(|| Status::invalid_argument("the stream ended before its hello"))?;
        let first = WorkerFrame::try_from(first).map_err(|error| status(Problem::from(error)))?;
        let hello = first.hello.ok_or_else(|| Status::invalid_argument("the first frame of a stream is a hello"))?;
        match self.handle.open_stream(hello).await {
            Ok(opened) => Ok(Ok(opened)),
            // The agent registers again and goes on.
            Err(gone) if gone.code == Code::Unauthenticated => {
                Ok(Err(ServerSession::reregister(self.epoch(), gone.detail)))
            }
            Err(error) => Err(status(error)),
        }
    }
}

/// Sends what the session has until the stream ends.
async fn outward(opened: Opened, to: mpsc::Sender<Result<v1::ServerFrame, Status>>, stop: Stop) {
    let Opened { session, stream, welcome } = opened;
    let begun = Instant::now();
    let now = || u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX);
    if to.send(Ok(welcome.into())).await.is_err() {
        return;
    }
    loop {
        let poll = session.poll(stream, now());
        for frame in poll.frames {
            if to.send(Ok(frame.into())).await.is_err() {
                return;
            }
        }
        if let Some(closing) = poll.closing {
            if let Some(last) = farewell(&session, closing) {
                // The agent has gone: it is told nothing.
                drop(to.send(Ok(last.into())).await);
            }
            return;
        }
        let due = poll.due.map(|due| Duration::from_micros(due.saturating_sub(now())));
        tokio::select! {
            () = session.ready() => {}
            () = tokio::time::sleep(due.unwrap_or(Duration::MAX)), if due.is_some() => {}
            () = to.closed() => return,
            () = stop.stopped() => return,
        }
    }
}

/// The last frame of a stream that the server ends.
fn farewell(session: &Session, closing: Closing) -> Option<ServerFrame> {
    let (kind, reason) = match closing {
        Closing::Goodbye | Closing::Superseded => return None,
        Closing::Gone => (DirectiveKind::Reregister, "the worker has left"),
        Closing::Replaced => (DirectiveKind::Reregister, "the worker has registered again"),
        Closing::Stalled => (DirectiveKind::Reregister, "too much was waiting for this agent"),
        Closing::Stopped => (DirectiveKind::Reregister, "the server starts a new term"),
    };
    let directive = Directive { kind, reason: reason.to_owned(), deadline_ms: 0 };
    Some(ServerFrame { epoch: session.facts().epoch, directive: Some(directive), ..ServerFrame::default() })
}

/// Takes frames until the stream ends, then says so.
async fn inward(handle: Handle, session: Arc<Session>, stream: u64, mut frames: Streaming<v1::WorkerFrame>) {
    let worker = session.facts().worker.clone();
    loop {
        let frame = match frames.message().await {
            Ok(Some(frame)) => frame,
            Ok(None) => break,
            Err(error) => {
                tracing::debug!(target: "orlop::scheduler", %worker, %error, "a stream broke");
                break;
            }
        };
        let frame = match WorkerFrame::try_from(frame) {
            Ok(frame) => frame,
            Err(error) => {
                tracing::warn!(target: "orlop::scheduler", %worker, %error, "a frame was refused; the stream ends");
                break;
            }
        };
        if let Err(error) = handle.frame(&session, stream, frame).await {
            tracing::warn!(target: "orlop::scheduler", %worker, %error, "the stream ends");
            break;
        }
    }
    handle.stream_closed(&session, stream).await;
}

#[tonic::async_trait]
impl v1::worker_service_server::WorkerService for Workers {
    async fn register_worker(
        &self,
        request: Request<v1::RegisterWorkerRequest>,
    ) -> Result<Response<v1::RegisterWorkerResponse>, Status> {
        let request = Asked::try_from(request.into_inner()).map_err(|error| status(Problem::from(error)))?;
        let registered = self.register(request).await.map_err(status)?;
        Ok(Response::new(registered.into()))
    }

    type JobStreamStream = Pin<Box<dyn Stream<Item = Result<v1::ServerFrame, Status>> + Send>>;

    async fn job_stream(
        &self,
        request: Request<Streaming<v1::WorkerFrame>>,
    ) -> Result<Response<Self::JobStreamStream>, Status> {
        let mut frames = request.into_inner();
        let opened = match self.begin(&mut frames).await? {
            Ok(opened) => opened,
            Err(reregister) => {
                let only = futures::stream::once(async move { Ok(reregister.into()) });
                return Ok(Response::new(Box::pin(only)));
            }
        };
        let (to, from) = mpsc::channel(BETWEEN);
        let (session, stream, handle) = (Arc::clone(&opened.session), opened.stream, self.handle.clone());
        let reading = tokio::spawn(inward(handle.clone(), Arc::clone(&session), stream, frames));
        let stop = self.stop.clone();
        tokio::spawn(async move {
            outward(opened, to, stop).await;
            // Nothing more goes out: what still comes in is not waited for.
            reading.abort();
            handle.stream_closed(&session, stream).await;
        });
        let out = futures::stream::unfold(from, |mut from| async move { Some((from.recv().await?, from)) });
        Ok(Response::new(Box::pin(out)))
    }

    async fn heartbeat(
        &self,
        request: Request<v1::HeartbeatRequest>,
    ) -> Result<Response<v1::HeartbeatResponse>, Status> {
        let beat = Heartbeat::try_from(request.into_inner()).map_err(|error| status(Problem::from(error)))?;
        let healthy = beat.status.as_ref().map(crate::wire::status::WorkerStatus::is_healthy);
        let directive = match self.handle.alive(beat.session, healthy).await {
            Ok(()) => None,
            Err(gone) if gone.code == Code::Unauthenticated => {
                Some(Directive { kind: DirectiveKind::Reregister, reason: gone.detail, deadline_ms: 0 })
            }
            Err(error) => return Err(status(error)),
        };
        let lease_ms = if directive.is_none() { self.handle.options().lease_ms } else { 0 };
        Ok(Response::new(HeartbeatAnswer { epoch: self.epoch(), lease_ms, directive }.into()))
    }

    async fn get_worker_status(
        &self,
        request: Request<v1::GetWorkerStatusRequest>,
    ) -> Result<Response<v1::WorkerStatus>, Status> {
        let text = request.into_inner().worker_id;
        let id: WorkerId = text
            .parse()
            .map_err(|error: orlop_core::id::IdError| status(Problem::new(Code::InvalidSpec, error.to_string())))?;
        let snapshot = self.handle.snapshot();
        let Some(picture) = snapshot.workers.get(&id) else {
            return Err(status(Problem::new(Code::NotFound, format!("worker `{id}` is not known"))));
        };
        let said = picture.status.as_deref().cloned();
        let worker = said.unwrap_or_else(|| crate::wire::status::WorkerStatus {
            worker: id,
            state: picture.view.state,
            attempts: Vec::new(),
            allocated: crate::wire::status::Allocated::default(),
            measured: crate::wire::status::Measured::default(),
            health: Vec::new(),
            spool: crate::wire::status::SpoolStatus::default(),
            time: None,
        });
        let worker = crate::wire::status::WorkerStatus { state: picture.view.state, ..worker };
        Ok(Response::new(worker.into()))
    }

    async fn assign_job(&self, _: Request<v1::AssignJobRequest>) -> Result<Response<v1::JobAccepted>, Status> {
        let text = "this server places jobs by itself only; placing on a named worker is not offered";
        Err(status(Problem::new(Code::Precondition, text)))
    }
}
