//! Attempts on the wire: how they are addressed, what is sent to start and end them, how they ended, and what they wrote. Never
//! judges a token or a result.

use bytes::Bytes;
use orlop_core::hardware::gpu::GpuShape;
use orlop_core::id::{Epoch, JobId};
use orlop_core::spec::job::SecretAs;
use orlop_core::task::{CancelReason, LogGap, LogStream, StartMode, TaskEnd, TaskRef, Usage};
use orlop_core::time::Time;
use orlop_scheduler::event::Outcome;

use super::bound::{
    CHUNK_MAX, Check, FRAME_BYTES, LIST_MAX, NAME_MAX, OUTPUTS_MAX, OnWire, TAIL_MAX, TEXT_MAX, WireError, at_most,
    millis, same_values, time, weight,
};
use super::proto::v1;

pub use super::proto::v1::job_started::Process;
pub use super::proto::v1::{
    Artifact, AssignJob, CancelJob, JobAccepted, JobResult, JobStarted, LogChunk, LogSummary, Rejected, SecretValue,
};

impl From<TaskRef> for v1::TaskRef {
    fn from(attempt: TaskRef) -> Self {
        let TaskRef { job, index, member, attempt, epoch } = attempt;
        Self { job_id: job.as_u64(), index, member, attempt, epoch: epoch.0 }
    }
}

impl From<v1::TaskRef> for TaskRef {
    fn from(wire: v1::TaskRef) -> Self {
        let v1::TaskRef { job_id, index, member, attempt, epoch } = wire;
        Self { job: JobId::from_u64(job_id), index, member, attempt, epoch: Epoch(epoch) }
    }
}

impl Check for v1::TaskRef {
    fn check(&self) -> Result<(), WireError> {
        if self.attempt == 0 {
            return Err(WireError::new("ref.attempt", "is 0; attempts count from 1"));
        }
        Ok(())
    }
}

/// The attempt a message is about.
pub(super) fn about(wire: Option<v1::TaskRef>) -> Result<TaskRef, WireError> {
    let wire = wire.ok_or_else(|| WireError::missing("ref"))?;
    wire.check().map(|()| wire.into())
}

/// Gives messages about an attempt what reads it.
macro_rules! of_attempts {
    ($($message:ty),+ $(,)?) => {
        $(impl $message {
            /// The attempt it is about. A message without one does not pass its check; it would be about attempt 0 of job 0, which
            /// there is not.
            #[must_use]
            pub fn attempt(&self) -> TaskRef {
                self.r#ref.unwrap_or_default().into()
            }
        })+
    };
}

of_attempts! {
    AssignJob, CancelJob, JobAccepted, JobStarted, Rejected, v1::AttemptUse, v1::JobResult, v1::Judgement, v1::LiveAttempt,
    v1::LogChunk,
}

same_values! { StartMode = v1::assign_job::Mode, "assign.mode" { Now, Inherit } }

same_values! { SecretAs = v1::SecretAs, "secrets.as" { File, Env } }

/// The largest value of a secret, in bytes.
pub const SECRET_MAX: usize = 64 << 10;

