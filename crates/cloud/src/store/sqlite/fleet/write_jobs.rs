//! Writing specs, jobs, ranges and elements. Owns the statements; transactions are the caller's.

use orlop_core::id::JobId;
use orlop_core::named::Named as _;
use orlop_core::ports::fleet_store::{ElementChange, JobChange, JobRow, RangeChange, TaskStatus};
use orlop_core::time::Time;
use rusqlite::{Connection, Statement, params};

use super::specs::SpecNumbers;
use super::write_attempts::is_double;
use crate::store::fleet::batch::{double, missing};
use crate::store::fleet::column::{indices_text, integer};
use crate::store::sqlite::error::CallError;

/// Columns of a unit, in the order in which [`bind_unit`] binds them.
pub(super) const UNIT: &str = "state, reason, attempt, epoch, flags, retries, infra, worker, avoid, due_at, queued_at, \
                               started_at, finished_at, exit_code";

fn millis(time: Option<Time>) -> Option<i64> {
    time.map(Time::millis)
}

/// Binds the columns of a unit from parameter `at` on.
fn bind_unit(statement: &mut Statement<'_>, at: usize, unit: &TaskStatus) -> rusqlite::Result<()> {
    statement.raw_bind_parameter(at, unit.state.as_str())?;
    statement.raw_bind_parameter(at + 1, unit.reason.as_deref())?;
    statement.raw_bind_parameter(at + 2, unit.attempt)?;
    statement.raw_bind_parameter(at + 3, integer(unit.epoch.0))?;
    let flags = i64::from(unit.answered) | i64::from(unit.lost) << 1 | i64::from(unit.second_try) << 2;
    statement.raw_bind_parameter(at + 4, flags)?;
    statement.raw_bind_parameter(at + 5, unit.retries)?;
    statement.raw_bind_parameter(at + 6, unit.infra)?;
    statement.raw_bind_parameter(at + 7, unit.worker.as_ref().map(AsRef::as_ref))?;
    statement.raw_bind_parameter(at + 8, unit.avoid.as_ref().map(AsRef::as_ref))?;
    statement.raw_bind_parameter(at + 9, millis(unit.due_at))?;
    statement.raw_bind_parameter(at + 10, millis(unit.queued_at))?;
    statement.raw_bind_parameter(at + 11, millis(unit.started_at))?;
    statement.raw_bind_parameter(at + 12, millis(unit.finished_at))?;
    statement.raw_bind_parameter(at + 13, unit.exit_code)
}

/// Columns of a new job before those of its unit.
pub(super) const JOB: &str = "id, tenant, spec_id, kind, count, indices, priority, name, labels, not_before, expires_at, \
                              submitted_at, flow_id, step, retry_of, correlation_id, traceparent, revision";

/// Stores new jobs.
pub(super) fn insert_jobs(connection: &Connection, jobs: &[JobRow], specs: &SpecNumbers) -> Result<(), CallError> {
    if jobs.is_empty() {
        return Ok(());
    }
    let places = vec!["?"; 32].join(", ");
    let mut statement = connection.prepare_cached(&format!("INSERT INTO jobs ({JOB}, {UNIT}) VALUES ({places})"))?;
    for JobRow { job, unit, revision } in jobs {
        let s = &mut statement;
        s.raw_bind_parameter(1, integer(job.id.as_u64()))?;
        s.raw_bind_parameter(2, job.tenant.as_str())?;
        s.raw_bind_parameter(3, specs.number(&job.spec)?)?;
        s.raw_bind_parameter(4, job.kind.as_str())?;
        s.raw_bind_parameter(5, job.count)?;
        s.raw_bind_parameter(6, indices_text(&job.indices))?;
        s.raw_bind_parameter(7, job.priority)?;
        s.raw_bind_parameter(8, job.name.as_deref())?;
        s.raw_bind_parameter(9, job.labels.as_deref())?;
        s.raw_bind_parameter(10, millis(job.not_before))?;
        s.raw_bind_parameter(11, millis(job.expires_at))?;
        s.raw_bind_parameter(12, job.submitted_at.millis())?;
        s.raw_bind_parameter(13, job.flow.as_deref())?;
        s.raw_bind_parameter(14, job.step.as_deref())?;
        s.raw_bind_parameter(15, job.retry_of.map(|id| integer(id.as_u64())))?;
        s.raw_bind_parameter(16, job.correlation_id.as_deref())?;
        s.raw_bind_parameter(17, job.traceparent.as_deref())?;
        s.raw_bind_parameter(18, integer(*revision))?;
        bind_unit(s, 19, unit)?;
        s.raw_execute().map_err(|error| match is_double(&error) {
            true => CallError::Port(double(format_args!("job {}", job.id))),
            false => CallError::Sqlite(error),
        })?;
    }
    Ok(())
}

