//! The life of an agent on the network: registers, opens streams, sends frames and heartbeats, waits and connects again, and
//! says goodbye.

mod ending;
mod pump;
mod report;
mod rest;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use orlop_core::id::SessionId;
use orlop_core::spec::job::Runtime;
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;

use super::backoff::Backoff;
use super::clock::now;
use super::frames::{self, Now, Outbox};
use super::gauges::Gauges;
use super::gpus::Gpu;
use super::link::{Link, LinkError, Stream};
use super::machine::capabilities;
use super::monitor::{Least, Monitor};
use super::options::AgentOptions;
use super::runtimes::Answers;
use super::shared::Shared;
use super::state::State;
use crate::wire::frame::{AttemptState, DirectiveKind, Hello, LiveAttempt, OutboxRange, WorkerFrame};
use crate::wire::worker::{ProtocolRange, Registration};

/// How long the server may take for its first frame.
const FIRST_FRAME: Duration = Duration::from_secs(10);

/// A session that is over sooner was none: the next one is asked for after a pause.
const SETTLED: Duration = Duration::from_secs(10);

/// What the agent is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Wish {
    /// Work.
    Work,
    /// Finish, then end.
    Drain,
    /// Cancel, then end.
    Cancel,
}

/// Why a stream is left.
#[derive(Debug)]
enum Left {
    /// It broke, or the server wants it so.
    Because(LinkError),
    /// The agent has ended.
    Done,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Session {
    options: AgentOptions,
    state: State,
    gpus: Vec<Gpu>,
    answers: Arc<Answers>,
    /// Runtimes the server knows of.
    offered: BTreeSet<Runtime>,
    shared: Arc<Shared>,
    link: Arc<dyn Link>,
    wish: watch::Receiver<Wish>,
    outbox: Outbox,
    session: Option<SessionId>,
    heartbeat: Duration,
    monitor: Monitor,
    gauges: Arc<Gauges>,
    /// When attempts are cancelled though they have not ended.
    deadline: Option<Instant>,
    /// When the agent ends though not all is reported.
    farewell: Option<Instant>,
    cancelled: bool,
    shut_down: bool,
    /// Asks after the runtimes, and looks at what is used.
    asking: tokio::task::AbortHandle,
}

impl Session {
    pub(super) fn new(
        options: AgentOptions,
        state: State,
        gpus: Vec<Gpu>,
        answers: Arc<Answers>,
        shared: Arc<Shared>,
        link: Arc<dyn Link>,
        wish: watch::Receiver<Wish>,
    ) -> Self {
        let least = Least { bytes: options.min_free, percent: options.min_free_percent };
        let monitor = Monitor::new(vec![options.state.join("work"), options.state.join("spool")], least);
        let gauges = Arc::new(Gauges::default());
        let asking = Arc::clone(&answers).keep_asking(Arc::clone(&shared));
        let reading = Arc::clone(&gauges).keep_reading(Arc::clone(&shared), gpus.clone());
        Self {
            options,
            state,
            gpus,
            answers,
            offered: BTreeSet::new(),
            shared,
            link,
            wish,
            outbox: Outbox::new(),
            session: None,
            heartbeat: Duration::from_secs(5),
            monitor,
            gauges,
            deadline: None,
            farewell: None,
            cancelled: false,
            shut_down: false,
            asking: tokio::spawn(async { tokio::join!(asking, reading) }).abort_handle(),
        }
    }

    /// Works until the agent is to end and has ended.
    pub(super) async fn run(mut self) {
        let mut backoff = Backoff::new(self.options.backoff);
        // Whether the session before was over at once too: then a new one is not asked for without a pause.
        let mut again = false;
        loop {
            let begun = Instant::now();
            let left = self.once().await;
            self.shared.lock().disconnected();
            let (error, asked) = match left {
                Left::Done => return,
                Left::Because(error) => {
                    let asked = if let LinkError::Later(_, wait) = &error { *wait } else { Duration::ZERO };
                    (error, asked)
                }
            };
            match &error {
                LinkError::SessionOver(_) => self.session = None,
                LinkError::Refused(_) | LinkError::ShutOut(_) => {
                    if matches!(error, LinkError::ShutOut(_)) {
                        self.end_all();
                    }
                    tracing::error!(worker = %self.state.worker, %error, "trying again will help when this is changed");
                    backoff.refused();
                    self.session = None;
                    self.link.rotate();
                }
                LinkError::Unreachable(_) | LinkError::Later(..) => {
                    tracing::warn!(worker = %self.state.worker, %error, "connecting again");
                    self.link.rotate();
                }
            }
            backoff.ended(begun.elapsed());
            let over = matches!(error, LinkError::SessionOver(_));
            let fresh = over && !again;
            again = over && begun.elapsed() < SETTLED;
            let wait = if fresh { asked } else { backoff.next(random(), asked) };
            let asked_to = matches!(error, LinkError::Later(..));
            if self.rest(wait, asked_to).await {
                return;
            }
        }
    }

    /// One stream from its beginning to its end.
    async fn once(&mut self) -> Left {
        let stream = match self.connect().await {
            Ok(stream) => stream,
            Err(error) => return Left::Because(error),
        };
        match self.pump(stream).await {
            Ok(()) => Left::Done,
            Err(error) => Left::Because(error),
        }
    }

