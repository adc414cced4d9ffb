//! The program `orlop-worker` against a server of the protocol, over gRPC: killed and started again, asked to end.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use futures::StreamExt;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use orlop::wire::attempt::{AssignJob, JobResult};
use orlop::wire::frame::{AttemptState, Hello, ServerFrame, Spec, Welcome, WorkerFrame};
use orlop::wire::grpc::{Caller, FramesIn, FramesOut, Listening, Services, WorkerHost};
use orlop::wire::status::{Heartbeat, HeartbeatResponse, WorkerStatus};
use orlop::wire::worker::{Limits, Registered, Registration};
use orlop_core::error::{Code, Problem};
use orlop_core::id::{Epoch, Incarnation, JobId, SessionId, WorkerId};
use orlop_core::spec::job::JobSpec;
use orlop_core::task::{StartMode, TaskEnd, TaskRef};
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;

/// How long anything may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

struct Served {
    hello: Hello,
    frames: FramesIn,
    out: mpsc::Sender<Result<ServerFrame, Problem>>,
}

/// A server that does what a test says.
struct Host {
    streams: mpsc::Sender<Served>,
    registrations: Mutex<u8>,
}

fn unknown() -> Problem {
    Problem::coded(Code::NotFound, "not in this test")
}

#[async_trait]
impl WorkerHost for Host {
    async fn register(&self, _: Caller, registration: Registration) -> Result<Registered, Problem> {
        let mut count = self.registrations.lock().unwrap();
        *count += 1;
        Ok(Registered {
            worker: registration.worker,
            incarnation: Incarnation::new(1).unwrap(),
            session: SessionId::from_bytes([*count; 16]),
            epoch: Epoch(1),
            protocol: 1,
            features: BTreeSet::new(),
            heartbeat_ms: 500,
            lease_ms: 20_000,
            limits: Limits::OURS,
            certificate: Vec::new(),
            ca: Vec::new(),
            status: None,
        })
    }

    async fn stream(&self, _: Caller, first: WorkerFrame, frames: FramesIn) -> Result<FramesOut, Problem> {
        let (out, outgoing) = mpsc::channel(64);
        let served = Served { hello: first.hello.unwrap(), frames, out };
        self.streams.send(served).await.map_err(|_| unknown())?;
        let next = |mut outgoing: mpsc::Receiver<_>| async { Some((outgoing.recv().await?, outgoing)) };
        Ok(futures::stream::unfold(outgoing, next).boxed())
    }

    async fn heartbeat(&self, _: Caller, _: Heartbeat) -> Result<HeartbeatResponse, Problem> {
        Err(unknown())
    }

    async fn worker_status(&self, _: Caller, _: WorkerId) -> Result<WorkerStatus, Problem> {
        Err(unknown())
    }

    async fn place(&self, _: Caller, _: WorkerId, _: JobId) -> Result<TaskRef, Problem> {
        Err(unknown())
    }
}

/// The server, and what it heard.
struct Fixture {
    dir: tempfile::TempDir,
    address: String,
    streams: mpsc::Receiver<Served>,
    stream: Option<Served>,
    seq: u64,
    last: u64,
    results: Vec<JobResult>,
    frames: Vec<WorkerFrame>,
    _leads: watch::Sender<bool>,
}

/// A worker that is killed when the test is over.
struct Worker(Child);

impl Drop for Worker {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

impl Worker {
    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(i32::try_from(self.0.id()).unwrap()), signal).unwrap();
    }
}

impl Fixture {
    async fn new() -> Self {
        let (sender, streams) = mpsc::channel(4);
        let (leads, led) = watch::channel(true);
        let listening = Listening::bind("127.0.0.1:0".parse().unwrap(), None).await.unwrap();
        let address = format!("http://{}", listening.address());
        let host = Host { streams: sender, registrations: Mutex::new(0) };
        let services = Services { workers: Arc::new(host), jobs: None, artifacts: None, leads: led, interceptor: None };
        tokio::spawn(listening.serve(services, std::future::pending()));
        let dir = tempfile::tempdir().unwrap();
        let (stream, seq, last, results, frames) = (None, 0, 0, Vec::new(), Vec::new());
        Self { dir, address, streams, stream, seq, last, results, frames, _leads: leads }
    }

