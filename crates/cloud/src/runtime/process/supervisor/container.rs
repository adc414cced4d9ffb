//! One run of one container: its process is made and launched, its output captured, and its end taken. Owns the pipes to the process;
//! what the end means for the pod is decided in [`pod`](super::pod).

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, PipeWriter, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use fork::{Fork, fork};
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::unistd::{Pid, Uid, User};
use orlop_core::time::Time;
use rustix::process::{PidfdFlags, pidfd_open};

use super::launch::launch;
use super::pod::{ContainerEnd, Context, Pod};
use super::verdict;
use super::view::WORK;
use crate::clock::now;
use crate::runtime::logs::capture::{Capture, Tail};
use crate::runtime::pod::{ContainerExit, Mount};
use crate::runtime::process::MARKER;
use crate::runtime::process::cgroup::{Bounds, Cgroup};
use crate::runtime::process::child::Credentials;
use crate::runtime::process::child::command::PATH;
use crate::runtime::process::failure::{During, Failure};
use crate::runtime::process::identity;
use crate::runtime::process::layout::Layout;
use crate::runtime::process::paths::{self, Paths};
use crate::runtime::process::record::read_some;
use crate::runtime::process::tree::{Ended, Marks, Process};
use crate::runtime::process::watcher::Descriptor;
use crate::runtime::process::wire::{self, Container, LaunchOrder, LaunchReply, Variable, View};

/// Reads of a pipe after its writer is dead: 4 MiB, where pipes hold 64 KiB and at most 1 MiB.
const DRAIN_READS: usize = 64;

/// A container that runs.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) process: Process,
    pub(super) is_main: bool,
    launcher: Option<UnixStream>,
    /// What the launcher said.
    said: Vec<u8>,
    /// The file of its last words.
    words: PathBuf,
    tail: Tail,
    started_at: Time,
    /// Processes of the pod that had been killed for lack of memory when it started.
    oom_before: u64,
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

impl Running {
    /// Reads what a descriptor holds now, at most one buffer full; says whether there was anything.
    pub(super) fn read(
        &mut self,
        kind: Descriptor,
        stdout: &mut Capture,
        stderr: &mut Capture,
        context: &mut Context<'_>,
    ) -> bool {
        let (which, capture) = match kind {
            Descriptor::Out => (0, stdout),
            Descriptor::Err => (1, stderr),
            Descriptor::Launch | Descriptor::End | Descriptor::Only => return self.listen(context),
        };
        let Some(pipe) = self.process.pipes.get_mut(which) else { return false };
        match pipe.as_mut().map(|pipe| read_piece(pipe, context.buffer)) {
            Some(Piece::Bytes(len)) => {
                capture.push(context.buffer.get(..len).unwrap_or_default(), now(), &mut self.tail);
                true
            }
            Some(Piece::End) => {
                pipe.take().iter().for_each(|pipe| context.watcher.forget(pipe));
                false
            }
            Some(Piece::NothingNow) | None => false,
        }
    }

    fn listen(&mut self, context: &mut Context<'_>) -> bool {
        match self.launcher.as_mut().map(|launcher| read_piece(launcher, context.buffer)) {
            Some(Piece::Bytes(len)) => {
                self.said.extend_from_slice(context.buffer.get(..len).unwrap_or_default());
                true
            }
            Some(Piece::End) => {
                self.launcher.take().iter().for_each(|launcher| context.watcher.forget(launcher));
                false
            }
            Some(Piece::NothingNow) | None => false,
        }
    }
}

impl Pod {
    /// Starts a container; else how it ended by that.
    pub(super) fn start(&mut self, context: &mut Context<'_>) -> Result<Running, ContainerEnd> {
        let (container, started_at) = (self.container(self.index).clone(), now());
        self.try_start(&container, started_at, context).map_err(|failure| {
            let message = self.parts.masker.mask_text(&failure.to_string());
            let exit = exit(&container, Ended::Exited(verdict::CANNOT_START), &message, started_at);
            ContainerEnd { exit, cannot_start: true, immune: None }
        })
    }

