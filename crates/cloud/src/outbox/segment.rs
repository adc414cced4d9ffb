//! Files of the outbox log: entries one after the other, each with its length and checksum. Owns appending, finding where a
//! torn file ends, and reading one entry back; never knows what an entry means.
//!
//! ```text
//! 8 bytes "ORLSPL1\n"; then for each entry: length (4, little endian), CRC-32 of the payload (4), payload
//! ```

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// First bytes of every segment.
pub(super) const MAGIC: &[u8; 8] = b"ORLSPL1\n";
/// Bytes before a payload.
pub(super) const HEAD: usize = 8;
/// Longer payloads are written by nobody.
pub(super) const PAYLOAD_MAX: usize = 1 << 20;

/// Where a payload stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PayloadRange {
    /// From the beginning of the file.
    pub offset: u64,
    /// Bytes.
    pub len: u32,
}

/// Walks through the payloads of a segment as far as they are whole. What it calls gets each with its place; the answer
/// is where the whole part ends.
pub fn walk(bytes: &[u8], mut each: impl FnMut(PayloadRange, &[u8])) -> u64 {
    let Some(mut rest) = bytes.strip_prefix(MAGIC) else { return 0 };
    let mut at = MAGIC.len() as u64;
    while let Some((head, tail)) = rest.split_first_chunk::<HEAD>() {
        let [a, b, c, d, e, f, g, h] = *head;
        let (len, sum) = (u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h]));
        let Some((payload, after)) = tail.split_at_checked(len as usize) else { break };
        if len as usize > PAYLOAD_MAX || crc32fast::hash(payload) != sum {
            break;
        }
        each(PayloadRange { offset: at + HEAD as u64, len }, payload);
        at += HEAD as u64 + u64::from(len);
        rest = after;
    }
    at
}

/// A segment that is written to.
#[derive(Debug)]
pub(crate) struct Segment {
    path: PathBuf,
    file: File,
    /// Bytes of it, those that wait included.
    len: u64,
    /// Appended and not yet written.
    waiting: Vec<u8>,
}

impl Segment {
    /// Makes one.
    pub(super) fn create(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).append(true).create_new(true).mode(0o600).open(path)?;
        Ok(Self::empty(path, file))
    }

    fn empty(path: &Path, file: File) -> Self {
        Self { path: path.to_owned(), file, len: MAGIC.len() as u64, waiting: MAGIC.to_vec() }
    }

    /// Opens one that is there: its payloads are passed to the caller, and a torn end is cut off.
    pub(super) fn open(path: &Path, each: impl FnMut(PayloadRange, &[u8])) -> io::Result<Self> {
        let mut file = OpenOptions::new().read(true).append(true).open(path)?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        let whole = walk(&bytes, each);
        if whole < bytes.len() as u64 {
            let lost = bytes.len() as u64 - whole;
            tracing::warn!(path = %path.display(), lost, "a journal ends within an entry; its end is cut off");
            file.set_len(whole)?;
        }
        let waiting = if whole == 0 { MAGIC.to_vec() } else { Vec::new() };
        Ok(Self { path: path.to_owned(), file, len: whole.max(MAGIC.len() as u64), waiting })
    }

    /// Begins one in a file that is there, opened to be read and appended to; none where it was begun before.
    #[cfg(all(feature = "process", target_os = "linux"))]
    pub(crate) fn begin(path: &Path, file: File) -> io::Result<Option<Self>> {
        let new = file.metadata()?.len() == 0;
        Ok(new.then(|| Self::empty(path, file)))
    }

    pub(super) const fn len(&self) -> u64 {
        self.len
    }

    /// Appends a payload, which is on its way to the file until [`Segment::write`].
    pub(crate) fn append(&mut self, payload: &[u8]) -> io::Result<PayloadRange> {
        let len = u32::try_from(payload.len()).ok().filter(|len| *len as usize <= PAYLOAD_MAX);
        let len = len.ok_or_else(|| io::Error::new(ErrorKind::InvalidInput, "an entry is longer than 1 MiB"))?;
        self.waiting.extend_from_slice(&len.to_le_bytes());
        self.waiting.extend_from_slice(&crc32fast::hash(payload).to_le_bytes());
        self.waiting.extend_from_slice(payload);
        let place = PayloadRange { offset: self.len + HEAD as u64, len };
        self.len += HEAD as u64 + u64::from(len);
        Ok(place)
    }

    /// Bytes that wait.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Writes what waits. After an error nothing of it is in the file, and all of it still waits.
    pub(crate) fn write(&mut self) -> io::Result<()> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        let before = self.len - self.waiting.len() as u64;
        if let Err(error) = self.file.write_all(&self.waiting) {
            self.file.set_len(before)?;
            return Err(error);
        }
        self.waiting.clear();
        Ok(())
    }

    /// Gives up what waits.
    pub(super) fn give_up(&mut self) {
        self.len -= self.waiting.len() as u64;
        self.waiting.clear();
    }

    /// Makes what is written last.
    pub(super) fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    /// Reads a payload back.
    pub(super) fn read(&self, place: PayloadRange) -> io::Result<Vec<u8>> {
        let written = self.len - self.waiting.len() as u64;
        let mut payload = vec![0; place.len as usize];
        match place.offset.checked_sub(written) {
            Some(offset) => {
                let from = usize::try_from(offset).map_err(io::Error::other)?;
                let found = self.waiting.get(from..from + place.len as usize);
                payload.copy_from_slice(found.ok_or(ErrorKind::UnexpectedEof)?);
            }
            None => self.file.read_exact_at(&mut payload, place.offset)?,
        }
        Ok(payload)
    }

    /// Removes it.
    pub(super) fn remove(self) -> io::Result<()> {
        fs::remove_file(&self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_torn_end_is_cut_off_and_the_rest_goes_on() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let mut segment = Segment::create(&path).unwrap();
        let places = [segment.append(b"one").unwrap(), segment.append(b"").unwrap(), segment.append(b"three").unwrap()];
        assert_eq!(segment.read(places[2]).unwrap(), b"three");
        segment.write().unwrap();
        assert_eq!(segment.read(places[0]).unwrap(), b"one");
        drop(segment);
        let whole = fs::read(&path).unwrap();
        for cut in 0..whole.len() {
            fs::write(&path, &whole[..cut]).unwrap();
            let mut seen = Vec::new();
            let mut segment = Segment::open(&path, |_, payload| seen.push(payload.to_vec())).unwrap();
            let expected = [b"one".to_vec(), Vec::new(), b"three".to_vec()];
            assert_eq!(seen, expected[..seen.len()]);
            assert_eq!(seen.len(), usize::from(cut >= 19) + usize::from(cut >= 27));
            segment.append(b"more").unwrap();
            segment.write().unwrap();
            let mut last = Vec::new();
            Segment::open(&path, |_, payload| last = payload.to_vec()).unwrap();
            assert_eq!(last, b"more", "cut at {cut}");
        }
    }

    #[test]
    fn a_changed_byte_ends_the_whole_part() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let mut segment = Segment::create(&path).unwrap();
        segment.append(b"one").unwrap();
        segment.append(b"two").unwrap();
        segment.write().unwrap();
        let whole = fs::read(&path).unwrap();
        for index in 19..whole.len() {
            let mut bytes = whole.clone();
            bytes[index] ^= 1;
            let mut count = 0;
            assert_eq!(walk(&bytes, |_, _| count += 1), 19);
            assert_eq!(count, 1);
        }
    }
}
