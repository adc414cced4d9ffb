//! A process that was started, and all that comes of it: asked to end, killed, swept up after. Owns telling the processes of one
//! from those of others, and ending them; never ends a process that it does not recognise.
//!
//! This program is the reaper of all it starts: a process that loses its parent becomes a child of its first thread. So when a
//! process is dead and that thread has no other children, nothing of it is left, which is one read to find out. Otherwise a process
//! belongs to it when it is in its control group or session, carries its mark in its environment, works in its directory, has its
//! mounts, writes to its pipes, or descends from one that does.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, kill as send, killpg};
use nix::unistd::Pid;
use rustix::process::{WaitIdOptions, WaitIdStatus, WaitOptions, WaitStatus, waitid, waitpid};

use super::cgroup::Cgroup;
use super::identity::{Identity, Stat, processes, stat};

/// Descriptors of a process that are looked at: those of its output come first.
const MAX_FDS: usize = 1024;
/// Passes over all processes to signal them, at most: each finds only those forked during the one before.
const SIGNAL_PASSES: usize = 64;
/// Between two passes over what is to be killed, at first and at most.
const PASS_MIN: Duration = Duration::from_millis(1);
const PASS_MAX: Duration = Duration::from_millis(100);
/// Passes after which those that may not be killed are given up.
const GIVE_UP: u32 = 40;

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// With an exit code.
    Exited(i32),
    /// By a signal.
    Signalled(i32),
}

/// By what all that comes of a process is recognised.
#[derive(Clone, Debug)]
pub(crate) struct Marks {
    /// A variable of its environment, `NAME=value`.
    pub(crate) variable: String,
    /// The directory it works in, as the kernel names it.
    pub(crate) dir: PathBuf,
    /// The list of its mounts, where it has its own.
    pub(crate) mount: Option<String>,
    /// Its control group.
    pub(crate) group: Option<Cgroup>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Running,
    /// It was asked to end and has until then.
    Asked(Instant),
    /// It is being killed with all that comes of it.
    Killing {
        again: Instant,
        pass: u32,
    },
    /// It is dead; what it left behind is being killed.
    Sweeping {
        again: Instant,
        pass: u32,
    },
    /// Nothing is left.
    Over,
}

/// What else a program that keeps processes knows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Others<'a> {
    /// Those who lost their parents.
    pub(crate) orphans: &'a Orphans,
    /// Children of the first thread that it waits for itself.
    pub(crate) starters: &'a BTreeSet<i32>,
    /// Whether orphans that nothing tells apart belong to this one: no other is kept and the program runs nothing else.
    pub(crate) alone: bool,
}

/// A process that was started, until nothing of it is left.
#[derive(Debug)]
pub(crate) struct Process {
    /// Its id, which is also that of its group and session. Not reaped before its end is taken, so the number is still its.
    pub(crate) pid: i32,
    /// Readable once it has ended.
    pub(crate) end: OwnedFd,
    /// What it writes to standard output and error; none at its end.
    pub(crate) pipes: [Option<File>; 2],
    marks: Marks,
    phase: Phase,
    /// Those that may not be killed.
    immune: Vec<Identity>,
}

impl Process {
    pub(crate) fn new(pid: i32, end: OwnedFd, pipes: [File; 2], marks: Marks) -> Self {
        Self { pid, end, pipes: pipes.map(Some), marks, phase: Phase::Running, immune: Vec::new() }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.phase == Phase::Over
    }

    /// Whether it is not known to be dead.
    pub(crate) const fn is_alive(&self) -> bool {
        !matches!(self.phase, Phase::Sweeping { .. } | Phase::Over)
    }

    /// Those of it that may not be killed.
    pub(crate) fn immune(&self) -> &[Identity] {
        &self.immune
    }

    /// When it is to be seen to again.
    pub(crate) const fn due(&self) -> Option<Instant> {
        match self.phase {
            Phase::Asked(until) => Some(until),
            Phase::Killing { again, .. } | Phase::Sweeping { again, .. } => Some(again),
            Phase::Running | Phase::Over => None,
        }
    }

