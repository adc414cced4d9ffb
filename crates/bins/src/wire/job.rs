//! What clients submit and see of jobs. Never takes a job.

use orlop_core::error::{Code, FieldError, Problem};
use orlop_core::exact;
use orlop_core::id::JobId;
use orlop_core::machine::job::JobState;
use orlop_core::spec::job::JobSpec;

use super::bound::{LIST_MAX, OnWire, WireError, at_most, same_values};
use super::problem::of_spec;
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
    type Error = Problem;

    /// Reads and checks all jobs; the error tells of every fault of every job, each with its place.
    fn try_from(wire: v1::SubmitRequest) -> Result<Self, Problem> {
        if wire.jobs.is_empty() {
            return Err(WireError::new("jobs", "is empty; submit one or more").into());
        }
        if wire.jobs.len() > BATCH_MAX {
            let detail = format!("{} jobs are too many for one submit; use at most {BATCH_MAX}", wire.jobs.len());
            return Err(Problem::coded(Code::TooLarge, detail));
        }
        let key = key(wire.idempotency_key)?;
        let (mut jobs, mut errors) = (Vec::with_capacity(wire.jobs.len()), Vec::new());
        for (at, job) in wire.jobs.into_iter().enumerate() {
            let path = format!("jobs[{at}]");
            match exact::from_slice(&job).map(|json| JobSpec::from_json(&json)) {
                Ok(Ok(spec)) => jobs.push(spec),
                Ok(Err(faults)) => errors.extend(of_spec(faults, &path).fields),
                Err(error) => errors.push(FieldError { path, message: format!("is not valid JSON: {error}") }),
            }
            if errors.len() >= LIST_MAX {
                break;
            }
        }
        if errors.is_empty() { Ok(Self { jobs, key }) } else { Err(Problem::invalid(errors)) }
    }
}

impl v1::SubmitResponse {
    /// The jobs, in the order of the submit.
    #[must_use]
    pub fn jobs(&self) -> Vec<JobId> {
        self.job_ids.iter().map(|id| JobId::from_u64(*id)).collect()
    }
}

impl v1::Job {
    /// Which one.
    #[must_use]
    pub fn id(&self) -> JobId {
        JobId::from_u64(self.job_id)
    }

    /// Its state; of an array the derived one.
    ///
    /// # Errors
    /// The message does not say it, or this version does not know it.
    pub fn known_state(&self) -> Result<JobState, WireError> {
        JobState::read(self.state)
    }
}

impl v1::JobEvent {
    /// The job after the event.
    ///
    /// # Errors
    /// The message does not say it.
    pub fn known_job(&self) -> Result<&v1::Job, WireError> {
        self.job.as_ref().ok_or_else(|| WireError::missing("job"))
    }
}
