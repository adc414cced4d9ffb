//! The service that workers call, for a server that implements [`WorkerHost`], and its client. Never answers by itself and never
//! repeats a call.

use std::sync::Arc;

use async_trait::async_trait;
use futures::StreamExt;
use futures::stream::BoxStream;
use orlop_core::error::{Code, Problem};
use orlop_core::id::{JobId, WorkerId};
use orlop_core::task::TaskRef;
use tokio::sync::mpsc;
use tonic::transport::Channel;
use tonic::{Request, Response, Status, Streaming};

use super::super::MESSAGE_MAX;
use super::super::bound::checked;
use super::super::frame::{ServerFrame, WorkerFrame};
use super::super::problem::{of_status, status};
use super::super::proto::v1;
use super::super::proto::v1::worker_service_client::WorkerServiceClient;
use super::super::proto::v1::worker_service_server::WorkerService;
use super::super::status::{Heartbeat, WorkerStatus};
use super::super::worker::{Registered, Registration};
use super::call::{Bearer, bad, plain, read, verified};
use super::{Caller, OPENING};

/// Frames of an agent after the first. An error is the last item: the stream broke, or its agent sent nonsense.
pub type FramesIn = BoxStream<'static, Result<WorkerFrame, Problem>>;
/// Frames for an agent. The stream of the call ends with it.
pub type FramesOut = BoxStream<'static, Result<ServerFrame, Problem>>;

/// What a server does for workers and those who look after them. The caller is not authorised yet: that is the first thing
/// each of these does.
#[async_trait]
pub trait WorkerHost: Send + Sync + 'static {
    /// Makes a worker known and opens a session.
    ///
    /// # Errors
    /// The worker is refused.
    async fn register(&self, caller: Caller, registration: Registration) -> Result<Registered, Problem>;

    /// Opens a stream. `first` has a hello; the first frame out is to have a welcome, or the directive to register again.
    /// When `frames` ends the stream is closed.
    ///
    /// # Errors
    /// The stream is refused.
    async fn stream(&self, caller: Caller, first: WorkerFrame, frames: FramesIn) -> Result<FramesOut, Problem>;

    /// Takes a sign of life while no stream is up.
    ///
    /// # Errors
    /// The session is not known.
    async fn heartbeat(&self, caller: Caller, heartbeat: Heartbeat) -> Result<v1::HeartbeatResponse, Problem>;

    /// What a worker last said of itself.
    ///
    /// # Errors
    /// There is no such worker.
    async fn worker_status(&self, caller: Caller, worker: WorkerId) -> Result<WorkerStatus, Problem>;

    /// Places a queued job on a worker now, and waits until the worker accepted it.
    ///
    /// # Errors
    /// It does not fit there; the error explains why.
    async fn place(&self, caller: Caller, worker: WorkerId, job: JobId) -> Result<TaskRef, Problem>;
}

/// The service over a host.
pub(super) struct WorkerApi(pub(super) Arc<dyn WorkerHost>);

fn worker_id(text: String) -> Result<WorkerId, Status> {
    super::super::bound::worker_id(text).map_err(bad)
}

#[tonic::async_trait]
impl WorkerService for WorkerApi {
    async fn register_worker(
        &self,
        request: Request<v1::RegisterWorkerRequest>,
    ) -> Result<Response<v1::RegisterWorkerResponse>, Status> {
        let caller = Caller::of(&request);
        let registration = request.into_inner().try_into().map_err(bad)?;
        let registered = self.0.register(caller, registration).await.map_err(status)?;
        Ok(Response::new(registered.into()))
    }

    type JobStreamStream = BoxStream<'static, Result<v1::ServerFrame, Status>>;

    async fn job_stream(
        &self,
        request: Request<Streaming<v1::WorkerFrame>>,
    ) -> Result<Response<Self::JobStreamStream>, Status> {
        let caller = Caller::of(&request);
        let mut frames = arriving(request.into_inner());
        let first = match tokio::time::timeout(OPENING, frames.next()).await {
            Err(_) => Err(Problem::coded(Code::Deadline, "no hello arrived in 10 s")),
            Ok(None) => Err(Problem::coded(Code::InvalidSpec, "the stream ended before its hello")),
            Ok(Some(first)) => first,
        };
        let first = first.map_err(status)?;
        if first.hello.is_none() {
            return Err(status(Problem::coded(Code::InvalidSpec, "hello is missing; a stream begins with it")));
        }
        let out = self.0.stream(caller, first, frames).await.map_err(status)?;
        Ok(Response::new(out.map(|frame| frame.map_err(status)).boxed()))
    }

    async fn heartbeat(
        &self,
        request: Request<v1::HeartbeatRequest>,
    ) -> Result<Response<v1::HeartbeatResponse>, Status> {
        let caller = Caller::of(&request);
        let heartbeat = checked(request.into_inner()).map_err(bad)?;
        let answer = self.0.heartbeat(caller, heartbeat).await.map_err(status)?;
        Ok(Response::new(answer))
    }

    async fn get_worker_status(
        &self,
        request: Request<v1::GetWorkerStatusRequest>,
    ) -> Result<Response<v1::WorkerStatus>, Status> {
        let caller = Caller::of(&request);
        let worker = worker_id(request.into_inner().worker_id)?;
        let known = self.0.worker_status(caller, worker).await.map_err(status)?;
        Ok(Response::new(known))
    }

    async fn assign_job(&self, request: Request<v1::AssignJobRequest>) -> Result<Response<v1::JobAccepted>, Status> {
        let caller = Caller::of(&request);
        let v1::AssignJobRequest { worker_id: worker, job_id } = request.into_inner();
        let placed = self.0.place(caller, worker_id(worker)?, JobId::from_u64(job_id)).await.map_err(status)?;
        Ok(Response::new(v1::JobAccepted { r#ref: Some(placed.into()) }))
    }
}

/// Frames that passed their checks, until the first error.
fn arriving(frames: Streaming<v1::WorkerFrame>) -> FramesIn {
    let plain = frames.map(|frame| match frame {
        Ok(frame) => checked(frame).map_err(Problem::from),
        Err(error) => Err(of_status(&error)),
    });
    let ended = plain.scan(false, |failed, frame| {
        let go_on = !*failed;
        *failed |= frame.is_err();
        std::future::ready(go_on.then_some(frame))
    });
    ended.boxed()
}

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
