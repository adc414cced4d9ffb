//! A line between programs that a test can cut or make go quiet, each way by itself. Owns its connections; what goes over
//! them it neither reads nor changes.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use super::super::bench::alias;

/// How often a side that is quiet looks whether it may go on.
const LOOK: Duration = Duration::from_millis(10);

#[derive(Debug)]
struct Line {
    /// Where connections go.
    target: Target,
    /// Nothing gets from clients to the server: it waits, as packets that are sent again do.
    up_quiet: AtomicBool,
    /// The same from the server to clients.
    down_quiet: AtomicBool,
    /// Connections are refused.
    cut: AtomicBool,
    /// Connections of an earlier count are over.
    round: AtomicU64,
    over: AtomicBool,
}

/// Where a line leads.
#[derive(Debug)]
enum Target {
    Port(SocketAddr),
    Socket(PathBuf),
}

/// One end of a line.
enum End {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl End {
    fn to(target: &Target) -> std::io::Result<Self> {
        match target {
            Target::Port(address) => TcpStream::connect(address).map(Self::Tcp),
            Target::Socket(path) => UnixStream::connect(path).map(Self::Unix),
        }
    }

    /// The same end once more, which looks often whether it may go on.
    fn again(&self) -> Self {
        match self {
            Self::Tcp(stream) => {
                stream.set_read_timeout(Some(LOOK)).expect("a timeout");
                stream.set_nodelay(true).expect("an option");
                Self::Tcp(stream.try_clone().expect("a second descriptor"))
            }
            Self::Unix(stream) => {
                stream.set_read_timeout(Some(LOOK)).expect("a timeout");
                Self::Unix(stream.try_clone().expect("a second descriptor"))
            }
        }
    }

    fn read(&mut self, bytes: &mut [u8]) -> std::io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(bytes),
            Self::Unix(stream) => stream.read(bytes),
        }
    }

    fn write(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.write_all(bytes),
            Self::Unix(stream) => stream.write_all(bytes),
        }
    }

    /// Ends it; that the other side has closed it already does not matter.
    fn close(&self) {
        drop(match self {
            Self::Tcp(stream) => stream.shutdown(Shutdown::Both),
            Self::Unix(stream) => stream.shutdown(Shutdown::Both),
        });
    }
}

/// A line that ends with this value.
#[derive(Debug)]
pub(crate) struct Proxy {
    address: SocketAddr,
    line: Arc<Line>,
}

/// An address without its scheme.
fn plain(address: &str) -> SocketAddr {
    address.trim_start_matches("http://").parse().expect("an address")
}

impl Proxy {
    /// A line to this address.
    pub(crate) fn to(address: &str) -> Self {
        let proxy = Self::leading(Target::Port(plain(address)));
        alias(address, &proxy.url());
        proxy
    }

    /// A line to the socket of this path.
    pub(crate) fn to_socket(path: &Path) -> Self {
        Self::leading(Target::Socket(path.to_owned()))
    }

    fn leading(target: Target) -> Self {
        let socket = TcpListener::bind("127.0.0.1:0").expect("a socket");
        let line = Arc::new(Line {
            target,
            up_quiet: AtomicBool::new(false),
            down_quiet: AtomicBool::new(false),
            cut: AtomicBool::new(false),
            round: AtomicU64::new(0),
            over: AtomicBool::new(false),
        });
        let proxy = Self { address: socket.local_addr().expect("its address"), line: Arc::clone(&line) };
        std::thread::spawn(move || {
            for client in socket.incoming() {
                if line.over.load(Ordering::SeqCst) {
                    return;
                }
                if let Ok(client) = client
                    && !line.cut.load(Ordering::SeqCst)
                {
                    line.join(client);
                }
            }
        });
        proxy
    }

    /// Where clients find it.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Whether what clients send, and what the server sends, is held back.
    pub(crate) fn quiet(&self, up: bool, down: bool) {
        self.line.up_quiet.store(up, Ordering::SeqCst);
        self.line.down_quiet.store(down, Ordering::SeqCst);
    }

    /// Ends all connections; what was on its way is lost.
    pub(crate) fn break_off(&self) {
        self.line.round.fetch_add(1, Ordering::SeqCst);
    }

    /// Ends all connections and takes no others, or takes them again.
    pub(crate) fn cut(&self, cut: bool) {
        self.line.cut.store(cut, Ordering::SeqCst);
        self.break_off();
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.line.over.store(true, Ordering::SeqCst);
        self.break_off();
        // Wakes the thread that waits for clients.
        drop(TcpStream::connect(self.address));
    }
}

impl Line {
    fn join(self: &Arc<Self>, client: TcpStream) {
        let (client, Ok(server)) = (End::Tcp(client), End::to(&self.target)) else { return };
        let round = self.round.load(Ordering::SeqCst);
        let halves = [(client.again(), server.again(), true), (server, client, false)];
        for (from, to, up) in halves {
            let line = Arc::clone(self);
            std::thread::spawn(move || line.carry(from, to, up, round));
        }
    }

    fn carry(&self, mut from: End, mut to: End, up: bool, round: u64) {
        let quiet = if up { &self.up_quiet } else { &self.down_quiet };
        let mut bytes = vec![0; 64 << 10];
        while self.round.load(Ordering::SeqCst) == round {
            if quiet.load(Ordering::SeqCst) {
                std::thread::sleep(LOOK);
                continue;
            }
            let read = match from.read(&mut bytes) {
                Ok(0) => break,
                Ok(read) => read,
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => continue,
                Err(_) => break,
            };
            // What was read just before the line went quiet waits too.
            while quiet.load(Ordering::SeqCst) && self.round.load(Ordering::SeqCst) == round {
                std::thread::sleep(LOOK);
            }
            if self.round.load(Ordering::SeqCst) != round || to.write(&bytes[..read]).is_err() {
                break;
            }
        }
        // The other half sees it.
        from.close();
        to.close();
    }
}
