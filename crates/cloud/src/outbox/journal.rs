//! Entries of the outbox log, and the rows of segments that hold them, of which the last is written to. Owns rotation, the count
//! of entries each segment still holds that are needed, and removing the oldest; a row never knows what an entry means.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use orlop_core::task::{LogGap, TaskRef};
use serde::{Deserialize, Serialize};

use super::EntryNo;
use crate::runtime::worker::event::{AttemptEnd, LogChunk, Started};
use crate::segment::write::SegmentWriter;
use crate::segment::{Kind, PayloadRange, bytes};

/// What an entry says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Entry {
    /// An attempt was taken on; the bytes are the agent's own.
    Accepted(EntryNo, TaskRef, #[serde(with = "bytes")] Vec<u8>),
    /// An attempt was not taken on, for this reason.
    Rejected(EntryNo, TaskRef, String),
    /// It was given back before it started.
    Revoked(EntryNo, TaskRef),
    /// Its process or container runs.
    Started(EntryNo, TaskRef, Started),
    /// It ended.
    Ended(EntryNo, TaskRef, Box<AttemptEnd>),
    /// It wrote something.
    Log(EntryNo, TaskRef, LogChunk),
    /// Output before this entry is gone.
    Gap(EntryNo, TaskRef, LogGap),
    /// These entries are no longer needed: acknowledged, or given up.
    Released(Vec<EntryNo>),
}

/// Where an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Spot {
    /// Number of the segment.
    pub(super) segment: u64,
    /// Where in it.
    pub(super) place: PayloadRange,
}

#[derive(Debug)]
struct Kept {
    segment: SegmentWriter,
    /// Entries in it that are needed.
    needed: u64,
}

#[derive(Debug)]
pub(super) struct Journal {
    dir: PathBuf,
    prefix: char,
    rotate_at: u64,
    old: BTreeMap<u64, Kept>,
    number: u64,
    active: Kept,
}

impl Journal {
    /// Opens all segments with this prefix and makes a new one to write to. Each payload that is whole is passed with its
    /// spot; the caller keeps it with [`Journal::need`].
    pub(super) fn open(
        dir: &Path,
        prefix: char,
        rotate_at: u64,
        mut each: impl FnMut(Spot, &[u8]),
    ) -> io::Result<Self> {
        let mut numbers: Vec<u64> = Vec::new();
        for entry in fs::read_dir(dir)? {
            let name = entry?.file_name();
            let number: Option<u64> =
                name.to_str().and_then(|name| name.strip_prefix(prefix)?.strip_suffix(".seg")?.parse().ok());
            numbers.extend(number);
        }
        numbers.sort_unstable();
        let mut old = BTreeMap::new();
        for number in &numbers {
            let each_here = |place, payload: &[u8]| each(Spot { segment: *number, place }, payload);
            let segment = SegmentWriter::open(Kind::Outbox, &path(dir, prefix, *number), each_here)?;
            old.insert(*number, Kept { segment, needed: 0 });
        }
        let number = numbers.last().map_or(1, |last| last + 1);
        let active = Kept { segment: create(&path(dir, prefix, number))?, needed: 0 };
        Ok(Self { dir: dir.to_owned(), prefix, rotate_at, old, number, active })
    }

    /// Appends an entry that is needed until it is released, or not at all.
    pub(super) fn append(&mut self, entry: &Entry, needed: bool) -> io::Result<Spot> {
        if self.active.segment.end() >= self.rotate_at {
            self.rotate()?;
        }
        let place = self.active.segment.append(entry)?;
        self.active.needed += u64::from(needed);
        Ok(Spot { segment: self.number, place })
    }

    fn rotate(&mut self) -> io::Result<()> {
        self.write()?;
        let number = self.number + 1;
        let fresh = Kept { segment: create(&path(&self.dir, self.prefix, number))?, needed: 0 };
        self.old.insert(self.number, std::mem::replace(&mut self.active, fresh));
        self.number = number;
        self.clear()
    }

    fn kept(&mut self, spot: Spot) -> Option<&mut Kept> {
        if spot.segment == self.number { Some(&mut self.active) } else { self.old.get_mut(&spot.segment) }
    }

    /// Says that an entry found at the opening is needed.
    pub(super) fn need(&mut self, spot: Spot) {
        if let Some(kept) = self.kept(spot) {
            kept.needed += 1;
        }
    }

    /// Says that an entry is no longer needed.
    pub(super) fn release(&mut self, spot: Spot) {
        if let Some(kept) = self.kept(spot) {
            kept.needed = kept.needed.saturating_sub(1);
        }
    }

    /// Removes the oldest segments as long as nothing in them is needed. Younger ones stay until then: what releases an
    /// entry stands behind it.
    pub(super) fn clear(&mut self) -> io::Result<()> {
        while let Some(oldest) = self.old.first_entry().filter(|oldest| oldest.get().needed == 0) {
            let number = *oldest.key();
            oldest.remove();
            fs::remove_file(path(&self.dir, self.prefix, number))?;
        }
        Ok(())
    }

    /// The oldest segment that is not written to, if there are more bytes than this in all.
    pub(super) fn oldest_beyond(&self, bytes: u64) -> Option<u64> {
        let oldest = self.old.keys().next().copied();
        oldest.filter(|_| self.bytes() > bytes)
    }

    /// Bytes of all segments.
    pub(super) fn bytes(&self) -> u64 {
        self.old.values().chain([&self.active]).map(|kept| kept.segment.end()).sum()
    }