    /// Does what is due.
    pub(crate) fn tick(&mut self, at: Instant, others: Others<'_>) {
        match self.phase {
            Phase::Asked(until) if until <= at => self.kill(at, 0),
            Phase::Killing { again, pass } if again <= at => self.kill(at, pass + 1),
            Phase::Sweeping { again, pass } if again <= at => self.sweep(at, others, pass + 1),
            _ => {}
        }
    }

    /// Asks it to end, and kills it after this time; of several times the shortest counts. Says whether this is the first time.
    pub(crate) fn ask(&mut self, grace: Duration, at: Instant) -> bool {
        let until = at.checked_add(grace).unwrap_or(at);
        match self.phase {
            Phase::Running if grace.is_zero() => self.kill(at, 0),
            Phase::Running => {
                let pid = Pid::from_raw(self.pid);
                // It may not lead its group yet; a group without anybody left to signal ends by itself.
                if killpg(pid, Signal::SIGTERM) == Err(Errno::ESRCH) {
                    let _ = send(pid, Signal::SIGTERM);
                }
                self.phase = Phase::Asked(until);
            }
            Phase::Asked(before) => {
                self.phase = Phase::Asked(before.min(until));
                return false;
            }
            Phase::Killing { .. } | Phase::Sweeping { .. } | Phase::Over => return false,
        }
        true
    }

    /// It is dead.
    pub(crate) fn died(&mut self, at: Instant, others: Others<'_>) {
        self.sweep(at, others, 0);
    }

    /// How it ended, if it has; it is not reaped by this.
    pub(crate) fn ended(&self) -> Option<Ended> {
        let pid = rustix::process::Pid::from_raw(self.pid)?;
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let status = waitid(rustix::process::WaitId::Pid(pid), options).ok()??;
        ended_of(&status)
    }

    /// How it ended, once it is over; it is reaped by this.
    pub(crate) fn reap(&self) -> Option<Ended> {
        let pid = rustix::process::Pid::from_raw(self.pid)?;
        let (_, status): (_, WaitStatus) = waitpid(Some(pid), WaitOptions::empty()).ok()??;
        let exited = status.exit_status().map(Ended::Exited);
        exited.or_else(|| status.terminating_signal().map(Ended::Signalled))
    }

    /// Sends a signal to all of it, again until no new process turns up.
    pub(crate) fn signal(&self, signal: Signal) -> io::Result<()> {
        let mut reached = BTreeSet::new();
        for _ in 0..SIGNAL_PASSES {
            let fresh: Vec<Identity> = self.whole()?.into_iter().filter(|one| !reached.contains(one)).collect();
            if fresh.is_empty() {
                break;
            }
            for one in fresh {
                // One that may not be signalled, such as a program of another user, is left as it is.
                drop(one.signal(signal));
                reached.insert(one);
            }
        }
        Ok(())
    }

    fn kill(&mut self, at: Instant, pass: u32) {
        if let Some(group) = &self.marks.group {
            group.kill();
        }
        // What cannot be looked at now is looked at again.
        self.immune = kill(&self.whole().unwrap_or_default());
        self.phase = Phase::Killing { again: at + pause(pass), pass };
    }

    fn sweep(&mut self, at: Instant, others: Others<'_>, pass: u32) {
        match self.left(others) {
            Ok(left) if left.is_empty() => self.phase = Phase::Over,
            Ok(left) => {
                if let Some(group) = &self.marks.group {
                    group.kill();
                }
                self.immune = kill(&left);
                let given_up = self.immune.len() == left.len() && pass >= GIVE_UP;
                let again = Phase::Sweeping { again: at + pause(pass), pass };
                self.phase = if given_up { Phase::Over } else { again };
            }
            Err(error) => {
                tracing::warn!(mark = self.marks.variable, %error, "looking for what a process left behind");
                self.phase = Phase::Sweeping { again: at + PASS_MAX, pass };
            }
        }
    }

    /// What is left of it when it is dead.
    fn left(&self, others: Others<'_>) -> io::Result<Vec<Identity>> {
        let grouped = self.marks.group.as_ref().map(Cgroup::processes).unwrap_or_default();
        let mut roots: BTreeSet<i32> = grouped.into_iter().collect();
        for pid in others.orphans.list()? {
            if others.starters.contains(&pid) {
                continue;
            }
            match stat(pid) {
                Some(found) if found.is_dead() => reap(pid),
                Some(found) if others.alone || self.has(&found) => {
                    roots.insert(pid);
                }
                _ => {}
            }
        }
        roots.remove(&self.pid);
        if roots.is_empty() {
            return Ok(Vec::new());
        }
        Ok(with_offspring(&processes()?, &roots))
    }

