//! One file of records: appending, sealing, and reading the records of one attempt.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use orlop_core::id::Epoch;
use orlop_core::task::LogStream;
use orlop_core::time::Time;

use super::index::{Extent, Index};
use super::record::{FRAME, HEAD, body_len, decode, encode, head, is_whole};
use super::{Chunk, LogKey};
use crate::durable::sync_directory;

/// Bytes gathered before they are written.
const BUFFER: usize = 256 << 10;

#[derive(Debug)]
pub(super) struct Segment {
    path: PathBuf,
    index: Index,
    /// Of the segment that is written to.
    file: Option<File>,
    /// Records that are not in the file yet.
    buffer: Vec<u8>,
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
        let file = OpenOptions::new().append(true).create_new(true).open(&path)?;
        sync_directory(folder)?;
        Ok(Self { path, index: Index::default(), file: Some(file), buffer: Vec::new() })
    }

    /// A file that is there, of another term: it is read only. Its index is read, or made by walking over the records up to the
    /// first that is not whole. What the index says stands: who wrote the file may write on, and nobody reads that.
    pub(super) fn open(folder: &Path, name: SegmentName) -> io::Result<Self> {
        let path = name.path(folder);
        let len = fs::metadata(&path)?.len();
        let beside = path.with_extension("idx");
        let stored = fs::read_to_string(&beside).ok().and_then(|text| Index::load(&text));
        let index = match stored.filter(|index| index.len <= len) {
            Some(index) => index,
            None => {
                let index = walk(&path)?;
                if let Err(error) = index.store(&beside) {
                    let path = path.display();
                    tracing::warn!(%path, %error, "the index of a log is not written; it is made again at the next start");
                }
                index
            }
        };
        Ok(Self { path, index, file: None, buffer: Vec::new() })
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
        self.file.is_some()
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
        let before = self.buffer.len();
        encode(chunk, &mut self.buffer);
        let size = (self.buffer.len() - before) as u64;
        self.index.add(chunk, chunk.data.len() as u64, size);
        if self.buffer.len() >= BUFFER { self.flush() } else { Ok(()) }
    }

    /// Hands what is gathered to the system. On failure the file ends where it ended before, and so does the index.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let Some(file) = &mut self.file else { return Err(io::Error::other("the segment is sealed")) };
        let written = file.write_all(&self.buffer);
        let gathered = self.buffer.len() as u64;
        self.buffer.clear();
        if let Err(error) = written {
            let end = self.index.len - gathered;
            // Half a record is cut off; where that fails too nothing is written behind it.
            if file.set_len(end).is_err() {
                self.file = None;
            }
            self.index = walk(&self.path)?;
            return Err(error);
        }
        Ok(())
    }

    pub(super) fn sync(&mut self) -> io::Result<()> {
        self.flush()?;
        self.file.as_ref().map_or(Ok(()), File::sync_data)
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
        self.file = None;
        Ok(())
    }

    /// Where records of an attempt above a position are.
    pub(super) fn part(&self, key: &LogKey, after: u64) -> Option<AttemptRecords> {
        let extent = self.extent(key).filter(|extent| extent.last_seq > after)?;
        Some(AttemptRecords { path: self.path.clone(), from: extent.begin(after), to: extent.to })
    }
}

/// Makes the index of a file by its records, up to the first that is not whole.
fn walk(path: &Path) -> io::Result<Index> {
    let mut reader = BufReader::with_capacity(BUFFER, File::open(path)?);
    let mut index = Index::default();
    let mut body = Vec::new();
    loop {
        let mut frame = [0; FRAME];
        let Some(len) = whole(reader.read_exact(&mut frame))?.and_then(|()| body_len(&frame)) else { break };
        body.resize(len, 0);
        let Some(chunk) = whole(reader.read_exact(&mut body))?.and_then(|()| decode(&frame, &body)) else { break };
        index.add(&chunk, chunk.data.len() as u64, (FRAME + len) as u64);
    }
    Ok(index)
}

/// None for the end of the file.
fn whole(read: io::Result<()>) -> io::Result<Option<()>> {
    match read {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        other => other.map(Some),
    }
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
        let mut reader = BufReader::with_capacity(BUFFER, File::open(&self.path)?);
        reader.seek(SeekFrom::Start(self.from))?;
        let mut at = self.from;
        while at < self.to {
            let mut start = [0; FRAME + HEAD];
            reader.read_exact(&mut start)?;
            let (frame, first) = start.split_at(FRAME);
            let len = body_len(frame).ok_or_else(|| self.damaged(at))?;
            let mut told = head(first).ok_or_else(|| self.damaged(at))?;
            at += (FRAME + len) as u64;
            if told.key != *key || told.seq <= after || stream.is_some_and(|stream| stream != told.stream) {
                reader.seek_relative(i64::try_from(len - HEAD).unwrap_or(0))?;
                continue;
            }
            told.data = vec![0; len - HEAD];
            reader.read_exact(&mut told.data)?;
            if !is_whole(frame, first, &told.data) {
                return Err(self.damaged(at));
            }
            found.push(told);
            *room = room.saturating_sub(len);
            if *room == 0 {
                break;
            }
        }
        Ok(())
    }

    fn damaged(&self, at: u64) -> io::Error {
        let message = format!("the log file {} is damaged near byte {at}", self.path.display());
        io::Error::new(io::ErrorKind::InvalidData, message)
    }
}
