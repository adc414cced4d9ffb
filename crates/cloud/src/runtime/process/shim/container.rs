//! One run of one container: its process is started through a launcher, its output captured, its end awaited, and what
//! is left of it killed. Owns the pipes to the process; what the end means for the pod is decided in [`pod`](super::pod).

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use fork::{Fork, fork};
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::unistd::{Pid, Uid, User, setpgid};
use orlop_core::time::Time;

use super::launch::launch;
use super::pod::{Attempt, Pod};
use super::verdict;
use super::view::WORK;
use crate::runtime::clock::now;
use crate::runtime::logs::capture::Tail;
use crate::runtime::pod::{ContainerExit, Mount};
use crate::runtime::process::MARKER;
use crate::runtime::process::cgroup::{Bounds, Cgroup};
use crate::runtime::process::failure::{During, Failure};
use crate::runtime::process::layout::Layout;
use crate::runtime::process::paths::{self, Paths};
use crate::runtime::process::record::read_some;
use crate::runtime::process::tree::Ended;
use crate::runtime::process::wire::{self, Container, LaunchOrder, LaunchReply, Variable, View};

/// Where commands are looked for when nobody says.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Bytes read at once.
pub(super) const READ: usize = 64 * 1024;
/// Reads of a pipe after its writer is dead: 4 MiB, where pipes hold 64 KiB and at most 1 MiB.
const DRAIN_READS: usize = 64;

/// A container that runs.
#[derive(Debug)]
pub(super) struct Running {
    pid: i32,
    is_main: bool,
    stdout: Option<PipeReader>,
    stderr: Option<PipeReader>,
    launcher: Option<UnixStream>,
    /// What the launcher said.
    said: Vec<u8>,
}

impl Running {
    pub(super) const fn pid(&self) -> i32 {
        self.pid
    }

    pub(super) const fn is_main(&self) -> bool {
        self.is_main
    }

    /// What to wait for.
    pub(super) fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        let pipes = [self.stdout.as_ref().map(AsFd::as_fd), self.stderr.as_ref().map(AsFd::as_fd)];
        pipes.into_iter().chain([self.launcher.as_ref().map(AsFd::as_fd)]).flatten().collect()
    }
}

/// One read of a pipe.
enum Piece {
    Bytes(usize),
    NothingNow,
    End,
}

fn read_piece(from: &mut impl Read, buffer: &mut [u8]) -> Piece {
    match from.read(buffer) {
        Ok(0) => Piece::End,
        Ok(len) => Piece::Bytes(len),
        Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
            Piece::NothingNow
        }
        Err(_) => Piece::End,
    }
}

impl Pod {
    /// Runs a container to its end.
    pub(super) fn run_container(&mut self, index: usize, container: &Container) -> io::Result<Attempt> {
        let started_at = now();
        let words = self.view.join(format!("words-{index}"));
        let oom_before = self.cgroup.as_ref().map_or(0, Cgroup::oom_kills);
        self.tail = Tail::default();
        if let Err(failure) = self.start(index, container, &words) {
            self.running = None;
            self.end_all();
            let message = self.masker.mask_text(&failure.to_string());
            let exit = exit(container, Ended::Exited(verdict::CANNOT_START), &message, started_at);
            return Ok(Attempt { exit, cannot_start: true });
        }
        while self.family.ended().is_none() {
            self.turn(None)?;
        }
        let ended = self.family.ended().unwrap_or(Ended::Exited(verdict::CANNOT_START));
        // What the process left behind goes with it; then all it wrote is in the pipes.
        self.end_all();
        self.drain();
        let (layout, failed) = self.running.take().map(|running| replies(&running.said)).unwrap_or_default();
        if let Some(layout) = layout.filter(|_| index == self.order.init.len()) {
            self.keep_layout(&layout).map_err(|failure| io::Error::other(failure.to_string()))?;
        }
        let cannot_start = failed.as_ref().is_some_and(|(code, _)| *code == verdict::CANNOT_START);
        let (ended, message) = match failed {
            Some((code, message)) => (Ended::Exited(code), message),
            None => (ended, self.last_words(container, &words, ended)),
        };
        let shown = self.masker.mask_values(&message);
        let mut exit = exit(container, ended, &shown, started_at);
        exit.masked = shown != message;
        let oom = self.cgroup.as_ref().map_or(0, Cgroup::oom_kills) > oom_before;
        exit.oom_killed = oom && exit.signal == Some(nix::libc::SIGKILL);
        Ok(Attempt { exit, cannot_start })
    }

