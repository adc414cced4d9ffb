//! What workers report while they live: status and heartbeats. Never judges a worker.

use orlop_core::id::SessionId;
use orlop_core::machine::worker::WorkerState;
use orlop_core::task::TaskRef;
use orlop_core::time::Time;

use super::attempt::about;
use super::bound::{
    ATTEMPTS_MAX, Check, NAME_MAX, OnWire, TEXT_MAX, WireError, at_most, same_values, session, time, worker_id,
};
use super::proto::v1;

pub use super::proto::v1::{
    Allocated, AttemptUse, HealthCheck, HeartbeatRequest as Heartbeat, HeartbeatResponse, Measured, OutboxStatus,
    WorkerStatus,
};

same_values! {
    WorkerState = v1::WorkerState, "status.state" {
        Creating, Registering, Available, Running, Unhealthy, Draining, Failed, Terminated,
    }
}

impl WorkerStatus {
    /// Its state.
    #[must_use]
    pub fn worker_state(&self) -> WorkerState {
        WorkerState::read(self.state).unwrap_or(WorkerState::Unhealthy)
    }

    /// When it was so, by its clock.
    #[must_use]
    pub fn reported_at(&self) -> Option<Time> {
        time(self.time)
    }

    /// Whether all checks are good.
    #[must_use]
    pub fn is_healthy(&self) -> bool {
        self.health.iter().all(|check| check.ok)
    }

    /// The same with 0 for what was measured and is no number, so that nobody adds or shows it.
    #[must_use]
    pub fn finite(mut self) -> Self {
        if let Some(measured) = &mut self.measured {
            let rates = [&mut measured.cpu_percent, &mut measured.load];
            for number in rates.into_iter().chain(&mut measured.gpu_percent).filter(|number| !number.is_finite()) {
                *number = 0.0;
            }
        }
        self
    }
}

impl AttemptUse {
    /// What an attempt uses: CPU in millicores, memory in bytes.
    #[must_use]
    pub fn of(attempt: TaskRef, cpu_m: u64, memory_bytes: u64) -> Self {
        Self { r#ref: Some(attempt.into()), cpu_m, memory_bytes }
    }
}

impl Check for HealthCheck {
    fn check(&self) -> Result<(), WireError> {
        at_most("health.check", self.check.len(), NAME_MAX)?;
        at_most("health.detail", self.detail.len(), TEXT_MAX)
    }
}

impl Check for WorkerStatus {
    fn check(&self) -> Result<(), WireError> {
        at_most("status.refs", self.refs.len(), ATTEMPTS_MAX)?;
        at_most("status.health", self.health.len(), 64)?;
        at_most("status.in_use", self.in_use.len(), ATTEMPTS_MAX)?;
        let gpus = self.measured.as_ref().map_or(0, |measured| measured.gpu_percent.len());
        at_most("status.measured.gpu_percent", gpus, 64)?;
        worker_id(self.worker_id.clone())?;
        WorkerState::read(self.state)?;
        self.refs.iter().try_for_each(Check::check)?;
        self.health.iter().try_for_each(Check::check)?;
        self.in_use.iter().try_for_each(|used| about(used.r#ref).map(drop))
    }
}

impl Heartbeat {
    /// The session it keeps alive. One that names none does not pass its check.
    #[must_use]
    pub fn session(&self) -> SessionId {
        session(&self.session_id).unwrap_or(SessionId::from_bytes([0; 16]))
    }
}

impl Check for Heartbeat {
    fn check(&self) -> Result<(), WireError> {
        session(&self.session_id)?;
        self.status.iter().try_for_each(Check::check)
    }
}

impl Check for HeartbeatResponse {
    fn check(&self) -> Result<(), WireError> {
        self.directive.as_ref().map_or(Ok(()), Check::check)
    }
}
