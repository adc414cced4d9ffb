//! The connections of a listener: how many there may be, of one address and in all, how long one may say nothing, and which
//! goes when there is no room.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures::task::AtomicWaker;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// How long a connection may take to its first request.
const FIRST: Duration = Duration::from_secs(10);
/// How long the other side may take nothing of what is written to it.
const WRITING: Duration = Duration::from_secs(60);

/// The connections of a listener. A stranger is one on which nobody has shown so far who it is.
#[derive(Debug)]
pub(crate) struct Connections {
    /// The most at once.
    most: usize,
    /// The most strangers of one address at once, and the most connections of one who is known that others cannot take.
    strangers: usize,
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    /// The number of the next one.
    next: u64,
    /// How many there are.
    count: usize,
    /// Strangers, the oldest first.
    strangers: BTreeMap<u64, Arc<Shared>>,
    /// Their numbers by their addresses.
    addresses: BTreeMap<IpAddr, BTreeSet<u64>>,
    /// How many somebody has who is known.
    known: BTreeMap<String, usize>,
}

#[derive(Debug)]
struct Shared {
    peer: SocketAddr,
    /// A request has come.
    asked: AtomicBool,
    /// Who has shown who it is.
    known: OnceLock<String>,
    /// It has to go.
    over: AtomicBool,
    /// Requests under way.
    requests: AtomicUsize,
    /// Its reader.
    reader: AtomicWaker,
}

/// A connection, as requests know it.
#[derive(Clone, Debug)]
pub(crate) struct Connection {
    number: u64,
    shared: Arc<Shared>,
    all: Arc<Connections>,
}

/// A connection's place, for as long as it is open.
#[derive(Debug)]
pub(crate) struct ConnectionSlot(Connection);

/// A request under way.
#[derive(Debug)]
pub(crate) struct Request(Arc<Shared>);

impl Drop for Request {
    fn drop(&mut self) {
        self.0.requests.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Open {
    fn remove(&mut self, number: u64) -> Option<Arc<Shared>> {
        let stranger = self.strangers.remove(&number)?;
        if let Some(numbers) = self.addresses.get_mut(&stranger.peer.ip()) {
            numbers.remove(&number);
            if numbers.is_empty() {
                self.addresses.remove(&stranger.peer.ip());
            }
        }
        Some(stranger)
    }

    /// Has the oldest of these strangers go, if there is one: of those that wait for nothing first.
    fn make_room(&mut self, among: Option<IpAddr>) -> bool {
        let idle =
            |number: &u64| self.strangers.get(number).is_some_and(|one| one.requests.load(Ordering::Relaxed) == 0);
        let chosen = match among.map(|address| self.addresses.get(&address)) {
            Some(numbers) => {
                numbers.and_then(|numbers| numbers.iter().find(|number| idle(number)).or(numbers.first()).copied())
            }
            None => self.strangers.keys().find(|number| idle(number)).or(self.strangers.keys().next()).copied(),
        };
        let Some(gone) = chosen.and_then(|number| self.remove(number)) else { return false };
        gone.over.store(true, Ordering::SeqCst);
        gone.reader.wake();
        self.count -= 1;
        true
    }
}

impl Connections {
    /// Room for so many at once, of which one address may have an eighth without showing who it is.
    pub(crate) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { most, strangers: (most / 8).max(1), open: Mutex::default() })
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for a new connection. Where there is no room the oldest stranger goes, of the same address if that has too many;
    /// none where everybody is known.
    pub(crate) fn enter(self: &Arc<Self>, peer: SocketAddr) -> Option<ConnectionSlot> {
        let mut open = self.open();
        let of_address = open.addresses.get(&peer.ip()).map_or(0, BTreeSet::len);
        // Anyone who is on this machine shares its address with everybody else here.
        let too_many = of_address >= self.strangers && !peer.ip().is_loopback();
        if too_many && !open.make_room(Some(peer.ip())) || open.count >= self.most && !open.make_room(None) {
            return None;
        }
        let number = open.next;
        let shared = Arc::new(Shared {
            peer,
            asked: AtomicBool::new(false),
            known: OnceLock::new(),
            over: AtomicBool::new(false),
            requests: AtomicUsize::new(0),
            reader: AtomicWaker::new(),
        });
        open.next += 1;
        open.count += 1;
        open.strangers.insert(number, Arc::clone(&shared));
        open.addresses.entry(peer.ip()).or_default().insert(number);
        Some(ConnectionSlot(Connection { number, shared, all: Arc::clone(self) }))
    }
}

#[cfg_attr(not(feature = "fleet"), allow(dead_code, reason = "an operator knows no callers"))]
impl Connection {
    /// From where it comes.
    pub(crate) fn peer(&self) -> SocketAddr {
        self.shared.peer
    }