    fn state(&self) -> std::path::PathBuf {
        self.dir.path().join("state")
    }

    async fn worker(&mut self) -> Worker {
        let mut command = crate::role::command("worker");
        command.args(["--server", &self.address, "--id", "tested", "--state"]).arg(self.state());
        super::on_any_disk(&mut command);
        // The server of the test asks for no token, and is announced nowhere.
        let token = self.state().with_file_name("client.token");
        std::fs::write(&token, "any").unwrap();
        command.arg("--token-file").arg(token);
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let worker = Worker(child);
        self.stream = Some(timeout(PATIENCE, self.streams.recv()).await.unwrap().unwrap());
        (self.seq, self.last) = (0, 0);
        let welcome = Some(Welcome::default());
        self.put(ServerFrame { welcome, lease_ms: 20_000, ..ServerFrame::default() }).await;
        worker
    }

    async fn put(&mut self, frame: ServerFrame) {
        let frame = ServerFrame { epoch: 1, ..frame };
        self.stream.as_ref().unwrap().out.send(Ok(frame)).await.unwrap();
    }

    async fn assign(&mut self, job: u64, spec: serde_json::Value) {
        let spec = JobSpec::from_json(&spec).unwrap();
        self.seq += 1;
        let assign = vec![AssignJob::new(attempt(job), job, StartMode::Now)];
        let specs = vec![Spec::new(job, &spec)];
        self.put(ServerFrame { seq: self.seq, specs, assign, ..ServerFrame::default() }).await;
    }

    async fn until(&mut self, mut holds: impl FnMut(&Self) -> bool) {
        let receive = async {
            while !holds(self) {
                let frame = self.stream.as_mut().unwrap().frames.next().await.expect("the agent goes on").unwrap();
                if frame.status.is_some() {
                    self.put(ServerFrame { lease_ms: 20_000, ..ServerFrame::default() }).await;
                }
                self.last = self.last.max(frame.seq);
                self.results.extend(frame.results.iter().cloned());
                self.frames.push(frame);
            }
        };
        timeout(PATIENCE, receive).await.expect("it takes too long");
    }

    async fn started(&mut self, job: u64) {
        let of = |frame: &WorkerFrame| frame.started.iter().any(|started| started.attempt() == attempt(job));
        self.until(|fixture| fixture.frames.iter().any(of)).await;
    }

    async fn result(&mut self, job: u64) -> JobResult {
        self.until(|fixture| fixture.results.iter().any(|result| result.attempt() == attempt(job))).await;
        self.results.iter().find(|result| result.attempt() == attempt(job)).unwrap().clone()
    }

    fn text(&self, job: u64) -> String {
        let chunks = self.frames.iter().flat_map(|frame| &frame.logs).filter(|chunk| chunk.attempt() == attempt(job));
        let mut chunks: Vec<_> = chunks.map(|chunk| (chunk.seq, chunk.data.clone())).collect();
        chunks.sort();
        chunks.dedup();
        String::from_utf8(chunks.into_iter().flat_map(|(_, data)| data).collect()).unwrap()
    }
}

fn attempt(job: u64) -> TaskRef {
    TaskRef { job: JobId::from_u64(job), index: 0, member: 0, attempt: 1, epoch: Epoch(1) }
}

fn script(text: &str, survives: bool) -> serde_json::Value {
    serde_json::json!({"script": text, "survive_agent": survives})
}

