//! An agent that does what a test says.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use orlop_core::error::Problem;
use orlop_core::id::SessionId;
use orlop_core::machine::worker::WorkerState;
use orlop_core::ports::fleet_store::{Documents as _, Worker};
use orlop_core::task::{TaskEnd, TaskRef};
use orlop_scheduler::event::Capabilities;
use orlop_scheduler::job::Runtime;

use super::super::{Closing, Handle, Registration, Session};
use super::fixture::until;
use crate::wire::attempt::{CancelJob, JobResult, JobStarted, Process};
use crate::wire::frame::{AttemptState, Hello, LiveAttempt, OutboxRange, ServerFrame, Welcome, WorkerFrame};
use crate::wire::status::WorkerStatus;

/// A worker's agent.
pub(super) struct Agent {
    handle: Handle,
    registration: Registration,
    pub(super) session: Arc<Session>,
    pub(super) stream: u64,
    /// Number of the last frame.
    pub(super) seq: u64,
    /// The last frame that was acknowledged.
    pub(super) acked: u64,
    /// Frames that were not acknowledged, by number.
    pub(super) spool: BTreeMap<u64, WorkerFrame>,
    /// What it holds.
    pub(super) live: BTreeMap<TaskRef, AttemptState>,
    /// What it was asked to end.
    pub(super) told_to_end: BTreeSet<TaskRef>,
    pub(super) closed: Option<Closing>,
    /// The last numbered frame it received.
    heard: u64,
    begun: Instant,
    pub(super) received: Vec<ServerFrame>,
}

pub(super) fn offer(slots: u32) -> Capabilities {
    Capabilities {
        cpu_m: u64::from(slots) * 1000,
        memory_bytes: 8 << 30,
        max_jobs: slots,
        runtimes: [Runtime::Process, Runtime::Noop].into(),
        ..Capabilities::default()
    }
}

fn fresh_session() -> SessionId {
    SessionId::from_bytes(*uuid::Uuid::new_v4().as_bytes())
}

fn asking(id: &str, state_id: &str, capabilities: Capabilities) -> Registration {
    Registration {
        worker: id.parse().unwrap(),
        state_id: state_id.to_owned(),
        place: String::new(),
        capabilities: Arc::new(capabilities),
        agent_version: "test".to_owned(),
        session: fresh_session(),
    }
}

impl Agent {
    /// An agent that has registered and opened its stream.
    pub(super) async fn join(handle: &Handle, id: &str, slots: u32) -> Self {
        Self::join_from(handle, id, "state-1", slots).await.unwrap()
    }

    pub(super) async fn join_from(handle: &Handle, id: &str, state_id: &str, slots: u32) -> Result<Self, Problem> {
        Self::offering(handle, id, state_id, offer(slots)).await
    }

    /// An agent whose state directory is at a place of its host.
    pub(super) async fn join_at(handle: &Handle, id: &str, place: &str) -> Result<Self, Problem> {
        Self::begin(handle, Registration { place: place.to_owned(), ..asking(id, "state-1", offer(1)) }).await
    }

    /// An agent of a machine that is as `capabilities` say.
    pub(super) async fn offering(
        handle: &Handle,
        id: &str,
        state_id: &str,
        capabilities: Capabilities,
    ) -> Result<Self, Problem> {
        Self::begin(handle, asking(id, state_id, capabilities)).await
    }

    async fn begin(handle: &Handle, registration: Registration) -> Result<Self, Problem> {
        let session = handle.register(registration.clone()).await?;
        let mut agent = Self {
            handle: handle.clone(),
            registration,
            session,
            stream: 0,
            seq: 0,
            acked: 0,
            spool: BTreeMap::new(),
            live: BTreeMap::new(),
            told_to_end: BTreeSet::new(),
            closed: None,
            heard: 0,
            begun: Instant::now(),
            received: Vec::new(),
        };
        agent.open(0).await?;
        Ok(agent)
    }

