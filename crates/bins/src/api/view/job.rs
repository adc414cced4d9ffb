//! Jobs, elements and attempts as they are shown.

use std::collections::BTreeMap;

use orlop_core::machine::job::JobState;
use orlop_core::ports::fleet_store::{AttemptRow, ElementCounts, ElementRow, JobRow};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::list::Listed;
use super::{time, times};
use crate::host::scheduler::Snapshot;

/// A job.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Job)]
pub(crate) struct JobView {
    pub(crate) id: String,
    pub(crate) tenant: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) name: Option<String>,
    /// `single`, `array` or `gang`
    pub(crate) kind: String,
    /// Elements of an array, members of a gang, else 1
    pub(crate) count: u32,
    /// Of an array, how many elements are how far; in a list only with `details`
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) elements: Option<ElementsView>,
    /// The first word of its command, its image, or else `script` or `step`; only in a list with `details`
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) program: Option<String>,
    /// 0 is the most urgent, 9 the least
    pub(crate) priority: u8,
    /// Pending, Queued, Assigned, Running, Backoff, Cancelling, Completed, Failed, TimedOut or Cancelled
    pub(crate) state: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
    /// Number of the newest attempt; 0 = none yet
    pub(crate) attempt: u32,
    /// Repeats after its own failures
    pub(crate) retries: u32,
    /// Repeats after losses that were not its fault
    pub(crate) infra: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) worker: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) exit_code: Option<i32>,
    pub(crate) submitted_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) queued_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) started_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) finished_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) not_before: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) expires_at: Option<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) labels: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) flow: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) step: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) retry_of: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) correlation_id: Option<String>,
    pub(crate) revision: u64,
    /// What was asked; only where one job is shown
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub(crate) spec: Option<Value>,
}

impl From<JobRow> for JobView {
    fn from(JobRow { job, unit, revision }: JobRow) -> Self {
        let labels = job.labels.as_deref().and_then(|labels| serde_json::from_str(labels).ok()).unwrap_or_default();
        Self {
            id: job.id.to_string(),
            tenant: job.tenant.to_string(),
            name: job.name.map(String::from),
            kind: job.kind.to_string(),
            count: job.count,
            elements: None,
            program: None,
            priority: job.priority,
            state: unit.state.to_string(),
            reason: unit.reason.map(String::from),
            attempt: unit.attempt,
            retries: unit.retries,
            infra: unit.infra,
            worker: unit.worker.map(|worker| worker.to_string()),
            exit_code: unit.exit_code,
            submitted_at: time(job.submitted_at),
            queued_at: times(unit.queued_at),
            started_at: times(unit.started_at),
            finished_at: times(unit.finished_at),
            not_before: times(job.not_before),
            expires_at: times(job.expires_at),
            labels,
            flow: job.flow.map(String::from),
            step: job.step.map(String::from),
            retry_of: job.retry_of.map(|id| id.to_string()),
            correlation_id: job.correlation_id.map(String::from),
            revision,
            spec: None,
        }
    }
}

/// How many elements of an array are how far.
#[derive(Clone, Copy, Debug, Default, Serialize, ToSchema)]
#[schema(as = Elements)]
pub(crate) struct ElementsView {
    /// Pending, Queued or Backoff
    pub(crate) waiting: u64,
    /// Assigned, Running or Cancelling
    pub(crate) running: u64,
    pub(crate) completed: u64,
    pub(crate) failed: u64,
    pub(crate) timed_out: u64,
    pub(crate) cancelled: u64,
}

impl From<&ElementCounts> for ElementsView {
    fn from(counts: &ElementCounts) -> Self {
        let mut view = Self::default();
        for (state, count) in counts {
            let of = match state {
                JobState::Pending | JobState::Queued | JobState::Backoff => &mut view.waiting,
                JobState::Assigned | JobState::Running | JobState::Cancelling => &mut view.running,
                JobState::Completed => &mut view.completed,
                JobState::Failed => &mut view.failed,
                JobState::TimedOut => &mut view.timed_out,
                JobState::Cancelled => &mut view.cancelled,
            };
            *of += count;
        }
        view
    }
}

/// An element of an array.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Element)]
pub(crate) struct ElementView {
    pub(crate) index: u32,
    pub(crate) state: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
    pub(crate) attempt: u32,
    pub(crate) retries: u32,
    pub(crate) infra: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) worker: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) exit_code: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) started_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) finished_at: Option<String>,
}

