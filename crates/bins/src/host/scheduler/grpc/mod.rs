//! The server behind the services of the protocol: workers, jobs, logs.
//!
//! Every call passes the interceptor first (`interceptor`): it has the same tokens, roles and rates as REST.

mod arrivals;
mod artifacts;
pub(super) mod interceptor;
mod jobs;
mod join;
mod logs;
mod secrets;
mod view;
mod watch;
mod workers;

use std::sync::Arc;

use orlop_core::error::Problem;
use tokio::sync::watch::Sender;

use self::interceptor::ApiInterceptor;
use self::join::Entrance;
use super::{Handle, Status, Stop};
use crate::api::Api;
use crate::wire::grpc::{Listening, Services};

/// Serves gRPC on a socket until asked to stop, to whom the interface's guard lets pass.
///
/// # Errors
/// The TLS identity cannot be used, or the socket fails.
pub async fn serve(handle: Handle, api: Arc<Api>, socket: Listening, stop: Stop) -> Result<(), Problem> {
    let leads = Sender::new(false);
    let exposed = !socket.address().ip().is_loopback();
    let interceptor = ApiInterceptor::new(Arc::clone(&api), exposed, socket.has_tls());
    let entrance = Entrance::new(Arc::clone(&api), socket.has_tls(), exposed);
    let services = Services {
        workers: Arc::new(workers::Workers::new(handle.clone(), entrance, stop.clone())),
        jobs: Some(Arc::new(jobs::Jobs::new(handle.clone(), api.default_tenant().clone(), stop.clone()))),
        artifacts: Some(Arc::new(artifacts::Artifacts::new(handle.clone(), api.default_tenant().clone()))),
        leads: leads.subscribe(),
        interceptor: Some(Arc::new(interceptor)),
    };
    let shutdown = {
        let stop = stop.clone();
        async move { stop.stopped().await }
    };
    tokio::select! {
        served = socket.serve(services, shutdown) => served,
        () = tell_leadership(&handle, &leads) => Ok(()),
    }
}

/// Keeps the health service informed whether this server leads.
async fn tell_leadership(handle: &Handle, leads: &Sender<bool>) {
    let mut changes = handle.status_changes();
    loop {
        let now = matches!(&*changes.borrow_and_update(), Status::Leading { .. });
        leads.send_replace(now);
        if changes.changed().await.is_err() {
            // The server has ended: it leads no more, and the socket ends by its own word.
            leads.send_replace(false);
            std::future::pending::<()>().await;
        }
    }
}
