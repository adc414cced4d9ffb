//! Where a server keeps the fleet's artifacts: a folder, or a database that servers share. Owns what holds for both.

use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

use orlop_core::error::Problem;

use super::uploads::UploadStore;

/// Storage of the fleet's artifacts: uploads that grow piece by piece until they are complete, and complete artifacts by their SHA-256.
/// All calls block: asynchronous code makes them on a thread that may.
pub trait ArtifactBackend: fmt::Debug + Send + Sync {
    /// Begins an upload under a name of letters and digits that is not used yet.
    ///
    /// # Errors
    /// The disk or the database.
    fn begin(&self, upload: &str) -> Result<(), Problem>;

    /// How many bytes of an upload are stored.
    ///
    /// # Errors
    /// NotFound; the disk or the database.
    fn received(&self, upload: &str) -> Result<u64, Problem>;

    /// Adds a piece to an upload, which ends at its offset. Gives how many bytes are stored then.
    ///
    /// # Errors
    /// Conflict when it does not begin where the stored bytes end; NotFound; the disk or the database.
    fn append(&self, upload: &str, offset: u64, bytes: &[u8]) -> Result<u64, Problem>;

    /// Reads a whole upload and compares its digest. That takes as long as it is large; others may go on meanwhile.
    ///
    /// # Errors
    /// Checksum, after which the upload is gone; NotFound; the disk or the database.
    fn check(&self, upload: &str, sha256: &str) -> Result<(), Problem>;

    /// Ends an upload that was checked and did not grow since: from then on its content is there by its digest. Gives its length.
    ///
    /// # Errors
    /// NotFound; the disk or the database.
    fn finish(&self, upload: &str, sha256: &str) -> Result<u64, Problem>;

    /// Gives an upload up. One that is not there is fine.
    ///
    /// # Errors
    /// The disk or the database.
    fn discard(&self, upload: &str) -> Result<(), Problem>;

    /// The content of an artifact; none when it is not here.
    ///
    /// # Errors
    /// The disk or the database.
    fn content(&self, sha256: &str) -> Result<Option<Box<dyn ArtifactContent>>, Problem>;

    /// Names of the uploads that are here.
    ///
    /// # Errors
    /// The disk or the database.
    fn uploads(&self) -> Result<Vec<String>, Problem>;

    /// Digests of the artifacts that are here and begin with a byte.
    ///
    /// # Errors
    /// The disk or the database.
    fn shard(&self, first: u8) -> Result<Vec<String>, Problem>;

    /// Removes an artifact. One that is not there is fine.
    ///
    /// # Errors
    /// The disk or the database.
    fn remove(&self, sha256: &str) -> Result<(), Problem>;
}

/// The content of an artifact. Reading blocks.
pub trait ArtifactContent: fmt::Debug + Send + Sync {
    /// Its length.
    fn bytes(&self) -> u64;

    /// The bytes from an offset on: `most` of them, fewer at the end only.
    ///
    /// # Errors
    /// The disk or the database; or it was removed meanwhile.
    fn read_at(&self, offset: u64, most: usize) -> io::Result<Vec<u8>>;
}

impl ArtifactBackend for UploadStore {
    fn begin(&self, upload: &str) -> Result<(), Problem> {
        Self::begin(self, upload)
    }

    fn received(&self, upload: &str) -> Result<u64, Problem> {
        Self::received(self, upload)
    }

    fn append(&self, upload: &str, offset: u64, bytes: &[u8]) -> Result<u64, Problem> {
        Self::append(self, upload, offset, bytes)
    }

    fn check(&self, upload: &str, sha256: &str) -> Result<(), Problem> {
        Self::check(self, upload, sha256)
    }

    fn finish(&self, upload: &str, sha256: &str) -> Result<u64, Problem> {
        Self::finish(self, upload, sha256)
    }

    fn discard(&self, upload: &str) -> Result<(), Problem> {
        Self::discard(self, upload)
    }

    fn content(&self, sha256: &str) -> Result<Option<Box<dyn ArtifactContent>>, Problem> {
        let content = |(file, bytes)| Box::new(StoredFile { file, bytes }) as Box<dyn ArtifactContent>;
        Ok(self.read(sha256)?.map(content))
    }

    fn uploads(&self) -> Result<Vec<String>, Problem> {
        Self::uploads(self)
    }

    fn shard(&self, first: u8) -> Result<Vec<String>, Problem> {
        Self::shard(self, first)
    }

    fn remove(&self, sha256: &str) -> Result<(), Problem> {
        Self::remove(self, sha256)
    }
}

/// A file of a folder. Who reads it reads on when it is removed.
#[derive(Debug)]
struct StoredFile {
    file: File,
    bytes: u64,
}

impl ArtifactContent for StoredFile {
    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn read_at(&self, offset: u64, most: usize) -> io::Result<Vec<u8>> {
        let left = usize::try_from(self.bytes.saturating_sub(offset)).unwrap_or(usize::MAX);
        let mut data = vec![0; most.min(left)];
        self.file.read_exact_at(&mut data, offset)?;
        Ok(data)
    }
}
