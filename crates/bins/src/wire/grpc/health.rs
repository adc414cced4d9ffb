//! The standard health service: serving on the leader only.

use futures::StreamExt;
use futures::stream::BoxStream;
use tokio::sync::watch;
use tonic::{Request, Response, Status};

use super::super::proto::health::health_check_response::ServingStatus;
use super::super::proto::health::health_server::Health;
use super::super::proto::health::{HealthCheckRequest, HealthCheckResponse};

/// The services it knows beside the server as a whole.
const KNOWN: [&str; 4] = ["", "orlop.v1.WorkerService", "orlop.v1.JobService", "orlop.v1.ArtifactService"];

/// The service over a flag that says whether this server leads.
pub(super) struct HealthApi(pub(super) watch::Receiver<bool>);

fn answer(leads: bool) -> HealthCheckResponse {
    let status = if leads { ServingStatus::Serving } else { ServingStatus::NotServing };
    HealthCheckResponse { status: status as i32 }
}

#[tonic::async_trait]
impl Health for HealthApi {
    async fn check(&self, request: Request<HealthCheckRequest>) -> Result<Response<HealthCheckResponse>, Status> {
        if !KNOWN.contains(&request.get_ref().service.as_str()) {
            return Err(Status::not_found("service not found"));
        }
        Ok(Response::new(answer(*self.0.borrow())))
    }

    type WatchStream = BoxStream<'static, Result<HealthCheckResponse, Status>>;

    async fn watch(&self, request: Request<HealthCheckRequest>) -> Result<Response<Self::WatchStream>, Status> {
        if !KNOWN.contains(&request.get_ref().service.as_str()) {
            let unknown = HealthCheckResponse { status: ServingStatus::ServiceUnknown as i32 };
            let stream = futures::stream::iter([Ok(unknown)]).chain(futures::stream::pending());
            return Ok(Response::new(stream.boxed()));
        }
        let mut first = self.0.clone();
        first.mark_changed();
        let stream = futures::stream::unfold(first, |mut leads| async {
            leads.changed().await.ok()?;
            let now = *leads.borrow_and_update();
            Some((Ok(answer(now)), leads))
        });
        Ok(Response::new(stream.boxed()))
    }
}
