//! An artifact store in memory, with the paths it reads and writes in memory too. Owns the contract of the port without a
//! disk.

use std::collections::BTreeMap;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;

use super::suite::{ArtifactWorlds, LIMIT};
use super::tree::Node;
use crate::error::{Class, Problem};
use crate::name::sha256_hex;
use crate::ports::artifact::ArtifactStore;
use crate::spec::artifact::{Archive, ArchiveFormat, Compression};
use crate::spec::status::ArtifactLocation;
use crate::testing::wait::lock;

/// An artifact store in memory. Its paths are names in memory as well: [`MemoryArtifacts::plant`] puts something there,
/// [`MemoryArtifacts::harvest`] looks. Clones share everything.
#[derive(Clone, Debug)]
pub struct MemoryArtifacts {
    state: Arc<Mutex<State>>,
    limit: u64,
}

#[derive(Debug, Default)]
struct State {
    stored: BTreeMap<String, Stored>,
    paths: BTreeMap<PathBuf, Node>,
}

/// What is stored under a digest.
#[derive(Clone, Debug)]
struct Stored {
    bytes: Vec<u8>,
    /// What the bytes are an archive of.
    packed: Option<Node>,
}

impl Default for MemoryArtifacts {
    fn default() -> Self {
        Self::with_limit(u64::MAX)
    }
}

impl MemoryArtifacts {
    /// An empty store that takes artifacts up to this many bytes.
    #[must_use]
    pub fn with_limit(limit: u64) -> Self {
        Self { state: Arc::default(), limit }
    }

    /// Puts a file or tree at a path, in place of what is there.
    pub fn plant(&self, path: &Path, node: &Node) {
        lock(&self.state).paths.insert(path.to_owned(), node.clone());
    }

    /// What is at a path.
    #[must_use]
    pub fn harvest(&self, path: &Path) -> Option<Node> {
        lock(&self.state).paths.get(path).cloned()
    }

    /// Changes a byte of what is stored.
    pub fn damage(&self, location: &ArtifactLocation) {
        let mut state = lock(&self.state);
        if let Some(first) = state.stored.get_mut(&location.sha256).and_then(|stored| stored.bytes.first_mut()) {
            *first ^= 1;
        }
    }
}

/// How the name of an archive ends.
fn suffix(archive: Archive) -> &'static str {
    match (archive.format.unwrap_or_default(), archive.compression.unwrap_or_default()) {
        (ArchiveFormat::Zip, _) => ".zip",
        (ArchiveFormat::Tar, Compression::None) => ".tar",
        (ArchiveFormat::Tar, Compression::Gzip) => ".tar.gz",
    }
}

/// What a node is stored as, and how its reference ends.
fn pack(source: &Path, node: Node, archive: Option<Archive>) -> Result<(Stored, &'static str), Problem> {
    let (suffix, name) = match (&node, archive) {
        (Node::Link(_), _) => {
            let message = format!("{} is a symbolic link; give what it points to", source.display());
            return Err(Problem::new(Class::Invalid, message));
        }
        (Node::File { bytes, executable }, None) => {
            let suffix = if *executable { "+x" } else { "" };
            return Ok((Stored { bytes: bytes.clone(), packed: None }, suffix));
        }
        (Node::Folder(_), None) if !node.links_stay_inside() => {
            let message = format!("a link of {} leads out of it", source.display());
            return Err(Problem::new(Class::Invalid, message));
        }
        (Node::Folder(_), archive) => (suffix(archive.unwrap_or_default()), ""),
        (Node::File { .. }, Some(archive)) => {
            (suffix(archive), source.file_name().and_then(|name| name.to_str()).unwrap_or_default())
        }
    };
    let mut bytes = Vec::new();
    write_text(suffix, &mut bytes);
    write_text(name, &mut bytes);
    write_node(&node, &mut bytes);
    Ok((Stored { bytes, packed: Some(node) }, suffix))
}

fn write_text(text: &str, bytes: &mut Vec<u8>) {
    bytes.extend((text.len() as u64).to_le_bytes());
    bytes.extend(text.as_bytes());
}

