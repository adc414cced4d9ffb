//! The agent's side of a session. Never starts, ends or stores anything.

use std::collections::VecDeque;

use orlop_core::id::{Epoch, SessionId};
use orlop_core::task::TaskRef;

use super::super::attempt::{JobAccepted, JobResult, JobStarted, LogChunk, Rejected};
use super::super::frame::{DirectiveKind, Goodbye, Hello, LiveAttempt, OutboxRange, ServerFrame, WorkerFrame};
use super::super::proto::v1;
use super::super::status::WorkerStatus;
use super::super::worker::{Limits, Registered};
use super::{Arrival, Lease, Pace, SessionError, Window, arrive};

/// About the bytes of an entry without content of its own.
const SMALL: usize = 160;

/// Entries in the order of their urgency.
#[derive(Clone, Debug, Default)]
struct Queue {
    results: VecDeque<JobResult>,
    started: VecDeque<JobStarted>,
    accepted: VecDeque<JobAccepted>,
    rejected: VecDeque<Rejected>,
    revoked: VecDeque<v1::TaskRef>,
    need_specs: VecDeque<u64>,
    logs: VecDeque<LogChunk>,
    goodbye: Option<Goodbye>,
}

impl Queue {
    fn entries(&self) -> usize {
        let reports = self.results.len() + self.started.len() + self.accepted.len() + self.rejected.len();
        reports + self.revoked.len() + self.need_specs.len() + self.logs.len()
    }

    fn is_empty(&self) -> bool {
        self.entries() == 0 && self.goodbye.is_none()
    }

    /// Puts entries back before all others, in the order of a frame.
    fn put_back(&mut self, frame: WorkerFrame) {
        fn before<T>(queue: &mut VecDeque<T>, list: Vec<T>) {
            list.into_iter().rev().for_each(|entry| queue.push_front(entry));
        }
        before(&mut self.results, frame.results);
        before(&mut self.started, frame.started);
        before(&mut self.accepted, frame.accepted);
        before(&mut self.rejected, frame.rejected);
        before(&mut self.revoked, frame.revoked);
        before(&mut self.logs, frame.logs);
        self.goodbye = frame.goodbye.or(self.goodbye.take());
    }
}

/// How much a frame still takes.
struct FrameBudget {
    entries: usize,
    bytes: usize,
    used: usize,
}

impl FrameBudget {
    /// Moves entries until the frame is full; false if some are left.
    fn fill<T>(&mut self, from: &mut VecDeque<T>, to: &mut Vec<T>, size: impl Fn(&T) -> usize) -> bool {
        while let Some(entry) = from.front() {
            let size = size(entry);
            // An entry of any size fits into an empty frame: its own bounds are below those of a message.
            if self.entries == 0 || (self.used > 0 && self.used + size > self.bytes) {
                return false;
            }
            self.entries -= 1;
            self.used += size;
            to.extend(from.pop_front());
        }
        true
    }
}

/// What came of a received frame.
#[derive(Clone, Debug, PartialEq)]
pub struct Receipt {
    /// The frame, to be applied in the order of its fields; none if it came before.
    pub frame: Option<ServerFrame>,
    /// Frames of the agent whose effects are committed now: the agent may release their content.
    pub committed: Vec<WorkerFrame>,
}

/// One registration of an agent: frames to the server and from it, over any number of streams.
#[derive(Clone, Debug)]
pub struct AgentSession {
    session: SessionId,
    epoch: Epoch,
    limits: Limits,
    queue: Queue,
    window: Window<WorkerFrame>,
    status: Option<WorkerStatus>,
    lease: Lease,
    /// Last frame received, last one journalled, last acknowledgement sent on this stream.
    received: u64,
    journalled: u64,
    ack_sent: u64,
    /// Bytes of logs that may be sent and that were taken, since the session began.
    credit: u64,
    logged: u64,
    pace: Pace,
    open: Open,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Open {
    No,
    /// Hello was sent.
    Hello,
    Yes,
}

impl AgentSession {
    /// The session of a registration that was sent at `sent`, from where its lease counts.
    #[must_use]
    pub fn new(registered: &Registered, sent: u64) -> Self {
        let mut lease = Lease::default();
        lease.granted(sent, registered.lease_ms);
        Self {
            session: registered.session,
            epoch: registered.epoch,
            limits: registered.limits,
            queue: Queue::default(),
            window: Window::new(),
            status: None,
            lease,
            received: 0,
            journalled: 0,
            ack_sent: 0,
            credit: registered.limits.log_credit,
            logged: 0,
            pace: Pace::default(),
            open: Open::No,
        }
    }

