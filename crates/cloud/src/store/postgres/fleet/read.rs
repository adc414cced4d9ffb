//! Rows as values of the port.

use std::time::Duration;

use orlop_core::error::{Class, Problem};
use orlop_core::id::{Epoch, JobId, TenantName, WorkerId};
use orlop_core::machine::job::JobState;
use orlop_core::ports::fleet_store::{
    AttemptEnd, AttemptRow, ElementRow, JobRow, Leader, NewAttempt, NewJob, RangeChange, SpecHash, TaskStatus, Text,
};
use orlop_core::task::{TaskRef, Usage};
use orlop_core::time::Time;
use tokio_postgres::Row;
use tokio_postgres::types::FromSql;

use super::connection::Session;
use crate::store::fleet::column::{damaged, gpu, indices, named, natural, small};

/// A column.
pub(super) fn get<'a, T: FromSql<'a>>(row: &'a Row, at: usize) -> Result<T, Problem> {
    row.try_get(at).map_err(|error| {
        let message = format!("column {at} of the fleet store cannot be read: {error}; restore a backup");
        Problem::new(Class::Fatal, message)
    })
}

fn text(row: &Row, at: usize) -> Result<&str, Problem> {
    get(row, at)
}

fn boxed(row: &Row, at: usize) -> Result<Option<Box<str>>, Problem> {
    Ok(get::<Option<&str>>(row, at)?.map(Into::into))
}

fn owned(row: &Row, at: usize) -> Result<Option<Text>, Problem> {
    Ok(get::<Option<String>>(row, at)?.map(Text::Owned))
}

/// A time, if the column holds one.
pub(super) fn time(row: &Row, at: usize) -> Result<Option<Time>, Problem> {
    Ok(get::<Option<i64>>(row, at)?.map(Time::from_millis))
}

fn number<T: TryFrom<i64>>(row: &Row, at: usize) -> Result<T, Problem> {
    small(get(row, at)?)
}

fn worker(row: &Row, at: usize) -> Result<Option<WorkerId>, Problem> {
    let text: Option<&str> = get(row, at)?;
    text.map(|text| WorkerId::new(text).map_err(|_| damaged("a worker", text))).transpose()
}

/// A tenant, if the column holds one.
pub(super) fn tenant(row: &Row, at: usize) -> Result<Option<TenantName>, Problem> {
    let text: Option<&str> = get(row, at)?;
    text.map(|text| TenantName::new(text).map_err(|_| damaged("a tenant", text))).transpose()
}

/// The id of a job.
pub(super) fn job_id(row: &Row, at: usize) -> Result<JobId, Problem> {
    Ok(JobId::from_u64(natural(get(row, at)?)))
}

/// A state of a job or an element.
pub(super) fn state(row: &Row, at: usize) -> Result<JobState, Problem> {
    named(text(row, at)?)
}

/// Columns of a unit.
const UNIT: &str = "state, reason, attempt, epoch, flags, retries, infra, worker, avoid, due_at, queued_at, started_at, \
                    finished_at, exit_code";

/// The beginning of every statement that reads jobs.
pub(super) fn select_jobs() -> String {
    format!(
        "SELECT jobs.id, tenant, specs.hash, kind, count, indices, priority, name, labels, not_before, expires_at, \
         submitted_at, flow_id, step, retry_of, correlation_id, traceparent, revision, {UNIT} \
         FROM jobs JOIN specs ON specs.id = jobs.spec_id"
    )
}

fn unit(row: &Row, at: usize) -> Result<TaskStatus, Problem> {
    let flags: i64 = get(row, at + 4)?;
    Ok(TaskStatus {
        state: named(text(row, at)?)?,
        reason: owned(row, at + 1)?,
        attempt: number(row, at + 2)?,
        epoch: Epoch(natural(get(row, at + 3)?)),
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
        exit_code: get::<Option<i64>>(row, at + 13)?.map(small).transpose()?,
    })
}

