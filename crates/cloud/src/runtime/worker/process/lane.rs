//! One thread that starts attempts and keeps them to their end. Owns waiting (processes, pipes, timers, orders) and the
//! order of reports; what happens in an attempt's life is [`Life`]'s.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::eventfd::{EfdFlags, EventFd};
use orlop_core::spec::job::OnFull;
use orlop_core::task::TaskRef;

use super::life::Life;
use super::spawn::Spawner;
use super::{Shared, begin};
use crate::runtime::logs::now;
use crate::runtime::worker::directories::clear;
use crate::runtime::worker::event::{AttemptEnd, Cause, LogCapacity, LogChunk};
use crate::runtime::worker::plan::AttemptPlan;
use crate::runtime::worker::verdict::Why;

/// Bytes read at once.
const READ: usize = 64 * 1024;
/// What a descriptor of a life is, in the lowest bits of its number.
const OUT: u64 = 0;
const ERR: u64 = 1;
const END: u64 = 2;
/// The number of the descriptor that wakes a lane.
const WAKE: u64 = u64::MAX;

/// What a lane is asked to do.
#[derive(Debug)]
pub(super) enum LaneCommand {
    Start(Box<AttemptPlan>),
    End(TaskRef, Cause, Duration),
    Resume(TaskRef),
    Stop,
}

/// The way to a thread: orders, and a bell that wakes it.
#[derive(Debug)]
pub(in crate::runtime::worker) struct Mailbox<O> {
    orders: Mutex<VecDeque<O>>,
    bell: EventFd,
    rung: AtomicBool,
    /// Attempts it was given and that have not ended.
    pub(in crate::runtime::worker) load: AtomicUsize,
}

impl<O> Mailbox<O> {
    pub(in crate::runtime::worker) fn new() -> io::Result<Arc<Self>> {
        let bell = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?;
        let (orders, rung, load) = (Mutex::default(), AtomicBool::new(false), AtomicUsize::new(0));
        Ok(Arc::new(Self { orders, bell, rung, load }))
    }

    pub(in crate::runtime::worker) fn send(&self, order: O) {
        self.orders.lock().unwrap_or_else(PoisonError::into_inner).push_back(order);
        if !self.rung.swap(true, Ordering::SeqCst) {
            // A counter at its limit rings as well.
            let _ = self.bell.write(1);
        }
    }

