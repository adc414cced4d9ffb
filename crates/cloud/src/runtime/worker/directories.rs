//! The directories of attempts and of their secrets, and clearing them away. Owns their modes and that nothing leaves
//! them; never decides when.

use std::collections::VecDeque;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt, lchown};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError, mpsc};

use orlop_core::error::{Class, PortError};
use orlop_core::name::sha256_hex;

use super::attempt::AttemptId;
use super::event::Outcome;
use super::plan::{Secret, SecretForm, User, beneath};

/// Where directories wait to be cleared away.
const TRASH: &str = ".trash";
/// Where those of attempts that failed stay.
const FAILED: &str = ".failed";

/// See the module.
#[derive(Debug)]
pub(super) struct Directories {
    work: PathBuf,
    secrets: Option<PathBuf>,
    cleaner: mpsc::Sender<PathBuf>,
    /// How many of attempts that failed stay.
    keep_failed: usize,
    /// Those that do, the oldest first.
    failed: Mutex<VecDeque<PathBuf>>,
}

impl Directories {
    /// Makes what is missing and starts the thread that clears away. `secrets` is a directory in memory of this user
    /// alone, where there is one.
    pub(super) fn new(work: PathBuf, secrets: Option<PathBuf>, keep_failed: usize) -> io::Result<Self> {
        for place in [Some(TRASH), (keep_failed > 0).then_some(FAILED)].into_iter().flatten() {
            DirBuilder::new().recursive(true).mode(0o700).create(work.join(place))?;
        }
        let (cleaner, dirty) = mpsc::channel::<PathBuf>();
        for entry in fs::read_dir(work.join(TRASH))? {
            // The channel is open: its end is held here.
            drop(cleaner.send(entry?.path()));
        }
        let clean = move || dirty.iter().for_each(|path| clear(&path));
        std::thread::Builder::new().name("orlop-clean".to_owned()).spawn(clean)?;
        let failed = Mutex::new(failures(&work.join(FAILED))?);
        Ok(Self { work, secrets, cleaner, keep_failed, failed })
    }

    /// Lets other users pass through to their own attempts; what else is there they cannot list.
    ///
    /// # Errors
    /// Invalid when a directory above cannot be passed.
    pub(super) fn admit_users(&self) -> Result<(), PortError> {
        for dir in [Some(&self.work), self.secrets.as_ref()].into_iter().flatten() {
            fs::set_permissions(dir, fs::Permissions::from_mode(0o711))?;
            for above in fs::canonicalize(dir)?.ancestors().skip(1) {
                if fs::metadata(above)?.permissions().mode() & 0o001 == 0 {
                    let message = format!(
                        "other users cannot pass through `{}` to their attempts in `{}`; allow it with `chmod o+x`",
                        above.display(),
                        dir.display()
                    );
                    return Err(PortError::new(Class::Invalid, message));
                }
            }
        }
        Ok(())
    }

    /// The directory of an attempt.
    pub(super) fn of(&self, id: &AttemptId) -> PathBuf {
        self.work.join(id.to_string())
    }

    /// The directory of an attempt's secrets, where this machine has one.
    pub(super) fn secrets_of(&self, id: &AttemptId) -> Option<PathBuf> {
        self.secrets.as_ref().map(|root| root.join(id.to_string()))
    }

    /// All attempts that have a directory.
    pub(super) fn all(&self) -> io::Result<Vec<AttemptId>> {
        let mut ids = Vec::new();
        for entry in fs::read_dir(&self.work)? {
            ids.extend(entry?.file_name().to_str().and_then(|name| name.parse::<AttemptId>().ok()));
        }
        Ok(ids)
    }

    /// The attempt of a directory has ended: it goes, or stays for a while where it failed and some are to stay.
    pub(super) fn retire(&self, dir: &Path, outcome: Outcome) {
        if self.keep_failed == 0 || !matches!(outcome, Outcome::Failed | Outcome::TimedOut) {
            return self.discard(dir);
        }
        let kept = self.work.join(FAILED).join(dir.file_name().unwrap_or_default());
        if fs::rename(dir, &kept).is_err() {
            return self.discard(dir);
        }
        let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        failed.push_back(kept);
        while failed.len() > self.keep_failed {
            let Some(oldest) = failed.pop_front() else { break };
            self.discard(&oldest);
        }
    }

