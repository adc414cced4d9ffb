//! Where a server takes calls. Never handles a call.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use orlop_core::error::{Code, Problem};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tonic::service::Routes;
use tonic::transport::Server;

use super::super::MESSAGE_MAX;
use super::super::identity::ServerIdentity;
use super::super::proto::health::health_server::HealthServer;
use super::super::proto::v1::artifact_service_server::ArtifactServiceServer;
use super::super::proto::v1::job_service_server::JobServiceServer;
use super::super::proto::v1::worker_service_server::WorkerServiceServer;
use super::accept::incoming;
use super::artifact::{ArtifactApi, ArtifactHost};
use super::deadline::timely;
use super::health::HealthApi;
use super::interceptor::{CallInterceptor, guarded};
use super::job::{JobApi, JobHost};
use super::worker::{WorkerApi, WorkerHost};
use super::{DEADLINE, HEADERS, PING, PING_TIMEOUT, STREAMS};
use crate::listen::{Connections, connections, mutual_config};

/// How long a call may take, whatever its caller says.
const LONGEST: Duration = Duration::from_secs(300);

/// What a server shows, and which authority signs the certificates of workers.
#[derive(Clone, Debug)]
pub struct TlsIdentity {
    /// Its certificates and key.
    pub server: ServerIdentity,
    /// The certificate of the authority whose workers it takes, in PEM: the fleet's own or an outside one.
    pub workers: String,
}

/// What is offered.
#[derive(Clone)]
pub struct Services {
    /// To workers.
    pub workers: Arc<dyn WorkerHost>,
    /// To clients.
    pub jobs: Option<Arc<dyn JobHost>>,
    /// To both, for files.
    pub artifacts: Option<Arc<dyn ArtifactHost>>,
    /// Whether this server leads.
    pub leads: watch::Receiver<bool>,
    /// Decides who may call what; absent = nobody is asked, and the hosts see callers as they come.
    pub interceptor: Option<Arc<dyn CallInterceptor>>,
}

impl fmt::Debug for Services {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Services").field("leads", &*self.leads.borrow()).finish_non_exhaustive()
    }
}

/// Refuses an address off this machine without TLS.
///
/// # Errors
/// The address is not a loopback one and `tls` is absent.
pub fn check_address(address: SocketAddr, tls: Option<&TlsIdentity>) -> Result<(), Problem> {
    if address.ip().is_loopback() || tls.is_some() {
        return Ok(());
    }
    let detail =
        format!("{address} can be reached from outside; give the server TLS and tokens, or listen on 127.0.0.1");
    Err(Problem::coded(Code::Precondition, detail))
}

/// A server's socket.
#[derive(Debug)]
pub struct Listening {
    socket: TcpListener,
    address: SocketAddr,
    tls: Option<TlsIdentity>,
    connections: usize,
    deadline: Duration,
}

impl Listening {
    /// Opens a socket; port 0 = the kernel chooses one.
    ///
    /// # Errors
    /// The address is off this machine and there is no TLS, or it cannot be had.
    pub async fn bind(address: SocketAddr, tls: Option<TlsIdentity>) -> Result<Self, Problem> {
        let wrong = |error: io::Error| Problem::coded(Code::Internal, format!("listening on {address}: {error}"));
        check_address(address, tls.as_ref())?;
        Self::on(TcpListener::bind(address).await.map_err(wrong)?, tls)
    }

    /// The same on a socket that is open already.
    ///
    /// # Errors
    /// The address is off this machine and there is no TLS, or the socket has none.
    pub fn on(listener: TcpListener, tls: Option<TlsIdentity>) -> Result<Self, Problem> {
        let wrong = |error: io::Error| Problem::coded(Code::Internal, format!("the address of a socket: {error}"));
        let address = listener.local_addr().map_err(wrong)?;
        check_address(address, tls.as_ref())?;
        Ok(Self { socket: listener, address, tls, connections: connections(), deadline: DEADLINE })
    }

    /// The same with so many connections at once.
    #[cfg(test)]
    pub(crate) fn at_most(mut self, connections: usize) -> Self {
        self.connections = connections;
        self
    }

    /// The same with so long for a call that does not say how long it may take.
    #[cfg(test)]
    pub(crate) fn ends_after(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Whether it speaks TLS.
    #[must_use]
    pub fn has_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// The address, with the port that was chosen.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Takes calls of these services until `shutdown` is done, then finishes those that are on.
    ///
    /// # Errors
    /// The TLS identity cannot be used, or the socket fails.
    pub async fn serve(self, services: Services, shutdown: impl Future<Output = ()>) -> Result<(), Problem> {
        let workers = WorkerServiceServer::new(WorkerApi(services.workers))
            .max_decoding_message_size(MESSAGE_MAX)
            .max_encoding_message_size(MESSAGE_MAX);
        let jobs = services.jobs.map(|jobs| {
            JobServiceServer::new(JobApi(jobs, services.interceptor.clone()))
                .max_decoding_message_size(MESSAGE_MAX)
                .max_encoding_message_size(MESSAGE_MAX)
        });
        let artifacts = services.artifacts.map(|artifacts| {
            ArtifactServiceServer::new(ArtifactApi(artifacts))
                .max_decoding_message_size(MESSAGE_MAX)
                .max_encoding_message_size(MESSAGE_MAX)
        });
        let mut routes = Routes::new(workers).add_service(HealthServer::new(HealthApi(services.leads)));
        if let Some(jobs) = jobs {
            routes = routes.add_service(jobs);
        }
        if let Some(artifacts) = artifacts {
            routes = routes.add_service(artifacts);
        }
        routes = timely(routes, self.deadline);
        if let Some(interceptor) = services.interceptor {
            routes = guarded(routes, interceptor);
        }
        self.serve_routes(routes, shutdown).await
    }

    /// The same for services that are wired already.
    ///
    /// # Errors
    /// The TLS identity cannot be used, or the socket fails.
    pub async fn serve_routes(self, routes: Routes, shutdown: impl Future<Output = ()>) -> Result<(), Problem> {
        let failed = |error: tonic::transport::Error| {
            let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}")).unwrap_or_default();
            Problem::coded(Code::Internal, format!("serving gRPC: {error}{cause}"))
        };
        let tls = self.tls.as_ref().map(|tls| {
            let config = mutual_config(tls.server.chain.as_bytes(), tls.server.key.as_bytes(), tls.workers.as_bytes());
            config.map(Arc::new).map_err(|error| Problem::coded(Code::Internal, format!("preparing TLS: {error}")))
        });
        let tls = tls.transpose()?;
        let mut server = Server::builder()
            .timeout(LONGEST)
            .max_concurrent_streams(STREAMS)
            .http2_keepalive_interval(Some(PING))
            .http2_keepalive_timeout(Some(PING_TIMEOUT))
            .http2_max_header_list_size(HEADERS);
        let incoming = incoming(self.socket, tls, Connections::new(self.connections));
        server.add_routes(routes).serve_with_incoming_shutdown(incoming, shutdown).await.map_err(failed)
    }
}
