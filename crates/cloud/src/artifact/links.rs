//! Where symbolic links of a tree lead. Owns the decision whether one leaves the tree.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

/// Links followed on one path before a system gives up.
const HOPS: usize = 40;

/// Links by their path from the root of their tree.
pub(super) type Links = BTreeMap<PathBuf, PathBuf>;

/// Whether following the link at `path` leads out of the tree, however links lead through each other. A path that a
/// system refuses to follow leads nowhere.
pub(super) fn leaves(path: &Path, links: &Links) -> bool {
    let mut at = PathBuf::new();
    let mut rest: VecDeque<OsString> = VecDeque::new();
    let Some(()) = prepend(path, &mut rest) else { return true };
    let mut followed = 0;
    while let Some(part) = rest.pop_front() {
        if part == ".." {
            if !at.pop() {
                return true;
            }
            continue;
        }
        at.push(part);
        if let Some(target) = links.get(&at) {
            followed += 1;
            if followed > HOPS {
                return false;
            }
            at.pop();
            let Some(()) = prepend(target, &mut rest) else { return true };
        }
    }
    false
}

/// Puts the parts of a relative path before the rest; none for an absolute one.
fn prepend(path: &Path, rest: &mut VecDeque<OsString>) -> Option<()> {
    for part in path.components().rev() {
        match part {
            Component::Normal(name) => rest.push_front(name.to_owned()),
            Component::ParentDir => rest.push_front(OsString::from("..")),
            Component::CurDir => {}
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leaving(links: &[(&str, &str)]) -> Vec<PathBuf> {
        let links: Links = links.iter().map(|(path, target)| (PathBuf::from(path), PathBuf::from(target))).collect();
        links.keys().filter(|path| leaves(path, &links)).cloned().collect()
    }

    #[test]
    fn links_inside_are_fine() {
        assert!(leaving(&[("a", "b"), ("d/e/f", "../../b/./c"), ("d/top", ".."), ("here", ".")]).is_empty());
        assert!(leaving(&[("self", "self"), ("a", "b"), ("b", "a"), ("more", "more/x/../..")]).is_empty());
    }

    #[test]
    fn links_that_leave_are_named() {
        let links = [("a", ".."), ("b", "/etc"), ("c/d", "../.."), ("e", "x/../../y"), ("f", "x/..")];
        assert_eq!(leaving(&links), ["a", "b", "c/d", "e"].map(PathBuf::from));
    }

    #[test]
    fn links_are_followed_through_links() {
        // By its words alone, `y` stays inside: it only leaves because `x` leads upwards.
        assert_eq!(leaving(&[("a/b/x", "../.."), ("y", "a/b/x/..")]), [PathBuf::from("y")]);
        assert_eq!(leaving(&[("a/up", "../.."), ("y", "a/up/z")]), ["a/up", "y"].map(PathBuf::from));
    }

    #[test]
    fn long_chains_end() {
        let chain: Vec<(String, String)> =
            (0..1000).map(|number| (format!("l{number}"), format!("l{}", number + 1))).collect();
        let chain: Vec<(&str, &str)> = chain.iter().map(|(path, target)| (&**path, &**target)).collect();
        assert!(leaving(&chain).is_empty());
    }
}
