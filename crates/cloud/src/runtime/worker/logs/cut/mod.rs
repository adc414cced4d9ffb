//! Cutting output into chunks: one count over both streams, by size, line and time, or none at all for a short log. Owns
//! masking before anything leaves, and the limit; never reads a clock.

use std::sync::Arc;
use std::time::Duration;

use orlop_core::time::Time;

use crate::runtime::logs::Masker;
use crate::runtime::worker::event::{Gap, LogChunk, LogStream, LogTotals};
use crate::runtime::worker::plan::{LogPolicy, OnFull};

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
    gap: Gap,
    totals: LogTotals,
}

impl Cutter {
    /// For an attempt that starts now. Without a masker nothing is masked.
    #[must_use]
    pub fn new(policy: LogPolicy, masker: Option<Arc<Masker>>) -> Self {
        let streams = [Pending::new(LogStream::Stdout), Pending::new(LogStream::Stderr)];
        let (gap, totals) = (Gap::default(), LogTotals::default());
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
        if at.since > SHORT_TIME || self.gap != Gap::default() || self.short.as_ref().is_some_and(mixed) {
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
        if self.gap != Gap::default() {
            self.emit(LogStream::System, at.wall, Vec::new(), out);
        }
        (self.totals, Vec::new())
    }

    /// What became of the output so far.
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
            self.gap = Gap { chunks: self.gap.chunks + chunks, bytes: self.gap.bytes + bytes };
            self.totals.dropped_bytes += bytes;
            self.totals.dropped_chunks += chunks;
        }
    }

    fn emit(&mut self, stream: LogStream, time: Time, mut data: Vec<u8>, out: &mut Vec<LogChunk>) {
        loop {
            let rest = (data.len() > CHUNK).then(|| data.split_off(CHUNK));
            self.totals.last_seq += 1;
            let gap = std::mem::take(&mut self.gap);
            let gap = (gap != Gap::default()).then_some(gap);
            out.push(LogChunk { stream, seq: self.totals.last_seq, time, data, gap });
            match rest {
                Some(rest) => data = rest,
                None => return,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::runtime::worker::logs::masker;

    fn at(ms: u64) -> Moment {
        let wall = Time::from_millis(i64::try_from(ms).unwrap());
        Moment { since: Duration::from_millis(ms), wall }
    }

    fn cutter(limit: u64, on_full: OnFull) -> Cutter {
        Cutter::new(LogPolicy { limit, on_full }, None)
    }

    const OUT: LogStream = LogStream::Stdout;

    #[test]
    fn s6_a_short_log_that_ends_soon_is_only_the_tail() {
        let (mut cut, mut out) = (cutter(1 << 20, OnFull::Drop), Vec::new());
        assert_eq!(cut.push(OUT, b"one\n", at(1), &mut out), Fill::Open);
        cut.push(OUT, &[0xff, 0x00], at(60), &mut out);
        cut.tick(at(199), &mut out);
        assert_eq!(cut.due(), Some(Duration::from_millis(200)));
        let (totals, tail) = cut.finish(at(200), &mut out);
        assert!(out.is_empty());
        assert_eq!((totals.bytes, totals.last_seq, tail.as_slice()), (6, 0, &b"one\n\xff\0"[..]));
    }

    #[test]
    fn a_short_log_of_both_streams_goes_in_chunks_for_a_tail_has_no_streams() {
        let (mut cut, mut out) = (cutter(1 << 20, OnFull::Drop), Vec::new());
        cut.push(OUT, b"one", at(1), &mut out);
        cut.push(LogStream::Stderr, b"two", at(2), &mut out);
        let (totals, tail) = cut.finish(at(3), &mut out);
        assert_eq!((totals.last_seq, tail.len(), out[1].stream), (2, 0, LogStream::Stderr));
    }

    #[test]
    fn s6_a_log_above_8_ki_or_200_ms_goes_in_chunks() {
        let (mut cut, mut out) = (cutter(1 << 20, OnFull::Drop), Vec::new());
        cut.push(OUT, &[b'x'; 8193], at(1), &mut out);
        assert_eq!((out.len(), out[0].seq), (1, 1));
        let (mut late, mut out) = (cutter(1 << 20, OnFull::Drop), Vec::new());
        late.push(OUT, b"x", at(1), &mut out);
        late.tick(at(200), &mut out);
        assert_eq!(out.len(), 1);
        let (totals, tail) = late.finish(at(201), &mut out);
        assert_eq!((totals.last_seq, tail.len()), (1, 0));
    }

    #[test]
    fn s6_chunks_end_at_16_ki_at_a_line_after_50_ms_or_after_200_ms() {
        let (mut cut, mut out) = (cutter(1 << 20, OnFull::Drop), Vec::new());
        cut.tick(at(300), &mut out);
        cut.push(OUT, &[b'x'; CHUNK + 1], at(300), &mut out);
        assert_eq!(out.iter().map(|chunk| chunk.data.len()).collect::<Vec<_>>(), [CHUNK, 1]);
        out.clear();
        cut.push(OUT, b"line\npart", at(400), &mut out);
        assert_eq!(cut.due(), Some(Duration::from_millis(450)));
        cut.tick(at(449), &mut out);
        assert!(out.is_empty());
        cut.tick(at(450), &mut out);
        assert_eq!(out[0].data, b"line\n");
        assert_eq!(cut.due(), Some(Duration::from_millis(650)));
        cut.tick(at(650), &mut out);
        assert_eq!((out[1].data.as_slice(), out[1].seq), (&b"part"[..], 4));
    }

    #[test]
    fn s6_one_count_over_both_streams() {
        let (mut cut, mut out) = (cutter(1 << 20, OnFull::Drop), Vec::new());
        cut.tick(at(300), &mut out);
        cut.push(OUT, b"a", at(300), &mut out);
        cut.push(LogStream::Stderr, b"b", at(301), &mut out);
        let (totals, _) = cut.finish(at(302), &mut out);
        assert_eq!(out.iter().map(|chunk| chunk.seq).collect::<Vec<_>>(), [1, 2]);
        assert_eq!(totals.last_seq, 2);
    }

    #[test]
    fn s1_beyond_the_limit_output_is_dropped_and_counted() {
        let (mut cut, mut out) = (cutter(10, OnFull::Drop), Vec::new());
        assert_eq!(cut.push(OUT, b"0123456789ab", at(1), &mut out), Fill::Open);
        cut.push(OUT, b"cd", at(2), &mut out);
        let (totals, tail) = cut.finish(at(3), &mut out);
        assert_eq!((totals.bytes, totals.dropped_bytes, totals.dropped_chunks), (10, 4, 2));
        assert!(tail.is_empty(), "a log with a gap has chunks");
        assert_eq!(out[0].data, b"0123456789");
        assert_eq!(out[0].gap, Some(Gap { chunks: 2, bytes: 4 }));
    }

    #[test]
    fn s1_at_the_limit_a_job_waits_or_fails_as_chosen() {
        let mut out = Vec::new();
        let mut block = cutter(10, OnFull::Block);
        assert_eq!(block.push(OUT, b"012345678", at(1), &mut out), Fill::Open);
        assert_eq!(block.push(OUT, b"9ab", at(1), &mut out), Fill::Wait);
        assert_eq!(block.finish(at(2), &mut out).0.bytes, 12);
        let mut fail = cutter(10, OnFull::Fail);
        assert_eq!(fail.push(OUT, b"0123456789", at(1), &mut out), Fill::Open);
        assert_eq!(fail.push(OUT, b"a", at(1), &mut out), Fill::Fail);
    }

    proptest! {
        #[test]
        fn s6_secrets_never_leave_and_nothing_else_is_lost(
            pieces in proptest::collection::vec(("[abcd]{0,9}", 0_u64..120, any::<bool>()), 0..20),
        ) {
            let mut cut = Cutter::new(LogPolicy::default(), Some(Arc::new(masker(["abcd", "bbbb"]))));
            let (mut now, mut out, mut whole) = (0, Vec::new(), [String::new(), String::new()]);
            for (text, wait, err) in &pieces {
                now += wait;
                cut.push(if *err { LogStream::Stderr } else { OUT }, text.as_bytes(), at(now), &mut out);
                cut.tick(at(now), &mut out);
                whole[usize::from(*err)].push_str(text);
            }
            let (totals, tail) = cut.finish(at(now), &mut out);
            let seqs: Vec<u64> = out.iter().map(|chunk| chunk.seq).collect();
            prop_assert_eq!(seqs, (1..=totals.last_seq).collect::<Vec<_>>());
            for (stream, whole) in [OUT, LogStream::Stderr].into_iter().zip(&whole) {
                let chunks = out.iter().filter(|chunk| chunk.stream == stream).map(|chunk| &chunk.data);
                let rest = if stream == OUT { tail.as_slice() } else { &[] };
                let got: Vec<u8> = chunks.flatten().chain(rest).copied().collect();
                prop_assert_eq!(String::from_utf8(got).unwrap(), masker(["abcd", "bbbb"]).mask_text(whole));
            }
        }
    }
}
