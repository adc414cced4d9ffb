//! What an agent calls at its server, in plain types. Never repeats a call.

use futures::StreamExt;
use futures::stream::BoxStream;
use orlop_core::error::{Code, Problem};
use orlop_core::id::{JobId, WorkerId};
use orlop_core::task::TaskRef;
use tokio::sync::mpsc;
use tonic::Request;
use tonic::transport::Channel;

use super::super::MESSAGE_MAX;
use super::super::frame::{ServerFrame, WorkerFrame};
use super::super::proto::v1;
use super::super::proto::v1::worker_service_client::WorkerServiceClient;
use super::super::status::{Heartbeat, WorkerStatus};
use super::super::worker::{Registered, Registration};
use super::OPENING;
use super::call::{Bearer, plain, read, verified};

/// Frames that may wait for the connection.
const WAITING: usize = 16;

/// A connection of an agent, or of somebody who looks after workers. Cheap to clone.
#[derive(Clone, Debug)]
pub struct WorkerClient {
    inner: WorkerServiceClient<Channel>,
    bearer: Bearer,
}

impl WorkerClient {
    /// A client over a connection, with a bearer token if it has one.
    ///
    /// # Errors
    /// The token cannot stand in a header.
    pub fn new(channel: Channel, token: Option<&str>) -> Result<Self, Problem> {
        let inner = WorkerServiceClient::new(channel)
            .max_decoding_message_size(MESSAGE_MAX)
            .max_encoding_message_size(MESSAGE_MAX);
        Ok(Self { inner, bearer: Bearer::new(token)? })
    }

    fn request<T>(&self, message: T) -> Request<T> {
        self.bearer.unary(message)
    }

    /// Makes the worker known and opens a session.
    ///
    /// # Errors
    /// The server refuses it, cannot be reached, or answers nonsense.
    pub async fn register(&self, registration: Registration) -> Result<Registered, Problem> {
        let request = self.request(registration.into());
        read(self.inner.clone().register_worker(request).await.map_err(plain)?.into_inner())
    }

    /// Opens the stream of a session with its first frame: where the next ones go, whose end ends the stream, and what comes. The
    /// first frame that comes has a welcome, or the directive to register again.
    ///
    /// # Errors
    /// The server refuses it, cannot be reached, or says nothing for 10 s.
    pub async fn stream(
        &self,
        hello: WorkerFrame,
    ) -> Result<(mpsc::Sender<WorkerFrame>, BoxStream<'static, Result<ServerFrame, Problem>>), Problem> {
        let (sender, receiver) = mpsc::channel(WAITING);
        let over = |_| Problem::coded(Code::StoreUnavailable, "the stream to the server is over");
        sender.send(hello).await.map_err(over)?;
        let frames = futures::stream::unfold(receiver, |mut receiver| async {
            let frame = receiver.recv().await?;
            Some((frame, receiver))
        });
        let mut client = self.inner.clone();
        let call = client.job_stream(self.bearer.stream(frames));
        let late = |_| Problem::coded(Code::Deadline, "the server did not answer the hello in 10 s");
        let answer = tokio::time::timeout(OPENING, call).await.map_err(late)?.map_err(plain)?.into_inner();
        let frames = answer.map(|frame| verified(frame.map_err(plain)?));
        Ok((sender, frames.boxed()))
    }

    /// Shows that the agent lives while no stream is up.
    ///
    /// # Errors
    /// The session is gone, or the server cannot be reached.
    pub async fn heartbeat(&self, heartbeat: Heartbeat) -> Result<v1::HeartbeatResponse, Problem> {
        let request = self.request(heartbeat);
        verified(self.inner.clone().heartbeat(request).await.map_err(plain)?.into_inner())
    }

    /// What a worker last said of itself.
    ///
    /// # Errors
    /// There is no such worker, or the caller may not see it.
    pub async fn worker_status(&self, worker: &WorkerId) -> Result<WorkerStatus, Problem> {
        let request = self.request(v1::GetWorkerStatusRequest { worker_id: worker.to_string() });
        verified(self.inner.clone().get_worker_status(request).await.map_err(plain)?.into_inner())
    }

    /// Places a queued job on a worker now; answers after the worker accepted it.
    ///
    /// # Errors
    /// It does not fit there; the error explains why.
    pub async fn place(&self, worker: &WorkerId, job: JobId) -> Result<TaskRef, Problem> {
        let message = v1::AssignJobRequest { worker_id: worker.to_string(), job_id: job.as_u64() };
        let accepted = self.inner.clone().assign_job(self.request(message)).await.map_err(plain)?.into_inner();
        super::super::attempt::about(accepted.r#ref).map_err(Problem::from)
    }
}
