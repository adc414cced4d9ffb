//! ConfigMaps and Secrets as directories: `<directory>/<name>/<key>`. Owns their lookup; the directories are the
//! operator's, so symbolic links in them are followed.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use orlop_core::error::{Class, Problem};

/// The most bytes one key may hold, the limit of Kubernetes for a whole object.
const KEY_MAX: u64 = 1024 * 1024;

/// What kind of object keys are looked up in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Store {
    /// A ConfigMap.
    ConfigMap,
    /// A Secret.
    Secret,
}

impl Store {
    /// The kind as Kubernetes writes it.
    #[must_use]
    pub const fn kind(self) -> &'static str {
        match self {
            Self::ConfigMap => "ConfigMap",
            Self::Secret => "Secret",
        }
    }
}

/// Where ConfigMaps and Secrets of this machine are.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// Directories of ConfigMaps, the flow's own first.
    pub config_maps: Vec<PathBuf>,
    /// Directories of Secrets.
    pub secrets: Vec<PathBuf>,
}

impl Sources {
    fn directories(&self, store: Store) -> &[PathBuf] {
        match store {
            Store::ConfigMap => &self.config_maps,
            Store::Secret => &self.secrets,
        }
    }

    /// The directory of an object: that of the first place that has one of the name.
    fn directory(&self, store: Store, name: &str) -> Option<PathBuf> {
        let name = plain_name(name)?;
        self.directories(store).iter().map(|directory| directory.join(name)).find(|path| path.is_dir())
    }

    /// One key; none when there is no such object or key.
    ///
    /// # Errors
    /// Invalid when it holds more than 1 MiB; Denied or Transient when it cannot be read.
    pub fn key(&self, store: Store, name: &str, key: &str) -> Result<Option<Vec<u8>>, Problem> {
        let (Some(directory), Some(key)) = (self.directory(store, name), plain_name(key)) else { return Ok(None) };
        read_key(&directory.join(key), store)
    }

    /// All keys; none when there is no such object. Names that begin with two dots are the mechanics of mounted objects
    /// and no keys.
    ///
    /// # Errors
    /// As of [`Sources::key`].
    pub fn keys(&self, store: Store, name: &str) -> Result<Option<BTreeMap<String, Vec<u8>>>, Problem> {
        let Some(directory) = self.directory(store, name) else { return Ok(None) };
        let mut keys = BTreeMap::new();
        for entry in fs::read_dir(&directory)? {
            let entry = entry?;
            let Some(key) = entry.file_name().to_str().and_then(plain_name).map(str::to_owned) else { continue };
            if let Some(bytes) = read_key(&entry.path(), store)? {
                keys.insert(key, bytes);
            }
        }
        Ok(Some(keys))
    }

    /// The error for an object or key that is missing; the step's retry policy decides whether it is tried again.
    #[must_use]
    pub fn unresolved(&self, store: Store, name: &str, key: Option<&str>, path: &str) -> Problem {
        let what = match (key, self.directory(store, name)) {
            (Some(key), Some(_)) => format!("{} {name} has no text under key {key}", store.kind()),
            _ => format!("there is no {} {name}", store.kind()),
        };
        let (option, place) = match store {
            Store::ConfigMap => ("--configs-dir", "a ConfigMap template of the flow or"),
            Store::Secret => ("--secrets-dir", ""),
        };
        let places = format!("{place} the directory given by {option}");
        let message = format!("{path}: {what}; it is looked for in {}", places.trim_start());
        Problem::new(Class::NotFound, message).with_reason("ParameterUnresolved")
    }
}

/// A name that is one component of a path and nothing special.
fn plain_name(name: &str) -> Option<&str> {
    let plain = !name.is_empty() && name != "." && !name.starts_with("..") && !name.contains(['/', '\\', '\0']);
    plain.then_some(name)
}

fn read_key(path: &Path, store: Store) -> Result<Option<Vec<u8>>, Problem> {
    let failed = |error: io::Error| {
        let class = Problem::from(io::Error::from(error.kind())).class;
        Problem::new(class, format!("reading {} failed", path.display())).because(error)
    };
    // Looked at before it is opened: opening a pipe would wait for a writer.
    match fs::metadata(path) {
        Ok(metadata) if metadata.is_file() => {}
        Ok(_) => return Ok(None),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        Err(error) => return Err(failed(error)),
    }
    let mut bytes = Vec::new();
    File::open(path).and_then(|file| file.take(KEY_MAX + 1).read_to_end(&mut bytes)).map_err(failed)?;
    if bytes.len() as u64 > KEY_MAX {
        let message = format!("{} is larger than the {KEY_MAX} bytes a {} may hold", path.display(), store.kind());
        return Err(Problem::new(Class::Invalid, message).with_reason("ParameterUnresolved"));
    }
    Ok(Some(bytes))
}