    fn try_start(
        &mut self,
        container: &Container,
        started_at: Time,
        context: &mut Context<'_>,
    ) -> Result<Running, Failure> {
        let (is_main, words) = (self.is_main(self.index), self.parts.view.join(format!("words-{}", self.index)));
        let oom_before = self.parts.cgroup.as_ref().map_or(0, Cgroup::oom_kills);
        self.prepare_words(container, &words).during(|| format!("making `{}`", words.display()))?;
        let outputs = if is_main { self.parts.order.outputs.clone() } else { Vec::new() };
        let order = self.launch_order(container, &words, &outputs, context.files)?;
        if let Some(group) = &self.parts.cgroup {
            group.limit(&Bounds::from(container))?;
        }
        let (stdout, out) = io::pipe().during(|| "making a pipe".to_owned())?;
        let (stderr, err) = io::pipe().during(|| "making a pipe".to_owned())?;
        let (mut launcher, theirs) = UnixStream::pair().during(|| "making a socket".to_owned())?;
        let pid = match fork().during(|| "starting a process".to_owned())? {
            Fork::Parent(pid) => pid,
            Fork::Child => {
                // Locks, the lives of pods and the other end of its socket are the supervisor's alone: should that die, this process is
                // to see it, and others are not to take it for alive.
                for fd in context.private {
                    let _ = nix::unistd::close(*fd);
                }
                drop((launcher, stdout, stderr));
                become_container(order, &theirs, &out, &err)
            }
        };
        drop((theirs, out, err));
        context.starters.insert(pid);
        let pipes = [OwnedFd::from(stdout), OwnedFd::from(stderr)].map(File::from);
        let process = match self.take_on(pid, pipes, &launcher, context) {
            Ok(process) => process,
            Err(failure) => {
                // It has not begun: without the other end of its socket it ends by itself.
                drop(launcher);
                let _ = nix::sys::wait::waitpid(Pid::from_raw(pid), None);
                context.starters.remove(&pid);
                return Err(failure);
            }
        };
        // Until it hears this the launcher does nothing that others could see. One that is dead is noticed otherwise.
        drop(launcher.write_all(b"\n"));
        let (launcher, said, tail) = (Some(launcher), Vec::new(), Tail::default());
        Ok(Running { process, is_main, launcher, said, words, tail, started_at, oom_before })
    }

    /// Takes a process on that waits for its beginning.
    fn take_on(
        &self,
        pid: i32,
        pipes: [File; 2],
        launcher: &UnixStream,
        context: &Context<'_>,
    ) -> Result<Process, Failure> {
        for pipe in &pipes {
            fcntl(pipe, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).during(|| "setting up a pipe".to_owned())?;
        }
        launcher.set_nonblocking(true).during(|| "setting up a socket".to_owned())?;
        let noted = identity::stat(pid).map_or(Ok(()), |stat| self.parts.locks.note(stat.identity));
        noted.during(|| "noting a process".to_owned())?;
        let id = rustix::process::Pid::from_raw(pid).ok_or_else(|| io::Error::from(io::ErrorKind::NotFound));
        let end = id.and_then(|id| Ok(pidfd_open(id, PidfdFlags::empty())?));
        let end = end.during(|| "watching a process".to_owned())?;
        let watch = || {
            let (watcher, number) = (context.watcher, context.number);
            watcher.watch(&end, number, Descriptor::End)?;
            watcher.watch(launcher, number, Descriptor::Launch)?;
            pipes
                .iter()
                .zip([Descriptor::Out, Descriptor::Err])
                .try_for_each(|(pipe, kind)| watcher.watch(pipe, number, kind))
        };
        watch().during(|| "watching a process".to_owned())?;
        let directory = self.parts.directory.path();
        let marks = Marks {
            variable: format!("{MARKER}={}", self.parts.token),
            dir: directory.canonicalize().unwrap_or_else(|_| directory.to_owned()),
            // Without a view of its own it has no mounts either.
            mount: (self.parts.order.paths != Paths::Rewritten).then(|| self.parts.token.clone()),
            group: self.parts.cgroup.clone(),
        };
        Ok(Process::new(pid, end, pipes, marks))
    }

    /// Takes the end of a container of which nothing is left.
    pub(super) fn finish(&mut self, mut running: Running, context: &mut Context<'_>) -> io::Result<ContainerEnd> {
        self.drain(&mut running, context);
        running.process.pipes.iter().flatten().for_each(|pipe| context.watcher.forget(pipe));
        running.launcher.iter().for_each(|launcher| context.watcher.forget(launcher));
        let Running { process, is_main, said, words, tail, started_at, oom_before, .. } = running;
        let ended = process.reap().unwrap_or(Ended::Exited(verdict::CANNOT_START));
        context.starters.remove(&process.pid);
        let (layout, failed) = replies(&said);
        if let Some(layout) = layout.filter(|_| is_main) {
            self.keep_layout(&layout).map_err(|failure| io::Error::other(failure.to_string()))?;
        }
        let container = self.container(self.index);
        let cannot_start = failed.as_ref().is_some_and(|(code, _)| *code == verdict::CANNOT_START);
        let (ended, message) = match failed {
            Some((code, message)) => (Ended::Exited(code), message),
            None => (ended, last_words(container, &words, ended, &tail)),
        };
        let shown = self.parts.masker.mask_values(&message);
        let mut exit = exit(container, ended, &shown, started_at);
        exit.masked = shown != message;
        let oom = self.parts.cgroup.as_ref().map_or(0, Cgroup::oom_kills) > oom_before;
        exit.oom_killed = oom && exit.signal == Some(nix::libc::SIGKILL);
        let left: Vec<String> = process.immune().iter().map(|one| one.pid.to_string()).collect();
        let immune = (!left.is_empty()).then(|| format!("processes {} may not be ended by this user", left.join(", ")));
        Ok(ContainerEnd { exit, cannot_start, immune })
    }

