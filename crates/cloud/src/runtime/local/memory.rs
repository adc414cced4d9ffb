//! The directory of a run in memory, for its secrets. Owns that it is this user's alone: others share the place it lies
//! in, and may have made something of its name before.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use nix::unistd::geteuid;
use orlop_core::error::Problem;
use orlop_core::name::sha256_hex;

use super::load::removed;
use super::options::LocalOptions;
use crate::runtime::confidential;

/// The directory of a run below a place in memory: two runs on one machine share the place but not the directory there.
pub(super) fn top(memory: &Path, run_dir: &Path) -> PathBuf {
    memory.join(format!("orlop-{}", sha256_hex(run_dir.as_os_str().as_encoded_bytes(), 16)))
}

/// Makes the directory, or finds the one that is there fit for secrets.
///
/// # Errors
/// PermissionDenied when it is somebody else's, a link, or open to others; what the file system says otherwise.
pub(super) fn secure(top: &Path) -> io::Result<()> {
    // Pods that root runs as other users pass through to what is theirs.
    confidential::own_directory(top, if geteuid().is_root() { 0o711 } else { 0o700 })
}

/// Deletes what a run has in memory, for one whose directory is about to be deleted. Nothing of the run may be alive. None
/// is fine, and what is somebody else's stays.
///
/// # Errors
/// Denied or Transient as the file system says.
pub fn remove_memory(options: &LocalOptions) -> Result<(), Problem> {
    let Some(memory) = &options.memory_dir else { return Ok(()) };
    let top = top(memory, &fs::canonicalize(&options.run_dir)?);
    match fs::symlink_metadata(&top) {
        Ok(found) if found.is_dir() && found.uid() == geteuid().as_raw() => Ok(removed(fs::remove_dir_all(&top))?),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    #[test]
    fn a_directory_others_made_or_may_read_is_no_place_for_secrets() {
        let dir = tempfile::tempdir().unwrap();
        let top = top(dir.path(), Path::new("/run"));
        secure(&top).unwrap();
        secure(&top).unwrap();
        fs::set_permissions(&top, fs::Permissions::from_mode(0o777)).unwrap();
        assert_eq!(secure(&top).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        fs::remove_dir(&top).unwrap();
        let elsewhere = tempfile::tempdir().unwrap();
        symlink(elsewhere.path(), &top).unwrap();
        assert_eq!(secure(&top).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        if geteuid().is_root() {
            fs::remove_file(&top).unwrap();
            fs::create_dir(&top).unwrap();
            fs::set_permissions(&top, fs::Permissions::from_mode(0o700)).unwrap();
            std::os::unix::fs::chown(&top, Some(65_534), None).unwrap();
            assert_eq!(secure(&top).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        }
    }
}
