//! Who may read the files that programs make. A server, a worker or an operator makes its own for its user alone; what a job
//! writes others may read, as from a login shell.

use nix::sys::stat::{Mode, umask};

/// Files that this program makes from now on are for its user alone.
pub fn private() {
    let _ = umask(Mode::from_bits_truncate(0o077));
}

/// Files that this process and what it starts make are written by their user and read by all: for the processes that start jobs.
#[cfg(all(feature = "worker", feature = "process", target_os = "linux"))]
pub(crate) fn of_jobs() {
    let _ = umask(Mode::from_bits_truncate(0o022));
}
