//! The services over a real connection on loopback: a client, an agent, the server between.

use futures::StreamExt as _;
use orlop_scheduler::token::AttemptRef;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tonic::transport::Channel;

use super::super::Stop;
use super::super::grpc::serve_plain;
use super::agent::offer;
use super::bed::{Bed, spec};
use crate::wire::frame::{DirectiveKind, Hello, ServerFrame, WorkerFrame};
use crate::wire::problem::{Code, Problem};
use crate::wire::proto::v1;
use crate::wire::proto::v1::job_service_client::JobServiceClient;
use crate::wire::proto::v1::worker_service_client::WorkerServiceClient;
use crate::wire::result::{Ending, JobResult};
use crate::wire::worker::{ProtocolRange, Registered, Registration};

struct Wire {
    bed: Bed,
    channel: Channel,
    stop: Stop,
    served: tokio::task::JoinHandle<()>,
}

impl Wire {
    async fn new() -> Self {
        let bed = Bed::new().await;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, handle) = (Stop::default(), bed.handle());
        let serving = serve_plain(handle, listener, stop.clone());
        let served = tokio::spawn(async move { serving.await.unwrap() });
        let channel = Channel::from_shared(format!("http://{address}")).unwrap().connect().await.unwrap();
        Self { bed, channel, stop, served }
    }

    async fn register(&self, protocol: ProtocolRange) -> Result<Registered, tonic::Status> {
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
        };
        let mut client = WorkerServiceClient::new(self.channel.clone());
        let request = v1::RegisterWorkerRequest::from(request);
        Ok(client.register_worker(request).await?.into_inner().try_into().unwrap())
    }

    /// Opens a stream with a hello.
    async fn open(
        &self,
        registered: &Registered,
    ) -> (mpsc::Sender<v1::WorkerFrame>, tonic::Streaming<v1::ServerFrame>) {
        let (to, from) = mpsc::channel(16);
        let hello = Hello {
            session: registered.session,
            highest_epoch: registered.epoch,
            last_server_seq: 0,
            live: Vec::new(),
            first_spooled: 1,
            spooled: 0,
        };
        let first = WorkerFrame { epoch: registered.epoch, hello: Some(hello), ..WorkerFrame::default() };
        to.send(first.into()).await.unwrap();
        let out = futures::stream::unfold(from, |mut from| async move { Some((from.recv().await?, from)) });
        let mut client = WorkerServiceClient::new(self.channel.clone());
        (to, client.job_stream(out).await.unwrap().into_inner())
    }
}

async fn heard(frames: &mut tonic::Streaming<v1::ServerFrame>) -> ServerFrame {
    let frame = tokio::time::timeout(super::bed::SOON, frames.next()).await.unwrap().unwrap().unwrap();
    frame.try_into().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s4_a_job_runs_over_the_wire() {
    let wire = Wire::new().await;
    let registered = wire.register(ProtocolRange::OURS).await.unwrap();
    let (to, mut frames) = wire.open(&registered).await;
    assert!(heard(&mut frames).await.welcome.is_some());
    let mut jobs = JobServiceClient::new(wire.channel.clone());
    let request = v1::SubmitRequest {
        jobs: vec![(&spec(&json!({"name": "hello", "timeout_ms": 5000}))).into()],
        idempotency_key: "k".to_owned(),
    };
    let taken = jobs.submit(request.clone()).await.unwrap().into_inner();
    let again = jobs.submit(request).await.unwrap().into_inner();
    assert_eq!((taken.job_ids.clone(), true), (again.job_ids, again.replay));
    let frame = heard(&mut frames).await;
    let (assigned, sent) = (frame.assign[0].clone(), frame.specs[0].clone());
    assert_eq!((assigned.spec_id, assigned.timeout_ms), (sent.spec_id, 5000));
    let job_id = taken.job_ids[0];
    assert_eq!(assigned.attempt.job.as_u64(), job_id);
    to.send(result(1, frame.seq, assigned.attempt).into()).await.unwrap();
    let job = jobs.get(v1::GetJobRequest { job_id, index: None, wait_ms: 20_000 }).await.unwrap().into_inner();
    assert_eq!((job.state(), job.exit_code, job.name.as_str()), (v1::JobState::Completed, Some(0), "hello"));
    assert_eq!(job.outputs["answer"], "42");
    let acknowledged = loop {
        let frame = heard(&mut frames).await;
        if frame.ack > 0 {
            break frame.ack;
        }
    };
    assert_eq!(acknowledged, 1);
    let listed = jobs.list(v1::ListJobsRequest::default()).await.unwrap().into_inner();
    assert_eq!(listed.items.len(), 1);
    wire.stop.stop();
    drop((to, frames));
    wire.served.await.unwrap();
}

fn result(seq: u64, ack: u64, attempt: AttemptRef) -> WorkerFrame {
    let outputs = [("answer".to_owned(), "42".to_owned())].into();
    let result = JobResult { exit_code: Some(0), outputs, ..JobResult::new(attempt, Ending::Succeeded) };
    WorkerFrame { seq, ack, epoch: attempt.epoch, results: vec![result], ..WorkerFrame::default() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s4_versions_and_specs_that_do_not_fit_are_refused_with_what_would() {
    let wire = Wire::new().await;
    let refused = wire.register(ProtocolRange { min: 7, max: 9 }).await.unwrap_err();
    assert_eq!(refused.code(), tonic::Code::FailedPrecondition);
    insta::assert_snapshot!(refused.message(), @"this server speaks protocol 1 to 1, the agent 7 to 9; install a release that fits");
    let mut jobs = JobServiceClient::new(wire.channel.clone());
    let bad = v1::JobSpec { priority: Some(12), ..(&spec(&json!({}))).into() };
    let request = v1::SubmitRequest { jobs: vec![bad], idempotency_key: String::new() };
    let problem = Problem::from(jobs.submit(request).await.unwrap_err());
    assert_eq!((problem.code, problem.errors[0].path.as_str()), (Code::InvalidSpec, "jobs[0].priority"));
    let unknown = v1::GetJobRequest { job_id: 77, index: None, wait_ms: 0 };
    assert_eq!(jobs.get(unknown).await.unwrap_err().code(), tonic::Code::NotFound);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s4_a_session_of_another_term_is_told_to_register_again() {
    let mut wire = Wire::new().await;
    let mut registered = wire.register(ProtocolRange::OURS).await.unwrap();
    registered.session = orlop_core::id::SessionId::from_bytes([9; 16]);
    let (_to, mut frames) = wire.open(&registered).await;
    assert_eq!(heard(&mut frames).await.directive.unwrap().kind, DirectiveKind::Reregister);
    assert!(frames.next().await.is_none(), "the stream ends with it");
    wire.bed.stop().await;
}
