//! Logs of the fleet's attempts, which the leading server writes: in files of a folder, or in the database that servers share. Wakes
//! readers when a log grows; never drops anything itself.
//!
//! A position in a log is the sequence number of a chunk, which counts over all streams of an attempt. A chunk may say that output was lost
//! before it (`gap`); that is stored and shown.

mod folder;
mod index;
mod segment;
#[cfg(test)]
pub(crate) mod suite;
#[cfg(test)]
mod tests;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use orlop_core::error::{Class, Problem};
use orlop_core::id::{Epoch, JobId};
use orlop_core::task::LogStream;
use orlop_core::time::Time;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use self::folder::Folder;
use crate::segment::bytes;

/// Which attempt, or which part of it, a log is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct LogKey {
    /// The job.
    pub job: JobId,
    /// Element of an array, else 0.
    pub index: u32,
    /// Member of a gang, else 0.
    pub member: u32,
    /// Number of the attempt.
    pub attempt: u32,
}

/// What is missing before a chunk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gap {
    /// Number of chunks.
    pub chunks: u32,
    /// Their bytes.
    pub bytes: u64,
}

/// A piece of a log. Files have it in this order of fields: what says whether somebody wants it comes first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chunk {
    /// Whose.
    pub key: LogKey,
    /// Where it comes from.
    pub stream: LogStream,
    /// Its position; grows over all streams of the attempt.
    pub seq: u64,
    /// When it was written.
    pub time: Time,
    /// What is missing before it.
    pub gap: Gap,
    /// Any bytes, at most [`MAX_CHUNK`].
    #[serde(with = "bytes")]
    pub data: Vec<u8>,
}

/// The most bytes of one chunk.
pub const MAX_CHUNK: usize = 64 << 10;

/// How logs are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogOptions {
    /// Bytes of one file.
    pub segment_bytes: u64,
}

impl Default for LogOptions {
    fn default() -> Self {
        Self { segment_bytes: 64 << 20 }
    }
}

/// What is kept of an attempt's log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogSummary {
    /// Bytes kept.
    pub bytes: u64,
    /// Chunks kept.
    pub chunks: u64,
    /// Bytes that its chunks say were lost.
    pub dropped: u64,
    /// Position of the last chunk; 0 if there is none.
    pub last_seq: u64,
}

/// Where logs are kept. Its calls block; all but [`LogBackend::has_above`] may wait for a disk or a database.
pub trait LogBackend: fmt::Debug + Send + Sync {
    /// This server leads from now on: finds what others wrote before, and lets chunks be written.
    ///
    /// # Errors
    /// Denied without rights; Transient when what is there cannot be read now.
    fn lead(&self, epoch: Epoch) -> Result<(), Problem>;

    /// It leads no more: nothing is written from now on.
    fn resign(&self);

    /// See [`LogStore::append`].
    ///
    /// # Errors
    /// As there.
    fn append(&self, chunks: &[Chunk]) -> Result<u64, Problem>;

    /// See [`LogStore::read`].
    ///
    /// # Errors
    /// As there.
    fn read(&self, key: &LogKey, stream: Option<LogStream>, after: u64, bytes: usize) -> Result<Vec<Chunk>, Problem>;

    /// See [`LogStore::summary`].
    ///
    /// # Errors
    /// As there.
    fn summary(&self, key: &LogKey) -> Result<LogSummary, Problem>;

    /// Whether a chunk above a position was written since this server leads. Answers at once.
    fn has_above(&self, key: &LogKey, seq: u64) -> bool;

    /// See [`LogStore::retain`].
    ///
    /// # Errors
    /// As there.
    fn retain(&self, before: Time, bytes: u64) -> Result<u64, Problem>;
}

