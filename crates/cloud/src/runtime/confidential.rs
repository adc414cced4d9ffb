//! What a program that holds secrets leaves behind: no core dump, and files that only its user reads; what its jobs write others may
//! read, as from a login shell. Owns the limit and the umask that see to it.

use std::io;

use nix::sys::resource::{Resource, setrlimit};
use nix::sys::stat::{Mode, umask};

/// No core dump of this program from now on, nor of what it starts: it would hold secrets.
///
/// # Errors
/// When the system refuses.
pub fn no_core_dump() -> io::Result<()> {
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

/// Files that this process and what it starts make are written by their user and read by all: for the processes that start jobs.
#[cfg(all(feature = "worker", feature = "process", target_os = "linux"))]
pub(crate) fn open_files_of_jobs() {
    let _ = umask(Mode::from_bits_truncate(0o022));
}
