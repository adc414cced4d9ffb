//! Where runs of this machine are kept: one directory a run, below one home.

use std::fs::{self, DirBuilder, File, Permissions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// The home of runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Home(PathBuf);

impl Home {
    /// A home in a directory.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    /// The home of the caller: `$XDG_STATE_HOME/orlop`, else `$HOME/.local/state/orlop`; none without either.
    #[must_use]
    pub fn of_user() -> Option<Self> {
        let variable = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let state = variable("XDG_STATE_HOME").or_else(|| Some(variable("HOME")?.join(".local/state")))?;
        Some(Self(state.join("orlop")))
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The directory of a run. Namespace and name are checked names of objects, so they lead nowhere else.
    #[must_use]
    pub fn run(&self, namespace: &str, name: &str) -> RunDir {
        RunDir(self.0.join("runs").join(namespace).join(name))
    }

    /// Deletes a run of this home whose lock the caller holds: from one moment to the next it is gone, then its files are
    /// deleted. What a killed deletion leaves, [`Home::sweep`] deletes.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn discard(&self, run: &RunDir, uid: &str) -> io::Result<()> {
        let trash = self.trash();
        DirBuilder::new().recursive(true).mode(0o700).create(&trash)?;
        let place = trash.join(uid);
        fs::rename(run.path(), &place)?;
        match fs::remove_dir_all(place) {
            // Somebody sweeps at the same time.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed,
        }
    }

    /// Deletes what deletions that were killed have left.
    ///
    /// # Errors
    /// Those of the file system; what can be deleted is deleted.
    pub fn sweep(&self) -> io::Result<()> {
        let removed = children(&self.trash())?.into_iter().map(|path| match fs::remove_dir_all(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed,
        });
        removed.fold(Ok(()), Result::and)
    }

    fn trash(&self) -> PathBuf {
        self.0.join("trash")
    }

    /// The directories of all runs, of one namespace or of all, in order of namespace and name.
    ///
    /// # Errors
    /// Those of the file system; a home that does not exist has no runs.
    pub fn runs(&self, namespace: Option<&str>) -> io::Result<Vec<RunDir>> {
        let runs = self.0.join("runs");
        let namespaces = match namespace {
            Some(namespace) => vec![runs.join(namespace)],
            None => children(&runs)?,
        };
        let mut found = Vec::new();
        for namespace in namespaces {
            found.extend(children(&namespace)?.into_iter().map(RunDir).filter(RunDir::exists));
        }
        Ok(found)
    }
}

fn children(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(Vec::new());
        }
        Err(error) => return Err(error),
    };
    let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
    paths.sort();
    Ok(paths)
}

/// The directory of one run: `run.db` with its journal, `logs/`, `attempts/`, `cas/`, `volumes/`, `control.sock` while a
/// host lives, `host.lock`, `door.lock`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RunDir(PathBuf);

/// Held by the host of a run as long as it lives. The kernel lets it go when the process ends, however it ends.
#[derive(Debug)]
pub struct RunLock {
    _file: File,
}

/// Held while a host comes or goes, and by anyone who must know whether there is one: anyone who has it finds a host whose
/// socket answers, or none and its lock free. Held for moments only.
#[derive(Debug)]
pub struct Door {
    _file: File,
}

impl RunDir {
    /// A run in its own directory.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Whether a run was ever begun here.
    #[must_use]
    pub fn exists(&self) -> bool {
        self.journal().is_file()
    }

    /// Whether a host ever was here, also one that has recorded nothing.
    #[must_use]
    pub fn is_made(&self) -> bool {
        self.exists() || self.0.join(LOCK).is_file()
    }

    /// The journal.
    #[must_use]
    pub fn journal(&self) -> PathBuf {
        self.0.join("run.db")
    }

    /// Logs: `<instance>/<attempt>.out` and `.err`.
    #[must_use]
    pub fn logs(&self) -> PathBuf {
        self.0.join("logs")
    }

    /// Makes the directory, for its owner only. One that is there is made private, unless it holds other things.
    ///
    /// # Errors
    /// Those of the file system; Denied when others can look into it and it holds other things.
    pub fn create(&self) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.0)?;
        if fs::metadata(&self.0)?.permissions().mode() & 0o077 == 0 {
            return Ok(());
        }
        if !self.is_made() && fs::read_dir(&self.0)?.next().is_some() {
            let why = "other users can read it and it contains other files; give a new directory, or make it private with \
                       `chmod 700`";
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
        }
        fs::set_permissions(&self.0, Permissions::from_mode(0o700))
    }

    /// Executions of attempts that were not forgotten.
    #[must_use]
    pub fn attempts(&self) -> PathBuf {
        self.0.join("attempts")
    }

    /// Deletes all a run has made, and its directory unless other things are in it: somebody may have chosen a directory
    /// with things of his own.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn delete(&self) -> io::Result<()> {
        for name in OWN {
            let path = self.0.join(name);
            let removed = match fs::symlink_metadata(&path) {
                Ok(found) if found.is_dir() => fs::remove_dir_all(&path),
                _ => fs::remove_file(&path),
            };
            match removed {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        match fs::remove_dir(&self.0) {
            Err(error) if error.kind() != io::ErrorKind::DirectoryNotEmpty => Err(error),
            _ => Ok(()),
        }
    }

    /// Takes the lock of the host; none while another host has it.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn lock(&self) -> io::Result<Option<RunLock>> {
        let path = self.0.join(LOCK);
        loop {
            let file = File::create(&path)?;
            match file.try_lock() {
                Ok(()) if is_at(&file, &path)? => return Ok(Some(RunLock { _file: file })),
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Ok(None),
                Err(TryLockError::Error(error)) => return Err(error),
            }
        }
    }

    /// Takes the lock of the host as soon as no other host has it.
    ///
    /// # Errors
    /// Those of the file system.
    pub async fn wait_for_lock(&self) -> io::Result<RunLock> {
        Ok(RunLock { _file: locked(self.0.join(LOCK)).await? })
    }

    /// Takes the door as soon as no host comes or goes.
    ///
    /// # Errors
    /// Those of the file system.
    pub async fn door(&self) -> io::Result<Door> {
        Ok(Door { _file: locked(self.0.join("door.lock")).await? })
    }
}

