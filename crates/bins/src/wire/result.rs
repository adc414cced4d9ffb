//! How an attempt ended, and what it wrote. Never judges a result.

use std::collections::BTreeMap;

use bytes::Bytes;
use orlop_core::task::{LogGap, LogStream, TaskEnd, TaskRef, Usage};
use orlop_core::time::Time;
use orlop_scheduler::event::Outcome;

use super::attempt::{about, is_command, is_permanent};
use super::bound::{
    CHUNK_MAX, Check, FRAME_BYTES, LIST_MAX, OUTPUTS_MAX, OnWire, TAIL_MAX, TEXT_MAX, WireError, at_most, millis,
    same_values, text, time, weight,
};
use super::proto::v1;

pub use super::proto::v1::{Artifact, LogSummary};

same_values! {
    TaskEnd = v1::Outcome, "result.outcome" { Succeeded, Failed, TimedOut, Cancelled, Preempted, StartFailed, Lost }
}
same_values! { LogStream = v1::LogStream, "log.stream" { Stdout, Stderr, System } }

impl From<Usage> for v1::Usage {
    fn from(usage: Usage) -> Self {
        let Usage { cpu_ms, max_rss, io_read, io_write } = usage;
        Self { cpu_ms, max_rss, io_read, io_write }
    }
}

impl From<v1::Usage> for Usage {
    fn from(wire: v1::Usage) -> Self {
        let v1::Usage { cpu_ms, max_rss, io_read, io_write } = wire;
        Self { cpu_ms, max_rss, io_read, io_write }
    }
}

/// The end of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobResult {
    /// The attempt.
    pub attempt: TaskRef,
    /// How it ended.
    pub ending: TaskEnd,
    /// Its exit code, if it had one.
    pub exit_code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// Why, in one word; empty = the rest says it all.
    pub reason: String,
    /// When it started, by the clock of its host.
    pub started_at: Option<Time>,
    /// When it ended, by the clock of its host.
    pub finished_at: Option<Time>,
    /// What it used.
    pub usage: Usage,
    /// Values it left.
    pub outputs: BTreeMap<String, String>,
    /// Files it left.
    pub artifacts: Vec<Artifact>,
    /// How much it wrote.
    pub log: LogSummary,
    /// All it wrote, if that was little and came at once.
    pub tail: Bytes,
}

impl JobResult {
    /// An end without particulars.
    #[must_use]
    pub fn new(attempt: TaskRef, ending: TaskEnd) -> Self {
        let (outputs, artifacts, tail) = (BTreeMap::new(), Vec::new(), Bytes::new());
        Self {
            attempt,
            ending,
            exit_code: None,
            signal: None,
            reason: String::new(),
            started_at: None,
            finished_at: None,
            usage: Usage::default(),
            outputs,
            artifacts,
            log: LogSummary::default(),
            tail,
        }
    }

    /// The end in the words of the scheduler.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        match self.ending {
            TaskEnd::Succeeded => Outcome::Succeeded,
            TaskEnd::Failed => Outcome::Failed { exit_code: self.exit_code },
            TaskEnd::TimedOut => Outcome::TimedOut,
            TaskEnd::Cancelled | TaskEnd::Preempted => Outcome::Cancelled,
            TaskEnd::StartFailed => match self.exit_code.filter(|_| is_command(&self.reason)) {
                Some(exit_code) => Outcome::CannotStart { exit_code },
                None => Outcome::StartFailed { permanent: is_permanent(&self.reason) },
            },
            TaskEnd::Lost => Outcome::Lost,
        }
    }

    /// How long it ran by the clock of its host, in milliseconds, as far as that says so.
    #[must_use]
    pub fn ran_ms(&self) -> Option<u64> {
        let ran = self.finished_at?.millis().checked_sub(self.started_at?.millis())?;
        // A clock that was set back says nothing.
        u64::try_from(ran).ok()
    }

    /// About how many bytes it takes in a frame, never less than it does.
    #[must_use]
    pub fn size(&self) -> usize {
        let file = |file: &Artifact| file.name.len() + file.sha256.len() + file.path.len() + 32;
        256 + self.reason.len()
            + weight(&self.outputs)
            + 12 * self.outputs.len()
            + self.artifacts.iter().map(file).sum::<usize>()
            + self.tail.len()
    }
}

