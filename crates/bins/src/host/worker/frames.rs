//! Frames. What goes to the server: entries out of the outbox log, numbered, and released from it when they are acknowledged. A
//! frame is not kept: what is not acknowledged when a stream ends is taken out of the log again, which holds it until then; the
//! server drops what it has already seen. What comes from the server is applied as a whole, in the order of its fields. Never
//! touches a connection.

use std::collections::VecDeque;
use std::io;
use std::time::{Duration, Instant};

use bytes::Bytes;
use orlop_cloud::outbox::{Cursor, EntryNo, Item};
use orlop_cloud::runtime::worker::{AttemptEnd, Kept, LogChunk, Started};
use orlop_core::machine::verdict::ReportVerdict;
use orlop_core::spec::job::JobSpec;
use orlop_core::task::{TaskRef, Usage};
use orlop_core::time::Time;

use super::core::{Act, Core};
use crate::wire::attempt::{self, Artifact, JobAccepted, JobResult, JobStarted, LogSummary, Process, Rejected};
use crate::wire::bound::{FRAME_BYTES, FRAME_ENTRIES, LOG_CREDIT};
use crate::wire::frame::{Directive, Goodbye, ServerFrame, Welcome, WorkerFrame};

/// Room in a frame for what is not counted entry by entry.
const BESIDE: usize = 4096;
/// About how many bytes an entry other than a result or a chunk has.
const SMALL: usize = 320;

#[derive(Debug)]
struct Sent {
    seq: u64,
    entries: Vec<EntryNo>,
    log_bytes: u64,
    /// How far the outbox log was handed out with it.
    cursor: Cursor,
}

/// What was sent in a session and is not acknowledged yet, and what may be sent next.
#[derive(Debug)]
pub(super) struct Outbox {
    /// Number of the last frame that was numbered.
    seq: u64,
    /// The last frame of the server that is journalled.
    pub(super) heard: u64,
    sent: VecDeque<Sent>,
    /// How far the outbox log was handed out with the last frame that is acknowledged.
    done: Cursor,
    /// Bytes of output in all frames of the session so far, and how many there may be.
    log_bytes: u64,
    log_credit: u64,
}

impl Outbox {
    /// For a new session.
    pub(super) fn new() -> Self {
        let done = Cursor::default();
        Self { seq: 0, heard: 0, sent: VecDeque::new(), done, log_bytes: 0, log_credit: LOG_CREDIT }
    }

    /// The first frame held for the server, and how many.
    pub(super) fn held(&self) -> (u64, u64) {
        (self.sent.front().map_or(self.seq + 1, |sent| sent.seq), self.sent.len() as u64)
    }

    /// Frames up to this one are committed.
    pub(super) fn acknowledged(&mut self, seq: u64, core: &mut Core) {
        while self.sent.front().is_some_and(|sent| sent.seq <= seq) {
            let Some(sent) = self.sent.pop_front() else { break };
            for entry in &sent.entries {
                core.spool.release(*entry);
            }
            self.done = sent.cursor;
        }
    }

    /// A new stream of the session, of which the server has received frames up to `seq`: what came after is sent again,
    /// in other frames perhaps. What it received is not committed yet.
    pub(super) fn resumed(&mut self, seq: u64, core: &mut Core) {
        while self.sent.back().is_some_and(|sent| sent.seq > seq) {
            let Some(sent) = self.sent.pop_back() else { break };
            self.log_bytes -= sent.log_bytes;
        }
        self.seq = seq;
        core.slots.resumed(seq);
        core.spool.rewind(self.sent.back().map_or(self.done, |sent| sent.cursor));
    }

    /// The server has room for so many bytes of output in all.
    pub(super) fn credit(&mut self, total: u64) {
        self.log_credit = self.log_credit.max(total);
    }

    /// The next frame, if there is something to say. Results, starts and acceptances go first; output fills the rest.
    /// Requests for specifications and a goodbye go along.
    pub(super) fn next(&mut self, core: &mut Core, goodbye: Option<&str>) -> Option<WorkerFrame> {
        let mut frame = WorkerFrame { need_specs: core.take_needed_specs(), ..WorkerFrame::default() };
        frame.goodbye = goodbye.map(|reason| Goodbye { reason: reason.to_owned() });
        let (mut entries, mut size) = (Vec::new(), BESIDE);
        while entries.len() < FRAME_ENTRIES && size < FRAME_BYTES / 2 {
            let items = core.spool.next_items((FRAME_ENTRIES - entries.len()).min(64));
            if items.is_empty() {
                break;
            }
            for (no, id, item) in items {
                entries.push(no);
                size += put(&mut frame, id, item);
            }
        }
        let mut log_bytes = 0;
        while entries.len() < FRAME_ENTRIES {
            let room = (FRAME_BYTES.saturating_sub(size + SMALL)) as u64;
            let credit = self.log_credit.saturating_sub(self.log_bytes + log_bytes);
            let Some((no, id, chunk)) = core.spool.next_chunks(1, room.min(credit)).pop() else { break };
            log_bytes += chunk.data.len() as u64;
            entries.push(no);
            let chunk = chunk_of(id, chunk);
            size += chunk.size();
            frame.logs.push(chunk);
        }
        if entries.is_empty() && frame.need_specs.is_empty() && frame.goodbye.is_none() {
            return None;
        }
        self.seq += 1;
        self.log_bytes += log_bytes;
        self.sent.push_back(Sent { seq: self.seq, entries, log_bytes, cursor: core.spool.cursor() });
        (frame.seq, frame.ack) = (self.seq, self.heard);
        core.slots.framed(&frame);
        Some(frame)
    }

