//! The supervisor: a process that outlives the agent that started it, and keeps attempts to their end. Owns taking orders,
//! requests and the lease, and that a start, an end and output are written to journals in order, to be read much later; running
//! is that of the runtime inside it.
//!
//! It takes orders over its standard input for as long as its agent lives, and ends when that is closed and no attempt is
//! left. A later agent finds the attempts by their control files.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nix::fcntl::{FcntlArg, Flock, OFlag, fcntl};
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use orlop_core::task::TaskRef;
use rustix::fs::FileType;

use super::control::{Control, Report, read_lease};
use super::order::{RuntimeOptions, Start};
use crate::clock::uptime;
use crate::runtime::confidential;
use crate::runtime::process::identity::Identity;
use crate::runtime::process::watcher::{Descriptor, Watcher};
use crate::runtime::process::{supervisor, wire};
use crate::runtime::worker::JobRuntime;
use crate::runtime::worker::event::{AttemptEnd, AttemptEvents, Cause, LogCapacity, LogChunk, Started};
use crate::segment::write::SegmentWriter;

/// From asking to killing when the lease has run out, at most.
const LEASE_GRACE: Duration = Duration::from_secs(5);
/// Between two tries to write what a full disk did not take.
const AGAIN: Duration = Duration::from_secs(1);

struct Owner {
    options: RuntimeOptions,
    runtime: Box<dyn JobRuntime>,
    writer: Arc<JournalWriter>,
    own: Identity,
    /// Attempts that end with the lease: until when they may run, and their grace.
    leased: BTreeMap<TaskRef, (Duration, Duration)>,
}

/// Runs the supervisor, of a worker's attempts or of pods, as standard input is a pipe or a socket. To be called first thing in `main`.
#[must_use]
pub fn main() -> ExitCode {
    // Orders for attempts come over a pipe, those for pods over a socket.
    let is_pipe = |found: rustix::fs::Stat| FileType::from_raw_mode(found.st_mode) == FileType::Fifo;
    if !rustix::fs::fstat(io::stdin()).is_ok_and(is_pipe) {
        return supervisor::main();
    }
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Nobody may listen any more.
            drop(io::Write::write_all(&mut io::stderr(), format!("a supervisor of attempts: {error}\n").as_bytes()));
            ExitCode::FAILURE
        }
    }
}

