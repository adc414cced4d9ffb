//! Who may call what over gRPC: every method of the protocol without a token, with one of too low a role, and for jobs of
//! other tenants.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use orlop_core::error::Code;
use orlop_core::id::{Epoch, JobId, TenantName};
use orlop_core::ports::fleet_store::{
    AuditEntry, AuditFilter, FleetReads as _, FleetStore as _, Page, Record, Token, WriteBatch,
};
use orlop_core::spec::job::JobSpec;
use orlop_core::task::TaskRef;
use orlop_core::time::Time;
use orlop_scheduler::event::Capabilities;
use ring::rand::SystemRandom;
use serde_json::json;
use tonic::Request;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::Channel;
use tonic_prost::ProstCodec;

use super::super::grpc::interceptor::{METHODS, Needs};
use super::super::{Status, Stop, grpc};
use super::agent::{Agent, offer};
use super::fixture::{Fixture, interface, spec, until};
use super::reports::status;
use crate::api::Api;
use crate::api::auth::{Bearer, Role};
use crate::wire::grpc::{Connector, Endpoint, JobClient, Listening, WorkerClient};
use crate::wire::job::Submission;
use crate::wire::status::{AttemptUse, WorkerStatus};
use crate::wire::v1::{CancelJobsRequest, Job, JobFilter, ListJobsRequest, LogsRequest, WatchJobsRequest};

struct Guarded {
    fixture: Fixture,
    channel: Channel,
    /// The token of this machine.
    client: String,
    api: Arc<Api>,
    stop: Stop,
}

impl Guarded {
    async fn new() -> Self {
        let fixture = Fixture::new().await;
        let socket = Listening::bind("127.0.0.1:0".parse().unwrap(), None).await.unwrap();
        let endpoint: Endpoint = format!("http://{}", socket.address()).parse().unwrap();
        let (api, client) = interface(&fixture);
        let stop = Stop::default();
        tokio::spawn(grpc::serve(fixture.handle(), Arc::clone(&api), socket, stop.clone()));
        let channel = Connector::plain(endpoint).unwrap().connect().await.unwrap();
        Self { fixture, channel, client, api, stop }
    }

    /// Makes a token as REST does.
    async fn token(&self, role: Role, tenants: &[&str]) -> String {
        let bearer = Bearer::generate(&SystemRandom::new()).unwrap();
        let token = Token {
            id: bearer.id().as_str().to_owned(),
            hash: bearer.hash().as_bytes().to_vec(),
            kind: "access".to_owned(),
            role: role.as_str().to_owned(),
            tenants: tenants.iter().map(|name| (*name).to_owned()).collect(),
            labels: Vec::new(),
            note: String::new(),
            created_at: Time::EPOCH,
            expires_at: None,
            uses_left: None,
            revoked_at: None,
        };
        let Status::Leading { epoch } = self.fixture.handle().status() else { panic!("it leads") };
        let record = Record::put(&token).unwrap();
        self.fixture.store.commit(epoch, vec![WriteBatch::new(vec![record])]).await.unwrap();
        bearer.reveal()
    }

    /// Makes a tenant.
    async fn tenant(&self, name: &str) {
        let quota = Some(orlop_scheduler::event::Quota::default());
        self.fixture.handle().set_tenant(name.parse().unwrap(), None, quota).await.unwrap();
    }

    fn client(&self, token: &str) -> JobClient {
        JobClient::new(self.channel.clone(), Some(token)).unwrap()
    }

    /// Calls a method with an empty message.
    async fn call(&self, path: &'static str, token: Option<&str>) -> tonic::Code {
        let mut grpc = tonic::client::Grpc::new(self.channel.clone());
        grpc.ready().await.unwrap();
        let mut request = Request::new(());
        if let Some(token) = token {
            request.metadata_mut().insert("authorization", format!("Bearer {token}").parse().unwrap());
        }
        let codec: ProstCodec<(), ()> = ProstCodec::default();
        match grpc.server_streaming(request, PathAndQuery::from_static(path), codec).await {
            Ok(_) => tonic::Code::Ok,
            Err(status) => status.code(),
        }
    }
}