    async fn connect(&mut self) -> Result<Stream, LinkError> {
        let (session, lease) = match self.session {
            Some(session) => (session, None),
            None => self.register().await.map(|(session, lease)| (session, Some(lease)))?,
        };
        let mut stream = self.link.open(self.hello(session)).await?;
        let first = timeout(FIRST_FRAME, stream.back.next()).await;
        let first = first.map_err(|_| LinkError::Unreachable("it did not answer the first frame".to_owned()))?;
        let mut frame = first.unwrap_or_else(|| Err(closed()))?;
        self.see(&frame)?;
        let Some(welcome) = frame.welcome.take() else {
            let directive = frame.directive.filter(|directive| directive.kind() == DirectiveKind::Reregister);
            return Err(match directive {
                Some(directive) => LinkError::SessionOver(directive.reason),
                None => LinkError::Unreachable("its first frame holds no welcome".to_owned()),
            });
        };
        let mut acts = Vec::new();
        {
            let mut core = self.shared.lock();
            let applied = frames::welcome(welcome, &mut core, &mut self.outbox, moment(), &mut acts);
            applied.and_then(|()| core.spool.flush()).map_err(spool_failed)?;
        }
        self.shared.perform(acts);
        if let Some((asked_at, lease_ms)) = lease {
            self.take_lease(asked_at, lease_ms);
        }
        self.apply(frame)?;
        tracing::info!(worker = %self.state.worker, "connected to the server");
        Ok(stream)
    }

    /// Registers. Gives the session, and the lease with the time from which it runs: it is good once the server has said what of
    /// that which is held still counts, for what does not may run elsewhere.
    async fn register(&mut self) -> Result<(SessionId, (Instant, u32)), LinkError> {
        let asked_at = Instant::now();
        let offered = self.answers.working();
        let kinds = offered.iter().copied().chain([Runtime::Noop]).map(scheduler_runtime).collect();
        let registration = Registration {
            worker: self.state.worker.clone(),
            join_token: self.options.join_token.clone(),
            csr: self.options.csr.clone(),
            protocol: ProtocolRange::OURS,
            features: BTreeSet::new(),
            capabilities: capabilities(&self.options.offer, &self.gpus, &kinds),
            agent_version: env!("CARGO_PKG_VERSION").to_owned(),
            boot_id: boot_id(),
            state_id: self.state.id.clone(),
            state_place: self.state.place.clone(),
        };
        let registered = self.link.register(registration).await?;
        if !self.state.see(registered.epoch).map_err(spool_failed)? {
            return Err(LinkError::Unreachable("it is older than one this agent has seen".to_owned()));
        }
        self.heartbeat = Duration::from_millis(u64::from(registered.heartbeat_ms.max(100)));
        self.session = Some(registered.session);
        self.offered = offered;
        self.outbox = Outbox::new();
        self.shared.lock().new_session();
        Ok((registered.session, (asked_at, registered.lease_ms)))
    }

    /// Takes a lease that runs from when it was asked for: what was held for want of one starts.
    fn take_lease(&self, asked_at: Instant, lease_ms: u32) {
        let mut acts = Vec::new();
        {
            let mut core = self.shared.lock();
            core.lease_granted(asked_at, lease_ms);
            core.renewed(Instant::now(), &mut acts);
        }
        self.renew_runtimes();
        self.shared.perform(acts);
    }

    fn hello(&self, session: SessionId) -> WorkerFrame {
        let mut core = self.shared.lock();
        core.beat(Instant::now());
        let live = core.held().into_iter().map(|held| {
            let state = if held.running { AttemptState::Running } else { AttemptState::Accepted };
            LiveAttempt::new(held.id, state, held.started_at)
        });
        // What ended while nobody heard of it is in no frame yet; the next one has it.
        let (first_seq, framed) = self.outbox.held();
        let count = framed + u64::from(core.spool.has_more().0);
        let hello = Hello {
            session_id: session.as_bytes().to_vec(),
            highest_epoch: self.state.epoch.0,
            last_server_seq: self.outbox.heard,
            live: live.collect(),
            outbox: Some(OutboxRange { first_seq, count }),
        };
        WorkerFrame { ack: self.outbox.heard, epoch: self.state.epoch.0, hello: Some(hello), ..WorkerFrame::default() }
    }

    async fn put(&self, out: &mpsc::Sender<WorkerFrame>, frame: WorkerFrame) -> Result<(), LinkError> {
        let frame = WorkerFrame { epoch: self.state.epoch.0, ..frame };
        out.send(frame).await.map_err(|_| closed())
    }
}

impl Drop for Session {
    /// The end of the agent: its threads end, its attempts are left as they are.
    fn drop(&mut self) {
        self.asking.abort();
        self.shared.set_runtimes(BTreeMap::new());
    }
}

fn moment() -> Now {
    Now { clock: Instant::now(), wall: now() }
}

fn closed() -> LinkError {
    LinkError::Unreachable("the stream is closed".to_owned())
}

fn spool_failed(error: std::io::Error) -> LinkError {
    LinkError::Unreachable(format!("its state cannot be stored: {error}"))
}

const fn scheduler_runtime(runtime: Runtime) -> orlop_scheduler::job::Runtime {
    match runtime {
        Runtime::Process => orlop_scheduler::job::Runtime::Process,
        Runtime::Docker => orlop_scheduler::job::Runtime::Docker,
        Runtime::Noop => orlop_scheduler::job::Runtime::Noop,
    }
}

/// The boot of this host; empty where it has no name.
fn boot_id() -> String {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    text.trim().to_owned()
}

/// A random number. Where the system has none, the bits of a fresh id are as good for spreading waits.
fn random() -> u32 {
    let id = uuid::Uuid::new_v4().as_u128();
    (id & u128::from(u32::MAX)) as u32
}
