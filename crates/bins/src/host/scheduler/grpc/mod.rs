//! The gRPC services of the server: workers, jobs, health (scheduler contract, chapter 4). Owns the edge: messages in and
//! out, deadlines, what a stream does; everything else the server's handle does.

mod health;
mod jobs;
mod message;
mod watch;
mod workers;

use std::net::SocketAddr;
use std::time::Duration;

use super::Stop;
use tokio::net::TcpListener;
use tonic::transport::Server as Grpc;
use tonic::transport::server::TcpIncoming;

use super::Handle;
use crate::wire::MESSAGE_MAX;
use crate::wire::problem::Problem;
use crate::wire::proto::health::health_server::HealthServer;
use crate::wire::proto::v1::job_service_server::JobServiceServer;
use crate::wire::proto::v1::worker_service_server::WorkerServiceServer;

/// Streams of one connection.
const STREAMS: u32 = 1024;
/// Between two pings of a silent connection, and how long their answer may take.
const PING: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(5));

/// The status of an error.
pub(super) fn status(error: impl Into<Box<Problem>>) -> tonic::Status {
    (*error.into()).into()
}

/// Serves gRPC without TLS on a listener until told to stop: for loopback, where the port is the permission.
///
/// # Errors
/// The listener fails, or is not on loopback.
pub async fn serve_plain(handle: Handle, listener: TcpListener, stop: Stop) -> Result<(), ServeError> {
    let address = listener.local_addr()?;
    if !address.ip().is_loopback() {
        return Err(ServeError::Open(address));
    }
    let workers = WorkerServiceServer::new(workers::Workers::new(handle.clone(), stop.clone()));
    let jobs = JobServiceServer::new(jobs::Jobs::new(handle.clone(), stop.clone()));
    let health = HealthServer::new(health::Health::new(handle, stop.clone()));
    Grpc::builder()
        .max_concurrent_streams(STREAMS)
        .http2_keepalive_interval(Some(PING.0))
        .http2_keepalive_timeout(Some(PING.1))
        .add_service(workers.max_decoding_message_size(MESSAGE_MAX))
        .add_service(jobs.max_decoding_message_size(MESSAGE_MAX))
        .add_service(health)
        .serve_with_incoming_shutdown(TcpIncoming::from(listener).with_nodelay(Some(true)), async move {
            stop.stopped().await;
        })
        .await?;
    Ok(())
}

/// The services cannot be offered.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The address can be reached from outside, and nothing would ask who calls.
    #[error("{0} is not on loopback: outside of it the server needs TLS and tokens")]
    Open(SocketAddr),
    /// The listener failed.
    #[error("the listener failed: {0}")]
    Io(#[from] std::io::Error),
    /// The transport failed.
    #[error("the gRPC transport failed: {0}")]
    Transport(#[from] tonic::transport::Error),
}