fn leftovers(state: &Path) -> Vec<String> {
    let names = |dir: std::path::PathBuf| std::fs::read_dir(dir).into_iter().flatten().flatten();
    let attempts = names(state.join("work")).chain(names(state.join("work/.control")));
    attempts.map(|entry| entry.file_name().into_string().unwrap()).filter(|name| !name.starts_with('.')).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_agent_loses_no_work_that_is_kept_and_ends_what_is_not() {
    let mut fixture = Fixture::new().await;
    let go = fixture.dir.path().join("go");
    let mut worker = fixture.worker().await;
    let text = format!("echo before; while [ ! -e {} ]; do sleep 0.05; done; echo after; exit 3", go.display());
    fixture.assign(1, script(&text, true)).await;
    fixture.assign(2, script("echo up; sleep 600", false)).await;
    fixture.assign(3, script("exit 5", false)).await;
    fixture.started(1).await;
    fixture.started(2).await;
    fixture.result(3).await;
    fixture.until(|fixture| fixture.text(1).contains("before")).await;
    // No result was acknowledged when it dies.
    worker.0.kill().unwrap();
    worker.0.wait().unwrap();
    fixture.results.clear();
    let worker = fixture.worker().await;
    let live = &fixture.stream.as_ref().unwrap().hello.live;
    assert_eq!(
        live.iter().map(|live| (live.attempt(), live.state())).collect::<Vec<_>>(),
        [(attempt(1), AttemptState::Running)]
    );
    assert_eq!(fixture.result(3).await.exit_code, Some(5));
    let lost = fixture.result(2).await;
    assert_eq!((lost.task_end(), lost.reason.as_str()), (TaskEnd::Lost, "agent_restart"));
    std::fs::write(&go, "").unwrap();
    let kept = fixture.result(1).await;
    assert_eq!((kept.task_end(), kept.exit_code), (TaskEnd::Failed, Some(3)));
    fixture.until(|fixture| fixture.text(1).contains("after")).await;
    assert_eq!(fixture.text(1), "before\nafter\n", "nothing twice, nothing missing");
    fixture.seq += 1;
    let (seq, ack) = (fixture.seq, fixture.last);
    fixture.put(ServerFrame { seq, ack, ..ServerFrame::default() }).await;
    worker.signal(Signal::SIGTERM);
    fixture.until(|fixture| fixture.frames.last().is_some_and(|frame| frame.goodbye.is_some())).await;
    assert_eq!(leftovers(&fixture.state()), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sigterm_drains_and_a_second_one_cancels() {
    let mut fixture = Fixture::new().await;
    let mut worker = fixture.worker().await;
    fixture.assign(1, script("trap 'exit 9' TERM; echo up; while :; do sleep 0.05; done", false)).await;
    fixture.started(1).await;
    // It listens from now on.
    fixture.until(|fixture| fixture.text(1).contains("up")).await;
    worker.signal(Signal::SIGTERM);
    let draining = |frame: &WorkerFrame| {
        frame
            .status
            .as_ref()
            .is_some_and(|status| status.worker_state() == orlop_core::machine::worker::WorkerState::Draining)
    };
    fixture.until(|fixture| fixture.frames.iter().any(draining)).await;
    assert!(fixture.results.is_empty(), "it waits");
    worker.signal(Signal::SIGTERM);
    let result = fixture.result(1).await;
    assert_eq!((result.task_end(), result.exit_code), (TaskEnd::Preempted, Some(9)));
    fixture.seq += 1;
    let (seq, ack) = (fixture.seq, fixture.last);
    fixture.put(ServerFrame { seq, ack, ..ServerFrame::default() }).await;
    fixture.until(|fixture| fixture.frames.last().is_some_and(|frame| frame.goodbye.is_some())).await;
    let ended = tokio::task::spawn_blocking(move || worker.0.wait().unwrap());
    assert!(timeout(PATIENCE, ended).await.unwrap().unwrap().success());
}

#[test]
fn wrong_settings_are_named_and_the_configuration_can_be_shown() {
    let run = |args: &[&str]| crate::role::command("worker").args(args).output().unwrap();
    let wrong = run(&["--server", "ftp://x", "--state", "/nonexistent/x"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("ftp://x"));
    let shown = run(&["--server", "http://127.0.0.1:1", "--max-jobs", "3", "--print-config"]);
    let text = String::from_utf8(shown.stdout).unwrap();
    assert!(shown.status.success() && text.contains("max_jobs: 3") && text.contains("127.0.0.1:1"), "{text}");
}
