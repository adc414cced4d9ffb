//! The listener: connections with their limits. Owns accepting, limits of headers and time, and the orderly end; what a
//! request means is `serve`'s.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::HttpBody;
use axum::extract::ConnectInfo;
use axum::http::Request;
use axum::response::Response;
use axum::routing::future::RouteFuture;
use axum::{BoxError, Router};
use bytes::Bytes;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tower::Service;

use super::serve::router;
use super::state::Api;
use crate::host::scheduler::Stop;

/// The most bytes of a request's headers.
const HEADERS: usize = 16 << 10;
/// How long a client may take to send them.
const SENDING: Duration = Duration::from_secs(10);
/// Connections at once.
const CONNECTIONS: usize = 8192;
/// How long requests under way may take once the listener is to end.
const ENDING: Duration = Duration::from_secs(5);

/// A listener that serves.
#[derive(Debug)]
pub struct Listener {
    address: SocketAddr,
    stop: watch::Sender<bool>,
    streams: Stop,
    task: tokio::task::JoinHandle<()>,
}

impl Listener {
    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Takes no more connections, lets requests under way end for a few seconds, and ends.
    pub async fn stop(self) {
        self.stop.send_replace(true);
        self.streams.stop();
        if self.task.await.is_err() {
            tracing::error!(target: "orlop::api", "the listener ended by a panic");
        }
    }
}

/// Serves an interface on a socket, over TLS if there are settings for it.
///
/// # Errors
/// The socket has no address.
pub fn listen(socket: TcpListener, tls: Option<Arc<ServerConfig>>, api: &Arc<Api>) -> io::Result<Listener> {
    let address = socket.local_addr()?;
    let (stop, stopped) = watch::channel(false);
    let task = tokio::spawn(accept(socket, tls.map(TlsAcceptor::from), router(api), stopped));
    Ok(Listener { address, stop, streams: api.stop.clone(), task })
}

async fn accept(socket: TcpListener, tls: Option<TlsAcceptor>, router: Router, mut stopped: watch::Receiver<bool>) {
    let room = Arc::new(Semaphore::new(CONNECTIONS));
    let mut connections = JoinSet::new();
    loop {
        let Ok(permit) = Arc::clone(&room).acquire_owned().await else { break };
        let accepted = tokio::select! {
            accepted = socket.accept() => accepted,
            _ = stopped.wait_for(|stop| *stop) => break,
        };
        match accepted {
            Ok((stream, peer)) => {
                let (tls, router, stopped) = (tls.clone(), router.clone(), stopped.clone());
                connections.spawn(async move {
                    greet(stream, tls, Connected { router, peer }, stopped).await;
                    drop(permit);
                });
            }
            // Of one connection, or of too many open files: others may do better a little later.
            Err(error) => {
                tracing::warn!(target: "orlop::api", %error, "a connection could not be accepted");
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
        while connections.try_join_next().is_some() {}
    }
    drop(socket);
    let all = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(ENDING, all).await.is_err() {
        connections.shutdown().await;
    }
}

/// The interface, as one connection reaches it: requests know where they come from.
#[derive(Clone, Debug)]
struct Connected {
    router: Router,
    peer: SocketAddr,
}

impl<B> Service<Request<B>> for Connected
where
    B: HttpBody<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Response;
    type Error = Infallible;
    type Future = RouteFuture<Infallible>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        request.extensions_mut().insert(ConnectInfo(self.peer));
        self.router.call(request)
    }
}

/// Begins a connection, with the handshake of TLS where it is spoken.
async fn greet(stream: TcpStream, tls: Option<TlsAcceptor>, service: Connected, stopped: watch::Receiver<bool>) {
    // Small answers go out at once; where the system refuses, they go a little later.
    drop(stream.set_nodelay(true));
    let Some(tls) = tls else { return serve(stream, service, stopped).await };
    match tokio::time::timeout(SENDING, tls.accept(stream)).await {
        Ok(Ok(stream)) => serve(stream, service, stopped).await,
        Ok(Err(error)) => tracing::debug!(target: "orlop::api", %error, "a handshake failed"),
        Err(_) => tracing::debug!(target: "orlop::api", "a handshake took too long"),
    }
}

async fn serve<S>(stream: S, service: Connected, mut stopped: watch::Receiver<bool>)
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let service = TowerToHyperService::new(service);
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(SENDING).max_buf_size(HEADERS);
    builder.http2().timer(TokioTimer::new()).max_header_list_size(HEADERS as u32);
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
    tokio::select! {
        ended = connection.as_mut() => return told(ended),
        _ = stopped.wait_for(|stop| *stop) => connection.as_mut().graceful_shutdown(),
    }
    told(connection.await);
}

fn told<E: std::fmt::Display>(ended: Result<(), E>) {
    if let Err(error) = ended {
        tracing::debug!(target: "orlop::api", %error, "a connection broke");
    }
}
