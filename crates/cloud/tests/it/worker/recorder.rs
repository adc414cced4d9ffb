//! Records what a runtime reports. Owns waiting for it, with a limit.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};

use orlop_cloud::runtime::worker::{AttemptEnd, AttemptEvents, LogCapacity, LogChunk, Started};
use orlop_core::task::{LogStream, TaskRef};

/// How long anything may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// What was reported of one attempt.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reports {
    pub(crate) started: Option<Started>,
    pub(crate) chunks: Vec<LogChunk>,
    pub(crate) end: Option<AttemptEnd>,
}

impl Reports {
    /// All bytes of a stream.
    pub(crate) fn bytes(&self, stream: LogStream) -> Vec<u8> {
        let chunks = self.chunks.iter().filter(|chunk| chunk.stream == stream).map(|chunk| &chunk.data);
        let tail = self.end.iter().map(|end| &end.tail).filter(|_| stream == LogStream::Stdout);
        chunks.chain(tail).flatten().copied().collect()
    }

    /// Standard output as text.
    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.bytes(LogStream::Stdout)).unwrap()
    }
}

#[derive(Debug, Default)]
pub(crate) struct Recorder {
    reported: Mutex<BTreeMap<TaskRef, Reports>>,
    changed: Condvar,
    /// Whether there is room for logs.
    full: Mutex<bool>,
    /// How often a round was over.
    flushed: Mutex<u64>,
}

impl Recorder {
    fn note(&self, id: TaskRef, change: impl FnOnce(&mut Reports)) {
        let mut reported = self.reported.lock().unwrap();
        let reports = reported.entry(id).or_default();
        assert!(reports.end.is_none(), "a report of {id} after its end");
        change(reports);
        self.changed.notify_all();
    }

    pub(crate) fn set_full(&self, full: bool) {
        *self.full.lock().unwrap() = full;
    }

    /// Waits until a round is over.
    pub(crate) fn flushed(&self) {
        let limit = Instant::now() + PATIENCE;
        let mut flushed = self.flushed.lock().unwrap();
        while *flushed == 0 {
            let left = limit.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "waited too long for the end of a round");
            flushed = self.changed.wait_timeout(flushed, left).unwrap().0;
        }
    }

    /// What was reported so far.
    pub(crate) fn so_far(&self, id: TaskRef) -> Reports {
        self.reported.lock().unwrap().get(&id).cloned().unwrap_or_default()
    }

    /// Waits until something holds of an attempt.
    pub(crate) fn until(&self, id: TaskRef, mut holds: impl FnMut(&Reports) -> bool) -> Reports {
        let limit = Instant::now() + PATIENCE;
        let mut reported = self.reported.lock().unwrap();
        loop {
            if let Some(reports) = reported.get(&id).filter(|reports| holds(reports)) {
                return reports.clone();
            }
            let over = reported.get(&id).filter(|reports| reports.end.is_some());
            assert!(over.is_none(), "{id} ended before that: {over:?}");
            let left = limit.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "waited too long for {id}: {:?}", reported.get(&id));
            reported = self.changed.wait_timeout(reported, left).unwrap().0;
        }
    }

    /// Waits for the end of an attempt.
    pub(crate) fn ended(&self, id: TaskRef) -> (Reports, AttemptEnd) {
        let reports = self.until(id, |reports| reports.end.is_some());
        let end = reports.end.clone().unwrap();
        (reports, end)
    }
}

impl AttemptEvents for Recorder {
    fn started(&self, id: TaskRef, started: Started) {
        self.note(id, |reports| assert!(reports.started.replace(started).is_none(), "{id} started twice"));
    }

    fn log(&self, id: TaskRef, chunk: LogChunk) -> LogCapacity {
        self.note(id, |reports| reports.chunks.push(chunk));
        if *self.full.lock().unwrap() { LogCapacity::Full } else { LogCapacity::Free }
    }

    fn ended(&self, id: TaskRef, end: AttemptEnd) {
        self.note(id, |reports| reports.end = Some(end));
    }

    fn flush(&self) {
        *self.flushed.lock().unwrap() += 1;
        self.changed.notify_all();
    }
}
