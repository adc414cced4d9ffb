//! What a segment holds of which attempt.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use orlop_core::id::JobId;
use orlop_core::time::Time;

use super::{Chunk, LogKey};
use crate::durable::{Durable, replace};

/// Bytes of a segment from one mark of an attempt to its next.
const MARKED: u64 = 1 << 20;

/// What a segment holds of one attempt.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
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
        Self { extents: BTreeMap::new(), newest: Time::from_millis(i64::MIN), len: 0 }
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

    /// Writes it to a file, as lines of numbers; the last line counts them. Marks stand at the end of the line, where there are
    /// some.
    pub(super) fn store(&self, path: &Path) -> io::Result<()> {
        use std::fmt::Write as _;
        let mut text = format!("1 {} {}\n", self.len, self.newest.millis());
        for (key, extent) in &self.extents {
            let LogKey { job, index, member, attempt } = key;
            let Extent { from, to, chunks, bytes, dropped, first_seq, last_seq, marks } = extent;
            let job = job.as_u64();
            // Writing to a String cannot fail.
            let _ = write!(
                text,
                "{job} {index} {member} {attempt} {from} {to} {chunks} {bytes} {dropped} {first_seq} {last_seq}"
            );
            for (end, seq) in marks {
                let _ = write!(text, " {end} {seq}");
            }
            text.push('\n');
        }
        let _ = writeln!(text, "{}", self.extents.len());
        replace(path, text.as_bytes(), Durable::Yes)
    }

    /// Reads such a file; none when it is not whole, and the segment itself is to be read.
    pub(super) fn load(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        let mut first = lines.next()?.split(' ');
        if first.next()? != "1" {
            return None;
        }
        let mut index = Self { len: first.next()?.parse().ok()?, ..Self::default() };
        index.newest = Time::from_millis(first.next()?.parse().ok()?);
        let mut rest: Vec<&str> = lines.collect();
        let count: usize = rest.pop()?.parse().ok()?;
        for line in &rest {
            let numbers: Vec<u64> = line.split(' ').map(str::parse).collect::<Result<_, _>>().ok()?;
            let mut numbers = numbers.into_iter();
            let mut next = || numbers.next();
            let job = JobId::from_u64(next()?);
            let key = LogKey {
                job,
                index: u32::try_from(next()?).ok()?,
                member: u32::try_from(next()?).ok()?,
                attempt: u32::try_from(next()?).ok()?,
            };
            let mut extent = Extent {
                from: next()?,
                to: next()?,
                chunks: next()?,
                bytes: next()?,
                dropped: next()?,
                first_seq: next()?,
                last_seq: next()?,
                marks: Vec::new(),
            };
            while let Some(end) = next() {
                extent.marks.push((end, next()?));
            }
            index.extents.insert(key, extent);
        }
        (index.extents.len() == count && rest.len() == count).then_some(index)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Gap;
    use super::*;
    use orlop_core::task::LogStream;

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
        let loaded = Index::load(&std::fs::read_to_string(&path).unwrap()).unwrap();
        assert_eq!(loaded, index);
        let extent = &loaded.extents[&key(2)];
        for after in 0..300 {
            // The record of the next position begins here.
            let next = (after * 2 + 1) * size;
            let begin = extent.begin(after);
            assert!(begin <= next && next - begin < MARKED + 2 * size, "{after}: {begin} for {next}");
            assert_eq!(begin % size, 0, "a record begins there");
        }
    }
}
