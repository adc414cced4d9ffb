//! What clients call.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt;
use orlop_core::error::{Code, Problem, QuotaUse};
use orlop_core::id::{Epoch, JobId};
use orlop_core::spec::job::JobSpec;
use orlop_core::task::{LogStream, TaskRef};
use orlop_core::time::Time;

use super::super::super::attempt::LogChunk;
use super::super::super::job::{BATCH_MAX, Submission};
use super::super::super::proto::v1::job_service_client::JobServiceClient;
use super::super::super::proto::v1::{
    CancelJobsRequest, CancelJobsResponse, ExplainJobRequest, ExplainJobResponse, Job, JobEvent, JobFilter, JobState,
    ListJobsRequest, ListJobsResponse, LogsRequest, LogsResponse, StateCount, SubmitResponse, WatchJobsRequest,
};
use super::super::super::query::Cancellation;
use super::workers::{Served, served_channel};
use super::*;

/// Answers every question with what it was asked.
pub(super) struct Desk;

fn view(job: u64, name: &str) -> Job {
    let count = |state: JobState, count| StateCount { state: state.into(), count };
    Job {
        job_id: job,
        index: Some(3),
        tenant: "t".into(),
        name: name.into(),
        labels: [("a".to_owned(), "b".to_owned())].into(),
        state: JobState::TimedOut.into(),
        reason: "timeout".into(),
        priority: 5,
        count: 9,
        counts: vec![count(JobState::Completed, 8), count(JobState::Failed, 1)],
        attempt: 2,
        retries: 1,
        worker_id: "w-1".into(),
        exit_code: Some(-1),
        submitted_at: 1,
        queued_at: 2,
        started_at: 3,
        finished_at: 0,
        retry_of: 1,
        correlation_id: "c".into(),
        outputs: [("k".to_owned(), "v".to_owned())].into(),
        revision: 7,
    }
}

fn chunk(query: &LogsRequest) -> LogChunk {
    let (job, index) = (JobId::from_u64(query.job_id), query.index.unwrap_or(0));
    let attempt = TaskRef { job, index, member: 0, attempt: query.attempt, epoch: Epoch(1) };
    let (seq, time) = (query.since_seq, Some(Time::from_millis(query.since)));
    LogChunk::new(attempt, LogStream::System, seq, Bytes::from_static(b"x")).with_time_and_gap(time, None)
}

#[async_trait]
impl JobHost for Desk {
    async fn submit(&self, _: Caller, submission: Submission) -> Result<SubmitResponse, Problem> {
        if submission.jobs.iter().any(|job| job.name == "full") {
            let quota = QuotaUse { name: "max_pending_jobs".into(), limit: 1, used: 2 };
            return Err(Problem::coded(Code::QuotaExceeded, "too many wait")
                .retry_after(Duration::from_millis(10))
                .with_quota(quota));
        }
        // The first takes longer than those behind it.
        if submission.jobs.iter().any(|job| job.name == "slow") {
            for _ in 0..100 {
                tokio::task::yield_now().await;
            }
        }
        let job_ids = submission.jobs.iter().map(|job| u64::from(job.priority)).collect();
        Ok(SubmitResponse { job_ids, replay: submission.key.is_some(), warnings: vec!["w".into()] })
    }

    async fn job(&self, _: Caller, job: JobId, index: Option<u32>, wait: Duration) -> Result<Job, Problem> {
        Ok(Job { index, ..view(job.as_u64(), &format!("{wait:?}")) })
    }

    async fn jobs(&self, _: Caller, query: ListJobsRequest) -> Result<ListJobsResponse, Problem> {
        let item = view(u64::from(query.limit), &format!("{:?}", query.filter.unwrap_or_default()));
        Ok(ListJobsResponse { items: vec![item], next_cursor: query.cursor })
    }

    async fn cancel(&self, _: Caller, what: Cancellation) -> Result<CancelJobsResponse, Problem> {
        Ok(match what {
            Cancellation::Jobs(jobs) => CancelJobsResponse { cancelled: jobs.len() as u64, ended: 0 },
            Cancellation::Elements(_, indices) => CancelJobsResponse { cancelled: 0, ended: indices.count() },
            Cancellation::Filter(filter) => CancelJobsResponse { cancelled: 99, ended: filter.states.len() as u64 },
        })
    }

    async fn retry(&self, _: Caller, job: JobId, key: Option<String>) -> Result<JobId, Problem> {
        match key {
            Some(_) => Ok(JobId::from_u64(job.as_u64() + 1)),
            None => Err(Problem::coded(Code::Conflict, "it has not ended")),
        }
    }

    async fn explain(&self, caller: Caller, job: JobId, _: Option<u32>) -> Result<ExplainJobResponse, Problem> {
        if job.as_u64() == 0 {
            std::future::pending::<()>().await;
        }
        Ok(ExplainJobResponse { summary: job.to_string(), json: caller.token.unwrap_or_default() })
    }