    /// Bytes that wait to be written.
    pub(super) fn waiting(&self) -> usize {
        self.active.segment.waiting()
    }

    /// Segment and offset of the first byte that waits.
    pub(super) fn written(&self) -> (u64, u64) {
        (self.number, self.active.segment.written())
    }

    /// Writes what waits.
    pub(super) fn write(&mut self) -> io::Result<()> {
        self.active.segment.write()
    }

    /// Gives up what waits.
    pub(super) fn give_up(&mut self) {
        self.active.segment.give_up();
    }

    /// Makes what is written last.
    pub(super) fn sync(&self) -> io::Result<()> {
        self.active.segment.sync()
    }

    /// Reads an entry back.
    pub(super) fn read(&self, spot: Spot) -> io::Result<Entry> {
        let old = self.old.get(&spot.segment);
        let kept = if spot.segment == self.number { Some(&self.active) } else { old };
        kept.ok_or(io::ErrorKind::NotFound)?.segment.read(spot.place)
    }
}

fn create(path: &Path) -> io::Result<SegmentWriter> {
    let file = OpenOptions::new().read(true).append(true).create_new(true).mode(0o600).open(path)?;
    Ok(SegmentWriter::begin(Kind::Outbox, file))
}

fn path(dir: &Path, prefix: char, number: u64) -> PathBuf {
    dir.join(format!("{prefix}{number:08}.seg"))
}

#[cfg(test)]
mod tests {
    use orlop_core::id::{Epoch, JobId};
    use orlop_core::task::{LogStream, TaskEnd, Usage};
    use orlop_core::time::Time;
    use proptest::prelude::*;

    use super::*;
    use crate::runtime::worker::event::{Kept, LogTotals};
    use crate::segment::{decode, encode};

    fn id() -> TaskRef {
        TaskRef { job: JobId::from_u64(u64::MAX), index: 1, member: 2, attempt: 3, epoch: Epoch(4) }
    }

    fn end() -> AttemptEnd {
        AttemptEnd {
            outcome: TaskEnd::Failed,
            exit_code: Some(-1),
            signal: None,
            reason: "oom".to_owned(),
            started_at: Some(Time::from_millis(-5)),
            finished_at: Time::from_millis(1_700_000_000_000),
            usage: Usage { cpu_ms: 1, max_rss: 2, io_read: 3, io_write: u64::MAX },
            outputs: BTreeMap::from([("a".to_owned(), "b".to_owned())]),
            log: LogTotals { bytes: 9, dropped_bytes: 8, dropped_chunks: 7, last_seq: 6 },
            tail: vec![0xff, 0],
            artifacts: vec![Kept {
                name: "n".into(),
                sha256: "0".repeat(64),
                bytes: 5,
                path: "a/b".into(),
                executable: true,
            }],
        }
    }

    #[test]
    fn every_kind_comes_back() {
        let chunk = LogChunk {
            stream: LogStream::Stderr,
            seq: 300,
            time: Time::from_millis(5),
            data: vec![0, 0xff],
            gap: Some(LogGap { chunks: 1, bytes: 2 }),
        };
        let no = EntryNo(1 << 40);
        let all = [
            Entry::Accepted(no, id(), vec![1, 2]),
            Entry::Rejected(no, id(), "full".to_owned()),
            Entry::Revoked(no, id()),
            Entry::Started(no, id(), Started { handle: "7@8".to_owned(), at: Time::EPOCH }),
            Entry::Ended(no, id(), Box::new(end())),
            Entry::Log(no, id(), chunk),
            Entry::Gap(no, id(), LogGap { chunks: 3, bytes: 4 }),
            Entry::Released(vec![EntryNo(7), EntryNo(8), EntryNo(u64::MAX), EntryNo(0)]),
        ];
        for entry in all {
            let mut bytes = encode(&entry).unwrap();
            assert_eq!(decode::<Entry>(&bytes).as_ref(), Some(&entry));
            for cut in 0..bytes.len() {
                assert_eq!(decode::<Entry>(&bytes[..cut]), None, "{entry:?} cut at {cut}");
            }
            bytes.push(0);
            assert_eq!(decode::<Entry>(&bytes), None, "more than one entry");
        }
    }

    /// Other bytes are another form: raise the digit of [`crate::segment::Kind::magic`] with them.
    #[test]
    fn entries_have_the_bytes_of_their_version() {
        let bytes = |entry: &Entry| encode(entry).unwrap().iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        insta::assert_snapshot!(bytes(&Entry::Accepted(EntryNo(300), id(), vec![1, 2])), @"00ac02ffffffffffffffffff0101030204020102");
        insta::assert_snapshot!(bytes(&Entry::Ended(EntryNo(1), id(), Box::new(end()))), @"0401ffffffffffffffffff0101030204066661696c6564010100036f6f6d010980a0abfef962010203ffffffffffffffffff0101016101620908070602ff0001016e40303030303030303030303030303030303030303030303030303030303030303030303030303030303030303030303030303030303030303030303030303030300503612f6201");
    }

    proptest! {
        #[test]
        fn no_bytes_harm_the_decoder_and_what_it_reads_it_can_write(
            kind in 0_u8..10,
            rest in proptest::collection::vec(any::<u8>(), 0..120),
        ) {
            let bytes: Vec<u8> = std::iter::once(kind).chain(rest).collect();
            if let Some(entry) = decode::<Entry>(&bytes) {
                prop_assert_eq!(decode(&encode(&entry).unwrap()), Some(entry));
            }
        }
    }
}
