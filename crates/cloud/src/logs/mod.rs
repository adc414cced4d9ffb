//! Logs of the fleet's attempts (scheduler contract, 5.2 `log_segments` and `log_index`): files of 64 Mi of checksummed
//! records. Owns the files, what each holds of which attempt, and their age; never decides what is dropped before it gets here.
//!
//! A position in a log is the sequence number of a chunk, which counts over all streams of an attempt. What a chunk says was
//! lost before it (`gap`) is kept and shown. A torn end, as a crash leaves it, is cut off when the store is opened; what was
//! flushed before stays.

mod index;
mod record;
mod segment;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use orlop_core::error::PortError;
use orlop_core::id::JobId;
use orlop_core::named::Named;
use orlop_core::time::Time;
use tokio::sync::watch;

use self::segment::Segment;

/// Which attempt, or which part of it, a log is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
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

/// Where a chunk comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LogStream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
    /// The worker itself.
    System,
}

impl Named for LogStream {
    const KIND: &'static str = "log stream";
    const ALL: &'static [Self] = &[Self::Stdout, Self::Stderr, Self::System];

    fn as_str(self) -> &'static str {
        match self {
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
            Self::System => "system",
        }
    }
}

/// What is missing before a chunk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gap {
    /// Number of chunks.
    pub chunks: u32,
    /// Their bytes.
    pub bytes: u64,
}

/// A piece of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
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

/// What was deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogRetained {
    /// Files.
    pub segments: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// The logs below one folder. Clones share it. Its calls block: asynchronous code makes them on a thread that may.
#[derive(Clone, Debug)]
pub struct LogStore {
    state: Arc<Mutex<State>>,
    /// Counts appends, for those who follow.
    appended: Arc<watch::Sender<u64>>,
}

#[derive(Debug)]
struct State {
    folder: PathBuf,
    options: LogOptions,
    /// By number; the last one is written to.
    segments: BTreeMap<u64, Segment>,
}

fn failed(folder: &Path, doing: &str, error: io::Error) -> PortError {
    let class = PortError::from(io::Error::from(error.kind())).class;
    let message = format!("{doing} the logs in {} failed; check the disk and its rights", folder.display());
    PortError::new(class, message).because(error)
}

impl LogStore {
    /// Opens the logs in a folder, which is made when it is not there, and cuts off what a crash left half written.
    ///
    /// # Errors
    /// Denied without rights to the folder; Capacity when the disk is full; Transient when it cannot be read now.
    pub fn open(folder: impl Into<PathBuf>, options: LogOptions) -> Result<Self, PortError> {
        let folder = folder.into();
        let opened = Self::scan(&folder);
        let segments = opened.map_err(|error| failed(&folder, "opening", error))?;
        let state = State { folder, options, segments };
        let (appended, _) = watch::channel(0);
        Ok(Self { state: Arc::new(Mutex::new(state)), appended: Arc::new(appended) })
    }

    fn scan(folder: &Path) -> io::Result<BTreeMap<u64, Segment>> {
        fs::create_dir_all(folder)?;
        let mut numbers = Vec::new();
        for entry in fs::read_dir(folder)? {
            let name = entry?.file_name();
            let number: Option<u64> =
                name.to_str().and_then(|name| name.strip_suffix(".log")).and_then(|name| name.parse().ok());
            numbers.extend(number);
        }
        numbers.sort_unstable();
        let last = numbers.last().copied();
        let mut segments = BTreeMap::new();
        for number in numbers {
            segments.insert(number, Segment::open(folder, number, Some(number) == last)?);
        }
        Ok(segments)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes chunks behind all others. Those of one attempt come in order of their positions; ones that are not above what
    /// is kept are dropped, so that chunks sent twice are kept once. Gives the bytes that were not kept before.
    ///
    /// # Errors
    /// Capacity when the disk is full; Invalid when a chunk is too long. Some of the chunks may be written: append the same
    /// ones again.
    pub fn append(&self, chunks: &[Chunk]) -> Result<u64, PortError> {
        if let Some(long) = chunks.iter().find(|chunk| chunk.data.len() > MAX_CHUNK) {
            let message = format!("a chunk of {} has {} bytes, at most {MAX_CHUNK} fit", long.key.job, long.data.len());
            return Err(PortError::new(orlop_core::error::Class::Invalid, message));
        }
        let mut state = self.state();
        let written = state.append(chunks);
        let folder = state.folder.clone();
        drop(state);
        let bytes = written.map_err(|error| failed(&folder, "writing", error))?;
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
    ) -> Result<Vec<Chunk>, PortError> {
        let parts: Vec<_> = {
            let mut state = self.state();
            state.flush().map_err(|error| failed(&state.folder, "writing", error))?;
            state.segments.values().filter_map(|segment| segment.part(key, after)).collect()
        };
        let mut found = Vec::new();
        let mut room = bytes.max(1);
        for part in parts {
            match part.read(key, stream, after, &mut room, &mut found) {
                Ok(()) => {}
                // Deleted for its age since.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(failed(&self.state().folder, "reading", error)),
            }
            if room == 0 {
                break;
            }
        }
        Ok(found)
    }

    /// A counter that changes with every append: to follow a log, read it, wait for a change, read on.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.appended.subscribe()
    }

