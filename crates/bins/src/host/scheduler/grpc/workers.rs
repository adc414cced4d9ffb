//! The service of workers: registration, the stream of a session, heartbeats beside it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::super::Stop;
use super::secrets;
use futures::StreamExt as _;
use orlop_core::error::{Code, Problem};
use orlop_core::id::{Epoch, JobId, SessionId, WorkerId};
use orlop_core::task::TaskRef;
use ring::rand::SecureRandom;
use tokio::sync::mpsc;

use super::super::{Closing, Handle, Opened, Registration, Session, Status as ServerStatus, error};
use super::arrivals::Arrivals;
use super::join::Entrance;
use crate::api::auth::{Access, Scope};
use crate::wire::bound::OnWire as _;
use crate::wire::frame::{Directive, DirectiveKind, ServerFrame, WorkerFrame};
use crate::wire::grpc::{Caller, FramesIn, FramesOut, WorkerHost};
use crate::wire::session::ServerSession;
use crate::wire::status::{Allocated, Heartbeat, HeartbeatResponse, Measured, OutboxStatus, WorkerStatus};
use crate::wire::worker::{Limits, ProtocolRange, Registered, Registration as Asked};

/// Frames between the session and the transport.
const BETWEEN: usize = 16;

/// The service.
#[derive(Debug)]
pub(super) struct Workers {
    handle: Handle,
    entrance: Entrance,
    stop: Stop,
    arrivals: Arrivals,
    random: ring::rand::SystemRandom,
}

impl Workers {
    pub(super) fn new(handle: Handle, entrance: Entrance, stop: Stop) -> Self {
        Self { handle, entrance, stop, arrivals: Arrivals::default(), random: ring::rand::SystemRandom::new() }
    }

    fn session_id(&self) -> Result<SessionId, Problem> {
        let mut bytes = [0; 16];
        let drawn = self.random.fill(&mut bytes);
        drawn.map_err(|_| Problem::coded(Code::Internal, "the system provides no random numbers"))?;
        Ok(SessionId::from_bytes(bytes))
    }

    async fn registered(&self, caller: &Caller, request: Asked) -> Result<Registered, Problem> {
        let Some(protocol) = ProtocolRange::OURS.common(request.protocol) else {
            let (ours, theirs) = (ProtocolRange::OURS, request.protocol);
            let text = format!("this server uses protocol {ours}, the agent {theirs}; install a matching release");
            return Err(Problem::coded(Code::Precondition, text));
        };
        let admission = self.entrance.admit(caller, &request).await?;
        let (certificate, ca) = self.entrance.sign(&request.csr, &request.worker)?;
        let place = match request.state_place.as_str() {
            "" => String::new(),
            directory => format!("{} {directory}", request.boot_id),
        };
        let registration = Registration {
            worker: request.worker,
            state_id: request.state_id,
            place,
            capabilities: Arc::new(request.capabilities),
            agent_version: request.agent_version,
            session: self.session_id()?,
        };
        let session = self.handle.register(registration).await?;
        // Only now: whom the loop refuses has changed nothing.
        self.entrance.keep(admission, &certificate).await?;
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
            lease_ms: options.lease_ms(),
            limits: Limits::OURS,
            certificate,
            ca,
            status: None,
        })
    }

    fn epoch(&self) -> Epoch {
        match self.handle.status() {
            ServerStatus::Leading { epoch } => epoch,
            _ => Epoch(0),
        }
    }

    /// Opens the session's stream, or says that the session is over.
    async fn begin(&self, caller: Caller, first: WorkerFrame) -> Result<Result<Opened, ServerFrame>, Problem> {
        let hello = first.hello.ok_or_else(|| Problem::coded(Code::InvalidSpec, "the first frame is a hello"))?;
        match self.handle.open_stream(hello, caller.certificate).await {
            Ok(opened) => Ok(Ok(opened)),
            // The agent registers again and goes on.
            Err(gone) if gone.code == Code::Unauthenticated => {
                Ok(Err(ServerSession::reregister(self.epoch(), gone.message)))
            }
            Err(other) => Err(other),
        }
    }
}

