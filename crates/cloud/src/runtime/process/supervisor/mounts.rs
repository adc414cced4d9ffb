//! Single mounts: binding, covering, protecting. Owns the calls to the kernel; where things go is decided in
//! [`view`](super::view).

use std::fs::{self, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use nix::fcntl::{OFlag, open};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, unshare};
use nix::sys::stat::Mode;
use nix::sys::statvfs::{FsFlags, statvfs};
use nix::unistd::{Gid, Uid};
use rustix::fs::{AtFlags, StatxAttributes, StatxFlags, statx};
use rustix::io::Errno;

use crate::runtime::process::failure::{During, Failure};

/// A place in the file system, held open: it stays reachable when its path is covered.
#[derive(Debug)]
pub(super) struct PathHandle(OwnedFd);

impl PathHandle {
    /// Holds a file or directory.
    pub(super) fn open(path: &Path) -> Result<Self, Failure> {
        let held = open(path, OFlag::O_PATH | OFlag::O_CLOEXEC, Mode::empty());
        held.map(Self).during(|| format!("opening `{}`", path.display()))
    }

    /// Whether something is mounted on an entry of this directory. True where the kernel does not say.
    pub(super) fn has_mount(&self, name: &Path) -> bool {
        let (flags, mask) = (AtFlags::SYMLINK_NOFOLLOW, StatxFlags::TYPE);
        let found = match statx(&self.0, name, flags, mask) {
            Ok(found) => found,
            Err(error) => return error != Errno::NOENT,
        };
        let root = StatxAttributes::MOUNT_ROOT;
        !found.stx_attributes_mask.contains(root) || found.stx_attributes.contains(root)
    }

    /// A path to it that works wherever it is.
    pub(super) fn path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.0.as_raw_fd()))
    }
}

/// Gives this process its own mount namespace, in its own user namespace where `user` says so. Mounts made in
/// it are seen nowhere else; those made on the machine later are seen in it.
pub(super) fn separate(user: bool) -> Result<(), Failure> {
    let (uid, gid) = (Uid::effective(), Gid::effective());
    let flags = if user { CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWUSER } else { CloneFlags::CLONE_NEWNS };
    unshare(flags).during(|| "making a mount namespace".to_owned())?;
    if user {
        let map = |file: &str, text: String| fs::write(file, text).during(|| format!("writing `{file}`"));
        map("/proc/self/setgroups", "deny".to_owned())?;
        map("/proc/self/uid_map", format!("{uid} {uid} 1"))?;
        map("/proc/self/gid_map", format!("{gid} {gid} 1"))?;
    }
    let all = MsFlags::MS_SLAVE | MsFlags::MS_REC;
    mount(None::<&str>, "/", None::<&str>, all, None::<&str>).during(|| "separating mounts".to_owned())
}

/// Lets what is at `source` be seen at `target` too, with all mounts below.
pub(super) fn bind(source: &Path, target: &Path) -> io::Result<()> {
    Ok(mount(Some(source), target, None::<&str>, MsFlags::MS_BIND | MsFlags::MS_REC, None::<&str>)?)
}

/// Covers a directory with an empty one in memory.
pub(super) fn cover(target: &Path) -> io::Result<()> {
    Ok(mount(Some("tmpfs"), target, Some("tmpfs"), MsFlags::MS_NOSUID, Some("mode=755"))?)
}

/// Takes the uppermost mount away from a path.
pub(super) fn uncover(target: &Path) -> io::Result<()> {
    Ok(umount2(target, MntFlags::MNT_DETACH)?)
}

/// Makes the mount at a path read-only. Restrictions it has stay: without them the kernel refuses.
pub(super) fn protect(target: &Path) -> io::Result<()> {
    let has = statvfs(target)?.flags();
    let kept = [
        (FsFlags::ST_NOSUID, MsFlags::MS_NOSUID),
        (FsFlags::ST_NODEV, MsFlags::MS_NODEV),
        (FsFlags::ST_NOEXEC, MsFlags::MS_NOEXEC),
        (FsFlags::ST_NOATIME, MsFlags::MS_NOATIME),
        (FsFlags::ST_NODIRATIME, MsFlags::MS_NODIRATIME),
        (FsFlags::ST_RELATIME, MsFlags::MS_RELATIME),
    ];
    let kept = kept.iter().filter(|(flag, _)| has.contains(*flag)).fold(MsFlags::empty(), |all, (_, flag)| all | *flag);
    let flags = MsFlags::MS_BIND | MsFlags::MS_REMOUNT | MsFlags::MS_RDONLY | kept;
    Ok(mount(None::<&str>, target, None::<&str>, flags, None::<&str>)?)
}

/// Lets an entry of a directory be seen at `target`, where nothing or a mount point is: a link as a link, all else by a
/// mount.
pub(super) fn show(source: &Path, target: &Path) -> io::Result<()> {
    stand_in(source, target)?.show(source, target)
}

/// What is made for an entry of a directory where it is to be seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StandIn {
    /// The same link.
    Link,
    /// A place for a mount.
    MountPoint,
}

impl StandIn {
    /// Lets the entry be seen.
    pub(super) fn show(self, source: &Path, target: &Path) -> io::Result<()> {
        match self {
            Self::Link => Ok(()),
            Self::MountPoint => bind(source, target),
        }
    }
}

/// Makes the place of an entry of a directory, unless it is there.
pub(super) fn stand_in(source: &Path, target: &Path) -> io::Result<StandIn> {
    let kind = fs::symlink_metadata(source)?.file_type();
    if !kind.is_symlink() {
        return mount_point(target, kind.is_dir()).map(|()| StandIn::MountPoint);
    }
    match std::os::unix::fs::symlink(fs::read_link(source)?, target) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(StandIn::Link),
    }
}

/// Lets two directories be seen as one: what is made in it is in `upper`, which `work` serves. Nothing of it is written through to the
/// disk.
pub(super) fn layer(lower: &Path, upper: &Path, work: &Path, target: &Path) -> io::Result<()> {
    let options =
        format!("volatile,lowerdir={},upperdir={},workdir={}", lower.display(), upper.display(), work.display());
    Ok(mount(Some("overlay"), target, Some("overlay"), MsFlags::empty(), Some(options.as_str()))?)
}

/// Makes a mount point, unless there is one.
pub(super) fn mount_point(target: &Path, directory: bool) -> io::Result<()> {
    let made = if directory {
        fs::create_dir(target)
    } else {
        OpenOptions::new().write(true).create_new(true).open(target).map(drop)
    };
    match made {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made,
    }
}
