//! Files and trees given to the user of a pod. Owns that no link is followed on the way; the caller knows that nobody
//! else can reach what is given.

use std::fs;
use std::io;
use std::os::unix::fs::lchown;
use std::path::Path;

use nix::unistd::geteuid;

/// Gives a file or tree to a user and, where one is named, a group. Only root can; else it stays whose it is.
///
/// # Errors
/// Those of the file system.
pub(in crate::runtime) fn give(path: &Path, user: u32, group: Option<u32>) -> io::Result<()> {
    if !geteuid().is_root() {
        return Ok(());
    }
    let mut open = vec![path.to_owned()];
    while let Some(path) = open.pop() {
        lchown(&path, Some(user), group)?;
        if fs::symlink_metadata(&path)?.is_dir() {
            for entry in fs::read_dir(&path)? {
                open.push(entry?.path());
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt as _, symlink};

    use super::*;

    #[test]
    fn a_tree_is_given_and_what_links_lead_to_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let (tree, outside) = (dir.path().join("tree"), dir.path().join("outside"));
        fs::create_dir_all(tree.join("sub")).unwrap();
        fs::write(tree.join("sub/file"), "").unwrap();
        fs::write(&outside, "").unwrap();
        symlink(&outside, tree.join("link")).unwrap();
        let own = geteuid().as_raw();
        let user = if geteuid().is_root() { 1234 } else { own };
        give(&tree, user, None).unwrap();
        let owner = |path: &Path| fs::symlink_metadata(path).unwrap().uid();
        assert_eq!(["", "sub", "sub/file", "link"].map(|name| owner(&tree.join(name))), [user; 4]);
        assert_eq!(owner(&outside), own);
    }
}
