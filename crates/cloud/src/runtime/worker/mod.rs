//! What a worker of the fleet runs on its machine. Owns the port between the agent and what really runs attempts
//! (processes, containers, nothing), and the values that pass through it; never talks to a server and never decides
//! which attempt is current.
//!
//! A runtime is given an [`AttemptPlan`] in which every decision is taken and tells an [`AttemptEvents`] what becomes of
//! it. `ended` is called when nothing of the attempt is left, so its room is free from then on.

#[cfg(all(feature = "process", target_os = "linux"))]
mod directories;
#[cfg(all(feature = "docker", feature = "process", target_os = "linux"))]
pub mod docker;
#[cfg(all(feature = "process", target_os = "linux"))]
mod environ;
pub mod event;
#[cfg(all(feature = "process", target_os = "linux"))]
mod inputs;
pub mod logs;
pub mod noop;
#[cfg(all(feature = "process", target_os = "linux"))]
mod outputs;
mod plan;
#[cfg(all(feature = "process", target_os = "linux"))]
pub mod process;
#[cfg(all(feature = "process", target_os = "linux"))]
mod verdict;

use std::time::Duration;

use async_trait::async_trait;
use orlop_core::error::Problem;
use orlop_core::task::TaskRef;

pub use event::{AttemptEnd, AttemptEvents, Cause, Kept, LogCapacity, LogChunk, LogTotals, Started};
pub use plan::{AttemptPlan, ExtraUnits, GpuDevice, Secret, User, beneath};

/// What an earlier agent left behind of an attempt.
#[derive(Clone, Debug, PartialEq)]
pub struct Remains {
    /// The attempt.
    pub id: TaskRef,
    /// Its state.
    pub state: RemainsState,
}

/// The state of an attempt that an earlier agent started.
#[derive(Clone, Debug, PartialEq)]
pub enum RemainsState {
    /// It runs and can be taken over.
    Alive {
        /// Its process or container, and when it started.
        started: Started,
    },
    /// It runs and nobody keeps it: it can only be ended.
    Orphaned,
    /// It ended and its end is known.
    Ended,
    /// It is gone, and nobody knows how it ended.
    Gone,
}

/// What an attempt uses while it runs: all its processes together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InUse {
    /// CPU time so far, in milliseconds.
    pub cpu_ms: u64,
    /// Memory it holds at this moment, in bytes.
    pub memory_bytes: u64,
}

/// Runs attempts. Object-safe; every implementation passes the same suite of tests.
#[async_trait]
pub trait JobRuntime: Send + Sync + std::fmt::Debug {
    /// `process`, `docker` or `noop`.
    fn kind(&self) -> &'static str;

    /// Whether it runs steps of flows ([`Run::step`](orlop_core::task::Run::step)). The agent gives them to no runtime that does not.
    fn runs_steps(&self) -> bool {
        false
    }

    /// Starts an attempt. Returns at once; what becomes of it is reported, an attempt that cannot start too
    /// ([`TaskEnd::StartFailed`](orlop_core::task::TaskEnd::StartFailed)).
    fn start(&self, plan: AttemptPlan);

    /// Asks an attempt to end: after `grace` all of it is killed. One that is not here is fine, and so is asking again;
    /// of several causes the first counts, of several times the shortest.
    fn end(&self, id: TaskRef, cause: Cause, grace: Duration);

    /// There is room again for the output of an attempt that got [`LogCapacity::Full`].
    fn resume(&self, id: TaskRef);

    /// Until when attempts that must not overlap may run without further notice, as time from now.
    fn renew_lease(&self, left: Duration);

    /// What an earlier agent left behind. To be asked before anything is started.
    ///
    /// # Errors
    /// Transient when it cannot be found out now.
    async fn list(&self) -> Result<Vec<Remains>, Problem>;

    /// Takes over an attempt of an earlier agent that is alive or has ended: its output after chunk `after_seq` and its
    /// end are reported like those of others. One without supervisor is ended, and reported as Lost.
    ///
    /// # Errors
    /// NotFound when there is no trace of it.
    async fn adopt(&self, id: TaskRef, after_seq: u64) -> Result<(), Problem>;

    /// Removes what is left of an attempt that has ended. That there is nothing is fine.
    ///
    /// # Errors
    /// Transient when it cannot be removed now.
    async fn remove(&self, id: TaskRef) -> Result<(), Problem>;

    /// What some attempts use at this moment. Those that do not run here are left out, and so are those of which that cannot
    /// be told.
    ///
    /// # Errors
    /// Transient when it cannot be found out now.
    async fn in_use(&self, ids: &[TaskRef]) -> Result<Vec<(TaskRef, InUse)>, Problem>;

    /// Whether attempts can be started now.
    ///
    /// # Errors
    /// What is wrong.
    async fn check(&self) -> Result<(), Problem>;
}
