//! Directories and files of a server that only its user may look into: what already exists and is open to others is closed, and
//! said, or refused where it may be meant for others.

use std::fs::{self, DirBuilder, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::Path;

/// Whether others than its user may do anything with what is at a path, or in it.
fn is_open(path: &Path) -> io::Result<bool> {
    Ok(fs::metadata(path)?.permissions().mode() & 0o077 != 0)
}

/// Makes a directory for this user alone. One that is there and open to others is closed, which the answer says, if all that is in
/// it is the program's own.
///
/// # Errors
/// It cannot be made or closed, or it holds other things.
pub(crate) fn directory(path: &Path, is_own: impl Fn(&str) -> bool) -> io::Result<Option<String>> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    let owner = fs::metadata(path)?.uid();
    if owner != nix::unistd::geteuid().as_raw() {
        let text =
            format!("it belongs to the user {owner}, who could change its contents; name a directory that you own");
        return Err(io::Error::new(ErrorKind::PermissionDenied, text));
    }
    if !is_open(path)? {
        return Ok(None);
    }
    for entry in fs::read_dir(path)? {
        let name = entry?.file_name();
        if !name.to_str().is_some_and(&is_own) {
            let text = format!(
                "other users can read it, and it contains other files (`{}`); use a new directory, or make it \
                 private with `chmod 700`",
                name.display()
            );
            return Err(io::Error::new(ErrorKind::PermissionDenied, text));
        }
    }
    fs::set_permissions(path, Permissions::from_mode(0o700))?;
    Ok(Some(format!("{}: other users could read it; it is private now", path.display())))
}

/// Closes what is there of these and open to others, directories and files. Gives what was closed, and what could not be and why.
pub(crate) fn close<'a>(paths: impl IntoIterator<Item = &'a Path>) -> Vec<String> {
    let mut said = Vec::new();
    for path in paths {
        let mode = if path.is_dir() { 0o700 } else { 0o600 };
        let closed = match is_open(path) {
            Ok(true) => fs::set_permissions(path, Permissions::from_mode(mode)),
            Ok(false) => continue,
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            Err(error) => Err(error),
        };
        let path = path.display();
        said.push(match closed {
            Ok(()) => format!("{path}: other users could read it; it is private now"),
            Err(error) => format!("{path}: other users can read it, and it cannot be made private: {error}"),
        });
    }
    said
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn an_open_directory_is_closed_if_all_in_it_is_our_own() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("fleet");
        let made = || directory(&path, |name| name == "fleet.db");
        assert_eq!(made().unwrap(), None);
        assert_eq!(mode(&path), 0o700);
        fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
        fs::write(path.join("fleet.db"), "").unwrap();
        assert!(made().unwrap().is_some_and(|said| said.contains("private now")));
        assert_eq!(mode(&path), 0o700);
        fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
        fs::write(path.join("letter"), "").unwrap();
        let error = made().unwrap_err().to_string();
        assert!(error.contains("`letter`") && error.contains("chmod 700"), "{error}");
        assert_eq!(mode(&path), 0o755, "somebody may want it open");
    }

    #[test]
    fn files_that_are_open_are_closed() {
        let dir = tempfile::tempdir().unwrap();
        let (file, folder, gone) = (dir.path().join("a"), dir.path().join("b"), dir.path().join("c"));
        fs::write(&file, "").unwrap();
        fs::create_dir(&folder).unwrap();
        for path in [&file, &folder] {
            fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap();
        }
        let paths = [&file, &folder, &gone];
        assert_eq!(close(paths.map(std::path::PathBuf::as_path)).len(), 2);
        assert_eq!((mode(&file), mode(&folder)), (0o600, 0o700));
        assert_eq!(close(paths.map(std::path::PathBuf::as_path)), Vec::<String>::new());
    }
}
