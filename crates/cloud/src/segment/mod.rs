//! Files of checksummed entries, appended one after the other: the outbox of a worker, the journals of attempts under a
//! supervisor, logs and their indexes. Owns the form of such a file and finds the end of a file whose last entry is incomplete; does not know what an entry means.
//!
//! ```text
//! 8 bytes that name the kind and the version of its entries; then for each entry:
//! length of the payload (4, little endian), CRC-32 of the payload (4, little endian), payload
//! ```
//!
//! A payload is one entry, encoded with postcard.

#[cfg(all(feature = "process", feature = "worker", target_os = "linux"))]
pub(crate) mod follow;
pub mod read;
#[cfg(test)]
mod tests;
pub mod write;

use std::io::{self, ErrorKind};

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Bytes that name the kind.
pub(crate) const MAGIC: usize = 8;
/// Bytes before a payload.
pub(crate) const HEAD: usize = 8;
/// Longer payloads are written by nobody.
pub(crate) const PAYLOAD_MAX: u32 = 1 << 20;

/// What the entries of a segment are of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The outbox of a worker.
    Outbox,
    /// What a supervisor says of one attempt.
    Attempt,
    /// Logs of the fleet.
    Log,
    /// What a segment of logs holds of which attempt.
    LogIndex,
}

impl Kind {
    /// The first bytes of every segment of this kind. The digit is the version of its entries: it grows when their form changes,
    /// so that none is read as something else.
    #[must_use]
    pub const fn magic(self) -> &'static [u8; MAGIC] {
        match self {
            Self::Outbox => b"ORLOUT1\n",
            Self::Attempt => b"ORLATT1\n",
            Self::Log => b"ORLLOG1\n",
            Self::LogIndex => b"ORLIDX1\n",
        }
    }
}

/// Where a payload stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PayloadRange {
    /// From the beginning of the file.
    pub offset: u64,
    /// Bytes.
    pub len: u32,
}

impl PayloadRange {
    /// Where the entry after it begins.
    #[must_use]
    pub fn end(self) -> u64 {
        self.offset + u64::from(self.len)
    }
}

/// What stands before a payload.
#[derive(Clone, Copy, Debug)]
struct Head {
    len: u32,
    sum: u32,
}

impl Head {
    const fn from_bytes(bytes: [u8; HEAD]) -> Self {
        let [a, b, c, d, e, f, g, h] = bytes;
        Self { len: u32::from_le_bytes([a, b, c, d]), sum: u32::from_le_bytes([e, f, g, h]) }
    }

    /// Whether a payload at this place is what was written.
    fn check(self, payload: &[u8], place: PayloadRange) -> io::Result<()> {
        if crc32fast::hash(payload) == self.sum {
            return Ok(());
        }
        Err(damaged(format!("checksum mismatch in the entry that ends at byte {}", place.end())))
    }
}

fn damaged(message: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, message)
}

/// Appends an entry with its length and checksum. Gives the length of its payload.
///
/// # Errors
/// When the payload is longer than 1 MiB; then nothing is appended.
pub fn put(entry: &impl Serialize, out: &mut Vec<u8>) -> io::Result<u32> {
    let before = out.len();
    out.extend_from_slice(&[0; HEAD]);
    let written = postcard::to_io(entry, &mut *out).map(|_| ()).map_err(io::Error::other);
    let finished = written.and_then(|()| finish(out.get_mut(before..).unwrap_or_default()));
    if finished.is_err() {
        out.truncate(before);
    }
    finished
}

/// Writes the head before a payload.
fn finish(frame: &mut [u8]) -> io::Result<u32> {
    let (head, payload) = frame.split_first_chunk_mut::<HEAD>().ok_or(ErrorKind::UnexpectedEof)?;
    let len = u32::try_from(payload.len()).ok().filter(|len| *len <= PAYLOAD_MAX).ok_or_else(|| {
        let message = format!("an entry has {} bytes, at most {PAYLOAD_MAX} fit", payload.len());
        io::Error::new(ErrorKind::InvalidInput, message)
    })?;
    let (first, second) = head.split_at_mut(4);
    first.copy_from_slice(&len.to_le_bytes());
    second.copy_from_slice(&crc32fast::hash(payload).to_le_bytes());
    Ok(len)
}

/// An entry, or what one begins with, as bytes.
///
/// # Errors
/// When its type cannot be encoded.
pub fn encode(entry: &impl Serialize) -> io::Result<Vec<u8>> {
    postcard::to_allocvec(entry).map_err(io::Error::other)
}

/// What an entry begins with, from the first bytes of its payload; none when they are not that.
#[must_use]
pub fn decode_prefix<T: DeserializeOwned>(first: &[u8]) -> Option<T> {
    postcard::take_from_bytes(first).ok().map(|(value, _)| value)
}

/// The entry of a payload; none when the bytes are none, or more than one.
#[must_use]
pub fn decode<T: DeserializeOwned>(payload: &[u8]) -> Option<T> {
    let (entry, rest) = postcard::take_from_bytes(payload).ok()?;
    rest.is_empty().then_some(entry)
}

/// Bytes in entries as one piece: serde by itself takes a `Vec<u8>` for a list, and goes through it byte by byte.
pub(crate) mod bytes {
    use std::fmt;

    use serde::de::{Error, Visitor};
    use serde::{Deserializer, Serializer};

    /// Writes bytes.
    pub(crate) fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(bytes)
    }

    /// Reads bytes.
    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
        struct Bytes;

        impl Visitor<'_> for Bytes {
            type Value = Vec<u8>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("bytes")
            }

            fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Vec<u8>, E> {
                Ok(bytes.to_vec())
            }
        }

        deserializer.deserialize_bytes(Bytes)
    }
}
