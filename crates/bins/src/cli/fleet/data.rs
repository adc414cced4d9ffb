//! Where a server on this machine keeps its data.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use super::super::failure::Failure;
use super::super::output;
use crate::host::{client_token, private};

/// The directory of a server; one for the moment goes with this value.
#[derive(Debug)]
pub(super) struct Data {
    path: PathBuf,
    /// Whether it was made or empty just now.
    is_new: bool,
    /// Held locked where the directory is for the moment: who can take the lock knows that nobody lives there any more.
    passing: Option<File>,
}

/// What a directory for the moment begins with; the rest is 32 digits.
const PASSING: &str = "orlop-";

/// What is locked in a directory for the moment.
const LOCK: &str = "lock";

impl Data {
    /// The directory asked for, or the user's.
    ///
    /// # Errors
    /// There is none, or it cannot be made.
    pub(super) fn at(asked: Option<PathBuf>) -> Result<Self, Failure> {
        let path = asked
            .or_else(of_user)
            .ok_or_else(|| Failure::usage("cannot determine the home directory; give --data DIR"))?;
        // What is started from here runs elsewhere: it must find its files all the same.
        let absolute = std::path::absolute(&path);
        let path =
            absolute.map_err(|error| Failure::usage(format!("{} is not a usable path: {error}", path.display())))?;
        let is_new = std::fs::read_dir(&path).map_or(true, |mut found| found.next().is_none());
        let made = private::directory(&path, is_own).map_err(|error| unusable(&path, &error))?;
        if let Some(said) = made {
            output::tell(&said);
        }
        Ok(Self { path, is_new, passing: None })
    }

    /// One that is gone afterwards: in memory where the system has a place for that. What a server that was killed left of
    /// its own goes too, for it holds memory and nobody can come back to it.
    ///
    /// # Errors
    /// It cannot be made.
    pub(super) fn passing() -> Result<Self, Failure> {
        let memory = Path::new("/dev/shm");
        let base = if memory.is_dir() { memory.to_path_buf() } else { std::env::temp_dir() };
        sweep(&base);
        Self::passing_below(&base)
    }

    fn passing_below(base: &Path) -> Result<Self, Failure> {
        let path = base.join(format!("{PASSING}{}", uuid::Uuid::new_v4().simple()));
        DirBuilder::new().mode(0o700).create(&path).map_err(|error| unusable(&path, &error))?;
        let held = hold(&path).map_err(|error| unusable(&path, &error))?;
        Ok(Self { path, is_new: false, passing: Some(held) })
    }

    /// Whether nothing was there before.
    pub(super) const fn is_new(&self) -> bool {
        self.is_new
    }

    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Data {
    fn drop(&mut self) {
        if self.passing.is_some()
            && let Err(error) = std::fs::remove_dir_all(&self.path)
        {
            tracing::warn!(target: "orlop::up", %error, path = %self.path.display(), "the data could not be removed");
        }
    }
}

/// What a server and its workers make in their directory.
fn is_own(name: &str) -> bool {
    const OWN: [&str; 6] = ["logs", "artifacts", "tls", "secrets.key", ".orlop-reserve", client_token::FILE];
    OWN.contains(&name) || ["fleet.db", ".fleet.db", "worker"].iter().any(|own| name.starts_with(own))
}

fn unusable(path: &Path, error: &io::Error) -> Failure {
    Failure::usage(format!("{} cannot be used as the data directory: {error}", path.display()))
}

/// Makes the lock of a directory and takes it.
fn hold(path: &Path) -> io::Result<File> {
    // Made under another name, so that nobody finds it unlocked under its own.
    let (new, lock) = (path.join("lock.new"), path.join(LOCK));
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
    file.try_lock()?;
    std::fs::rename(new, lock)?;
    Ok(file)
}

/// Removes the directories for the moment of this user whose servers have ended without doing so.
fn sweep(base: &Path) {
    let Ok(entries) = std::fs::read_dir(base) else { return };
    for path in entries.filter_map(Result::ok).map(|entry| entry.path()).filter(|path| is_passing(path)) {
        match abandoned(&path) {
            Ok(None) => {}
            // Locked until it is gone, so that nobody else removes it meanwhile.
            Ok(Some(_lock)) => {
                if let Err(error) = std::fs::remove_dir_all(&path) {
                    tracing::warn!(target: "orlop::up", %error, path = %path.display(), "old data could not be removed");
                }
            }
            Err(error) => tracing::debug!(target: "orlop::up", %error, path = %path.display(), "not looked into"),
        }
    }
}

fn is_passing(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).and_then(|name| name.strip_prefix(PASSING));
    name.is_some_and(|digits| digits.len() == 32 && digits.bytes().all(|digit| digit.is_ascii_hexdigit()))
}

/// The lock of a directory of this user that nobody holds.
fn abandoned(path: &Path) -> io::Result<Option<File>> {
    let found = std::fs::symlink_metadata(path)?;
    if !found.is_dir() || found.uid() != nix::unistd::geteuid().as_raw() {
        return Ok(None);
    }
    let mut options = OpenOptions::new();
    let file = options.write(true).custom_flags(nix::fcntl::OFlag::O_NOFOLLOW.bits()).open(path.join(LOCK))?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

fn of_user() -> Option<PathBuf> {
    let variable = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let data = variable("XDG_DATA_HOME").or_else(|| Some(variable("HOME")?.join(".local/share")))?;
    Some(data.join("orlop"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_killed_server_left_in_memory_goes_with_the_next_start() {
        let base = tempfile::tempdir().unwrap();
        let alive = Data::passing_below(base.path()).unwrap();
        let killed = Data::passing_below(base.path()).unwrap();
        let left = killed.path().to_owned();
        std::fs::write(left.join("fleet.db"), "jobs").unwrap();
        // A death: its locks go, its files stay.
        let mut killed = killed;
        drop(killed.passing.take());
        drop(killed);
        let other = base.path().join("orlop-notes");
        std::fs::create_dir(&other).unwrap();
        std::fs::write(other.join(LOCK), "").unwrap();
        let half = base.path().join(format!("orlop-{:032x}", 7));
        std::fs::create_dir(&half).unwrap();
        sweep(base.path());
        assert!(!left.exists(), "the directory of a server that is gone");
        assert!(alive.path().exists(), "the directory of one that runs");
        assert!(other.exists(), "something else");
        assert!(half.exists(), "one that is being made");
        let path = alive.path().to_owned();
        drop(alive);
        assert!(!path.exists());
    }

    #[test]
    fn a_link_in_the_place_of_a_directory_is_not_followed() {
        let base = tempfile::tempdir().unwrap();
        let precious = tempfile::tempdir().unwrap();
        std::fs::write(precious.path().join(LOCK), "").unwrap();
        std::os::unix::fs::symlink(precious.path(), base.path().join(format!("orlop-{:032x}", 8))).unwrap();
        sweep(base.path());
        assert!(precious.path().join(LOCK).exists());
    }
}