    async fn watch(&self, _: Caller, watching: WatchJobsRequest) -> Result<Answers<JobEvent>, Problem> {
        let after = watching.after;
        let event =
            move |job| Ok(JobEvent { id: after + 1, time: 0, job: Some(view(job, "")), lagged: watching.until_ended });
        let ended = Err(Problem::coded(Code::NotLeader, "another server leads"));
        Ok(futures::stream::iter(watching.job_ids).map(event).chain(futures::stream::iter([ended])).boxed())
    }

    async fn logs(&self, _: Caller, query: LogsRequest) -> Result<Answers<LogsResponse>, Problem> {
        let page = LogsResponse { chunks: vec![chunk(&query)], end: !query.follow };
        Ok(futures::stream::iter([Ok(page)]).boxed())
    }
}

async fn client() -> (Served, JobClient) {
    let served = Served::start(None).await;
    let client = JobClient::new(served_channel(&served).await, Some("token")).unwrap();
    (served, client)
}

fn named(name: &str, priority: u8) -> Submission {
    let job = JobSpec { name: name.into(), command: vec!["a".into()], priority, ..JobSpec::default() };
    Submission { jobs: vec![job], key: None }
}

#[tokio::test]
async fn submits_are_checked_in_full_before_the_server_hears_of_them() {
    let (_served, client) = client().await;
    let keyed = Submission { key: Some("k".into()), ..named("a", 4) };
    let answer = client.submit(keyed).await.unwrap();
    assert_eq!((answer.job_ids, answer.replay, answer.warnings), (vec![4], true, vec!["w".to_owned()]));
    let mut wrong = named("a", 77);
    wrong.jobs.push(JobSpec::default());
    wrong.jobs.push(JobSpec { name: "x".repeat(200), ..named("a", 1).jobs.remove(0) });
    let problem = client.submit(wrong).await.unwrap_err();
    let shown: Vec<String> = problem.fields.iter().map(|error| format!("{}: {}", error.path, error.message)).collect();
    insta::assert_snapshot!(shown.join("\n"), @r"
    jobs[0].priority: is 77; use 0 to 9
    jobs[1].command: is missing; use a command or a script
    jobs[2].name: has 200 bytes; at most 128 are allowed
    ");
    let problem = client.submit(named("full", 1)).await.unwrap_err();
    let quota = problem.details().quota.clone().unwrap();
    assert_eq!((problem.code, problem.retry_after), (Code::QuotaExceeded, Some(Duration::from_millis(10))));
    assert_eq!(quota.used, 2);
    let none = Submission { jobs: Vec::new(), key: None };
    insta::assert_snapshot!(client.submit(none).await.unwrap_err(), @"jobs: is empty; submit one or more");
    let many = Submission { jobs: vec![named("", 1).jobs.remove(0); BATCH_MAX + 1], key: None };
    insta::assert_snapshot!(client.submit(many).await.unwrap_err(), @"10001 jobs are too many for one submit; use at most 10000");
    let long = Submission { key: Some("k".repeat(129)), ..named("a", 1) };
    insta::assert_snapshot!(client.submit(long).await.unwrap_err(), @"idempotency_key: is 129 long; use at most 128");
}

#[tokio::test]
async fn batches_of_a_stream_are_acknowledged_in_their_order() {
    let (_served, client) = client().await;
    let batches = [named("slow", 1), named("a", 2), named("full", 3), named("a", 99), named("a", 4)];
    let acks = client.submit_stream(futures::stream::iter(batches).boxed()).await.unwrap();
    let acks: Vec<_> = acks.map(|ack| ack.map(|ack| ack.job_ids[0]).map_err(|problem| problem.code)).collect().await;
    assert_eq!(acks, [Ok(1), Ok(2), Err(Code::QuotaExceeded), Err(Code::InvalidSpec), Ok(4)]);
}

#[tokio::test]
async fn questions_and_answers_arrive_as_they_were_sent() {
    let (_served, client) = client().await;
    let job = JobId::from_u64(5);
    let seen = client.job(job, Some(3), Duration::from_secs(99)).await.unwrap();
    assert_eq!(seen, view(5, "25s"));
    let filter = JobFilter {
        states: vec![JobState::Queued.into()],
        tenant: "t".into(),
        labels: [("a".to_owned(), "b".to_owned())].into(),
        since: 9,
    };
    let query = ListJobsRequest { filter: Some(filter.clone()), limit: 7, cursor: "c".into() };
    let page = client.jobs(query.clone()).await.unwrap();
    assert_eq!(page, ListJobsResponse { items: vec![view(7, &format!("{filter:?}"))], next_cursor: "c".into() });
    assert_eq!(client.jobs(ListJobsRequest::default()).await.unwrap().items[0].job_id, 0);
    assert_eq!(client.jobs(ListJobsRequest { limit: 1001, ..query }).await.unwrap_err().code, Code::InvalidSpec);

    let asked = |jobs: &[u64], indices: &str, filter| CancelJobsRequest {
        job_ids: jobs.to_vec(),
        indices: indices.to_owned(),
        filter,
    };
    let cancel = async |what| client.cancel(what).await.map(|answer| (answer.cancelled, answer.ended));
    assert_eq!(cancel(asked(&[5, 5], "", None)).await.unwrap(), (2, 0));
    assert_eq!(cancel(asked(&[5], "0-9", None)).await.unwrap(), (0, 10));
    assert_eq!(cancel(asked(&[], "", Some(filter))).await.unwrap(), (99, 1));
    insta::assert_snapshot!(cancel(asked(&[], "", None)).await.unwrap_err(), @"job_ids: needs jobs, one job with indices, or a filter in their place");

    assert_eq!(client.retry(job, Some("k".into())).await.unwrap(), JobId::from_u64(6));
    assert_eq!(client.retry(job, None).await.unwrap_err().code, Code::Conflict);
    let explained = client.explain(job, None).await.unwrap();
    assert_eq!((explained.summary, explained.json.as_str()), (job.to_string(), "token"));
}

#[tokio::test]
async fn events_and_logs_come_until_they_end() {
    let (_served, client) = client().await;
    let watching = WatchJobsRequest { job_ids: vec![1, 2], after: 4, until_ended: true, filter: None };
    let events: Vec<_> = client.watch(watching).await.unwrap().collect().await;
    let event = |job| JobEvent { id: 5, time: 0, job: Some(view(job, "")), lagged: true };
    assert_eq!((events.len(), events[1].as_ref().unwrap()), (3, &event(2)));
    assert_eq!(events[2].as_ref().unwrap_err().code, Code::NotLeader);
    let query = LogsRequest { job_id: 1, index: Some(2), attempt: 3, stream: 3, follow: false, since_seq: 4, since: 5 };
    let pages: Vec<LogsResponse> = client.logs(query).await.unwrap().map(Result::unwrap).collect().await;
    assert_eq!(pages, [LogsResponse { chunks: vec![chunk(&query)], end: true }]);
}

#[tokio::test]
async fn a_connection_has_1024_streams_at_most() {
    let (_served, client) = client().await;
    let open = || client.submit_stream(futures::stream::pending().boxed());
    let (end, ended) = tokio::sync::oneshot::channel::<Submission>();
    let short = futures::stream::once(ended).filter_map(async |batch| batch.ok()).boxed();
    let mut first = client.submit_stream(short).await.unwrap();
    let mut streams = Vec::new();
    for _ in 1..1024 {
        streams.push(open().await.unwrap());
    }
    let mut next = Box::pin(open());
    let waited = tokio::time::timeout(Duration::from_millis(300), &mut next).await;
    assert!(waited.is_err(), "there are as many as may be");
    // Its batches are over: the stream ends on both sides.
    drop(end);
    assert!(first.next().await.is_none());
    drop(tokio::time::timeout(Duration::from_secs(60), next).await.expect("one has ended").unwrap());
}

#[tokio::test]
async fn headers_have_16_kib_at_most() {
    let (served, _) = client().await;
    let ask = async |bytes: usize| {
        let client = JobClient::new(served_channel(&served).await, Some(&"x".repeat(bytes))).unwrap();
        client.explain(JobId::from_u64(1), None).await
    };
    assert_eq!(ask(12 << 10).await.unwrap().json.len(), 12 << 10);
    assert!(ask(20 << 10).await.is_err());
}

#[tokio::test]
async fn a_call_that_says_no_deadline_has_30_seconds() {
    assert_eq!(DEADLINE, Duration::from_secs(30));
    // As if they were over soon.
    let listening = Listening::bind("127.0.0.1:0".parse().unwrap(), None).await.unwrap();
    let served = Served::on(listening.ends_after(Duration::from_millis(200)));
    let mut client = JobServiceClient::new(served_channel(&served).await);
    let ask = |job: u64| ExplainJobRequest { job_id: job, index: None };
    assert!(client.explain(ask(1)).await.is_ok());
    let late = client.explain(ask(0)).await.unwrap_err();
    assert_eq!(late.code(), tonic::Code::DeadlineExceeded);
    insta::assert_snapshot!(late.message(), @"no answer within 200ms; send grpc-timeout to wait longer");
    // Anyone who says how long it waits is waited for.
    let mut patient = tonic::Request::new(ask(0));
    patient.set_timeout(Duration::from_secs(60));
    let patient = tokio::time::timeout(Duration::from_millis(500), client.explain(patient)).await;
    assert!(patient.is_err(), "{patient:?}");
    // A stream has no end.
    let client = JobClient::new(served_channel(&served).await, None).unwrap();
    let (batches, sent) = futures::channel::mpsc::unbounded();
    let mut acks = client.submit_stream(sent.boxed()).await.unwrap();
    tokio::time::sleep(Duration::from_millis(300)).await;
    batches.unbounded_send(named("late", 1)).unwrap();
    assert_eq!(acks.next().await.unwrap().unwrap().job_ids, [1]);
}