    /// The agent registered again: what the server does not have yet is sent once more, under the new numbers. Requests
    /// for specifications are not: who still needs them asks again.
    pub fn renew(&mut self, registered: &Registered, sent: u64) {
        let mut next = Self { queue: std::mem::take(&mut self.queue), ..Self::new(registered, sent) };
        next.queue.need_specs.clear();
        self.window.take().into_iter().rev().for_each(|frame| next.queue.put_back(frame));
        // Logs keep their batch, and wait for the credit of the new session as new ones do.
        next.logged = next.queue.logs.iter().map(|chunk| chunk.data.len() as u64).sum();
        *self = next;
    }

    /// The session's id.
    #[must_use]
    pub fn session(&self) -> SessionId {
        self.session
    }

    /// The highest epoch seen.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Begins a stream: the frame to send first.
    #[must_use]
    pub fn hello(&mut self, now: u64, live: Vec<LiveAttempt>) -> WorkerFrame {
        self.disconnected();
        self.open = Open::Hello;
        self.ack_sent = self.journalled;
        self.lease.beat(now);
        let hello = Hello {
            session_id: self.session.as_bytes().to_vec(),
            highest_epoch: self.epoch.0,
            last_server_seq: self.received,
            live,
            outbox: Some(OutboxRange { first_seq: self.window.first_seq(), count: self.window.len() as u64 }),
        };
        WorkerFrame { ack: self.journalled, epoch: self.epoch.0, hello: Some(hello), ..WorkerFrame::default() }
    }

    /// The stream broke.
    pub fn disconnected(&mut self) {
        self.open = Open::No;
        self.lease.broken();
        self.status = None;
        self.pace = Pace::default();
    }

    /// Whether hello was answered on the present stream.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.open == Open::Yes
    }

    /// A frame of the server came.
    ///
    /// # Errors
    /// The stream cannot go on.
    pub fn receive(&mut self, frame: ServerFrame) -> Result<Receipt, SessionError> {
        if frame.epoch < self.epoch.0 {
            return Err(SessionError::OldEpoch { given: frame.epoch, known: self.epoch.0 });
        }
        let gone = frame.directive.as_ref().is_some_and(|directive| directive.kind() == DirectiveKind::Reregister);
        if self.open == Open::Hello && frame.welcome.is_none() && gone {
            // The server does not know the session, nor anything of its frames.
            self.epoch = Epoch(frame.epoch);
            return Ok(Receipt { frame: Some(frame), committed: Vec::new() });
        }
        if frame.welcome.is_some() != (self.open == Open::Hello) || self.open == Open::No {
            return Err(SessionError::Opening);
        }
        if frame.seq == 0 && frame.entries() > 0 {
            return Err(SessionError::Unnumbered);
        }
        self.epoch = Epoch(frame.epoch);
        if let Some(welcome) = &frame.welcome {
            self.window.reopen(welcome.last_worker_seq)?;
            self.open = Open::Yes;
        }
        if frame.lease_ms > 0 {
            self.lease.answered(frame.lease_ms);
        }
        self.credit = self.credit.max(frame.log_credit);
        let arrival = arrive(&mut self.received, frame.seq)?;
        let committed = self.window.acknowledge(frame.ack)?;
        Ok(Receipt { frame: (arrival == Arrival::New).then_some(frame), committed })
    }

    /// Frames of the server up to `seq` are in the journal, and may be acknowledged.
    pub fn journalled(&mut self, seq: u64) {
        self.journalled = self.journalled.max(seq.min(self.received));
    }

    /// An attempt ended.
    pub fn ended(&mut self, result: JobResult) {
        self.queue.results.push_back(result);
    }

    /// An attempt started. Where it inherits, its predecessor's end goes first.
    pub fn started(&mut self, started: JobStarted) {
        self.queue.started.push_back(started);
    }

    /// An attempt was taken.
    pub fn accepted(&mut self, attempt: TaskRef) {
        self.queue.accepted.push_back(JobAccepted::new(attempt));
    }

    /// An attempt is not taken.
    pub fn rejected(&mut self, rejected: Rejected) {
        self.queue.rejected.push_back(rejected);
    }

    /// An attempt was taken back before it started.
    pub fn revoked(&mut self, attempt: TaskRef) {
        self.queue.revoked.push_back(attempt.into());
    }

    /// Specifications are missing.
    pub fn need_spec(&mut self, spec_id: u64) {
        if !self.queue.need_specs.contains(&spec_id) {
            self.queue.need_specs.push_back(spec_id);
        }
    }

    /// The agent leaves.
    pub fn goodbye(&mut self, reason: impl Into<String>) {
        self.queue.goodbye = Some(Goodbye { reason: reason.into() });
    }

