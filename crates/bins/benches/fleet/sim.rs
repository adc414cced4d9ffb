//! Workers without machines: agents of this process that keep their side of the protocol over real connections, and end
//! what they are given after a while.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use futures::stream::BoxStream;
use orlop::host::client_token::find;
use orlop::wire::attempt::{JobResult, JobStarted, Process};
use orlop::wire::frame::{AttemptState, DirectiveKind, LiveAttempt, ServerFrame, WorkerFrame};
use orlop::wire::grpc::{Connector, WorkerClient};
use orlop::wire::session::{AgentSession, Slots};
use orlop::wire::worker::{ProtocolRange, Registration};
use orlop_core::error::Problem;
use orlop_core::task::{StartMode, TaskEnd, TaskRef};
use orlop_scheduler::event::Capabilities;
use orlop_scheduler::job::Runtime;
use tokio::sync::{Mutex, mpsc, watch};
use tokio::task::JoinSet;

use crate::samples::Samples;

/// The first wait before a worker connects again.
const FIRST_WAIT: Duration = Duration::from_millis(50);

/// What simulated workers have seen, all together.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// Streams that are open.
    pub(crate) open: AtomicU64,
    /// Results that were acknowledged.
    pub(crate) acknowledged: AtomicU64,
    /// Attempts under way that the server did not want any more.
    pub(crate) killed: AtomicU64,
    /// Attempts that were given.
    pub(crate) given: AtomicU64,
    /// From the end of an attempt to its acknowledgement, in milliseconds.
    pub(crate) delays: Mutex<Samples>,
}

/// How simulated workers behave.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Manner {
    /// Attempts at once.
    pub(crate) slots: u32,
    /// How long an attempt takes.
    pub(crate) takes: Duration,
    /// The longest wait before a worker connects again.
    pub(crate) backoff: Duration,
}

/// Simulated workers, until they are dropped.
pub(crate) struct Crowd {
    pub(crate) seen: Arc<Seen>,
    _stop: watch::Sender<bool>,
    _tasks: JoinSet<()>,
}

impl Crowd {
    pub(crate) fn new(count: u32, address: &str, manner: Manner) -> Self {
        let seen = Arc::new(Seen::default());
        let (stop, stopped) = watch::channel(false);
        let mut tasks = JoinSet::new();
        for number in 0..count {
            tasks.spawn(live(number, address.to_owned(), manner, Arc::clone(&seen), stopped.clone()));
        }
        Self { seen, _stop: stop, _tasks: tasks }
    }
}

struct Sim {
    session: AgentSession,
    began: Instant,
    live: BTreeMap<TaskRef, AttemptState>,
    /// Attempts under way, in the order of their ends.
    ends: VecDeque<(Instant, TaskRef)>,
    /// Ended attempts that were not acknowledged.
    reported: BTreeMap<TaskRef, Instant>,
    /// Attempts that were sent ahead. What is measured here is of one kind.
    slots: Slots<()>,
    /// The server has asked for a new registration.
    forgotten: bool,
}

impl Sim {
    fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_micros()).expect("less than 500,000 years")
    }
}

async fn live(number: u32, address: String, manner: Manner, seen: Arc<Seen>, mut stop: watch::Receiver<bool>) {
    let mut known: Option<Sim> = None;
    let mut wait = FIRST_WAIT;
    loop {
        if let Ok((mut sim, client)) = connect(number, &address, manner, &mut known).await {
            if let Ok((sink, frames)) = open(&mut sim, &client).await {
                wait = FIRST_WAIT;
                seen.open.fetch_add(1, Ordering::Relaxed);
                let over = tokio::select! {
                    () = serve(&mut sim, sink, frames, manner, &seen) => false,
                    _ = stop.changed() => true,
                };
                seen.open.fetch_sub(1, Ordering::Relaxed);
                if over {
                    return;
                }
            }
            sim.session.disconnected();
            known = Some(sim);
        }
        // Jitter from a worker's number: few come at the same moment.
        let jitter = f64::from(number.wrapping_mul(2_654_435_761) >> 16) / 65_536.0;
        tokio::time::sleep(wait.mul_f64(0.25 + 0.75 * jitter)).await;
        wait = (wait * 2).min(manner.backoff);
    }
}

async fn connect(
    number: u32,
    address: &str,
    manner: Manner,
    known: &mut Option<Sim>,
) -> Result<(Sim, WorkerClient), Problem> {
    let endpoint = format!("http://{address}").parse()?;
    let found = address.rsplit_once(':').and_then(|(host, port)| find(host, port.parse().ok()?));
    let token = found.as_ref().map(|found| found.token.as_str());
    let client = WorkerClient::new(Connector::plain(endpoint)?.connect().await?, token)?;
    let forgotten = known.as_ref().is_none_or(|sim| sim.forgotten);
    let registered = if forgotten { Some(client.register(registration(number, manner)).await?) } else { None };
    let sim = match (known.take(), registered) {
        (Some(mut sim), Some(registered)) => {
            sim.session.renew(&registered, sim.now());
            sim.slots.new_session();
            Sim { forgotten: false, ..sim }
        }
        (Some(sim), None) => sim,
        (None, registered) => Sim {
            session: AgentSession::new(&registered.expect("it was asked for"), 0),
            began: Instant::now(),
            live: BTreeMap::new(),
            ends: VecDeque::new(),
            reported: BTreeMap::new(),
            slots: Slots::default(),
            forgotten: false,
        },
    };
    Ok((sim, client))
}

