//! The folder of the store: where stored files are, and how a new one gets there whole or not at all. Owns
//! `cas/sha256/<2 digits>/<62 digits>` and `cas/tmp`.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use orlop_core::error::{Class, Problem};
use tempfile::NamedTempFile;

use super::error::{reading, writing};
use super::reference::Reference;

/// Age from which an unfinished file is taken for one of a crashed writer.
const ABANDONED: Duration = Duration::from_secs(24 * 60 * 60);

/// The folders of the store.
#[derive(Debug)]
pub(super) struct Files {
    digests: PathBuf,
    unfinished: PathBuf,
}

impl Files {
    /// The folders in a run directory, there or not.
    pub(super) fn at(run_dir: &Path) -> Self {
        let cas = run_dir.join("cas");
        Self { digests: cas.join("sha256"), unfinished: cas.join("tmp") }
    }

    pub(super) fn open(run_dir: &Path) -> Result<Self, Problem> {
        let files = Self::at(run_dir);
        let cas = run_dir.join("cas");
        for (folder, parent) in [(&cas, run_dir), (&files.digests, &*cas), (&files.unfinished, &*cas)] {
            create_folder(folder, parent)?;
        }
        files.sweep()?;
        Ok(files)
    }

    /// Removes what crashed writers have left.
    fn sweep(&self) -> Result<(), Problem> {
        let failed = |error| reading(&self.unfinished, error);
        let now = SystemTime::now();
        for file in fs::read_dir(&self.unfinished).map_err(failed)? {
            let path = file.map_err(failed)?.path();
            // A file that goes away meanwhile was finished by its writer.
            let written = fs::symlink_metadata(&path).and_then(|file| file.modified());
            let abandoned = written.is_ok_and(|at| now.duration_since(at).is_ok_and(|age| age > ABANDONED));
            if abandoned && let Err(error) = fs::remove_file(&path) {
                tracing::warn!(path = %path.display(), %error, "an unfinished artifact could not be removed");
            }
        }
        Ok(())
    }

    /// Where the bytes of a digest are.
    pub(super) fn place(&self, sha256: &str) -> PathBuf {
        let (shard, rest) = sha256.split_at_checked(2).unwrap_or((sha256, "_"));
        self.digests.join(shard).join(rest)
    }

    /// The same, in a folder that is there.
    pub(super) fn prepared(&self, sha256: &str) -> Result<PathBuf, Problem> {
        let place = self.place(sha256);
        create_folder(place.parent().unwrap_or(&self.digests), &self.digests)?;
        Ok(place)
    }

    /// Where digests are that begin with these two digits.
    pub(super) fn shard(&self, digits: &str) -> PathBuf {
        self.digests.join(digits)
    }

    pub(super) fn contains(&self, reference: &Reference, size: u64) -> Result<bool, Problem> {
        let place = self.place(&reference.sha256);
        match fs::symlink_metadata(&place) {
            Ok(found) => Ok(found.is_file() && (size == 0 || found.len() == size)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(reading(&place, error)),
        }
    }

    /// Opens stored bytes.
    pub(super) fn open_stored(&self, reference: &Reference) -> Result<(PathBuf, File), Problem> {
        let place = self.place(&reference.sha256);
        match File::open(&place) {
            Ok(file) => Ok((place, file)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let message = format!("artifact {reference} is not stored; run its step again");
                Err(Problem::new(Class::NotFound, message))
            }
            Err(error) => Err(reading(&place, error)),
        }
    }

    /// Takes a stored file over from another store; false when it is not there.
    pub(super) fn take_over(&self, other: &Self, reference: &Reference) -> Result<bool, Problem> {
        let from = other.place(&reference.sha256);
        if !fs::symlink_metadata(&from).is_ok_and(|found| found.is_file()) {
            return Ok(false);
        }
        let to = self.prepared(&reference.sha256)?;
        match fs::hard_link(&from, &to) {
            Ok(()) => return sync(to.parent().unwrap_or(&self.digests)).map(|()| true),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(true),
            // Another file system, or one without links.
            Err(_) => {}
        }
        let mut source = File::open(&from).map_err(|error| reading(&from, error))?;
        let mut copy = self.unfinished()?;
        io::copy(&mut source, &mut copy).map_err(|error| writing(&to, error))?;
        self.keep(copy, &reference.sha256)?;
        Ok(true)
    }

    /// Everything that is stored: where, how many bytes, and when it was last used.
    pub(super) fn all(&self) -> io::Result<Vec<(PathBuf, u64, SystemTime)>> {
        let mut all = Vec::new();
        for shard in fs::read_dir(&self.digests)? {
            for file in fs::read_dir(shard?.path())? {
                let file = file?;
                let found = file.metadata()?;
                all.push((file.path(), found.len(), found.modified()?));
            }
        }
        Ok(all)
    }

    /// A file to be written, which goes away by itself unless it is kept.
    pub(super) fn unfinished(&self) -> Result<NamedTempFile, Problem> {
        NamedTempFile::new_in(&self.unfinished).map_err(|error| writing(&self.unfinished, error))
    }

    /// Keeps a written file under its digest: on disk first, then in one step, in place of an equal one.
    ///
    /// Replacing an equal file mends one that was damaged; whoever reads the old one goes on reading it.
    pub(super) fn keep(&self, file: NamedTempFile, sha256: &str) -> Result<(), Problem> {
        let place = self.prepared(sha256)?;
        let failed = |error| writing(&place, error);
        file.as_file().set_permissions(Permissions::from_mode(0o444)).map_err(failed)?;
        file.as_file().sync_all().map_err(failed)?;
        file.persist(&place).map_err(|error| failed(error.error))?;
        sync(place.parent().unwrap_or(&self.digests))
    }
}

/// Creates a folder unless it is there, and has its name on disk.
fn create_folder(folder: &Path, parent: &Path) -> Result<(), Problem> {
    match fs::create_dir(folder) {
        Ok(()) => sync(parent),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(writing(folder, error)),
    }
}

fn sync(folder: &Path) -> Result<(), Problem> {
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(|error| writing(folder, error))
}