    /// A heartbeat is due; a later one takes its place while it waits.
    pub fn heartbeat(&mut self, status: WorkerStatus) {
        self.status = self.is_open().then_some(status);
    }

    /// A piece of a log.
    ///
    /// # Errors
    /// There is no credit for it: it comes back, to be kept until there is.
    pub fn log(&mut self, chunk: LogChunk) -> Result<(), LogChunk> {
        let bytes = self.logged + chunk.data.len() as u64;
        if bytes > self.credit {
            return Err(chunk);
        }
        self.logged = bytes;
        self.queue.logs.push_back(chunk);
        Ok(())
    }

    /// Bytes of logs that would be taken now.
    #[must_use]
    pub fn log_room(&self) -> u64 {
        self.credit.saturating_sub(self.logged)
    }

    /// Entries that wait for a frame.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.queue.entries()
    }

    /// A heartbeat that was sent at `sent` beside the stream was answered.
    pub fn lease_granted(&mut self, sent: u64, lease_ms: u32) {
        self.lease.granted(sent, lease_ms);
    }

    /// Until when the lease holds. After that nothing is started, and attempts that must not overlap are ended.
    #[must_use]
    pub fn lease_until(&self) -> u64 {
        self.lease.until()
    }

    /// Whether attempts may be started.
    #[must_use]
    pub fn may_start(&self, now: u64) -> bool {
        now < self.lease.until()
    }

    fn has_news(&self) -> bool {
        self.status.is_some() || self.ack_sent < self.journalled || (!self.queue.is_empty() && self.window.has_room())
    }

    /// When [`AgentSession::poll`] has something to send, if nothing else happens.
    #[must_use]
    pub fn due(&self, now: u64) -> Option<u64> {
        match self.window.has_unsent() {
            true => self.is_open().then_some(now),
            false => (self.is_open() && self.has_news()).then(|| self.pace.due(now)),
        }
    }

    /// The frames to send now, in their order.
    #[must_use]
    pub fn poll(&mut self, now: u64) -> Vec<WorkerFrame> {
        let mut frames = Vec::new();
        if !self.is_open() {
            return frames;
        }
        // Frames of an earlier stream go first and at once.
        frames.extend(std::iter::from_fn(|| self.window.pop()));
        let full = self.queue.entries() >= self.limits.frame_entries as usize;
        if !self.has_news() || (self.pace.due(now) > now && !full && frames.is_empty()) {
            return frames;
        }
        while !self.queue.is_empty() && self.window.has_room() {
            let (frame, size) = self.build();
            self.window.push(frame, size);
            frames.extend(self.window.pop());
        }
        if self.status.is_some() || (frames.is_empty() && self.ack_sent < self.journalled) {
            if self.status.is_some() {
                self.lease.beat(now);
            }
            let (ack, epoch, status) = (self.journalled, self.epoch.0, self.status.take());
            frames.push(WorkerFrame { ack, epoch, status, ..WorkerFrame::default() });
        }
        self.ack_sent = self.journalled;
        self.pace.sent(now);
        frames
    }

    /// The next frame with a number: results, starts and acceptances before logs, each only after all before it.
    fn build(&mut self) -> (WorkerFrame, usize) {
        let (seq, ack, epoch) = (self.window.next_seq(), self.journalled, self.epoch.0);
        let mut frame = WorkerFrame { seq, ack, epoch, ..WorkerFrame::default() };
        let entries = (self.limits.frame_entries as usize).clamp(1, super::super::bound::FRAME_ENTRIES);
        let bytes = usize::try_from(self.limits.frame_bytes).unwrap_or(usize::MAX);
        let mut budget = FrameBudget { entries, bytes: bytes.min(super::super::bound::FRAME_BYTES), used: 0 };
        let queue = &mut self.queue;
        let all = budget.fill(&mut queue.results, &mut frame.results, JobResult::size)
            && budget.fill(&mut queue.started, &mut frame.started, |_| 2 * SMALL)
            && budget.fill(&mut queue.accepted, &mut frame.accepted, |_| SMALL)
            && budget.fill(&mut queue.rejected, &mut frame.rejected, |rejected| SMALL + rejected.reason.len())
            && budget.fill(&mut queue.revoked, &mut frame.revoked, |_| SMALL)
            && budget.fill(&mut queue.need_specs, &mut frame.need_specs, |_| 16)
            && budget.fill(&mut queue.logs, &mut frame.logs, LogChunk::size);
        if all {
            frame.goodbye = queue.goodbye.take();
        }
        (frame, budget.used)
    }
}