/// What a change of a job sets, the time of its end aside.
const CHANGE: &str = "UPDATE jobs SET revision = ?2, state = ?3, reason = ?4, attempt = ?5, epoch = ?6, flags = ?7, \
                      retries = ?8, infra = ?9, worker = ?10, avoid = ?11, due_at = ?12, \
                      queued_at = coalesce(?13, queued_at), started_at = coalesce(?14, started_at), \
                      exit_code = coalesce(?16, exit_code)";

/// Changes stored jobs.
pub(super) fn change_jobs(connection: &Connection, changes: &[JobChange]) -> Result<(), CallError> {
    if changes.is_empty() {
        return Ok(());
    }
    // Naming `finished_at` would have the index of live jobs looked up each time.
    let mut live = connection.prepare_cached(&format!("{CHANGE} WHERE id = ?1 AND ?15 IS NULL"))?;
    let mut ended = connection.prepare_cached(&format!("{CHANGE}, finished_at = ?15 WHERE id = ?1"))?;
    for JobChange { id, revision, unit } in changes {
        let statement = if unit.finished_at.is_some() { &mut ended } else { &mut live };
        statement.raw_bind_parameter(1, integer(id.as_u64()))?;
        statement.raw_bind_parameter(2, integer(*revision))?;
        bind_unit(statement, 3, unit)?;
        if statement.raw_execute()? == 0 {
            return Err(missing(format_args!("job {id}")).into());
        }
    }
    Ok(())
}

/// Refuses jobs that are not stored.
pub(super) fn expect_jobs(connection: &Connection, ids: &[JobId]) -> Result<(), CallError> {
    let mut statement = connection.prepare_cached("SELECT 1 FROM jobs WHERE id = ?1")?;
    for id in ids {
        if !statement.exists([integer(id.as_u64())])? {
            return Err(missing(format_args!("job {id}")).into());
        }
    }
    Ok(())
}

/// Stores ranges behind those of their arrays.
pub(super) fn insert_ranges(connection: &Connection, ranges: &[RangeChange]) -> Result<(), CallError> {
    let mut statement = connection.prepare_cached(
        "INSERT INTO array_ranges (job_id, number, first, last, state, reason, at)
         SELECT ?1, coalesce(max(number), 0) + 1, ?2, ?3, ?4, ?5, ?6 FROM array_ranges WHERE job_id = ?1",
    )?;
    for range in ranges {
        let RangeChange { job, first, last, state, reason, at } = range;
        let id = integer(job.as_u64());
        statement.execute(params![id, first, last, state.as_str(), reason.as_deref(), at.millis()])?;
    }
    Ok(())
}

/// Stores elements, or changes those that are stored.
pub(super) fn write_elements(connection: &Connection, elements: &[ElementChange]) -> Result<(), CallError> {
    if elements.is_empty() {
        return Ok(());
    }
    let places = vec!["?"; 16].join(", ");
    let mut statement = connection.prepare_cached(&format!(
        "INSERT INTO elements (job_id, idx, {UNIT}) VALUES ({places})
         ON CONFLICT (job_id, idx) DO UPDATE SET state = excluded.state, reason = excluded.reason,
            attempt = excluded.attempt, epoch = excluded.epoch, flags = excluded.flags, retries = excluded.retries,
            infra = excluded.infra, worker = excluded.worker, avoid = excluded.avoid, due_at = excluded.due_at,
            queued_at = coalesce(excluded.queued_at, queued_at), started_at = coalesce(excluded.started_at, started_at),
            finished_at = excluded.finished_at, exit_code = coalesce(excluded.exit_code, exit_code)"
    ))?;
    for ElementChange { job, index, unit } in elements {
        statement.raw_bind_parameter(1, integer(job.as_u64()))?;
        statement.raw_bind_parameter(2, *index)?;
        bind_unit(&mut statement, 3, unit)?;
        statement.raw_execute()?;
    }
    Ok(())
}
