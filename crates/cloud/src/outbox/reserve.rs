//! Room set aside on disk, so that ends of attempts are written on a full one. Owns the file that takes the room; gives
//! it away as a whole.

use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use nix::fcntl::{FallocateFlags, fallocate};

#[derive(Debug)]
pub(super) struct Reserve {
    path: PathBuf,
    bytes: u64,
    given: bool,
}

impl Reserve {
    /// Sets room aside, or tries again later: a disk that is full now may not be.
    pub(super) fn new(dir: &Path, bytes: u64) -> Self {
        let mut reserve = Self { path: dir.join("reserve"), bytes, given: true };
        reserve.take_back();
        if reserve.given {
            tracing::warn!(path = %reserve.path.display(), bytes, "no disk space can be reserved for results");
        }
        reserve
    }

    /// Gives the room away, if that may help; false when there is none left.
    pub(super) fn give(&mut self, error: &io::Error) -> bool {
        let full = matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded);
        if !full || self.given {
            return false;
        }
        self.given = true;
        tracing::warn!(path = %self.path.display(), "the disk is full: results use the reserved space");
        fs::remove_file(&self.path).is_ok()
    }

    /// Whether it is given away.
    pub(super) const fn is_given(&self) -> bool {
        self.given
    }

    /// Sets room aside again, if there is twice as much.
    pub(super) fn take_back(&mut self) {
        if !self.given {
            return;
        }
        let free = self.path.parent().and_then(|dir| free_in(dir).ok()).unwrap_or(0);
        if free < self.bytes.saturating_mul(2) {
            return;
        }
        let made = || -> io::Result<()> {
            let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&self.path)?;
            let len = nix::libc::off_t::try_from(self.bytes).map_err(io::Error::other)?;
            Ok(fallocate(&file, FallocateFlags::empty(), 0, len)?)
        };
        match made() {
            Ok(()) => self.given = false,
            Err(_) => drop(fs::remove_file(&self.path)),
        }
    }
}

/// Bytes that this user may still write to the file system of a directory.
fn free_in(dir: &Path) -> io::Result<u64> {
    let found = nix::sys::statvfs::statvfs(dir)?;
    Ok(found.blocks_available() * found.fragment_size())
}
