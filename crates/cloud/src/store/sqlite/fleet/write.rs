//! Writing specs, jobs, ranges, elements, attempts and their details, documents, answers, audit lines, events, and leadership.
//! Owns the statements; transactions are the caller's.

use orlop_core::error::{Class, Problem};
use orlop_core::id::{Epoch, JobId, TenantName};
use orlop_core::named::Named as _;
use orlop_core::ports::fleet_store::{
    AttemptChange, AttemptDetail, AttemptEnd, AttemptRow, AuditEntry, ElementChange, Entry, FENCED, Holder,
    IdempotencyRecord, JobChange, JobRow, Kind, Leader, OutboxEvent, RangeChange, TaskStatus,
};
use orlop_core::task::TaskRef;
use orlop_core::time::Time;
use rusqlite::{Connection, ErrorCode, OptionalExtension as _, Statement, params};

use super::specs::SpecNumbers;
use crate::store::fleet::batch::{double, final_twice, missing};
use crate::store::fleet::column::{gpu_text, indices_text, integer, natural};
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
const CHANGE_JOB: &str = "UPDATE jobs SET revision = ?2, state = ?3, reason = ?4, attempt = ?5, epoch = ?6, flags = ?7, \
                      retries = ?8, infra = ?9, worker = ?10, avoid = ?11, due_at = ?12, \
                      queued_at = coalesce(?13, queued_at), started_at = coalesce(?14, started_at), \
                      exit_code = coalesce(?16, exit_code)";