fn registration(number: u32, manner: Manner) -> Registration {
    Registration {
        worker: format!("sim-{number}").parse().expect("an id"),
        join_token: String::new(),
        csr: Vec::new(),
        protocol: ProtocolRange::OURS,
        features: BTreeSet::new(),
        capabilities: Capabilities {
            cpu_m: u64::from(manner.slots) * 1000,
            memory_bytes: u64::from(manner.slots) << 30,
            max_jobs: manner.slots,
            runtimes: [Runtime::Process, Runtime::Noop].into(),
            ..Capabilities::default()
        },
        agent_version: "simulated".to_owned(),
        boot_id: "1".to_owned(),
        state_id: format!("sim-{number}"),
        state_place: String::new(),
    }
}

type Frames = BoxStream<'static, Result<ServerFrame, Problem>>;

async fn open(sim: &mut Sim, client: &WorkerClient) -> Result<(mpsc::Sender<WorkerFrame>, Frames), Problem> {
    let now = sim.now();
    let live = sim.live.iter().map(|(&attempt, &state)| LiveAttempt::new(attempt, state, None)).collect();
    client.stream(sim.session.hello(now, live)).await
}

/// Keeps the session going until its stream is over.
async fn serve(sim: &mut Sim, sink: mpsc::Sender<WorkerFrame>, mut frames: Frames, manner: Manner, seen: &Seen) {
    loop {
        let now = sim.now();
        for frame in sim.session.poll(now) {
            sim.slots.framed(&frame);
            if sink.send(frame).await.is_err() {
                return;
            }
        }
        let due = sim.session.due(now).map(|due| sim.began + Duration::from_micros(due));
        let next = [due, sim.ends.front().map(|(at, _)| *at)].into_iter().flatten().min();
        let sleep = tokio::time::sleep_until(next.unwrap_or_else(|| Instant::now() + Duration::from_secs(5)).into());
        tokio::select! {
            frame = frames.next() => {
                let Some(Ok(frame)) = frame else { return };
                if !take(sim, frame, manner, seen).await {
                    return;
                }
            }
            () = sleep => {}
        }
        end_what_is_due(sim, manner);
    }
}

/// Takes a frame. Gives whether the stream goes on.
async fn take(sim: &mut Sim, frame: ServerFrame, manner: Manner, seen: &Seen) -> bool {
    let seq = frame.seq;
    let Ok(receipt) = sim.session.receive(frame) else { return false };
    for committed in receipt.committed {
        seen.acknowledged.fetch_add(committed.results.len() as u64, Ordering::Relaxed);
        let mut delays = seen.delays.lock().await;
        for ended in committed.results.iter().filter_map(|result| sim.reported.remove(&result.attempt())) {
            delays.add(ended.elapsed().as_secs_f64() * 1e3);
        }
    }
    let Some(frame) = receipt.frame else { return true };
    sim.session.journalled(seq);
    if frame.directive.as_ref().is_some_and(|directive| directive.kind() == DirectiveKind::Reregister) {
        sim.forgotten = true;
        return false;
    }
    if let Some(welcome) = &frame.welcome {
        sim.slots.resumed(welcome.last_worker_seq);
        seen.killed.fetch_add(welcome.kill.len() as u64, Ordering::Relaxed);
        for attempt in welcome.kill.iter().chain(&welcome.settled).map(|attempt| TaskRef::from(*attempt)) {
            sim.live.remove(&attempt);
            sim.ends.retain(|(_, other)| *other != attempt);
        }
    }
    for attempt in frame.revoke.iter().map(|attempt| TaskRef::from(*attempt)) {
        if sim.slots.revoke(&(), attempt) {
            sim.live.remove(&attempt);
            sim.session.revoked(attempt);
        }
    }
    sim.slots.received(&frame);
    for assign in frame.assign {
        let (attempt, mode) = (assign.attempt(), assign.start_mode());
        seen.given.fetch_add(1, Ordering::Relaxed);
        sim.session.accepted(attempt);
        if mode == StartMode::Now {
            sim.slots.started(&());
        }
        if mode == StartMode::Now || sim.slots.inherit(&(), attempt) {
            start(sim, attempt, manner);
        } else {
            sim.live.insert(attempt, AttemptState::Accepted);
        }
    }
    true
}

fn start(sim: &mut Sim, attempt: TaskRef, manner: Manner) {
    sim.session.started(JobStarted::new(attempt, Some(Process::Pid(1)), None));
    sim.live.insert(attempt, AttemptState::Running);
    sim.ends.push_back((Instant::now() + manner.takes, attempt));
}

fn end_what_is_due(sim: &mut Sim, manner: Manner) {
    let now = Instant::now();
    while sim.ends.front().is_some_and(|(at, _)| *at <= now) {
        let Some((_, attempt)) = sim.ends.pop_front() else { return };
        sim.live.remove(&attempt);
        sim.reported.insert(attempt, now);
        sim.session.ended(JobResult { exit_code: Some(0), ..JobResult::new(attempt, TaskEnd::Succeeded) });
        if let Some(next) = sim.slots.ended(&(), attempt) {
            start(sim, next, manner);
        }
    }
}
