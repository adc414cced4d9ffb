//! The supervisor: a process that outlives the host that started it, and keeps its pods to their end. This module is its loop: it takes
//! connections with orders, waits for everything its pods wait for, and ends when the host is gone and no pod is left. A pod is claimed
//! in `claim`, kept in `pod` and `container`, and its processes are made in `launch`.
//!
//! One thread keeps all pods and makes their processes. What may wait for a disk (claiming a pod, writing how it ended) is done by
//! threads of its own.

mod claim;
mod clock;
mod container;
mod launch;
mod mounts;
mod pod;
mod verdict;
mod view;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions};
use std::io::{self, IoSliceMut, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd, RawFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Instant;

use fork::{Fork, fork};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::wait::waitpid;
use nix::unistd::Pid;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};

use self::pod::{Context, Pod};
use super::failure::Failure;
use super::tree::{Orphans, Others};
use super::watcher::{Descriptor, Mailbox, Watcher};
use super::wire::{self, KeepReply, SupervisorCommand};
use super::{child, probe, request};

/// Bytes read at once.
const READ: usize = 64 * 1024;
/// Threads for what may wait for a disk, and the stack of each in bytes.
const WORKERS: usize = 8;
const STACK: usize = 512 * 1024;

/// What a program does that embeds the runtime and is started with the arguments of its
/// [`RoleProgram`](super::RoleProgram).
///
/// It takes connections to the runtime from the socket that is its standard input, and returns when the runtime is gone and all pods
/// have ended. Call it first thing in `main`: signals are blocked for all of its threads.
#[must_use]
pub fn main() -> ExitCode {
    match Supervisor::new() {
        Ok(mut supervisor) => match supervisor.run() {
            Ok(()) => ExitCode::SUCCESS,
            Err(_) => ExitCode::FAILURE,
        },
        Err(error) => {
            complain(&format!("a supervisor takes its orders from the runtime over a socket: {error}"));
            ExitCode::from(2)
        }
    }
}

/// Tries in this process whether a container can have a view of the file system of its own.
pub(super) fn try_view(user_namespace: bool) -> Result<(), Failure> {
    view::attempt(user_namespace)
}

/// Reports what is wrong, if somebody still listens.
fn complain(what: &str) {
    drop(writeln!(io::stderr(), "{what}"));
}

/// What threads have done.
enum Done {
    /// A pod is claimed, or there is none to keep.
    Claimed(Option<Box<Pod>>),
    /// The end of a pod is written.
    Written,
}

/// Threads for what may wait for a disk.
struct Workers(Option<mpsc::Sender<Work>>);

type Work = Box<dyn FnOnce() + Send>;

impl Workers {
    /// As many threads as can be made; without any the supervisor does the work itself.
    fn new() -> Self {
        let (send, work) = mpsc::channel::<Work>();
        let work = Arc::new(Mutex::new(work));
        let mut made = 0;
        for _ in 0..WORKERS {
            let work = Arc::clone(&work);
            let next = move || work.lock().unwrap_or_else(PoisonError::into_inner).recv();
            let run = move || {
                while let Ok(work) = next() {
                    // One that panics answers by that.
                    drop(catch_unwind(AssertUnwindSafe(work)));
                }
            };
            let thread = std::thread::Builder::new().name("orlop-pod".to_owned()).stack_size(STACK);
            made += usize::from(thread.spawn(run).is_ok());
        }
        Self((made > 0).then_some(send))
    }

    fn run(&self, work: Work) {
        match &self.0 {
            Some(workers) => {
                if let Err(mpsc::SendError(work)) = workers.send(work) {
                    work();
                }
            }
            None => work(),
        }
    }
}

/// The answer of a thread; one that broke off has answered as well.
struct ThreadAnswer {
    mailbox: Arc<Mailbox<Done>>,
    is_given: bool,
}

impl ThreadAnswer {
    fn give(mut self, done: Done) {
        self.is_given = true;
        self.mailbox.send(done);
    }
}

impl Drop for ThreadAnswer {
    fn drop(&mut self) {
        if !self.is_given {
            self.mailbox.send(Done::Claimed(None));
        }
    }
}

