//! HTTP over sockets: connections with their limits, with or without TLS.

mod connections;
mod tls;

use std::convert::Infallible;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use axum::body::HttpBody;
use axum::extract::ConnectInfo;
use axum::http::Request;
use axum::response::Response;
use axum::{BoxError, Router};
use bytes::Bytes;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tower::Service;

pub(crate) use self::connections::{Connection, ConnectionSlot, Connections, Watched};
#[cfg(feature = "fleet")]
pub(crate) use self::tls::mutual_config;
pub(crate) use self::tls::server_config;

/// The most bytes of a request's headers.
const HEADERS: usize = 16 << 10;
/// How long a client may take to send them.
const SENDING: Duration = Duration::from_secs(10);
/// How often a silent peer is asked whether it is there.
const ASKING: Duration = Duration::from_secs(30);
/// How long requests under way may take once the listener is to end.
const ENDING: Duration = Duration::from_secs(5);

/// The most connections of a listener, where files are enough.
#[cfg(feature = "fleet")]
const CONNECTIONS: usize = 8192;
/// Open files that a server needs for other things.
#[cfg(feature = "fleet")]
const FILES: u64 = 256;

/// The most connections of one of two listeners: as many as this process may have open files for.
#[cfg(feature = "fleet")]
pub(crate) fn connections() -> usize {
    use nix::sys::resource::{Resource, getrlimit};
    let files = getrlimit(Resource::RLIMIT_NOFILE).map_or(1024, |(soft, _)| soft);
    let room = usize::try_from(files.saturating_sub(FILES) / 2).unwrap_or(usize::MAX);
    room.clamp(64, CONNECTIONS)
}

/// The settings of TLS that new connections get; they may change while it listens, and while there are none nobody is let in.
pub(crate) type Secured = Arc<ArcSwapOption<ServerConfig>>;

/// What is served on a socket.
#[derive(Clone, Debug)]
pub(crate) struct Served {
    /// What requests mean.
    pub(crate) router: Router,
    /// TLS, where it is spoken.
    pub(crate) tls: Option<Secured>,
    /// Connections at once.
    pub(crate) connections: usize,
}

/// Serves until it is to stop; then requests under way are let end for a few seconds.
pub(crate) async fn accept(socket: TcpListener, served: Served, mut stopped: watch::Receiver<bool>) {
    let all = Connections::new(served.connections);
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            accepted = socket.accept() => accepted,
            _ = stopped.wait_for(|stop| *stop) => break,
        };
        match accepted {
            Ok((stream, peer)) => match all.enter(peer) {
                Some(place) => drop(connections.spawn(greet(stream, served.clone(), place, stopped.clone()))),
                None => {
                    tracing::debug!(target: "orlop::listen", %peer, "connection refused: the connection limit is reached");
                }
            },
            // Of one connection, or of too many open files: others may do better a little later.
            Err(error) => {
                tracing::warn!(target: "orlop::listen", %error, "a connection could not be accepted");
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

/// A router as one connection reaches it: requests know where they come from.
#[derive(Clone, Debug)]
struct Connected {
    router: Router,
    connection: Connection,
}

impl<B> Service<Request<B>> for Connected
where
    B: HttpBody<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Response;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        request.extensions_mut().insert(ConnectInfo(self.connection.peer()));
        request.extensions_mut().insert(self.connection.clone());
        let (under_way, answer) = (self.connection.request(), self.router.call(request));
        Box::pin(async move {
            let answer = answer.await;
            drop(under_way);
            answer
        })
    }
}

/// Begins a connection, with the handshake of TLS where it is spoken.
async fn greet(stream: TcpStream, served: Served, place: ConnectionSlot, stopped: watch::Receiver<bool>) {
    // Small answers go out at once; where the system refuses, they go a little later.
    drop(stream.set_nodelay(true));
    let Some(tls) = served.tls else { return serve(Watched::new(stream, place), served.router, stopped).await };
    let Some(config) = tls.load_full() else {
        return tracing::debug!(target: "orlop::listen", "a connection came before there was a certificate");
    };
    match tokio::time::timeout(SENDING, TlsAcceptor::from(config).accept(stream)).await {
        Ok(Ok(stream)) => serve(Watched::new(stream, place), served.router, stopped).await,
        Ok(Err(error)) => tracing::debug!(target: "orlop::listen", %error, "a handshake failed"),
        Err(_) => tracing::debug!(target: "orlop::listen", "a handshake took too long"),
    }
}

async fn serve<S>(stream: Watched<S>, router: Router, mut stopped: watch::Receiver<bool>)
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let service = TowerToHyperService::new(Connected { router, connection: stream.connection().clone() });
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(SENDING).max_buf_size(HEADERS);
    builder.http2().timer(TokioTimer::new()).max_header_list_size(HEADERS as u32);
    builder.http2().keep_alive_interval(ASKING).keep_alive_timeout(SENDING);
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
    tokio::select! {
        ended = connection.as_mut() => return log_broken(ended),
        _ = stopped.wait_for(|stop| *stop) => connection.as_mut().graceful_shutdown(),
    }
    log_broken(connection.await);
}

fn log_broken<E: std::fmt::Display>(ended: Result<(), E>) {
    if let Err(error) = ended {
        tracing::debug!(target: "orlop::listen", %error, "a connection broke");
    }
}