impl From<ElementRow> for ElementView {
    fn from(ElementRow { index, unit }: ElementRow) -> Self {
        Self {
            index,
            state: unit.state.to_string(),
            reason: unit.reason.map(String::from),
            attempt: unit.attempt,
            retries: unit.retries,
            infra: unit.infra,
            worker: unit.worker.map(|worker| worker.to_string()),
            exit_code: unit.exit_code,
            started_at: times(unit.started_at),
            finished_at: times(unit.finished_at),
        }
    }
}

/// An attempt.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Attempt)]
pub(crate) struct AttemptView {
    pub(crate) index: u32,
    pub(crate) member: u32,
    pub(crate) attempt: u32,
    pub(crate) epoch: u64,
    pub(crate) worker: String,
    pub(crate) incarnation: u32,
    pub(crate) state: String,
    pub(crate) assigned_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) accepted_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) started_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) finished_at: Option<String>,
    /// Its result is the job's or element's one final result
    #[serde(rename = "final")]
    pub(crate) is_final: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) exit_code: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) signal: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
    /// cpu_ms, max_rss, io_read, io_write
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub(crate) usage: Option<Value>,
    /// What it uses while it runs, as its worker last reported
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) in_use: Option<InUseView>,
}

/// What an attempt uses while it runs.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = InUse)]
pub(crate) struct InUseView {
    /// CPU in millicores, mean of the last seconds
    pub(crate) cpu_m: u64,
    /// Memory it holds, in bytes
    pub(crate) memory_bytes: u64,
}

impl InUseView {
    /// Of an attempt, where its worker has reported of it.
    pub(crate) fn of(row: &AttemptRow, fleet: &Snapshot) -> Option<Self> {
        let AttemptRow { attempt, .. } = row;
        let worker = fleet.workers.get(&attempt.worker);
        let worker = worker.filter(|worker| worker.view.incarnation == attempt.incarnation)?;
        let wanted = attempt.id;
        let known = worker.status.as_ref()?.in_use.iter().find(|known| known.attempt() == wanted)?;
        Some(Self { cpu_m: known.cpu_m, memory_bytes: known.memory_bytes })
    }
}

impl From<AttemptRow> for AttemptView {
    fn from(row: AttemptRow) -> Self {
        let AttemptRow { attempt, state, accepted_at, started_at, finished_at, end } = row;
        let end = end.unwrap_or_default();
        Self {
            index: attempt.id.index,
            member: attempt.id.member,
            attempt: attempt.id.attempt,
            epoch: attempt.id.epoch.0,
            worker: attempt.worker.to_string(),
            incarnation: attempt.incarnation,
            state: state.to_string(),
            assigned_at: time(attempt.assigned_at),
            accepted_at: times(accepted_at),
            started_at: times(started_at),
            finished_at: times(finished_at),
            is_final: end.accepted_final,
            exit_code: end.exit_code,
            signal: end.signal,
            reason: end.reason.map(String::from),
            usage: end.usage.and_then(|usage| serde_json::to_value(usage).ok()),
            in_use: None,
        }
    }
}

/// Some of a list of jobs.
pub(crate) type JobList = Listed<JobView>;

/// Some of the elements of an array.
pub(crate) type ElementList = Listed<ElementView>;

/// Some of the attempts of a job.
pub(crate) type AttemptList = Listed<AttemptView>;

/// What a submit made.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Submitted {
    /// The id, where one job was submitted
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) id: Option<String>,
    /// The ids, in the order of the request
    pub(crate) ids: Vec<String>,
    /// What the client should know
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) warnings: Vec<String>,
}

/// Which elements to cancel.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CancelOrder {
    /// Indices such as `0-99,200`; absent = all of the job
    #[serde(default)]
    pub(crate) elements: Option<String>,
}

/// Which elements to submit again.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RetryOrder {
    /// Indices such as `0-99,200`, all of which have ended; absent = those that did not succeed
    #[serde(default)]
    pub(crate) elements: Option<String>,
}

/// Which jobs to cancel.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CancelFilter {
    /// Of this tenant
    #[serde(default)]
    pub(crate) tenant: Option<String>,
    /// In one of these states
    #[serde(default)]
    pub(crate) state: Vec<String>,
    /// With all of these labels
    #[serde(default)]
    pub(crate) label: BTreeMap<String, String>,
    /// Submitted at this time or later
    #[serde(default)]
    pub(crate) since: Option<String>,
    /// Required where nothing else is given
    #[serde(default)]
    pub(crate) all: bool,
}

/// What became of a cancel.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct CancelAnswer {
    /// Jobs that are being cancelled
    pub(crate) cancelled: u64,
    /// Jobs that had ended before
    pub(crate) ended: u64,
}