    /// A request has come; it is under way until what this gives is dropped.
    pub(crate) fn request(&self) -> Request {
        self.shared.asked.store(true, Ordering::Relaxed);
        self.shared.requests.fetch_add(1, Ordering::Relaxed);
        Request(Arc::clone(&self.shared))
    }

    /// Requests under way.
    pub(crate) fn requests(&self) -> usize {
        self.shared.requests.load(Ordering::Relaxed)
    }

    /// Whether somebody has shown who it is.
    pub(crate) fn is_known(&self) -> bool {
        self.shared.known.get().is_some()
    }

    /// Somebody has shown who it is: the connection is not dropped for others, unless its owner has many.
    pub(crate) fn known(&self, who: &str) {
        if self.is_known() {
            return;
        }
        let mut open = self.all.open();
        let count = open.known.get(who).copied().unwrap_or_default();
        // One that has to go already is nobody's.
        if count < self.all.strangers && open.remove(self.number).is_some() {
            open.known.insert(who.to_owned(), count + 1);
            drop(self.shared.known.set(who.to_owned()));
        }
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        let mut open = self.0.all.open();
        open.remove(self.0.number);
        if !self.0.shared.over.load(Ordering::SeqCst) {
            open.count -= 1;
        }
        if let Some(who) = self.0.shared.known.get() {
            match open.known.get_mut(who) {
                Some(count) if *count > 1 => *count -= 1,
                _ => drop(open.known.remove(who)),
            }
        }
    }
}

/// Bytes of a connection, which end where its place does: when it has to go, or when no request has come in time.
#[derive(Debug)]
pub(crate) struct Watched<T> {
    inner: T,
    place: ConnectionSlot,
    first: Option<Pin<Box<Sleep>>>,
    /// While something that is written is not taken.
    stuck: Option<Pin<Box<Sleep>>>,
}

impl<T> Watched<T> {
    /// The bytes of a connection that has this place.
    pub(crate) fn new(inner: T, place: ConnectionSlot) -> Self {
        Self { inner, place, first: Some(Box::pin(sleep(FIRST))), stuck: None }
    }

    /// The connection, as its requests know it.
    pub(crate) fn connection(&self) -> &Connection {
        &self.place.0
    }

    /// The outcome of writing, which may not wait for ever.
    fn written<R>(&mut self, cx: &mut Context<'_>, outcome: Poll<io::Result<R>>) -> Poll<io::Result<R>> {
        if outcome.is_ready() {
            self.stuck = None;
            return outcome;
        }
        let stuck = self.stuck.get_or_insert_with(|| Box::pin(sleep(WRITING)));
        ready!(stuck.as_mut().poll(cx));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the peer accepts no data")))
    }

