//! What clients ask about jobs: the bounds of questions, and what is to be cancelled. Never answers a question.

use std::time::Duration;

use orlop_core::id::JobId;
use orlop_core::spec::job::Indices;

use super::bound::{Check, LIST_MAX, NAME_MAX, WireError, at_most};
use super::job::BATCH_MAX;
use super::proto::v1;

/// How long a question waits for the end of a job, at most.
pub const WAIT_MAX: Duration = Duration::from_secs(25);
/// Jobs of a page, where a client does not say how many.
pub const PAGE: u32 = 100;
/// Jobs of a page, at most.
pub const PAGE_MAX: u32 = 1000;

impl Check for v1::JobFilter {
    fn check(&self) -> Result<(), WireError> {
        at_most("filter.states", self.states.len(), LIST_MAX)?;
        at_most("filter.labels", self.labels.len(), 64)?;
        at_most("filter.tenant", self.tenant.len(), NAME_MAX)
    }
}

impl Check for v1::ListJobsRequest {
    fn check(&self) -> Result<(), WireError> {
        if self.limit > PAGE_MAX {
            return Err(WireError::new("limit", format!("is {}; use 1 to {PAGE_MAX}", self.limit)));
        }
        at_most("cursor", self.cursor.len(), 1024)?;
        self.filter.as_ref().map_or(Ok(()), Check::check)
    }
}

impl Check for v1::WatchJobsRequest {
    fn check(&self) -> Result<(), WireError> {
        at_most("job_ids", self.job_ids.len(), LIST_MAX)?;
        self.filter.as_ref().map_or(Ok(()), Check::check)
    }
}

/// What is to be cancelled.
#[derive(Clone, Debug, PartialEq)]
pub enum Cancellation {
    /// These jobs.
    Jobs(Vec<JobId>),
    /// These elements of a job.
    Elements(JobId, Indices),
    /// Every job that the filter means.
    Filter(v1::JobFilter),
}

impl TryFrom<v1::CancelJobsRequest> for Cancellation {
    type Error = WireError;

    fn try_from(wire: v1::CancelJobsRequest) -> Result<Self, WireError> {
        at_most("job_ids", wire.job_ids.len(), BATCH_MAX)?;
        let jobs: Vec<JobId> = wire.job_ids.into_iter().map(JobId::from_u64).collect();
        match (jobs.as_slice(), wire.indices.as_str(), wire.filter) {
            ([], "", Some(filter)) => filter.check().map(|()| Self::Filter(filter)),
            ([_, ..], "", None) => Ok(Self::Jobs(jobs)),
            ([job], text, None) => {
                let indices = text.parse().map_err(|error| WireError::new("indices", format!("{error}")))?;
                Ok(Self::Elements(*job, indices))
            }
            _ => Err(WireError::new("job_ids", "needs jobs, one job with indices, or a filter in their place")),
        }
    }
}