    fn start(&mut self, index: usize, container: &Container, words: &Path) -> Result<(), Failure> {
        self.prepare_words(container, words).during(|| format!("making `{}`", words.display()))?;
        let is_main = index == self.order.init.len();
        let outputs = if is_main { self.order.outputs.clone() } else { Vec::new() };
        let order = self.launch_order(container, words, &outputs)?;
        if let Some(group) = &self.cgroup {
            group.limit(&Bounds::from(container))?;
        }
        let (stdout, out) = io::pipe().during(|| "making a pipe".to_owned())?;
        let (stderr, err) = io::pipe().during(|| "making a pipe".to_owned())?;
        let (mut launcher, theirs) = UnixStream::pair().during(|| "making a socket".to_owned())?;
        let pid = match fork().during(|| "starting a process".to_owned())? {
            Fork::Parent(pid) => pid,
            Fork::Child => self.launch(order, &theirs, &out, &err),
        };
        drop((theirs, out, err));
        // Here as well as in the child, so that nobody signals a group that is not there yet.
        let _ = setpgid(Pid::from_raw(pid), Pid::from_raw(pid));
        self.family.watch(pid);
        let pipes = [&stdout, &stderr].map(|pipe| fcntl(pipe, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)));
        for pipe in pipes {
            pipe.during(|| "setting up a pipe".to_owned())?;
        }
        if let Some(group) = &self.cgroup {
            group.add(pid)?;
        }
        // Until it hears this the launcher does nothing, so nothing runs outside of the group.
        let sent = launcher.write_all(b"\n").and_then(|()| launcher.set_nonblocking(true));
        sent.during(|| "letting a process begin".to_owned())?;
        let (stdout, stderr, launcher) = (Some(stdout), Some(stderr), Some(launcher));
        self.running = Some(Running { pid, is_main, stdout, stderr, launcher, said: Vec::new() });
        Ok(())
    }

    /// Goes on in the process that was forked for a container, until its program takes over.
    fn launch(&self, order: LaunchOrder, shim: &UnixStream, out: &PipeWriter, err: &PipeWriter) -> ! {
        // The locks are the shim's alone. Nothing may unwind into what the shim does.
        let launched = catch_unwind(AssertUnwindSafe(|| {
            drop(self.locks.close());
            launch(order, shim, out, err)
        }));
        std::process::exit(launched.unwrap_or(verdict::CANNOT_START))
    }

    /// An empty file for last words that any user may write to.
    fn prepare_words(&self, container: &Container, words: &Path) -> io::Result<()> {
        fs::write(words, "")?;
        fs::set_permissions(words, fs::Permissions::from_mode(0o666))?;
        if container.user.is_some() || container.group.is_some() {
            for place in ["top", "tmp"] {
                std::os::unix::fs::chown(self.view.join(place), container.user, container.group)?;
            }
        }
        Ok(())
    }

    fn launch_order(
        &mut self,
        container: &Container,
        words: &Path,
        outputs: &[String],
    ) -> Result<LaunchOrder, Failure> {
        let own = i32::try_from(std::process::id()).map_err(io::Error::other);
        let mut order = LaunchOrder {
            shim: own.during(|| "starting a process".to_owned())?,
            argv: container.argv.clone(),
            env: self.environment(container),
            working_dir: container.working_dir.clone().unwrap_or_else(|| "/".to_owned()),
            user: container.user,
            group: container.group,
            further_groups: self.order.further_groups.clone(),
            view: None,
        };
        if self.order.paths == Paths::Rewritten {
            let (mut changed, layout) = paths::rewrite(container, &self.view, words, outputs)?;
            let tmp = self.view.join("tmp").to_string_lossy().into_owned();
            if !changed.env.iter().any(|variable| variable.name == "TMPDIR") {
                changed.env.push(Variable { name: "TMPDIR".to_owned(), value: tmp, secret: false });
            }
            order.env = self.environment(&changed);
            order.working_dir = changed.working_dir.unwrap_or(order.working_dir);
            order.argv = changed.argv;
            self.keep_layout(&layout)?;
            return Ok(order);
        }
        let mut mounts = container.mounts.clone();
        if !container.last_words_path.is_empty() {
            let target = container.last_words_path.clone();
            mounts.push(Mount { source: words.to_owned(), target, read_only: false });
        }
        let user_namespace = self.order.paths == Paths::UserNamespace;
        if !user_namespace {
            let work = self.view.join(WORK);
            let made = match fs::remove_dir_all(&work) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                _ => fs::create_dir(&work),
            };
            made.during(|| format!("making `{}`", work.display()))?;
        }
        order.view = Some(View { user_namespace, directory: self.view.clone(), mounts, outputs: outputs.to_vec() });
        Ok(order)
    }

    /// The environment of a container: some variables of the shim's own, those of the user, the plan's, and the pod's
    /// mark.
    fn environment(&self, container: &Container) -> Vec<Variable> {
        let mut env: BTreeMap<String, Variable> = BTreeMap::new();
        let mut set = |name: &str, value: String| {
            env.insert(name.to_owned(), Variable { name: name.to_owned(), value, secret: false });
        };
        set("PATH", PATH.to_owned());
        for name in &self.order.inherit {
            if let Ok(value) = std::env::var(name) {
                set(name, value);
            }
        }
        if let Some(user) = container.user.and_then(|user| User::from_uid(Uid::from_raw(user)).ok().flatten()) {
            set("HOME", user.dir.to_string_lossy().into_owned());
            set("USER", user.name.clone());
            set("LOGNAME", user.name);
        }
        if !container.gpus.is_empty() {
            let list: Vec<String> = container.gpus.iter().map(u32::to_string).collect();
            set("CUDA_DEVICE_ORDER", "PCI_BUS_ID".to_owned());
            for name in ["CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"] {
                set(name, list.join(","));
            }
        }
        for variable in &container.env {
            env.insert(variable.name.clone(), variable.clone());
        }
        let mark = Variable { name: MARKER.to_owned(), value: self.token.clone(), secret: false };
        env.insert(MARKER.to_owned(), mark);
        env.into_values().collect()
    }

    /// Remembers what the main container saw where, for reading its outputs.
    fn keep_layout(&mut self, layout: &Layout) -> Result<(), Failure> {
        let room = self.layout.take().map_or_else(|| self.directory.reserve_layout(), Ok)?;
        room.write(layout)
    }

    /// Reads what the pipes hold now.
    pub(super) fn read_pipes(&mut self) -> bool {
        let Some(running) = &mut self.running else { return false };
        let (buffer, time, mut more) = (&mut self.buffer, now(), false);
        for (pipe, capture) in [(&mut running.stdout, &mut self.stdout), (&mut running.stderr, &mut self.stderr)] {
            match pipe.as_mut().map(|pipe| read_piece(pipe, buffer)) {
                Some(Piece::Bytes(len)) => {
                    more = true;
                    capture.push(buffer.get(..len).unwrap_or_default(), time, &mut self.tail);
                }
                Some(Piece::End) => *pipe = None,
                Some(Piece::NothingNow) | None => {}
            }
        }
        match running.launcher.as_mut().map(|launcher| read_piece(launcher, buffer)) {
            Some(Piece::Bytes(len)) => {
                more = true;
                running.said.extend_from_slice(buffer.get(..len).unwrap_or_default());
            }
            Some(Piece::End) => running.launcher = None,
            Some(Piece::NothingNow) | None => {}
        }
        more
    }

    /// Reads what a dead container left in its pipes. Somebody else may hold their other end, so their end is not
    /// waited for, and no more is read than pipes hold.
    fn drain(&mut self) {
        for _ in 0..DRAIN_READS {
            if !self.read_pipes() {
                break;
            }
        }
        let time = now();
        self.stdout.finish(time, &mut self.tail);
        self.stderr.finish(time, &mut self.tail);
    }

    /// What the container had to say at its end. The file goes: it may hold what is masked in the record.
    fn last_words(&self, container: &Container, path: &Path, ended: Ended) -> String {
        let words = verdict::words(&read_some(path, verdict::WORDS_MAX as u64 + 4));
        drop(fs::remove_file(path));
        if words.is_empty() && container.last_words_from_log && ended != Ended::Exited(0) {
            return self.tail.text();
        }
        words
    }
}

/// What a launcher said.
fn replies(mut said: &[u8]) -> (Option<Layout>, Option<(i32, String)>) {
    let (mut layout, mut failed) = (None, None);
    while let Ok(Some(reply)) = wire::decode(&mut said) {
        match reply {
            LaunchReply::Layout(found) => layout = Some(found),
            LaunchReply::Failed(code, message) => failed = Some((code, message)),
        }
    }
    (layout, failed)
}

fn exit(container: &Container, ended: Ended, message: &str, started_at: Time) -> ContainerExit {
    let (exit_code, signal) = verdict::code(ended);
    ContainerExit {
        name: container.name.clone(),
        exit_code,
        signal,
        oom_killed: false,
        message: verdict::words(message.as_bytes()),
        masked: false,
        restarts: 0,
        started_at,
        ended_at: now(),
    }
}
