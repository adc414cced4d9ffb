//! A server made of channels, and an agent connected to it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use futures::StreamExt as _;
use orlop_core::hardware::gpu::{GpuShape, Vendor};
use orlop_core::id::{Epoch, Incarnation, JobId, SessionId};
use orlop_core::spec::job::JobSpec;
use orlop_core::task::{StartMode, TaskRef};
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::host::worker::link::{Link, LinkError, Stream};
use crate::host::worker::{Agent, AgentOptions};
use crate::wire::attempt::{AssignJob, JobResult, LogChunk};
use crate::wire::frame::{Directive, Hello, ServerFrame, Spec, Welcome, WorkerFrame};
use crate::wire::status::{Heartbeat, HeartbeatResponse};
use crate::wire::worker::{Limits, ProtocolRange, Registered, Registration};

/// How long anything may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A stream as the server sees it.
#[derive(Debug)]
pub(super) struct Served {
    pub(super) hello: Hello,
    pub(super) from: mpsc::Receiver<WorkerFrame>,
    pub(super) to: mpsc::Sender<Result<ServerFrame, LinkError>>,
}

#[derive(Debug)]
pub(super) struct Server {
    pub(super) epoch: Mutex<Epoch>,
    pub(super) lease_ms: Mutex<u32>,
    pub(super) refusal: Mutex<Option<LinkError>>,
    pub(super) registrations: Mutex<Vec<Registration>>,
    pub(super) renewal: AtomicBool,
    /// Streams are refused with this.
    pub(super) busy: Mutex<Option<LinkError>>,
    /// Signs of life.
    pub(super) beats: Mutex<Vec<Heartbeat>>,
    /// What each is answered with, beside a lease.
    pub(super) directive: Mutex<Option<Directive>>,
    streams: mpsc::Sender<Served>,
}

#[async_trait]
impl Link for Server {
    async fn register(&self, registration: Registration) -> Result<Registered, LinkError> {
        if let Some(refusal) = self.refusal.lock().unwrap().clone() {
            return Err(refusal);
        }
        let mut registrations = self.registrations.lock().unwrap();
        let worker = registration.worker.clone();
        registrations.push(registration);
        Ok(Registered {
            worker,
            incarnation: Incarnation::new(1).unwrap(),
            session: SessionId::from_bytes([registrations.len() as u8; 16]),
            epoch: *self.epoch.lock().unwrap(),
            protocol: ProtocolRange::OURS.max,
            features: BTreeSet::new(),
            heartbeat_ms: 200,
            lease_ms: *self.lease_ms.lock().unwrap(),
            limits: Limits::OURS,
            certificate: Vec::new(),
            ca: Vec::new(),
            status: None,
        })
    }

    async fn open(&self, hello: WorkerFrame) -> Result<Stream, LinkError> {
        if let Some(busy) = self.busy.lock().unwrap().clone() {
            return Err(busy);
        }
        let (out, from) = mpsc::channel(64);
        let (to, back) = mpsc::channel(64);
        let served = Served { hello: hello.hello.unwrap(), from, to };
        self.streams.send(served).await.map_err(|_| LinkError::Unreachable("the test is over".to_owned()))?;
        let back = futures::stream::unfold(back, async |mut back| Some((back.recv().await?, back)));
        Ok(Stream { out, back: back.boxed() })
    }

    async fn heartbeat(&self, beat: Heartbeat) -> Result<HeartbeatResponse, LinkError> {
        self.beats.lock().unwrap().push(beat);
        let (epoch, lease_ms) = (*self.epoch.lock().unwrap(), *self.lease_ms.lock().unwrap());
        Ok(HeartbeatResponse { epoch: epoch.0, lease_ms, directive: self.directive.lock().unwrap().clone() })
    }

    fn wants_renewal(&self) -> bool {
        self.renewal.swap(false, Ordering::Relaxed)
    }

    fn rotate(&self) {}
}

