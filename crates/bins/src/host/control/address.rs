//! The address of the socket.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};

use super::SOCKET;

/// Bytes a socket path may have on every system this runs on.
const PATH_MAX: usize = 100;

/// The path of a socket, valid as long as this lives.
pub(in crate::host) struct Address {
    pub(super) path: PathBuf,
    _directory: Option<File>,
}

impl Address {
    /// The address of the socket in a run directory.
    pub(super) fn of(directory: &Path) -> io::Result<Self> {
        let path = directory.join(SOCKET);
        if path.as_os_str().len() <= PATH_MAX {
            return Ok(Self { path, _directory: None });
        }
        let open = File::open(directory)?;
        let path = Path::new("/proc/self/fd").join(open.as_raw_fd().to_string()).join(SOCKET);
        Ok(Self { path, _directory: Some(open) })
    }

    /// The path to connect to.
    pub(in crate::host) fn path(&self) -> &Path {
        &self.path
    }
}
