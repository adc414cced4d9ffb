//! Cutting output into chunks: one count over both streams, by size, line and time, or none at all for a short log. Owns
//! masking before anything leaves, and the limit; never reads a clock.

use std::sync::Arc;
use std::time::Duration;

use orlop_core::spec::job::{LogPolicy, OnFull};
use orlop_core::task::{LogGap, LogStream};
use orlop_core::time::Time;

use crate::runtime::logs::Masker;
use crate::runtime::worker::event::{LogChunk, LogTotals};

/// A chunk is cut at this size,
const CHUNK: usize = 16 << 10;
/// or at a line feed once its first byte is this old,
const LINE_AFTER: Duration = Duration::from_millis(50);
/// or anywhere once its first byte is this old.
const ANY_AFTER: Duration = Duration::from_millis(200);
/// A log that is over before this and not longer than [`SHORT_BYTES`] is not cut at all.
const SHORT_TIME: Duration = Duration::from_millis(200);
const SHORT_BYTES: usize = 8 << 10;

/// When something is read.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    /// Since the attempt started, by a clock that never jumps.
    pub since: Duration,
    /// By the clock on the wall.
    pub wall: Time,
}

/// Whether more output may come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fill {
    /// It may.
    Open,
    /// The limit is reached and the job is to wait.
    Wait,
    /// The limit is reached and the job is to fail.
    Fail,
}

/// A piece of what may still be a short log.
#[derive(Debug)]
struct Piece {
    stream: LogStream,
    time: Time,
    data: Vec<u8>,
}

/// Output of one stream that is in no chunk yet.
#[derive(Debug)]
struct Pending {
    stream: LogStream,
    held: Vec<u8>,
    data: Vec<u8>,
    since: Duration,
    time: Time,
    line: bool,
}

impl Pending {
    const fn new(stream: LogStream) -> Self {
        Self { stream, held: Vec::new(), data: Vec::new(), since: Duration::ZERO, time: Time::EPOCH, line: false }
    }

    fn due(&self) -> Option<Duration> {
        let after = if self.line { LINE_AFTER } else { ANY_AFTER };
        (!self.data.is_empty()).then(|| self.since.saturating_add(after))
    }
}

/// Cuts the output of one attempt.
#[derive(Debug)]
pub struct Cutter {
    policy: LogPolicy,
    masker: Option<Arc<Masker>>,
    /// While it may still be a short log.
    short: Option<Vec<Piece>>,
    streams: [Pending; 2],
    gap: LogGap,
    totals: LogTotals,
}

impl Cutter {
    /// For an attempt that starts now. Without a masker nothing is masked.
    #[must_use]
    pub fn new(policy: LogPolicy, masker: Option<Arc<Masker>>) -> Self {
        let streams = [Pending::new(LogStream::Stdout), Pending::new(LogStream::Stderr)];
        let (gap, totals) = (LogGap::default(), LogTotals::default());
        Self { policy, masker, short: Some(Vec::new()), streams, gap, totals }
    }

    /// For one whose output goes on after the chunk of this number.
    #[must_use]
    pub fn resumed(policy: LogPolicy, masker: Option<Arc<Masker>>, totals: LogTotals) -> Self {
        Self { short: None, totals, ..Self::new(policy, masker) }
    }

    /// Takes bytes of a stream; chunks that are complete go to `out`.
    pub fn push(&mut self, stream: LogStream, bytes: &[u8], at: Moment, out: &mut Vec<LogChunk>) -> Fill {
        let Self { masker, streams, .. } = self;
        let pending = streams.iter_mut().find(|pending| pending.stream == stream);
        let (Some(masker), Some(pending)) = (masker, pending) else { return self.take(stream, bytes, at, out) };
        let mut clear = Vec::with_capacity(bytes.len());
        masker.push(&mut pending.held, bytes, &mut clear);
        self.take(stream, &clear, at, out)
    }

    /// A line of the worker's own, whole and at once.
    pub fn say(&mut self, text: &str, at: Moment, out: &mut Vec<LogChunk>) {
        let text = self.masker.as_ref().map_or_else(|| text.to_owned(), |masker| masker.mask_text(text));
        let data = format!("{text}\n").into_bytes();
        match &mut self.short {
            Some(pieces) => pieces.push(Piece { stream: LogStream::System, time: at.wall, data }),
            None => self.emit(LogStream::System, at.wall, data, out),
        }
    }

    /// When [`Cutter::tick`] has something to do, since the start; none when nothing waits.
    #[must_use]
    pub fn due(&self) -> Option<Duration> {
        match &self.short {
            Some(pieces) => (!pieces.is_empty()).then_some(SHORT_TIME),
            None => self.streams.iter().filter_map(Pending::due).min(),
        }
    }

