//! A whole server: store, loop, gRPC services and REST interface, put together in one place for `orlop-scheduler` and for
//! `orlop up`. Owns the order in which they begin and end; what each of them does is its own.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use orlop_core::error::PortError;
use orlop_core::id::TenantName;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use super::super::clock::MachineClock;
use super::super::{Handle, Options, Server, Stop, grpc};
use super::store::OpenStore;
use crate::api::{self, Api};
use crate::wire::grpc::{Listening, Refusal};

/// What a server is started with.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// How the loop behaves. Without an address of its own the server is found where it listens.
    pub(crate) options: Options,
    /// Address of the REST interface; port 0 = any that is free.
    pub(crate) rest: SocketAddr,
    /// Address of the gRPC services; the same.
    pub(crate) grpc: SocketAddr,
    /// The tenant of jobs that name none.
    pub(crate) tenant: TenantName,
}

/// Why a server does not start.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StartError {
    /// An address cannot be listened on.
    #[error("{0} cannot be listened on: {1}")]
    Address(SocketAddr, String),
    /// It can be reached from outside, and nothing protects it.
    #[error("{0} can be reached from outside; that needs TLS and tokens: use loopback")]
    Open(SocketAddr),
    /// The store cannot be read.
    #[error("{}", .0.chain())]
    Store(#[from] PortError),
    /// The system gives no thread or socket.
    #[error("the server cannot be started: {0}")]
    System(#[from] io::Error),
}

/// A server that runs.
#[derive(Debug)]
pub(crate) struct Whole {
    server: Server,
    store: OpenStore,
    rest: api::Listener,
    grpc: Grpc,
}

/// The gRPC services.
#[derive(Debug)]
struct Grpc {
    address: SocketAddr,
    stop: Stop,
    task: JoinHandle<Result<(), Refusal>>,
}

/// Opens a socket.
async fn bind(address: SocketAddr) -> Result<(TcpListener, SocketAddr), StartError> {
    let wrong = |error: io::Error| StartError::Address(address, error.to_string());
    let socket = TcpListener::bind(address).await.map_err(wrong)?;
    let taken = socket.local_addr().map_err(wrong)?;
    Ok((socket, taken))
}

impl Whole {
    /// Starts a server on a store. It answers at once, and leads as soon as the store lets it.
    ///
    /// # Errors
    /// As of [`StartError`].
    pub(crate) async fn start(plan: Plan, store: OpenStore) -> Result<Self, StartError> {
        for address in [plan.rest, plan.grpc] {
            if !address.ip().is_loopback() {
                return Err(StartError::Open(address));
            }
        }
        let (rest_socket, rest_address) = bind(plan.rest).await?;
        let grpc_socket = Listening::bind(plan.grpc, None).await;
        let grpc_socket = grpc_socket.map_err(|refused| StartError::Address(plan.grpc, refused.detail))?;
        let address = grpc_socket.address();
        let mut options = plan.options;
        if options.holder.url.is_empty() {
            options.holder.url = format!("http://{rest_address} http://{address}");
        }
        let metrics = Arc::clone(&options.metrics);
        let runtime = tokio::runtime::Handle::current();
        let server = Server::start(store.fleet(), Arc::new(MachineClock::default()), options, runtime)?;
        let handle = server.handle();
        let api = Api::new(handle.clone(), metrics, api::Options::loopback(plan.tenant)).await?;
        let rest = api::listen(rest_socket, &api)?;
        let stop = Stop::default();
        let task = tokio::spawn(grpc::serve(handle.clone(), Arc::clone(&api), grpc_socket, stop.clone()));
        Ok(Self { server, store, rest, grpc: Grpc { address, stop, task } })
    }

    /// What others call.
    pub(crate) fn handle(&self) -> &Handle {
        self.server.handle()
    }

    /// Where the REST interface is.
    pub(crate) fn rest(&self) -> SocketAddr {
        self.rest.address()
    }

    /// Where the gRPC services are.
    pub(crate) fn grpc(&self) -> SocketAddr {
        self.grpc.address
    }

    /// Waits until the gRPC services end, which they do by themselves only when something is wrong.
    pub(crate) async fn failed(&mut self) -> String {
        match (&mut self.grpc.task).await {
            Ok(Ok(())) => "the gRPC services ended".to_owned(),
            Ok(Err(error)) => error.to_string(),
            Err(error) => error.to_string(),
        }
    }

    /// Ends in good order: requests under way are answered, what was taken is committed, then connections close.
    pub(crate) async fn stop(self) {
        let Self { server, store, rest, grpc } = self;
        rest.stop().await;
        server.stop().await;
        grpc.stop.stop();
        if !grpc.task.is_finished()
            && let Ok(Err(error)) = grpc.task.await
        {
            tracing::warn!(target: "orlop::scheduler", %error, "the gRPC services ended");
        }
        store.close().await;
    }
}
