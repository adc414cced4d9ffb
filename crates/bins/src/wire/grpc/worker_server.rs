//! The service that workers call, for a server that knows only plain types. Never answers by itself.

use std::sync::Arc;

use async_trait::async_trait;
use futures::StreamExt;
use futures::stream::BoxStream;
use orlop_core::error::{Code, Problem};
use orlop_core::id::{JobId, WorkerId};
use orlop_core::task::TaskRef;
use tonic::{Request, Response, Status, Streaming};

use super::super::bound::{WireError, checked};
use super::super::frame::{ServerFrame, WorkerFrame};
use super::super::problem::{of_status, status};
use super::super::proto::v1;
use super::super::proto::v1::worker_service_server::WorkerService;
use super::super::status::{Heartbeat, WorkerStatus};
use super::super::worker::{Registered, Registration};
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

fn bad(error: WireError) -> Status {
    status(error.into())
}

fn worker_id(text: String) -> Result<WorkerId, Status> {
    super::super::worker::worker_id(text).map_err(bad)
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
        let mut frames = read(request.into_inner());
        let first = match tokio::time::timeout(OPENING, frames.next()).await {
            Err(_) => Err(Problem::coded(Code::Deadline, "no hello came in 10 s")),
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
fn read(frames: Streaming<v1::WorkerFrame>) -> FramesIn {
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
