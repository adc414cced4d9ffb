//! Core dumps: there are none of programs that hold secrets. Owns the limit that sees to it.

use std::io;

use nix::sys::resource::{Resource, setrlimit};

/// No core dump of this program from now on, nor of what it starts: it would hold secrets. Called before anything else.
///
/// # Errors
/// When the system refuses.
pub fn never() -> io::Result<()> {
    Ok(setrlimit(Resource::RLIMIT_CORE, 0, 0)?)
}
