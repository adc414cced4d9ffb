//! What the substrate needs of a fleet: to submit a job once, to wait for its end, to cancel it, to find those of a flow.

use std::collections::BTreeMap;

use async_trait::async_trait;
use orlop_core::attempt::AttemptKey;
use orlop_core::error::Problem;
use orlop_core::id::{JobId, WorkerId};
use orlop_core::machine::job::JobState;
use orlop_core::spec::job::JobSpec;
use orlop_core::time::Time;

/// A fleet that runs attempts of steps as jobs.
#[async_trait]
pub trait StepFleet: Send + Sync {
    /// Submits the job of an attempt: once under its key, however often it is called.
    ///
    /// # Errors
    /// Transient and Capacity: not submitted, ask again. Invalid and Denied: it can never be submitted as it is.
    async fn submit(&self, key: &AttemptKey, spec: JobSpec) -> Result<JobId, Problem>;

    /// Waits until a job has ended, and tells how. Does not poll.
    ///
    /// # Errors
    /// NotFound when there is no such job; Transient when it cannot be watched now.
    async fn ended(&self, job: JobId) -> Result<JobEnd, Problem>;

    /// Has a job end with its attempts. One that has ended is fine.
    ///
    /// # Errors
    /// NotFound; Transient when the fleet cannot be reached now.
    async fn cancel(&self, job: JobId) -> Result<(), Problem>;

    /// Where a job runs, or ran last.
    ///
    /// # Errors
    /// Transient when that cannot be seen now.
    async fn place_of(&self, job: JobId) -> Result<JobPlace, Problem>;

    /// The same, as soon as it is elsewhere than before; without a before at once. Does not poll.
    ///
    /// # Errors
    /// Transient when it cannot be watched now.
    async fn next_place(&self, job: JobId, before: Option<&JobPlace>) -> Result<JobPlace, Problem>;

    /// Has jobs be able to require a worker by its label [`super::WORKER`].
    ///
    /// # Errors
    /// NotFound; Transient when the fleet cannot be reached now.
    async fn name_worker(&self, worker: &WorkerId) -> Result<(), Problem>;

    /// The jobs of a flow, of every step and attempt.
    ///
    /// # Errors
    /// Transient when they cannot be seen now.
    async fn of_flow(&self, flow: &str) -> Result<Vec<FlowJob>, Problem>;
}

/// Where a job is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobPlace {
    /// It waits for a worker.
    Nowhere,
    /// On this worker.
    On(WorkerId),
    /// It ended without ever having had one.
    Never,
}

/// A job of a flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowJob {
    /// The attempt that it is.
    pub key: AttemptKey,
    /// The job.
    pub job: JobId,
    /// The claims that it mounts.
    pub claims: Vec<String>,
}

/// How a job ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobEnd {
    /// Its final state.
    pub state: JobState,
    /// Why.
    pub reason: String,
    /// Exit code of its last attempt.
    pub exit_code: Option<i32>,
    /// Outputs of its last attempt.
    pub outputs: BTreeMap<String, String>,
    /// When it ended.
    pub ended_at: Time,
}
