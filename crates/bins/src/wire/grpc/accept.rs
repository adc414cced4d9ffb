//! The connections of a server as its transport gets them: with their places, after the handshake of TLS where it is spoken.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures::Stream;
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tonic::transport::server::Connected;

use crate::listen::{Connection, ConnectionSlot, Connections, Watched};
use crate::wire::identity::PeerCertificate;

/// How long a handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(5);
/// Connections between their handshake and the transport.
const BETWEEN: usize = 64;

/// Bytes in both directions, and what their sender showed.
pub(super) trait Bytes: AsyncRead + AsyncWrite + Send + Unpin {
    fn certificate(&self) -> Option<PeerCertificate>;
}

impl Bytes for TcpStream {
    fn certificate(&self) -> Option<PeerCertificate> {
        None
    }
}

impl Bytes for TlsStream<TcpStream> {
    fn certificate(&self) -> Option<PeerCertificate> {
        let chain = self.get_ref().1.peer_certificates()?;
        chain.first().map(|der| PeerCertificate::new(der.to_vec()))
    }
}

/// A connection as the transport gets it.
type Accepted = Watched<Box<dyn Bytes>>;

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
) -> impl Stream<Item = io::Result<Accepted>> {
    let (to, from) = mpsc::channel(BETWEEN);
    tokio::spawn(accept(socket, tls, all, to));
    futures::stream::unfold(from, async |mut from| Some((Ok(from.recv().await?), from)))
}

async fn accept(
    socket: TcpListener,
    tls: Option<Arc<ServerConfig>>,
    all: Arc<Connections>,
    to: mpsc::Sender<Accepted>,
) {
    loop {
        let accepted = tokio::select! {
            accepted = socket.accept() => accepted,
            () = to.closed() => return,
        };
        match accepted {
            Ok((stream, peer)) => match all.enter(peer) {
                Some(place) => drop(tokio::spawn(greet(stream, tls.clone(), place, to.clone()))),
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
    }
}

async fn greet(stream: TcpStream, tls: Option<Arc<ServerConfig>>, place: ConnectionSlot, to: mpsc::Sender<Accepted>) {
    // Small answers go out at once; where the system refuses, they go a little later.
    drop(stream.set_nodelay(true));
    let bytes: Box<dyn Bytes> = match tls {
        None => Box::new(stream),
        Some(tls) => match tokio::time::timeout(HANDSHAKE, TlsAcceptor::from(tls).accept(stream)).await {
            Ok(Ok(stream)) => Box::new(stream),
            Ok(Err(error)) => return tracing::debug!(target: "orlop::listen", %error, "a handshake failed"),
            Err(_) => return tracing::debug!(target: "orlop::listen", "a handshake took too long"),
        },
    };
    // Where the server has stopped, so has the connection.
    drop(to.send(Watched::new(bytes, place)).await);
}

impl Connected for Accepted {
    type ConnectInfo = Peer;

    fn connect_info(&self) -> Peer {
        Peer { certificate: self.inner().certificate(), connection: self.connection().clone() }
    }
}
