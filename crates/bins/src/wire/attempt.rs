//! How attempts are addressed on the wire, and what is sent to start and end them. Never judges a token.

use orlop_core::hardware::gpu::GpuShape;
use orlop_core::id::{Epoch, JobId};
use orlop_core::spec::job::SecretAs;
use orlop_core::task::{CancelReason, StartMode, TaskRef};
use orlop_core::time::Time;

use super::bound::{Check, LIST_MAX, NAME_MAX, OnWire, TEXT_MAX, WireError, at_most, millis, same_values, time};
use super::proto::v1;

pub use super::proto::v1::job_started::Process;
pub use super::proto::v1::{AssignJob, CancelJob, JobAccepted, JobStarted, Rejected, SecretValue};

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
    pub fn given_as(&self) -> SecretAs {
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
        StartMode::read(self.mode).unwrap_or(StartMode::Now)
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
    pub fn why(&self) -> CancelReason {
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
#[must_use]
pub fn is_command(reason: &str) -> bool {
    reason.split(':').next() == Some("command")
}

/// Whether another worker would not help: the secret, artifact or image that is named is missing everywhere.
#[must_use]
pub fn is_permanent(reason: &str) -> bool {
    matches!(reason.split(':').next(), Some("secret" | "artifact" | "image"))
}