/// Sends what the session has until the stream ends.
async fn outward(handle: Handle, opened: Opened, to: mpsc::Sender<Result<ServerFrame, Problem>>, stop: Stop) {
    let Opened { session, stream, welcome } = opened;
    let begun = Instant::now();
    let now = || u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX);
    if to.send(Ok(welcome)).await.is_err() {
        return;
    }
    loop {
        let poll = session.poll(stream, now());
        for mut frame in poll.frames {
            secrets::fill(&handle, &mut frame).await;
            if to.send(Ok(frame)).await.is_err() {
                return;
            }
        }
        if let Some(closing) = poll.closing {
            if let Some(last) = farewell(&session, closing) {
                // The agent has gone: it learns nothing.
                drop(to.send(Ok(last)).await);
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
    let directive = Directive { kind: kind.into(), reason: reason.to_owned(), deadline_ms: 0 };
    Some(ServerFrame { directive: Some(directive), ..ServerFrame::of(session.facts().epoch) })
}

/// Takes frames until the stream ends, then says so.
async fn inward(handle: Handle, session: Arc<Session>, stream: u64, mut frames: FramesIn) {
    let worker = session.facts().worker.clone();
    while let Some(frame) = frames.next().await {
        let frame = match frame {
            Ok(frame) => frame,
            Err(error) => {
                tracing::warn!(target: "orlop::scheduler", %worker, %error, "the stream of a worker broke");
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

#[async_trait::async_trait]
impl WorkerHost for Workers {
    async fn register(&self, caller: Caller, registration: Asked) -> Result<Registered, Problem> {
        self.arrivals.take(self.handle.clock().monotonic()).map_err(|wait| {
            let text = "too many workers register at once; try again after the given time";
            Problem::coded(Code::RateLimited, text).retry_after(Duration::from_millis(wait))
        })?;
        self.registered(&caller, registration).await
    }

    async fn stream(&self, caller: Caller, first: WorkerFrame, frames: FramesIn) -> Result<FramesOut, Problem> {
        let opened = match self.begin(caller, first).await? {
            Ok(opened) => opened,
            Err(reregister) => return Ok(futures::stream::once(async move { Ok(reregister) }).boxed()),
        };
        let (to, from) = mpsc::channel(BETWEEN);
        let (session, stream, handle) = (Arc::clone(&opened.session), opened.stream, self.handle.clone());
        let reading = tokio::spawn(inward(handle.clone(), Arc::clone(&session), stream, frames));
        let stop = self.stop.clone();
        tokio::spawn(async move {
            outward(handle.clone(), opened, to, stop).await;
            // Nothing more goes out: what still comes in is not waited for.
            reading.abort();
            handle.stream_closed(&session, stream).await;
        });
        Ok(futures::stream::unfold(from, |mut from| async move { Some((from.recv().await?, from)) }).boxed())
    }

    async fn heartbeat(&self, caller: Caller, beat: Heartbeat) -> Result<HeartbeatResponse, Problem> {
        let healthy = beat.status.as_ref().map(WorkerStatus::is_healthy);
        let directive = match self.handle.alive(beat.session(), healthy, caller.certificate).await {
            Ok(alive) if alive.given_up => {
                let reason = "it was silent for long; register again".to_owned();
                Some(Directive { kind: DirectiveKind::Reregister.into(), reason, deadline_ms: 0 })
            }
            Ok(_) => None,
            Err(gone) if gone.code == Code::Unauthenticated => {
                Some(Directive { kind: DirectiveKind::Reregister.into(), reason: gone.message, deadline_ms: 0 })
            }
            Err(other) => return Err(other),
        };
        let lease_ms = if directive.is_none() { self.handle.options().lease_ms() } else { 0 };
        Ok(HeartbeatResponse { epoch: self.epoch().0, lease_ms, directive })
    }

    async fn worker_status(&self, caller: Caller, worker: WorkerId) -> Result<WorkerStatus, Problem> {
        let who = super::jobs::admitted(&caller)?;
        let snapshot = self.handle.leader_snapshot()?;
        let Some(seen) = snapshot.workers.get(&worker).filter(|seen| who.may(Access::See, &seen.whose())) else {
            return Err(error::not_found(format_args!("worker `{worker}`")));
        };
        let said = seen.status.as_deref().cloned();
        let said = said.unwrap_or_else(|| WorkerStatus {
            worker_id: worker.into(),
            allocated: Some(Allocated::default()),
            measured: Some(Measured::default()),
            outbox: Some(OutboxStatus::default()),
            ..WorkerStatus::default()
        });
        let reported = WorkerStatus { state: seen.view.state.number(), ..said };
        // Whose attempts they are is not known here: who does not see everybody's sees none.
        let all = who.scope == Scope::All;
        Ok(if all { reported } else { WorkerStatus { refs: Vec::new(), in_use: Vec::new(), ..reported } })
    }

    async fn place(&self, caller: Caller, worker: WorkerId, job: JobId) -> Result<TaskRef, Problem> {
        let who = super::jobs::admitted(&caller)?;
        let row = self.handle.job(job).await?;
        if !caller.sees(&row.job.tenant) {
            return Err(error::not_found(format_args!("job {job}")));
        }
        // A job of the caller's may be put on a worker that others share; anyone who sees them all may name one that has just come.
        if who.scope != Scope::All {
            let snapshot = self.handle.leader_snapshot()?;
            let seen = snapshot.workers.get(&worker).filter(|seen| who.may(Access::See, &seen.whose()));
            seen.ok_or_else(|| error::not_found(format_args!("worker `{worker}`")))?;
        }
        self.handle.place(worker, job).await
    }
}
