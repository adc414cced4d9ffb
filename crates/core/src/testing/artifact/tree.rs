//! Files and trees as plain values. Owns how tests write them; never touches a disk.

use std::collections::{BTreeMap, VecDeque};

/// A file, folder or symbolic link.
///
/// ```
/// use orlop_core::testing::artifact::Node;
/// let tree = Node::folder([("run.sh", Node::program("exit 0")), ("latest", Node::link("run.sh"))]);
/// assert!(tree.links_stay_inside());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Node {
    /// A file.
    File {
        /// Its bytes.
        bytes: Vec<u8>,
        /// Whether it can be run.
        executable: bool,
    },
    /// A folder and what is in it, by name.
    Folder(BTreeMap<String, Node>),
    /// A symbolic link and what it points to, word for word.
    Link(String),
}

impl Node {
    /// A file that cannot be run.
    #[must_use]
    pub fn file(bytes: impl AsRef<[u8]>) -> Self {
        Self::File { bytes: bytes.as_ref().to_vec(), executable: false }
    }

    /// A file that can be run.
    #[must_use]
    pub fn program(bytes: impl AsRef<[u8]>) -> Self {
        Self::File { bytes: bytes.as_ref().to_vec(), executable: true }
    }

    /// A folder.
    #[must_use]
    pub fn folder<N: Into<String>>(members: impl IntoIterator<Item = (N, Self)>) -> Self {
        Self::Folder(members.into_iter().map(|(name, node)| (name.into(), node)).collect())
    }

    /// A symbolic link.
    #[must_use]
    pub fn link(target: impl Into<String>) -> Self {
        Self::Link(target.into())
    }

    /// Bytes of all files together.
    #[must_use]
    pub fn size(&self) -> u64 {
        match self {
            Self::File { bytes, .. } => bytes.len() as u64,
            Self::Folder(members) => members.values().map(Self::size).sum(),
            Self::Link(_) => 0,
        }
    }

    /// Whether no link of the tree leads out of it, however links lead through each other.
    #[must_use]
    pub fn links_stay_inside(&self) -> bool {
        let mut links = BTreeMap::new();
        self.gather(&mut Vec::new(), &mut links);
        links.keys().all(|path| stays_inside(path, &links))
    }

    fn gather(&self, path: &mut Vec<String>, links: &mut BTreeMap<Vec<String>, String>) {
        match self {
            Self::File { .. } => {}
            Self::Link(target) => drop(links.insert(path.clone(), target.clone())),
            Self::Folder(members) => {
                for (name, member) in members {
                    path.push(name.clone());
                    member.gather(path, links);
                    path.pop();
                }
            }
        }
    }
}

/// Follows a path as a system would, which gives up after 40 links.
fn stays_inside(path: &[String], links: &BTreeMap<Vec<String>, String>) -> bool {
    let mut at: Vec<String> = Vec::new();
    let mut rest: VecDeque<String> = path.iter().cloned().collect();
    let mut followed = 0;
    while let Some(part) = rest.pop_front() {
        match part.as_str() {
            "" | "." => {}
            ".." => {
                if at.pop().is_none() {
                    return false;
                }
            }
            _ => {
                at.push(part);
                if let Some(target) = links.get(&at) {
                    followed += 1;
                    if target.starts_with('/') {
                        return false;
                    }
                    if followed > 40 {
                        return true;
                    }
                    at.pop();
                    for part in target.rsplit('/') {
                        rest.push_front(part.to_owned());
                    }
                }
            }
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(links: &[(&str, &str)]) -> bool {
        let deep = Node::folder([("link", Node::link(links[0].1))]);
        let mut members = vec![("deep".to_owned(), Node::folder([("er", deep)]))];
        members.extend(links[1..].iter().map(|(name, target)| ((*name).to_owned(), Node::link(*target))));
        Node::folder(members).links_stay_inside()
    }

    #[test]
    fn links_are_followed_through_each_other() {
        assert!(with(&[("", "../..")]));
        assert!(with(&[("", "nothing/there")]));
        assert!(with(&[("", "link")]), "a circle leads nowhere");
        assert!(!with(&[("", "/etc/passwd")]));
        assert!(!with(&[("", "../../..")]));
        assert!(with(&[("", "../.."), ("a", "deep/er/link/deep")]));
        assert!(!with(&[("", "../.."), ("a", "deep/er/link/..")]), "word by word it stays inside");
    }
}