    /// Whether so much is on its way that the rest may wait for acknowledgements.
    pub(super) fn is_far_ahead(&self) -> bool {
        self.sent.len() >= 256
    }
}

/// Puts an item where it belongs; about how many bytes it has.
fn put(frame: &mut WorkerFrame, id: TaskRef, item: Item) -> usize {
    match item {
        Item::Accepted => frame.accepted.push(JobAccepted::new(id)),
        Item::Rejected(reason) => frame.rejected.push(Rejected::new(id, reason)),
        Item::Revoked => frame.revoked.push(id.into()),
        Item::Started(started) => frame.started.push(started_of(id, &started)),
        Item::Ended(end) => {
            let result = result_of(id, &end);
            let size = result.size();
            frame.results.push(result);
            return size;
        }
    }
    SMALL
}

fn started_of(id: TaskRef, started: &Started) -> JobStarted {
    let number = started.handle.split('@').next().and_then(|pid| pid.parse::<u64>().ok());
    let process = match number {
        Some(0) => None,
        Some(pid) => Some(Process::Pid(pid)),
        None => Some(Process::ContainerId(started.handle.clone())),
    };
    JobStarted::new(id, process, Some(started.at))
}

fn result_of(id: TaskRef, end: &AttemptEnd) -> JobResult {
    let log = end.log;
    let summary = LogSummary {
        bytes: log.bytes + log.dropped_bytes,
        dropped_bytes: log.dropped_bytes,
        dropped_chunks: log.dropped_chunks,
        last_seq: log.last_seq,
    };
    JobResult {
        exit_code: end.exit_code,
        signal: end.signal,
        reason: end.reason.clone(),
        usage: (end.usage != Usage::default()).then(|| end.usage.into()),
        outputs: end.outputs.clone(),
        log: (summary != LogSummary::default()).then_some(summary),
        tail: Bytes::copy_from_slice(&end.tail),
        artifacts: end.artifacts.iter().map(artifact_of).collect(),
        ..JobResult::new(id, end.outcome).with_times(end.started_at, Some(end.finished_at))
    }
}

fn artifact_of(kept: &Kept) -> Artifact {
    let Kept { name, sha256, bytes, path, executable } = kept.clone();
    Artifact { name, sha256, bytes, path, executable }
}

fn chunk_of(id: TaskRef, chunk: LogChunk) -> attempt::LogChunk {
    attempt::LogChunk::new(id, chunk.stream, chunk.seq, chunk.data).with_time_and_gap(Some(chunk.time), chunk.gap)
}

/// When a frame is applied.
#[derive(Clone, Copy, Debug)]
pub(super) struct Now {
    /// By a clock that never jumps.
    pub(super) clock: Instant,
    /// By the clock on the wall.
    pub(super) wall: Time,
}

/// What a frame asks of the session itself.
#[derive(Debug, Default)]
pub(super) struct SessionRequest {
    pub(super) directive: Option<Directive>,
    pub(super) pause: Duration,
    /// Whether the lease was renewed.
    pub(super) renewed: bool,
}

/// Applies a frame. `specs` are its specifications, already read. What the frame makes necessary is in the buffers of the outbox log
/// afterwards, which are to be flushed before it is acknowledged.
///
/// # Errors
/// When the outbox log cannot be written; the frame is then not acknowledged and comes again.
pub(super) fn apply(
    mut frame: ServerFrame,
    specs: &[(u64, JobSpec)],
    core: &mut Core,
    outbox: &mut Outbox,
    now: Now,
    acts: &mut Vec<Act>,
) -> io::Result<SessionRequest> {
    let mut asked =
        SessionRequest { pause: Duration::from_millis(u64::from(frame.retry_after_ms)), ..SessionRequest::default() };
    if frame.lease_ms > 0 {
        core.beat_answered(frame.lease_ms);
        core.renewed(now.clock, acts);
        asked.renewed = true;
    }
    outbox.acknowledged(frame.ack, core);
    outbox.credit(frame.log_credit);
    asked.directive = frame.directive.take();
    if frame.seq != 0 && frame.seq <= outbox.heard {
        return Ok(asked);
    }
    core.slots.received(&frame);
    for (spec_id, spec) in specs {
        core.specs.put(*spec_id, spec);
    }
    for (spec_id, _) in specs {
        core.unpark(*spec_id, now.clock, acts)?;
    }
    for assign in frame.assign {
        core.assign(assign, now.clock, acts)?;
    }
    for cancel in &frame.cancel {
        core.cancel(cancel, now.wall, acts)?;
    }
    for attempt in frame.revoke {
        core.revoke(attempt.into())?;
    }
    for judged in frame.verdicts {
        match judged.report_verdict() {
            ReportVerdict::Unknown | ReportVerdict::Stale => core.unwanted(judged.attempt(), now.wall, acts)?,
            ReportVerdict::Duplicate | ReportVerdict::Accepted | ReportVerdict::Adopted => {}
        }
    }
    if frame.seq != 0 {
        outbox.heard = frame.seq;
    }
    Ok(asked)
}

/// Applies the first frame of a stream.
///
/// # Errors
/// When the outbox log cannot be written.
pub(super) fn welcome(
    welcome: Welcome,
    core: &mut Core,
    outbox: &mut Outbox,
    now: Now,
    acts: &mut Vec<Act>,
) -> io::Result<()> {
    outbox.resumed(welcome.last_worker_seq, core);
    core.ask_again();
    for attempt in welcome.kill.into_iter().chain(welcome.settled) {
        core.unwanted(attempt.into(), now.wall, acts)?;
    }
    Ok(())
}
