//! What a program that holds secrets leaves behind: no core dump, and files that only its user reads; what its jobs write others may
//! read, as from a login shell. Owns the limit and the umask that see to it.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::Path;

use nix::sys::resource::{Resource, setrlimit};
use nix::sys::stat::{Mode, umask};
use nix::unistd::geteuid;

/// No core dump of this program from now on, nor of what it starts: it would hold secrets.
///
/// # Errors
/// When the system refuses.
pub(crate) fn no_core_dump() -> io::Result<()> {
    Ok(setrlimit(Resource::RLIMIT_CORE, 0, 0)?)
}

/// Begins a server, a worker or an operator: no core dump, and files that it makes from now on are for its user alone. Called before
/// anything else.
///
/// # Errors
/// When the system refuses.
pub fn begin() -> io::Result<()> {
    let _ = umask(Mode::from_bits_truncate(0o077));
    no_core_dump()
}

/// Bits of a mode that let others read or write.
const OPEN_TO_OTHERS: u32 = 0o066;

/// Makes a directory for secrets with a mode, or finds the one that is there fit for them.
///
/// # Errors
/// PermissionDenied when it is somebody else's, a link, or open to others; what the file system says otherwise.
pub(crate) fn own_directory(dir: &Path, mode: u32) -> io::Result<()> {
    dir.parent().map_or(Ok(()), fs::create_dir_all)?;
    match DirBuilder::new().mode(mode).create(dir) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let found = fs::symlink_metadata(dir)?;
    if found.is_dir() && found.uid() == geteuid().as_raw() && found.mode() & OPEN_TO_OTHERS == 0 {
        return Ok(());
    }
    let message = format!("{} is not a directory of this user's alone", dir.display());
    Err(io::Error::new(io::ErrorKind::PermissionDenied, message))
}

/// Files that this thread and what it starts make are written by their user and read by all, and those of all threads that share
/// their umask with it: for what starts jobs.
#[cfg(all(feature = "worker", feature = "process", target_os = "linux"))]
pub(crate) fn open_files_of_jobs() {
    let _ = umask(Mode::from_bits_truncate(0o022));
}