/// An agent and its server.
pub(super) struct Fixture {
    pub(super) server: Arc<Server>,
    pub(super) agent: Agent,
    streams: mpsc::Receiver<Served>,
    pub(super) stream: Served,
    seq: u64,
    pub(super) last: u64,
    /// What the agent reported, in all frames.
    pub(super) results: BTreeMap<TaskRef, JobResult>,
    pub(super) frames: Vec<WorkerFrame>,
}

impl Fixture {
    pub(super) async fn new(dir: &std::path::Path) -> Self {
        Self::with(dir, |_| {}).await
    }

    pub(super) async fn with(dir: &std::path::Path, change: impl FnOnce(&mut AgentOptions)) -> Self {
        Self::make(dir, 20_000, change).await
    }

    /// With a lease of so many milliseconds.
    pub(super) async fn leased(dir: &std::path::Path, lease_ms: u32) -> Self {
        Self::make(dir, lease_ms, |_| {}).await
    }

    async fn make(dir: &std::path::Path, lease_ms: u32, change: impl FnOnce(&mut AgentOptions)) -> Self {
        let (streams, mut opened) = mpsc::channel(4);
        let server = Arc::new(Server {
            epoch: Mutex::new(Epoch(1)),
            lease_ms: Mutex::new(lease_ms),
            refusal: Mutex::default(),
            registrations: Mutex::default(),
            renewal: AtomicBool::new(false),
            busy: Mutex::default(),
            beats: Mutex::default(),
            directive: Mutex::default(),
            streams,
        });
        let mut options = AgentOptions::new(dir.join("state"));
        options.backoff = Duration::from_millis(50);
        options.min_free_percent = 0;
        change(&mut options);
        let agent = Agent::start(options, server.clone()).await.unwrap();
        let stream = timeout(PATIENCE, opened.recv()).await.unwrap().unwrap();
        let (results, frames) = (BTreeMap::new(), Vec::new());
        let mut fixture = Self { server, agent, streams: opened, stream, seq: 0, last: 0, results, frames };
        fixture.welcome(Welcome::default()).await;
        fixture
    }

    pub(super) async fn welcome(&mut self, welcome: Welcome) {
        let frame = ServerFrame { welcome: Some(welcome), ..ServerFrame::default() };
        self.send_as(frame).await;
    }

    /// Ends the stream and takes the next one.
    pub(super) async fn reconnect(&mut self) {
        self.cut();
        self.next_stream().await;
    }

    /// Ends the stream.
    pub(super) fn cut(&mut self) {
        let (to, _) = mpsc::channel(1);
        drop(std::mem::replace(&mut self.stream.to, to));
    }

    pub(super) async fn next_stream(&mut self) {
        self.stream = timeout(PATIENCE, self.streams.recv()).await.unwrap().unwrap();
    }

    /// Sends a frame with the next number; it acknowledges what was received.
    pub(super) async fn send(&mut self, frame: ServerFrame) {
        self.seq += 1;
        let ack = if frame.ack == 0 { self.last } else { frame.ack };
        self.send_as(ServerFrame { seq: self.seq, ack, ..frame }).await;
    }

    pub(super) async fn send_as(&mut self, frame: ServerFrame) {
        let epoch = self.server.epoch.lock().unwrap().0;
        self.stream.to.send(Ok(ServerFrame { epoch, ..frame })).await.unwrap();
    }

    /// Assigns attempts of a specification.
    pub(super) async fn assign(&mut self, spec: serde_json::Value, jobs: &[u64], mode: StartMode) {
        self.assign_charged(spec, jobs, mode, None).await;
    }

    /// Assigns attempts for which a kind of GPU was charged.
    pub(super) async fn assign_charged(
        &mut self,
        spec: serde_json::Value,
        jobs: &[u64],
        mode: StartMode,
        gpu: Option<GpuShape>,
    ) {
        let spec = JobSpec::from_json(&spec).unwrap();
        let spec_id = u64::from_be_bytes(spec.content_hash().0[..8].try_into().unwrap());
        let one =
            |job: &u64| AssignJob { gpu: gpu.clone().map(Into::into), ..AssignJob::new(attempt(*job), spec_id, mode) };
        let assign = jobs.iter().map(one).collect();
        self.send(ServerFrame { specs: vec![Spec::new(spec_id, &spec)], assign, ..ServerFrame::default() }).await;
    }

