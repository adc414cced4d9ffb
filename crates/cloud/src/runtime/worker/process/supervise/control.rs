//! What agent and supervisor share of an attempt, on disk: a lock, a journal, requests; and of all attempts the lease.
//! Owns these files and what they mean to whoever comes later; never starts or ends anything.
//!
//! | file | made by | meaning |
//! |---|---|---|
//! | `<work>/.control/<ref>/lock` | agent | locked by the supervisor for as long as it keeps the attempt |
//! | `…/keeper` | supervisor | its process id and start time |
//! | `…/journal` | agent, then supervisor | start, output and end, as in the spool |
//! | `…/request` | agent | that the attempt is to end, and how |
//! | `…/closed` | a later agent | no supervisor may take the attempt on any more |
//! | `<work>/.lease` | agent | until when attempts that must not overlap may run, by the clock since boot |

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::fcntl::{Flock, FlockArg};
use nix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use crate::durable::{Durable, replace};
use crate::runtime::process::identity::Identity;
use crate::runtime::worker::attempt::AttemptId;
use crate::runtime::worker::event::Cause;

/// The directory of all attempts with supervisors, in the directory of attempts.
const CONTROL: &str = ".control";
const LEASE: &str = ".lease";

/// What an agent asks of a supervisor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::runtime::worker) struct Request {
    pub(in crate::runtime::worker) cause: Cause,
    pub(in crate::runtime::worker) grace_ms: u64,
}

/// What the files say of an attempt.
#[derive(Debug)]
pub(in crate::runtime::worker) enum Standing {
    /// A supervisor keeps it.
    Kept(Identity),
    /// Nobody does, and nobody will.
    Left,
}

/// The control files of an attempt.
#[derive(Clone, Debug)]
pub(in crate::runtime::worker) struct Control(PathBuf);

impl Control {
    pub(in crate::runtime::worker) fn of(work: &Path, id: &AttemptId) -> Self {
        Self(work.join(CONTROL).join(id.to_string()))
    }

    pub(in crate::runtime::worker) fn journal(&self) -> PathBuf {
        self.0.join("journal")
    }

    pub(in crate::runtime::worker) fn exists(&self) -> bool {
        self.0.exists()
    }

    /// Makes them, for an attempt that nobody had before.
    pub(in crate::runtime::worker) fn create(&self) -> io::Result<()> {
        if let Some(parent) = self.0.parent() {
            DirBuilder::new().recursive(true).mode(0o700).create(parent)?;
        }
        DirBuilder::new().mode(0o700).create(&self.0)?;
        for name in ["lock", "journal"] {
            OpenOptions::new().write(true).create_new(true).mode(0o600).open(self.0.join(name))?;
        }
        Ok(())
    }

    /// Takes the attempt on, as its supervisor; none when it may not be taken on.
    pub(in crate::runtime::worker) fn keep(&self, own: Identity) -> io::Result<Option<Flock<File>>> {
        let Some(lock) = self.lock()? else { return Ok(None) };
        if self.0.join("closed").exists() {
            return Ok(None);
        }
        replace(&self.0.join("keeper"), &serde_json::to_vec(&own)?, Durable::No)?;
        Ok(Some(lock))
    }

