//! What workers report while they live: status and heartbeats. Never judges a worker.

use orlop_core::id::{Epoch, SessionId, WorkerId};
use orlop_core::machine::worker::WorkerState;
use orlop_core::task::TaskRef;
use orlop_core::time::Time;

use super::attempt::about;
use super::bound::{
    ATTEMPTS_MAX, NAME_MAX, OnWire, TEXT_MAX, WireError, at_most, each, millis, same_values, text, time,
};
use super::frame::Directive;
use super::proto::v1;
use super::worker::{session, worker_id};

same_values! {
    WorkerState = v1::WorkerState, "status.state" {
        Creating, Registering, Available, Running, Unhealthy, Draining, Failed, Terminated,
    }
}

/// Amounts that attempts hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Allocated {
    /// Millicores.
    pub cpu_m: u64,
    /// Bytes.
    pub memory_bytes: u64,
    /// Devices.
    pub gpus: u32,
    /// Attempts.
    pub attempts: u32,
}

/// What a host measures of itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Measured {
    /// CPU in use, 0 to 100.
    pub cpu_percent: f64,
    /// Memory in use, in bytes.
    pub memory_bytes: u64,
    /// Free bytes where work and spool lie.
    pub disk_free: u64,
    /// Bytes a second, read and written.
    pub disk_io: u64,
    /// Bytes a second, received and sent.
    pub net_io: u64,
    /// Each device in use, 0 to 100.
    pub gpu_percent: Vec<f64>,
    /// Runnable threads, mean of one minute.
    pub load: f64,
}

/// One thing an agent checks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthCheck {
    /// What.
    pub check: String,
    /// Whether it is good.
    pub ok: bool,
    /// Particulars.
    pub detail: String,
}

/// What an agent holds that the server does not have yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OutboxStatus {
    /// Bytes.
    pub bytes: u64,
    /// Results.
    pub results: u64,
    /// Bytes of logs given up.
    pub dropped: u64,
}

/// What an attempt uses while it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttemptUse {
    /// The attempt.
    pub attempt: TaskRef,
    /// CPU in millicores, mean since it was measured before.
    pub cpu_m: u64,
    /// Memory it holds, in bytes.
    pub memory_bytes: u64,
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
        let Allocated { cpu_m, memory_bytes, gpus, attempts } = status.allocated;
        let Measured { cpu_percent, memory_bytes: used, disk_free, disk_io, net_io, gpu_percent, load } =
            status.measured;
        let check = |HealthCheck { check, ok, detail }: HealthCheck| v1::HealthCheck { check, ok, detail };
        let OutboxStatus { bytes, results, dropped } = status.outbox;
        let memory = used;
        Self {
            worker_id: status.worker.into(),
            state: status.state.number(),
            refs: status.attempts.into_iter().map(Into::into).collect(),
            allocated: Some(v1::Allocated { cpu_m, memory_bytes, gpus, attempts }),
            measured: Some(v1::Measured {
                cpu_percent,
                memory_bytes: memory,
                disk_free,
                disk_io,
                net_io,
                gpu_percent,
                load,
            }),
            health: status.health.into_iter().map(check).collect(),
            spool: Some(v1::SpoolStatus { bytes, results, dropped }),
            time: millis(status.time),
            in_use: status.in_use.into_iter().map(Into::into).collect(),
        }
    }
}

impl From<AttemptUse> for v1::AttemptUse {
    fn from(AttemptUse { attempt, cpu_m, memory_bytes }: AttemptUse) -> Self {
        Self { r#ref: Some(attempt.into()), cpu_m, memory_bytes }
    }
}

impl TryFrom<v1::AttemptUse> for AttemptUse {
    type Error = WireError;

    fn try_from(wire: v1::AttemptUse) -> Result<Self, WireError> {
        let v1::AttemptUse { r#ref, cpu_m, memory_bytes } = wire;
        Ok(Self { attempt: about(r#ref)?, cpu_m, memory_bytes })
    }
}

/// A measured number; one that is none counts as 0.
fn finite(number: f64) -> f64 {
    if number.is_finite() { number } else { 0.0 }
}

impl From<v1::Measured> for Measured {
    fn from(wire: v1::Measured) -> Self {
        Self {
            cpu_percent: finite(wire.cpu_percent),
            memory_bytes: wire.memory_bytes,
            disk_free: wire.disk_free,
            disk_io: wire.disk_io,
            net_io: wire.net_io,
            gpu_percent: wire.gpu_percent.into_iter().map(finite).collect(),
            load: finite(wire.load),
        }
    }
}

impl TryFrom<v1::HealthCheck> for HealthCheck {
    type Error = WireError;

    fn try_from(wire: v1::HealthCheck) -> Result<Self, WireError> {
        let check = text("health.check", wire.check, NAME_MAX)?;
        Ok(Self { check, ok: wire.ok, detail: text("health.detail", wire.detail, TEXT_MAX)? })
    }
}

impl TryFrom<v1::WorkerStatus> for WorkerStatus {
    type Error = WireError;

    fn try_from(wire: v1::WorkerStatus) -> Result<Self, WireError> {
        at_most("status.refs", wire.refs.len(), ATTEMPTS_MAX)?;
        at_most("status.health", wire.health.len(), 64)?;
        at_most("status.in_use", wire.in_use.len(), ATTEMPTS_MAX)?;
        let measured = wire.measured.unwrap_or_default();
        at_most("status.measured.gpu_percent", measured.gpu_percent.len(), 64)?;
        let v1::Allocated { cpu_m, memory_bytes, gpus, attempts } = wire.allocated.unwrap_or_default();
        let v1::SpoolStatus { bytes, results, dropped } = wire.spool.unwrap_or_default();
        Ok(Self {
            worker: worker_id(wire.worker_id)?,
            state: WorkerState::read(wire.state)?,
            attempts: each(wire.refs)?,
            allocated: Allocated { cpu_m, memory_bytes, gpus, attempts },
            measured: measured.into(),
            health: each(wire.health)?,
            outbox: OutboxStatus { bytes, results, dropped },
            time: time(wire.time),
            in_use: each(wire.in_use)?,
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

/// The answer to a sign of life.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeartbeatAnswer {
    /// The server's epoch.
    pub epoch: Epoch,
    /// The lease from the sending of the heartbeat, in milliseconds.
    pub lease_ms: u32,
    /// What the agent is to do.
    pub directive: Option<Directive>,
}

impl From<HeartbeatAnswer> for v1::HeartbeatResponse {
    fn from(answer: HeartbeatAnswer) -> Self {
        let directive = answer.directive.map(Into::into);
        Self { epoch: answer.epoch.0, lease_ms: answer.lease_ms, directive }
    }
}

impl TryFrom<v1::HeartbeatResponse> for HeartbeatAnswer {
    type Error = WireError;

    fn try_from(wire: v1::HeartbeatResponse) -> Result<Self, WireError> {
        let directive = wire.directive.map(TryInto::try_into).transpose()?;
        Ok(Self { epoch: Epoch(wire.epoch), lease_ms: wire.lease_ms, directive })
    }
}