    /// All of it, itself included.
    fn whole(&self) -> io::Result<Vec<Identity>> {
        let all = processes()?;
        let grouped = self.marks.group.as_ref().map(Cgroup::processes).unwrap_or_default();
        let mut roots: BTreeSet<i32> = grouped.into_iter().collect();
        let own = i32::try_from(std::process::id()).map_err(io::Error::other)?;
        let descend: BTreeSet<i32> = below(&all, &BTreeSet::from([own])).iter().map(|stat| stat.identity.pid).collect();
        let related = |found: &&Stat| descend.contains(&found.identity.pid) && self.has(found);
        roots.extend(all.iter().filter(related).map(|stat| stat.identity.pid));
        Ok(with_offspring(&all, &roots))
    }

    /// Whether another process is recognised by itself.
    fn has(&self, found: &Stat) -> bool {
        let pid = found.identity.pid;
        found.session == self.pid
            || pid == self.pid
            || is_marked(pid, &self.marks.variable)
            || works_in(pid, &self.marks.dir)
            || self.marks.mount.as_ref().is_some_and(|mount| holds(&format!("/proc/{pid}/mountinfo"), mount.as_bytes()))
            || self.is_written_by(pid)
    }

    /// Whether a process writes to one of its pipes: one that empties the environment and leaves the session keeps its output. The
    /// ends that are read are this program's, and for a moment those of whatever it is about to start.
    fn is_written_by(&self, pid: i32) -> bool {
        let inode_of = |pipe: &File| pipe.metadata().ok().map(|found| found.ino());
        let pipes: Vec<u64> = self.pipes.iter().flatten().filter_map(inode_of).collect();
        if pipes.is_empty() {
            return false;
        }
        let entries = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        entries.take(MAX_FDS).any(|entry| {
            let writes = |link: fs::Metadata| link.mode() & 0o600 == 0o200;
            if !entry.metadata().is_ok_and(writes) {
                return false;
            }
            let target = fs::read_link(entry.path()).unwrap_or_default();
            let inode = target.to_str().and_then(|text| text.strip_prefix("pipe:[")?.strip_suffix(']')?.parse().ok());
            inode.is_some_and(|inode: u64| pipes.contains(&inode))
        })
    }
}

fn ended_of(status: &WaitIdStatus) -> Option<Ended> {
    let exited = status.exit_status().map(Ended::Exited);
    exited.or_else(|| status.terminating_signal().map(Ended::Signalled))
}

fn pause(pass: u32) -> Duration {
    PASS_MIN.saturating_mul(1 << pass.min(7)).min(PASS_MAX)
}

/// The list of those who lost their parents.
#[derive(Debug)]
pub(crate) struct Orphans(File);

impl Orphans {
    /// Makes this program the reaper of its descendants.
    pub(crate) fn new() -> io::Result<Self> {
        nix::sys::prctl::set_child_subreaper(true)?;
        let own = std::process::id();
        Ok(Self(File::open(format!("/proc/self/task/{own}/children"))?))
    }

    /// Takes note of all that have ended.
    pub(crate) fn reap(&self, starters: &BTreeSet<i32>) -> io::Result<()> {
        let ended = |pid: &i32| !starters.contains(pid) && stat(*pid).is_some_and(|found| found.is_dead());
        self.list()?.into_iter().filter(ended).for_each(reap);
        Ok(())
    }

    /// Children of this program's first thread.
    fn list(&self) -> io::Result<Vec<i32>> {
        let (mut text, mut buffer) = (Vec::new(), [0_u8; 4096]);
        loop {
            match self.0.read_at(&mut buffer, text.len() as u64)? {
                0 => break,
                len => text.extend_from_slice(buffer.get(..len).unwrap_or_default()),
            }
        }
        let text = String::from_utf8_lossy(&text);
        Ok(text.split_ascii_whitespace().filter_map(|word| word.parse().ok()).collect())
    }
}

