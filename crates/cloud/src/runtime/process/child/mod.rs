//! The state in which a program starts: what a supervisor sets for itself reaches nothing that it starts. Owns the signals, the
//! session, the descriptors and the user of a child; limits and environment are given on purpose, by the caller.

pub(crate) mod command;

use std::fs;
use std::io;
use std::os::fd::RawFd;

use nix::libc;
use nix::spawn::{PosixSpawnAttr, PosixSpawnFlags};
use nix::sys::signal::SigSet;
use nix::unistd::{Gid, Uid, setgid, setgroups, setuid};

use super::failure::{During, Failure};

/// As whom a program runs; what is not named stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Credentials {
    /// Number of the user.
    pub(crate) user: Option<u32>,
    /// Number of the group.
    pub(crate) group: Option<u32>,
    /// Numbers of further groups.
    pub(crate) further_groups: Vec<u32>,
}

impl Credentials {
    /// Gives them to this process: groups first, for who is no longer root cannot change them. Root keeps no group of its own beside
    /// them.
    ///
    /// # Errors
    /// When this program may not.
    pub(crate) fn apply(&self) -> Result<(), Failure> {
        let groups: Vec<Gid> =
            self.further_groups.iter().chain(&self.group).map(|group| Gid::from_raw(*group)).collect();
        let changes = self.user.is_some() || !groups.is_empty();
        if changes && Uid::effective().is_root() {
            setgroups(&groups).during(|| "setting groups".to_owned())?;
        }
        if let Some(group) = self.group.filter(|group| *group != Gid::effective().as_raw()) {
            setgid(Gid::from_raw(group)).during(|| format!("becoming group {group}"))?;
        }
        if let Some(user) = self.user.filter(|user| *user != Uid::effective().as_raw()) {
            setuid(Uid::from_raw(user)).during(|| format!("becoming user {user}"))?;
        }
        Ok(())
    }
}

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
