//! One file of records: appending, sealing, and reading the records of one attempt.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use orlop_core::id::Epoch;
use orlop_core::task::LogStream;
use orlop_core::time::Time;

use super::index::{Extent, Index};
use super::{Chunk, LogKey};
use crate::durable::sync_directory;
use crate::segment::read::{BUFFER, Scan, SegmentReader, scan};
use crate::segment::write::SegmentWriter;
use crate::segment::{HEAD, Kind, decode, decode_prefix, encode};

/// Bytes of a record within which what says whether somebody wants it ends: numbers, and the name of a stream.
const FIRST: usize = 64;

#[derive(Debug)]
pub(super) struct Segment {
    path: PathBuf,
    index: Index,
    /// Of the segment that is written to.
    writer: Option<SegmentWriter>,
}

/// Names a file: its place among all, and the term of leadership in which it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SegmentName {
    pub(super) number: u64,
    pub(super) epoch: Epoch,
}

impl SegmentName {
    /// The name that a file's name stands for, if it is one of a segment.
    pub(super) fn of_file(name: &str) -> Option<Self> {
        let name = name.strip_suffix(".log")?;
        let (number, epoch) = name.split_once('-').unwrap_or((name, "0"));
        Some(Self { number: number.parse().ok()?, epoch: Epoch(epoch.parse().ok()?) })
    }

    fn path(self, folder: &Path) -> PathBuf {
        let Self { number, epoch } = self;
        folder.join(if epoch.0 == 0 { format!("{number:012}.log") } else { format!("{number:012}-{epoch}.log") })
    }
}

impl Segment {
    /// A new, empty file.
    pub(super) fn create(folder: &Path, name: SegmentName) -> io::Result<Self> {
        let path = name.path(folder);
        let file = OpenOptions::new().read(true).append(true).create_new(true).open(&path)?;
        sync_directory(folder)?;
        Ok(Self { path, index: Index::default(), writer: Some(SegmentWriter::begin(Kind::Log, file)) })
    }

    /// A file that is there, of another term: it is read only. Its index is read, or made by walking over the records up to the
    /// first that is not whole. What the index says stands: who wrote the file may write on, and nobody reads that.
    pub(super) fn open(folder: &Path, name: SegmentName) -> io::Result<Self> {
        let path = name.path(folder);
        let len = fs::metadata(&path)?.len();
        let beside = path.with_extension("idx");
        // One that cannot be read is made again.
        let stored = Index::load(&beside).ok().flatten();
        let index = match stored.filter(|index| index.len <= len) {
            Some(index) => index,
            None => {
                let index = walk(&path)?;
                if index.extents.is_empty() && len > index.len {
                    // Nothing of it can be read. It is kept as long as if its last chunk were of when it was written last.
                    let newest = modified(&path)?;
                    return Ok(Self { path, index: Index { newest, len, ..index }, writer: None });
                }
                if let Err(error) = index.store(&beside) {
                    let path = path.display();
                    tracing::warn!(%path, %error, "the index of a log is not written; it is made again at the next start");
                }
                index
            }
        };
        Ok(Self { path, index, writer: None })
    }