    /// What it is around.
    #[cfg(feature = "fleet")]
    pub(crate) fn inner(&self) -> &T {
        &self.inner
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Watched<T> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let shared = Arc::clone(&self.place.0.shared);
        shared.reader.register(cx.waker());
        if shared.over.load(Ordering::SeqCst) {
            return Poll::Ready(Err(io::Error::new(
                io::ErrorKind::ConnectionAborted,
                "closed in favour of other connections",
            )));
        }
        if let Poll::Ready(read) = Pin::new(&mut self.inner).poll_read(cx, buf) {
            return Poll::Ready(read);
        }
        if shared.asked.load(Ordering::Relaxed) {
            self.first = None;
        }
        if let Some(first) = &mut self.first {
            ready!(first.as_mut().poll(cx));
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "no request arrived in time")));
        }
        Poll::Pending
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Watched<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.inner).poll_write(cx, buf);
        self.written(cx, outcome)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let outcome = Pin::new(&mut self.inner).poll_flush(cx);
        self.written(cx, outcome)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.inner).poll_write_vectored(cx, bufs);
        self.written(cx, outcome)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(text: &str) -> SocketAddr {
        format!("{text}:1").parse().unwrap()
    }

    fn is_over(place: &ConnectionSlot) -> bool {
        place.0.shared.over.load(Ordering::SeqCst)
    }

    #[test]
    fn where_there_is_no_room_the_oldest_stranger_that_waits_for_nothing_goes() {
        let all = Connections::new(3);
        let [first, second, third] = [(); 3].map(|()| all.enter(peer("127.0.0.1")).unwrap());
        let request = first.0.request();
        let fourth = all.enter(peer("127.0.0.1")).unwrap();
        assert!(!is_over(&first) && is_over(&second) && !is_over(&third));
        drop(second);
        assert_eq!(all.open().count, 3);
        for (place, who) in [(&third, "a"), (&fourth, "b")] {
            place.0.known(who);
        }
        let fifth = all.enter(peer("127.0.0.1")).unwrap();
        assert!(is_over(&first), "no other stranger is left");
        drop((request, first));
        fifth.0.known("c");
        assert!(all.enter(peer("127.0.0.1")).is_none(), "nobody goes whom the server knows");
        drop(third);
        assert!(all.enter(peer("127.0.0.1")).is_some());
        drop((fourth, fifth));
        let open = all.open();
        assert_eq!((open.count, open.strangers.len(), open.addresses.len(), open.known.len()), (0, 0, 0, 0));
    }

    #[test]
    fn who_is_known_takes_all_places_from_nobody() {
        let all = Connections::new(16);
        let places: Vec<_> = (0..16).map(|_| all.enter(peer("127.0.0.1")).unwrap()).collect();
        for place in &places {
            place.0.known("a");
        }
        let other = all.enter(peer("127.0.0.1")).unwrap();
        other.0.known("b");
        assert!(is_over(&places[2]) && !is_over(&places[0]) && !is_over(&other), "two of them are a's own");
        drop(places);
        let open = all.open();
        assert_eq!((open.count, open.known.len()), (1, 1));
    }

    #[tokio::test(start_paused = true)]
    async fn who_takes_nothing_of_what_is_written_to_it_is_given_up() {
        use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

        let all = Connections::new(16);
        let (ours, mut theirs) = tokio::io::duplex(16);
        let mut written = Watched::new(ours, all.enter(peer("10.0.0.1")).unwrap());
        let writing = tokio::spawn(async move { written.write_all(&[0; 64]).await });
        // Slowly is fine.
        for _ in 0..3 {
            tokio::time::sleep(WRITING / 2).await;
            theirs.read_exact(&mut [0; 8]).await.unwrap();
        }
        let began = tokio::time::Instant::now();
        assert_eq!(writing.await.unwrap().unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert_eq!(began.elapsed(), WRITING);
    }

    #[test]
    fn one_address_makes_room_for_itself() {
        let all = Connections::new(16);
        let other = all.enter(peer("10.0.0.1")).unwrap();
        let [first, second] = [(); 2].map(|()| all.enter(peer("10.0.0.2")).unwrap());
        let third = all.enter(peer("10.0.0.2")).unwrap();
        assert!(is_over(&first) && !is_over(&second) && !is_over(&other));
        for (place, who) in [(&second, "a"), (&third, "b")] {
            place.0.known(who);
        }
        let more = [(); 2].map(|()| all.enter(peer("10.0.0.2")).unwrap());
        assert!(!is_over(&second) && !more.iter().any(is_over), "who is known does not count");
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_without_a_request_ends_after_ten_seconds() {
        use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
        let all = Connections::new(3);
        let (mut theirs, ours) = tokio::io::duplex(64);
        let mut watched = Watched::new(ours, all.enter(peer("127.0.0.1")).unwrap());
        theirs.write_all(b"P").await.unwrap();
        assert_eq!(watched.read_u8().await.unwrap(), b'P');
        let began = tokio::time::Instant::now();
        assert_eq!(watched.read_u8().await.unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert_eq!(began.elapsed(), FIRST);
        let (_theirs, ours) = tokio::io::duplex(64);
        let mut watched = Watched::new(ours, all.enter(peer("127.0.0.1")).unwrap());
        drop(watched.connection().request());
        let waits = tokio::time::timeout(Duration::from_secs(3600), watched.read_u8()).await;
        assert!(waits.is_err(), "it has asked, and may ask again");
    }
}