    /// An empty file for last words that any user may write to.
    fn prepare_words(&self, container: &Container, words: &Path) -> io::Result<()> {
        fs::write(words, "")?;
        fs::set_permissions(words, fs::Permissions::from_mode(0o666))?;
        if container.user.is_some() || container.group.is_some() {
            for place in ["top", "tmp"] {
                std::os::unix::fs::chown(self.parts.view.join(place), container.user, container.group)?;
            }
        }
        Ok(())
    }

    fn launch_order(
        &mut self,
        container: &Container,
        words: &Path,
        outputs: &[String],
        files: u64,
    ) -> Result<LaunchOrder, Failure> {
        let own = i32::try_from(std::process::id()).map_err(io::Error::other);
        let mut order = LaunchOrder {
            supervisor: own.during(|| "starting a process".to_owned())?,
            argv: container.argv.clone(),
            env: self.environment(container),
            working_dir: container.working_dir.clone().unwrap_or_else(|| "/".to_owned()),
            credentials: Credentials {
                user: container.user,
                group: container.group,
                further_groups: self.parts.order.further_groups.clone(),
            },
            files,
            cgroup: self.parts.cgroup.clone(),
            limits: self.parts.order.limits.clone(),
            umask: self.parts.order.umask,
            view: None,
        };
        if self.parts.order.paths == Paths::Rewritten {
            let (mut changed, layout) = paths::rewrite(container, &self.parts.view, words, outputs)?;
            let tmp = self.parts.view.join("tmp").to_string_lossy().into_owned();
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
        let user_namespace = self.parts.order.paths == Paths::UserNamespace;
        if !user_namespace {
            let work = self.parts.view.join(WORK);
            let made = match fs::remove_dir_all(&work) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                _ => fs::create_dir(&work),
            };
            made.during(|| format!("making `{}`", work.display()))?;
        }
        order.view =
            Some(View { user_namespace, directory: self.parts.view.clone(), mounts, outputs: outputs.to_vec() });
        Ok(order)
    }

    /// The environment of a container: some variables of the supervisor's own, those of the user, the plan's, and the pod's
    /// mark.
    fn environment(&self, container: &Container) -> Vec<Variable> {
        let mut env: BTreeMap<String, Variable> = BTreeMap::new();
        let mut set = |name: &str, value: String| {
            env.insert(name.to_owned(), Variable { name: name.to_owned(), value, secret: false });
        };
        set("PATH", PATH.to_owned());
        for name in &self.parts.order.inherit {
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
        let mark = Variable { name: MARKER.to_owned(), value: self.parts.token.clone(), secret: false };
        env.insert(MARKER.to_owned(), mark);
        env.into_values().collect()
    }

    /// Remembers what the main container saw where, for reading its outputs.
    fn keep_layout(&mut self, layout: &Layout) -> Result<(), Failure> {
        let room = self.parts.layout.take().map_or_else(|| self.parts.directory.reserve_layout(), Ok)?;
        room.write(layout)
    }

    /// Reads what a dead container left in its pipes. Somebody else may hold their other end, so their end is not
    /// waited for, and no more is read than pipes hold.
    fn drain(&mut self, running: &mut Running, context: &mut Context<'_>) {
        for kind in [Descriptor::Launch, Descriptor::Out, Descriptor::Err] {
            for _ in 0..DRAIN_READS {
                if !running.read(kind, &mut self.parts.stdout, &mut self.parts.stderr, context) {
                    break;
                }
            }
        }
        let time = now();
        self.parts.stdout.finish(time, &mut running.tail);
        self.parts.stderr.finish(time, &mut running.tail);
    }
}

/// Goes on in the process that was made for a container, until its program takes over. Nothing may unwind into what the supervisor does.
fn become_container(order: LaunchOrder, supervisor: &UnixStream, out: &PipeWriter, err: &PipeWriter) -> ! {
    let launched = catch_unwind(AssertUnwindSafe(|| launch(order, supervisor, out, err)));
    std::process::exit(launched.unwrap_or(verdict::CANNOT_START))
}

/// What the container had to say at its end. The file goes: it may hold what is masked in the record.
fn last_words(container: &Container, path: &Path, ended: Ended, tail: &Tail) -> String {
    let words = verdict::words(&read_some(path, verdict::WORDS_MAX as u64 + 4));
    drop(fs::remove_file(path));
    if words.is_empty() && container.last_words_from_log && ended != Ended::Exited(0) {
        return tail.text();
    }
    words
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
