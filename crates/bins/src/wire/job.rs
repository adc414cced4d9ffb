//! What clients submit and see of jobs. Never takes a job.

use std::collections::BTreeMap;

use orlop_core::id::JobId;
use orlop_core::machine::job::JobState;
use orlop_core::spec::job::JobSpec;
use orlop_core::time::Time;

use super::bound::{LIST_MAX, OnWire, WireError, at_most, millis, same_values, time};
use super::problem::{Code, FieldError, Problem};
use super::proto::v1;

same_values! {
    JobState = v1::JobState, "state" {
        Pending, Queued, Assigned, Running, Backoff, Cancelling, Completed, Failed, TimedOut, Cancelled,
    }
}

/// Jobs of one submit.
pub const BATCH_MAX: usize = 10_000;
/// Bytes of an idempotency key.
pub const KEY_MAX: usize = 128;

/// Jobs to be taken all or none. Each was checked.
#[derive(Clone, Debug, PartialEq)]
pub struct Submission {
    /// The jobs.
    pub jobs: Vec<JobSpec>,
    /// With a key a repeated submit has no further effect.
    pub key: Option<String>,
}

impl From<Submission> for v1::SubmitRequest {
    fn from(submission: Submission) -> Self {
        let jobs = submission.jobs.iter().map(JobSpec::encode).collect();
        Self { jobs, idempotency_key: submission.key.unwrap_or_default() }
    }
}

fn key(text: String) -> Result<Option<String>, WireError> {
    at_most("idempotency_key", text.len(), KEY_MAX)?;
    Ok((!text.is_empty()).then_some(text))
}

impl TryFrom<v1::SubmitRequest> for Submission {
    type Error = Box<Problem>;

    /// Reads and checks all jobs; the error tells of every fault of every job, each with its place.
    fn try_from(wire: v1::SubmitRequest) -> Result<Self, Box<Problem>> {
        if wire.jobs.is_empty() {
            return Err(Box::new(WireError::new("jobs", "is empty; submit one or more").into()));
        }
        if wire.jobs.len() > BATCH_MAX {
            let detail = format!("{} jobs are too many for one submit; use at most {BATCH_MAX}", wire.jobs.len());
            return Err(Box::new(Problem::new(Code::TooLarge, detail)));
        }
        let key = key(wire.idempotency_key).map_err(|error| Box::new(error.into()))?;
        let (mut jobs, mut errors) = (Vec::with_capacity(wire.jobs.len()), Vec::new());
        for (at, job) in wire.jobs.into_iter().enumerate() {
            let path = format!("jobs[{at}]");
            match serde_json::from_slice(&job).map(|json| JobSpec::from_json(&json)) {
                Ok(Ok(spec)) => jobs.push(spec),
                Ok(Err(faults)) => errors.extend(Problem::of_spec(faults, &path).errors),
                Err(error) => errors.push(FieldError { path, message: format!("is no JSON: {error}") }),
            }
            if errors.len() >= LIST_MAX {
                break;
            }
        }
        if errors.is_empty() { Ok(Self { jobs, key }) } else { Err(Box::new(Problem::invalid(errors))) }
    }
}

/// What became of a submit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SubmitAnswer {
    /// The jobs, in the order of the submit.
    pub jobs: Vec<JobId>,
    /// It is the answer of an earlier submit with the same key.
    pub replay: bool,
    /// What a user should know.
    pub warnings: Vec<String>,
}

impl From<SubmitAnswer> for v1::SubmitResponse {
    fn from(answer: SubmitAnswer) -> Self {
        let job_ids = answer.jobs.into_iter().map(JobId::as_u64).collect();
        Self { job_ids, replay: answer.replay, warnings: answer.warnings }
    }
}

impl From<v1::SubmitResponse> for SubmitAnswer {
    fn from(wire: v1::SubmitResponse) -> Self {
        let jobs = wire.job_ids.into_iter().map(JobId::from_u64).collect();
        Self { jobs, replay: wire.replay, warnings: wire.warnings }
    }
}

/// A job, or an element of one, as clients see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobView {
    /// The job.
    pub job: JobId,
    /// The element, if it is one.
    pub index: Option<u32>,
    /// Whose it is.
    pub tenant: String,
    /// Its name.
    pub name: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its state; of an array the derived one.
    pub state: JobState,
    /// Why it is in that state, in one word.
    pub reason: String,
    /// Its priority.
    pub priority: u8,
    /// Elements, or 1.
    pub count: u64,
    /// Elements by state, of an array.
    pub counts: Vec<(JobState, u64)>,
    /// The number of its last attempt; 0 = there was none.
    pub attempt: u32,
    /// Repeats after its own failures.
    pub retries: u32,
    /// The worker of its last attempt; empty = there was none.
    pub worker: String,
    /// Its exit code.
    pub exit_code: Option<i32>,
    /// When it was taken.
    pub submitted_at: Option<Time>,
    /// When it began to wait for a worker.
    pub queued_at: Option<Time>,
    /// When its last attempt started.
    pub started_at: Option<Time>,
    /// When it ended.
    pub finished_at: Option<Time>,
    /// The job it repeats.
    pub retry_of: Option<JobId>,
    /// Its correlation id.
    pub correlation_id: String,
    /// Values it left.
    pub outputs: BTreeMap<String, String>,
    /// Grows with each change.
    pub revision: u64,
}

impl From<JobView> for v1::Job {
    fn from(job: JobView) -> Self {
        let count = |(state, count): (JobState, u64)| v1::StateCount { state: state.number(), count };
        Self {
            job_id: job.job.as_u64(),
            index: job.index,
            tenant: job.tenant,
            name: job.name,
            labels: job.labels,
            state: job.state.number(),
            reason: job.reason,
            priority: job.priority.into(),
            count: job.count,
            counts: job.counts.into_iter().map(count).collect(),
            attempt: job.attempt,
            retries: job.retries,
            worker_id: job.worker,
            exit_code: job.exit_code,
            submitted_at: millis(job.submitted_at),
            queued_at: millis(job.queued_at),
            started_at: millis(job.started_at),
            finished_at: millis(job.finished_at),
            retry_of: job.retry_of.map_or(0, JobId::as_u64),
            correlation_id: job.correlation_id,
            outputs: job.outputs,
            revision: job.revision,
        }
    }
}

impl TryFrom<v1::Job> for JobView {
    type Error = WireError;

    fn try_from(wire: v1::Job) -> Result<Self, WireError> {
        let count = |count: v1::StateCount| Ok((JobState::read(count.state)?, count.count));
        Ok(Self {
            job: JobId::from_u64(wire.job_id),
            index: wire.index,
            tenant: wire.tenant,
            name: wire.name,
            labels: wire.labels,
            state: JobState::read(wire.state)?,
            reason: wire.reason,
            priority: u8::try_from(wire.priority).unwrap_or(u8::MAX),
            count: wire.count,
            counts: wire.counts.into_iter().map(count).collect::<Result<_, WireError>>()?,
            attempt: wire.attempt,
            retries: wire.retries,
            worker: wire.worker_id,
            exit_code: wire.exit_code,
            submitted_at: time(wire.submitted_at),
            queued_at: time(wire.queued_at),
            started_at: time(wire.started_at),
            finished_at: time(wire.finished_at),
            retry_of: (wire.retry_of > 0).then(|| JobId::from_u64(wire.retry_of)),
            correlation_id: wire.correlation_id,
            outputs: wire.outputs,
            revision: wire.revision,
        })
    }
}