struct Supervisor {
    /// The socket to the runtime, until that is gone.
    control: Option<OwnedFd>,
    signals: SignalFd,
    mailbox: Arc<Mailbox<Done>>,
    watcher: Watcher,
    numbers: Numbers,
    orphans: Orphans,
    pods: BTreeMap<u64, Pod>,
    /// First processes of containers.
    starters: BTreeSet<i32>,
    /// Descriptors whose copies in other processes would pass for the supervisor's: locks and lives of pods, the socket to the runtime.
    private: BTreeSet<RawFd>,
    workers: Workers,
    /// Work that they have and did not answer yet.
    working: usize,
    /// Whether it was asked to end: it keeps what it has to its end, and takes nothing more.
    is_ending: bool,
    buffer: Vec<u8>,
    /// Open files of a program, at most, as this one was started.
    files: u64,
}

/// What the supervisor itself waits for.
#[derive(Clone, Copy)]
struct Numbers {
    control: u64,
    signals: u64,
    mailbox: u64,
}

impl Supervisor {
    /// Takes standard input as the socket to the runtime; all else that was inherited goes.
    fn new() -> io::Result<Self> {
        rustix::net::sockopt::socket_type(io::stdin().as_fd())?;
        let control = io::stdin().as_fd().try_clone_to_owned()?;
        let null = OpenOptions::new().read(true).write(true).open("/dev/null")?;
        for fd in child::foreign()? {
            let _ = nix::unistd::close(fd);
        }
        // Away from the terminal and process group of the caller; fails only where that is so already.
        let _ = nix::unistd::setsid();
        drop(std::env::set_current_dir("/"));
        let signals = signals()?;
        let (files, most) = getrlimit(Resource::RLIMIT_NOFILE)?;
        // Every pod has some; its programs get what this one had.
        setrlimit(Resource::RLIMIT_NOFILE, most, most)?;
        let (mut watcher, mailbox) = (Watcher::new()?, Mailbox::new()?);
        let numbers = Numbers { control: watcher.number(), signals: watcher.number(), mailbox: watcher.number() };
        watcher.watch(&control, numbers.control, Descriptor::Only)?;
        watcher.watch(&signals, numbers.signals, Descriptor::Only)?;
        watcher.watch(mailbox.bell(), numbers.mailbox, Descriptor::Only)?;
        let orphans = Orphans::new()?;
        // From here on there is nothing to complain of.
        nix::unistd::dup2_stdin(&null)?;
        nix::unistd::dup2_stdout(&null)?;
        nix::unistd::dup2_stderr(&null)?;
        let fd = control.as_raw_fd();
        Ok(Self {
            control: Some(control),
            signals,
            mailbox,
            watcher,
            numbers,
            orphans,
            pods: BTreeMap::new(),
            starters: BTreeSet::new(),
            private: BTreeSet::from([fd]),
            workers: Workers::new(),
            working: 0,
            is_ending: false,
            buffer: vec![0; READ],
            files,
        })
    }

    /// Works until the runtime is gone and no pod is left.
    fn run(&mut self) -> io::Result<()> {
        while self.control.is_some() || !self.pods.is_empty() || self.working > 0 {
            for (number, kind) in self.watcher.wait()? {
                match number {
                    number if number == self.numbers.control => self.take(),
                    number if number == self.numbers.signals => self.read_signals(),
                    number if number == self.numbers.mailbox => self.mailbox.silence(),
                    number => self.with(number, |pod, context| pod.ready(kind, context)),
                }
            }
            for done in self.mailbox.take() {
                self.working -= 1;
                if let Done::Claimed(Some(pod)) = done {
                    let number = self.watcher.number();
                    self.private.extend(pod.private());
                    self.pods.insert(number, *pod);
                    self.with(number, |pod, _| pod.look());
                    if self.is_ending {
                        self.with(number, |pod, _| pod.supervisor_ends());
                    }
                }
            }
            let at = Instant::now();
            while let Some(number) = self.watcher.due(at) {
                self.with(number, Pod::tick);
            }
        }
        Ok(())
    }

