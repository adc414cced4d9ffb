//! What a segment holds of which attempt. Owns the index in memory and its file beside a sealed segment.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use orlop_core::id::JobId;
use orlop_core::time::Time;

use super::{Chunk, LogKey};
use crate::durable::{Durable, replace};

/// What a segment holds of one attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
        let extent = self.extents.entry(chunk.key).or_insert(Extent {
            from,
            to,
            chunks: 0,
            bytes: 0,
            dropped: 0,
            first_seq: seq,
            last_seq: seq,
        });
        extent.to = to;
        extent.chunks += 1;
        extent.bytes += data;
        extent.dropped = extent.dropped.saturating_add(dropped);
        extent.last_seq = extent.last_seq.max(seq);
        self.newest = self.newest.max(chunk.time);
        self.len = to;
    }

    /// Writes it to a file, as lines of numbers; the last line counts them.
    pub(super) fn store(&self, path: &Path) -> io::Result<()> {
        use std::fmt::Write as _;
        let mut text = format!("1 {} {}\n", self.len, self.newest.millis());
        for (key, extent) in &self.extents {
            let LogKey { job, index, member, attempt } = key;
            let Extent { from, to, chunks, bytes, dropped, first_seq, last_seq } = extent;
            let job = job.as_u64();
            // Writing to a String cannot fail.
            let _ = writeln!(
                text,
                "{job} {index} {member} {attempt} {from} {to} {chunks} {bytes} {dropped} {first_seq} {last_seq}"
            );
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
            let mut numbers = line.split(' ').map(|number| number.parse::<u64>().ok());
            let mut next = || numbers.next().flatten();
            let job = JobId::from_u64(next()?);
            let key = LogKey {
                job,
                index: u32::try_from(next()?).ok()?,
                member: u32::try_from(next()?).ok()?,
                attempt: u32::try_from(next()?).ok()?,
            };
            let extent = Extent {
                from: next()?,
                to: next()?,
                chunks: next()?,
                bytes: next()?,
                dropped: next()?,
                first_seq: next()?,
                last_seq: next()?,
            };
            index.extents.insert(key, extent);
        }
        (index.extents.len() == count && rest.len() == count).then_some(index)
    }
}