/// A job of [`select_jobs`].
pub(super) fn job(row: &Row) -> Result<JobRow, Problem> {
    let hash: &[u8] = get(row, 2)?;
    let job = NewJob {
        id: job_id(row, 0)?,
        tenant: tenant(row, 1)?.ok_or_else(|| damaged("a tenant", ""))?,
        spec: SpecHash(hash.try_into().map_err(|_| damaged("a hash", "other bytes"))?),
        kind: named(text(row, 3)?)?,
        count: number(row, 4)?,
        indices: indices(get(row, 5)?)?,
        priority: number(row, 6)?,
        name: owned(row, 7)?,
        labels: boxed(row, 8)?,
        not_before: time(row, 9)?,
        expires_at: time(row, 10)?,
        submitted_at: time(row, 11)?.unwrap_or_default(),
        flow: boxed(row, 12)?,
        step: boxed(row, 13)?,
        retry_of: get::<Option<i64>>(row, 14)?.map(|id| JobId::from_u64(natural(id))),
        correlation_id: boxed(row, 15)?,
        traceparent: boxed(row, 16)?,
    };
    Ok(JobRow { job, revision: natural(get(row, 17)?), unit: unit(row, 18)? })
}

/// The statement that reads ranges of arrays.
pub(super) const SELECT_RANGES: &str =
    "SELECT job_id, first, last, state, reason, at FROM array_ranges WHERE job_id = ANY($1) ORDER BY job_id, number";

/// A range of [`SELECT_RANGES`].
pub(super) fn range(row: &Row) -> Result<RangeChange, Problem> {
    Ok(RangeChange {
        job: job_id(row, 0)?,
        first: number(row, 1)?,
        last: number(row, 2)?,
        state: named(text(row, 3)?)?,
        reason: owned(row, 4)?,
        at: time(row, 5)?.unwrap_or_default(),
    })
}

/// The beginning of statements that read elements of an array.
pub(super) fn select_elements() -> String {
    format!("SELECT idx, {UNIT} FROM elements WHERE job_id = $1")
}

/// An element of [`select_elements`].
pub(super) fn element(row: &Row) -> Result<ElementRow, Problem> {
    Ok(ElementRow { index: number(row, 0)?, unit: unit(row, 1)? })
}

/// The beginning of statements that read attempts.
pub(super) const SELECT_ATTEMPTS: &str = "SELECT job_id, idx, attempt, member, epoch, worker, incarnation, mode, assigned_at, state, accepted_at, started_at, \
     finished_at, final, exit_code, signal, reason, cpu_ms, max_rss, io_read, io_write, gpu FROM attempts";

/// An attempt of [`SELECT_ATTEMPTS`].
pub(super) fn attempt(row: &Row) -> Result<AttemptRow, Problem> {
    let id = TaskRef {
        job: job_id(row, 0)?,
        index: number(row, 1)?,
        attempt: number(row, 2)?,
        member: number(row, 3)?,
        epoch: Epoch(natural(get(row, 4)?)),
    };
    let attempt = NewAttempt {
        id,
        worker: worker(row, 5)?.ok_or_else(|| damaged("a worker", ""))?,
        incarnation: number(row, 6)?,
        mode: named(text(row, 7)?)?,
        assigned_at: time(row, 8)?.unwrap_or_default(),
        gpu: gpu(get(row, 21)?)?,
    };
    let end = match get::<Option<bool>>(row, 13)? {
        None => None,
        Some(accepted_final) => {
            let count = |at| get::<Option<i64>>(row, at).map(|number| natural(number.unwrap_or(0)));
            let usage = match get::<Option<i64>>(row, 17)? {
                None => None,
                Some(cpu) => {
                    let cpu_ms = natural(cpu);
                    Some(Usage { cpu_ms, max_rss: count(18)?, io_read: count(19)?, io_write: count(20)? })
                }
            };
            let code = |at| get::<Option<i64>>(row, at)?.map(small).transpose();
            let (exit_code, signal, reason) = (code(14)?, code(15)?, owned(row, 16)?);
            Some(AttemptEnd { accepted_final, exit_code, signal, reason, usage, detail: None })
        }
    };
    Ok(AttemptRow {
        attempt,
        state: named(text(row, 9)?)?,
        accepted_at: time(row, 10)?,
        started_at: time(row, 11)?,
        finished_at: time(row, 12)?,
        end,
    })
}

/// Who leads or led last.
pub(super) async fn leader(session: &Session) -> Result<Option<Leader>, Problem> {
    let select = "SELECT holder, url, epoch, greatest(extract(epoch FROM expires_at - clock_timestamp()), 0)::float8
                  FROM leader WHERE id = 1 AND epoch > 0";
    let rows = session.query(select, &[]).await?;
    let read = |row: &Row| {
        let left: f64 = get(row, 3)?;
        let remaining = Some(Duration::try_from_secs_f64(left).unwrap_or_default());
        Ok(Leader { holder: get(row, 0)?, url: get(row, 1)?, epoch: Epoch(natural(get(row, 2)?)), remaining })
    };
    rows.first().map(read).transpose()
}
