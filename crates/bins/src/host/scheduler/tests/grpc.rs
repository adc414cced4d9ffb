//! The services over a real connection on loopback: a client, an agent, the server between.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::BoxStream;
use orlop_cloud::logs::{LogOptions, LogStore};
use orlop_core::error::{Code, Problem};
use orlop_core::machine::job::JobState;
use orlop_core::ports::fleet_store::{AuditFilter, Page};
use orlop_core::task::{LogStream, TaskEnd, TaskRef};
use serde_json::json;
use tokio::sync::mpsc;

use super::super::{Options, Stop, grpc};
use super::agent::offer;
use super::fixture::{Fixture, SOON, interface, spec};
use crate::wire::attempt::{JobResult, LogChunk};
use crate::wire::frame::{DirectiveKind, Hello, OutboxRange, ServerFrame, WorkerFrame};
use crate::wire::grpc::{Connector, Endpoint, JobClient, Listening, WorkerClient};
use crate::wire::job::Submission;
use crate::wire::v1::{ListJobsRequest, LogsRequest};
use crate::wire::worker::{ProtocolRange, Registered, Registration};

type Frames = BoxStream<'static, Result<ServerFrame, Problem>>;

struct Wire {
    fixture: Fixture,
    workers: WorkerClient,
    jobs: JobClient,
    stop: Stop,
    served: tokio::task::JoinHandle<()>,
    _folder: tempfile::TempDir,
}

impl Wire {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let logs = LogStore::open(folder.path(), LogOptions::default()).unwrap();
        let options = Options { logs: Some(logs), ..Options::default() };
        let fixture = Fixture::with(orlop_core::testing::fleet_store::MemoryFleet::new(), options).await;
        let socket = Listening::bind("127.0.0.1:0".parse().unwrap(), None).await.unwrap();
        let endpoint: Endpoint = format!("http://{}", socket.address()).parse().unwrap();
        let stop = Stop::default();
        let (api, client) = interface(&fixture);
        let serving = grpc::serve(fixture.handle(), Arc::clone(&api), socket, stop.clone());
        let served = tokio::spawn(async move { serving.await.unwrap() });
        let channel = Connector::plain(endpoint).unwrap().connect().await.unwrap();
        let workers = WorkerClient::new(channel.clone(), Some(&client)).unwrap();
        let jobs = JobClient::new(channel, Some(&client)).unwrap();
        Self { fixture, workers, jobs, stop, served, _folder: folder }
    }

    async fn register(&self, protocol: ProtocolRange) -> Result<Registered, Problem> {
        let request = Registration {
            worker: "w1".parse().unwrap(),
            join_token: String::new(),
            csr: Vec::new(),
            protocol,
            features: std::collections::BTreeSet::new(),
            capabilities: offer(2),
            agent_version: "test".to_owned(),
            boot_id: "boot".to_owned(),
            state_id: "state".to_owned(),
            state_place: String::new(),
        };
        self.workers.register(request).await
    }

    /// Opens a stream with a hello.
    async fn open(&self, registered: &Registered) -> (mpsc::Sender<WorkerFrame>, Frames) {
        let hello = Hello {
            session_id: registered.session.as_bytes().to_vec(),
            highest_epoch: registered.epoch.0,
            outbox: Some(OutboxRange { first_seq: 1, count: 0 }),
            ..Hello::default()
        };
        let first = WorkerFrame { epoch: registered.epoch.0, hello: Some(hello), ..WorkerFrame::default() };
        self.workers.stream(first).await.unwrap()
    }
}

