//! What a thread that keeps processes waits for: descriptors, times, and orders of other threads. Owns the kernel's side of waiting;
//! what follows is decided by who waits.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::eventfd::{EfdFlags, EventFd};

/// The longest wait in milliseconds.
const LONGEST: u32 = 60_000;
/// Bits of what the kernel keeps for a descriptor that say of which kind it is; the others are the number.
const DESCRIPTOR_BITS: u32 = 3;
/// Events taken at once.
const EVENTS: usize = 64;

/// A descriptor of a kept thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Descriptor {
    /// What it writes to standard output.
    Out,
    /// What it writes to standard error.
    Err,
    /// The end of its process.
    End,
    /// What its process says before it becomes its program.
    Launch,
    /// The only descriptor of a thing that has one.
    Only,
}

impl Descriptor {
    const fn bits(self) -> u64 {
        match self {
            Self::Out => 0,
            Self::Err => 1,
            Self::End => 2,
            Self::Launch => 3,
            Self::Only => 4,
        }
    }

    const fn of(bits: u64) -> Self {
        match bits & ((1 << DESCRIPTOR_BITS) - 1) {
            0 => Self::Out,
            1 => Self::Err,
            2 => Self::End,
            3 => Self::Launch,
            _ => Self::Only,
        }
    }
}

/// Waits on behalf of things by number.
#[derive(Debug)]
pub(crate) struct Watcher {
    epoll: Epoll,
    timers: BTreeSet<(Instant, u64)>,
    armed: BTreeMap<u64, Instant>,
    last: u64,
}

impl Watcher {
    pub(crate) fn new() -> io::Result<Self> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        Ok(Self { epoll, timers: BTreeSet::new(), armed: BTreeMap::new(), last: 0 })
    }

    /// A number that nothing has or had.
    pub(crate) fn number(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// Watches a descriptor until it is forgotten.
    pub(crate) fn watch(&self, fd: impl AsFd, number: u64, kind: Descriptor) -> nix::Result<()> {
        self.epoll.add(fd, EpollEvent::new(EpollFlags::EPOLLIN, (number << DESCRIPTOR_BITS) | kind.bits()))
    }

    /// Watches a descriptor no more; that it was not watched is fine. Closing it alone would not do: a process that is being made has a
    /// copy of it for a moment.
    pub(crate) fn forget(&self, fd: impl AsFd) {
        match self.epoll.delete(fd) {
            Ok(()) | Err(Errno::ENOENT) => {}
            Err(error) => tracing::error!(%error, "a descriptor cannot be left alone"),
        }
    }

    /// Sets or clears the time at which a thing is to be seen to.
    pub(crate) fn arm(&mut self, number: u64, due: Option<Instant>) {
        let before = match due {
            Some(due) => self.armed.insert(number, due),
            None => self.armed.remove(&number),
        };
        if before == due {
            return;
        }
        if let Some(before) = before {
            self.timers.remove(&(before, number));
        }
        self.timers.extend(due.map(|due| (due, number)));
    }

    /// A thing whose time has come; it is armed no more.
    pub(crate) fn due(&mut self, at: Instant) -> Option<u64> {
        let (due, number) = self.timers.first().copied().filter(|(due, _)| *due <= at)?;
        self.timers.remove(&(due, number));
        self.armed.remove(&number);
        Some(number)
    }

    /// Waits for descriptors and times.
    pub(crate) fn wait(&self) -> io::Result<Vec<(u64, Descriptor)>> {
        let mut events = [EpollEvent::empty(); EVENTS];
        let found = match self.epoll.wait(&mut events, self.timeout()) {
            Ok(found) => found,
            Err(Errno::EINTR) => 0,
            Err(error) => return Err(error.into()),
        };
        let event = |event: &EpollEvent| (event.data() >> DESCRIPTOR_BITS, Descriptor::of(event.data()));
        Ok(events.iter().take(found).map(event).collect())
    }

    fn timeout(&self) -> EpollTimeout {
        let Some((at, _)) = self.timers.first() else { return EpollTimeout::NONE };
        let left = at.saturating_duration_since(Instant::now());
        // Rounded up, so that what is due is due when this returns.
        let millis = u32::try_from(left.as_nanos().div_ceil(1_000_000)).unwrap_or(LONGEST).min(LONGEST);
        EpollTimeout::try_from(millis).unwrap_or(EpollTimeout::ZERO)
    }
}

/// The way to a thread: orders, and a bell that wakes it.
#[derive(Debug)]
pub(crate) struct Mailbox<O> {
    orders: Mutex<VecDeque<O>>,
    bell: EventFd,
    rung: AtomicBool,
}

impl<O> Mailbox<O> {
    pub(crate) fn new() -> io::Result<Arc<Self>> {
        let bell = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?;
        Ok(Arc::new(Self { orders: Mutex::default(), bell, rung: AtomicBool::new(false) }))
    }

    pub(crate) fn send(&self, order: O) {
        self.orders.lock().unwrap_or_else(PoisonError::into_inner).push_back(order);
        if !self.rung.swap(true, Ordering::SeqCst) {
            // A counter at its limit rings as well.
            let _ = self.bell.write(1);
        }
    }

    pub(crate) fn take(&self) -> VecDeque<O> {
        std::mem::take(&mut *self.orders.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Readable when there is something.
    pub(crate) const fn bell(&self) -> &EventFd {
        &self.bell
    }

    pub(crate) fn silence(&self) {
        let _ = self.bell.read();
        self.rung.store(false, Ordering::SeqCst);
    }
}