    /// Receives frames until something holds.
    pub(super) async fn until(&mut self, mut holds: impl FnMut(&Self) -> bool) {
        let receive = async {
            while !holds(self) {
                let frame = self.stream.from.recv().await.expect("the agent goes on");
                if frame.status.is_some() {
                    let lease_ms = *self.server.lease_ms.lock().unwrap();
                    let epoch = self.server.epoch.lock().unwrap().0;
                    // An agent that says goodbye hears no more.
                    drop(self.stream.to.send(Ok(ServerFrame { epoch, lease_ms, ..ServerFrame::default() })).await);
                }
                if frame.seq > 0 {
                    assert!(frame.seq > self.last, "frames are numbered in order");
                    self.last = frame.seq;
                }
                for result in &frame.results {
                    self.results.insert(result.attempt(), result.clone());
                }
                self.frames.push(frame);
            }
        };
        if timeout(PATIENCE, receive).await.is_err() {
            panic!("waited too long; frames: {:#?}", self.frames);
        }
    }

    /// Waits for the end of a job's attempt.
    pub(super) async fn result(&mut self, job: u64) -> JobResult {
        self.until(|fixture| fixture.results.contains_key(&attempt(job))).await;
        self.results.get(&attempt(job)).unwrap().clone()
    }

    /// On a stream that has just begun: has the agent end all it runs, and waits for that of a job.
    pub(super) async fn cancel(&mut self, job: u64) {
        (self.seq, self.last) = (0, 0);
        self.welcome(Welcome::default()).await;
        self.agent.cancel();
        self.result(job).await;
    }

    /// Waits until a job's attempt has started.
    pub(super) async fn started(&mut self, job: u64) {
        let of = |frame: &WorkerFrame| frame.started.iter().any(|started| started.attempt() == attempt(job));
        self.until(|fixture| fixture.frames.iter().any(of)).await;
    }

    pub(super) fn accepted(&self, job: u64) -> bool {
        self.frames.iter().any(|frame| frame.accepted.iter().any(|accepted| accepted.attempt() == attempt(job)))
    }

    pub(super) fn revoked(&self, job: u64) -> bool {
        self.frames.iter().any(|frame| frame.revoked.contains(&attempt(job).into()))
    }

    pub(super) fn rejected(&self, job: u64) -> Option<String> {
        let mut all = self.frames.iter().flat_map(|frame| &frame.rejected);
        all.find(|rejected| rejected.attempt() == attempt(job)).map(|rejected| rejected.reason.clone())
    }

    /// What an attempt wrote: a short log comes with its result.
    pub(super) fn said(&self, job: u64) -> String {
        let tail = self.results.get(&attempt(job)).map(|result| result.tail.to_vec()).unwrap_or_default();
        let chunks = self.logs(job).into_iter().flat_map(|chunk| chunk.data.to_vec());
        String::from_utf8_lossy(&tail.into_iter().chain(chunks).collect::<Vec<u8>>()).into_owned()
    }

    pub(super) fn logs(&self, job: u64) -> Vec<LogChunk> {
        let all = self.frames.iter().flat_map(|frame| &frame.logs);
        all.filter(|chunk| chunk.attempt() == attempt(job)).cloned().collect()
    }
}

pub(super) fn attempt(job: u64) -> TaskRef {
    TaskRef { job: JobId::from_u64(job), index: 0, member: 0, attempt: 1, epoch: Epoch(1) }
}

/// NVIDIA devices of 80 GiB.
pub(super) fn shape(model: &str) -> GpuShape {
    GpuShape { vendor: Vendor::Nvidia, model: model.parse().unwrap(), memory_bytes: 80 << 30 }
}

pub(super) fn script(text: &str) -> serde_json::Value {
    json!({"script": text, "survive_agent": false})
}
