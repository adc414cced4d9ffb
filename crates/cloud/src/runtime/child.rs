//! The state in which a program starts: what a supervisor sets for itself reaches nothing that it starts. Owns the signals, the
//! session and the descriptors of a child; limits, user and environment are given on purpose, by the caller.

use std::fs;
use std::io;
use std::os::fd::RawFd;

use nix::libc;
use nix::spawn::{PosixSpawnAttr, PosixSpawnFlags};
use nix::sys::signal::SigSet;

/// How a child starts: it leads a session, and so a process group, and no signal is blocked or ignored.
///
/// # Errors
/// When the system has no memory.
pub(crate) fn attributes() -> nix::Result<PosixSpawnAttr> {
    let mut attributes = PosixSpawnAttr::init()?;
    let session = PosixSpawnFlags::from_bits_retain(i32::from(libc::POSIX_SPAWN_SETSID));
    let signals = PosixSpawnFlags::POSIX_SPAWN_SETSIGDEF | PosixSpawnFlags::POSIX_SPAWN_SETSIGMASK;
    attributes.set_flags(session | signals)?;
    attributes.set_sigmask(&SigSet::empty())?;
    attributes.set_sigdefault(&SigSet::all())?;
    Ok(attributes)
}

/// Descriptors above standard error that a child would get: those that this program was started with. Its own are closed when
/// another program starts.
///
/// # Errors
/// When `/proc` cannot be read.
pub(crate) fn foreign() -> io::Result<Vec<RawFd>> {
    let mut all = Vec::new();
    for entry in fs::read_dir("/proc/self/fdinfo")? {
        let entry = entry?;
        let Some(fd) = entry.file_name().to_str().and_then(|name| name.parse::<RawFd>().ok()) else { continue };
        // One that is closed meanwhile passes to nobody.
        let text = fs::read_to_string(entry.path()).unwrap_or_default();
        let flags = text.lines().find_map(|line| line.strip_prefix("flags:"));
        let flags = flags.and_then(|flags| i32::from_str_radix(flags.trim(), 8).ok());
        if fd > 2 && flags.is_some_and(|flags| flags & libc::O_CLOEXEC == 0) {
            all.push(fd);
        }
    }
    Ok(all)
}
