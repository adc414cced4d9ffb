//! Rows as values of the port, and jobs and details of attempts by their ids.

use orlop_core::error::Problem;
use orlop_core::id::{Epoch, IdError, JobId, TenantName, WorkerId};
use orlop_core::machine::job::JobState;
use orlop_core::ports::fleet_store::{
    AttemptDetail, AttemptEnd, AttemptRow, ElementRow, JobRow, NewAttempt, NewJob, RangeChange, SpecHash, TaskStatus,
    Text,
};
use orlop_core::task::{TaskRef, Usage};
use orlop_core::time::Time;
use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::write::{ATTEMPT, JOB, UNIT};
use crate::store::fleet::column::{damaged, gpu, indices, integer, named, natural, small};
use crate::store::sqlite::error::CallError;

fn text<'a>(row: &'a Row<'_>, at: usize) -> Result<&'a str, CallError> {
    row.get_ref(at)?.as_str().map_err(|_| CallError::Port(damaged("a text", "something else")))
}

fn maybe_text<'a>(row: &'a Row<'_>, at: usize) -> Result<Option<&'a str>, CallError> {
    row.get_ref(at)?.as_str_or_null().map_err(|_| CallError::Port(damaged("a text", "something else")))
}

fn owned(row: &Row<'_>, at: usize) -> Result<Option<Text>, CallError> {
    Ok(maybe_text(row, at)?.map(|text| Text::Owned(text.to_owned())))
}

fn boxed(row: &Row<'_>, at: usize) -> Result<Option<Box<str>>, CallError> {
    Ok(maybe_text(row, at)?.map(Into::into))
}

fn time(row: &Row<'_>, at: usize) -> Result<Option<Time>, CallError> {
    Ok(row.get::<_, Option<i64>>(at)?.map(Time::from_millis))
}

fn number<T: TryFrom<i64>>(row: &Row<'_>, at: usize) -> Result<T, CallError> {
    Ok(small(row.get(at)?)?)
}

fn bad_id(error: IdError) -> CallError {
    CallError::Port(Problem::from(std::io::Error::other(error)).because("the fleet store is damaged: restore a backup"))
}

fn worker(row: &Row<'_>, at: usize) -> Result<Option<WorkerId>, CallError> {
    maybe_text(row, at)?.map(|text| WorkerId::new(text).map_err(bad_id)).transpose()
}

/// A tenant, if the column holds one.
pub(super) fn tenant(row: &Row<'_>, at: usize) -> Result<Option<TenantName>, CallError> {
    maybe_text(row, at)?.map(|text| TenantName::new(text).map_err(bad_id)).transpose()
}

fn job_id(row: &Row<'_>, at: usize) -> Result<JobId, CallError> {
    Ok(JobId::from_u64(natural(row.get(at)?)))
}

/// The beginning of every statement that reads jobs.
pub(super) fn select_jobs() -> String {
    let job = JOB.replacen("id,", "jobs.id,", 1);
    format!("SELECT {job}, {UNIT}, specs.hash FROM jobs JOIN specs ON specs.id = jobs.spec_id")
}

/// A state of a job or an element.
pub(super) fn state(row: &Row<'_>, at: usize) -> Result<JobState, CallError> {
    Ok(named(text(row, at)?)?)
}

/// A unit whose columns begin at `at`.
pub(super) fn unit(row: &Row<'_>, at: usize) -> Result<TaskStatus, CallError> {
    let flags: i64 = row.get(at + 4)?;
    Ok(TaskStatus {
        state: named(text(row, at)?)?,
        reason: owned(row, at + 1)?,
        attempt: number(row, at + 2)?,
        epoch: Epoch(natural(row.get(at + 3)?)),
        answered: flags & 1 != 0,
        lost: flags & 2 != 0,
        second_try: flags & 4 != 0,
        retries: number(row, at + 5)?,
        infra: number(row, at + 6)?,
        worker: worker(row, at + 7)?,
        avoid: worker(row, at + 8)?,
        due_at: time(row, at + 9)?,
        queued_at: time(row, at + 10)?,
        started_at: time(row, at + 11)?,
        finished_at: time(row, at + 12)?,
        exit_code: row.get(at + 13)?,
    })
}

