//! The agent's state directory: who it is, and the highest epoch it has seen.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use nix::fcntl::{Flock, FlockArg};
use orlop_cloud::durable::{Durable, replace};
use orlop_core::error::{Class, Problem};
use orlop_core::id::{Epoch, WorkerId};

/// A state directory that the file system lets nobody use.
pub(super) fn unusable(dir: &Path, error: io::Error) -> Problem {
    let message = format!("the state directory `{}` cannot be used: {error}", dir.display());
    Problem { message, ..Problem::from(error) }
}

/// A file that does not hold what an agent writes there.
fn broken(path: &Path, why: impl std::fmt::Display) -> Problem {
    Problem::new(Class::Fatal, format!("`{}` does not hold what an agent writes there: {why}", path.display()))
}

/// See the module.
#[derive(Debug)]
pub(super) struct State {
    dir: PathBuf,
    pub(super) worker: WorkerId,
    /// Names this directory, so that the same agent is known when it comes back.
    pub(super) id: String,
    /// Where it is on this host: device and inode, which a copy does not share.
    pub(super) place: String,
    /// The highest epoch seen.
    pub(super) epoch: Epoch,
    _lock: Flock<File>,
}

impl State {
    /// Opens a directory, or makes one for the worker `asked`, or for one with a name made up from the host's.
    pub(super) fn open(dir: &Path, asked: Option<&WorkerId>) -> Result<Self, Problem> {
        let io = |error| unusable(dir, error);
        DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(io)?;
        let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(dir.join("lock"));
        let lock = Flock::lock(file.map_err(io)?, FlockArg::LockExclusiveNonblock).map_err(|_| {
            let dir = dir.display();
            let message = format!("another agent uses the state directory `{dir}`; give each agent its own");
            Problem::new(Class::Conflict, message)
        })?;
        let found = fs::metadata(dir).map_err(io)?;
        let place = format!("{}:{}", found.dev(), found.ino());
        let fresh = uuid::Uuid::new_v4().simple().to_string();
        let id = keep(dir, "state-id", || fresh.clone())?;
        let name = keep(dir, "worker-id", || match asked {
            Some(asked) => asked.to_string(),
            None => made_up(&fresh),
        })?;
        if let Some(asked) = asked.filter(|asked| asked.to_string() != name) {
            let dir = dir.display();
            let message = format!(
                "the state directory `{dir}` is that of worker `{name}`, not `{asked}`; use that id, or another directory"
            );
            return Err(Problem::new(Class::Invalid, message));
        }
        let path = dir.join("worker-id");
        let worker = WorkerId::new(name).map_err(|error| broken(&path, error))?;
        let path = dir.join("epoch");
        let epoch = match fs::read_to_string(&path) {
            Ok(text) => Epoch(text.trim().parse().map_err(|_| broken(&path, "it is not a number"))?),
            Err(error) if error.kind() == ErrorKind::NotFound => Epoch(0),
            Err(error) => return Err(io(error)),
        };
        Ok(Self { dir: dir.to_owned(), worker, id, place, epoch, _lock: lock })
    }

    /// Lets other users pass through to their attempts. They cannot list what is there.
    pub(super) fn admit_users(&self) -> io::Result<()> {
        let mode = fs::metadata(&self.dir)?.permissions().mode();
        fs::set_permissions(&self.dir, Permissions::from_mode(mode | 0o001))
    }

    /// Remembers an epoch if it is the highest; false when it is below the highest seen.
    pub(super) fn see(&mut self, epoch: Epoch) -> io::Result<bool> {
        if epoch > self.epoch {
            replace(&self.dir.join("epoch"), format!("{}\n", epoch.0).as_bytes(), Durable::Yes)?;
            self.epoch = epoch;
        }
        Ok(epoch >= self.epoch)
    }
}

/// The text of a file, made if it is not there.
fn keep(dir: &Path, name: &str, make: impl FnOnce() -> String) -> Result<String, Problem> {
    let path = dir.join(name);
    match fs::read_to_string(&path) {
        Ok(text) => Ok(text.trim().to_owned()),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let text = make();
            let written = replace(&path, format!("{text}\n").as_bytes(), Durable::Yes);
            written.map(|()| text).map_err(|error| unusable(dir, error))
        }
        Err(error) => Err(unusable(dir, error)),
    }
}

/// A worker's name out of the host's and a few random digits.
fn made_up(random: &str) -> String {
    let host = nix::unistd::gethostname().unwrap_or_default().to_string_lossy().to_lowercase();
    let known = |ch: &char| ch.is_ascii_lowercase() || ch.is_ascii_digit() || matches!(ch, '-' | '.');
    let host: String = host.chars().filter(known).take(48).collect();
    let host = host.trim_matches(['-', '.']);
    let random: String = random.chars().take(8).collect();
    if host.is_empty() { format!("worker-{random}") } else { format!("{host}-{random}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_keeps_its_id_and_the_highest_epoch() {
        let dir = tempfile::tempdir().unwrap();
        let mut state = State::open(dir.path(), None).unwrap();
        assert!(state.see(Epoch(3)).unwrap() && state.see(Epoch(3)).unwrap());
        assert!(!state.see(Epoch(2)).unwrap(), "a server of an older epoch is refused");
        assert_eq!(State::open(dir.path(), None).unwrap_err().class, Class::Conflict);
        let (worker, id) = (state.worker.clone(), state.id.clone());
        drop(state);
        let again = State::open(dir.path(), None).unwrap();
        assert_eq!((again.worker.clone(), again.id.clone(), again.epoch), (worker, id, Epoch(3)));
        drop(again);
        let other = WorkerId::new("other").unwrap();
        assert_eq!(State::open(dir.path(), Some(&other)).unwrap_err().class, Class::Invalid);
        fs::write(dir.path().join("epoch"), "x").unwrap();
        assert_eq!(State::open(dir.path(), None).unwrap_err().class, Class::Fatal);
    }
}
