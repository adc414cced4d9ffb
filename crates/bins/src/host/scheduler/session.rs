//! One session of an agent as the server holds it: what goes out after commits, and the stream it goes out on.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use orlop_core::hardware::gpu::GpuShape;
use orlop_core::id::{Epoch, Incarnation, SessionId, WorkerId};
use orlop_core::spec::job::SecretRef;
use orlop_core::task::{StartMode, TaskRef};
use orlop_scheduler::token::WorkerKey;
use tokio::sync::Notify;

use super::live::ClientFields;
use super::spec::Interned;
use crate::wire::attempt::{AssignJob, CancelJob, SecretValue};
use crate::wire::bound::OnWire as _;
use crate::wire::frame::{Directive, Hello, Judgement, ServerFrame, Welcome, WorkerFrame};
use crate::wire::identity::PeerCertificate;
use crate::wire::session::{Outgoing, ServerSession, SessionError};

/// An attempt on its way out.
#[derive(Clone, Debug)]
pub(super) struct Assignment {
    /// The attempt with its token.
    pub(super) attempt: TaskRef,
    /// What it is.
    pub(super) spec: Arc<Interned>,
    /// What its client said.
    pub(super) client: Option<Arc<ClientFields>>,
    /// The trace context of this attempt, where that is not its client's.
    pub(super) traceparent: Option<String>,
    /// When it starts.
    pub(super) mode: StartMode,
    /// The kind of GPU that it holds, if it asks for any.
    pub(super) gpu: Option<Box<GpuShape>>,
}

impl Assignment {
    fn entry(self) -> Outgoing {
        let mut assign = AssignJob::new(self.attempt, self.spec.number, self.mode);
        let asks = self.spec.demand();
        (assign.timeout_ms, assign.grace_ms) = (asks.timeout_ms, asks.grace_ms);
        if let Some(client) = &self.client {
            assign.traceparent = client.traceparent.as_deref().unwrap_or_default().to_owned();
            assign.correlation_id = client.correlation_id.as_deref().unwrap_or_default().to_owned();
        }
        if let Some(traceparent) = self.traceparent {
            assign.traceparent = traceparent;
        }
        assign.gpu = self.gpu.map(|gpu| (*gpu).into());
        let ready = self.spec.outgoing();
        assign.secrets = ready.secrets.iter().map(named).collect();
        Outgoing::Assign(assign, Arc::clone(&ready.message))
    }
}

/// A secret without its value, which it gets when it leaves.
fn named(secret: &SecretRef) -> SecretValue {
    let (name, target) = (secret.name.clone(), secret.target.clone());
    SecretValue { name, r#as: secret.given_as.number(), target, ..SecretValue::default() }
}

/// What one batch has for a worker, as the loop collects it.
#[derive(Clone, Debug, Default)]
pub(super) struct Batch {
    /// The last frame of the agent that the batch had looked at.
    pub(super) ack: u64,
    /// Attempts to start.
    pub(super) assign: Vec<Assignment>,
    /// Attempts to end.
    pub(super) cancel: Vec<CancelJob>,
    /// Attempts not to start.
    pub(super) revoke: Vec<TaskRef>,
    /// What messages were worth, where the acknowledgement does not say it.
    pub(super) verdicts: Vec<Judgement>,
    /// Specifications that the agent asked for again.
    pub(super) specs: Vec<Arc<Interned>>,
    /// What the agent is to do.
    pub(super) directive: Option<Directive>,
    /// Something is there.
    pub(super) touched: bool,
}

impl Batch {
    fn entries(self) -> Vec<Outgoing> {
        let specs = self.specs.iter().map(|spec| Outgoing::Spec(Arc::clone(&spec.outgoing().message)));
        let mut entries: Vec<Outgoing> = specs.collect();
        entries.reserve(self.assign.len() + self.cancel.len() + self.revoke.len() + self.verdicts.len() + 1);
        entries.extend(self.assign.into_iter().map(Assignment::entry));
        entries.extend(self.cancel.into_iter().map(Outgoing::Cancel));
        entries.extend(self.revoke.into_iter().map(Outgoing::Revoke));
        entries.extend(self.verdicts.into_iter().map(Outgoing::Verdict));
        entries.extend(self.directive.map(Outgoing::Directive));
        entries
    }
}

/// Why a session or its stream ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closing {
    /// The agent said goodbye.
    Goodbye,
    /// The worker has left for good.
    Gone,
    /// The worker registered again.
    Replaced,
    /// Another stream of the session has opened.
    Superseded,
    /// The agent takes nothing of what waits for it.
    Stalled,
    /// The server does not act any more.
    Stopped,
}

