//! How an attempt ended, and what it wrote. Never judges a result.

use bytes::Bytes;
use orlop_core::task::{LogGap, LogStream, TaskEnd, TaskRef, Usage};
use orlop_core::time::Time;
use orlop_scheduler::event::Outcome;

use super::attempt::{about, is_command, is_permanent};
use super::bound::{
    CHUNK_MAX, Check, FRAME_BYTES, LIST_MAX, OUTPUTS_MAX, OnWire, TAIL_MAX, TEXT_MAX, WireError, at_most, millis,
    same_values, time, weight,
};
use super::proto::v1;

pub use super::proto::v1::{Artifact, JobResult, LogChunk, LogSummary};

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

impl JobResult {
    /// An end without particulars.
    #[must_use]
    pub fn new(attempt: TaskRef, end: TaskEnd) -> Self {
        Self { r#ref: Some(attempt.into()), outcome: end.number(), ..Self::default() }
    }

    /// The same with when it started and ended, by the clock of its host.
    #[must_use]
    pub fn within(self, started: Option<Time>, finished: Option<Time>) -> Self {
        Self { started_at: millis(started), finished_at: millis(finished), ..self }
    }

    /// How it ended.
    #[must_use]
    pub fn end(&self) -> TaskEnd {
        TaskEnd::read(self.outcome).unwrap_or(TaskEnd::Lost)
    }

    /// When it started, by the clock of its host.
    #[must_use]
    pub fn started(&self) -> Option<Time> {
        time(self.started_at)
    }

    /// When it ended, by the clock of its host.
    #[must_use]
    pub fn finished(&self) -> Option<Time> {
        time(self.finished_at)
    }

    /// What it used.
    #[must_use]
    pub fn used(&self) -> Usage {
        let v1::Usage { cpu_ms, max_rss, io_read, io_write } = self.usage.unwrap_or_default();
        Usage { cpu_ms, max_rss, io_read, io_write }
    }

    /// How much it wrote.
    #[must_use]
    pub fn summary(&self) -> LogSummary {
        self.log.unwrap_or_default()
    }

    /// The end in the words of the scheduler.
    #[must_use]
    pub fn scheduler_outcome(&self) -> Outcome {
        match self.end() {
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
        let ran = self.finished()?.millis().checked_sub(self.started()?.millis())?;
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

impl Check for JobResult {
    fn check(&self) -> Result<(), WireError> {
        at_most("result.outputs", weight(&self.outputs), OUTPUTS_MAX)?;
        at_most("result.artifacts", self.artifacts.len(), LIST_MAX)?;
        at_most("result.tail", self.tail.len(), TAIL_MAX)?;
        self.artifacts.iter().try_for_each(Check::check)?;
        about(self.r#ref)?;
        TaskEnd::read(self.outcome)?;
        at_most("result.reason", self.reason.len(), TEXT_MAX)?;
        at_most("result", self.size(), FRAME_BYTES)
    }
}

impl LogChunk {
    /// What an attempt wrote: bytes with their number, which counts from 1 over all its streams.
    #[must_use]
    pub fn new(attempt: TaskRef, stream: LogStream, seq: u64, data: impl Into<Bytes>) -> Self {
        let (attempt, data) = (Some(attempt.into()), data.into());
        Self { r#ref: attempt, stream: stream.number(), seq, time: 0, data, gap: None }
    }

    /// The same with when it was written by the clock of its host, and with what is missing before it.
    #[must_use]
    pub fn with(self, written: Option<Time>, gap: Option<LogGap>) -> Self {
        let gap = gap.map(|LogGap { chunks, bytes }| v1::LogGap { chunks, bytes });
        Self { time: millis(written), gap, ..self }
    }

    /// Where it comes from.
    #[must_use]
    pub fn source(&self) -> LogStream {
        LogStream::read(self.stream).unwrap_or(LogStream::System)
    }

    /// When it was written, by the clock of its host.
    #[must_use]
    pub fn written(&self) -> Option<Time> {
        time(self.time)
    }

    /// What is missing before it.
    #[must_use]
    pub fn missing(&self) -> Option<LogGap> {
        self.gap.map(|v1::LogGap { chunks, bytes }| LogGap { chunks, bytes })
    }

    /// About how many bytes it takes in a frame, never less than it does.
    #[must_use]
    pub fn size(&self) -> usize {
        112 + self.data.len()
    }
}

impl Check for LogChunk {
    fn check(&self) -> Result<(), WireError> {
        at_most("log.data", self.data.len(), CHUNK_MAX)?;
        if self.seq == 0 {
            return Err(WireError::new("log.seq", "is 0; chunks count from 1"));
        }
        LogStream::read(self.stream)?;
        about(self.r#ref).map(drop)
    }
}