fn run() -> io::Result<()> {
    confidential::open_files_of_jobs();
    // Away from the terminal and the group of the agent; fails only where that is so already.
    let _ = nix::unistd::setsid();
    let mut signals = SigSet::empty();
    // Only requests of agents end attempts: a shutdown of the machine ends them directly.
    signals.extend([Signal::SIGUSR1, Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP]);
    signals.thread_block()?;
    let signals = SignalFd::with_flags(&signals, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?;
    let mut input = Input::new()?;
    let Some(options) = input.read_options()? else { return Ok(()) };
    let writer = Arc::new(JournalWriter::new()?);
    let runtime = options.open(Arc::clone(&writer) as _).map_err(io::Error::other)?;
    let mut owner = Owner { options, runtime, writer, own: Identity::own()?, leased: BTreeMap::new() };
    let mut watcher = Watcher::new()?;
    let alarm = watcher.number();
    for descriptor in [signals.as_fd(), owner.writer.bell.as_fd(), input.file.as_fd()] {
        // Whatever it was that woke it, all are looked at.
        watcher.watch(descriptor, alarm, Descriptor::Only)?;
    }
    let mut asked = false;
    loop {
        let was_closed = input.is_closed();
        for start in input.take()? {
            owner.start(start);
        }
        // An agent signals after it wrote the order; an agent that died may not have come to it.
        if input.is_closed() && !was_closed {
            watcher.forget(&input.file);
            asked = true;
        }
        if std::mem::take(&mut asked) {
            owner.look_at_requests();
        }
        owner.look_at_lease();
        let waits = input.is_closed() || !owner.leased.is_empty();
        owner.writer.listen(waits);
        if waits {
            let kept = owner.writer.kept();
            owner.leased.retain(|id, _| kept.contains(id));
            if input.is_closed() && kept.is_empty() {
                return Ok(());
            }
        }
        watcher.arm(alarm, owner.due());
        watcher.wait()?;
        while signals.read_signal()?.is_some() {
            asked = true;
        }
        let _ = owner.writer.bell.read();
        owner.writer.write_out();
    }
}

impl Owner {
    fn start(&mut self, start: Start) {
        let (id, plan) = (start.plan.id, start.plan);
        let control = Control::of(self.options.work(), &id);
        // One that may not be taken on any more was given up by a later agent.
        let Ok(Some((journal, lock))) = control.keep(self.own) else { return };
        self.writer.open(id, journal, lock);
        if plan.run.forbid_overlap {
            let until = uptime().saturating_add(Duration::from_millis(start.lease_ms));
            self.leased.insert(id, (until, plan.grace.min(LEASE_GRACE)));
        }
        self.runtime.start(plan);
    }

    /// Looks at requests.
    fn look_at_requests(&self) {
        for id in self.writer.kept() {
            // What cannot be read now is read again with the next signal.
            if let Ok(Some(request)) = Control::of(self.options.work(), &id).asked() {
                self.runtime.end(id, request.cause, Duration::from_millis(request.grace_ms));
            }
        }
    }

    /// Ends what must not run beyond the lease.
    fn look_at_lease(&mut self) {
        if self.leased.is_empty() {
            return;
        }
        let (now, renewed) = (uptime(), read_lease(self.options.work()));
        for (id, (until, grace)) in &mut self.leased {
            *until = renewed.max(*until);
            if *until <= now {
                self.runtime.end(*id, Cause::Lease, *grace);
            }
        }
    }

    /// When something is due by time.
    fn due(&self) -> Option<Instant> {
        let now = uptime();
        // One whose lease has run out was asked to end; the bell tells of its end.
        let next =
            self.leased.values().map(|(until, _)| until.saturating_sub(now)).filter(|left| !left.is_zero()).min();
        let limit = if self.writer.has_unwritten() { Some(next.map_or(AGAIN, |next| next.min(AGAIN))) } else { next };
        limit.and_then(|limit| Instant::now().checked_add(limit))
    }
}

/// Orders that come in.
struct Input {
    file: File,
    bytes: Vec<u8>,
    closed: bool,
}

impl Input {
    fn new() -> io::Result<Self> {
        let file = File::from(io::stdin().as_fd().try_clone_to_owned()?);
        let null = File::open("/dev/null")?;
        nix::unistd::dup2_stdin(&null)?;
        Ok(Self { file, bytes: Vec::new(), closed: false })
    }

    const fn is_closed(&self) -> bool {
        self.closed
    }

    /// The first order; none when the agent died before it gave it.
    fn read_options(&mut self) -> io::Result<Option<RuntimeOptions>> {
        loop {
            if let Some(options) = wire::take(&mut self.bytes)? {
                fcntl(&self.file, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
                return Ok(Some(options));
            }
            if self.read()? == 0 {
                return Ok(None);
            }
        }
    }

    /// Orders that are whole.
    fn take(&mut self) -> io::Result<Vec<Start>> {
        while !self.closed {
            match self.read() {
                Ok(0) => self.closed = true,
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        let mut all = Vec::new();
        // The rest of one that is not whole never comes when the agent is dead: nothing was started for it.
        while let Some(start) = wire::take(&mut self.bytes)? {
            all.push(start);
        }
        Ok(all)
    }

    fn read(&mut self) -> io::Result<usize> {
        let mut buffer = [0; 16 << 10];
        let len = loop {
            match self.file.read(&mut buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => break read?,
            }
        };
        self.bytes.extend_from_slice(buffer.get(..len).unwrap_or_default());
        Ok(len)
    }
}

/// The journal of an attempt that is kept, and the claim on it.
#[derive(Debug)]
struct OpenJournal {
    journal: SegmentWriter,
    over: bool,
    _lock: Flock<File>,
}

/// Where a supervisor writes what becomes of attempts: the journal of each.
#[derive(Debug)]
struct JournalWriter {
    journals: Mutex<BTreeMap<TaskRef, OpenJournal>>,
    dirty: Mutex<BTreeSet<TaskRef>>,
    /// Somebody wants to know when an attempt is over.
    heard: AtomicBool,
    /// Rings then, and when something was not written.
    bell: EventFd,
}

impl JournalWriter {
    fn new() -> io::Result<Self> {
        let bell = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?;
        Ok(Self { journals: Mutex::default(), dirty: Mutex::default(), heard: AtomicBool::new(true), bell })
    }

    /// Writes the journal of an attempt that is kept from now on, until its end is written.
    fn open(&self, id: TaskRef, journal: SegmentWriter, lock: Flock<File>) {
        self.journals().insert(id, OpenJournal { journal, over: false, _lock: lock });
    }

    /// From now on the end of an attempt is reported, or not.
    fn listen(&self, listens: bool) {
        self.heard.store(listens, Ordering::SeqCst);
    }

    /// Attempts that are kept.
    fn kept(&self) -> Vec<TaskRef> {
        self.journals().keys().copied().collect()
    }

    /// Whether something waits to be written.
    fn has_unwritten(&self) -> bool {
        !self.dirty.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// Writes what waits. False when the disk did not take all of it: that waits in memory.
    fn write_out(&self) -> bool {
        let dirty = std::mem::take(&mut *self.dirty.lock().unwrap_or_else(PoisonError::into_inner));
        let (mut journals, mut unwritten) = (self.journals(), BTreeSet::new());
        for id in dirty {
            let Some(opened) = journals.get_mut(&id) else { continue };
            if opened.journal.write().is_err() {
                unwritten.insert(id);
            } else if opened.over {
                // With the lock goes the claim on the attempt: its end is written.
                journals.remove(&id);
                if self.heard.load(Ordering::SeqCst) {
                    let _ = self.bell.write(1);
                }
            }
        }
        let all = unwritten.is_empty();
        self.dirty.lock().unwrap_or_else(PoisonError::into_inner).append(&mut unwritten);
        all
    }

    fn journals(&self) -> MutexGuard<'_, BTreeMap<TaskRef, OpenJournal>> {
        self.journals.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, id: TaskRef, report: &Report) {
        let mut journals = self.journals();
        let Some(opened) = journals.get_mut(&id) else { return };
        // One that is too long is written by nobody: output comes in chunks, outputs and reasons are bounded.
        if opened.journal.append(report).is_ok() {
            opened.over |= matches!(report, Report::Ended(_));
            self.dirty.lock().unwrap_or_else(PoisonError::into_inner).insert(id);
        }
    }
}

impl AttemptEvents for JournalWriter {
    fn started(&self, id: TaskRef, started: Started) {
        self.write(id, &Report::Started(started));
    }

    fn log(&self, id: TaskRef, chunk: LogChunk) -> LogCapacity {
        self.write(id, &Report::Log(chunk));
        LogCapacity::Free
    }

    fn ended(&self, id: TaskRef, end: AttemptEnd) {
        self.write(id, &Report::Ended(end));
    }

    fn flush(&self) {
        if !self.write_out() {
            let _ = self.bell.write(1);
        }
    }
}
