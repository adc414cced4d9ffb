//! How attempts are addressed on the wire, and what is sent to start and end them. Never judges a token.

use std::fmt;

use orlop_core::hardware::gpu::GpuShape;
use orlop_core::id::{Epoch, JobId};
use orlop_core::spec::job::SecretAs;
use orlop_core::task::{CancelReason, StartMode, TaskRef};
use orlop_core::time::Time;

use super::bound::{LIST_MAX, NAME_MAX, OnWire, TEXT_MAX, WireError, at_most, each, millis, same_values, text, time};
use super::proto::v1;

impl From<TaskRef> for v1::TaskRef {
    fn from(attempt: TaskRef) -> Self {
        let TaskRef { job, index, member, attempt, epoch } = attempt;
        Self { job_id: job.as_u64(), index, member, attempt, epoch: epoch.0 }
    }
}

impl TryFrom<v1::TaskRef> for TaskRef {
    type Error = WireError;

    fn try_from(wire: v1::TaskRef) -> Result<Self, WireError> {
        let v1::TaskRef { job_id, index, member, attempt, epoch } = wire;
        if attempt == 0 {
            return Err(WireError::new("ref.attempt", "is 0; attempts count from 1"));
        }
        Ok(Self { job: JobId::from_u64(job_id), index, member, attempt, epoch: Epoch(epoch) })
    }
}

/// The attempt a message is about.
pub(super) fn about(wire: Option<v1::TaskRef>) -> Result<TaskRef, WireError> {
    wire.ok_or_else(|| WireError::missing("ref"))?.try_into()
}

same_values! { StartMode = v1::assign_job::Mode, "assign.mode" { Now, Inherit } }

same_values! { SecretAs = v1::SecretAs, "secrets.as" { File, Env } }

/// A secret on its way to the attempt that needs it. `Debug` never shows the value.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretValue {
    /// Its name in the tenant.
    pub name: String,
    /// Its value.
    pub value: Vec<u8>,
    /// How the job gets it.
    pub given_as: SecretAs,
    /// File name or variable.
    pub target: String,
    /// Why there is no value: the attempt is to be rejected with this reason; empty = there is one.
    pub problem: String,
}

impl fmt::Debug for SecretValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, given_as, target, problem: _, value: _ } = self;
        f.debug_struct("SecretValue").field("name", name).field("as", given_as).field("target", target).finish()
    }
}

/// The largest value of a secret, in bytes.
pub const SECRET_MAX: usize = 64 << 10;

impl From<SecretValue> for v1::SecretValue {
    fn from(secret: SecretValue) -> Self {
        let SecretValue { name, value, given_as, target, problem } = secret;
        Self { name, value, r#as: given_as.number(), target, problem }
    }
}

impl TryFrom<v1::SecretValue> for SecretValue {
    type Error = WireError;

    fn try_from(wire: v1::SecretValue) -> Result<Self, WireError> {
        at_most("secrets.value", wire.value.len(), SECRET_MAX)?;
        Ok(Self {
            name: text("secrets.name", wire.name, NAME_MAX)?,
            value: wire.value,
            given_as: SecretAs::read(wire.r#as)?,
            target: text("secrets.target", wire.target, TEXT_MAX)?,
            problem: text("secrets.problem", wire.problem, TEXT_MAX)?,
        })
    }
}

/// An attempt for an agent to start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AssignJob {
    /// The attempt with its token.
    pub attempt: TaskRef,
    /// Its specification.
    pub spec_id: u64,
    /// When it starts.
    pub mode: StartMode,
    /// Wall limit from the start of its process, in milliseconds; 0 = none.
    pub timeout_ms: u64,
    /// From the request to end to the kill, in milliseconds.
    pub grace_ms: u64,
    /// Its secrets.
    pub secrets: Vec<SecretValue>,
    /// W3C trace context; empty = none.
    pub traceparent: String,
    /// The client's correlation id.
    pub correlation_id: String,
    /// Devices by number that would suit; empty = any.
    pub device_hint: Vec<u32>,
    /// The kind of GPU that the server has charged; none: any that the specification allows.
    pub gpu: Option<Box<GpuShape>>,
}

impl AssignJob {
    /// An attempt without secrets, limits and context.
    #[must_use]
    pub fn new(attempt: TaskRef, spec_id: u64, mode: StartMode) -> Self {
        let (traceparent, correlation_id) = (String::new(), String::new());
        let (secrets, device_hint) = (Vec::new(), Vec::new());
        Self {
            attempt,
            spec_id,
            mode,
            timeout_ms: 0,
            grace_ms: 10_000,
            secrets,
            traceparent,
            correlation_id,
            device_hint,
            gpu: None,
        }
    }
}

impl From<AssignJob> for v1::AssignJob {
    fn from(assign: AssignJob) -> Self {
        Self {
            r#ref: Some(assign.attempt.into()),
            spec_id: assign.spec_id,
            mode: assign.mode.number(),
            timeout_ms: assign.timeout_ms,
            grace_ms: assign.grace_ms,
            secrets: assign.secrets.into_iter().map(Into::into).collect(),
            traceparent: assign.traceparent,
            correlation_id: assign.correlation_id,
            device_hint: assign.device_hint,
            gpu: assign.gpu.map(|gpu| (*gpu).into()),
        }
    }
}

impl TryFrom<v1::AssignJob> for AssignJob {
    type Error = WireError;

