//! The fleet that a deployment's machine works for: what it knows of the worker there. Owns the
//! port and what an answer means; asks nobody itself.

#[cfg(feature = "openstack")]
mod rest;

use async_trait::async_trait;
use orlop_core::error::Problem;
use orlop_core::machine::worker::WorkerState;

use super::idle::Work;
use super::mark::DeploymentId;

#[cfg(feature = "openstack")]
pub use rest::RestFleet;

/// A worker as its fleet shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerSeen {
    /// Its id.
    pub id: String,
    /// Its state.
    pub state: WorkerState,
    /// Something that changes with its state, for any reader and any number of reads.
    pub since: String,
    /// Attempts that hold its capacity.
    pub attempts: u32,
    /// Whether it is in touch.
    pub connected: bool,
}

impl WorkerSeen {
    /// Whether it has joined, whatever it does now.
    #[must_use]
    pub const fn is_registered(&self) -> bool {
        use WorkerState as S;
        matches!(self.state, S::Available | S::Running | S::Unhealthy | S::Draining)
    }

    /// Whether it is in its fleet no more.
    #[must_use]
    pub const fn has_left(&self) -> bool {
        matches!(self.state, WorkerState::Terminated | WorkerState::Failed)
    }
}

/// Queries and orders to a fleet.
#[async_trait]
pub trait Fleet: Send + Sync {
    /// The worker of a deployment: the latest with its label; nothing if there is none.
    ///
    /// # Errors
    /// The fleet cannot be asked, or does not answer to this caller.
    async fn worker(&self, deployment: &DeploymentId) -> Result<Option<WorkerSeen>, Problem>;

    /// Has a worker finish what it has and leave. Doing so again changes nothing.
    ///
    /// # Errors
    /// The fleet cannot be asked, or does not let this caller do so.
    async fn drain(&self, worker: &str) -> Result<(), Problem>;
}

/// What a worker does.
#[must_use]
pub fn work_of(worker: Option<&WorkerSeen>) -> Work {
    let Some(worker) = worker else { return Work::Missing };
    match worker.state {
        _ if worker.has_left() => Work::Left,
        WorkerState::Creating | WorkerState::Registering | WorkerState::Unhealthy => Work::Unknown,
        WorkerState::Draining if worker.attempts > 0 => Work::Leaving { is_busy: true },
        _ if worker.attempts > 0 || worker.state == WorkerState::Running => Work::Busy,
        _ if !worker.connected => Work::Unknown,
        WorkerState::Draining => Work::Leaving { is_busy: false },
        _ => Work::Idle { mark: Some(worker.since.clone()) },
    }
}

#[cfg(test)]
mod tests {
    use orlop_core::machine::Named as _;

    use super::*;

    #[test]
    fn a_worker_is_idle_only_while_it_is_in_touch_and_has_nothing() {
        let work = |state, attempts, connected| {
            let worker = WorkerSeen { id: "w".into(), state, since: "t".into(), attempts, connected };
            match work_of(Some(&worker)) {
                Work::Idle { mark } => format!("idle {}", mark.unwrap()),
                other => format!("{other:?}"),
            }
        };
        let all = |attempts, connected| {
            let one = |state: &WorkerState| format!("{} {}", state.as_str(), work(*state, attempts, connected));
            WorkerState::ALL.iter().map(one).collect::<Vec<_>>().join(", ")
        };
        let idle = "Creating Unknown, Registering Unknown, Available idle t, Running Busy, Unhealthy Unknown, Draining Leaving { is_busy: false }, Failed Left, Terminated Left";
        assert_eq!(all(0, true), idle);
        let away = "Creating Unknown, Registering Unknown, Available Unknown, Running Busy, Unhealthy Unknown, Draining Unknown, Failed Left, Terminated Left";
        assert_eq!(all(0, false), away);
        assert_eq!(work(WorkerState::Draining, 1, true), "Leaving { is_busy: true }");
        assert_eq!(work_of(None), Work::Missing);
    }
}