/// Who a session is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionFacts {
    /// Its id.
    pub id: SessionId,
    /// The worker.
    pub worker: WorkerId,
    /// The worker's incarnation.
    pub incarnation: Incarnation,
    /// The worker in the core.
    pub key: WorkerKey,
    /// The epoch in which it was given.
    pub epoch: Epoch,
}

/// A stream that opens.
#[derive(Clone, Debug)]
pub(super) struct Opening {
    /// Number of the stream, unique in this server.
    pub(super) stream: u64,
    /// What the agent says.
    pub(super) hello: Hello,
    /// The certificate that was shown; none over plain text on this machine.
    pub(super) certificate: Option<PeerCertificate>,
}

/// A stream that is open.
#[derive(Clone, Debug)]
pub struct Opened {
    /// Its session.
    pub session: Arc<Session>,
    /// Its number.
    pub stream: u64,
    /// The frame it begins with.
    pub welcome: ServerFrame,
}

/// Attempts with logs that a session remembers.
const REMEMBERED: usize = 4096;

/// What both ends of a session share.
#[derive(Debug)]
struct Inner {
    machine: ServerSession,
    /// The stream that is up, or was last.
    stream: u64,
    closing: Option<Closing>,
    /// A frame whose acknowledgement is timed: its number and when it was sent.
    timed: Option<(u64, Instant)>,
    /// How long the last one took, in microseconds, until the loop asks.
    round_trip: Option<u64>,
    /// Attempts with logs, and whether they are this worker's.
    own: BTreeMap<TaskRef, bool>,
}

/// A session.
#[derive(Debug)]
pub struct Session {
    facts: SessionFacts,
    inner: Mutex<Inner>,
    ready: Notify,
    /// Held while a frame is handed over: the frames of a stream and of the one after it reach the loop in their order.
    turn: tokio::sync::Mutex<()>,
}

/// A frame on its way to the loop. Dropped before it is there, it counts as not received: the agent keeps it, and sends it
/// again on its next stream.
#[derive(Debug)]
pub(super) struct InHand<'s> {
    session: &'s Session,
    seq: u64,
    logged: u64,
    _turn: tokio::sync::MutexGuard<'s, ()>,
}

impl InHand<'_> {
    /// It is with the loop, and its logs were stored or given up: so many more may be sent.
    pub(super) fn over(mut self) {
        if self.logged > 0 {
            self.session.stored(self.logged);
        }
        (self.seq, self.logged) = (0, 0);
    }
}

impl Drop for InHand<'_> {
    fn drop(&mut self) {
        if (self.seq, self.logged) != (0, 0) {
            self.session.inner().machine.forget(self.seq, self.logged);
        }
    }
}

/// What a stream does next.
#[derive(Clone, Debug, Default)]
pub struct Poll {
    /// The frames to send now, in their order.
    pub frames: Vec<ServerFrame>,
    /// When there is more, if nothing else happens: microseconds as those that were given.
    pub due: Option<u64>,
    /// The stream ends after these frames.
    pub closing: Option<Closing>,
}

impl Session {
    pub(super) fn new(facts: SessionFacts, lease_ms: u32) -> Self {
        let machine = ServerSession::new(facts.id, facts.epoch, lease_ms);
        let inner = Inner { machine, stream: 0, closing: None, timed: None, round_trip: None, own: BTreeMap::new() };
        Self { facts, inner: Mutex::new(inner), ready: Notify::new(), turn: tokio::sync::Mutex::default() }
    }

    /// Its id.
    #[must_use]
    pub fn id(&self) -> SessionId {
        self.facts.id
    }