/// What a run makes in its directory, in the order in which it is deleted: as long as its journal is there, it can be
/// deleted again.
const OWN: [&str; 16] = [
    "attempts",
    "trash",
    "cas",
    "configmaps",
    "volumes",
    "resources",
    "logs",
    "control.sock",
    "substrate.lock",
    "run.db",
    "run.db-journal",
    "run.db-shm",
    "run.db-wal",
    "run.db.lock",
    "host.lock",
    "door.lock",
];

/// The file of a host's lock.
const LOCK: &str = "host.lock";

/// Locks a file, which is made where it is missing, as soon as nobody else has it locked.
async fn locked(path: PathBuf) -> io::Result<File> {
    let lock = move || {
        loop {
            let file = File::create(&path)?;
            file.lock()?;
            if is_at(&file, &path)? {
                return Ok(file);
            }
        }
    };
    tokio::task::spawn_blocking(lock).await?
}

/// Whether a file that was locked is still the one at its path: the run may have been deleted while it was waited for, and
/// the lock of a file that nobody else finds keeps nobody out.
fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    let own = file.metadata()?;
    match fs::metadata(path) {
        Ok(there) => Ok((own.dev(), own.ino()) == (there.dev(), there.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_listed_by_namespace_and_name() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::new(dir.path());
        assert_eq!(home.runs(None).unwrap(), []);
        for (namespace, name) in [("b", "x"), ("a", "z"), ("a", "y")] {
            let run = home.run(namespace, name);
            run.create().unwrap();
            fs::write(run.journal(), "").unwrap();
        }
        home.run("a", "empty").create().unwrap();
        assert_eq!(home.runs(None).unwrap(), [home.run("a", "y"), home.run("a", "z"), home.run("b", "x")]);
        assert_eq!(home.runs(Some("b")).unwrap(), [home.run("b", "x")]);
        assert_eq!(home.runs(Some("c")).unwrap(), []);
    }

    #[test]
    fn a_directory_of_a_run_is_private_also_one_that_was_there() {
        let dir = tempfile::tempdir().unwrap();
        let run = RunDir::new(dir.path().join("run"));
        let mode = || fs::metadata(run.path()).unwrap().permissions().mode() & 0o777;
        let open = || fs::set_permissions(run.path(), Permissions::from_mode(0o755)).unwrap();
        run.create().unwrap();
        assert_eq!(mode(), 0o700);
        open();
        fs::write(run.path().join("letter"), "dear").unwrap();
        assert_eq!(run.create().unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        assert_eq!(mode(), 0o755);
        fs::remove_file(run.path().join("letter")).unwrap();
        run.create().unwrap();
        assert_eq!(mode(), 0o700);
        open();
        fs::write(run.journal(), "").unwrap();
        run.create().unwrap();
        assert_eq!(mode(), 0o700);
    }

    #[tokio::test]
    async fn a_lock_of_a_deleted_run_keeps_nobody_out_and_is_given_to_nobody() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::new(dir.path());
        let run = home.run("a", "x");
        run.create().unwrap();
        let lock = run.lock().unwrap().unwrap();
        let waiting = tokio::spawn({
            let run = run.clone();
            async move { run.wait_for_lock().await.map(|_| ()) }
        });
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        home.discard(&run, "uid").unwrap();
        drop(lock);
        assert_eq!(waiting.await.unwrap().unwrap_err().kind(), io::ErrorKind::NotFound);
        assert!(!run.path().exists());
    }

    #[test]
    fn what_a_killed_deletion_leaves_is_swept() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::new(dir.path());
        home.sweep().unwrap();
        fs::create_dir_all(home.trash().join("uid/logs")).unwrap();
        home.sweep().unwrap();
        assert_eq!(children(&home.trash()).unwrap(), Vec::<PathBuf>::new());
    }

    #[test]
    fn one_host_at_a_time_has_the_lock() {
        let dir = tempfile::tempdir().unwrap();
        let run = RunDir::new(dir.path().join("run"));
        run.create().unwrap();
        let first = run.lock().unwrap();
        assert!(first.is_some());
        assert!(run.lock().unwrap().is_none());
        drop(first);
        assert!(run.lock().unwrap().is_some());
    }

    #[tokio::test]
    async fn the_door_and_the_lock_are_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let run = RunDir::new(dir.path());
        let (door, lock) = (run.door().await.unwrap(), run.lock().unwrap().unwrap());
        let mut next = tokio::spawn({
            let run = run.clone();
            async move { (run.door().await.unwrap(), run.wait_for_lock().await.unwrap()) }
        });
        let early = tokio::time::timeout(std::time::Duration::from_millis(50), &mut next).await;
        assert!(early.is_err());
        drop((door, lock));
        let (_door, _lock) = next.await.unwrap();
        assert!(run.lock().unwrap().is_none());
    }
}