    /// Lets something happen to a pod, and what follows from it.
    fn with(&mut self, number: u64, act: impl FnOnce(&mut Pod, &mut Context<'_>)) {
        let alone = self.pods.len() == 1;
        let Some(pod) = self.pods.get_mut(&number) else { return };
        let mut context = Context {
            number,
            watcher: &self.watcher,
            orphans: &self.orphans,
            starters: &mut self.starters,
            private: &self.private,
            alone,
            buffer: &mut self.buffer,
            files: self.files,
        };
        act(pod, &mut context);
        pod.go_on(&mut context);
        let (due, is_over) = (pod.due(), pod.is_over());
        self.watcher.arm(number, due.filter(|_| !is_over));
        if is_over && let Some(pod) = self.pods.remove(&number) {
            let private = pod.private();
            self.private.retain(|fd| !private.contains(fd));
            self.write_end(pod);
        }
    }

    /// Has the end of a pod written, and lets go of it then.
    fn write_end(&mut self, pod: Pod) {
        let answer = self.answer();
        self.workers.run(Box::new(move || {
            pod.write_end();
            answer.give(Done::Written);
        }));
    }

    /// By what a thread tells that it has done its work.
    fn answer(&mut self) -> ThreadAnswer {
        self.working += 1;
        ThreadAnswer { mailbox: Arc::clone(&self.mailbox), is_given: false }
    }

    /// Takes the next connection, if the runtime is still there, and has its order carried out.
    fn take(&mut self) {
        let Some(control) = &self.control else { return };
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut byte = [0];
        let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
        match recvmsg(control, &mut [IoSliceMut::new(&mut byte)], &mut ancillary, flags) {
            Ok(message) if message.bytes > 0 => {}
            Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => return,
            // The runtime is gone, or cannot be heard any more. Pods live on.
            Ok(_) | Err(_) => return self.hear_no_more(),
        }
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(connections) = message {
                for connection in connections {
                    let answer = self.answer();
                    self.workers.run(Box::new(move || {
                        answer.give(Done::Claimed(obey(File::from(connection)).map(Box::new)));
                    }));
                }
            }
        }
    }

    /// Takes no more orders.
    fn hear_no_more(&mut self) {
        if let Some(control) = self.control.take() {
            self.private.remove(&control.as_raw_fd());
            self.watcher.forget(&control);
        }
    }

    fn read_signals(&mut self) {
        while let Ok(Some(info)) = self.signals.read_signal() {
            match i32::try_from(info.ssi_signo).ok().and_then(|number| Signal::try_from(number).ok()) {
                Some(Signal::SIGCHLD) => drop(self.orphans.reap(&self.starters)),
                Some(request::LOOK) => self.with_all(Pod::look),
                Some(Signal::SIGTERM) => {
                    self.is_ending = true;
                    self.hear_no_more();
                    self.with_all(Pod::supervisor_ends);
                }
                _ => {}
            }
        }
    }

    fn with_all(&mut self, act: fn(&mut Pod)) {
        let numbers: Vec<u64> = self.pods.keys().copied().collect();
        numbers.into_iter().for_each(|number| self.with(number, |pod, _| act(pod)));
    }
}

impl<'a> Context<'a> {
    fn others(&self) -> Others<'_> {
        Others { orphans: self.orphans, starters: self.starters, alone: self.alone }
    }
}

/// Signals are read where everything else is waited for; blocked before anything is claimed, none is missed after it.
fn signals() -> io::Result<SignalFd> {
    let mut set = SigSet::empty();
    for signal in [Signal::SIGCHLD, request::LOOK, Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
        set.add(signal);
    }
    set.thread_block()?;
    Ok(SignalFd::with_flags(&set, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?)
}

/// Reads the order of a connection and answers it. Gives the pod that is to be kept.
fn obey(mut connection: File) -> Option<Pod> {
    match wire::decode(&mut connection) {
        Ok(Some(SupervisorCommand::Keep(order))) => {
            let (pod, reply) = match claim::claim(*order) {
                Ok(Some((pod, own))) => (Some(pod), KeepReply::Claimed(own)),
                Ok(None) => (None, KeepReply::Taken),
                Err(failure) => (None, KeepReply::Refused(failure.source.raw_os_error(), failure.to_string())),
            };
            answer(&mut connection, &reply);
            pod
        }
        Ok(Some(SupervisorCommand::Probe)) => {
            probe_in_child(&mut connection);
            None
        }
        // The sender is gone, or is no runtime: nothing was claimed, nothing runs.
        Ok(None) | Err(_) => None,
    }
}

/// Answers in one line. The caller may be gone by now, which changes nothing.
fn answer(connection: &mut File, reply: &KeepReply) {
    let line = serde_json::to_vec(reply).map_err(io::Error::from);
    drop(line.and_then(|line| connection.write_all(&[&line[..], b"\n"].concat())));
}

/// Tries what this machine allows in a process of its own, which has its namespaces alone.
fn probe_in_child(connection: &mut File) {
    match fork() {
        Ok(Fork::Child) => std::process::exit(i32::from(probe::answer(connection).is_err())),
        Ok(Fork::Parent(pid)) => drop(waitpid(Pid::from_raw(pid), None)),
        Err(error) => {
            let reply = KeepReply::Refused(error.raw_os_error(), format!("a process cannot be created: {error}"));
            answer(connection, &reply);
        }
    }
}
