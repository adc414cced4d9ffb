//! What clients ask about jobs, and the answers: lists, cancellations, events, logs. Never answers a question.

use std::collections::BTreeMap;
use std::time::Duration;

use orlop_core::id::JobId;
use orlop_core::machine::job::JobState;
use orlop_core::spec::job::Indices;
use orlop_core::task::LogStream;
use orlop_core::time::Time;

use super::bound::{LIST_MAX, NAME_MAX, OnWire, WireError, at_most, each, millis, text, time};
use super::job::{BATCH_MAX, JobView};
use super::proto::v1;
use super::result::LogChunk;

/// Which jobs are meant; what is absent does not matter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobFilter {
    /// In one of these states; none = in any.
    pub states: Vec<JobState>,
    /// Of this tenant.
    pub tenant: Option<String>,
    /// With all of these labels.
    pub labels: BTreeMap<String, String>,
    /// Submitted since.
    pub since: Option<Time>,
}

impl From<JobFilter> for v1::JobFilter {
    fn from(filter: JobFilter) -> Self {
        let states = filter.states.into_iter().map(OnWire::number).collect();
        let tenant = filter.tenant.unwrap_or_default();
        Self { states, tenant, labels: filter.labels, since: millis(filter.since) }
    }
}

impl TryFrom<v1::JobFilter> for JobFilter {
    type Error = WireError;

    fn try_from(wire: v1::JobFilter) -> Result<Self, WireError> {
        at_most("filter.states", wire.states.len(), LIST_MAX)?;
        at_most("filter.labels", wire.labels.len(), 64)?;
        let tenant = text("filter.tenant", wire.tenant, NAME_MAX)?;
        Ok(Self {
            states: wire.states.into_iter().map(JobState::read).collect::<Result<_, _>>()?,
            tenant: (!tenant.is_empty()).then_some(tenant),
            labels: wire.labels,
            since: time(wire.since),
        })
    }
}

/// A question for many jobs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobQuery {
    /// Which.
    pub filter: JobFilter,
    /// How many, 1 to 1000.
    pub limit: u32,
    /// Where the page before ended; empty = from the beginning.
    pub cursor: String,
}

impl From<JobQuery> for v1::ListJobsRequest {
    fn from(query: JobQuery) -> Self {
        Self { filter: Some(query.filter.into()), limit: query.limit, cursor: query.cursor }
    }
}

impl TryFrom<v1::ListJobsRequest> for JobQuery {
    type Error = WireError;

    fn try_from(wire: v1::ListJobsRequest) -> Result<Self, WireError> {
        let limit = if wire.limit == 0 { 100 } else { wire.limit };
        if limit > 1000 {
            return Err(WireError::new("limit", format!("is {limit}; use 1 to 1000")));
        }
        let filter = wire.filter.unwrap_or_default().try_into()?;
        Ok(Self { filter, limit, cursor: text("cursor", wire.cursor, 1024)? })
    }
}

/// Jobs that answer a question.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobPage {
    /// The jobs.
    pub items: Vec<JobView>,
    /// Where the next page begins; empty = there is none.
    pub next_cursor: String,
}

impl From<JobPage> for v1::ListJobsResponse {
    fn from(page: JobPage) -> Self {
        Self { items: page.items.into_iter().map(Into::into).collect(), next_cursor: page.next_cursor }
    }
}

impl TryFrom<v1::ListJobsResponse> for JobPage {
    type Error = WireError;

    fn try_from(wire: v1::ListJobsResponse) -> Result<Self, WireError> {
        Ok(Self { items: each(wire.items)?, next_cursor: wire.next_cursor })
    }
}

/// What is to be cancelled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cancellation {
    /// These jobs.
    Jobs(Vec<JobId>),
    /// These elements of a job.
    Elements(JobId, Indices),
    /// Every job that the filter means.
    Filter(JobFilter),
}

impl From<Cancellation> for v1::CancelJobsRequest {
    fn from(cancellation: Cancellation) -> Self {
        match cancellation {
            Cancellation::Jobs(jobs) => {
                let job_ids = jobs.into_iter().map(JobId::as_u64).collect();
                Self { job_ids, ..Self::default() }
            }
            Cancellation::Elements(job, indices) => {
                Self { job_ids: vec![job.as_u64()], indices: indices.to_string(), filter: None }
            }
            Cancellation::Filter(filter) => Self { filter: Some(filter.into()), ..Self::default() },
        }
    }
}

impl TryFrom<v1::CancelJobsRequest> for Cancellation {
    type Error = WireError;

