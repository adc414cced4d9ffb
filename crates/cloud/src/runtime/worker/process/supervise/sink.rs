//! Where a supervisor tells what becomes of attempts: the journal of each. Owns that a start, an end and output are written
//! in order; they may be read much later.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use nix::fcntl::Flock;
use nix::sys::eventfd::{EfdFlags, EventFd};
use orlop_core::task::TaskRef;

use super::report::Report;
use crate::runtime::worker::event::{AttemptEnd, AttemptEvents, LogCapacity, LogChunk, Started};
use crate::segment::write::SegmentWriter;

#[derive(Debug)]
struct Book {
    journal: SegmentWriter,
    over: bool,
    _lock: Flock<File>,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Sink {
    books: Mutex<BTreeMap<TaskRef, Book>>,
    dirty: Mutex<BTreeSet<TaskRef>>,
    /// Somebody wants to know when an attempt is over.
    heard: AtomicBool,
    /// Rings then, and when something was not written.
    pub(super) bell: EventFd,
}

impl Sink {
    pub(super) fn new() -> io::Result<Self> {
        let bell = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?;
        Ok(Self { books: Mutex::default(), dirty: Mutex::default(), heard: AtomicBool::new(true), bell })
    }

    /// Writes the journal of an attempt that is kept from now on, until its end is written.
    pub(super) fn open(&self, id: TaskRef, journal: SegmentWriter, lock: Flock<File>) {
        self.books().insert(id, Book { journal, over: false, _lock: lock });
    }

    /// From now on the end of an attempt is reported, or not.
    pub(super) fn listen(&self, listens: bool) {
        self.heard.store(listens, Ordering::SeqCst);
    }

    /// Attempts that are kept.
    pub(super) fn kept(&self) -> Vec<TaskRef> {
        self.books().keys().copied().collect()
    }

    /// Whether something waits to be written.
    pub(super) fn has_unwritten(&self) -> bool {
        !self.dirty.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// Writes what waits. False when the disk did not take all of it: that waits in memory.
    pub(super) fn write_out(&self) -> bool {
        let dirty = std::mem::take(&mut *self.dirty.lock().unwrap_or_else(PoisonError::into_inner));
        let (mut books, mut unwritten) = (self.books(), BTreeSet::new());
        for id in dirty {
            let Some(book) = books.get_mut(&id) else { continue };
            if book.journal.write().is_err() {
                unwritten.insert(id);
            } else if book.over {
                // With the lock goes the claim on the attempt: its end is written.
                books.remove(&id);
                if self.heard.load(Ordering::SeqCst) {
                    let _ = self.bell.write(1);
                }
            }
        }
        let all = unwritten.is_empty();
        self.dirty.lock().unwrap_or_else(PoisonError::into_inner).append(&mut unwritten);
        all
    }

    fn books(&self) -> MutexGuard<'_, BTreeMap<TaskRef, Book>> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, id: TaskRef, report: &Report) {
        let mut books = self.books();
        let Some(book) = books.get_mut(&id) else { return };
        // One that is too long is written by nobody: output comes in chunks, outputs and reasons are bounded.
        if book.journal.append(report).is_ok() {
            book.over |= matches!(report, Report::Ended(_));
            self.dirty.lock().unwrap_or_else(PoisonError::into_inner).insert(id);
        }
    }
}

impl AttemptEvents for Sink {
    fn started(&self, id: TaskRef, started: Started) {
        self.write(id, &Report::Started(started));
    }

    fn log(&self, id: TaskRef, chunk: LogChunk) -> LogCapacity {
        self.write(id, &Report::Log(chunk));
        LogCapacity::Free
    }

    fn ended(&self, id: TaskRef, end: AttemptEnd) {
        self.write(id, &Report::Ended(end));
    }

    fn flush(&self) {
        if !self.write_out() {
            let _ = self.bell.write(1);
        }
    }
}
