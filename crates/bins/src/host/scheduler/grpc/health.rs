//! The standard health service: SERVING on the leader only. Owns that answer.

use std::pin::Pin;
use std::time::Duration;

use super::super::Stop;
use futures::Stream;
use tonic::{Request, Response, Status};

use super::super::{Handle, Status as ServerStatus};
use crate::wire::proto::health::health_check_response::ServingStatus;
use crate::wire::proto::health::{HealthCheckRequest, HealthCheckResponse, health_server};

/// How often a watched status is looked at.
const LOOK: Duration = Duration::from_millis(500);

/// The service.
#[derive(Debug)]
pub(super) struct Health {
    handle: Handle,
    stop: Stop,
}

impl Health {
    pub(super) fn new(handle: Handle, stop: Stop) -> Self {
        Self { handle, stop }
    }
}

fn answer(handle: &Handle) -> HealthCheckResponse {
    let leads = matches!(handle.status(), ServerStatus::Leading { .. });
    let status = if leads { ServingStatus::Serving } else { ServingStatus::NotServing };
    HealthCheckResponse { status: status.into() }
}

#[tonic::async_trait]
impl health_server::Health for Health {
    async fn check(&self, _: Request<HealthCheckRequest>) -> Result<Response<HealthCheckResponse>, Status> {
        Ok(Response::new(answer(&self.handle)))
    }

    type WatchStream = Pin<Box<dyn Stream<Item = Result<HealthCheckResponse, Status>> + Send>>;

    async fn watch(&self, _: Request<HealthCheckRequest>) -> Result<Response<Self::WatchStream>, Status> {
        let (handle, stop) = (self.handle.clone(), self.stop.clone());
        let stream = futures::stream::unfold(None, move |last: Option<i32>| {
            let (handle, stop) = (handle.clone(), stop.clone());
            async move {
                loop {
                    let now = answer(&handle);
                    if last != Some(now.status) {
                        return Some((Ok(now), Some(now.status)));
                    }
                    tokio::select! {
                        () = stop.stopped() => return None,
                        () = tokio::time::sleep(LOOK) => {}
                    }
                }
            }
        });
        Ok(Response::new(Box::pin(stream)))
    }
}