impl From<JobResult> for v1::JobResult {
    fn from(result: JobResult) -> Self {
        Self {
            r#ref: Some(result.attempt.into()),
            outcome: result.ending.number(),
            exit_code: result.exit_code,
            signal: result.signal,
            reason: result.reason,
            started_at: millis(result.started_at),
            finished_at: millis(result.finished_at),
            usage: (result.usage != Usage::default()).then(|| result.usage.into()),
            outputs: result.outputs,
            artifacts: result.artifacts,
            log: (result.log != LogSummary::default()).then_some(result.log),
            tail: result.tail,
        }
    }
}

impl TryFrom<v1::JobResult> for JobResult {
    type Error = WireError;

    fn try_from(wire: v1::JobResult) -> Result<Self, WireError> {
        at_most("result.outputs", weight(&wire.outputs), OUTPUTS_MAX)?;
        at_most("result.artifacts", wire.artifacts.len(), LIST_MAX)?;
        at_most("result.tail", wire.tail.len(), TAIL_MAX)?;
        wire.artifacts.iter().try_for_each(Check::check)?;
        let result = Self {
            attempt: about(wire.r#ref)?,
            ending: TaskEnd::read(wire.outcome)?,
            exit_code: wire.exit_code,
            signal: wire.signal,
            reason: text("result.reason", wire.reason, TEXT_MAX)?,
            started_at: time(wire.started_at),
            finished_at: time(wire.finished_at),
            usage: wire.usage.map(Into::into).unwrap_or_default(),
            outputs: wire.outputs,
            artifacts: wire.artifacts,
            log: wire.log.unwrap_or_default(),
            tail: wire.tail,
        };
        at_most("result", result.size(), FRAME_BYTES)?;
        Ok(result)
    }
}

/// A piece of what an attempt wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogChunk {
    /// The attempt.
    pub attempt: TaskRef,
    /// Where it comes from.
    pub stream: LogStream,
    /// Its number, from 1 per attempt over all streams.
    pub seq: u64,
    /// When it was written, by the clock of its host.
    pub time: Option<Time>,
    /// The bytes, at most 64 Ki.
    pub data: Bytes,
    /// What is missing before it.
    pub gap: Option<LogGap>,
}

impl LogChunk {
    /// About how many bytes it takes in a frame, never less than it does.
    #[must_use]
    pub fn size(&self) -> usize {
        112 + self.data.len()
    }
}

impl From<LogChunk> for v1::LogChunk {
    fn from(chunk: LogChunk) -> Self {
        Self {
            r#ref: Some(chunk.attempt.into()),
            stream: chunk.stream.number(),
            seq: chunk.seq,
            time: millis(chunk.time),
            data: chunk.data,
            gap: chunk.gap.map(|LogGap { chunks, bytes }| v1::LogGap { chunks, bytes }),
        }
    }
}

impl TryFrom<v1::LogChunk> for LogChunk {
    type Error = WireError;

    fn try_from(wire: v1::LogChunk) -> Result<Self, WireError> {
        at_most("log.data", wire.data.len(), CHUNK_MAX)?;
        if wire.seq == 0 {
            return Err(WireError::new("log.seq", "is 0; chunks count from 1"));
        }
        Ok(Self {
            attempt: about(wire.r#ref)?,
            stream: LogStream::read(wire.stream)?,
            seq: wire.seq,
            time: time(wire.time),
            data: wire.data,
            gap: wire.gap.map(|v1::LogGap { chunks, bytes }| LogGap { chunks, bytes }),
        })
    }
}
