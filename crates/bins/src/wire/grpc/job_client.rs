//! What clients call at a server. Never repeats a call.

use std::time::Duration;

use futures::StreamExt;
use futures::stream::BoxStream;
use orlop_core::error::{Code, Problem};
use orlop_core::id::JobId;
use tonic::Request;
use tonic::transport::Channel;

use super::super::MESSAGE_MAX;
use super::super::job::Submission;
use super::super::problem::of_message;
use super::super::proto::v1;
use super::super::proto::v1::job_service_client::JobServiceClient;
use super::call::{Bearer, plain};

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
