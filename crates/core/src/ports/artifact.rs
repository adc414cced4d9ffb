//! Storing artifacts, the files and folders that steps hand to each other. Owns the contract of a content-addressed store;
//! adapters pack them.

use std::path::Path;

use async_trait::async_trait;

use crate::error::Problem;
use crate::spec::artifact::Archive;
use crate::spec::status::ArtifactLocation;

/// A content-addressed store of files and trees on this machine.
#[async_trait]
pub trait ArtifactStore: Send + Sync {
    /// Stores a file or tree as `archive` says (absent: a file raw, a directory as tar) and says where. Equal content
    /// gives the equal location; storing twice equals once.
    ///
    /// # Errors
    /// NotFound when there is nothing at `source`; Invalid when it is larger than the store's limit, a symbolic link, which
    /// may lead anywhere, or without `archive` a tree with a link that leads out of it; Capacity when the disk is full.
    async fn put(&self, source: &Path, archive: Option<Archive>) -> Result<ArtifactLocation, Problem>;

    /// Delivers a stored artifact at `target`, whose parent exists and which does not: as the original file or tree when
    /// `unpack` holds, else as the stored bytes. On error nothing is left at `target`.
    ///
    /// # Errors
    /// NotFound when it is not stored; Exists when something is at `target`, which then stays; Invalid when its bytes are
    /// not those of its digest or would leave `target`.
    async fn get(
        &self,
        location: &ArtifactLocation,
        archive: Option<Archive>,
        unpack: bool,
        target: &Path,
    ) -> Result<(), Problem>;

    /// Whether an artifact is stored.
    ///
    /// # Errors
    /// Transient when that cannot be seen now.
    async fn contains(&self, location: &ArtifactLocation) -> Result<bool, Problem>;
}