    fn try_from(wire: v1::AssignJob) -> Result<Self, WireError> {
        at_most("assign.secrets", wire.secrets.len(), LIST_MAX)?;
        at_most("assign.device_hint", wire.device_hint.len(), LIST_MAX)?;
        Ok(Self {
            attempt: about(wire.r#ref)?,
            spec_id: wire.spec_id,
            mode: StartMode::read(wire.mode)?,
            timeout_ms: wire.timeout_ms,
            grace_ms: wire.grace_ms,
            secrets: each(wire.secrets)?,
            traceparent: text("assign.traceparent", wire.traceparent, NAME_MAX)?,
            correlation_id: text("assign.correlation_id", wire.correlation_id, NAME_MAX)?,
            device_hint: wire.device_hint,
            gpu: wire.gpu.map(TryInto::try_into).transpose()?.map(Box::new),
        })
    }
}

same_values! {
    CancelReason = v1::cancel_job::Reason, "cancel.reason" { User, Timeout, Preempted, Drain, Stale, Gang }
}

/// An attempt for an agent to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CancelJob {
    /// The attempt.
    pub attempt: TaskRef,
    /// Why.
    pub reason: CancelReason,
    /// From the request to end to the kill, in milliseconds.
    pub grace_ms: u64,
}

impl From<CancelJob> for v1::CancelJob {
    fn from(cancel: CancelJob) -> Self {
        let (reason, grace_ms) = (cancel.reason.number(), cancel.grace_ms);
        Self { r#ref: Some(cancel.attempt.into()), reason, grace_ms }
    }
}

impl TryFrom<v1::CancelJob> for CancelJob {
    type Error = WireError;

    fn try_from(wire: v1::CancelJob) -> Result<Self, WireError> {
        let (reason, grace_ms) = (CancelReason::read(wire.reason)?, wire.grace_ms);
        Ok(Self { attempt: about(wire.r#ref)?, reason, grace_ms })
    }
}

/// What an attempt runs as.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Process {
    /// As nothing.
    #[default]
    None,
    /// As a process with this id.
    Pid(u64),
    /// As a container with this id.
    Container(String),
}

/// An attempt has started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobStarted {
    /// The attempt.
    pub attempt: TaskRef,
    /// What it runs as.
    pub process: Process,
    /// When, by the clock of its host.
    pub started_at: Option<Time>,
}

impl From<JobStarted> for v1::JobStarted {
    fn from(started: JobStarted) -> Self {
        let process = match started.process {
            Process::None => None,
            Process::Pid(pid) => Some(v1::job_started::Process::Pid(pid)),
            Process::Container(id) => Some(v1::job_started::Process::ContainerId(id)),
        };
        Self { r#ref: Some(started.attempt.into()), process, started_at: millis(started.started_at) }
    }
}

impl TryFrom<v1::JobStarted> for JobStarted {
    type Error = WireError;

    fn try_from(wire: v1::JobStarted) -> Result<Self, WireError> {
        let process = match wire.process {
            None => Process::None,
            Some(v1::job_started::Process::Pid(pid)) => Process::Pid(pid),
            Some(v1::job_started::Process::ContainerId(id)) => {
                Process::Container(text("started.container_id", id, NAME_MAX)?)
            }
        };
        Ok(Self { attempt: about(wire.r#ref)?, process, started_at: time(wire.started_at) })
    }
}

/// An agent does not take an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejected {
    /// The attempt.
    pub attempt: TaskRef,
    /// Why: one word, and behind a colon perhaps more for people.
    pub reason: String,
}

impl From<Rejected> for v1::Rejected {
    fn from(rejected: Rejected) -> Self {
        Self { r#ref: Some(rejected.attempt.into()), reason: rejected.reason }
    }
}

impl TryFrom<v1::Rejected> for Rejected {
    type Error = WireError;

    fn try_from(wire: v1::Rejected) -> Result<Self, WireError> {
        Ok(Self { attempt: about(wire.r#ref)?, reason: text("rejected.reason", wire.reason, TEXT_MAX)? })
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