#[test]
fn every_method_of_the_protocol_is_in_the_table() {
    let mut service = String::new();
    let mut written = BTreeSet::new();
    for line in include_str!("../../../../proto/orlop/v1/orlop.proto").lines().map(str::trim) {
        if let Some(name) = line.strip_prefix("service ") {
            service = name.trim_end_matches([' ', '{']).to_owned();
        }
        if let Some(rest) = line.strip_prefix("rpc ") {
            written.insert(format!("/orlop.v1.{service}/{}", rest.split('(').next().unwrap()));
        }
    }
    let table: BTreeSet<String> =
        METHODS.iter().map(|method| method.path.to_owned()).filter(|path| path.starts_with("/orlop.")).collect();
    assert_eq!(table, written);
}

fn cancelling(jobs: &[JobId]) -> CancelJobsRequest {
    CancelJobsRequest { job_ids: jobs.iter().map(|job| job.as_u64()).collect(), ..CancelJobsRequest::default() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_token_and_with_one_of_too_low_a_role_nobody_is_let_in() {
    let guarded = Guarded::new().await;
    assert_eq!(guarded.call("/orlop.v1.JobService/List", Some(&guarded.client)).await, tonic::Code::Ok);
    let viewer = guarded.token(Role::Viewer, &["*"]).await;
    let admin = guarded.token(Role::Admin, &["*"]).await;
    for method in METHODS {
        let role = match method.needs {
            Needs::Role(role) | Needs::WorkerOr(role) => role,
            Needs::Nothing => continue,
            // Over plain text: anyone who may read the client token.
            Needs::Joining | Needs::Worker => {
                for token in [None, Some(&viewer), Some(&admin)] {
                    let answer = guarded.call(method.path, token.map(String::as_str)).await;
                    assert_eq!(answer, tonic::Code::Unauthenticated, "{}", method.path);
                }
                let own = guarded.call(method.path, Some(&guarded.client)).await;
                assert_ne!(own, tonic::Code::Unauthenticated, "{}", method.path);
                continue;
            }
        };
        assert_eq!(guarded.call(method.path, None).await, tonic::Code::Unauthenticated, "{}", method.path);
        let forged = format!("orlop_{}_{}", "0".repeat(16), "0".repeat(52));
        assert_eq!(guarded.call(method.path, Some(&forged)).await, tonic::Code::Unauthenticated, "{}", method.path);
        let seen = guarded.call(method.path, Some(&viewer)).await;
        assert_eq!(seen == tonic::Code::PermissionDenied, role != Role::Viewer, "{}: {seen:?}", method.path);
        let all = guarded.call(method.path, Some(&admin)).await;
        assert!(!matches!(all, tonic::Code::Unauthenticated | tonic::Code::PermissionDenied), "{}", method.path);
    }
    assert_eq!(guarded.call("/orlop.v1.JobService/Erase", Some(&admin)).await, tonic::Code::NotFound);
    assert_eq!(guarded.call("/grpc.health.v1.Health/Check", None).await, tonic::Code::Ok);
    let counted = guarded.api.metrics().text().unwrap();
    assert!(
        counted.contains(r#"orlop_grpc_requests_total{method="JobService/Submit",code="PermissionDenied"} 1"#),
        "{counted}"
    );
    guarded.stop.stop();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_of_other_tenants_are_not_there() {
    let guarded = Guarded::new().await;
    let admin = guarded.client(&guarded.token(Role::Admin, &["*"]).await);
    guarded.tenant("physics").await;
    let submit = |tenant: Option<&str>| {
        let spec = JobSpec { tenant: tenant.map(|name| name.parse().unwrap()), ..spec(&json!({})) };
        Submission { jobs: vec![spec], key: None }
    };
    let foreign: JobId = admin.submit(submit(None)).await.unwrap().jobs()[0];
    let own = guarded.client(&guarded.token(Role::Submitter, &["physics"]).await);
    let mine = own.submit(submit(None)).await.unwrap().jobs()[0];
    assert_eq!(guarded.fixture.store.job(mine).await.unwrap().unwrap().job.tenant.as_str(), "physics");
    assert_eq!(own.submit(submit(Some("default"))).await.unwrap_err().code, Code::Forbidden);
    let not_found = |code: Code| assert_eq!(code, Code::NotFound);
    not_found(own.job(foreign, None, Duration::ZERO).await.unwrap_err().code);
    not_found(own.cancel(cancelling(&[mine, foreign])).await.unwrap_err().code);
    not_found(own.retry(foreign, None).await.unwrap_err().code);
    not_found(own.explain(foreign, None).await.unwrap_err().code);
    let logs = LogsRequest { job_id: foreign.as_u64(), ..LogsRequest::default() };
    not_found(own.logs(logs).await.map(|_| ()).unwrap_err().code);
    let watching =
        WatchJobsRequest { job_ids: vec![foreign.as_u64()], until_ended: true, ..WatchJobsRequest::default() };
    not_found(own.watch(watching).await.map(|_| ()).unwrap_err().code);
    let listed = own.jobs(ListJobsRequest::default()).await.unwrap();
    assert_eq!(listed.items.iter().map(Job::id).collect::<Vec<_>>(), [mine]);
    let asked = ListJobsRequest {
        filter: Some(JobFilter { tenant: "default".to_owned(), ..JobFilter::default() }),
        ..ListJobsRequest::default()
    };
    assert!(own.jobs(asked).await.unwrap().items.is_empty());
    let all = CancelJobsRequest { filter: Some(JobFilter::default()), ..CancelJobsRequest::default() };
    assert_eq!(own.cancel(all).await.unwrap().cancelled, 1);
    assert_eq!(admin.jobs(ListJobsRequest::default()).await.unwrap().items.len(), 2);
    let row = guarded.fixture.store.job(mine).await.unwrap().unwrap();
    assert!(row.job.correlation_id.is_some_and(|id| !id.is_empty()), "one is made where the client has none");
    guarded.stop.stop();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workers_of_other_tenants_are_not_there() {
    let guarded = Guarded::new().await;
    let handle = guarded.fixture.handle();
    for (id, tenants) in [("w-all", &[][..]), ("w-theirs", &["chemistry"]), ("w-ours", &["physics"])] {
        let tenants = tenants.iter().map(|name| name.parse().unwrap()).collect();
        let agent = Agent::offering(&handle, id, "state-1", Capabilities { tenants, ..offer(1) }).await;
        let mut agent = agent.unwrap();
        let (job, epoch) = (JobId::from_u64(77), Epoch(1));
        let attempt = TaskRef { job, index: 0, member: 0, attempt: 1, epoch };
        let in_use = vec![AttemptUse::of(attempt, 1, 1)];
        let (worker_id, refs) = (id.to_owned(), vec![attempt.into()]);
        agent.report(WorkerStatus { worker_id, refs, in_use, ..status(0.0) }).await;
        agent.beat().await;
    }
    let token = guarded.token(Role::Operator, &["physics"]).await;
    guarded.tenant("physics").await;
    let jobs = guarded.client(&token);
    let job = jobs.submit(Submission { jobs: vec![spec(&json!({ "resources": { "cpu_m": 1_000_000 } }))], key: None });
    let job = job.await.unwrap().jobs()[0];
    // A snapshot is made when some time has passed since the last one.
    guarded.fixture.pass(Duration::from_millis(200));
    until("a snapshot with the workers", async || (handle.snapshot().workers.len() == 3).then_some(())).await;
    let client = |token: &str| WorkerClient::new(guarded.channel.clone(), Some(token)).unwrap();
    let (ours, admin) = (client(&token), client(&guarded.token(Role::Admin, &["*"]).await));
    for (id, seen) in [("w-all", true), ("w-theirs", false), ("w-ours", true), ("w-none", false)] {
        let id = id.parse().unwrap();
        let status = ours.worker_status(&id).await;
        assert_eq!(
            status.as_ref().err().map(|refusal| refusal.code),
            (!seen).then_some(Code::NotFound),
            "{id}: {status:?}"
        );
        let placed = ours.place(&id, job).await.unwrap_err().code;
        assert_eq!(placed == Code::NotFound, !seen, "{id}: {placed:?}");
        let all = admin.worker_status(&id).await.ok().map(|all| (all.refs.len(), all.in_use.len()));
        assert_eq!(all, (id.as_str() != "w-none").then_some((1, 1)));
        let shown = status.ok().map(|status| (status.refs.len(), status.in_use.len()));
        assert_eq!(shown, seen.then_some((0, 0)), "whose they are, nobody said");
    }
    guarded.stop.stop();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_audit_trail_names_the_tenant_a_call_was_about() {
    let guarded = Guarded::new().await;
    let admin = guarded.client(&guarded.token(Role::Admin, &["*"]).await);
    guarded.tenant("physics").await;
    let job = JobSpec { tenant: Some("physics".parse().unwrap()), ..spec(&json!({})) };
    let job = admin.submit(Submission { jobs: vec![job], key: None }).await.unwrap().jobs()[0];
    admin.cancel(cancelling(&[job])).await.unwrap();
    let stranger = guarded.client(&guarded.token(Role::Submitter, &["chemistry"]).await);
    assert!(stranger.cancel(cancelling(&[job])).await.is_err());
    for _ in 0..3 {
        assert_eq!(guarded.call("/orlop.v1.JobService/List", None).await, tonic::Code::Unauthenticated);
    }
    let viewer = guarded.token(Role::Viewer, &["chemistry"]).await;
    assert_eq!(guarded.call("/orlop.v1.JobService/Submit", Some(&viewer)).await, tonic::Code::PermissionDenied);
    let entries = until("the trail", async || {
        let found = guarded.fixture.store.audit(&AuditFilter::default(), &Page::first(10)).await.unwrap().items;
        (found.len() >= 5).then_some(found)
    });
    let entries: Vec<_> = entries.await;
    let line = |at: usize| {
        let AuditEntry { action, tenant, outcome, .. } = &entries[at];
        (&**action, tenant.as_ref().map(TenantName::as_str), &**outcome)
    };
    assert_eq!(line(0), ("jobs.submit", Some("physics"), "ok"));
    assert_eq!(line(1), ("jobs.cancel", Some("physics"), "ok"));
    assert_eq!(line(2), ("jobs.cancel", Some("physics"), "NotFound"), "whose it is, not who asked");
    assert_eq!(line(3), ("jobs.list", None, "Unauthenticated"), "a read, and once");
    assert_eq!((line(4), entries.len()), (("jobs.submit", Some("chemistry"), "PermissionDenied"), 5));
    assert!(viewer.contains(&entries[4].actor), "who was refused is known: {}", entries[4].actor);
    guarded.stop.stop();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_token_takes_all_streams_of_the_protocol_either() {
    let guarded = Guarded::new().await;
    let [greedy, other] = [guarded.token(Role::Viewer, &["a"]).await, guarded.token(Role::Viewer, &["a"]).await];
    let watch = async |token: &str| {
        let watching = WatchJobsRequest::default();
        guarded.client(token).watch(watching).await
    };
    let mut open = Vec::new();
    for _ in 0..100 {
        open.push(watch(&greedy).await.unwrap());
    }
    assert_eq!(watch(&greedy).await.map(drop).unwrap_err().code, Code::RateLimited);
    open.push(watch(&other).await.unwrap());
    open.clear();
    while watch(&greedy).await.is_err() {
        tokio::task::yield_now().await;
    }
}
