//! Reading a segment from its beginning or from a place in it. Owns checks of lengths and checksums; changes nothing.

use std::io::{self, BufReader, ErrorKind, Read, Seek, SeekFrom};
use std::ops::Range;

use super::{HEAD, Head, Kind, MAGIC, PAYLOAD_MAX, PayloadRange, damaged};

/// Bytes that are read at once from a segment that is read as a whole.
pub(crate) const BUFFER: usize = 256 << 10;

/// Reads payloads one after the other.
#[derive(Debug)]
pub struct SegmentReader<R> {
    kind: Kind,
    input: BufReader<R>,
    at: u64,
    end: u64,
    /// As long as the longest payload so far.
    payload: Vec<u8>,
}

impl<R: Read + Seek> SegmentReader<R> {
    /// Reads the part of a segment that begins and ends where entries do, or all of it. So many bytes are read at once.
    ///
    /// # Errors
    /// When the place cannot be reached.
    pub fn new(kind: Kind, mut input: R, part: Range<u64>, buffer: usize) -> io::Result<Self> {
        input.seek(SeekFrom::Start(part.start))?;
        let input = BufReader::with_capacity(buffer, input);
        Ok(Self { kind, input, at: part.start, end: part.end, payload: Vec::new() })
    }

    /// Where the next entry begins; 0 where the segment is not known to be of the kind.
    pub const fn at(&self) -> u64 {
        self.at
    }

    /// The next payload; none at the end, also where that is within an entry.
    ///
    /// # Errors
    /// Invalid data where something else than an entry stands, or the file is of another kind or version; others as the input
    /// has them.
    pub fn read(&mut self) -> io::Result<Option<(PayloadRange, &[u8])>> {
        self.read_if(0, |_| true)
    }

    /// The next payload of which so many first bytes, or all where it is shorter, are those of one that is wanted. Others are
    /// passed over and not checked.
    ///
    /// # Errors
    /// As of [`SegmentReader::read`].
    pub fn read_if(
        &mut self,
        first: usize,
        mut is_wanted: impl FnMut(&[u8]) -> bool,
    ) -> io::Result<Option<(PayloadRange, &[u8])>> {
        if self.at == 0 && !self.begin()? {
            return Ok(None);
        }
        let place = loop {
            let mut head = [0; HEAD];
            if self.at >= self.end || !is_whole(self.input.read_exact(&mut head))? {
                return Ok(None);
            }
            let head = Head::from_bytes(head);
            // No entry is empty, and a power cut leaves zeros.
            if head.len == 0 || head.len > PAYLOAD_MAX {
                let (at, len) = (self.at, head.len);
                let message = format!("the entry at byte {at} claims {len} bytes, expected 1 to {PAYLOAD_MAX}");
                return Err(damaged(message));
            }
            let (place, len) = (PayloadRange { offset: self.at + HEAD as u64, len: head.len }, head.len as usize);
            if self.payload.len() < len {
                self.payload.resize(len, 0);
            }
            let payload = self.payload.get_mut(..len).unwrap_or_default();
            let (start, rest) = payload.split_at_mut(first.min(len));
            if !is_whole(self.input.read_exact(start))? {
                return Ok(None);
            }
            if !is_wanted(start) {
                self.input.seek_relative(i64::try_from(rest.len()).map_err(io::Error::other)?)?;
                self.at = place.end();
                continue;
            }
            // The rest of it may be on its way.
            if !is_whole(self.input.read_exact(rest))? {
                return Ok(None);
            }
            head.check(payload, place)?;
            break place;
        };
        self.at = place.end();
        Ok(Some((place, self.payload.get(..place.len as usize).unwrap_or_default())))
    }

    /// Reads what names the kind. False where it is not all there.
    fn begin(&mut self) -> io::Result<bool> {
        let (mut magic, expected) = ([0; MAGIC], self.kind.magic());
        if !is_whole(self.input.read_exact(&mut magic))? {
            return Ok(false);
        }
        if magic != *expected {
            let (found, expected) = (magic.escape_ascii(), expected.escape_ascii());
            return Err(damaged(format!(
                "file header is `{found}`, expected `{expected}`: written by another version of this program, or not a segment"
            )));
        }
        self.at = MAGIC as u64;
        Ok(true)
    }
}

/// False for the end of the file.
fn is_whole(read: io::Result<()>) -> io::Result<bool> {
    match read {
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(false),
        read => read.map(|()| true),
    }
}

/// How far a segment is whole.
#[derive(Debug)]
pub struct Scan {
    /// Where the last whole entry ends; 0 when the file does not begin as a segment of its kind does.
    pub end: u64,
    /// What is wrong behind it; none where nothing is, or half an entry.
    pub fault: Option<io::Error>,
}

/// Reads a segment as far as it is whole. What it calls gets each payload with its place.
///
/// # Errors
/// Those of the input.
pub fn scan(kind: Kind, input: impl Read + Seek, mut each: impl FnMut(PayloadRange, &[u8])) -> io::Result<Scan> {
    let mut reader = SegmentReader::new(kind, input, 0..u64::MAX, BUFFER)?;
    let fault = loop {
        match reader.read() {
            Ok(Some((place, payload))) => each(place, payload),
            Ok(None) => break None,
            Err(error) if error.kind() == ErrorKind::InvalidData => break Some(error),
            Err(error) => return Err(error),
        }
    };
    Ok(Scan { end: reader.at(), fault })
}
