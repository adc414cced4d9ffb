//! Paths below a directory whose contents others write. Owns the walk that follows links only as long as they stay
//! below; every path it gives is free of links at the time it is given.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

/// The most links one walk follows.
const LINKS_MAX: u32 = 40;

/// What is at the end of a walk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Walk {
    /// The path, without links.
    pub path: PathBuf,
    /// Components that do not exist, the last ones of the path.
    pub missing: PathBuf,
}

/// Walks from `root` along `relative`.
///
/// # Errors
/// PermissionDenied when a link or `..` leads out of `root`; what the file system says otherwise.
pub fn walk(root: &Path, relative: &Path) -> io::Result<Walk> {
    let mut ahead = VecDeque::new();
    push_front(&mut ahead, relative)?;
    let (mut below, mut links) = (Vec::<OsString>::new(), 0);
    while let Some(name) = ahead.pop_front() {
        if name == ".." {
            below.pop().ok_or_else(|| leaves(root, relative))?;
            continue;
        }
        let here: PathBuf = root.join(below.iter().collect::<PathBuf>()).join(&name);
        match fs::symlink_metadata(&here) {
            Ok(metadata) if metadata.is_symlink() => {
                links += 1;
                if links > LINKS_MAX {
                    return Err(io::Error::other(format!("{} has too many links", here.display())));
                }
                let target = fs::read_link(&here)?;
                if target.is_absolute() {
                    return Err(leaves(root, relative));
                }
                push_front(&mut ahead, &target)?;
            }
            Ok(_) => below.push(name),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let missing: PathBuf = std::iter::once(name).chain(ahead).collect();
                if missing.components().any(|component| !matches!(component, Component::Normal(_))) {
                    return Err(leaves(root, relative));
                }
                let path = root.join(below.iter().collect::<PathBuf>()).join(&missing);
                return Ok(Walk { path, missing });
            }
            Err(error) => return Err(error),
        }
    }
    Ok(Walk { path: root.join(below.iter().collect::<PathBuf>()), missing: PathBuf::new() })
}

fn push_front(ahead: &mut VecDeque<OsString>, path: &Path) -> io::Result<()> {
    for component in path.components().rev() {
        match component {
            Component::Normal(name) => ahead.push_front(name.to_owned()),
            Component::ParentDir => ahead.push_front("..".into()),
            Component::CurDir => {}
            Component::RootDir | Component::Prefix(_) => {
                return Err(io::Error::new(io::ErrorKind::PermissionDenied, "an absolute path leads out"));
            }
        }
    }
    Ok(())
}

fn leaves(root: &Path, relative: &Path) -> io::Error {
    let message = format!("{} leads out of {}", relative.display(), root.display());
    io::Error::new(io::ErrorKind::PermissionDenied, message)
}

/// Walks from `root` along `relative` and makes the directories that are missing, with the permissions of `root`.
///
/// # Errors
/// As of [`walk`].
pub(crate) fn make_directories(root: &Path, relative: &Path) -> io::Result<PathBuf> {
    let found = walk(root, relative)?;
    if found.missing.as_os_str().is_empty() {
        return Ok(found.path);
    }
    let permissions = fs::metadata(root)?.permissions();
    let depth = found.missing.components().count();
    let made: Vec<&Path> = found.path.ancestors().take(depth).collect();
    for directory in made.into_iter().rev() {
        match fs::create_dir(directory) {
            Ok(()) => fs::set_permissions(directory, permissions.clone())?,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    // Somebody else may have put a link where a directory was to be made.
    let again = walk(root, relative)?;
    if again.missing.as_os_str().is_empty() { Ok(again.path) } else { Err(leaves(root, relative)) }
}
