//! SHA-256 of bytes on their way to a file, and of a whole file.

use std::io::{self, Read, Write};

use orlop_core::error::Problem;
use sha2::{Digest as _, Sha256};

use super::meter::{Meter, Stream};

/// A writer that knows the digest and number of the bytes that went through it.
pub(super) struct Hashing<W> {
    inner: W,
    hash: Sha256,
    bytes: u64,
}

impl<W: Write> Hashing<W> {
    pub(super) fn new(inner: W) -> Self {
        Self { inner, hash: Sha256::new(), bytes: 0 }
    }

    /// The writer, the digest in lower-case hexadecimal and the number of bytes.
    pub(super) fn finish(self) -> (W, String, u64) {
        let mut text = String::with_capacity(64);
        for byte in self.hash.finalize() {
            for nibble in [byte >> 4, byte & 15] {
                text.push(char::from_digit(u32::from(nibble), 16).unwrap_or('0'));
            }
        }
        (self.inner, text, self.bytes)
    }
}

impl<W: Write> Write for Hashing<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.hash.update(bytes.get(..written).unwrap_or_default());
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// Digest of everything a reader gives.
pub(super) fn of(
    reader: &mut dyn Read,
    read_failed: &dyn Fn(io::Error) -> Problem,
    meter: &Meter,
) -> Result<String, Problem> {
    let mut hashing = Hashing::new(io::sink());
    // Stored bytes may be more than the limit of what they unpack to.
    meter.unlimited().copy(Stream { reader, read_failed, writer: &mut hashing, write_failed: read_failed })?;
    Ok(hashing.finish().1)
}
