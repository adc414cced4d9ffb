//! Finding and ending what belongs to an attempt. Owns telling the processes of one attempt from those of others; never
//! ends a process that cannot be told to be its.
//!
//! This program is the reaper of all it starts: a process that loses its parent becomes a child of its first thread, which
//! starts nothing itself. So when an attempt's process is dead and that thread has no children, nothing of it is left,
//! which is one read to find out. Otherwise a process is the attempt's when it is in its control group or session,
//! carries its mark in its environment, works in its directory, holds the pipes of its output, or descends from one that
//! does.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt as _};
use std::path::Path;

use nix::sys::signal::Signal;
use orlop_core::task::TaskRef;
use rustix::process::{Pid, WaitOptions, waitpid};

use crate::runtime::process::cgroup::Cgroup;
use crate::runtime::process::identity::{Identity, Stat, processes, stat};
use crate::runtime::process::tree::below;
use crate::runtime::worker::environ::MARK;

/// Descriptors of a process that are looked at: those of its output come first.
const MAX_FDS: usize = 1024;

/// How the processes of an attempt are recognised.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kin<'a> {
    /// Its first process, whose session is its own. Not reaped yet, so the number is still its.
    pub(super) leader: i32,
    /// Value of the variable that marks its processes.
    pub(super) mark: &'a str,
    /// Its control group.
    pub(super) group: Option<&'a Cgroup>,
    /// The directory of all attempts, as the kernel names it.
    pub(super) work: &'a Path,
    /// Which attempt it is.
    pub(super) id: TaskRef,
    /// The pipes that it writes to; none where nobody does any more.
    pub(super) pipes: &'a [Option<File>],
    /// Whether orphans that nothing tells apart are its too: no other attempt runs and this program runs nothing else.
    pub(super) alone: bool,
}

/// The list of those who lost their parents.
#[derive(Debug)]
pub(super) struct Orphans(File);

impl Orphans {
    /// Makes this program the reaper of its descendants.
    pub(super) fn new() -> io::Result<Self> {
        nix::sys::prctl::set_child_subreaper(true)?;
        let own = std::process::id();
        Ok(Self(File::open(format!("/proc/self/task/{own}/children"))?))
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

    /// What is left of an attempt whose first process is dead. `starters` are processes that this program waits for
    /// itself.
    pub(super) fn left(&self, kin: &Kin<'_>, starters: &BTreeSet<i32>) -> io::Result<Vec<Identity>> {
        let grouped = kin.group.map(Cgroup::processes).unwrap_or_default();
        let mut roots: BTreeSet<i32> = grouped.into_iter().collect();
        for pid in self.list()? {
            if starters.contains(&pid) {
                continue;
            }
            match stat(pid) {
                Some(found) if found.is_dead() => bury(pid),
                Some(found) if kin.alone || kin.has(&found) => {
                    roots.insert(pid);
                }
                _ => {}
            }
        }
        roots.remove(&kin.leader);
        if roots.is_empty() {
            return Ok(Vec::new());
        }
        Ok(with_offspring(&processes()?, &roots))
    }

    /// All of an attempt, its first process included.
    pub(super) fn whole(&self, kin: &Kin<'_>) -> io::Result<Vec<Identity>> {
        let all = processes()?;
        let mut roots: BTreeSet<i32> = kin.group.map(Cgroup::processes).unwrap_or_default().into_iter().collect();
        let own = i32::try_from(std::process::id()).map_err(io::Error::other)?;
        let descend: BTreeSet<i32> = below(&all, &BTreeSet::from([own])).iter().map(|stat| stat.identity.pid).collect();
        let related = |found: &&Stat| descend.contains(&found.identity.pid) && kin.has(found);
        roots.extend(all.iter().filter(related).map(|stat| stat.identity.pid));
        Ok(with_offspring(&all, &roots))
    }
}

impl Kin<'_> {
    /// Whether a process is recognised by itself.
    fn has(&self, found: &Stat) -> bool {
        let pid = found.identity.pid;
        found.session == self.leader
            || marked(pid, self.mark)
            || works_in(pid, &self.work.join(self.id.to_string()))
            || self.writes(pid)
    }

    /// Whether a process writes to one of its pipes: one that empties the environment and leaves the session keeps its output. The
    /// ends that are read are this program's, and for a moment those of whatever it is about to start.
    fn writes(&self, pid: i32) -> bool {
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

/// Whether a process has its working directory in a directory.
fn works_in(pid: i32, dir: &Path) -> bool {
    fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|cwd| cwd.starts_with(dir))
}

/// Whether a process was started with this mark in its environment.
pub(super) fn marked(pid: i32, mark: &str) -> bool {
    let entry = format!("{MARK}={mark}");
    let environ = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    environ.split(|byte| *byte == 0).any(|variable| variable == entry.as_bytes())
}

/// These and all that descend from them, the dead left out.
pub(super) fn with_offspring(all: &[Stat], roots: &BTreeSet<i32>) -> Vec<Identity> {
    let offspring: BTreeSet<i32> = below(all, roots).iter().map(|stat| stat.identity.pid).collect();
    let wanted = |stat: &&Stat| roots.contains(&stat.identity.pid) || offspring.contains(&stat.identity.pid);
    all.iter().filter(wanted).filter(|stat| !stat.is_dead()).map(|stat| stat.identity).collect()
}

/// Kills some processes, all stopped first so that none starts another. Says whether one of them may not be killed.
pub(super) fn kill(all: &[Identity]) -> bool {
    for one in all {
        // Those that are gone meanwhile need none, and what may not be stopped may not be killed either.
        drop(one.signal(Signal::SIGSTOP));
    }
    all.iter().filter(|one| one.signal(Signal::SIGKILL).is_err()).count() > 0
}

/// Takes note of the end of an orphan; another thread may have done so.
fn bury(pid: i32) {
    if let Some(pid) = Pid::from_raw(pid) {
        let _ = waitpid(Some(pid), WaitOptions::NOHANG);
    }
}
