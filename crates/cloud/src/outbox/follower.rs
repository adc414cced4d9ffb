//! Following a segment that another process writes to. Owns reading on from where it was; never waits.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::segment::{HEAD, MAGIC, PAYLOAD_MAX};

/// Follows a segment that somebody else writes to.
#[derive(Debug)]
pub(crate) struct Follower {
    file: File,
    at: u64,
}

impl Follower {
    /// From its beginning.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        Ok(Self { file: File::open(path)?, at: 0 })
    }

    /// The same of one that is open.
    pub(crate) const fn of(file: File) -> Self {
        Self { file, at: 0 }
    }

    /// The file that was followed.
    pub(crate) fn into_file(self) -> File {
        self.file
    }

    /// Passes the payloads that were added, as far as they are whole, until the callback returns `false`. Says whether it
    /// came to the end.
    pub(crate) fn read(&mut self, mut each: impl FnMut(&[u8]) -> bool) -> io::Result<bool> {
        if self.at == 0 {
            let mut magic = [0; MAGIC.len()];
            match self.file.read_exact_at(&mut magic, 0) {
                Ok(()) if magic == *MAGIC => self.at = MAGIC.len() as u64,
                Ok(()) => return Err(io::Error::new(ErrorKind::InvalidData, "it is no journal")),
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(true),
                Err(error) => return Err(error),
            }
        }
        loop {
            let mut head = [0; HEAD];
            match self.file.read_exact_at(&mut head, self.at) {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(true),
                Err(error) => return Err(error),
            }
            let [a, b, c, d, e, f, g, h] = head;
            let (len, sum) = (u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h]));
            if len as usize > PAYLOAD_MAX {
                return Err(io::Error::new(ErrorKind::InvalidData, "an entry is longer than any that is written"));
            }
            let mut payload = vec![0; len as usize];
            match self.file.read_exact_at(&mut payload, self.at + HEAD as u64) {
                Ok(()) => {}
                // The rest of it is on its way, or never comes.
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(true),
                Err(error) => return Err(error),
            }
            if crc32fast::hash(&payload) != sum {
                return Err(io::Error::new(ErrorKind::InvalidData, "an entry is not what was written"));
            }
            self.at += HEAD as u64 + u64::from(len);
            if !each(&payload) {
                return Ok(false);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::segment::Segment;
    use super::*;

    #[test]
    fn who_follows_sees_every_entry_once_as_soon_as_it_is_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        fs::write(&path, "").unwrap();
        let mut follower = Follower::open(&path).unwrap();
        let mut segment = Segment::open(&path, |_, _| {}).unwrap();
        let (mut seen, mut whole) = (Vec::new(), Vec::new());
        for text in [&b"one"[..], b"", b"three"] {
            segment.append(text).unwrap();
            segment.write().unwrap();
            whole = fs::read(&path).unwrap();
            follower
                .read(|payload| {
                    seen.push(payload.to_vec());
                    true
                })
                .unwrap();
        }
        assert_eq!(seen, [b"one".to_vec(), Vec::new(), b"three".to_vec()]);
        let copy = dir.path().join("copy");
        for cut in 0..whole.len() {
            fs::write(&copy, &whole[..cut]).unwrap();
            let (mut follower, mut count) = (Follower::open(&copy).unwrap(), 0);
            let mut tell = |_: &[u8]| {
                count += 1;
                true
            };
            assert!(follower.read(&mut tell).unwrap());
            fs::write(&copy, &whole).unwrap();
            assert!(follower.read(&mut tell).unwrap());
            assert_eq!(count, 3, "cut at {cut}");
        }
    }
}
