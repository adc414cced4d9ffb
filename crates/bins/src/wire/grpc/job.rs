//! The service that clients call, for a server that implements [`JobHost`], and its client. Never answers by itself and never
//! repeats a call.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::StreamExt;
use futures::stream::BoxStream;
use orlop_core::error::{Code, Problem};
use orlop_core::id::JobId;
use tonic::transport::Channel;
use tonic::{Request, Response, Status, Streaming};

use super::super::MESSAGE_MAX;
use super::super::bound::{at_most, checked};
use super::super::job::{KEY_MAX, Submission};
use super::super::problem::{message, of_message, status};
use super::super::proto::v1;
use super::super::proto::v1::job_service_client::JobServiceClient;
use super::super::proto::v1::job_service_server::JobService;
use super::super::query::{Cancellation, WAIT_MAX};
use super::call::{Bearer, bad, plain};
use super::{CallInterceptor, Caller};
use crate::api::auth::Concern;

/// Batches of one stream of submits that are under way at once.
const BATCHES: usize = 8;

/// Answers that come one after the other. An error is the last item.
pub type Answers<T> = BoxStream<'static, Result<T, Problem>>;

/// What a server does for clients. The caller is not authorised yet: that is the first thing each of these does.
#[async_trait]
pub trait JobHost: Send + Sync + 'static {
    /// Takes all of the jobs or none; answers once they are committed.
    ///
    /// # Errors
    /// None was taken.
    async fn submit(&self, caller: Caller, submission: Submission) -> Result<v1::SubmitResponse, Problem>;

    /// A job or an element; with `wait` answers when it has ended, or after so long.
    ///
    /// # Errors
    /// There is none that the caller may see.
    async fn job(&self, caller: Caller, job: JobId, index: Option<u32>, wait: Duration) -> Result<v1::Job, Problem>;

    /// A page of jobs.
    ///
    /// # Errors
    /// The cursor is none of this server.
    async fn jobs(&self, caller: Caller, query: v1::ListJobsRequest) -> Result<v1::ListJobsResponse, Problem>;

    /// Cancels jobs.
    ///
    /// # Errors
    /// One of them is none that the caller may cancel.
    async fn cancel(&self, caller: Caller, what: Cancellation) -> Result<v1::CancelJobsResponse, Problem>;

    /// Submits a job again that has ended.
    ///
    /// # Errors
    /// It has not ended, or nothing of it was unsuccessful.
    async fn retry(&self, caller: Caller, job: JobId, key: Option<String>) -> Result<JobId, Problem>;

    /// Why a job is where it is.
    ///
    /// # Errors
    /// There is none that the caller may see.
    async fn explain(&self, caller: Caller, job: JobId, index: Option<u32>) -> Result<v1::ExplainJobResponse, Problem>;

    /// Events of jobs as they happen.
    ///
    /// # Errors
    /// One of them is none that the caller may see.
    async fn watch(&self, caller: Caller, watching: v1::WatchJobsRequest) -> Result<Answers<v1::JobEvent>, Problem>;

    /// A log, and what comes later if that is asked for.
    ///
    /// # Errors
    /// There is none that the caller may see.
    async fn logs(&self, caller: Caller, query: v1::LogsRequest) -> Result<Answers<v1::LogsResponse>, Problem>;
}

/// The path of the method whose messages are reported one by one.
pub(crate) const SUBMIT_STREAM: &str = "/orlop.v1.JobService/SubmitStream";

/// The service over a host, and who hears of each batch of a stream.
pub(super) struct JobApi(pub(super) Arc<dyn JobHost>, pub(super) Option<Arc<dyn CallInterceptor>>);

fn answers<A: 'static>(answers: Answers<A>) -> BoxStream<'static, Result<A, Status>> {
    answers.map(|answer| answer.map_err(status)).boxed()
}

/// Takes one batch of a stream and says what became of it.
async fn batch(
    host: Arc<dyn JobHost>,
    interceptor: Option<Arc<dyn CallInterceptor>>,
    caller: Caller,
    number: u64,
    request: Result<v1::SubmitRequest, Status>,
) -> Result<v1::SubmitAck, Status> {
    let answer = match Submission::try_from(request?) {
        Ok(submission) => host.submit(caller.clone(), submission).await,
        Err(refused) => Err(refused),
    };
    if let Some(interceptor) = interceptor {
        let code =
            answer.as_ref().map_or_else(|problem| tonic::Code::from_i32(problem.code.grpc()), |_| tonic::Code::Ok);
        interceptor.taken(SUBMIT_STREAM, &caller, code).await;
    }
    let ack = v1::SubmitAck { batch: number, ..v1::SubmitAck::default() };
    Ok(match answer {
        Ok(answer) => v1::SubmitAck { accepted: Some(answer), ..ack },
        Err(problem) => v1::SubmitAck { refused: Some(message(&problem)), ..ack },
    })
}

