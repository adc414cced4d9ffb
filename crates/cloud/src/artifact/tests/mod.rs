//! The store against its port.

mod behaviour;
mod hostile;
mod modes;

use std::os::unix::fs::PermissionsExt as _;

use orlop_core::testing::artifact::{ArtifactWorlds, LIMIT, Node, artifact_suite};
use tempfile::TempDir;

use super::*;

/// Stores in folders of one temporary directory.
struct Worlds(TempDir);

/// Writes a tree.
fn plant(path: &Path, node: &Node) {
    match node {
        Node::File { bytes, executable } => {
            std::fs::write(path, bytes).unwrap();
            let mode = if *executable { 0o755 } else { 0o644 };
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
        }
        Node::Link(target) => std::os::unix::fs::symlink(target, path).unwrap(),
        Node::Folder(members) => {
            std::fs::create_dir(path).unwrap();
            for (name, member) in members {
                plant(&path.join(name), member);
            }
        }
    }
}

/// Reads a tree.
fn harvest(path: &Path) -> Option<Node> {
    let found = std::fs::symlink_metadata(path).ok()?;
    if found.is_symlink() {
        return Some(Node::link(std::fs::read_link(path).unwrap().to_str().unwrap()));
    }
    if found.is_dir() {
        let members = std::fs::read_dir(path).unwrap().map(|member| {
            let member = member.unwrap();
            (member.file_name().to_string_lossy().into_owned(), harvest(&member.path()).unwrap())
        });
        return Some(Node::folder(members));
    }
    let bytes = std::fs::read(path).unwrap();
    Some(Node::File { bytes, executable: found.permissions().mode() & 0o111 != 0 })
}

fn remove(path: &Path) {
    match std::fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => std::fs::remove_dir_all(path).unwrap(),
        Ok(_) => std::fs::remove_file(path).unwrap(),
        Err(_) => {}
    }
}

impl ArtifactWorlds for Worlds {
    type Store = CasStore;

    async fn open(&self, number: u32) -> CasStore {
        let run = self.0.path().join(number.to_string());
        std::fs::create_dir_all(run.join("work")).unwrap();
        CasStore::open(run, Limits { max_bytes: LIMIT, ..Limits::default() }).unwrap()
    }

    fn path(&self, number: u32, name: &str) -> PathBuf {
        self.0.path().join(number.to_string()).join("work").join(name)
    }

    fn plant(&self, _number: u32, path: &Path, node: &Node) {
        remove(path);
        plant(path, node);
    }

    fn harvest(&self, _number: u32, path: &Path) -> Option<Node> {
        harvest(path)
    }

    fn damage(&self, number: u32, location: &ArtifactLocation) {
        let (shard, rest) = location.sha256.split_at(2);
        let path = self.0.path().join(number.to_string()).join("cas/sha256").join(shard).join(rest);
        let mut bytes = std::fs::read(&path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        std::fs::write(&path, bytes).unwrap();
    }
}

#[tokio::test]
async fn it_passes_the_suite() {
    let worlds = Worlds(tempfile::tempdir().unwrap());
    let passed = artifact_suite(&worlds).await.unwrap_or_else(|error| panic!("{error}"));
    assert!(passed.len() >= 40, "{} checks", passed.len());
}