    pub(super) fn delete(folder: &Path, name: SegmentName) -> io::Result<()> {
        let path = name.path(folder);
        for file in [path.with_extension("idx"), path] {
            match fs::remove_file(file) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    /// Whether it is written to.
    pub(super) fn is_written(&self) -> bool {
        self.writer.is_some()
    }

    pub(super) fn len(&self) -> u64 {
        self.index.len
    }

    pub(super) fn newest(&self) -> Time {
        self.index.newest
    }

    pub(super) fn extent(&self, key: &LogKey) -> Option<&Extent> {
        self.index.extents.get(key)
    }

    pub(super) fn append(&mut self, chunk: &Chunk) -> io::Result<()> {
        let Some(writer) = &mut self.writer else { return Err(io::Error::other("the segment is sealed")) };
        let before = writer.end();
        writer.append(chunk)?;
        self.index.add(chunk, chunk.data.len() as u64, writer.end() - before);
        if writer.waiting() >= BUFFER { self.flush() } else { Ok(()) }
    }

    /// Hands what is gathered to the system. On failure the file ends where it ended before, and so does the index.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        let Some(writer) = &mut self.writer else { return Ok(()) };
        if let Err(error) = writer.write() {
            writer.give_up();
            // Half a record is cut off; where that fails too nothing is written behind it.
            if writer.is_torn() {
                self.writer = None;
            }
            self.index = walk(&self.path)?;
            return Err(error);
        }
        Ok(())
    }

    pub(super) fn sync(&mut self) -> io::Result<()> {
        self.flush()?;
        self.writer.as_ref().map_or(Ok(()), SegmentWriter::sync)
    }

    /// Writes the index beside the file, which is not written to any more.
    pub(super) fn seal(&mut self) -> io::Result<()> {
        if !self.is_written() {
            return Ok(());
        }
        self.sync()?;
        let beside = self.path.with_extension("idx");
        // The next leader has said by then up to where this file counts.
        if !beside.exists() {
            self.index.store(&beside)?;
        }
        self.writer = None;
        Ok(())
    }

    /// Where records of an attempt above a position are.
    pub(super) fn part(&self, key: &LogKey, after: u64) -> Option<AttemptRecords> {
        let extent = self.extent(key).filter(|extent| extent.last_seq > after)?;
        Some(AttemptRecords { path: self.path.clone(), from: extent.begin(after), to: extent.to })
    }
}

/// When a file was written last.
fn modified(path: &Path) -> io::Result<Time> {
    let since = fs::metadata(path)?.modified()?.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Ok(Time::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX)))
}

/// Makes the index of a file by its records, up to the first that is not whole or says nothing that is known.
fn walk(path: &Path) -> io::Result<Index> {
    let (mut index, mut are_known) = (Index::default(), true);
    let Scan { fault, .. } =
        scan(Kind::Log, File::open(path)?, |place, payload| match decode::<Chunk>(payload).filter(|_| are_known) {
            Some(chunk) => index.add(&chunk, chunk.data.len() as u64, HEAD as u64 + u64::from(place.len)),
            None => are_known = false,
        })?;
    let reason = fault.map(|error| error.to_string()).or_else(|| (!are_known).then(|| "unknown entry".to_owned()));
    if let Some(reason) = reason {
        tracing::warn!(path = %path.display(), reason, end = index.len, "a log is damaged; what follows is not read");
    }
    Ok(index)
}

/// Records of one attempt in one file.
#[derive(Debug)]
pub(super) struct AttemptRecords {
    path: PathBuf,
    from: u64,
    to: u64,
}

impl AttemptRecords {
    /// Reads chunks until there is no room for more; `room` is 0 then.
    pub(super) fn read(
        &self,
        key: &LogKey,
        stream: Option<LogStream>,
        after: u64,
        room: &mut usize,
        found: &mut Vec<Chunk>,
    ) -> io::Result<()> {
        let mut reader = SegmentReader::new(Kind::Log, File::open(&self.path)?, self.from..self.to, BUFFER)?;
        // A record begins with its key, and a key has one form. What is no record behind it is read, and found out.
        let own = encode(key)?;
        let is_wanted = |first: &[u8]| {
            let Some(rest) = first.strip_prefix(own.as_slice()) else { return false };
            decode_prefix(rest)
                .is_none_or(|(from, seq): (LogStream, u64)| seq > after && stream.is_none_or(|stream| stream == from))
        };
        while *room > 0 {
            let next = reader.read_if(FIRST, is_wanted).map_err(|error| self.explain(error))?;
            let Some((place, payload)) = next else { break };
            found.push(decode(payload).ok_or_else(|| self.damaged(place.end()))?);
            *room = room.saturating_sub(payload.len());
        }
        // The index says that whole records are up to there.
        if *room > 0 && reader.at() < self.to {
            return Err(self.damaged(reader.at()));
        }
        Ok(())
    }

    fn damaged(&self, at: u64) -> io::Error {
        self.explain(io::Error::new(io::ErrorKind::InvalidData, format!("no complete record found near byte {at}")))
    }

    /// Adds which file it is.
    fn explain(&self, error: io::Error) -> io::Error {
        io::Error::new(error.kind(), format!("the log file {} cannot be read: {error}", self.path.display()))
    }
}