    pub(in crate::runtime::worker) fn take(&self) -> VecDeque<O> {
        std::mem::take(&mut *self.orders.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Readable when there is something.
    pub(in crate::runtime::worker) const fn bell(&self) -> &EventFd {
        &self.bell
    }

    pub(in crate::runtime::worker) fn silence(&self) {
        let _ = self.bell.read();
        self.rung.store(false, Ordering::SeqCst);
    }
}

/// See the module.
#[derive(Debug)]
pub(super) struct Lane {
    shared: Arc<Shared>,
    mailbox: Arc<Mailbox<LaneCommand>>,
    spawner: Spawner,
    epoll: Epoll,
    /// By a number that is never used again.
    lives: BTreeMap<u64, Life>,
    numbers: BTreeMap<TaskRef, u64>,
    timers: BTreeSet<(Instant, u64)>,
    next: u64,
    /// Whether this is the first thread of the program, whose children are not all orphans.
    first_thread: bool,
    starters: BTreeSet<i32>,
    buffer: Vec<u8>,
    reported: bool,
}

impl Lane {
    /// For the calling thread.
    pub(super) fn new(shared: Arc<Shared>, mailbox: Arc<Mailbox<LaneCommand>>) -> io::Result<Self> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        epoll.add(&mailbox.bell, EpollEvent::new(EpollFlags::EPOLLIN, WAKE))?;
        let first_thread = u32::try_from(nix::unistd::gettid().as_raw()).is_ok_and(|id| id == std::process::id());
        Ok(Self {
            shared,
            mailbox,
            spawner: Spawner::new()?,
            epoll,
            lives: BTreeMap::new(),
            numbers: BTreeMap::new(),
            timers: BTreeSet::new(),
            next: 0,
            first_thread,
            starters: BTreeSet::new(),
            buffer: vec![0; READ],
            reported: false,
        })
    }

    /// Works until it gets the command to stop.
    pub(super) fn run(&mut self) -> io::Result<()> {
        let mut events = [EpollEvent::empty(); 64];
        loop {
            for order in self.mailbox.take() {
                match order {
                    LaneCommand::Start(plan) => self.start(*plan),
                    LaneCommand::End(id, cause, grace) => self.end(&id, cause, grace),
                    LaneCommand::Resume(id) => self.resume(&id),
                    LaneCommand::Stop => return Ok(()),
                }
            }
            self.ring();
            if std::mem::take(&mut self.reported) {
                self.shared.events.flush();
            }
            let found = match self.epoll.wait(&mut events, self.timeout()) {
                Ok(found) => found,
                Err(Errno::EINTR) => 0,
                Err(error) => return Err(error.into()),
            };
            for event in events.iter().take(found) {
                match event.data() {
                    WAKE => self.mailbox.silence(),
                    data => self.ready(data >> 2, data & 3),
                }
            }
        }
    }

    fn timeout(&self) -> EpollTimeout {
        let Some((at, _)) = self.timers.first() else { return EpollTimeout::NONE };
        let left = at.saturating_duration_since(Instant::now());
        // Rounded up, so that what is due is due when this returns.
        let millis = left.as_nanos().div_ceil(1_000_000).min(60_000);
        EpollTimeout::try_from(u32::try_from(millis).unwrap_or(60_000)).unwrap_or(EpollTimeout::ZERO)
    }

    fn start(&mut self, plan: AttemptPlan) {
        let id = plan.id;
        if self.numbers.contains_key(&id) {
            return;
        }
        match begin::begin(plan, &self.shared, &self.spawner) {
            Ok((life, started)) => {
                self.shared.live.fetch_add(1, Ordering::Relaxed);
                if self.first_thread {
                    self.starters.insert(life.body.pid);
                }
                self.next += 1;
                let number = self.next;
                let watched = self.watch(number, &life);
                self.numbers.insert(id, number);
                self.lives.insert(number, life);
                self.reported = true;
                self.shared.events.started(id, started);
                if let Err(error) = watched {
                    tracing::error!(attempt = %id, %error, "an attempt cannot be waited for; it is ended");
                    self.end(&id, Cause::Cancel, Duration::ZERO);
                }
                self.settle(number);
            }
            Err(refused) => {
                self.reported = true;
                self.mailbox.load.fetch_sub(1, Ordering::Relaxed);
                let message = refused.to_string();
                let (end, said) = match refused.exit_code() {
                    Some(code) => AttemptEnd::cannot_start(code, &message, now()),
                    None => AttemptEnd::start_failed(refused.word(), &message, now()),
                };
                // There may be no room: why it did not start is reported all the same.
                let _ = self.shared.events.log(id, said);
                self.shared.events.ended(id, end);
            }
        }
    }

    fn watch(&self, number: u64, life: &Life) -> nix::Result<()> {
        self.epoll.add(life.body.end.as_fd(), EpollEvent::new(EpollFlags::EPOLLIN, (number << 2) | END))?;
        self.watch_pipes(number, life)
    }

    fn watch_pipes(&self, number: u64, life: &Life) -> nix::Result<()> {
        for (pipe, kind) in life.pipes.iter().zip([OUT, ERR]) {
            if let Some(pipe) = pipe {
                self.epoll.add(pipe, EpollEvent::new(EpollFlags::EPOLLIN, (number << 2) | kind))?;
            }
        }
        Ok(())
    }

    fn end(&mut self, id: &TaskRef, cause: Cause, grace: Duration) {
        let Some(number) = self.numbers.get(id).copied() else { return };
        if let Some(life) = self.lives.get_mut(&number) {
            life.ask(Why::Asked(cause), grace, Instant::now(), &self.shared);
        }
        self.settle(number);
    }

    fn resume(&mut self, id: &TaskRef) {
        let Some(number) = self.numbers.get(id).copied() else { return };
        if let Some(life) = self.lives.get_mut(&number).filter(|life| life.paused) {
            life.paused = false;
        }
        let watched = self.lives.get(&number).map_or(Ok(()), |life| self.watch_pipes(number, life));
        if let Err(error) = watched {
            tracing::error!(attempt = %id, %error, "the output of an attempt cannot be waited for");
        }
    }

    /// A descriptor of a life has something to say.
    fn ready(&mut self, number: u64, kind: u64) {
        let Some(life) = self.lives.get_mut(&number) else { return };
        let at = Instant::now();
        if kind == END {
            // It stays readable; the process is reaped when nothing else is left of the attempt.
            let _ = self.epoll.delete(life.body.end.as_fd());
            life.died(at, &self.shared, &self.starters);
        } else {
            let which = if kind == OUT { 0 } else { 1 };
            if !life.read(which, &mut self.buffer, at, &self.shared) {
                forget(&self.epoll, life.pipes.get_mut(which).and_then(Option::take));
            }
        }
        self.settle(number);
    }

    /// Does what is due by time.
    fn ring(&mut self) {
        let at = Instant::now();
        while let Some((due, number)) = self.timers.first().copied().filter(|(due, _)| *due <= at) {
            self.timers.remove(&(due, number));
            let Some(life) = self.lives.get_mut(&number) else { continue };
            life.armed = None;
            life.tick(at, &self.shared, &self.starters);
            self.settle(number);
        }
    }

    /// After something happened in a life: tells its output, sets its timer, and ends it when it is over.
    fn settle(&mut self, number: u64) {
        let Some(life) = self.lives.get_mut(&number) else { return };
        let was_paused = life.paused;
        if !life.fresh.is_empty() {
            self.reported = true;
            let room = tell(&self.shared, life.body.plan.id, std::mem::take(&mut life.fresh));
            if room == LogCapacity::Full && life.body.plan.run.log.on_full == OnFull::Block {
                life.paused = true;
            }
        }
        if life.paused {
            for pipe in life.pipes.iter().flatten() {
                match self.epoll.delete(pipe) {
                    Ok(()) | Err(Errno::ENOENT) => {}
                    Err(error) => tracing::error!(%error, was_paused, "a pipe cannot be left alone"),
                }
            }
        }
        if life.is_over() {
            return self.bury(number);
        }
        let due = life.due();
        if due != life.armed {
            if let Some(before) = life.armed {
                self.timers.remove(&(before, number));
            }
            life.armed = due;
            self.timers.extend(due.map(|due| (due, number)));
        }
    }

    fn bury(&mut self, number: u64) {
        let Some(life) = self.lives.remove(&number) else { return };
        for pipe in life.pipes.iter().flatten() {
            let _ = self.epoll.delete(pipe);
        }
        if let Some(armed) = life.armed {
            self.timers.remove(&(armed, number));
        }
        let (id, keep, pid) = (life.body.plan.id, life.body.plan.run.keep, life.body.pid);
        self.numbers.remove(&id);
        let (finished, fresh) = life.finish(&mut self.buffer, &self.shared);
        self.starters.remove(&pid);
        // There may be no room: the last output of an attempt is reported all the same.
        let _ = tell(&self.shared, id, fresh);
        if let Some(secrets) = &finished.secrets {
            clear(secrets);
        }
        if let Some(Err(error)) = finished.group.map(|group| group.remove()) {
            tracing::warn!(attempt = %id, %error, "a control group stays");
        }
        if !keep {
            self.shared.directories.retire(&finished.dir, finished.end.outcome);
        }
        self.reported = true;
        self.shared.live.fetch_sub(1, Ordering::Relaxed);
        self.mailbox.load.fetch_sub(1, Ordering::Relaxed);
        self.shared.events.ended(id, finished.end);
    }
}

/// Lets go of a pipe that has ended. A process that is being made in another thread has a copy of it for a moment, so
/// that closing it alone would not end its events.
fn forget(epoll: &Epoll, pipe: Option<File>) {
    if let Some(pipe) = pipe {
        let _ = epoll.delete(&pipe);
    }
}

fn tell(shared: &Shared, id: TaskRef, chunks: Vec<LogChunk>) -> LogCapacity {
    let mut room = LogCapacity::Free;
    for chunk in chunks {
        if shared.events.log(id, chunk) == LogCapacity::Full {
            room = LogCapacity::Full;
        }
    }
    room
}