    fn try_from(wire: v1::CancelJobsRequest) -> Result<Self, WireError> {
        at_most("job_ids", wire.job_ids.len(), BATCH_MAX)?;
        let jobs: Vec<JobId> = wire.job_ids.into_iter().map(JobId::from_u64).collect();
        match (jobs.as_slice(), wire.indices.as_str(), wire.filter) {
            ([], "", Some(filter)) => Ok(Self::Filter(filter.try_into()?)),
            ([_, ..], "", None) => Ok(Self::Jobs(jobs)),
            ([job], text, None) => {
                let indices = text.parse().map_err(|error| WireError::new("indices", format!("{error}")))?;
                Ok(Self::Elements(*job, indices))
            }
            _ => Err(WireError::new("job_ids", "needs jobs, one job with indices, or a filter in their place")),
        }
    }
}

/// What became of a cancellation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CancelAnswer {
    /// So many are being cancelled.
    pub cancelled: u64,
    /// So many had ended before.
    pub ended: u64,
}

/// Why a job is where it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Explained {
    /// In a few words.
    pub summary: String,
    /// In full, as REST gives it.
    pub json: String,
}

/// Which events are asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Watching {
    /// Of these jobs; none = of those that the filter means.
    pub jobs: Vec<JobId>,
    /// Which jobs otherwise.
    pub filter: JobFilter,
    /// After this event; 0 = the present state first.
    pub after: u64,
    /// Until all of the named jobs have ended.
    pub until_ended: bool,
}

impl From<Watching> for v1::WatchJobsRequest {
    fn from(watch: Watching) -> Self {
        let job_ids = watch.jobs.into_iter().map(JobId::as_u64).collect();
        let filter = Some(watch.filter.into());
        Self { job_ids, filter, after: watch.after, until_ended: watch.until_ended }
    }
}

impl TryFrom<v1::WatchJobsRequest> for Watching {
    type Error = WireError;

    fn try_from(wire: v1::WatchJobsRequest) -> Result<Self, WireError> {
        at_most("job_ids", wire.job_ids.len(), LIST_MAX)?;
        let jobs = wire.job_ids.into_iter().map(JobId::from_u64).collect();
        let filter = wire.filter.unwrap_or_default().try_into()?;
        Ok(Self { jobs, filter, after: wire.after, until_ended: wire.until_ended })
    }
}

/// A job changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobEvent {
    /// Its number.
    pub id: u64,
    /// When.
    pub time: Option<Time>,
    /// The job after the event.
    pub job: JobView,
    /// Events before this one were missed.
    pub lagged: bool,
}

impl From<JobEvent> for v1::JobEvent {
    fn from(event: JobEvent) -> Self {
        Self { id: event.id, time: millis(event.time), job: Some(event.job.into()), lagged: event.lagged }
    }
}

impl TryFrom<v1::JobEvent> for JobEvent {
    type Error = WireError;

    fn try_from(wire: v1::JobEvent) -> Result<Self, WireError> {
        let job = wire.job.ok_or_else(|| WireError::missing("job"))?.try_into()?;
        Ok(Self { id: wire.id, time: time(wire.time), job, lagged: wire.lagged })
    }
}

/// Which log is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogQuery {
    /// Of which job.
    pub job: JobId,
    /// Of which element.
    pub index: Option<u32>,
    /// Of which attempt; none = the latest.
    pub attempt: Option<u32>,
    /// Of which stream; none = of all.
    pub stream: Option<LogStream>,
    /// Whether what comes later is sent too.
    pub follow: bool,
    /// From this chunk on.
    pub since_seq: u64,
    /// Written since.
    pub since: Option<Time>,
}

impl From<LogQuery> for v1::LogsRequest {
    fn from(query: LogQuery) -> Self {
        Self {
            job_id: query.job.as_u64(),
            index: query.index,
            attempt: query.attempt.unwrap_or(0),
            stream: query.stream.map_or(0, OnWire::number),
            follow: query.follow,
            since_seq: query.since_seq,
            since: millis(query.since),
        }
    }
}

impl TryFrom<v1::LogsRequest> for LogQuery {
    type Error = WireError;

    fn try_from(wire: v1::LogsRequest) -> Result<Self, WireError> {
        Ok(Self {
            job: JobId::from_u64(wire.job_id),
            index: wire.index,
            attempt: (wire.attempt > 0).then_some(wire.attempt),
            stream: if wire.stream == 0 { None } else { Some(LogStream::read(wire.stream)?) },
            follow: wire.follow,
            since_seq: wire.since_seq,
            since: time(wire.since),
        })
    }
}

/// A piece of a log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogPage {
    /// Its chunks.
    pub chunks: Vec<LogChunk>,
    /// Nothing follows.
    pub end: bool,
}

impl From<LogPage> for v1::LogsResponse {
    fn from(page: LogPage) -> Self {
        Self { chunks: page.chunks.into_iter().map(Into::into).collect(), end: page.end }
    }
}

impl TryFrom<v1::LogsResponse> for LogPage {
    type Error = WireError;

    fn try_from(wire: v1::LogsResponse) -> Result<Self, WireError> {
        Ok(Self { chunks: each(wire.chunks)?, end: wire.end })
    }
}

/// How long a question waits for the end of a job, at most.
pub const WAIT_MAX: Duration = Duration::from_secs(25);
