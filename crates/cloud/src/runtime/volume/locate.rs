//! From a path as a container sees it to the path of this machine. Owns the walk through its mounts; links are read as
//! the container reads them, so none leads to a file the container does not see.

use std::collections::VecDeque;
use std::fs;
use std::io;
use std::path::PathBuf;

use crate::runtime::pod::Mount;

/// The most links one walk follows.
const LINKS_MAX: u32 = 40;

/// Where a path of a container is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Located {
    /// At this path of the machine, which exists and has no links in it.
    Here(PathBuf),
    /// Outside of all mounts, at this path of the container.
    Inside(String),
    /// Nowhere: a mount covers it and has nothing there.
    Missing,
}

/// Finds a path of a container.
///
/// # Errors
/// InvalidData for too many links and for links that are no text; what the file system says otherwise.
pub fn locate(mounts: &[Mount], inside: &str) -> io::Result<Located> {
    let mut ahead: VecDeque<String> = components(inside).collect();
    let (mut passed, mut links) = (Vec::<String>::new(), 0);
    let mut place = place_of(mounts, &passed);
    while let Some(name) = ahead.pop_front() {
        if name == ".." {
            passed.pop();
        } else {
            passed.push(name);
        }
        place = place_of(mounts, &passed);
        let Some(here) = &place else { continue };
        match fs::symlink_metadata(here) {
            Ok(metadata) if metadata.is_symlink() => {
                links += 1;
                let target = fs::read_link(here)?;
                let target = target.to_str().filter(|_| links <= LINKS_MAX).ok_or_else(|| {
                    let message = format!("{inside} has too many links, or one that is not UTF-8");
                    io::Error::new(io::ErrorKind::InvalidData, message)
                })?;
                if target.starts_with('/') {
                    passed.clear();
                } else {
                    passed.pop();
                }
                for part in components(target).collect::<Vec<_>>().into_iter().rev() {
                    ahead.push_front(part);
                }
                place = place_of(mounts, &passed);
            }
            Ok(_) => {}
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                return Ok(Located::Missing);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(place.map_or_else(|| Located::Inside(format!("/{}", passed.join("/"))), Located::Here))
}

fn components(path: &str) -> impl Iterator<Item = String> {
    path.split('/').filter(|part| !part.is_empty() && *part != ".").map(str::to_owned)
}

/// The path of this machine behind a path of the container without links, where a mount covers it.
fn place_of(mounts: &[Mount], passed: &[String]) -> Option<PathBuf> {
    let (mount, rest) = covering(mounts, passed)?;
    Some(if rest.is_empty() { mount.source.clone() } else { mount.source.join(rest.iter().collect::<PathBuf>()) })
}

/// The deepest mount at or above a path, and what of the path is below it.
fn covering<'a, 'b>(mounts: &'a [Mount], passed: &'b [String]) -> Option<(&'a Mount, &'b [String])> {
    let below = |mount: &'a Mount| {
        let target: Vec<String> = components(&mount.target).collect();
        let rest = passed.strip_prefix(target.as_slice())?;
        Some((target.len(), mount, rest))
    };
    // Of two mounts at one place the later one covers the earlier.
    mounts.iter().filter_map(below).max_by_key(|(depth, _, _)| *depth).map(|(_, mount, rest)| (mount, rest))
}

/// The deepest mount at or above a path of a container, and the path below it; the path is read as it is, without
/// following links.
#[must_use]
pub(crate) fn mount_above<'a>(mounts: &'a [Mount], inside: &str) -> Option<(&'a Mount, PathBuf)> {
    let passed: Vec<String> = components(inside).collect();
    let (mount, rest) = covering(mounts, &passed)?;
    Some((mount, rest.iter().collect()))
}
