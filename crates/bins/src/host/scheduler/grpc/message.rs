//! Jobs as messages: rows of the store as clients see them, and what clients say as filters. Owns that translation.

use std::collections::BTreeMap;

use orlop_core::id::{JobId, TenantName};
use orlop_core::machine::job::JobState;
use orlop_core::ports::fleet_store::{AttemptDetail, ElementRow, JobFilter, JobRow, Unit};
use orlop_core::time::Time;

use super::super::{Error, error};
use crate::wire::problem::{Code, FieldError, Problem};
use crate::wire::proto::v1;

fn state(state: JobState) -> v1::JobState {
    match state {
        JobState::Pending => v1::JobState::Pending,
        JobState::Queued => v1::JobState::Queued,
        JobState::Assigned => v1::JobState::Assigned,
        JobState::Running => v1::JobState::Running,
        JobState::Backoff => v1::JobState::Backoff,
        JobState::Cancelling => v1::JobState::Cancelling,
        JobState::Completed => v1::JobState::Completed,
        JobState::Failed => v1::JobState::Failed,
        JobState::TimedOut => v1::JobState::TimedOut,
        JobState::Cancelled => v1::JobState::Cancelled,
    }
}

fn read_state(number: i32) -> Result<JobState, Error> {
    let wire = v1::JobState::try_from(number).unwrap_or_default();
    let all = [
        JobState::Pending,
        JobState::Queued,
        JobState::Assigned,
        JobState::Running,
        JobState::Backoff,
        JobState::Cancelling,
        JobState::Completed,
        JobState::Failed,
        JobState::TimedOut,
        JobState::Cancelled,
    ];
    all.into_iter()
        .find(|known| state(*known) == wire)
        .ok_or_else(|| invalid("filter.states", format!("{number} is no state of a job")))
}

/// The error of a request with one wrong field.
pub(super) fn invalid(path: &str, message: impl Into<String>) -> Error {
    Box::new(Problem::invalid(vec![FieldError { path: path.to_owned(), message: message.into() }]))
}

fn millis(time: Option<Time>) -> i64 {
    time.map_or(0, Time::millis)
}

/// A job as clients see it.
pub(super) fn job(row: &JobRow) -> v1::Job {
    let labels = row.job.labels.as_deref().and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    v1::Job {
        job_id: row.job.id.as_u64(),
        tenant: row.job.tenant.to_string(),
        name: row.job.name.as_deref().unwrap_or_default().to_owned(),
        labels,
        priority: u32::from(row.job.priority),
        count: u64::from(row.job.count),
        submitted_at: row.job.submitted_at.millis(),
        retry_of: row.job.retry_of.map_or(0, JobId::as_u64),
        correlation_id: row.job.correlation_id.as_deref().unwrap_or_default().to_owned(),
        revision: row.revision,
        ..of_unit(&row.unit)
    }
}

/// An element of an array as clients see it.
pub(super) fn element(row: &JobRow, element: &ElementRow) -> v1::Job {
    let whole = job(row);
    let unit = of_unit(&element.unit);
    v1::Job {
        index: Some(element.index),
        count: 1,
        state: unit.state,
        reason: unit.reason,
        attempt: unit.attempt,
        retries: unit.retries,
        worker_id: unit.worker_id,
        exit_code: unit.exit_code,
        queued_at: unit.queued_at,
        started_at: unit.started_at,
        finished_at: unit.finished_at,
        ..whole
    }
}

fn of_unit(unit: &Unit) -> v1::Job {
    v1::Job {
        state: state(unit.state).into(),
        reason: unit.reason.as_deref().unwrap_or_default().to_owned(),
        attempt: unit.attempt,
        retries: unit.retries,
        worker_id: unit.worker.as_ref().map(ToString::to_string).unwrap_or_default(),
        exit_code: unit.exit_code,
        queued_at: millis(unit.queued_at),
        started_at: millis(unit.started_at),
        finished_at: millis(unit.finished_at),
        ..v1::Job::default()
    }
}

/// Outputs of an attempt, as its detail holds them.
pub(super) fn outputs(detail: &AttemptDetail) -> BTreeMap<String, String> {
    let body: serde_json::Value = serde_json::from_str(&detail.body).unwrap_or_default();
    body.get("outputs").and_then(|outputs| serde_json::from_value(outputs.clone()).ok()).unwrap_or_default()
}

/// What a client asks for.
pub(super) fn filter(wire: Option<v1::JobFilter>) -> Result<JobFilter, Error> {
    let wire = wire.unwrap_or_default();
    let tenants = match wire.tenant.as_str() {
        "" => None,
        text => {
            let name: TenantName =
                text.parse().map_err(|error: orlop_core::id::IdError| invalid("filter.tenant", error.to_string()))?;
            Some(vec![name])
        }
    };
    Ok(JobFilter {
        tenants,
        states: wire.states.into_iter().map(read_state).collect::<Result<_, _>>()?,
        labels: wire.labels.into_iter().collect(),
        since: (wire.since != 0).then(|| Time::from_millis(wire.since)),
        ..JobFilter::default()
    })
}

/// The id of a job that a client named.
pub(super) fn id(number: u64) -> Result<JobId, Error> {
    match number {
        0 => Err(error::problem(Code::InvalidSpec, "job_id is missing")),
        number => Ok(JobId::from_u64(number)),
    }
}