async fn heard(frames: &mut Frames) -> ServerFrame {
    tokio::time::timeout(SOON, frames.next()).await.unwrap().unwrap().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_runs_over_the_wire() {
    let wire = Wire::new().await;
    let registered = wire.register(ProtocolRange::OURS).await.unwrap();
    let (to, mut frames) = wire.open(&registered).await;
    assert!(heard(&mut frames).await.welcome.is_some());
    let request = Submission { jobs: vec![spec(&json!({"name": "hello", "timeout_ms": 5000}))], key: Some("k".into()) };
    let taken = wire.jobs.submit(request.clone()).await.unwrap();
    let again = wire.jobs.submit(request).await.unwrap();
    assert_eq!((&taken.job_ids, true), (&again.job_ids, again.replay));
    let frame = heard(&mut frames).await;
    let (assigned, sent) = (frame.assign[0].clone(), frame.specs[0].clone());
    assert_eq!((assigned.spec_id, assigned.timeout_ms), (sent.spec_id, 5000));
    let job = taken.jobs()[0];
    assert_eq!(assigned.attempt().job, job);
    to.send(logged(1, frame.seq, assigned.attempt())).await.unwrap();
    to.send(result(2, frame.seq, assigned.attempt())).await.unwrap();
    let ended = wire.jobs.job(job, None, Duration::from_secs(60)).await.unwrap();
    assert_eq!(
        (ended.known_state(), ended.exit_code, ended.name.as_str()),
        (Ok(JobState::Completed), Some(0), "hello")
    );
    assert_eq!(ended.outputs["answer"], "42");
    while heard(&mut frames).await.ack < 2 {}
    assert_eq!(wire.jobs.jobs(ListJobsRequest::default()).await.unwrap().items.len(), 1);
    let query = LogsRequest { job_id: job.as_u64(), follow: true, ..LogsRequest::default() };
    let pages: Vec<_> = wire.jobs.logs(query).await.unwrap().collect().await;
    let text: Vec<u8> =
        pages.iter().flat_map(|page| &page.as_ref().unwrap().chunks).flat_map(|chunk| chunk.data.to_vec()).collect();
    assert_eq!(String::from_utf8(text).unwrap(), "forty-two\n", "of the own attempt, and not of the other");
    wire.stop.stop();
    drop((to, frames));
    wire.served.await.unwrap();
}

fn result(seq: u64, ack: u64, attempt: TaskRef) -> WorkerFrame {
    let outputs = [("answer".to_owned(), "42".to_owned())].into();
    let result = JobResult { exit_code: Some(0), outputs, ..JobResult::new(attempt, TaskEnd::Succeeded) };
    WorkerFrame { seq, ack, epoch: attempt.epoch.0, results: vec![result], ..WorkerFrame::default() }
}

/// Logs of an attempt, and of one that is not this worker's.
fn logged(seq: u64, ack: u64, attempt: TaskRef) -> WorkerFrame {
    let chunk = |attempt, text: &'static str| LogChunk::new(attempt, LogStream::Stdout, 1, text);
    let other = TaskRef { attempt: 7, ..attempt };
    let logs = vec![chunk(attempt, "forty-two\n"), chunk(other, "stolen\n")];
    WorkerFrame { seq, ack, epoch: attempt.epoch.0, logs, ..WorkerFrame::default() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_batch_of_a_stream_of_submits_is_in_the_audit_trail_with_its_tenant() {
    let wire = Wire::new().await;
    let of = |tenant: &str| Submission { jobs: vec![spec(&json!({ "tenant": tenant }))], key: None };
    let handle = wire.fixture.handle();
    for tenant in ["physics", "chemistry"] {
        let quota = Some(orlop_scheduler::event::Quota::default());
        handle.set_tenant(tenant.parse().unwrap(), None, quota).await.unwrap();
    }
    let none = Submission { jobs: Vec::new(), key: None };
    let batches = futures::stream::iter([of("physics"), of("chemistry"), none]).boxed();
    let acks: Vec<_> = wire.jobs.submit_stream(batches).await.unwrap().collect().await;
    let taken: Vec<_> = acks.iter().map(Result::is_ok).collect();
    assert_eq!(taken, [true, true, false]);
    let store = wire.fixture.handle().store().clone();
    let began = std::time::Instant::now();
    let entries = loop {
        let found = store.audit(&AuditFilter::default(), &Page::first(10)).await.unwrap().items;
        if found.len() >= 3 {
            break found;
        }
        assert!(began.elapsed() < SOON, "the trail is written");
        tokio::time::sleep(Duration::from_millis(2)).await;
    };
    let mut lines: Vec<_> = entries
        .iter()
        .map(|entry| {
            (&*entry.action, entry.tenant.as_ref().map(ToString::to_string), entry.actor.as_str(), &*entry.outcome)
        })
        .collect();
    lines.sort();
    let line = |tenant: Option<&str>, outcome| ("jobs.submit_stream", tenant.map(str::to_owned), "local", outcome);
    assert_eq!(lines, [line(None, "InvalidArgument"), line(Some("chemistry"), "ok"), line(Some("physics"), "ok")]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn versions_that_do_not_fit_are_refused_with_what_would() {
    let wire = Wire::new().await;
    let refused = wire.register(ProtocolRange { min: 7, max: 9 }).await.unwrap_err();
    assert_eq!(refused.code, Code::Precondition);
    insta::assert_snapshot!(refused.message, @"this server uses protocol 2 to 2, the agent 7 to 9; install a matching release");
    let unknown = wire.jobs.job(orlop_core::id::JobId::from_u64(77), None, Duration::ZERO).await.unwrap_err();
    assert_eq!(unknown.code, Code::NotFound);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_of_another_term_is_told_to_register_again() {
    let mut wire = Wire::new().await;
    let mut registered = wire.register(ProtocolRange::OURS).await.unwrap();
    registered.session = orlop_core::id::SessionId::from_bytes([9; 16]);
    let (_to, mut frames) = wire.open(&registered).await;
    assert_eq!(heard(&mut frames).await.directive.unwrap().kind(), DirectiveKind::Reregister);
    assert!(frames.next().await.is_none(), "the stream ends with it");
    wire.fixture.stop().await;
}