/// Changes stored jobs.
pub(super) fn change_jobs(connection: &Connection, changes: &[JobChange]) -> Result<(), CallError> {
    if changes.is_empty() {
        return Ok(());
    }
    // Naming `finished_at` would have the index of live jobs looked up each time.
    let mut live = connection.prepare_cached(&format!("{CHANGE_JOB} WHERE id = ?1 AND ?15 IS NULL"))?;
    let mut ended = connection.prepare_cached(&format!("{CHANGE_JOB}, finished_at = ?15 WHERE id = ?1"))?;
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

/// Columns of an attempt.
pub(super) const ATTEMPT: &str = "job_id, idx, attempt, member, epoch, worker, incarnation, mode, assigned_at, state, \
                                  accepted_at, started_at, finished_at, final, exit_code, signal, reason, cpu_ms, \
                                  max_rss, io_read, io_write, gpu";

fn refused_attempt(id: &TaskRef, error: rusqlite::Error) -> CallError {
    let TaskRef { job, index, attempt, .. } = id;
    match error {
        error if is_second_final(&error) => final_twice(format_args!("{job}.{index}")).into(),
        error if is_double(&error) => double(format_args!("attempt {attempt} of {job}.{index}")).into(),
        error => error.into(),
    }
}

fn bind_id(statement: &mut Statement<'_>, id: &TaskRef) -> rusqlite::Result<()> {
    statement.raw_bind_parameter(1, integer(id.job.as_u64()))?;
    statement.raw_bind_parameter(2, id.index)?;
    statement.raw_bind_parameter(3, id.attempt)?;
    statement.raw_bind_parameter(4, id.member)?;
    statement.raw_bind_parameter(5, integer(id.epoch.0))
}

fn bind_end(statement: &mut Statement<'_>, at: usize, end: Option<&AttemptEnd>) -> rusqlite::Result<()> {
    let usage = end.and_then(|end| end.usage);
    statement.raw_bind_parameter(at, end.map(|end| end.accepted_final))?;
    statement.raw_bind_parameter(at + 1, end.and_then(|end| end.exit_code))?;
    statement.raw_bind_parameter(at + 2, end.and_then(|end| end.signal))?;
    statement.raw_bind_parameter(at + 3, end.and_then(|end| end.reason.as_deref()))?;
    statement.raw_bind_parameter(at + 4, usage.map(|usage| integer(usage.cpu_ms)))?;
    statement.raw_bind_parameter(at + 5, usage.map(|usage| integer(usage.max_rss)))?;
    statement.raw_bind_parameter(at + 6, usage.map(|usage| integer(usage.io_read)))?;
    statement.raw_bind_parameter(at + 7, usage.map(|usage| integer(usage.io_write)))
}

/// Stores new attempts.
pub(super) fn insert_attempts(connection: &Connection, attempts: &[AttemptRow]) -> Result<(), CallError> {
    if attempts.is_empty() {
        return Ok(());
    }
    let places = vec!["?"; 22].join(", ");
    let mut statement = connection.prepare_cached(&format!("INSERT INTO attempts ({ATTEMPT}) VALUES ({places})"))?;
    for row in attempts {
        let s = &mut statement;
        bind_id(s, &row.attempt.id)?;
        s.raw_bind_parameter(6, row.attempt.worker.as_str())?;
        s.raw_bind_parameter(7, row.attempt.incarnation)?;
        s.raw_bind_parameter(8, row.attempt.mode.as_str())?;
        s.raw_bind_parameter(9, row.attempt.assigned_at.millis())?;
        s.raw_bind_parameter(10, row.state.as_str())?;
        s.raw_bind_parameter(11, row.accepted_at.map(Time::millis))?;
        s.raw_bind_parameter(12, row.started_at.map(Time::millis))?;
        s.raw_bind_parameter(13, row.finished_at.map(Time::millis))?;
        bind_end(s, 14, row.end.as_ref())?;
        s.raw_bind_parameter(22, gpu_text(row.attempt.gpu.as_deref()))?;
        s.raw_execute().map_err(|error| refused_attempt(&row.attempt.id, error))?;
    }
    Ok(())
}

const CHANGE_ATTEMPT: &str = "UPDATE attempts SET state = ?6, accepted_at = coalesce(?7, accepted_at), \
                      started_at = coalesce(?8, started_at), finished_at = coalesce(?9, finished_at), gpu = coalesce(?10, gpu)";
const WHICH: &str = "WHERE job_id = ?1 AND idx = ?2 AND attempt = ?3 AND member = ?4 AND epoch = ?5";

/// Changes stored attempts.
pub(super) fn change_attempts(connection: &Connection, changes: &[AttemptChange]) -> Result<(), CallError> {
    if changes.is_empty() {
        return Ok(());
    }
    let mut live = connection.prepare_cached(&format!("{CHANGE_ATTEMPT} {WHICH}"))?;
    let mut ended = connection.prepare_cached(&format!(
        "{CHANGE_ATTEMPT}, final = ?11, exit_code = ?12, signal = ?13, reason = ?14, cpu_ms = ?15, max_rss = ?16, \
         io_read = ?17, io_write = ?18 {WHICH}"
    ))?;
    for change in changes {
        let statement = if change.end.is_some() { &mut ended } else { &mut live };
        bind_id(statement, &change.id)?;
        statement.raw_bind_parameter(6, change.state.as_str())?;
        statement.raw_bind_parameter(7, change.accepted_at.map(Time::millis))?;
        statement.raw_bind_parameter(8, change.started_at.map(Time::millis))?;
        statement.raw_bind_parameter(9, change.finished_at.map(Time::millis))?;
        statement.raw_bind_parameter(10, gpu_text(change.gpu.as_deref()))?;
        if change.end.is_some() {
            bind_end(statement, 11, change.end.as_ref())?;
        }
        if statement.raw_execute().map_err(|error| refused_attempt(&change.id, error))? == 0 {
            let TaskRef { job, index, attempt, .. } = change.id;
            return Err(missing(format_args!("attempt {attempt} of {job}.{index}")).into());
        }
    }
    Ok(())
}

/// Stores details; later ones replace.
pub(super) fn write_details(connection: &Connection, details: &[(TaskRef, AttemptDetail)]) -> Result<(), CallError> {
    if details.is_empty() {
        return Ok(());
    }
    let mut statement = connection.prepare_cached(
        "INSERT OR REPLACE INTO attempt_details (job_id, idx, attempt, member, epoch, body, tail)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
    )?;
    for (id, detail) in details {
        let (job, epoch) = (integer(id.job.as_u64()), integer(id.epoch.0));
        statement.execute(params![job, id.index, id.attempt, id.member, epoch, &*detail.body, detail.tail])?;
    }
    Ok(())
}

/// Whether a row could not be written because an equal key is there.
fn is_double(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(ErrorCode::ConstraintViolation)
}

/// Whether it was the key of the index of final results.
fn is_second_final(error: &rusqlite::Error) -> bool {
    // The key of the table names more columns than these two.
    let text = match error {
        rusqlite::Error::SqliteFailure(_, Some(text)) => text.as_str(),
        _ => "",
    };
    is_double(error) && text.ends_with("attempts.job_id, attempts.idx")
}

/// Stores documents, or deletes those that go.
pub(super) fn write_entries(
    connection: &Connection,
    entries: &[(Kind, String, Option<Entry>)],
) -> Result<(), CallError> {
    for (kind, key, entry) in entries {
        match entry {
            Some(entry) => {
                let mut statement = connection.prepare_cached(&format!(
                    "INSERT OR REPLACE INTO {kind} (key, tenant, ended_at, body) VALUES (?1, ?2, ?3, ?4)"
                ))?;
                let tenant = entry.tenant.as_ref().map(TenantName::as_str);
                statement.execute(params![key, tenant, entry.ended_at.map(Time::millis), &*entry.body])?;
            }
            None => {
                connection.prepare_cached(&format!("DELETE FROM {kind} WHERE key = ?1"))?.execute([key])?;
            }
        }
    }
    Ok(())
}

/// Stores answers under their keys.
pub(super) fn write_keys(connection: &Connection, keys: &[IdempotencyRecord]) -> Result<(), CallError> {
    let mut statement = connection.prepare_cached(
        "INSERT OR REPLACE INTO idempotency (tenant, key, body_hash, status, response, expires_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
    )?;
    for record in keys {
        let (tenant, hash) = (record.key.tenant.as_str(), record.body_hash.as_slice());
        let expires = record.expires_at.millis();
        statement.execute(params![tenant, record.key.key, hash, record.status, &*record.response, expires])?;
    }
    Ok(())
}

/// Stores lines of the audit trail.
pub(super) fn insert_audit(connection: &Connection, lines: &[AuditEntry]) -> Result<(), CallError> {
    let mut statement = connection.prepare_cached(
        "INSERT INTO audit (time, actor, tenant, action, target, outcome, request_id) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
    )?;
    for line in lines {
        let tenant = line.tenant.as_ref().map(TenantName::as_str);
        let (time, action, outcome) = (line.time.millis(), &*line.action, &*line.outcome);
        statement.execute(params![time, line.actor, tenant, action, line.target, outcome, line.request_id])?;
    }
    Ok(())
}

/// Stores events.
pub(super) fn insert_events(connection: &Connection, events: &[OutboxEvent]) -> Result<(), CallError> {
    let mut statement = connection.prepare_cached("INSERT INTO outbox (subject, body) VALUES (?1, ?2)")?;
    for event in events {
        statement.execute(params![&*event.subject, &*event.body])?;
    }
    Ok(())
}

/// Deletes events.
pub(super) fn confirm(connection: &Connection, ids: &[u64]) -> Result<(), CallError> {
    let mut statement = connection.prepare_cached("DELETE FROM outbox WHERE id = ?1")?;
    for id in ids {
        statement.execute([integer(*id)])?;
    }
    Ok(())
}

/// Who leads or led last.
pub(super) fn leader(connection: &Connection) -> Result<Option<Leader>, CallError> {
    let mut statement = connection.prepare_cached("SELECT holder, url, epoch FROM leader")?;
    let row = statement.query_row([], |row| {
        let epoch = Epoch(natural(row.get(2)?));
        Ok(Leader { holder: row.get(0)?, url: row.get(1)?, epoch, remaining: None })
    });
    Ok(row.optional()?)
}

/// Refuses an epoch that does not lead.
pub(super) fn fence(connection: &Connection, epoch: Epoch) -> Result<(), CallError> {
    let leader = leader(connection)?;
    let newest = leader.as_ref().map_or(Epoch(0), |leader| leader.epoch);
    if leader.is_some_and(|leader| leader.epoch == epoch && !leader.holder.is_empty()) {
        return Ok(());
    }
    let message =
        format!("epoch {epoch} is not the current leader, the newest is {newest}; take leadership and restore");
    Err(Problem::new(Class::Denied, message).with_reason(FENCED).into())
}

/// Takes leadership: the file's lock keeps other servers out.
pub(super) fn acquire(connection: &Connection, holder: &Holder) -> Result<Epoch, CallError> {
    let newest = leader(connection)?.map_or(Epoch(0), |leader| leader.epoch).next();
    // Ids of jobs carry the epoch, and must stay below 2^63.
    if newest.0 > JobId::MAX_EPOCH.0 / 2 {
        return Err(Problem::new(Class::Fatal, "the epochs of the fleet store are used up; start a new one").into());
    }
    let name = if holder.name.is_empty() { "server" } else { holder.name.as_str() };
    let mut statement =
        connection.prepare_cached("INSERT OR REPLACE INTO leader (id, holder, url, epoch) VALUES (1, ?1, ?2, ?3)")?;
    statement.execute(params![name, holder.url, integer(newest.0)])?;
    Ok(newest)
}

/// Gives leadership up.
pub(super) fn release(connection: &Connection, epoch: Epoch) -> Result<(), CallError> {
    let mut statement = connection.prepare_cached("UPDATE leader SET holder = '', url = '' WHERE epoch = ?1")?;
    statement.execute([integer(epoch.0)])?;
    Ok(())
}
