//! A row of segments of which the last is written to. Owns rotation, the count of entries each still holds that are
//! needed, and removing the oldest; never knows what an entry means.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::entry::Entry;
use crate::segment::write::SegmentWriter;
use crate::segment::{Kind, PayloadRange};

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