    /// Registers again, with what it holds, opens its stream, and sends what it has spooled under new numbers.
    pub(super) async fn rejoin(&mut self, handle: &Handle) -> Result<Welcome, Problem> {
        self.handle = handle.clone();
        self.registration.session = fresh_session();
        self.session = handle.register(self.registration.clone()).await?;
        (self.seq, self.acked, self.heard, self.closed) = (0, 0, 0, None);
        let spool = std::mem::take(&mut self.spool);
        let welcome = match self.open(spool.len() as u64).await {
            Ok(welcome) => welcome,
            Err(error) => {
                self.spool = spool;
                return Err(error);
            }
        };
        for frame in spool.into_values() {
            self.send(frame).await;
        }
        Ok(welcome)
    }

    /// Opens the stream of its session.
    pub(super) async fn open(&mut self, spooled: u64) -> Result<Welcome, Problem> {
        let live = self.live.iter().map(|(&attempt, &state)| LiveAttempt::new(attempt, state, None));
        let hello = Hello {
            session_id: self.session.id().as_bytes().to_vec(),
            highest_epoch: self.session.facts().epoch.0,
            last_server_seq: self.heard,
            live: live.collect(),
            outbox: Some(OutboxRange { first_seq: self.seq + 1, count: spooled }),
        };
        let opened = self.handle.open_stream(hello, None).await?;
        self.stream = opened.stream;
        self.acked = opened.welcome.ack;
        let welcome = opened.welcome.welcome.unwrap();
        for attempt in welcome.kill.iter().chain(&welcome.settled) {
            self.live.remove(&TaskRef::from(*attempt));
        }
        Ok(welcome)
    }

    /// Takes what the server has sent, waiting for it. Gives what is to be started.
    pub(super) async fn listen(&mut self) -> Vec<TaskRef> {
        let frames = tokio::time::timeout(super::fixture::SOON, self.frames()).await.unwrap();
        let mut assigned = Vec::new();
        for frame in frames {
            self.acked = self.acked.max(frame.ack);
            self.heard = self.heard.max(frame.seq);
            self.spool = self.spool.split_off(&(self.acked + 1));
            self.told_to_end.extend(frame.cancel.iter().map(CancelJob::attempt));
            for assign in &frame.assign {
                self.live.insert(assign.attempt(), AttemptState::Accepted);
                assigned.push(assign.attempt());
            }
            self.received.push(frame);
        }
        assigned
    }

    /// The next frames, or none where the stream ends.
    async fn frames(&mut self) -> Vec<ServerFrame> {
        loop {
            let now = || u64::try_from(self.begun.elapsed().as_micros()).unwrap();
            let poll = self.session.poll(self.stream, now());
            self.closed = self.closed.or(poll.closing);
            if !poll.frames.is_empty() || self.closed.is_some() {
                return poll.frames;
            }
            let wait = poll.due.map_or(Duration::MAX, |due| Duration::from_micros(due.saturating_sub(now())));
            tokio::select! {
                () = self.session.ready() => {}
                () = tokio::time::sleep(wait.min(super::fixture::SOON)) => {}
            }
        }
    }

    /// Listens until it was given `count` attempts.
    pub(super) async fn given(&mut self, count: usize) -> Vec<TaskRef> {
        let mut given = Vec::new();
        while given.len() < count {
            given.extend(self.listen().await);
        }
        given
    }

    /// Sends a frame that is to be acknowledged.
    pub(super) async fn send(&mut self, frame: WorkerFrame) {
        self.seq += 1;
        let (seq, ack, epoch) = (self.seq, self.heard, self.session.facts().epoch.0);
        let frame = WorkerFrame { seq, ack, epoch, ..frame };
        self.spool.insert(self.seq, frame.clone());
        // A stream that is over is seen when listening.
        drop(self.handle.frame(&self.session, self.stream, frame).await);
    }