#[tonic::async_trait]
impl JobService for JobApi {
    async fn submit(&self, request: Request<v1::SubmitRequest>) -> Result<Response<v1::SubmitResponse>, Status> {
        let caller = Caller::of(&request);
        let submission = Submission::try_from(request.into_inner()).map_err(status)?;
        Ok(Response::new(self.0.submit(caller, submission).await.map_err(status)?))
    }

    type SubmitStreamStream = BoxStream<'static, Result<v1::SubmitAck, Status>>;

    async fn submit_stream(
        &self,
        request: Request<Streaming<v1::SubmitRequest>>,
    ) -> Result<Response<Self::SubmitStreamStream>, Status> {
        let (caller, host, interceptor) = (Caller::of(&request), Arc::clone(&self.0), self.1.clone());
        let numbered = futures::stream::iter(1..).zip(request.into_inner());
        // Each batch may be about another tenant.
        let own = move || Caller { concern: Concern::default(), ..caller.clone() };
        let acks = numbered
            .map(move |(number, request)| batch(Arc::clone(&host), interceptor.clone(), own(), number, request))
            .buffered(BATCHES);
        Ok(Response::new(acks.boxed()))
    }

    async fn get(&self, request: Request<v1::GetJobRequest>) -> Result<Response<v1::Job>, Status> {
        let caller = Caller::of(&request);
        let v1::GetJobRequest { job_id, index, wait_ms } = request.into_inner();
        let wait = Duration::from_millis(wait_ms).min(WAIT_MAX);
        Ok(Response::new(self.0.job(caller, JobId::from_u64(job_id), index, wait).await.map_err(status)?))
    }

    async fn list(&self, request: Request<v1::ListJobsRequest>) -> Result<Response<v1::ListJobsResponse>, Status> {
        let caller = Caller::of(&request);
        let query = checked(request.into_inner()).map_err(bad)?;
        Ok(Response::new(self.0.jobs(caller, query).await.map_err(status)?))
    }

    async fn cancel(
        &self,
        request: Request<v1::CancelJobsRequest>,
    ) -> Result<Response<v1::CancelJobsResponse>, Status> {
        let caller = Caller::of(&request);
        let what = request.into_inner().try_into().map_err(bad)?;
        Ok(Response::new(self.0.cancel(caller, what).await.map_err(status)?))
    }

    async fn retry(&self, request: Request<v1::RetryJobRequest>) -> Result<Response<v1::RetryJobResponse>, Status> {
        let caller = Caller::of(&request);
        let v1::RetryJobRequest { job_id, idempotency_key: key } = request.into_inner();
        at_most("idempotency_key", key.len(), KEY_MAX).map_err(bad)?;
        let key = (!key.is_empty()).then_some(key);
        let again = self.0.retry(caller, JobId::from_u64(job_id), key).await.map_err(status)?;
        Ok(Response::new(v1::RetryJobResponse { job_id: again.as_u64() }))
    }

    async fn explain(
        &self,
        request: Request<v1::ExplainJobRequest>,
    ) -> Result<Response<v1::ExplainJobResponse>, Status> {
        let caller = Caller::of(&request);
        let v1::ExplainJobRequest { job_id, index } = request.into_inner();
        Ok(Response::new(self.0.explain(caller, JobId::from_u64(job_id), index).await.map_err(status)?))
    }

    type WatchStream = BoxStream<'static, Result<v1::JobEvent, Status>>;

    async fn watch(&self, request: Request<v1::WatchJobsRequest>) -> Result<Response<Self::WatchStream>, Status> {
        let caller = Caller::of(&request);
        let watching = checked(request.into_inner()).map_err(bad)?;
        Ok(Response::new(answers(self.0.watch(caller, watching).await.map_err(status)?)))
    }

    type LogsStream = BoxStream<'static, Result<v1::LogsResponse, Status>>;

    async fn logs(&self, request: Request<v1::LogsRequest>) -> Result<Response<Self::LogsStream>, Status> {
        let caller = Caller::of(&request);
        let query = request.into_inner();
        Ok(Response::new(answers(self.0.logs(caller, query).await.map_err(status)?)))
    }
}

/// A connection of a client. Cheap to clone.
#[derive(Clone, Debug)]
pub struct JobClient {
    inner: JobServiceClient<Channel>,
    bearer: Bearer,
}

impl JobClient {
    /// A client over a connection, with a bearer token if it has one.
    ///
    /// # Errors
    /// The token cannot stand in a header.
    pub fn new(channel: Channel, token: Option<&str>) -> Result<Self, Problem> {
        let inner = JobServiceClient::new(channel)
            .max_decoding_message_size(MESSAGE_MAX)
            .max_encoding_message_size(MESSAGE_MAX);
        Ok(Self { inner, bearer: Bearer::new(token)? })
    }

