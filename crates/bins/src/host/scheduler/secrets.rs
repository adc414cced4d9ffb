//! Secrets of tenants as the server keeps them: sealed in its store, or files of a folder that others fill. Values go to
//! nobody but the attempts that name them.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use orlop_cloud::secret::{DirectorySecrets, SealedSecrets, SealingKey};
use orlop_core::error::Problem;
use orlop_core::ports::fleet_store::FleetReads;
use orlop_core::ports::secret::SecretStore;

/// Where secrets are.
#[derive(Clone, Default, PartialEq, Eq)]
pub enum SecretPlace {
    /// Nowhere: jobs that name one fail.
    #[default]
    Nowhere,
    /// Sealed in the store, with the key in this file; it is made when it is not there.
    KeyFile(PathBuf),
    /// Sealed in the store, with this key: 64 hexadecimal digits.
    Key(String),
    /// In files `<tenant>/<name>` below this folder.
    Folder(PathBuf),
}

impl fmt::Debug for SecretPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nowhere => f.write_str("Nowhere"),
            Self::KeyFile(path) => f.debug_tuple("KeyFile").field(path).finish(),
            Self::Key(_) => f.write_str("Key(***)"),
            Self::Folder(path) => f.debug_tuple("Folder").field(path).finish(),
        }
    }
}

/// The secrets of a server.
#[derive(Clone, Debug)]
pub enum Secrets {
    /// Sealed in the store.
    Sealed(Arc<SealedSecrets>),
    /// Files that others write.
    Folder(Arc<DirectorySecrets>),
}

impl SecretPlace {
    /// The secrets there; none when they are nowhere.
    ///
    /// # Errors
    /// Denied when others can read the key, Invalid when it is none.
    pub fn open(&self, store: Arc<dyn FleetReads>) -> Result<Option<Secrets>, Problem> {
        let sealed = |key| Secrets::Sealed(Arc::new(SealedSecrets::new(store, key, Vec::new())));
        Ok(match self {
            Self::Nowhere => None,
            Self::KeyFile(path) => Some(sealed(SealingKey::from_file(path)?)),
            Self::Key(text) => Some(sealed(SealingKey::from_text(text)?)),
            Self::Folder(path) => Some(Secrets::Folder(Arc::new(DirectorySecrets::new(path)))),
        })
    }
}

impl Secrets {
    /// Where values are asked for.
    #[must_use]
    pub fn store(&self) -> &dyn SecretStore {
        match self {
            Self::Sealed(sealed) => &**sealed,
            Self::Folder(folder) => &**folder,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_does_not_show() {
        let key = "ab".repeat(32);
        assert_eq!(format!("{:?}", SecretPlace::Key(key)), "Key(***)");
    }
}