    fn lock(&self) -> io::Result<Option<Flock<File>>> {
        let file = OpenOptions::new().write(true).open(self.0.join("lock"))?;
        match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(lock) => Ok(Some(lock)),
            Err((_, nix::errno::Errno::EWOULDBLOCK)) => Ok(None),
            Err((_, error)) => Err(error.into()),
        }
    }

    /// Who keeps the attempt. When nobody does, nobody ever will from now on.
    pub(in crate::runtime::worker) fn standing(&self) -> io::Result<Standing> {
        let lock = match self.lock() {
            // An agent died while it made them: no supervisor was started yet.
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Standing::Left),
            lock => lock?,
        };
        let Some(_lock) = lock else {
            // Between lock and name there is a moment.
            return match fs::read(self.0.join("keeper")) {
                Ok(bytes) => Ok(Standing::Kept(serde_json::from_slice(&bytes)?)),
                Err(error) if error.kind() == ErrorKind::NotFound => Err(ErrorKind::WouldBlock.into()),
                Err(error) => Err(error),
            };
        };
        fs::write(self.0.join("closed"), "")?;
        Ok(Standing::Left)
    }

    /// Asks for the end of the attempt.
    pub(in crate::runtime::worker) fn ask(&self, request: Request) -> io::Result<()> {
        replace(&self.0.join("request"), &serde_json::to_vec(&request)?, Durable::No)
    }

    /// What was asked.
    pub(in crate::runtime::worker) fn asked(&self) -> io::Result<Option<Request>> {
        match fs::read(self.0.join("request")) {
            Ok(bytes) => Ok(Some(serde_json::from_slice(&bytes)?)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Removes them.
    pub(in crate::runtime::worker) fn remove(&self) {
        crate::runtime::worker::directories::clear(&self.0);
    }
}

/// All attempts that have control files.
pub(in crate::runtime::worker) fn all(work: &Path) -> io::Result<Vec<AttemptId>> {
    match fs::read_dir(work.join(CONTROL)) {
        Ok(entries) => {
            let names = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
            Ok(names.collect())
        }
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// Time since boot, sleep included.
pub(in crate::runtime::worker) fn uptime() -> Duration {
    clock_gettime(ClockId::CLOCK_BOOTTIME).map(Duration::from).unwrap_or_default()
}

/// Writes down until when attempts may run that must not overlap.
pub(in crate::runtime::worker) fn write_lease(work: &Path, left: Duration) -> io::Result<()> {
    let until = uptime().saturating_add(left);
    replace(&work.join(LEASE), until.as_millis().to_string().as_bytes(), Durable::No)
}

/// Until when they may run, by the clock since boot; zero when nobody said.
pub(in crate::runtime::worker) fn read_lease(work: &Path) -> Duration {
    let text = fs::read_to_string(work.join(LEASE)).unwrap_or_default();
    Duration::from_millis(text.trim().parse().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use orlop_core::id::{Epoch, JobId};

    use super::*;

    #[test]
    fn one_supervisor_keeps_an_attempt_and_none_after_it_was_closed() {
        let dir = tempfile::tempdir().unwrap();
        let id = AttemptId { job: JobId::from_u64(1), index: 0, member: 0, attempt: 1, epoch: Epoch(1) };
        let control = Control::of(dir.path(), &id);
        assert!(all(dir.path()).unwrap().is_empty());
        control.create().unwrap();
        assert_eq!(all(dir.path()).unwrap(), [id]);
        let own = Identity { pid: 7, start: 8 };
        let kept = control.keep(own).unwrap();
        assert!(kept.is_some() && control.keep(own).unwrap().is_none());
        assert!(matches!(control.standing().unwrap(), Standing::Kept(keeper) if keeper == own));
        let request = Request { cause: Cause::Cancel, grace_ms: 5 };
        assert_eq!(control.asked().unwrap(), None);
        control.ask(request).unwrap();
        assert_eq!(control.asked().unwrap(), Some(request));
        drop(kept);
        assert!(matches!(control.standing().unwrap(), Standing::Left));
        assert!(control.keep(own).unwrap().is_none(), "it was closed");
        control.remove();
        assert!(!control.exists());
    }

    #[test]
    fn s6_files_that_an_agent_died_over_are_of_nothing_that_ran_and_hold_up_no_other_one() {
        let id = AttemptId { job: JobId::from_u64(1), index: 0, member: 0, attempt: 1, epoch: Epoch(1) };
        for made in [&[][..], &["lock"][..]] {
            let dir = tempfile::tempdir().unwrap();
            let control = Control::of(dir.path(), &id);
            fs::create_dir_all(&control.0).unwrap();
            made.iter().for_each(|name| fs::write(control.0.join(name), "").unwrap());
            assert_eq!(super::super::state(&control).unwrap(), None, "{made:?}");
            assert!(matches!(control.standing().unwrap(), Standing::Left));
        }
    }

    #[test]
    fn the_lease_is_a_time_since_boot() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(read_lease(dir.path()), Duration::ZERO);
        write_lease(dir.path(), Duration::from_secs(20)).unwrap();
        let left = read_lease(dir.path()) - uptime();
        assert!(left <= Duration::from_secs(20) && left > Duration::from_secs(10), "{left:?}");
    }
}
