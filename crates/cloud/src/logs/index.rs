//! What a segment holds of which attempt.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::Path;

use orlop_core::time::Time;
use serde::{Deserialize, Serialize};

use super::{Chunk, LogKey};
use crate::durable::{Durable, replace};
use crate::segment::read::{BUFFER, SegmentReader};
use crate::segment::{Kind, MAGIC, decode, put};

/// Bytes of a segment from one mark of an attempt to its next.
const MARKED: u64 = 1 << 20;

/// What a segment holds of one attempt.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Extent {
    /// Where its first record begins.
    pub(super) from: u64,
    /// Where its last record ends.
    pub(super) to: u64,
    pub(super) chunks: u64,
    pub(super) bytes: u64,
    pub(super) dropped: u64,
    pub(super) first_seq: u64,
    pub(super) last_seq: u64,
    /// From time to time, where a record ends and its position: who has read up to it need not begin before.
    pub(super) marks: Vec<(u64, u64)>,
}

impl Extent {
    /// Where records above a position begin, or a little before.
    pub(super) fn begin(&self, after: u64) -> u64 {
        let passed = self.marks.partition_point(|(_, seq)| *seq <= after);
        passed.checked_sub(1).and_then(|last| self.marks.get(last)).map_or(self.from, |(end, _)| *end)
    }
}

/// The index of a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Index {
    pub(super) extents: BTreeMap<LogKey, Extent>,
    /// Time of the newest chunk.
    pub(super) newest: Time,
    /// Where the last record ends.
    pub(super) len: u64,
}

impl Default for Index {
    fn default() -> Self {
        Self { extents: BTreeMap::new(), newest: Time::from_millis(i64::MIN), len: MAGIC as u64 }
    }
}

impl Index {
    /// Notes a record of so many bytes behind all others.
    pub(super) fn add(&mut self, chunk: &Chunk, data: u64, size: u64) {
        let (from, to) = (self.len, self.len + size);
        let (seq, dropped) = (chunk.seq, chunk.gap.bytes);
        let extent = self.extents.entry(chunk.key);
        let extent = extent.or_insert_with(|| Extent { from, first_seq: seq, last_seq: seq, ..Extent::default() });
        extent.to = to;
        extent.chunks += 1;
        extent.bytes += data;
        extent.dropped = extent.dropped.saturating_add(dropped);
        extent.last_seq = extent.last_seq.max(seq);
        if to - extent.marks.last().map_or(extent.from, |(end, _)| *end) >= MARKED {
            extent.marks.push((to, extent.last_seq));
        }
        self.newest = self.newest.max(chunk.time);
        self.len = to;
    }

    /// Writes it to a file: what it is of and how many attempts, then each of them.
    pub(super) fn store(&self, path: &Path) -> io::Result<()> {
        let mut bytes = Kind::LogIndex.magic().to_vec();
        put(&(self.len, self.newest, self.extents.len()), &mut bytes)?;
        for extent in &self.extents {
            put(&extent, &mut bytes)?;
        }
        replace(path, &bytes, Durable::Yes)
    }

    /// Reads such a file; none when it is not whole, and the segment itself is to be read.
    pub(super) fn load(path: &Path) -> io::Result<Option<Self>> {
        let mut reader = SegmentReader::new(Kind::LogIndex, File::open(path)?, 0..u64::MAX, BUFFER)?;
        let first: Option<(u64, Time, usize)> = reader.read()?.and_then(|(_, payload)| decode(payload));
        let Some((len, newest, count)) = first else { return Ok(None) };
        let mut extents = BTreeMap::new();
        while let Some((_, payload)) = reader.read()? {
            let Some((key, extent)) = decode(payload) else { return Ok(None) };
            extents.insert(key, extent);
        }
        let is_whole = extents.len() == count;
        Ok(is_whole.then_some(Self { extents, newest, len }))
    }
}

#[cfg(test)]
mod tests {
    use orlop_core::id::JobId;
    use orlop_core::task::LogStream;

    use super::super::Gap;
    use super::*;

    #[test]
    fn who_reads_on_begins_near_where_it_was_also_after_a_restart() {
        let key = |job| LogKey { job: JobId::from_u64(job), index: 0, member: 0, attempt: 1 };
        let (mut index, size) = (Index::default(), 40_000);
        for seq in 1..=300 {
            for job in [1, 2] {
                let (time, gap, data) = (Time::from_millis(0), Gap::default(), Vec::new());
                index.add(&Chunk { key: key(job), stream: LogStream::Stdout, seq, time, gap, data }, size, size);
            }
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("1.idx");
        index.store(&path).unwrap();
        let loaded = Index::load(&path).unwrap().unwrap();
        assert_eq!(loaded, index);
        let extent = &loaded.extents[&key(2)];
        for after in 0..300 {
            // The record of the next position begins here.
            let next = MAGIC as u64 + (after * 2 + 1) * size;
            let begin = extent.begin(after);
            assert!(begin <= next && next - begin < MARKED + 2 * size, "{after}: {begin} for {next}");
            assert_eq!((begin - MAGIC as u64) % size, 0, "a record begins there");
        }
    }
}
