//! The life of an agent on the network: registers, opens streams, sends frames and heartbeats, waits and connects again,
//! and says goodbye. Owns when; what frames hold and lead to is decided in [`super::outbox`] and [`super::inbox`].

mod ending;
mod report;
mod rest;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use orlop_core::id::SessionId;
use orlop_core::spec::job::Runtime;
use tokio::sync::watch;
use tokio::time::{sleep, sleep_until, timeout};

use super::backoff::Backoff;
use super::clock::now;
use super::gauges::Gauges;
use super::gpus::Gpu;
use super::inbox::{self, Now};
use super::link::{Link, LinkError, Stream};
use super::machine::capabilities;
use super::monitor::Monitor;
use super::options::AgentOptions;
use super::outbox::Outbox;
use super::runtimes::Answers;
use super::shared::Shared;
use super::state::State;
use super::work::remote;
use crate::wire::frame::{DirectiveKind, Hello, Live, LiveState, WorkerFrame};
use crate::wire::worker::{ProtocolRange, Registration};

/// How long the server may take for its first frame.
const FIRST_FRAME: Duration = Duration::from_secs(10);
/// Between two frames under load.
const COALESCE: Duration = Duration::from_millis(1);
/// Frames that came meanwhile and are taken in before something is sent again, at most.
const TAKEN_IN: usize = 64;
/// Between two looks at what time brings.
const TICK: Duration = Duration::from_millis(250);

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
    /// When the agent ends though not all is told.
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
        let monitor = Monitor::new(vec![options.state.join("work"), options.state.join("spool")], options.min_free);
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
                LinkError::Refused(_) => {
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
            let fresh = matches!(error, LinkError::SessionOver(_));
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
        let first = timeout(FIRST_FRAME, stream.back.recv()).await;
        let first = first.map_err(|_| LinkError::Unreachable("it did not answer the first frame".to_owned()))?;
        let mut frame = first.unwrap_or_else(|| Err(closed()))?;
        self.see(&frame)?;
        let Some(welcome) = frame.welcome.take() else {
            let directive = frame.directive.filter(|directive| directive.kind == DirectiveKind::Reregister);
            return Err(match directive {
                Some(directive) => LinkError::SessionOver(directive.reason),
                None => LinkError::Unreachable("its first frame holds no welcome".to_owned()),
            });
        };
        let mut acts = Vec::new();
        {
            let mut core = self.shared.lock();
            let applied = inbox::welcome(welcome, &mut core, &mut self.outbox, moment(), &mut acts);
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
        let live = core.held().into_iter().map(|held| Live {
            attempt: remote(held.id),
            state: if held.running { LiveState::Running } else { LiveState::Accepted },
            started_at: held.started_at,
        });
        // What ended while nobody heard of it is in no frame yet; the next one has it.
        let (first_spooled, framed) = self.outbox.held();
        let spooled = framed + u64::from(core.spool.has_more().0);
        let hello = Hello {
            session,
            highest_epoch: self.state.epoch,
            last_server_seq: self.outbox.heard,
            live: live.collect(),
            first_spooled,
            spooled,
        };
        WorkerFrame { ack: self.outbox.heard, epoch: self.state.epoch, hello: Some(hello), ..WorkerFrame::default() }
    }

    /// Sends and receives until the stream ends, or the agent does.
    async fn pump(&mut self, mut stream: Stream) -> Result<(), LinkError> {
        let shared = Arc::clone(&self.shared);
        let mut beat = tokio::time::Instant::now();
        let mut tick = tokio::time::interval(TICK);
        let (mut owes_ack, mut paused_until) = (false, tokio::time::Instant::now());
        let mut state = self.worker_state();
        loop {
            if self.send(&stream, &mut owes_ack, paused_until).await? {
                // Nobody wakes it meanwhile: to be woken for each event costs more than to hear of all a little later.
                sleep(COALESCE).await;
            }
            if self.worker_state() != state || beat <= tokio::time::Instant::now() {
                state = self.worker_state();
                self.beat(&stream).await?;
                self.look_for_more()?;
                beat = tokio::time::Instant::now() + jittered(self.heartbeat);
            }
            if self.is_over(true) {
                return self.goodbye(&mut stream).await;
            }
            tokio::select! {
                biased;
                frame = stream.back.recv() => {
                    let mut frame = frame.unwrap_or_else(|| Err(closed()))?;
                    for left in (0..TAKEN_IN).rev() {
                        self.see(&frame)?;
                        owes_ack |= frame.seq > 0;
                        let asked = self.apply(frame)?;
                        if !asked.pause.is_zero() {
                            paused_until = tokio::time::Instant::now() + asked.pause;
                        }
                        self.obey(asked)?;
                        // That it is closed is heard when nothing more is in it.
                        let next = if left > 0 { stream.back.try_recv().ok() } else { None };
                        let Some(next) = next else { break };
                        frame = next?;
                    }
                }
                () = shared.bell.notified() => {}
                _ = tick.tick() => self.tick(),
                () = sleep_until(beat) => {}
                // Nobody holds the agent any more: it ends as it is, for the next one.
                changed = self.wish.changed() => if changed.is_err() { return Ok(()) },
            }
        }
    }

    /// Sends what there is. True when something was sent.
    async fn send(
        &mut self,
        stream: &Stream,
        owes_ack: &mut bool,
        not_before: tokio::time::Instant,
    ) -> Result<bool, LinkError> {
        let mut sent = false;
        while !self.outbox.is_far_ahead() && tokio::time::Instant::now() >= not_before {
            let frame = {
                let mut core = self.shared.lock();
                // Only what is on disk is told; what cannot be written waits.
                if let Err(error) = core.spool.flush() {
                    tracing::error!(%error, "the spool cannot be written: nothing is told");
                    break;
                }
                match self.outbox.next(&mut core, None) {
                    Some(frame) => Some(frame),
                    None if *owes_ack => Some(WorkerFrame { ack: self.outbox.heard, ..WorkerFrame::default() }),
                    None => None,
                }
            };
            let Some(frame) = frame else { break };
            *owes_ack = false;
            sent |= frame.seq > 0;
            self.put(stream, frame).await?;
        }
        Ok(sent)
    }

    async fn put(&self, stream: &Stream, frame: WorkerFrame) -> Result<(), LinkError> {
        let frame = WorkerFrame { epoch: self.state.epoch, ..frame };
        stream.out.send(frame).await.map_err(|_| closed())
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
    LinkError::Unreachable(format!("what it says cannot be kept: {error}"))
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

/// A tenth more or less, so that many agents do not beat at once.
fn jittered(interval: Duration) -> Duration {
    interval.mul_f64(0.9 + 0.2 * f64::from(random()) / f64::from(u32::MAX))
}

/// A random number. Where the system has none, the bits of a fresh id are as good for spreading waits.
fn random() -> u32 {
    let id = uuid::Uuid::new_v4().as_u128();
    (id & u128::from(u32::MAX)) as u32
}