/// The logs of a fleet. Clones share them. Its calls block, but for [`LogStore::changes`] and [`LogStore::has_above`]:
/// asynchronous code makes them on a thread that may.
#[derive(Clone, Debug)]
pub struct LogStore {
    backend: Arc<dyn LogBackend>,
    /// Counts appends, for those who follow.
    appended: Arc<watch::Sender<u64>>,
}

impl LogStore {
    /// Logs in a backend.
    pub fn new(backend: impl LogBackend + 'static) -> Self {
        Self { backend: Arc::new(backend), appended: Arc::new(watch::channel(0).0) }
    }

    /// Logs in files of a folder, which is made when it is not there, and which servers may share. Nothing in it is opened before
    /// this server leads.
    ///
    /// # Errors
    /// Denied without rights to it; Capacity when the disk is full.
    pub fn folder(folder: impl Into<PathBuf>, options: LogOptions) -> Result<Self, Problem> {
        Folder::new(folder.into(), options).map(Self::new)
    }

    /// The same for somebody who has the folder alone.
    ///
    /// # Errors
    /// As of [`LogStore::lead`].
    pub fn open(folder: impl Into<PathBuf>, options: LogOptions) -> Result<Self, Problem> {
        let logs = Self::folder(folder, options)?;
        logs.lead(Epoch(0))?;
        Ok(logs)
    }

    /// This server leads from now on: finds what others wrote before, and lets chunks be written.
    ///
    /// # Errors
    /// Denied without rights; Transient when what is there cannot be read now.
    pub fn lead(&self, epoch: Epoch) -> Result<(), Problem> {
        self.backend.lead(epoch)
    }

    /// It leads no more: nothing is written from now on.
    pub fn resign(&self) {
        self.backend.resign();
    }

    /// Writes chunks behind all others; when it returns they are on disk. Those of one attempt come in order of their positions;
    /// ones that are kept already are dropped. Gives the bytes that were not kept before.
    ///
    /// # Errors
    /// Capacity when the disk is full; Invalid when a chunk is too long; Transient when this server does not lead. Some of the
    /// chunks may be written: append the same ones again.
    pub fn append(&self, chunks: &[Chunk]) -> Result<u64, Problem> {
        if let Some(long) = chunks.iter().find(|chunk| chunk.data.len() > MAX_CHUNK) {
            let message = format!("a chunk of {} has {} bytes, at most {MAX_CHUNK} fit", long.key.job, long.data.len());
            return Err(Problem::new(Class::Invalid, message));
        }
        let bytes = self.backend.append(chunks)?;
        self.appended.send_modify(|count| *count = count.wrapping_add(1));
        Ok(bytes)
    }

    /// Chunks of an attempt above a position, in order, until about `bytes` of them; all streams when none is named.
    ///
    /// # Errors
    /// Transient when they cannot be read now.
    pub fn read(
        &self,
        key: &LogKey,
        stream: Option<LogStream>,
        after: u64,
        bytes: usize,
    ) -> Result<Vec<Chunk>, Problem> {
        self.backend.read(key, stream, after, bytes)
    }

    /// A counter that changes with every append: to follow a log, read it, wait for a change, read on.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.appended.subscribe()
    }

    /// Whether a chunk of an attempt above a position was written since this server leads. Answers at once.
    #[must_use]
    pub fn has_above(&self, key: &LogKey, seq: u64) -> bool {
        self.backend.has_above(key, seq)
    }

    /// What is kept of an attempt's log.
    ///
    /// # Errors
    /// Transient when it cannot be read now.
    pub fn summary(&self, key: &LogKey) -> Result<LogSummary, Problem> {
        self.backend.summary(key)
    }

    /// Deletes what is older than `before`, and the oldest while all together are larger than `bytes`; gives the bytes that are
    /// gone. What is deleted at once is a file, or the log of an attempt.
    ///
    /// # Errors
    /// Transient when it cannot be deleted now.
    pub fn retain(&self, before: Time, bytes: u64) -> Result<u64, Problem> {
        self.backend.retain(before, bytes)
    }
}
