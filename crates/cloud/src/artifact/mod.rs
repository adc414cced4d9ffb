//! The content-addressed store of artifacts on this machine, [`CasStore`] (port [`ArtifactStore`]), and uploads to a fleet's server
//! ([`UploadStore`]). Stored bytes never change, equal content is stored once, and consumers get copies, never the stored file.
//!
//! Bytes are streamed: memory does not grow with the size of an artifact. Work runs on the runtime's blocking threads
//! and ends soon after its future is dropped.

mod backend;
mod collect;
mod digest;
mod error;
mod links;
mod merge;
mod meter;
mod mode;
mod pack;
mod reference;
mod store;
#[cfg(test)]
pub(crate) mod suite;
#[cfg(test)]
mod tests;
mod unpack;
mod uploads;
mod walk;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use orlop_core::error::{Class, Problem};
use orlop_core::ports::artifact::ArtifactStore;
use orlop_core::spec::artifact::Archive;
use orlop_core::spec::status::ArtifactLocation;

pub use self::backend::{ArtifactBackend, ArtifactContent};
pub use self::collect::{CollectedFile, collect};
use self::meter::Meter;
use self::reference::Reference;
use self::store::Files;
#[cfg(feature = "postgres")]
pub(crate) use self::uploads::wrong_checksum;
pub use self::uploads::{FileMode, UploadStore, digest, digest_of, unknown_upload, wrong_offset};
#[cfg(feature = "postgres")]
pub(crate) use self::uploads::{hex, is_digest};

/// How large an artifact may be, stored or unpacked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of all its files together.
    pub max_bytes: u64,
    /// Files, folders and links together.
    pub max_entries: u64,
}

impl Default for Limits {
    /// 64 GiB and a million entries.
    fn default() -> Self {
        Self { max_bytes: 64 << 30, max_entries: 1_000_000 }
    }
}

/// Artifacts by their SHA-256 in a folder `cas` of a run directory.
///
/// A file is stored as it is, a tree as an archive that is equal for equal trees. Deliveries are copies, which share
/// their blocks with the stored file where the file system can do that (btrfs, XFS).
#[derive(Clone, Debug)]
pub struct CasStore {
    files: Arc<Files>,
    limits: Limits,
}

impl CasStore {
    /// Opens the store in a directory, which must exist; the store is created where there is none. Files that a crashed writer left more
    /// than a day ago are removed.
    ///
    /// # Errors
    /// NotFound when there is no such directory; Denied without rights to it; Capacity when the disk is full.
    pub fn open(run_dir: impl AsRef<Path>, limits: Limits) -> Result<Self, Problem> {
        Ok(Self { files: Arc::new(Files::open(run_dir.as_ref())?), limits })
    }

    /// Takes a stored artifact over from the store of another run directory: the same file under a second name, or a copy
    /// where the file system has none. False when it is not stored there, or is none of this kind of store; then nothing
    /// is done.
    ///
    /// # Errors
    /// Invalid when the location is none of a store; Denied without rights; Capacity when the disk is full.
    pub async fn take_over(&self, run_dir: impl AsRef<Path>, location: &ArtifactLocation) -> Result<bool, Problem> {
        if location.kind != "cas" {
            return Ok(false);
        }
        let reference = Reference::of(location, None)?;
        let other = Files::at(run_dir.as_ref());
        self.run(move |files, _| files.take_over(&other, &reference)).await
    }

    /// Where the stored bytes of a location are, or where a download puts them; the folder around them is made.
    ///
    /// # Errors
    /// Invalid when the location is none of a store; as of the disk.
    pub fn place(&self, location: &ArtifactLocation) -> Result<PathBuf, Problem> {
        self.files.prepared(&Reference::of(location, None)?.sha256)
    }

    /// Delivers a stored artifact as [`ArtifactStore::get`] does, in the place of what is at `target`.
    ///
    /// # Errors
    /// As of [`ArtifactStore::get`], but for what is at `target`.
    pub async fn replace(
        &self,
        location: &ArtifactLocation,
        archive: Option<Archive>,
        unpack: bool,
        target: &Path,
    ) -> Result<(), Problem> {
        let order =
            unpack::DeliveryOrder { unpack, replace: true, ..unpack::DeliveryOrder::of(location, archive, target)? };
        self.run(move |files, meter| unpack::get(files, meter, &order)).await
    }

    /// Runs blocking work that stops when this future is dropped.
    async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Files, &mut Meter) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let guard = StopOnDrop(Arc::new(AtomicBool::new(false)));
        let (files, mut meter) = (Arc::clone(&self.files), Meter::new(self.limits, Arc::clone(&guard.0)));
        let done = tokio::task::spawn_blocking(move || work(&files, &mut meter)).await;
        done.map_err(|error| Problem::new(Class::Fatal, "work of the artifact store was interrupted").because(error))?
    }
}

/// Packs a folder with everything in it as a tar archive in a file without a name. Equal folders give equal bytes. Blocks.
///
/// # Errors
/// Invalid when it is no folder, is larger than the limits, or a link in it leads out of it; as of the disk.
pub fn pack_folder(folder: &Path, limits: Limits) -> Result<std::fs::File, Problem> {
    let folder: PathBuf = folder.components().collect();
    pack::folder(&folder, &mut Meter::of_one_call(limits))
}

/// Tells work that no one waits for it any more.
struct StopOnDrop(Arc<AtomicBool>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[async_trait]
impl ArtifactStore for CasStore {
    async fn put(&self, source: &Path, archive: Option<Archive>) -> Result<ArtifactLocation, Problem> {
        // Without a trailing slash, behind which a link would be followed.
        let source: PathBuf = source.components().collect();
        self.run(move |files, meter| pack::put(files, meter, &source, archive)).await
    }

    async fn get(
        &self,
        location: &ArtifactLocation,
        archive: Option<Archive>,
        unpack: bool,
        target: &Path,
    ) -> Result<(), Problem> {
        let order = unpack::DeliveryOrder { unpack, ..unpack::DeliveryOrder::of(location, archive, target)? };
        self.run(move |files, meter| unpack::get(files, meter, &order)).await
    }

    async fn contains(&self, location: &ArtifactLocation) -> Result<bool, Problem> {
        let reference = Reference::of(location, None)?;
        let size = location.size_bytes;
        self.run(move |files, _| files.contains(&reference, size)).await
    }
}