    /// Sends a frame whose stream ends while it is handed over, opens the next stream and sends what the server has not
    /// received. Gives how far the server said it was, and the number of the frame.
    pub(super) async fn send_and_break(&mut self, frame: WorkerFrame) -> (u64, u64) {
        self.seq += 1;
        let (seq, ack, epoch) = (self.seq, self.heard, self.session.facts().epoch.0);
        let frame = WorkerFrame { seq, ack, epoch, ..frame };
        self.spool.insert(seq, frame.clone());
        {
            let handing = std::pin::pin!(self.handle.frame(&self.session, self.stream, frame));
            assert!(futures::future::poll_immediate(handing).await.is_none(), "the frame is on its way");
        }
        self.handle.stream_closed(&self.session, self.stream).await;
        let welcome = self.open(1).await.unwrap();
        for (_, frame) in self.spool.range(welcome.last_worker_seq + 1..) {
            self.handle.frame(&self.session, self.stream, frame.clone()).await.unwrap();
        }
        (welcome.last_worker_seq, seq)
    }

    pub(super) async fn start(&mut self, attempt: TaskRef) {
        self.live.insert(attempt, AttemptState::Running);
        let started = JobStarted::new(attempt, Some(Process::Pid(1)), None);
        self.send(WorkerFrame { started: vec![started], ..WorkerFrame::default() }).await;
    }

    /// The frame that tells the ends of attempts.
    pub(super) fn result_frame(&self, attempts: &[TaskRef], ending: TaskEnd) -> WorkerFrame {
        let results = attempts.iter().map(|attempt| {
            let exit_code = (ending == TaskEnd::Succeeded).then_some(0);
            JobResult { exit_code, ..JobResult::new(*attempt, ending) }
        });
        WorkerFrame { results: results.collect(), ..WorkerFrame::default() }
    }

    /// A heartbeat.
    pub(super) async fn beat(&mut self) {
        let alive = self.handle.alive(self.session.id(), None, None).await;
        assert!(alive.is_ok(), "{alive:?}");
    }

    /// Whether the server takes what it has for lost.
    pub(super) async fn is_given_up(&self) -> bool {
        self.handle.alive(self.session.id(), None, None).await.unwrap().given_up
    }

    /// A heartbeat over the stream, with what it says of itself.
    pub(super) async fn report(&self, status: WorkerStatus) {
        let epoch = self.session.facts().epoch.0;
        let frame = WorkerFrame { ack: self.heard, epoch, status: Some(status), ..WorkerFrame::default() };
        self.handle.frame(&self.session, self.stream, frame).await.unwrap();
    }

    /// Ends attempts.
    pub(super) async fn end(&mut self, attempts: &[TaskRef], ending: TaskEnd) {
        let frame = self.result_frame(attempts, ending);
        self.live.retain(|attempt, _| !attempts.contains(attempt));
        self.send(frame).await;
    }

    /// Listens until all its frames are acknowledged.
    pub(super) async fn all_acknowledged(&mut self) {
        while self.acked < self.seq {
            self.listen().await;
        }
    }

    /// Its stream breaks.
    pub(super) async fn hang_up(&self) {
        self.handle.stream_closed(&self.session, self.stream).await;
    }

    /// Ends everything it is given with success until it has ended `count` attempts.
    pub(super) async fn work(&mut self, count: usize) {
        let mut done = 0;
        while done < count {
            let given = self.listen().await;
            if !given.is_empty() {
                done += given.len();
                self.end(&given, TaskEnd::Succeeded).await;
            }
        }
        self.all_acknowledged().await;
    }

    /// As [`Agent::work`], without keeping what it has sent or heard: for many attempts.
    pub(super) async fn run_through(&mut self, count: usize) {
        let mut done = 0;
        while done < count {
            let given = self.listen().await;
            self.received.clear();
            done += given.len();
            for some in given.chunks(1000) {
                let frame = self.result_frame(some, TaskEnd::Succeeded);
                self.send(frame).await;
            }
            self.live.clear();
        }
        while self.acked < self.seq {
            self.listen().await;
        }
    }

    /// Waits until it is stored in a state.
    pub(super) async fn stored(&self, state: WorkerState) {
        let id = self.registration.worker.clone();
        let key = Worker::key_of(&id, self.session.facts().incarnation);
        let store = Arc::clone(self.handle.store());
        until(&format!("{id} {state}"), async || {
            let worker: Worker = store.get(&key).await.unwrap()?;
            (worker.state == state).then_some(())
        })
        .await;
    }
}
