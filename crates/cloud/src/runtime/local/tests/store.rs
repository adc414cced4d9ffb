//! Doubles of the artifact store and of downloads: files and flat directories in memory.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Mutex;

use async_trait::async_trait;
use orlop_core::error::{Class, Problem};
use orlop_core::name::sha256_hex;
use orlop_core::ports::artifact::ArtifactStore;
use orlop_core::spec::artifact::{Archive, HttpSource};
use orlop_core::spec::status::ArtifactLocation;

use crate::download::Download;

/// A store and the errors it is to give first.
#[derive(Default)]
pub(super) struct MemoryStore {
    pub(super) trees: Mutex<BTreeMap<String, BTreeMap<String, String>>>,
    pub(super) faults: Mutex<Vec<Problem>>,
}

impl MemoryStore {
    /// A tree under a name that tells its files; a single file is called ``.
    pub(super) fn hold(&self, files: &[(&str, &str)]) -> ArtifactLocation {
        let tree: BTreeMap<String, String> =
            files.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
        let reference = sha256_hex(format!("{tree:?}").as_bytes(), 64);
        self.trees.lock().unwrap().insert(reference.clone(), tree);
        ArtifactLocation { kind: "cas".into(), reference: reference.clone(), size_bytes: 1, sha256: reference }
    }

    fn fault(&self) -> Result<(), Problem> {
        self.faults.lock().unwrap().pop().map_or(Ok(()), Err)
    }
}

#[async_trait]
impl ArtifactStore for MemoryStore {
    async fn put(&self, source: &Path, _archive: Option<Archive>) -> Result<ArtifactLocation, Problem> {
        self.fault()?;
        if source.is_dir() {
            let mut files = Vec::new();
            for entry in fs::read_dir(source)? {
                let entry = entry?;
                files.push((entry.file_name().into_string().unwrap(), fs::read_to_string(entry.path())?));
            }
            let files: Vec<(&str, &str)> = files.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
            return Ok(self.hold(&files));
        }
        Ok(self.hold(&[("", &fs::read_to_string(source)?)]))
    }

    async fn get(
        &self,
        location: &ArtifactLocation,
        _archive: Option<Archive>,
        _unpack: bool,
        target: &Path,
    ) -> Result<(), Problem> {
        self.fault()?;
        assert!(!target.exists() && target.parent().unwrap().is_dir(), "{}", target.display());
        let tree = self.trees.lock().unwrap().get(&location.reference).cloned();
        let tree = tree.ok_or_else(|| Problem::new(Class::NotFound, "no such artifact"))?;
        if let (1, Some(text)) = (tree.len(), tree.get("")) {
            return Ok(fs::write(target, text)?);
        }
        fs::create_dir(target)?;
        for (name, text) in tree {
            fs::write(target.join(name), text)?;
        }
        Ok(())
    }

    async fn contains(&self, location: &ArtifactLocation) -> Result<bool, Problem> {
        Ok(self.trees.lock().unwrap().contains_key(&location.reference))
    }
}

/// Downloads that give their URL as text.
pub(super) struct Echo;

#[async_trait]
impl Download for Echo {
    async fn fetch(&self, source: &HttpSource, target: &Path) -> Result<(), Problem> {
        if source.url.ends_with("/missing") {
            return Err(Problem::new(Class::NotFound, format!("{} answers 404", source.url)));
        }
        Ok(fs::write(target, &source.url)?)
    }
}
