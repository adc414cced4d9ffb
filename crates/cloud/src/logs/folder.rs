//! Logs in files of 64 Mi of checksummed records. Owns the files of a folder, what each holds of which
//! attempt, and their age.
//!
//! Servers may share the folder. Each term of leadership writes files of its own, and nobody changes those of another: what a
//! server that was stopped writes behind the back of the next is in nobody's index. A torn end, as a crash leaves it, is not read.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use orlop_core::error::{Class, Problem};
use orlop_core::id::Epoch;
use orlop_core::task::LogStream;
use orlop_core::time::Time;

use super::segment::{Segment, SegmentName};
use super::{Chunk, LogBackend, LogKey, LogOptions, LogSummary};

/// The logs below one folder.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    options: LogOptions,
    /// None while this server does not lead.
    files: Mutex<Option<Files>>,
}

#[derive(Debug)]
struct Files {
    epoch: Epoch,
    /// The last one is written to, if it is of this term.
    segments: BTreeMap<SegmentName, Segment>,
}

impl Folder {
    pub(super) fn new(path: PathBuf, options: LogOptions) -> Result<Self, Problem> {
        let folder = Self { path, options, files: Mutex::default() };
        fs::create_dir_all(&folder.path).map_err(|error| folder.failed("making a folder for", error))?;
        Ok(folder)
    }

    fn files(&self) -> MutexGuard<'_, Option<Files>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn failed(&self, doing: &str, error: io::Error) -> Problem {
        let class = Problem::from(io::Error::from(error.kind())).class;
        let message = format!("{doing} the logs in {} failed; check the disk and its rights", self.path.display());
        Problem::new(class, message).because(error)
    }

    fn scan(&self) -> io::Result<BTreeMap<SegmentName, Segment>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.path)? {
            names.extend(entry?.file_name().to_str().and_then(SegmentName::of_file));
        }
        names.sort_by_key(|name: &SegmentName| (name.number, Reverse(name.epoch)));
        let (mut segments, mut newest) = (BTreeMap::new(), Epoch(0));
        for name in names {
            // One that began beside or behind those of a later term was begun by a server that led no more.
            if name.epoch >= newest {
                newest = name.epoch;
                segments.insert(name, Segment::open(&self.path, name)?);
            }
        }
        Ok(segments)
    }
}

impl LogBackend for Folder {
    fn lead(&self, epoch: Epoch) -> Result<(), Problem> {
        // What was written in the term before is closed first.
        self.resign();
        let segments = self.scan().map_err(|error| self.failed("opening", error))?;
        *self.files() = Some(Files { epoch, segments });
        Ok(())
    }

    fn resign(&self) {
        *self.files() = None;
    }

    fn append(&self, chunks: &[Chunk]) -> Result<u64, Problem> {
        let mut files = self.files();
        let Some(files) = files.as_mut() else {
            return Err(Problem::new(
                Class::Transient,
                "this server is not the leader, so it stores no logs; try again",
            ));
        };
        files.append(&self.path, self.options, chunks).map_err(|error| self.failed("writing", error))
    }

    fn read(&self, key: &LogKey, stream: Option<LogStream>, after: u64, bytes: usize) -> Result<Vec<Chunk>, Problem> {
        let parts: Vec<_> = match self.files().as_ref() {
            Some(files) => files.segments.values().filter_map(|segment| segment.part(key, after)).collect(),
            None => Vec::new(),
        };
        let mut found = Vec::new();
        let mut room = bytes.max(1);
        for part in parts {
            match part.read(key, stream, after, &mut room, &mut found) {
                Ok(()) => {}
                // Deleted for its age since.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(self.failed("reading", error)),
            }
            if room == 0 {
                break;
            }
        }
        Ok(found)
    }

    fn summary(&self, key: &LogKey) -> Result<LogSummary, Problem> {
        let mut all = LogSummary::default();
        let files = self.files();
        let segments = files.iter().flat_map(|files| files.segments.values());
        for extent in segments.filter_map(|segment| segment.extent(key)) {
            all.bytes += extent.bytes;
            all.chunks += extent.chunks;
            all.dropped += extent.dropped;
            all.last_seq = all.last_seq.max(extent.last_seq);
        }
        Ok(all)
    }

    fn has_above(&self, key: &LogKey, seq: u64) -> bool {
        self.files().as_ref().and_then(|files| files.last_seq(key)).is_some_and(|last| last > seq)
    }

    fn retain(&self, before: Time, bytes: u64) -> Result<u64, Problem> {
        let mut files = self.files();
        let Some(files) = files.as_mut() else { return Ok(0) };
        let mut total: u64 = files.segments.values().map(Segment::len).sum();
        let mut gone = 0;
        // The file that is written to stays.
        while files.segments.len() > 1 {
            let Some((&name, oldest)) = files.segments.first_key_value() else { break };
            let (len, newest) = (oldest.len(), oldest.newest());
            if newest >= before && total <= bytes {
                break;
            }
            Segment::delete(&self.path, name).map_err(|error| self.failed("deleting", error))?;
            files.segments.remove(&name);
            total -= len;
            gone += len;
        }
        Ok(gone)
    }
}

impl Files {
    fn append(&mut self, folder: &Path, options: LogOptions, chunks: &[Chunk]) -> io::Result<u64> {
        let mut bytes = 0;
        for chunk in chunks {
            if self.last_seq(&chunk.key).is_some_and(|last| chunk.seq <= last) {
                continue;
            }
            self.active(folder, options)?.append(chunk)?;
            bytes += chunk.data.len() as u64;
        }
        // What came twice may have been written, and not be on disk yet.
        self.segments.values_mut().next_back().map_or(Ok(()), Segment::sync)?;
        Ok(bytes)
    }

    /// The file that is written to; a new one when there is none of this term, or it is full.
    fn active(&mut self, folder: &Path, options: LogOptions) -> io::Result<&mut Segment> {
        let last = self.segments.last_key_value();
        let goes_on = last.filter(|(_, segment)| segment.is_written() && segment.len() < options.segment_bytes);
        let name = match goes_on {
            Some((name, _)) => *name,
            None => {
                let number = last.map_or(1, |(name, _)| name.number + 1);
                if let Some(segment) = self.segments.values_mut().next_back() {
                    segment.seal()?;
                }
                let name = SegmentName { number, epoch: self.epoch };
                self.segments.insert(name, Segment::create(folder, name)?);
                name
            }
        };
        self.segments.get_mut(&name).ok_or_else(|| io::Error::other("the file that is written to is gone"))
    }

    fn last_seq(&self, key: &LogKey) -> Option<u64> {
        self.segments.values().rev().find_map(|segment| segment.extent(key)).map(|extent| extent.last_seq)
    }
}