    /// What is kept of an attempt's log.
    #[must_use]
    pub fn summary(&self, key: &LogKey) -> LogSummary {
        let state = self.state();
        let mut all = LogSummary::default();
        for extent in state.segments.values().filter_map(|segment| segment.extent(key)) {
            all.bytes += extent.bytes;
            all.chunks += extent.chunks;
            all.dropped += extent.dropped;
            all.last_seq = all.last_seq.max(extent.last_seq);
        }
        all
    }

    /// Has everything on disk that was appended.
    ///
    /// # Errors
    /// As of [`LogStore::append`].
    pub fn sync(&self) -> Result<(), PortError> {
        let mut state = self.state();
        let synced = state.segments.values_mut().next_back().map_or(Ok(()), Segment::sync);
        synced.map_err(|error| failed(&state.folder, "writing", error))
    }

    /// Deletes whole files: those whose newest chunk is older than `before`, and the oldest while all together are larger
    /// than `bytes`. The file that is written to stays.
    ///
    /// # Errors
    /// Transient when a file cannot be deleted now.
    pub fn retain(&self, before: Time, bytes: u64) -> Result<LogRetained, PortError> {
        let mut state = self.state();
        let mut total: u64 = state.segments.values().map(Segment::len).sum();
        let mut gone = LogRetained::default();
        while state.segments.len() > 1 {
            let Some((&number, oldest)) = state.segments.first_key_value() else { break };
            let (len, newest) = (oldest.len(), oldest.newest());
            if newest >= before && total <= bytes {
                break;
            }
            Segment::delete(&state.folder, number).map_err(|error| failed(&state.folder, "deleting", error))?;
            state.segments.remove(&number);
            total -= len;
            gone.segments += 1;
            gone.bytes += len;
        }
        Ok(gone)
    }
}

impl State {
    fn append(&mut self, chunks: &[Chunk]) -> io::Result<u64> {
        let mut bytes = 0;
        for chunk in chunks {
            if self.last_seq(&chunk.key).is_some_and(|last| chunk.seq <= last) {
                continue;
            }
            self.active()?.append(chunk)?;
            bytes += chunk.data.len() as u64;
        }
        self.flush()?;
        Ok(bytes)
    }

    /// The file that is written to; a new one when the last one is full.
    fn active(&mut self) -> io::Result<&mut Segment> {
        let last = self.segments.last_key_value().map(|(&number, segment)| (number, segment.len()));
        let full = last.is_none_or(|(_, len)| len >= self.options.segment_bytes);
        let number = last.map_or(1, |(number, _)| if full { number + 1 } else { number });
        if full {
            if let Some(segment) = self.segments.values_mut().next_back() {
                segment.seal()?;
            }
            let segment = Segment::create(&self.folder, number)?;
            self.segments.insert(number, segment);
        }
        self.segments.get_mut(&number).ok_or_else(|| io::Error::other("the file that is written to is gone"))
    }

    fn last_seq(&self, key: &LogKey) -> Option<u64> {
        self.segments.values().rev().find_map(|segment| segment.extent(key)).map(|extent| extent.last_seq)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.segments.values_mut().next_back().map_or(Ok(()), Segment::flush)
    }
}
