//! Input artifacts of an attempt in its directory. Owns putting them there; what they are was checked before.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

/// Puts every file below `from` at the same place below `to`: under a second name, or as a copy on another file system. They
/// are the attempt's own and can be read only.
pub(super) fn place(from: &Path, to: &Path) -> io::Result<()> {
    let mut open = vec![PathBuf::new()];
    while let Some(folder) = open.pop() {
        DirBuilder::new().recursive(true).mode(0o700).create(to.join(&folder))?;
        for entry in fs::read_dir(from.join(&folder))? {
            let entry = entry?;
            let relative = folder.join(entry.file_name());
            if entry.file_type()?.is_dir() {
                open.push(relative);
            } else if fs::hard_link(entry.path(), to.join(&relative)).is_err() {
                fs::copy(entry.path(), to.join(&relative))?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s6_inputs_stand_where_the_specification_says() {
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
}
