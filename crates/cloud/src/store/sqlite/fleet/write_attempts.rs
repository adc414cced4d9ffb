//! Writing attempts and their details. Owns the statements; transactions are the caller's.

use orlop_core::named::Named as _;
use orlop_core::ports::fleet_store::{AttemptChange, AttemptDetail, AttemptEnd, AttemptRow};
use orlop_core::task::TaskRef;
use orlop_core::time::Time;
use rusqlite::{Connection, ErrorCode, Statement, params};

use crate::store::fleet::batch::{double, final_twice, missing};
use crate::store::fleet::column::{gpu_text, integer};
use crate::store::sqlite::error::CallError;

/// Columns of an attempt.
pub(super) const ATTEMPT: &str = "job_id, idx, attempt, member, epoch, worker, incarnation, mode, assigned_at, state, \
                                  accepted_at, started_at, finished_at, final, exit_code, signal, reason, cpu_ms, \
                                  max_rss, io_read, io_write, gpu";

fn refused(id: &TaskRef, error: rusqlite::Error) -> CallError {
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
pub(super) fn insert(connection: &Connection, attempts: &[AttemptRow]) -> Result<(), CallError> {
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
        s.raw_execute().map_err(|error| refused(&row.attempt.id, error))?;
    }
    Ok(())
}

const CHANGE: &str = "UPDATE attempts SET state = ?6, accepted_at = coalesce(?7, accepted_at), \
                      started_at = coalesce(?8, started_at), finished_at = coalesce(?9, finished_at), gpu = coalesce(?10, gpu)";
const WHICH: &str = "WHERE job_id = ?1 AND idx = ?2 AND attempt = ?3 AND member = ?4 AND epoch = ?5";

/// Changes stored attempts.
pub(super) fn change(connection: &Connection, changes: &[AttemptChange]) -> Result<(), CallError> {
    if changes.is_empty() {
        return Ok(());
    }
    let mut live = connection.prepare_cached(&format!("{CHANGE} {WHICH}"))?;
    let mut ended = connection.prepare_cached(&format!(
        "{CHANGE}, final = ?11, exit_code = ?12, signal = ?13, reason = ?14, cpu_ms = ?15, max_rss = ?16, \
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
        if statement.raw_execute().map_err(|error| refused(&change.id, error))? == 0 {
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
pub(super) fn is_double(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(ErrorCode::ConstraintViolation)
}

/// Whether it was the key of the index of final results.
pub(super) fn is_second_final(error: &rusqlite::Error) -> bool {
    // The key of the table names more columns than these two.
    let text = match error {
        rusqlite::Error::SqliteFailure(_, Some(text)) => text.as_str(),
        _ => "",
    };
    is_double(error) && text.ends_with("attempts.job_id, attempts.idx")
}
