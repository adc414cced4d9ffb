//! The server's side of a session. Never decides or commits anything.

use std::collections::VecDeque;
use std::sync::Arc;

use orlop_core::id::{Epoch, SessionId};
use orlop_core::task::TaskRef;

use super::super::attempt::{AssignJob, CancelJob, SECRET_MAX};
use super::super::bound::{FRAME_BYTES, FRAME_ENTRIES, LOG_CREDIT, SPECS};
use super::super::frame::{Directive, DirectiveKind, Hello, Judgement, ServerFrame, Spec, Welcome, WorkerFrame};
use super::{Arrival, Pace, SessionError, SpecCache, Window, arrive};

/// About the bytes of an entry without content of its own.
const SMALL: usize = 160;
/// Entries that may wait for frames.
const WAITING: usize = 262_144;

/// Something for an agent.
#[derive(Clone, Debug, PartialEq)]
pub enum Outgoing {
    /// Start an attempt; its specification is sent along where the agent does not have it.
    Assign(AssignJob, Arc<Spec>),
    /// End an attempt.
    Cancel(CancelJob),
    /// Do not start an attempt.
    Revoke(TaskRef),
    /// What a message was worth.
    Verdict(Judgement),
    /// A specification that was asked for again.
    Spec(Arc<Spec>),
    /// Something for the agent itself.
    Directive(Directive),
}

impl Outgoing {
    /// About its bytes in a frame, without the specification of an attempt.
    fn size(&self) -> usize {
        match self {
            Self::Assign(assign, _) => {
                // Values come only when the frame leaves; each may be as long as one can be.
                let secrets = assign.secrets.iter().map(|secret| SMALL + SECRET_MAX + secret.target.len());
                2 * SMALL + assign.traceparent.len() + assign.correlation_id.len() + secrets.sum::<usize>()
            }
            Self::Spec(spec) => SMALL + spec.json.len(),
            Self::Directive(directive) => SMALL + directive.reason.len(),
            _ => SMALL,
        }
    }
}

/// What a batch decided for one worker.
#[derive(Clone, Debug)]
struct Batch {
    /// The last frame of the agent that the batch had looked at.
    ack: u64,
    assigns: bool,
    entries: VecDeque<Outgoing>,
}

/// One registration of an agent, as its server sees it: frames to it and from it, over any number of streams.
#[derive(Clone, Debug)]
pub struct ServerSession {
    session: SessionId,
    epoch: Epoch,
    queue: VecDeque<Batch>,
    waiting: usize,
    window: Window<ServerFrame>,
    /// Specifications the agent has.
    known: SpecCache<()>,
    received: u64,
    committed: u64,
    ack_sent: u64,
    /// Log bytes received and allowed, since the session began, and what the agent knows of the latter.
    logged: u64,
    credit: u64,
    credit_sent: u64,
    /// Heartbeats without an answer.
    beats: u32,
    lease_ms: u32,
    retry_after_ms: u32,
    pace: Pace,
    open: bool,
}

impl ServerSession {
    /// A new session of a server in `epoch`, whose heartbeats renew a lease of `lease_ms`.
    #[must_use]
    pub fn new(session: SessionId, epoch: Epoch, lease_ms: u32) -> Self {
        Self {
            session,
            epoch,
            queue: VecDeque::new(),
            waiting: 0,
            window: Window::new(),
            known: SpecCache::new(SPECS),
            received: 0,
            committed: 0,
            ack_sent: 0,
            logged: 0,
            credit: LOG_CREDIT,
            credit_sent: LOG_CREDIT,
            beats: 0,
            lease_ms,
            retry_after_ms: 0,
            pace: Pace::default(),
            open: false,
        }
    }

    /// The session's id.
    #[must_use]
    pub fn session(&self) -> SessionId {
        self.session
    }

    /// The last frame received.
    #[must_use]
    pub fn received(&self) -> u64 {
        self.received
    }

    /// An agent opened a stream: the frame to answer with. A stream that was open before is over.
    ///
    /// # Errors
    /// The agent claims frames that were never sent to it.
    pub fn welcome(&mut self, hello: &Hello, mut welcome: Welcome) -> Result<ServerFrame, SessionError> {
        self.disconnected();
        self.window.reopen(hello.last_server_seq)?;
        welcome.last_worker_seq = self.received;
        self.open = true;
        self.ack_sent = self.committed;
        self.credit_sent = self.credit;
        Ok(ServerFrame {
            ack: self.committed,
            welcome: Some(welcome),
            log_credit: self.credit,
            lease_ms: self.lease_ms,
            ..ServerFrame::of(self.epoch)
        })
    }