    /// Cuts what has waited long enough.
    pub fn tick(&mut self, at: Moment, out: &mut Vec<LogChunk>) {
        if at.since >= SHORT_TIME {
            self.spill(out);
        }
        if self.short.is_some() {
            return;
        }
        for index in 0..self.streams.len() {
            let Some(pending) = self.streams.get_mut(index) else { continue };
            let age = at.since.saturating_sub(pending.since);
            let cut = if pending.data.is_empty() {
                0
            } else if age >= ANY_AFTER {
                pending.data.len()
            } else if age >= LINE_AFTER {
                pending.data.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1)
            } else {
                0
            };
            if cut > 0 {
                let rest = pending.data.split_off(cut);
                let (stream, time) = (pending.stream, pending.time);
                let data = std::mem::replace(&mut pending.data, rest);
                // What stays came later than what went; how much later is not known, so it is as old as now.
                (pending.since, pending.time) = (at.since, at.wall);
                pending.line = false;
                self.emit(stream, time, data, out);
            }
        }
    }

    /// The end of all output: the totals, and the log itself if it is a short one. A tail does not tell streams apart,
    /// so only standard output can be one.
    #[must_use]
    pub fn finish(mut self, at: Moment, out: &mut Vec<LogChunk>) -> (LogTotals, Vec<u8>) {
        for stream in [LogStream::Stdout, LogStream::Stderr] {
            let mut clear = Vec::new();
            let Self { masker, streams, .. } = &mut self;
            let pending = streams.iter_mut().find(|pending| pending.stream == stream);
            if let (Some(masker), Some(pending)) = (masker, pending) {
                masker.finish(&mut pending.held, &mut clear);
            }
            self.take(stream, &clear, at, out);
        }
        let mixed = |pieces: &Vec<Piece>| pieces.iter().any(|piece| piece.stream != LogStream::Stdout);
        if at.since > SHORT_TIME || self.gap != LogGap::default() || self.short.as_ref().is_some_and(mixed) {
            self.spill(out);
        }
        if let Some(pieces) = self.short.take() {
            return (self.totals, pieces.into_iter().flat_map(|piece| piece.data).collect());
        }
        for index in 0..self.streams.len() {
            if let Some(pending) = self.streams.get_mut(index).filter(|pending| !pending.data.is_empty()) {
                let (stream, time, data) = (pending.stream, pending.time, std::mem::take(&mut pending.data));
                self.emit(stream, time, data, out);
            }
        }
        if self.gap != LogGap::default() {
            self.emit(LogStream::System, at.wall, Vec::new(), out);
        }
        (self.totals, Vec::new())
    }

    /// How much of the output was delivered or dropped so far.
    #[must_use]
    pub const fn totals(&self) -> LogTotals {
        self.totals
    }

    fn pending(&mut self, stream: LogStream) -> Option<&mut Pending> {
        self.streams.iter_mut().find(|pending| pending.stream == stream)
    }

    /// Takes bytes that are masked.
    fn take(&mut self, stream: LogStream, bytes: &[u8], at: Moment, out: &mut Vec<LogChunk>) -> Fill {
        let room = self.policy.limit.saturating_sub(self.totals.bytes);
        let fits = usize::try_from(room).unwrap_or(usize::MAX).min(bytes.len());
        let (kept, fill) = match self.policy.on_full {
            // What is read already is kept: the pipe is the place to wait in.
            OnFull::Block if bytes.len() as u64 >= room => (bytes, Fill::Wait),
            OnFull::Block => (bytes, Fill::Open),
            OnFull::Fail if fits < bytes.len() => (bytes.get(..fits).unwrap_or_default(), Fill::Fail),
            OnFull::Fail | OnFull::Drop => (bytes.get(..fits).unwrap_or_default(), Fill::Open),
        };
        self.totals.bytes += kept.len() as u64;
        self.drop_bytes(bytes.len() - kept.len());
        if kept.is_empty() {
            return fill;
        }
        if self.short.is_some() {
            self.hold(stream, kept, at, out);
        } else if let Some(pending) = self.pending(stream) {
            if pending.data.is_empty() {
                (pending.since, pending.time) = (at.since, at.wall);
            }
            pending.line |= kept.contains(&b'\n');
            pending.data.extend_from_slice(kept);
            if pending.data.len() >= CHUNK {
                let data = std::mem::take(&mut pending.data);
                pending.line = false;
                let time = pending.time;
                self.emit(stream, time, data, out);
            }
        }
        fill
    }

    fn hold(&mut self, stream: LogStream, bytes: &[u8], at: Moment, out: &mut Vec<LogChunk>) {
        let Some(pieces) = &mut self.short else { return };
        match pieces.last_mut().filter(|piece| piece.stream == stream) {
            Some(piece) => piece.data.extend_from_slice(bytes),
            None => pieces.push(Piece { stream, time: at.wall, data: bytes.to_vec() }),
        }
        let held: usize = pieces.iter().map(|piece| piece.data.len()).sum();
        if held > SHORT_BYTES || at.since > SHORT_TIME {
            self.spill(out);
        }
    }

    /// It is no short log.
    fn spill(&mut self, out: &mut Vec<LogChunk>) {
        for piece in self.short.take().unwrap_or_default() {
            self.emit(piece.stream, piece.time, piece.data, out);
        }
    }

    fn drop_bytes(&mut self, bytes: usize) {
        if bytes > 0 {
            let (bytes, chunks) = (bytes as u64, bytes.div_ceil(CHUNK) as u64);
            self.gap = LogGap { chunks: self.gap.chunks + chunks, bytes: self.gap.bytes + bytes };
            self.totals.dropped_bytes += bytes;
            self.totals.dropped_chunks += chunks;
        }
    }

    fn emit(&mut self, stream: LogStream, time: Time, mut data: Vec<u8>, out: &mut Vec<LogChunk>) {
        loop {
            let rest = (data.len() > CHUNK).then(|| data.split_off(CHUNK));
            self.totals.last_seq += 1;
            let gap = std::mem::take(&mut self.gap);
            let gap = (gap != LogGap::default()).then_some(gap);
            out.push(LogChunk { stream, seq: self.totals.last_seq, time, data, gap });
            match rest {
                Some(rest) => data = rest,
                None => return,
            }
        }
    }
}

#[cfg(test)]
mod tests;