    /// Removes a directory; at once when it is empty, else somewhere else and later.
    pub(super) fn discard(&self, dir: &Path) {
        match fs::remove_dir(dir) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(_) => {
                let name = dir.file_name().unwrap_or_default();
                let trash = self.work.join(TRASH).join(name);
                let gone = fs::rename(dir, &trash).map(|()| trash).unwrap_or_else(|_| dir.to_owned());
                if self.cleaner.send(gone).is_err() {
                    tracing::warn!(dir = %dir.display(), "a directory stays: nobody clears away");
                }
            }
        }
    }

    /// Writes the secrets of an attempt that are files; none when it has none.
    pub(super) fn write_secrets(&self, id: &AttemptId, secrets: &[Secret]) -> io::Result<Option<PathBuf>> {
        if !secrets.iter().any(|secret| secret.form == SecretForm::File) {
            return Ok(None);
        }
        let dir = self.secrets_of(id);
        let dir = dir.ok_or_else(|| io::Error::other("this machine has no directory in memory for secrets"))?;
        DirBuilder::new().recursive(true).mode(0o700).create(&dir)?;
        let write = || -> io::Result<()> {
            for secret in secrets.iter().filter(|secret| secret.form == SecretForm::File) {
                let target = beneath(&secret.target).filter(|path| !path.as_os_str().is_empty());
                let path = dir.join(target.ok_or(io::ErrorKind::InvalidInput)?);
                if let Some(parent) = path.parent() {
                    DirBuilder::new().recursive(true).mode(0o700).create(parent)?;
                }
                let mut file = OpenOptions::new().write(true).create_new(true).mode(0o400).open(&path)?;
                file.write_all(secret.value.as_bytes())?;
            }
            Ok(())
        };
        match write() {
            Ok(()) => Ok(Some(dir)),
            Err(error) => {
                clear(&dir);
                Err(error)
            }
        }
    }
}

/// Directories of attempts that failed, the oldest first.
fn failures(place: &Path) -> io::Result<VecDeque<PathBuf>> {
    let mut found = Vec::new();
    match fs::read_dir(place) {
        Ok(entries) => {
            for entry in entries {
                let entry = entry?;
                found.push((entry.metadata()?.modified()?, entry.path()));
            }
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    found.sort();
    Ok(found.into_iter().map(|(_, path)| path).collect())
}

/// Gives a directory with everything in it to a user. Files that have further names stay as they are: they are also those of
/// others, and everybody may read them.
pub(super) fn hand_over(dir: &Path, user: User) -> io::Result<()> {
    let give = |path: &Path| lchown(path, Some(user.uid), Some(user.gid));
    let mut open = vec![dir.to_owned()];
    while let Some(dir) = open.pop() {
        for entry in fs::read_dir(&dir)? {
            let entry = entry?;
            let found = entry.metadata()?;
            if found.is_dir() {
                open.push(entry.path());
            } else if found.nlink() == 1 {
                give(&entry.path())?;
            }
        }
        give(&dir)?;
    }
    Ok(())
}

/// Removes a directory with everything in it, also what a job made unreadable.
pub(super) fn clear(dir: &Path) {
    let Err(first) = fs::remove_dir_all(dir) else { return };
    if first.kind() == io::ErrorKind::NotFound {
        return;
    }
    open_up(dir);
    if let Err(error) = fs::remove_dir_all(dir).or_else(|error| match error.kind() {
        io::ErrorKind::NotFound => Ok(()),
        _ => Err(error),
    }) {
        tracing::warn!(dir = %dir.display(), %error, "clearing away an attempt's directory");
    }
}

/// Makes directories below one writable again. Links are not followed.
fn open_up(dir: &Path) {
    let mut open = vec![dir.to_owned()];
    while let Some(dir) = open.pop() {
        // Whatever cannot be changed is reported when it cannot be removed.
        drop(fs::set_permissions(&dir, fs::Permissions::from_mode(0o700)));
        for entry in fs::read_dir(&dir).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                open.push(entry.path());
            }
        }
    }
}

/// A directory in memory that only this user may enter, for secrets; none where there is no such file system. Workers of one
/// name on one machine have one each, by where their attempts are.
pub(super) fn memory_dir(name: &str, work: &Path) -> Option<PathBuf> {
    let work = std::path::absolute(work).unwrap_or_else(|_| work.to_owned());
    let own = sha256_hex(work.as_os_str().as_encoded_bytes(), 16);
    let user = nix::unistd::geteuid();
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let places = [Some(PathBuf::from("/run")), runtime, Some(PathBuf::from("/dev/shm"))];
    places.into_iter().flatten().find_map(|place| {
        let in_memory = rustix::fs::statfs(&place).is_ok_and(|found| found.f_type as u64 == 0x0102_1994);
        let dir = place.join(format!("orlop-{user}-{name}-{own}"));
        let made = in_memory && DirBuilder::new().recursive(true).mode(0o700).create(&dir).is_ok();
        let found =
            made.then(|| rustix::fs::stat(&dir).ok()).flatten().filter(|found| found.st_uid == user.as_raw())?;
        // Passing through may have been allowed by the agent that is served now.
        let closed = found.st_mode & 0o066 == 0 || fs::set_permissions(&dir, fs::Permissions::from_mode(0o700)).is_ok();
        closed.then_some(dir)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s6_workers_of_one_name_on_one_machine_have_secrets_of_their_own() {
        let dirs = tempfile::tempdir().unwrap();
        let of = |state: &str| memory_dir("directories-test", &dirs.path().join(state));
        let Some(first) = of("a") else {
            return println!(
                "skipped: s6_workers_of_one_name_on_one_machine_have_secrets_of_their_own: no file system in memory"
            );
        };
        let second = of("b").unwrap();
        assert_ne!(first, second);
        assert_eq!(of("a"), Some(first.clone()), "it is found again after a restart");
        for dir in [first, second] {
            assert_eq!(fs::metadata(&dir).unwrap().permissions().mode() & 0o777, 0o700);
            fs::remove_dir(dir).unwrap();
        }
    }
}
