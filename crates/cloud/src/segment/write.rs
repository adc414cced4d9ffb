//! Writing a segment. Owns what waits to be written, and that a file never has half an entry before others; never decides when
//! a segment is full.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::read::{Scan, scan};
use super::{HEAD, Head, Kind, MAGIC, PayloadRange, damaged, decode, put};

/// A segment that is written to.
#[derive(Debug)]
pub struct SegmentWriter {
    /// Opened to be read and appended to.
    file: File,
    /// Bytes of it, those that wait included.
    len: u64,
    /// Appended and not yet written.
    waiting: Vec<u8>,
    /// Half an entry is at the end of the file and could not be cut off.
    torn: bool,
}

impl SegmentWriter {
    /// Begins one in an empty file, opened to be read and appended to.
    pub fn begin(kind: Kind, file: File) -> Self {
        Self { file, len: MAGIC as u64, waiting: kind.magic().to_vec(), torn: false }
    }

    /// Goes on in a file that holds nothing but the bytes that name its kind, opened to be read and appended to.
    #[cfg(all(feature = "process", feature = "worker", target_os = "linux"))]
    pub(crate) const fn without_entries(file: File) -> Self {
        Self { file, len: MAGIC as u64, waiting: Vec::new(), torn: false }
    }

    /// Opens one that is there: its payloads are passed to the caller, and an end that is not whole is cut off. A file of another
    /// kind or version is kept under its name with `.unreadable` behind it, and a new one begins.
    pub fn open(kind: Kind, path: &Path, each: impl FnMut(PayloadRange, &[u8])) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).append(true).open(path)?;
        let Scan { end, fault } = scan(kind, &file, each)?;
        if let (0, Some(error)) = (end, &fault) {
            let mut kept = path.as_os_str().to_owned();
            kept.push(".unreadable");
            tracing::warn!(path = %path.display(), kept = %kept.display(), %error, "a journal cannot be read and is set aside");
            fs::rename(path, kept)?;
            let file = OpenOptions::new().read(true).append(true).create_new(true).mode(0o600).open(path)?;
            return Ok(Self::begin(kind, file));
        }
        let lost = file.metadata()?.len().saturating_sub(end);
        if lost > 0 {
            let reason = fault.map_or_else(|| "it ends within an entry".to_owned(), |error| error.to_string());
            tracing::warn!(path = %path.display(), lost, reason, "truncated the damaged end of a journal");
            file.set_len(end)?;
        }
        if end == 0 {
            return Ok(Self::begin(kind, file));
        }
        Ok(Self { file, len: end, waiting: Vec::new(), torn: false })
    }

    /// Where in the file the next entry will be.
    pub const fn end(&self) -> u64 {
        self.len
    }

    /// Appends an entry, which is on its way to the file until [`SegmentWriter::write`].
    ///
    /// # Errors
    /// As of [`put`].
    pub fn append(&mut self, entry: &impl Serialize) -> io::Result<PayloadRange> {
        let len = put(entry, &mut self.waiting)?;
        let place = PayloadRange { offset: self.len + HEAD as u64, len };
        self.len = place.end();
        Ok(place)
    }

    /// Bytes that wait.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Where in the file the first byte that waits will be.
    pub fn written(&self) -> u64 {
        self.len - self.waiting.len() as u64
    }

    /// Whether half an entry is at the end of the file and could not be cut off.
    pub const fn is_torn(&self) -> bool {
        self.torn
    }

    /// Writes what waits. After an error nothing of it is in the file, and all of it still waits.
    pub fn write(&mut self) -> io::Result<()> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        let before = self.written();
        if self.torn {
            self.file.set_len(before)?;
            self.torn = false;
        }
        if let Err(error) = self.file.write_all(&self.waiting) {
            // The next call cuts it off where this one cannot; what was wrong first counts.
            self.torn = self.file.set_len(before).is_err();
            return Err(error);
        }
        self.waiting.clear();
        Ok(())
    }

    /// Gives up what waits, but for how every segment begins.
    pub fn give_up(&mut self) {
        let kept = if self.written() == 0 { MAGIC } else { 0 };
        self.len = self.written() + kept as u64;
        self.waiting.truncate(kept);
    }

    /// Makes what is written last.
    pub fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    /// Reads an entry back.
    ///
    /// # Errors
    /// Invalid data where the file has something else there; others as the file has them.
    pub fn read<T: DeserializeOwned>(&self, place: PayloadRange) -> io::Result<T> {
        let (from, len) = (place.offset.saturating_sub(HEAD as u64), HEAD + place.len as usize);
        let read;
        let frame = match from.checked_sub(self.written()) {
            Some(from) => {
                let from = usize::try_from(from).map_err(io::Error::other)?;
                self.waiting.get(from..from + len).ok_or(ErrorKind::UnexpectedEof)?
            }
            None => {
                let mut frame = vec![0; len];
                self.file.read_exact_at(&mut frame, from)?;
                read = frame;
                &read
            }
        };
        let (head, payload) = frame.split_first_chunk::<HEAD>().ok_or(ErrorKind::UnexpectedEof)?;
        Head::from_bytes(*head).check(payload, place)?;
        decode(payload).ok_or_else(|| damaged(format!("unknown entry that ends at byte {}", place.end())))
    }
}
