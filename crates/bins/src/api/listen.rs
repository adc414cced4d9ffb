//! The listener of the interface.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use rustls::ServerConfig;
use tokio::net::TcpListener;
use tokio::sync::watch;

use super::serve::router;
use super::state::Api;
use crate::host::scheduler::Stop;
use crate::listen::{Served, accept, connections};

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
            tracing::error!(target: "orlop::api", "the listener panicked");
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
    let tls = tls.map(|config| Arc::new(ArcSwapOption::from(Some(config))));
    let served = Served { router: router(api), tls, connections: connections() };
    let task = tokio::spawn(accept(socket, served, stopped));
    Ok(Listener { address, stop, streams: api.stop.clone(), task })
}
