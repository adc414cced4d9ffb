//! Who a process is: a process id together with the time the process started, so that an id used again is not taken for
//! the process that had it. Owns reading `/proc`; never decides who is to be ended.

use std::fmt;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;

use nix::errno::Errno;
use nix::sys::signal::Signal;
use rustix::process::{PidfdFlags, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};

/// A process of this machine, now or in the past.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) struct Identity {
    /// Process id.
    pub(crate) pid: i32,
    /// Clock ticks from the boot of the machine to the start of the process.
    pub(crate) start: u64,
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.pid, self.start)
    }
}

/// What `/proc/<pid>/stat` says of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stat {
    /// The process.
    pub(crate) identity: Identity,
    /// One letter; `Z` and `X` are dead.
    pub(crate) state: char,
    /// Its parent.
    pub(crate) parent: i32,
    /// Its session.
    pub(crate) session: i32,
}

impl Stat {
    /// Whether it ended and waits for its parent to notice.
    pub(crate) const fn is_dead(&self) -> bool {
        matches!(self.state, 'Z' | 'X')
    }
}

/// The process of that id, if there is one.
pub(crate) fn stat(pid: i32) -> Option<Stat> {
    parse(pid, &fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// Fields after the name, which is in parentheses and may hold anything: state, parent, group, session, …, start as the
/// twentieth of them.
fn parse(pid: i32, text: &str) -> Option<Stat> {
    let (_, fields) = text.rsplit_once(')')?;
    let mut fields = fields.split_ascii_whitespace();
    let state = fields.next()?.chars().next()?;
    let parent = fields.next()?.parse().ok()?;
    let session = fields.nth(1)?.parse().ok()?;
    let start = fields.nth(15)?.parse().ok()?;
    Some(Stat { identity: Identity { pid, start }, state, parent, session })
}

/// All processes of this machine that can be seen, dead ones too.
///
/// # Errors
/// When `/proc` cannot be read.
pub(crate) fn processes() -> io::Result<Vec<Stat>> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let pid = entry?.file_name().to_str().and_then(|name| name.parse().ok());
        found.extend(pid.and_then(stat));
    }
    Ok(found)
}

/// The boot of this machine: ids of processes mean nothing after another one.
///
/// # Errors
/// When `/proc` cannot be read.
pub(crate) fn boot() -> io::Result<String> {
    Ok(fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned())
}

impl Identity {
    /// This process.
    ///
    /// # Errors
    /// When `/proc` cannot be read.
    pub(crate) fn own() -> io::Result<Self> {
        let pid = i32::try_from(std::process::id()).map_err(io::Error::other)?;
        stat(pid).map(|stat| stat.identity).ok_or_else(|| io::Error::other("/proc/self/stat cannot be read"))
    }

    /// Whether this very process is stopped by a signal.
    pub(crate) fn is_stopped(self) -> bool {
        stat(self.pid).is_some_and(|stat| stat.identity == self && stat.state == 'T')
    }

    /// Whether this very process is alive.
    pub(crate) fn is_alive(self) -> bool {
        stat(self.pid).is_some_and(|stat| stat.identity == self && !stat.is_dead())
    }

    /// A descriptor of this very process, readable once it has ended; none when it is gone.
    ///
    /// # Errors
    /// Unsupported before Linux 5.3 and where such descriptors are forbidden.
    pub(crate) fn open(self) -> io::Result<Option<OwnedFd>> {
        let Some(pid) = rustix::process::Pid::from_raw(self.pid) else { return Ok(None) };
        match pidfd_open(pid, PidfdFlags::empty()) {
            // The descriptor may be of a process that took over the id: only now the start time tells.
            Ok(fd) => Ok(stat(self.pid).is_some_and(|stat| stat.identity == self).then_some(fd)),
            Err(rustix::io::Errno::SRCH) => Ok(None),
            Err(rustix::io::Errno::NOSYS | rustix::io::Errno::PERM) => Err(io::ErrorKind::Unsupported.into()),
            Err(error) => Err(error.into()),
        }
    }

    /// Sends a signal to this very process; says whether it was there.
    ///
    /// # Errors
    /// When it may not be signalled.
    pub(crate) fn signal(self, signal: Signal) -> io::Result<bool> {
        let outcome = match self.open() {
            Ok(None) => return Ok(false),
            Ok(Some(fd)) => match rustix::process::Signal::from_named_raw(signal as i32) {
                Some(signal) => pidfd_send_signal(fd, signal).map_err(io::Error::from),
                None => Err(io::ErrorKind::InvalidInput.into()),
            },
            // Without descriptors an id that changed hands since the look is a risk of microseconds.
            Err(error) if error.kind() == io::ErrorKind::Unsupported && self.is_alive() => {
                nix::sys::signal::kill(nix::unistd::Pid::from_raw(self.pid), signal).map_err(io::Error::from)
            }
            Err(error) if error.kind() == io::ErrorKind::Unsupported => return Ok(false),
            Err(error) => Err(error),
        };
        match outcome {
            Ok(()) => Ok(true),
            Err(error) if error.raw_os_error() == Some(Errno::ESRCH as i32) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_parentheses_do_not_confuse() {
        let text = "7 (a) b (c)) S 1 7 6 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 4242 1 2 3";
        let stat = parse(7, text).unwrap();
        assert_eq!((stat.state, stat.parent, stat.session, stat.identity.start), ('S', 1, 6, 4242));
        assert_eq!(parse(7, "7 (a"), None);
    }

    #[test]
    fn an_id_used_again_is_another_process() {
        let own = Identity::own().unwrap();
        assert!(own.is_alive() && own.open().unwrap().is_some());
        let before = Identity { start: own.start - 1, ..own };
        assert!(!before.is_alive() && before.open().unwrap().is_none());
        assert!(!before.signal(Signal::SIGKILL).unwrap());
        assert!(processes().unwrap().iter().any(|stat| stat.identity == own));
        assert_eq!(boot().unwrap().len(), 36);
    }
}
