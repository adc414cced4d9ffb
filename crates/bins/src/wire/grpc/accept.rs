//! The connections of a server as its transport gets them: with their places, after the handshake of TLS where it is spoken. Owns
//! accepting and what calls know of their connection.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::Stream;
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio_rustls::TlsAcceptor;
use tonic::transport::server::Connected;

use crate::listen::{Connection, Connections, Place, Watched};
use crate::wire::identity::PeerCertificate;

/// How long a handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(5);
/// Connections between their handshake and the transport.
const BETWEEN: usize = 64;

/// Bytes in both directions.
pub(super) trait Bytes: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Bytes for T {}

/// A connection, and what it showed.
pub(super) struct Shown {
    bytes: Watched<Box<dyn Bytes>>,
    certificate: Option<PeerCertificate>,
}

/// What calls know of their connection.
#[derive(Clone, Debug)]
pub(super) struct Peer {
    /// The certificate, checked against the authority that the server trusts.
    pub(super) certificate: Option<PeerCertificate>,
    pub(super) connection: Connection,
}

impl Peer {
    /// From where it comes.
    pub(super) fn address(&self) -> SocketAddr {
        self.connection.peer()
    }
}

/// The connections of a socket, until what this gives is dropped.
pub(super) fn incoming(
    socket: TcpListener,
    tls: Option<Arc<ServerConfig>>,
    all: Arc<Connections>,
) -> impl Stream<Item = io::Result<Shown>> {
    let (to, from) = mpsc::channel(BETWEEN);
    tokio::spawn(accept(socket, tls, all, to));
    futures::stream::unfold(from, async |mut from| Some((Ok(from.recv().await?), from)))
}

async fn accept(socket: TcpListener, tls: Option<Arc<ServerConfig>>, all: Arc<Connections>, to: mpsc::Sender<Shown>) {
    loop {
        let accepted = tokio::select! {
            accepted = socket.accept() => accepted,
            () = to.closed() => return,
        };
        match accepted {
            Ok((stream, peer)) => match all.enter(peer) {
                Some(place) => drop(tokio::spawn(greet(stream, tls.clone(), place, to.clone()))),
                None => tracing::debug!(target: "orlop::listen", %peer, "a connection was refused: there is no room"),
            },
            // Of one connection, or of too many open files: others may do better a little later.
            Err(error) => {
                tracing::warn!(target: "orlop::listen", %error, "a connection could not be accepted");
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    }
}

async fn greet(stream: TcpStream, tls: Option<Arc<ServerConfig>>, place: Place, to: mpsc::Sender<Shown>) {
    // Small answers go out at once; where the system refuses, they go a little later.
    drop(stream.set_nodelay(true));
    let shown = match tls {
        None => Shown { bytes: Watched::new(Box::new(stream), place), certificate: None },
        Some(tls) => match tokio::time::timeout(HANDSHAKE, TlsAcceptor::from(tls).accept(stream)).await {
            Ok(Ok(stream)) => {
                let chain = stream.get_ref().1.peer_certificates();
                let certificate = chain.and_then(|chain| chain.first().map(|der| PeerCertificate::new(der.to_vec())));
                Shown { bytes: Watched::new(Box::new(stream), place), certificate }
            }
            Ok(Err(error)) => return tracing::debug!(target: "orlop::listen", %error, "a handshake failed"),
            Err(_) => return tracing::debug!(target: "orlop::listen", "a handshake took too long"),
        },
    };
    // Where the server has ended, so has the connection.
    drop(to.send(shown).await);
}

impl Connected for Shown {
    type ConnectInfo = Peer;

    fn connect_info(&self) -> Peer {
        Peer { certificate: self.certificate.clone(), connection: self.bytes.connection().clone() }
    }
}

impl AsyncRead for Shown {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.bytes).poll_read(cx, buf)
    }
}

impl AsyncWrite for Shown {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.bytes).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.bytes).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.bytes).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.bytes).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.bytes.is_write_vectored()
    }
}
