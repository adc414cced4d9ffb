//! The directories of attempts and of their secrets, and clearing them away. Owns their modes and that nothing leaves
//! them; never decides when.

use std::collections::VecDeque;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt, lchown};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError, mpsc};

use nix::unistd::geteuid;

use orlop_core::error::{Class, Problem};
use orlop_core::name::sha256_hex;
use orlop_core::spec::job::SecretAs;
use orlop_core::task::{TaskEnd, TaskRef};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

use super::plan::{Secret, User, beneath};
use crate::runtime::confidential;

/// Where directories wait to be cleared away.
const TRASH: &str = ".trash";
/// Where those of attempts that failed stay.
const FAILED: &str = ".failed";

/// Where empty ones wait to be used again.
const SPARE: &str = ".spare";
/// Most of them.
const SPARES: usize = 256;

/// See the module.
#[derive(Debug)]
pub(super) struct Directories {
    work: PathBuf,
    spares: Option<Spares>,
    secrets: Option<PathBuf>,
    cleaner: mpsc::Sender<PathBuf>,
    /// How many were given to it.
    discarded: AtomicU64,
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
        Ok(Self { work, spares: None, secrets, cleaner, discarded: AtomicU64::new(0), keep_failed, failed })
    }

    /// Uses directories again that attempts leave as they got them: to make and remove them is much of what a short attempt
    /// costs, above all where the file system remembers for a while what was removed. Only where nothing can reach them any
    /// more when they are given up, and all attempts are one user's, whose they are anyway.
    pub(super) fn using_again(mut self) -> io::Result<Self> {
        let place = self.work.join(SPARE);
        DirBuilder::new().recursive(true).mode(0o700).create(&place)?;
        // Those of an earlier process; one that lives may take them first.
        let found: Vec<PathBuf> = fs::read_dir(&place)?.map(|entry| Ok(entry?.path())).collect::<io::Result<_>>()?;
        self.spares = Some(Spares { place, free: Mutex::new(found), next: AtomicU64::new(0) });
        Ok(self)
    }

    /// Makes the directory of an attempt, which is not there yet.
    pub(super) fn make(&self, dir: &Path) -> io::Result<()> {
        if self.spares.as_ref().is_some_and(|spares| spares.give(dir)) {
            return Ok(());
        }
        DirBuilder::new().mode(0o700).create(dir)
    }

    /// Lets other users pass through to their own attempts; what else is there they cannot list.
    ///
    /// # Errors
    /// Invalid when a directory above cannot be passed.
    pub(super) fn admit_users(&self) -> Result<(), Problem> {
        for dir in [Some(&self.work), self.secrets.as_ref()].into_iter().flatten() {
            fs::set_permissions(dir, fs::Permissions::from_mode(0o711))?;
            for above in fs::canonicalize(dir)?.ancestors().skip(1) {
                if fs::metadata(above)?.permissions().mode() & 0o001 == 0 {
                    let message = format!(
                        "other users cannot pass through `{}` to their attempts in `{}`; allow it with `chmod o+x`",
                        above.display(),
                        dir.display()
                    );
                    return Err(Problem::new(Class::Invalid, message));
                }
            }
        }
        Ok(())
    }

    /// The directory of an attempt.
    pub(super) fn of(&self, id: &TaskRef) -> PathBuf {
        self.work.join(id.to_string())
    }

    /// The directory of an attempt's secrets, where this machine has one.
    pub(super) fn secrets_of(&self, id: &TaskRef) -> Option<PathBuf> {
        self.secrets.as_ref().map(|root| root.join(id.to_string()))
    }

    /// All attempts that have a directory.
    pub(super) fn all(&self) -> io::Result<Vec<TaskRef>> {
        let mut ids = Vec::new();
        for entry in fs::read_dir(&self.work)? {
            ids.extend(entry?.file_name().to_str().and_then(|name| name.parse::<TaskRef>().ok()));
        }
        Ok(ids)
    }

    /// The attempt of a directory has ended: it goes, or stays for a while where it failed and some are to stay.
    pub(super) fn retire(&self, dir: &Path, outcome: TaskEnd) {
        if self.keep_failed == 0 || !matches!(outcome, TaskEnd::Failed | TaskEnd::TimedOut) {
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

    /// Gives a directory up; at once when it is empty, else it is removed somewhere else and later.
    pub(super) fn discard(&self, dir: &Path) {
        if self.spares.as_ref().is_some_and(|spares| spares.take(dir)) {
            return;
        }
        match fs::remove_dir(dir) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(_) => {
                // One of this name may still be being cleared away, of this process or of the one before.
                let (own, number) = (std::process::id(), self.discarded.fetch_add(1, Relaxed));
                let name = format!("{}.{own}.{number}", dir.file_name().unwrap_or_default().display());
                let trash = self.work.join(TRASH).join(name);
                let gone = fs::rename(dir, &trash).map(|()| trash).unwrap_or_else(|_| dir.to_owned());
                if self.cleaner.send(gone).is_err() {
                    tracing::warn!(dir = %dir.display(), "a directory stays: cleanup is not running");
                }
            }
        }
    }

    /// Writes the secrets of an attempt that are files; none when it has none.
    pub(super) fn write_secrets(&self, id: &TaskRef, secrets: &[Secret]) -> io::Result<Option<PathBuf>> {
        if !secrets.iter().any(|secret| secret.given_as == SecretAs::File) {
            return Ok(None);
        }
        let dir = self.secrets_of(id);
        let dir = dir.ok_or_else(|| io::Error::other("this machine has no directory in memory for secrets"))?;
        DirBuilder::new().recursive(true).mode(0o700).create(&dir)?;
        let write = || -> io::Result<()> {
            for secret in secrets.iter().filter(|secret| secret.given_as == SecretAs::File) {
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

/// Empty directories that can be used again.
#[derive(Debug)]
struct Spares {
    place: PathBuf,
    free: Mutex<Vec<PathBuf>>,
    next: AtomicU64,
}

impl Spares {
    fn free(&self) -> MutexGuard<'_, Vec<PathBuf>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives one of them this name. False where there is none, or the name is taken.
    fn give(&self, dir: &Path) -> bool {
        loop {
            let Some(spare) = self.free().pop() else { return false };
            match renameat_with(CWD, &spare, CWD, dir, RenameFlags::NOREPLACE) {
                Ok(()) => return true,
                // Another process of this worker was first.
                Err(Errno::NOENT) => {}
                Err(_) => {
                    self.free().push(spare);
                    return false;
                }
            }
        }
    }

    /// Takes one in that is as it was made. False where it is not, and where enough are there.
    fn take(&self, dir: &Path) -> bool {
        if self.free().len() >= SPARES || !is_as_made(dir).unwrap_or(false) {
            return false;
        }
        let spare = self.place.join(format!("{}-{}", std::process::id(), self.next.fetch_add(1, Relaxed)));
        let taken = fs::rename(dir, &spare).is_ok();
        if taken {
            self.free().push(spare);
        }
        taken
    }
}

/// Whether a directory is empty and this user's alone.
fn is_as_made(dir: &Path) -> io::Result<bool> {
    let found = fs::symlink_metadata(dir)?;
    let plain = found.is_dir() && found.mode() & 0o7777 == 0o700 && found.uid() == geteuid().as_raw();
    Ok(plain && fs::read_dir(dir)?.next().is_none())
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
    let user = geteuid();
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let places = [Some(PathBuf::from("/run")), runtime, Some(PathBuf::from("/dev/shm"))];
    places.into_iter().flatten().find_map(|place| {
        let in_memory = rustix::fs::statfs(&place).is_ok_and(|found| found.f_type as u64 == 0x0102_1994);
        let dir = place.join(format!("orlop-{user}-{name}-{own}"));
        // Others may have made something of this name.
        (in_memory && confidential::own_directory(&dir, 0o700).is_ok()).then_some(dir)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn using_again(work: &Path) -> Directories {
        Directories::new(work.to_owned(), None, 0).unwrap().using_again().unwrap()
    }

    #[test]
    fn a_directory_is_used_again_only_as_it_was_made() {
        let work = tempfile::tempdir().unwrap();
        let (first, second) = (work.path().join("first"), work.path().join("second"));
        let inode = |dir: &Path| fs::metadata(dir).unwrap().ino();
        let directories = using_again(work.path());
        directories.make(&first).unwrap();
        assert_eq!(fs::metadata(&first).unwrap().mode() & 0o7777, 0o700);
        let made = inode(&first);
        directories.discard(&first);
        assert!(!first.exists());
        directories.make(&second).unwrap();
        assert_eq!(inode(&second), made);
        let spoils: [fn(&Path); 3] = [
            |dir| fs::write(dir.join(".hidden"), "of another attempt").unwrap(),
            |dir| fs::set_permissions(dir, fs::Permissions::from_mode(0o777)).unwrap(),
            |dir| {
                fs::remove_dir(dir).unwrap();
                std::os::unix::fs::symlink("/tmp", dir).unwrap();
            },
        ];
        for spoil in spoils {
            spoil(&second);
            directories.discard(&second);
            assert!(!second.exists() && fs::read_dir(work.path().join(SPARE)).unwrap().next().is_none());
            directories.make(&second).unwrap();
            assert!(fs::read_dir(&second).unwrap().next().is_none());
        }
        assert_eq!(directories.make(&second).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
    }

    /// The thread that clears away may still be at the one before.
    #[test]
    fn a_directory_is_gone_at_once_though_one_of_its_name_is_being_cleared_away() {
        let work = tempfile::tempdir().unwrap();
        let dir = work.path().join("attempt");
        let directories = Directories::new(work.path().to_owned(), None, 0).unwrap();
        for files in [3000, 1, 1] {
            directories.make(&dir).unwrap();
            (0..files).for_each(|number| fs::write(dir.join(number.to_string()), "").unwrap());
            directories.discard(&dir);
            assert!(!dir.exists());
        }
    }

    #[test]
    fn spare_directories_of_a_process_that_died_are_used_by_the_next_and_by_one_only() {
        let work = tempfile::tempdir().unwrap();
        let dir = |name: &str| work.path().join(name);
        let dead = using_again(work.path());
        dead.make(&dir("a")).unwrap();
        dead.discard(&dir("a"));
        let (one, other) = (using_again(work.path()), using_again(work.path()));
        one.make(&dir("b")).unwrap();
        // It takes the same one for its own.
        other.make(&dir("c")).unwrap();
        assert!(dir("b").exists() && dir("c").exists());
        one.discard(&dir("b"));
        one.make(&dir("c")).unwrap_err();
        // What was refused is still there for somebody else.
        one.make(&dir("d")).unwrap();
    }

    /// Its name can be foretold, and others may make things beside it.
    #[test]
    fn a_directory_for_secrets_is_not_found_through_a_link() {
        let dirs = tempfile::tempdir().unwrap();
        let Some(dir) = memory_dir("directories-link-test", dirs.path()) else {
            return println!("skipped: a_directory_for_secrets_is_not_found_through_a_link: no file system in memory");
        };
        fs::remove_dir(&dir).unwrap();
        let elsewhere = tempfile::tempdir().unwrap();
        fs::set_permissions(elsewhere.path(), fs::Permissions::from_mode(0o755)).unwrap();
        std::os::unix::fs::symlink(elsewhere.path(), &dir).unwrap();
        let found = memory_dir("directories-link-test", dirs.path());
        fs::remove_file(&dir).unwrap();
        assert_ne!(found, Some(dir));
        assert_eq!(fs::metadata(elsewhere.path()).unwrap().mode() & 0o777, 0o755, "it is as it was");
        found.map(fs::remove_dir).transpose().unwrap();
    }

    #[test]
    fn workers_of_one_name_on_one_machine_have_secrets_of_their_own() {
        let dirs = tempfile::tempdir().unwrap();
        let of = |state: &str| memory_dir("directories-test", &dirs.path().join(state));
        let Some(first) = of("a") else {
            return println!(
                "skipped: workers_of_one_name_on_one_machine_have_secrets_of_their_own: no file system in memory"
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