/// Whether a process has its working directory in a directory.
fn works_in(pid: i32, dir: &Path) -> bool {
    fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|cwd| cwd.starts_with(dir))
}

/// Whether a process was started with this variable, `NAME=value`, in its environment.
pub(crate) fn is_marked(pid: i32, variable: &str) -> bool {
    let environ = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    environ.split(|byte| *byte == 0).any(|entry| entry == variable.as_bytes())
}

/// Whether a file of `/proc` holds some bytes; one that cannot be read is of a process that is gone or somebody else's.
pub(super) fn holds(path: &str, wanted: &[u8]) -> bool {
    fs::read(path).is_ok_and(|bytes| bytes.windows(wanted.len()).any(|window| window == wanted))
}

/// These and all that descend from them, the dead left out.
pub(crate) fn with_offspring(all: &[Stat], roots: &BTreeSet<i32>) -> Vec<Identity> {
    let offspring: BTreeSet<i32> = below(all, roots).iter().map(|stat| stat.identity.pid).collect();
    let wanted = |stat: &&Stat| roots.contains(&stat.identity.pid) || offspring.contains(&stat.identity.pid);
    all.iter().filter(wanted).filter(|stat| !stat.is_dead()).map(|stat| stat.identity).collect()
}

/// Kills some processes, all stopped first so that none starts another. Gives those that may not be killed.
pub(crate) fn kill(all: &[Identity]) -> Vec<Identity> {
    for one in all {
        // Those that are gone meanwhile need none, and what may not be stopped may not be killed either.
        drop(one.signal(Signal::SIGSTOP));
    }
    all.iter().filter(|one| one.signal(Signal::SIGKILL).is_err()).copied().collect()
}

/// Takes note of the end of an orphan; another thread may have done so.
fn reap(pid: i32) {
    if let Some(pid) = rustix::process::Pid::from_raw(pid) {
        let _ = waitpid(Some(pid), WaitOptions::NOHANG);
    }
}

/// Waits until one of some processes has ended.
pub(crate) fn wait_for_any(processes: &[Identity]) -> io::Result<()> {
    let mut open = Vec::new();
    for one in processes {
        match one.open() {
            Ok(Some(fd)) => open.push(fd),
            // Gone, or the kernel cannot tell: the caller looks again.
            Ok(None) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::Unsupported => return Ok(()),
            Err(error) => return Err(error),
        }
    }
    let mut fds: Vec<PollFd<'_>> = open.iter().map(|fd| PollFd::new(fd.as_fd(), PollFlags::POLLIN)).collect();
    if fds.is_empty() {
        return Ok(());
    }
    loop {
        match poll(&mut fds, PollTimeout::NONE) {
            Err(Errno::EINTR) => {}
            outcome => return Ok(outcome.map(drop)?),
        }
    }
}

/// All processes that descend from some, without those.
pub(crate) fn below(all: &[Stat], roots: &BTreeSet<i32>) -> Vec<Stat> {
    let mut children: BTreeMap<i32, Vec<Stat>> = BTreeMap::new();
    for stat in all {
        children.entry(stat.parent).or_default().push(*stat);
    }
    let (mut found, mut seen) = (Vec::new(), roots.clone());
    let mut queue: Vec<i32> = roots.iter().copied().collect();
    while let Some(parent) = queue.pop() {
        for child in children.get(&parent).into_iter().flatten() {
            if seen.insert(child.identity.pid) {
                queue.push(child.identity.pid);
                found.push(*child);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descendants_are_found_through_the_dead_and_never_twice() {
        let stat = |pid, parent, state| Stat { identity: Identity { pid, start: 1 }, state, parent, session: 1 };
        let all = [stat(2, 1, 'S'), stat(3, 2, 'Z'), stat(4, 3, 'R'), stat(5, 1, 'S'), stat(1, 1, 'S')];
        let found: Vec<i32> = below(&all, &BTreeSet::from([2])).iter().map(|stat| stat.identity.pid).collect();
        assert_eq!(found, [3, 4]);
        assert_eq!(below(&all, &BTreeSet::from([1])).len(), 4);
    }
}
