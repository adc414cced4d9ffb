//! One session of an agent as the server holds it: what goes out after commits, and the stream it goes out on. Owns the
//! hand-over between the loop and the stream; numbers, resending and credit are the protocol's session machine.

use std::sync::Arc;
use std::sync::{Mutex, PoisonError};

use orlop_core::id::{Epoch, Incarnation, SessionId, WorkerId};
use orlop_scheduler::token::{AttemptRef, WorkerKey};
use tokio::sync::Notify;

use super::live::{ClientFields, Interned};
use crate::wire::attempt::{CancelJob, Mode};
use crate::wire::frame::{Directive, Hello, Judgement};

/// An attempt on its way out.
#[derive(Clone, Debug)]
pub struct Assignment {
    /// The attempt with its token.
    pub attempt: AttemptRef,
    /// What it is.
    pub spec: Arc<Interned>,
    /// What its client said.
    pub client: Option<Arc<ClientFields>>,
    /// When it starts.
    pub mode: Mode,
}

/// What one turn has for a worker.
#[derive(Clone, Debug, Default)]
pub struct Outgoing {
    /// The last frame of the agent that the turn took.
    pub ack: Option<u64>,
    /// Attempts to start.
    pub assign: Vec<Assignment>,
    /// Attempts to end.
    pub cancel: Vec<CancelJob>,
    /// Attempts not to start.
    pub revoke: Vec<AttemptRef>,
    /// What messages were worth, where the acknowledgement does not say it.
    pub verdicts: Vec<Judgement>,
    /// Specifications that the agent lacks.
    pub need_specs: Vec<u64>,
    /// A heartbeat was heard: the lease begins anew.
    pub lease: bool,
    /// What the agent is to do.
    pub directive: Option<Directive>,
    /// It is to shut down: nothing is left on it.
    pub shutdown: bool,
    /// Something is there.
    pub(super) touched: bool,
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
}

/// What waits to go out.
#[derive(Debug, Default)]
struct Waiting {
    frames: Vec<Outgoing>,
    closing: Option<Closing>,
}

/// A session.
#[derive(Debug)]
pub struct Session {
    facts: SessionFacts,
    lease_ms: u32,
    waiting: Mutex<Waiting>,
    ready: Notify,
}

impl Session {
    pub(super) fn new(facts: SessionFacts, lease_ms: u32) -> Self {
        Self { facts, lease_ms, waiting: Mutex::default(), ready: Notify::new() }
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

    /// How long a lease is, in milliseconds.
    #[must_use]
    pub fn lease_ms(&self) -> u32 {
        self.lease_ms
    }

    /// Hands over what a committed turn has for the agent.
    pub(super) fn send(&self, out: Outgoing) {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).frames.push(out);
        self.ready.notify_one();
    }

    /// Ends the stream once what waits has gone out.
    pub(super) fn close(&self, why: Closing) {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).closing.get_or_insert(why);
        self.ready.notify_one();
    }

    /// Waits for something to go out: what committed turns have, and whether the session ends after it.
    pub async fn outgoing(&self) -> (Vec<Outgoing>, Option<Closing>) {
        loop {
            {
                let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
                if !waiting.frames.is_empty() || waiting.closing.is_some() {
                    return (std::mem::take(&mut waiting.frames), waiting.closing);
                }
            }
            self.ready.notified().await;
        }
    }
}
