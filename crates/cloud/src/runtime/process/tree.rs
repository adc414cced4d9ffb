//! The processes of a pod as seen by its shim, which is their reaper: a process that loses its parent becomes the shim's child.
//! Owns signalling and ending all of them; never touches a process that does not descend from this one.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::Signal;
use rustix::process::{WaitOptions, WaitStatus, wait};

use super::identity::{Identity, Stat, processes};

/// Passes over all processes to stop them, at most: each pass finds only those forked during the one before.
const STOP_PASSES: usize = 64;

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// With an exit code.
    Exited(i32),
    /// By a signal.
    Signalled(i32),
}

/// The children of this process, own and adopted.
#[derive(Debug, Default)]
pub(crate) struct Family {
    /// The child whose end matters.
    watched: Option<i32>,
    /// How it ended.
    ended: Option<Ended>,
}

/// Whether there are children.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Children {
    /// None.
    None,
    /// Some, none of which has ended since.
    Some,
}

impl Family {
    /// Watches another child.
    pub(crate) fn watch(&mut self, pid: i32) {
        self.watched = Some(pid);
        self.ended = None;
    }

    /// How the watched child ended, once it has.
    pub(crate) const fn ended(&self) -> Option<Ended> {
        self.ended
    }

    /// Takes note of all children that have ended.
    pub(crate) fn reap(&mut self) -> io::Result<Children> {
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(None) => return Ok(Children::Some),
                Ok(Some((pid, status))) => self.note(pid.as_raw_nonzero().get(), status),
                Err(rustix::io::Errno::CHILD) => return Ok(Children::None),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn note(&mut self, pid: i32, status: WaitStatus) {
        if self.watched == Some(pid) {
            let exited = status.exit_status().map(Ended::Exited);
            let ended = exited.or_else(|| status.terminating_signal().map(Ended::Signalled));
            self.ended = self.ended.or(ended);
        }
    }

    /// Sends a signal to all descendants, again until no new one turns up.
    pub(crate) fn signal_all(&self, signal: Signal) -> io::Result<()> {
        let mut reached = BTreeSet::new();
        for _ in 0..STOP_PASSES {
            let fresh: Vec<Identity> = descendants()?.into_iter().filter(|one| !reached.contains(one)).collect();
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

    /// Kills all descendants and waits until none is left. Returns those that may not be killed.
    pub(crate) fn end_all(&mut self) -> io::Result<Vec<Identity>> {
        let mut immune = BTreeSet::new();
        while self.reap()? == Children::Some {
            self.signal_all(Signal::SIGSTOP)?;
            let mut dying = Vec::new();
            for one in descendants()? {
                match one.signal(Signal::SIGKILL) {
                    Ok(_) => dying.push(one),
                    Err(error) if error.raw_os_error() == Some(Errno::EPERM as i32) => {
                        immune.insert(one);
                    }
                    Err(error) => return Err(error),
                }
            }
            if dying.is_empty() && !immune.is_empty() {
                return Ok(immune.into_iter().collect());
            }
            wait_for_any(&dying)?;
        }
        Ok(Vec::new())
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
    let mut fds: Vec<PollFd<'_>> =
        open.iter().map(|fd| PollFd::new(std::os::fd::AsFd::as_fd(fd), PollFlags::POLLIN)).collect();
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

/// All living descendants of this process.
pub(crate) fn descendants() -> io::Result<Vec<Identity>> {
    let own = i32::try_from(std::process::id()).map_err(io::Error::other)?;
    Ok(below(&processes()?, &BTreeSet::from([own]))
        .into_iter()
        .filter(|stat| !stat.is_dead())
        .map(|stat| stat.identity)
        .collect())
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
