//! Limits of one piece of work: bytes, entries, and whether anybody still waits for it.

use std::io::{self, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use orlop_core::error::{Class, Problem};

use super::Limits;

/// Bytes copied at a time.
const CHUNK: usize = 64 * 1024;

/// Counts what one artifact takes.
#[derive(Debug)]
pub(super) struct Meter {
    limits: Limits,
    bytes: u64,
    entries: u64,
    stop: Arc<AtomicBool>,
    /// What can be done about the limit of bytes.
    hint: &'static str,
}

/// What is copied where, and what to say when either side fails.
pub(super) struct Stream<'a> {
    pub(super) reader: &'a mut dyn Read,
    pub(super) read_failed: &'a dyn Fn(io::Error) -> Problem,
    pub(super) writer: &'a mut dyn Write,
    pub(super) write_failed: &'a dyn Fn(io::Error) -> Problem,
}

impl Meter {
    pub(super) fn new(limits: Limits, stop: Arc<AtomicBool>) -> Self {
        Self { limits, bytes: 0, entries: 0, stop, hint: "; raise --artifact-max-bytes" }
    }

    /// One for a call that is waited for, with limits that nobody can set.
    pub(super) fn of_one_call(limits: Limits) -> Self {
        Self { hint: "", ..Self::new(limits, Arc::default()) }
    }

    /// One for bytes that do not count, that stops with this one.
    pub(super) fn unlimited(&self) -> Self {
        let limits = Limits { max_bytes: u64::MAX, max_entries: u64::MAX };
        Self::new(limits, Arc::clone(&self.stop))
    }

    /// Entries there may be.
    pub(super) fn max_entries(&self) -> u64 {
        self.limits.max_entries
    }

    /// Counts an entry.
    pub(super) fn entry(&mut self) -> Result<(), Problem> {
        self.wanted()?;
        self.entries += 1;
        if self.entries > self.limits.max_entries {
            return Err(self.too_many());
        }
        Ok(())
    }

    /// The error of an artifact with too many entries.
    pub(super) fn too_many(&self) -> Problem {
        let message = format!("the artifact has more than {} files, folders and links", self.limits.max_entries);
        Problem::new(Class::Invalid, message).with_reason("OutputTooLarge")
    }

    /// Holds while this many more bytes are within the limit; counts nothing.
    pub(super) fn allows(&self, bytes: u64) -> Result<(), Problem> {
        if bytes > self.limits.max_bytes.saturating_sub(self.bytes) {
            let message = format!("the artifact has more than {} bytes{}", self.limits.max_bytes, self.hint);
            return Err(Problem::new(Class::Invalid, message).with_reason("OutputTooLarge"));
        }
        Ok(())
    }

    fn wanted(&self) -> Result<(), Problem> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(Problem::new(Class::Transient, "no one waits for the artifact any more"));
        }
        Ok(())
    }

    /// Copies until the reader ends. Gives the number of bytes.
    pub(super) fn copy(&mut self, stream: Stream<'_>) -> Result<u64, Problem> {
        let mut buffer = vec![0; CHUNK];
        let mut copied = 0;
        loop {
            self.wanted()?;
            let read = match stream.reader.read(&mut buffer) {
                Ok(0) => return Ok(copied),
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err((stream.read_failed)(error)),
            };
            self.allows(read as u64)?;
            self.bytes += read as u64;
            copied += read as u64;
            stream.writer.write_all(buffer.get(..read).unwrap_or_default()).map_err(stream.write_failed)?;
        }
    }
}
