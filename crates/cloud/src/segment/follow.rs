//! Following a segment that another process writes to. Owns reading on from where it was; never waits.

use std::fs::File;
use std::io;
use std::path::Path;

use super::Kind;
use super::read::SegmentReader;

/// Bytes that are read at once.
const BUFFER: usize = 8 << 10;

/// Follows a segment that somebody else writes to.
#[derive(Debug)]
pub(crate) struct SegmentFollower {
    kind: Kind,
    file: File,
    at: u64,
}

impl SegmentFollower {
    /// From its beginning.
    pub(crate) fn open(kind: Kind, path: &Path) -> io::Result<Self> {
        Ok(Self::new(kind, File::open(path)?))
    }

    /// The same of one that is open.
    pub(crate) const fn new(kind: Kind, file: File) -> Self {
        Self { kind, file, at: 0 }
    }

    /// The file that was followed.
    pub(crate) fn into_file(self) -> File {
        self.file
    }

    /// Passes the payloads that were added, as far as they are whole, until the callback returns `false`. Says whether it
    /// came to the end.
    ///
    /// # Errors
    /// As of [`SegmentReader::read`].
    pub(crate) fn read(&mut self, mut each: impl FnMut(&[u8]) -> bool) -> io::Result<bool> {
        let mut reader = SegmentReader::new(self.kind, &self.file, self.at..u64::MAX, BUFFER)?;
        loop {
            let goes_on = reader.read()?.map(|(_, payload)| each(payload));
            self.at = reader.at();
            match goes_on {
                Some(true) => {}
                Some(false) => return Ok(false),
                None => return Ok(true),
            }
        }
    }
}
