//! What workers report while they live: status and heartbeats. Never judges a worker.

use orlop_core::id::{Epoch, SessionId, WorkerId};
use orlop_core::machine::worker::WorkerState;
use orlop_core::task::TaskRef;
use orlop_core::time::Time;

use super::attempt::about;
use super::bound::{
    ATTEMPTS_MAX, Check, NAME_MAX, OnWire, TEXT_MAX, WireError, at_most, each, millis, same_values, time,
};
use super::proto::v1;
use super::worker::{session, worker_id};

pub use super::proto::v1::{Allocated, AttemptUse, HealthCheck, HeartbeatResponse, Measured, OutboxStatus};

same_values! {
    WorkerState = v1::WorkerState, "status.state" {
        Creating, Registering, Available, Running, Unhealthy, Draining, Failed, Terminated,
    }
}

/// What a worker says of itself.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkerStatus {
    /// The worker.
    pub worker: WorkerId,
    /// Its state.
    pub state: WorkerState,
    /// Its attempts.
    pub attempts: Vec<TaskRef>,
    /// What they hold.
    pub allocated: Allocated,
    /// What its host measures.
    pub measured: Measured,
    /// What it checked.
    pub health: Vec<HealthCheck>,
    /// What it holds for the server.
    pub outbox: OutboxStatus,
    /// When, by its clock.
    pub time: Option<Time>,
    /// What its attempts use, of those of which that is known.
    pub in_use: Vec<AttemptUse>,
}

impl WorkerStatus {
    /// Whether all checks are good.
    #[must_use]
    pub fn is_healthy(&self) -> bool {
        self.health.iter().all(|check| check.ok)
    }
}

impl From<WorkerStatus> for v1::WorkerStatus {
    fn from(status: WorkerStatus) -> Self {
        Self {
            worker_id: status.worker.into(),
            state: status.state.number(),
            refs: status.attempts.into_iter().map(Into::into).collect(),
            allocated: Some(status.allocated),
            measured: Some(status.measured),
            health: status.health,
            outbox: Some(status.outbox),
            time: millis(status.time),
            in_use: status.in_use,
        }
    }
}

impl AttemptUse {
    /// What an attempt uses: CPU in millicores, memory in bytes.
    #[must_use]
    pub fn of(attempt: TaskRef, cpu_m: u64, memory_bytes: u64) -> Self {
        Self { r#ref: Some(attempt.into()), cpu_m, memory_bytes }
    }

    /// Whose it is.
    ///
    /// # Errors
    /// The message does not say it.
    pub fn attempt(&self) -> Result<TaskRef, WireError> {
        about(self.r#ref)
    }
}

/// Measured numbers; what is none counts as 0.
fn finite(mut measured: Measured) -> Measured {
    let rates = [&mut measured.cpu_percent, &mut measured.load];
    for number in rates.into_iter().chain(&mut measured.gpu_percent).filter(|number| !number.is_finite()) {
        *number = 0.0;
    }
    measured
}

impl Check for HealthCheck {
    fn check(&self) -> Result<(), WireError> {
        at_most("health.check", self.check.len(), NAME_MAX)?;
        at_most("health.detail", self.detail.len(), TEXT_MAX)
    }
}

impl TryFrom<v1::WorkerStatus> for WorkerStatus {
    type Error = WireError;

    fn try_from(wire: v1::WorkerStatus) -> Result<Self, WireError> {
        at_most("status.refs", wire.refs.len(), ATTEMPTS_MAX)?;
        at_most("status.health", wire.health.len(), 64)?;
        at_most("status.in_use", wire.in_use.len(), ATTEMPTS_MAX)?;
        wire.health.iter().try_for_each(Check::check)?;
        wire.in_use.iter().try_for_each(|used| used.attempt().map(drop))?;
        let measured = wire.measured.unwrap_or_default();
        at_most("status.measured.gpu_percent", measured.gpu_percent.len(), 64)?;
        Ok(Self {
            worker: worker_id(wire.worker_id)?,
            state: WorkerState::read(wire.state)?,
            attempts: each(wire.refs)?,
            allocated: wire.allocated.unwrap_or_default(),
            measured: finite(measured),
            health: wire.health,
            outbox: wire.outbox.unwrap_or_default(),
            time: time(wire.time),
            in_use: wire.in_use,
        })
    }
}

/// A sign of life while no stream is up.
#[derive(Clone, Debug, PartialEq)]
pub struct Heartbeat {
    /// The session.
    pub session: SessionId,
    /// The highest epoch the agent has seen.
    pub epoch: Epoch,
    /// What the worker says of itself.
    pub status: Option<WorkerStatus>,
}

impl From<Heartbeat> for v1::HeartbeatRequest {
    fn from(beat: Heartbeat) -> Self {
        let session_id = beat.session.as_bytes().to_vec();
        Self { session_id, epoch: beat.epoch.0, status: beat.status.map(Into::into) }
    }
}

impl TryFrom<v1::HeartbeatRequest> for Heartbeat {
    type Error = WireError;

    fn try_from(wire: v1::HeartbeatRequest) -> Result<Self, WireError> {
        let status = wire.status.map(TryInto::try_into).transpose()?;
        Ok(Self { session: session(&wire.session_id)?, epoch: Epoch(wire.epoch), status })
    }
}

impl Check for HeartbeatResponse {
    fn check(&self) -> Result<(), WireError> {
        self.directive.as_ref().map_or(Ok(()), Check::check)
    }
}
