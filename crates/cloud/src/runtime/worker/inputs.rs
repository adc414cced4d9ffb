//! Input artifacts of an attempt in its directory. Owns putting them there; what they are was checked before.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, symlink};
use std::path::{Path, PathBuf};

/// Puts every file below `from` at the same place below `to`: under a second name, or as a copy where it can be written or the
/// file system is another one. They are the attempt's own.
pub(super) fn place(from: &Path, to: &Path) -> io::Result<()> {
    let mut open = vec![PathBuf::new()];
    while let Some(folder) = open.pop() {
        DirBuilder::new().recursive(true).mode(0o700).create(to.join(&folder))?;
        for entry in fs::read_dir(from.join(&folder))? {
            let entry = entry?;
            let relative = folder.join(entry.file_name());
            let (kind, target) = (entry.file_type()?, to.join(&relative));
            if kind.is_dir() {
                open.push(relative);
            } else if kind.is_symlink() {
                symlink(fs::read_link(entry.path())?, target)?;
            } else if is_writable(&entry.metadata()?) || fs::hard_link(entry.path(), &target).is_err() {
                fs::copy(entry.path(), target)?;
            }
        }
    }
    Ok(())
}

/// Whether its owner may write a file.
pub(super) fn is_writable(file: &fs::Metadata) -> bool {
    file.mode() & 0o200 != 0
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn inputs_stand_where_the_specification_says() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("in"), dir.path().join("work"));
        fs::create_dir_all(from.join("a/b")).unwrap();
        fs::create_dir(&to).unwrap();
        fs::write(from.join("a/b/file"), "x").unwrap();
        fs::write(from.join("top"), "y").unwrap();
        place(&from, &to).unwrap();
        assert_eq!(fs::read_to_string(to.join("a/b/file")).unwrap(), "x");
        assert_eq!(fs::read_to_string(to.join("top")).unwrap(), "y");
    }

    #[test]
    fn files_that_can_be_written_are_copies_and_links_stay_links() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("in"), dir.path().join("work"));
        fs::create_dir(&from).unwrap();
        for (name, mode) in [("read", 0o444), ("run", 0o555), ("write", 0o644), ("script", 0o755)] {
            fs::write(from.join(name), name).unwrap();
            fs::set_permissions(from.join(name), fs::Permissions::from_mode(mode)).unwrap();
        }
        symlink("write", from.join("link")).unwrap();
        place(&from, &to).unwrap();
        let found = |name: &str| fs::symlink_metadata(to.join(name)).unwrap();
        let modes = ["read", "run", "write", "script"].map(|name| (found(name).mode() & 0o777, found(name).nlink()));
        assert_eq!(modes, [(0o444, 2), (0o555, 2), (0o644, 1), (0o755, 1)]);
        fs::write(to.join("link"), "changed").unwrap();
        assert_eq!(fs::read_to_string(from.join("write")).unwrap(), "write");
    }
}