    /// The answer to the hello of a session that is gone, by a server in `epoch`.
    #[must_use]
    pub fn reregister(epoch: Epoch, reason: impl Into<String>) -> ServerFrame {
        let directive = Directive { kind: DirectiveKind::Reregister.into(), reason: reason.into(), deadline_ms: 0 };
        ServerFrame { directive: Some(directive), ..ServerFrame::of(epoch) }
    }

    /// Attempts whose assignment the agent of this hello has not received: it cannot name them, and yet they are not lost.
    #[must_use]
    pub fn undelivered(&self, hello: &Hello) -> Vec<TaskRef> {
        let frames = self.window.iter().filter(|frame| frame.seq > hello.last_server_seq);
        let sent = frames.flat_map(|frame| frame.assign.iter().map(AssignJob::attempt));
        let waiting = self.queue.iter().flat_map(|batch| &batch.entries).filter_map(|entry| match entry {
            Outgoing::Assign(assign, _) => Some(assign.attempt()),
            _ => None,
        });
        sent.chain(waiting).collect()
    }

    /// The stream broke.
    pub fn disconnected(&mut self) {
        self.open = false;
        self.beats = 0;
        self.pace = Pace::default();
    }

    /// Whether a stream is open.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.open
    }

    /// A frame of the agent came, other than the first of a stream. Returned, it is to be applied in the order of its
    /// fields; none if it came before.
    ///
    /// # Errors
    /// The stream cannot go on.
    pub fn receive(&mut self, frame: WorkerFrame) -> Result<Option<WorkerFrame>, SessionError> {
        if !self.open || frame.hello.is_some() {
            return Err(SessionError::Opening);
        }
        if frame.seq == 0 && frame.entries() > 0 {
            return Err(SessionError::Unnumbered);
        }
        self.window.acknowledge(frame.ack)?;
        if arrive(&mut self.received, frame.seq)? == Arrival::Repeated {
            return Ok(None);
        }
        let logged = frame.log_bytes();
        self.logged += logged;
        if self.logged > self.credit {
            let error = SessionError::Credit { given: self.logged, credit: self.credit };
            self.forget(frame.seq, logged);
            return Err(error);
        }
        if frame.status.is_some() {
            self.beats += 1;
        }
        Ok(Some(frame))
    }

    /// A frame that was received last was lost here before anything was made of it, with so many bytes of logs that were
    /// not stored: it did not come, and is sent again on the next stream.
    pub fn forget(&mut self, seq: u64, logged: u64) {
        if seq > 0 && self.received == seq {
            self.received -= 1;
        }
        self.logged = self.logged.saturating_sub(logged);
    }

    /// The effects of frames up to `seq` are committed, and may be acknowledged.
    pub fn committed(&mut self, seq: u64) {
        self.committed = self.committed.max(seq.min(self.received));
    }

    /// Log bytes were stored or given up: so many more may be sent.
    pub fn stored(&mut self, bytes: u64) {
        self.credit = self.credit.saturating_add(bytes);
    }

    /// The server is full: the agent is to wait.
    pub fn slow_down(&mut self, retry_after_ms: u32) {
        self.retry_after_ms = retry_after_ms;
    }

    /// What a committed batch decided for this worker; `ack` is the last frame of the agent that the batch had looked at.
    ///
    /// # Errors
    /// The agent takes nothing, and too much is waiting: the session is to be given up.
    pub fn decided(&mut self, ack: u64, entries: Vec<Outgoing>) -> Result<(), SessionError> {
        self.committed(ack);
        if entries.is_empty() {
            return Ok(());
        }
        self.waiting += entries.len();
        if self.waiting > WAITING {
            return Err(SessionError::Full(WAITING));
        }
        let assigns = entries.iter().any(|entry| matches!(entry, Outgoing::Assign(..)));
        self.queue.push_back(Batch { ack, assigns, entries: entries.into() });
        Ok(())
    }

    /// Entries that wait for a frame.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    fn has_news(&self) -> bool {
        self.beats > 0
            || self.retry_after_ms > 0
            || self.ack_sent < self.committed
            || self.credit_sent < self.credit
            || (self.waiting > 0 && self.window.has_room())
    }

    /// When [`ServerSession::poll`] has something to send, if nothing else happens.
    #[must_use]
    pub fn due(&self, now: u64) -> Option<u64> {
        match self.window.has_unsent() {
            true => self.open.then_some(now),
            false => (self.open && self.has_news()).then(|| self.pace.due(now)),
        }
    }

    /// The frames to send now, in their order.
    #[must_use]
    pub fn poll(&mut self, now: u64) -> Vec<ServerFrame> {
        let mut frames = Vec::new();
        if !self.open {
            return frames;
        }
        // Frames of an earlier stream go first and at once.
        frames.extend(std::iter::from_fn(|| self.window.pop()));
        let full = self.waiting >= FRAME_ENTRIES;
        if !self.has_news() || (self.pace.due(now) > now && !full && frames.is_empty()) {
            return frames;
        }
        while self.waiting > 0 && self.window.has_room() {
            let (frame, size) = self.build();
            self.ack_sent = self.ack_sent.max(frame.ack);
            self.window.push(frame, size);
            frames.extend(self.window.pop());
        }
        self.plain(&mut frames);
        self.pace.sent(now);
        frames
    }

    /// Adds what goes without a number: one answer for each heartbeat, credit, acknowledgement, delay.
    fn plain(&mut self, frames: &mut Vec<ServerFrame>) {
        let answers = self.beats.max(u32::from(
            self.retry_after_ms > 0 || self.ack_sent < self.committed || self.credit_sent < self.credit,
        ));
        for _ in 0..answers {
            let lease_ms = if self.beats > 0 { self.lease_ms } else { 0 };
            self.beats = self.beats.saturating_sub(1);
            frames.push(ServerFrame {
                ack: self.committed,
                log_credit: self.credit,
                lease_ms,
                retry_after_ms: std::mem::take(&mut self.retry_after_ms),
                ..ServerFrame::of(self.epoch)
            });
            self.ack_sent = self.committed;
            self.credit_sent = self.credit;
        }
    }

    /// The next frame with a number. One with assignments acknowledges exactly what the batch that decided them had looked
    /// at, since by that the agent tells vacancies that are gone; so assignments of two batches share no frame.
    fn build(&mut self) -> (ServerFrame, usize) {
        let mut frame = ServerFrame { seq: self.window.next_seq(), ..ServerFrame::of(self.epoch) };
        let (mut used, mut assigning) = (0, None);
        while let Some(batch) = self.queue.front_mut() {
            if batch.assigns {
                if assigning.is_some_and(|ack| ack != batch.ack) {
                    break;
                }
                assigning = Some(batch.ack);
            }
            if assigning.is_none_or(|ack| ack == batch.ack) {
                frame.ack = frame.ack.max(batch.ack);
            }
            while let Some(entry) = batch.entries.front() {
                let mut size = entry.size();
                if let Outgoing::Assign(assign, spec) = entry
                    && self.known.get(assign.spec_id).is_none()
                {
                    size += SMALL + spec.json.len();
                }
                // An assignment can take two entries: itself and its specification.
                let full = frame.entries() + 2 > FRAME_ENTRIES || (used > 0 && used + size > FRAME_BYTES);
                // A frame has one directive, and is applied in the order of its fields.
                let second = matches!(entry, Outgoing::Directive(_)) && frame.directive.is_some();
                if full || second {
                    return (frame, used);
                }
                used += size;
                self.waiting -= 1;
                if let Some(entry) = batch.entries.pop_front() {
                    put(entry, &mut frame, &mut self.known);
                }
            }
            self.queue.pop_front();
        }
        (frame, used)
    }
}

/// Puts an entry into its field; a specification the agent lacks goes before the assignment that needs it.
fn put(entry: Outgoing, frame: &mut ServerFrame, known: &mut SpecCache<()>) {
    match entry {
        Outgoing::Assign(assign, spec) => {
            if known.get(assign.spec_id).is_none() {
                known.insert(assign.spec_id, ());
                frame.specs.push(Spec::clone(&spec));
            }
            frame.assign.push(assign);
        }
        Outgoing::Spec(spec) => {
            known.insert(spec.spec_id, ());
            frame.specs.push(Spec::clone(&spec));
        }
        Outgoing::Cancel(cancel) => frame.cancel.push(cancel),
        Outgoing::Revoke(attempt) => frame.revoke.push(attempt.into()),
        Outgoing::Verdict(verdict) => frame.verdicts.push(verdict),
        Outgoing::Directive(directive) => frame.directive = Some(directive),
    }
}