/// A job of [`select_jobs`].
pub(super) fn job(row: &Row<'_>) -> Result<JobRow, CallError> {
    let hash: [u8; 32] = row.get(32)?;
    let job = NewJob {
        id: job_id(row, 0)?,
        tenant: tenant(row, 1)?.ok_or_else(|| damaged("a tenant", ""))?,
        spec: SpecHash(hash),
        kind: named(text(row, 3)?)?,
        count: number(row, 4)?,
        indices: indices(maybe_text(row, 5)?)?,
        priority: number(row, 6)?,
        name: owned(row, 7)?,
        labels: boxed(row, 8)?,
        not_before: time(row, 9)?,
        expires_at: time(row, 10)?,
        submitted_at: Time::from_millis(row.get(11)?),
        flow: boxed(row, 12)?,
        step: boxed(row, 13)?,
        retry_of: row.get::<_, Option<i64>>(14)?.map(|id| JobId::from_u64(natural(id))),
        correlation_id: boxed(row, 15)?,
        traceparent: boxed(row, 16)?,
    };
    Ok(JobRow { job, revision: natural(row.get(17)?), unit: unit(row, 18)? })
}

/// The statement that reads ranges of an array.
pub(super) const SELECT_RANGES: &str =
    "SELECT job_id, first, last, state, reason, at FROM array_ranges WHERE job_id = ?1 ORDER BY number";

/// A range of [`SELECT_RANGES`].
pub(super) fn range(row: &Row<'_>) -> Result<RangeChange, CallError> {
    Ok(RangeChange {
        job: job_id(row, 0)?,
        first: number(row, 1)?,
        last: number(row, 2)?,
        state: named(text(row, 3)?)?,
        reason: owned(row, 4)?,
        at: Time::from_millis(row.get(5)?),
    })
}

/// The beginning of statements that read elements of an array.
pub(super) fn select_elements() -> String {
    format!("SELECT idx, {UNIT} FROM elements WHERE job_id = ?1")
}

/// An element of [`select_elements`].
pub(super) fn element(row: &Row<'_>) -> Result<ElementRow, CallError> {
    Ok(ElementRow { index: number(row, 0)?, unit: unit(row, 1)? })
}

/// The beginning of statements that read attempts of a job.
pub(super) fn select_attempts() -> String {
    format!("SELECT {ATTEMPT} FROM attempts WHERE job_id = ?1")
}

/// An attempt of [`select_attempts`].
pub(super) fn attempt(row: &Row<'_>) -> Result<AttemptRow, CallError> {
    let id = TaskRef {
        job: job_id(row, 0)?,
        index: number(row, 1)?,
        attempt: number(row, 2)?,
        member: number(row, 3)?,
        epoch: Epoch(natural(row.get(4)?)),
    };
    let new = NewAttempt {
        id,
        worker: worker(row, 5)?.ok_or_else(|| damaged("a worker", ""))?,
        incarnation: number(row, 6)?,
        mode: named(text(row, 7)?)?,
        assigned_at: Time::from_millis(row.get(8)?),
        gpu: gpu(maybe_text(row, 21)?)?,
    };
    let end = match row.get::<_, Option<bool>>(13)? {
        None => None,
        Some(accepted_final) => {
            let count = |at| row.get::<_, Option<i64>>(at).map(|number| natural(number.unwrap_or(0)));
            let usage = match row.get::<_, Option<i64>>(17)? {
                None => None,
                Some(cpu) => {
                    let cpu_ms = natural(cpu);
                    Some(Usage { cpu_ms, max_rss: count(18)?, io_read: count(19)?, io_write: count(20)? })
                }
            };
            let (exit_code, signal, reason) = (row.get(14)?, row.get(15)?, owned(row, 16)?);
            Some(AttemptEnd { accepted_final, exit_code, signal, reason, usage, detail: None })
        }
    };
    Ok(AttemptRow {
        attempt: new,
        state: named(text(row, 9)?)?,
        accepted_at: time(row, 10)?,
        started_at: time(row, 11)?,
        finished_at: time(row, 12)?,
        end,
    })
}

/// A job by its id.
pub(super) fn find_job(connection: &Connection, id: JobId) -> Result<Option<JobRow>, CallError> {
    let Ok(number) = i64::try_from(id.as_u64()) else { return Ok(None) };
    let mut statement = connection.prepare_cached(&format!("{} WHERE jobs.id = ?1", select_jobs()))?;
    let mut rows = statement.query([number])?;
    rows.next()?.map(job).transpose()
}

/// The detail of an attempt.
pub(super) fn find_detail(connection: &Connection, id: &TaskRef) -> Result<Option<AttemptDetail>, CallError> {
    let mut statement = connection.prepare_cached(
        "SELECT body, tail FROM attempt_details
         WHERE job_id = ?1 AND idx = ?2 AND attempt = ?3 AND member = ?4 AND epoch = ?5",
    )?;
    let key = params![integer(id.job.as_u64()), id.index, id.attempt, id.member, integer(id.epoch.0)];
    let detail = statement.query_row(key, |row| {
        let body: String = row.get(0)?;
        Ok(AttemptDetail { body: body.into(), tail: row.get(1)? })
    });
    Ok(detail.optional()?)
}