impl SecretValue {
    /// How the job gets it.
    #[must_use]
    pub fn secret_as(&self) -> SecretAs {
        SecretAs::read(self.r#as).unwrap_or(SecretAs::File)
    }
}

impl Check for SecretValue {
    fn check(&self) -> Result<(), WireError> {
        at_most("secrets.value", self.value.len(), SECRET_MAX)?;
        at_most("secrets.name", self.name.len(), NAME_MAX)?;
        SecretAs::read(self.r#as)?;
        at_most("secrets.target", self.target.len(), TEXT_MAX)?;
        at_most("secrets.problem", self.problem.len(), TEXT_MAX)
    }
}

impl AssignJob {
    /// An attempt without secrets, limits and context.
    #[must_use]
    pub fn new(attempt: TaskRef, spec_id: u64, mode: StartMode) -> Self {
        Self { r#ref: Some(attempt.into()), spec_id, mode: mode.number(), grace_ms: 10_000, ..Self::default() }
    }

    /// When it starts.
    #[must_use]
    pub fn start_mode(&self) -> StartMode {
        StartMode::read(self.mode).unwrap_or(StartMode::Inherit)
    }

    /// The kind of GPU that the server has charged; none: any that the specification allows.
    #[must_use]
    pub fn charged_gpu(&self) -> Option<GpuShape> {
        self.gpu.clone()?.try_into().ok()
    }
}

impl Check for AssignJob {
    fn check(&self) -> Result<(), WireError> {
        at_most("assign.secrets", self.secrets.len(), LIST_MAX)?;
        at_most("assign.device_hint", self.device_hint.len(), LIST_MAX)?;
        about(self.r#ref)?;
        StartMode::read(self.mode)?;
        self.secrets.iter().try_for_each(Check::check)?;
        at_most("assign.traceparent", self.traceparent.len(), NAME_MAX)?;
        at_most("assign.correlation_id", self.correlation_id.len(), NAME_MAX)?;
        self.gpu.clone().map_or(Ok(()), |gpu| GpuShape::try_from(gpu).map(drop))
    }
}

same_values! {
    CancelReason = v1::cancel_job::Reason, "cancel.reason" { User, Timeout, Preempted, Drain, Stale, Gang }
}

impl CancelJob {
    /// An attempt to end, and after how many milliseconds it is killed.
    #[must_use]
    pub fn new(attempt: TaskRef, reason: CancelReason, grace_ms: u64) -> Self {
        Self { r#ref: Some(attempt.into()), reason: reason.number(), grace_ms }
    }

    /// Why it is to end.
    #[must_use]
    pub fn cancel_reason(&self) -> CancelReason {
        CancelReason::read(self.reason).unwrap_or(CancelReason::User)
    }
}

impl Check for CancelJob {
    fn check(&self) -> Result<(), WireError> {
        CancelReason::read(self.reason)?;
        about(self.r#ref).map(drop)
    }
}

impl JobAccepted {
    /// An attempt that an agent took.
    #[must_use]
    pub fn new(attempt: TaskRef) -> Self {
        Self { r#ref: Some(attempt.into()) }
    }
}

impl Check for JobAccepted {
    fn check(&self) -> Result<(), WireError> {
        about(self.r#ref).map(drop)
    }
}

impl JobStarted {
    /// An attempt that has started, what it runs as, and when by the clock of its host.
    #[must_use]
    pub fn new(attempt: TaskRef, process: Option<Process>, started_at: Option<Time>) -> Self {
        Self { r#ref: Some(attempt.into()), process, started_at: millis(started_at) }
    }

    /// When it started, by the clock of its host.
    #[must_use]
    pub fn started(&self) -> Option<Time> {
        time(self.started_at)
    }
}

impl Check for JobStarted {
    fn check(&self) -> Result<(), WireError> {
        if let Some(Process::ContainerId(id)) = &self.process {
            at_most("started.container_id", id.len(), NAME_MAX)?;
        }
        about(self.r#ref).map(drop)
    }
}

impl Rejected {
    /// An attempt that an agent does not take, and why: one word, and behind a colon perhaps more for people.
    #[must_use]
    pub fn new(attempt: TaskRef, reason: impl Into<String>) -> Self {
        Self { r#ref: Some(attempt.into()), reason: reason.into() }
    }
}

impl Check for Rejected {
    fn check(&self) -> Result<(), WireError> {
        about(self.r#ref)?;
        at_most("rejected.reason", self.reason.len(), TEXT_MAX)
    }
}

/// Whether the command itself is what could not be started.
fn is_command(reason: &str) -> bool {
    reason.split(':').next() == Some("command")
}

/// Whether another worker would not help: the secret, artifact or image that is named is missing everywhere.
#[must_use]
pub fn is_permanent(reason: &str) -> bool {
    matches!(reason.split(':').next(), Some("secret" | "artifact" | "image"))
}

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
    pub fn with_times(self, started: Option<Time>, finished: Option<Time>) -> Self {
        Self { started_at: millis(started), finished_at: millis(finished), ..self }
    }

    /// How it ended.
    #[must_use]
    pub fn task_end(&self) -> TaskEnd {
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
    pub fn task_usage(&self) -> Usage {
        let v1::Usage { cpu_ms, max_rss, io_read, io_write } = self.usage.unwrap_or_default();
        Usage { cpu_ms, max_rss, io_read, io_write }
    }

    /// How much it wrote.
    #[must_use]
    pub fn log_summary(&self) -> LogSummary {
        self.log.unwrap_or_default()
    }

    /// The end in the words of the scheduler.
    #[must_use]
    pub fn scheduler_outcome(&self) -> Outcome {
        match self.task_end() {
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
    pub fn with_time_and_gap(self, written: Option<Time>, gap: Option<LogGap>) -> Self {
        let gap = gap.map(|LogGap { chunks, bytes }| v1::LogGap { chunks, bytes });
        Self { time: millis(written), gap, ..self }
    }

    /// Where it comes from.
    #[must_use]
    pub fn log_stream(&self) -> LogStream {
        LogStream::read(self.stream).unwrap_or(LogStream::System)
    }

    /// When it was written, by the clock of its host.
    #[must_use]
    pub fn written(&self) -> Option<Time> {
        time(self.time)
    }

    /// What is missing before it.
    #[must_use]
    pub fn log_gap(&self) -> Option<LogGap> {
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