/// Writes a node so that equal nodes, and only they, give equal bytes.
fn write_node(node: &Node, bytes: &mut Vec<u8>) {
    match node {
        Node::File { bytes: content, executable } => {
            bytes.push(if *executable { b'x' } else { b'f' });
            bytes.extend((content.len() as u64).to_le_bytes());
            bytes.extend(content);
        }
        Node::Link(target) => {
            bytes.push(b'l');
            write_text(target, bytes);
        }
        Node::Folder(members) => {
            bytes.push(b'd');
            bytes.extend((members.len() as u64).to_le_bytes());
            for (name, member) in members {
                write_text(name, bytes);
                write_node(member, bytes);
            }
        }
    }
}

#[async_trait]
impl ArtifactStore for MemoryArtifacts {
    async fn put(&self, source: &Path, archive: Option<Archive>) -> Result<ArtifactLocation, Problem> {
        let mut state = lock(&self.state);
        let node = state.paths.get(source).cloned().ok_or_else(|| {
            Problem::new(Class::NotFound, format!("there is no file or folder at {}", source.display()))
        })?;
        if node.size() > self.limit {
            let message = format!("{} has more than {} bytes", source.display(), self.limit);
            return Err(Problem::new(Class::Invalid, message));
        }
        let (stored, suffix) = pack(source, node, archive)?;
        let sha256 = sha256_hex(&stored.bytes, 64);
        let location = ArtifactLocation {
            kind: "memory".to_owned(),
            reference: format!("sha256/{sha256}{suffix}"),
            size_bytes: stored.bytes.len() as u64,
            sha256: sha256.clone(),
        };
        state.stored.insert(sha256, stored);
        Ok(location)
    }

    async fn get(
        &self,
        location: &ArtifactLocation,
        _archive: Option<Archive>,
        unpack: bool,
        target: &Path,
    ) -> Result<(), Problem> {
        let mut state = lock(&self.state);
        if state.paths.contains_key(target) {
            let message = format!("{} already exists", target.display());
            return Err(Problem::new(Class::Exists, message));
        }
        let Stored { bytes, packed } =
            state.stored.get(&location.sha256).cloned().ok_or_else(|| {
                Problem::new(Class::NotFound, format!("artifact {} is not stored", location.reference))
            })?;
        if sha256_hex(&bytes, 64) != location.sha256 {
            let message = format!("the stored bytes of artifact {} have changed", location.reference);
            return Err(Problem::new(Class::Invalid, message));
        }
        let node = match packed {
            Some(node) if unpack => node,
            _ => Node::File { bytes, executable: location.reference.ends_with("+x") },
        };
        if unpack && !node.links_stay_inside() {
            return Err(Problem::new(Class::Invalid, "a link of the artifact leads out of it"));
        }
        state.paths.insert(target.to_owned(), node);
        Ok(())
    }

    async fn contains(&self, location: &ArtifactLocation) -> Result<bool, Problem> {
        Ok(lock(&self.state).stored.contains_key(&location.sha256))
    }
}

/// In-memory stores by number, for [`super::artifact_suite`].
#[derive(Debug, Default)]
pub struct MemoryWorlds {
    worlds: Mutex<BTreeMap<u32, MemoryArtifacts>>,
}

impl MemoryWorlds {
    fn world(&self, number: u32) -> MemoryArtifacts {
        lock(&self.worlds).entry(number).or_insert_with(|| MemoryArtifacts::with_limit(LIMIT)).clone()
    }
}

impl ArtifactWorlds for MemoryWorlds {
    type Store = MemoryArtifacts;

    fn open(&self, number: u32) -> impl Future<Output = MemoryArtifacts> {
        std::future::ready(self.world(number))
    }

    fn path(&self, _number: u32, name: &str) -> PathBuf {
        Path::new("/memory").join(name)
    }

    fn plant(&self, number: u32, path: &Path, node: &Node) {
        self.world(number).plant(path, node);
    }

    fn harvest(&self, number: u32, path: &Path) -> Option<Node> {
        self.world(number).harvest(path)
    }

    fn damage(&self, number: u32, location: &ArtifactLocation) {
        self.world(number).damage(location);
    }
}
