//! Moves the content of one folder into another, beside what is there. Never writes through a link, and never replaces a
//! folder.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use orlop_core::error::Problem;

use super::error::{reading, unfit, writing};

/// Moves everything in `from` into `into`, a folder of the same file system; files of the same name are replaced.
pub(super) fn merge(from: &Path, into: &Path) -> Result<(), Problem> {
    let mut open = vec![PathBuf::new()];
    while let Some(folder) = open.pop() {
        let source = from.join(&folder);
        for entry in fs::read_dir(&source).map_err(|error| reading(&source, error))? {
            let entry = entry.map_err(|error| reading(&source, error))?;
            let inside = folder.join(entry.file_name());
            let target = into.join(&inside);
            let is_folder = entry.file_type().map_err(|error| reading(&source, error))?.is_dir();
            match fs::symlink_metadata(&target) {
                Ok(there) if there.is_dir() && is_folder => {
                    open.push(inside);
                    continue;
                }
                Ok(there) if there.is_dir() || is_folder => {
                    return Err(unfit(format_args!("another input is at `{}`", inside.display())));
                }
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(reading(&target, error)),
                _ => {}
            }
            fs::rename(entry.path(), &target).map_err(|error| writing(&target, error))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn folders_are_joined_and_links_are_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let (from, into, outside) = (dir.path().join("from"), dir.path().join("into"), dir.path().join("outside"));
        for folder in [from.join("both"), from.join("new"), into.join("both"), outside.clone()] {
            fs::create_dir_all(folder).unwrap();
        }
        fs::write(from.join("both/a"), "new").unwrap();
        fs::write(from.join("new/b"), "new").unwrap();
        fs::write(into.join("both/c"), "old").unwrap();
        fs::write(outside.join("a"), "outside").unwrap();
        symlink(outside.join("a"), into.join("both/a")).unwrap();
        merge(&from, &into).unwrap();
        let text = |path: &Path| fs::read_to_string(path).unwrap();
        assert_eq!([text(&into.join("both/a")), text(&into.join("new/b"))], ["new", "new"]);
        assert_eq!([text(&into.join("both/c")), text(&outside.join("a"))], ["old", "outside"]);
        // A link to a folder is no folder, and a file replaces none.
        for (kind, name) in [("folder", "link"), ("file", "new")] {
            let next = dir.path().join(kind);
            fs::create_dir(&next).unwrap();
            if kind == "folder" {
                symlink(&outside, into.join(name)).unwrap();
                fs::create_dir(next.join(name)).unwrap();
            } else {
                fs::write(next.join(name), "").unwrap();
            }
            let refused = merge(&next, &into).unwrap_err().to_string();
            assert!(refused.contains(&format!("another input is at `{name}`")), "{refused}");
        }
    }
}