    /// Who it is about.
    #[must_use]
    pub fn facts(&self) -> &SessionFacts {
        &self.facts
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands over what a committed batch has for the agent.
    pub(super) fn send(&self, batch: Batch) {
        // A specification that travels for the first time is written here, before anybody waits for the session.
        let (ack, entries) = (batch.ack, batch.entries());
        let mut inner = self.inner();
        if let Err(error) = inner.machine.decided(ack, entries) {
            let worker = &self.facts.worker;
            tracing::warn!(target: "orlop::scheduler", %worker, %error, "a session is closed");
            inner.closing.get_or_insert(Closing::Stalled);
        }
        drop(inner);
        self.ready.notify_one();
    }

    /// Ends the session once what waits has gone out.
    pub(super) fn close(&self, why: Closing) {
        self.inner().closing.get_or_insert(why);
        self.ready.notify_one();
    }

    /// Attempts that the agent of a hello cannot know: their assignments are still on their way.
    pub(super) fn undelivered(&self, hello: &Hello) -> Vec<TaskRef> {
        self.inner().machine.undelivered(hello)
    }

    /// A stream opens: the frame it begins with. The stream before it is over.
    pub(super) fn welcome(&self, stream: u64, hello: &Hello, welcome: Welcome) -> Result<ServerFrame, SessionError> {
        let mut inner = self.inner();
        (inner.stream, inner.timed) = (stream, None);
        let frame = inner.machine.welcome(hello, welcome)?;
        drop(inner);
        self.ready.notify_one();
        Ok(frame)
    }

    /// A frame came on a stream. Returned, it is to be applied; none if it came before, or the stream is over.
    pub(super) async fn receive(
        &self,
        stream: u64,
        frame: WorkerFrame,
    ) -> Result<Option<(WorkerFrame, InHand<'_>)>, SessionError> {
        let turn = self.turn.lock().await;
        let mut inner = self.inner();
        if inner.stream != stream {
            return Ok(None);
        }
        if let Some((_, sent)) = inner.timed.take_if(|(seq, _)| *seq <= frame.ack) {
            inner.round_trip = Some(u64::try_from(sent.elapsed().as_micros()).unwrap_or(u64::MAX));
        }
        let received = inner.machine.receive(frame)?;
        drop(inner);
        self.ready.notify_one();
        Ok(received.map(|frame| {
            let hand = InHand { session: self, seq: frame.seq, logged: frame.log_bytes(), _turn: turn };
            (frame, hand)
        }))
    }

    /// How long a message took to the agent and back, in microseconds, if that was measured since the last call.
    pub(super) fn take_round_trip(&self) -> Option<u64> {
        self.inner().round_trip.take()
    }

    /// Whether an attempt is this worker's, if that was asked lately.
    pub(super) fn owns(&self, attempt: TaskRef) -> Option<bool> {
        self.inner().own.get(&attempt).copied()
    }

    /// Remembers whether an attempt is this worker's.
    pub(super) fn remember(&self, attempt: TaskRef, own: bool) {
        let mut inner = self.inner();
        if inner.own.len() >= REMEMBERED {
            inner.own.pop_first();
        }
        inner.own.insert(attempt, own);
    }

    /// Bytes of logs were stored or given up.
    fn stored(&self, bytes: u64) {
        self.inner().machine.stored(bytes);
        self.ready.notify_one();
    }

    /// Ends a stream on which nothing was heard for too long, if it is still the one that is up: the agent opens another,
    /// and tells what it has.
    pub(super) fn hang_up(&self, stream: u64) {
        let mut inner = self.inner();
        if inner.stream == stream {
            // Streams are numbered from 1.
            inner.stream = 0;
            inner.machine.disconnected();
        }
        drop(inner);
        self.ready.notify_one();
    }

    /// What a stream is to send at `now`, in microseconds of a monotonic clock.
    #[must_use]
    pub fn poll(&self, stream: u64, now: u64) -> Poll {
        let mut inner = self.inner();
        if inner.stream != stream {
            return Poll { closing: Some(Closing::Superseded), ..Poll::default() };
        }
        let frames = inner.machine.poll(now);
        // One frame at a time is timed, and only one that the agent answers: acknowledgements alone may be late.
        if inner.timed.is_none()
            && let Some(frame) = frames.iter().find(|frame| frame.seq > 0 && !frame.assign.is_empty())
        {
            inner.timed = Some((frame.seq, Instant::now()));
        }
        // What ends leaves only when nothing waits any more.
        let due = inner.machine.due(now);
        let closing = inner.closing.filter(|why| *why != Closing::Gone || due.is_none());
        Poll { frames, due, closing }
    }

    /// Something may be there to send.
    pub async fn ready(&self) {
        self.ready.notified().await;
    }
}