    fn request<T>(&self, message: T) -> Request<T> {
        self.bearer.unary(message)
    }

    /// Submits jobs, all or none; answers once they are committed.
    ///
    /// # Errors
    /// None was taken, or the answer was lost: with a key the submit may be repeated.
    pub async fn submit(&self, submission: Submission) -> Result<v1::SubmitResponse, Problem> {
        let answer = self.inner.clone().submit(self.request(submission.into())).await.map_err(plain)?;
        Ok(answer.into_inner())
    }

    /// Submits batch after batch; the answers come in the order of the batches.
    ///
    /// # Errors
    /// The stream cannot be opened.
    pub async fn submit_stream(
        &self,
        batches: BoxStream<'static, Submission>,
    ) -> Result<BoxStream<'static, Result<v1::SubmitResponse, Problem>>, Problem> {
        let request = self.bearer.stream(batches.map(v1::SubmitRequest::from));
        let acks = self.inner.clone().submit_stream(request).await.map_err(plain)?.into_inner();
        let answer = |ack: Result<v1::SubmitAck, tonic::Status>| match ack.map_err(plain)? {
            v1::SubmitAck { accepted: Some(answer), .. } => Ok(answer),
            v1::SubmitAck { refused: Some(problem), .. } => Err(of_message(problem)),
            _ => Err(Problem::coded(Code::Internal, "the server neither took nor refused a batch")),
        };
        Ok(acks.map(answer).boxed())
    }

    /// A job or an element; with `wait` answers when it has ended, or after so long (at most 25 s).
    ///
    /// # Errors
    /// There is none that the caller may see.
    pub async fn job(&self, job: JobId, index: Option<u32>, wait: Duration) -> Result<v1::Job, Problem> {
        let wait_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
        let message = v1::GetJobRequest { job_id: job.as_u64(), index, wait_ms };
        Ok(self.inner.clone().get(self.request(message)).await.map_err(plain)?.into_inner())
    }

    /// A page of jobs.
    ///
    /// # Errors
    /// The cursor is none of the server.
    pub async fn jobs(&self, query: v1::ListJobsRequest) -> Result<v1::ListJobsResponse, Problem> {
        Ok(self.inner.clone().list(self.request(query)).await.map_err(plain)?.into_inner())
    }

    /// Cancels jobs.
    ///
    /// # Errors
    /// One of them is none that the caller may cancel.
    pub async fn cancel(&self, what: v1::CancelJobsRequest) -> Result<v1::CancelJobsResponse, Problem> {
        Ok(self.inner.clone().cancel(self.request(what)).await.map_err(plain)?.into_inner())
    }

    /// Submits a job again that has ended.
    ///
    /// # Errors
    /// It has not ended, or nothing of it was unsuccessful.
    pub async fn retry(&self, job: JobId, key: Option<String>) -> Result<JobId, Problem> {
        let message = v1::RetryJobRequest { job_id: job.as_u64(), idempotency_key: key.unwrap_or_default() };
        let answer = self.inner.clone().retry(self.request(message)).await.map_err(plain)?.into_inner();
        Ok(JobId::from_u64(answer.job_id))
    }

    /// Why a job is where it is.
    ///
    /// # Errors
    /// There is none that the caller may see.
    pub async fn explain(&self, job: JobId, index: Option<u32>) -> Result<v1::ExplainJobResponse, Problem> {
        let message = v1::ExplainJobRequest { job_id: job.as_u64(), index };
        Ok(self.inner.clone().explain(self.request(message)).await.map_err(plain)?.into_inner())
    }

    /// Events of jobs as they happen.
    ///
    /// # Errors
    /// One of them is none that the caller may see.
    pub async fn watch(
        &self,
        watching: v1::WatchJobsRequest,
    ) -> Result<BoxStream<'static, Result<v1::JobEvent, Problem>>, Problem> {
        let request = self.bearer.stream(watching);
        let events = self.inner.clone().watch(request).await.map_err(plain)?.into_inner();
        Ok(events.map(|event| event.map_err(plain)).boxed())
    }

    /// A log, and what comes later if that is asked for.
    ///
    /// # Errors
    /// There is none that the caller may see.
    pub async fn logs(
        &self,
        query: v1::LogsRequest,
    ) -> Result<BoxStream<'static, Result<v1::LogsResponse, Problem>>, Problem> {
        let request = self.bearer.stream(query);
        let pages = self.inner.clone().logs(request).await.map_err(plain)?.into_inner();
        Ok(pages.map(|page| page.map_err(plain)).boxed())
    }
}
